"""Graphs: components as by breadth-first search, places in chains, levels from differences, overlap of sets."""

from __future__ import annotations

import tracemalloc
from itertools import combinations, pairwise
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.core import graph
from prism_ch.core.arrays import Int32
from prism_ch.core.graph import components, distance_from_end, levels, overlaps, pairs_within
from tests import naive

NODES = 12
Edges = list[tuple[int, int]]
edge_lists = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=20)


def labels(n: int, edges: Edges) -> list[int]:
    a, b = np.array(edges, dtype=np.int32).reshape(-1, 2).T
    found = components(n, a, b)
    assert found.dtype == np.int32
    return list(map(int, found))


@given(edge_lists)
def test_equals_breadth_first_search(edges: Edges) -> None:
    expected = naive.components(NODES, edges)
    assert labels(NODES, edges) == expected
    with patch.object(graph, "_FEW", 0):
        assert labels(NODES, edges) == expected


@given(edge_lists.flatmap(lambda edges: st.tuples(st.just(edges), st.permutations(edges))), st.data())
def test_order_direction_and_repeats_of_edges_do_not_matter(both: tuple[Edges, Edges], data: st.DataObject) -> None:
    edges, shuffled = both
    flips = data.draw(st.lists(st.booleans(), min_size=len(edges), max_size=len(edges)))
    turned = [(b, a) if flip else (a, b) for (a, b), flip in zip(shuffled, flips, strict=True)]
    assert labels(NODES, turned + shuffled) == labels(NODES, edges)


def test_no_nodes_and_no_edges() -> None:
    assert labels(0, []) == []
    assert labels(3, []) == [0, 1, 2]


@pytest.mark.parametrize("n,edge", [(3, (0, 3)), (3, (-1, 0)), (0, (0, 0))])
def test_an_unknown_node_is_refused(n: int, edge: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="an edge names a node outside"):
        labels(n, [edge])


PLACES = 9


def distances(edges: list[tuple[int, int]], n: int = PLACES) -> list[int]:
    a, b = np.array(edges, dtype=np.int32).reshape(-1, 2).T
    found: list[int] = distance_from_end(n, a, b).tolist()
    return found


@given(st.permutations(range(PLACES)), st.integers(1, PLACES), st.data())
def test_a_chain_counts_from_the_end_with_the_smaller_number(name: list[int], length: int, data: st.DataObject) -> None:
    chain = name[:length] if name[0] <= name[length - 1] else name[:length][::-1]
    edges = data.draw(st.permutations(list(pairwise(chain))))
    turned = [edge[::-1] if data.draw(st.booleans()) else edge for edge in edges]
    expected = [chain.index(node) if node in chain and length > 1 else -1 for node in range(PLACES)]
    assert distances(turned) == expected


def test_several_chains_count_apart_and_lone_nodes_have_no_place() -> None:
    assert distances([(4, 0), (4, 7), (2, 5)]) == [0, -1, 0, -1, 1, 1, -1, 2, -1]
    assert distances([]) == [-1] * PLACES
    assert distances([], 0) == []


def test_an_edge_of_a_node_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        distances([(0, PLACES)])


def solve(edges: list[tuple[int, int, float]], count: int, weight: float = 1.0) -> npt.NDArray[np.float64]:
    first, second, difference = (
        (np.array(column) for column in zip(*edges, strict=True)) if edges else [np.empty(0)] * 3
    )
    nodes = (first.astype(np.int32), second.astype(np.int32))
    return levels(*nodes, difference.astype(np.float64), np.full(len(edges), weight), count)


def relative(level: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    above: npt.NDArray[np.float64] = level - level[0]
    return above


def every_difference(true: list[float]) -> list[tuple[int, int, float]]:
    return [(a, b, true[b] - true[a]) for a, b in combinations(range(len(true)), 2)]


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=8))
def test_exact_differences_give_exact_levels(true: list[float]) -> None:
    np.testing.assert_allclose(relative(solve(every_difference(true), len(true))), relative(np.array(true)), atol=1e-6)


