"""Places in chains: as far from an end as one walks, wherever the chain lies and however its edges come."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.core.chains import distance_from_end

NODES = 9


def distances(edges: list[tuple[int, int]], n: int = NODES) -> list[int]:
    a, b = np.array(edges, dtype=np.int32).reshape(-1, 2).T
    found: list[int] = distance_from_end(n, a, b).tolist()
    return found


@given(st.permutations(range(NODES)), st.integers(1, NODES), st.data())
def test_a_chain_counts_from_the_end_with_the_smaller_number(name: list[int], length: int, data: st.DataObject) -> None:
    chain = name[:length] if name[0] <= name[length - 1] else name[:length][::-1]
    edges = data.draw(st.permutations(list(pairwise(chain))))
    turned = [edge[::-1] if data.draw(st.booleans()) else edge for edge in edges]
    expected = [chain.index(node) if node in chain and length > 1 else -1 for node in range(NODES)]
    assert distances(turned) == expected


def test_each_of_several_counts_by_itself_and_nothing_has_no_place() -> None:
    assert distances([(4, 0), (4, 7), (2, 5)]) == [0, -1, 0, -1, 1, 1, -1, 2, -1]
    assert distances([]) == [-1] * NODES
    assert distances([], 0) == []


def test_an_edge_of_a_node_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        distances([(0, NODES)])
