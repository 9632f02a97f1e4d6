"""Connected components: equal to breadth-first search, whatever the order of the edges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.core.disjoint_set import components
from tests import naive

NODES = 12
Edges = list[tuple[int, int]]
edge_lists = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=20)


def label(n: int, edges: Edges) -> list[int]:
    a, b = np.array(edges, dtype=np.int32).reshape(-1, 2).T
    found = components(n, a, b)
    assert found.dtype == np.int32
    return list(map(int, found))


@given(edge_lists)
def test_equals_breadth_first_search(edges: Edges) -> None:
    assert label(NODES, edges) == naive.components(NODES, edges)


@given(edge_lists.flatmap(lambda edges: st.tuples(st.just(edges), st.permutations(edges))), st.data())
def test_order_direction_and_repeats_of_edges_do_not_matter(both: tuple[Edges, Edges], data: st.DataObject) -> None:
    edges, shuffled = both
    flips = data.draw(st.lists(st.booleans(), min_size=len(edges), max_size=len(edges)))
    turned = [(b, a) if flip else (a, b) for (a, b), flip in zip(shuffled, flips, strict=True)]
    assert label(NODES, turned + shuffled) == label(NODES, edges)


def test_no_nodes_and_no_edges() -> None:
    assert label(0, []) == []
    assert label(3, []) == [0, 1, 2]


@pytest.mark.parametrize("n,edge", [(3, (0, 3)), (3, (-1, 0)), (0, (0, 0))])
def test_an_unknown_node_is_refused(n: int, edge: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="an edge names a node outside"):
        label(n, [edge])