@given(st.lists(st.floats(-1, 1), min_size=5, max_size=8), st.floats(-10, 10), st.data())
def test_one_wrong_difference_among_many_changes_nothing(true: list[float], error: float, data: st.DataObject) -> None:
    edges = every_difference(true)
    wrong = data.draw(st.integers(0, len(edges) - 1))
    a, b, difference = edges[wrong]
    edges[wrong] = (a, b, difference + error)
    np.testing.assert_allclose(relative(solve(edges, len(true))), relative(np.array(true)), atol=1e-4)


def test_a_chain_adds_up() -> None:
    np.testing.assert_allclose(
        relative(solve([(0, 1, 0.2), (2, 1, 0.3), (2, 3, 1.0)], 4)), [0, 0.2, -0.1, 0.9], atol=1e-6
    )


def test_sets_that_nothing_joins_are_levelled_each_by_itself() -> None:
    level = solve([(0, 1, 0.5), (2, 3, -4.0)], 5)
    np.testing.assert_allclose([level[1] - level[0], level[3] - level[2]], [0.5, -4.0], atol=1e-6)
    assert np.isfinite(level).all()


def test_the_unit_of_weights_does_not_matter() -> None:
    edges = [(0, 1, 0.2), (1, 2, 0.3), (0, 2, 0.9)]
    np.testing.assert_allclose(relative(solve(edges, 3, 1e-6)), relative(solve(edges, 3, 1e9)), atol=1e-6)


def test_where_all_agree_or_nothing_is_measured_all_are_level() -> None:
    assert solve([(0, 1, 0.0)], 3).tolist() == [0, 0, 0]
    assert solve([], 2).tolist() == [0, 0]


families = st.lists(st.sets(st.integers(0, 8), max_size=6), min_size=1, max_size=6)


def columns(family: list[set[int]], repeat: int = 1) -> tuple[Int32, Int32]:
    rows = [(i, item) for i, items in enumerate(family) for item in items] * repeat
    set_id, item_id = np.array(rows, dtype=np.int32).reshape(-1, 2).T
    return set_id, item_id


@given(families, st.integers(1, 3))
def test_overlap_equals_pythons_sets_however_often_repeated(family: list[set[int]], repeat: int) -> None:
    family = [*family, {0}]  # there are sets up to the last that is not empty
    left, right, share = overlaps(*columns(family, repeat))
    wanted = [(i, j, naive.overlap(family[i], family[j])) for i, j in combinations(range(len(family)), 2)]
    found = list(zip(left.tolist(), right.tolist(), share.tolist(), strict=True))
    assert found == [(i, j, pytest.approx(each)) for i, j, each in wanted if each > 0]


@given(st.lists(st.integers(0, 4), max_size=12))
def test_pairs_within_groups_are_those_of_a_look_at_each_two(group: list[int]) -> None:
    left, right = pairs_within(np.array(group, np.int32))
    wanted = [(i, j) for i, j in combinations(range(len(group)), 2) if group[i] == group[j]]
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == wanted


def test_many_sets_that_share_little_take_no_table_of_every_two() -> None:
    sets = np.arange(20_000, dtype=np.int32)
    tracemalloc.start()
    try:
        left, right, share = overlaps(np.repeat(sets, 2), np.repeat(sets, 2) + np.tile([0, 1], len(sets)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (left.tolist(), right.tolist()) == (sets[:-1].tolist(), sets[1:].tolist())
    assert set(share.tolist()) == {0.5}
    assert peak < 20 * 2**20


def test_no_sets_have_no_overlap() -> None:
    nothing = np.empty(0, dtype=np.int32)
    assert [len(each) for each in overlaps(nothing, nothing)] == [0, 0, 0]


def test_overlap_refuses_negative_ids_and_unequal_columns() -> None:
    with pytest.raises(ValueError, match="an id is negative"):
        overlaps(np.array([0], dtype=np.int32), np.array([-1], dtype=np.int32))
    with pytest.raises(ValueError, match="item_id has 2 rows"):
        overlaps(np.zeros(1, dtype=np.int32), np.zeros(2, dtype=np.int32))
