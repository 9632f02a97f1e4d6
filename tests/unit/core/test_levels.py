"""Levels: differences add up to them, and wrong differences are overruled."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.core.levels import levels


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
