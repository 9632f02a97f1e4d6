from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.analysis.replay.longest_path import ABSENT, Dag, longest_path
from prism_ch.model.columns import Float64
from tests import naive

NODES, STEPS = 7, 3

Edge = tuple[int, int, list[int]]


@st.composite
def edges(draw: st.DrawFn) -> list[Edge]:
    lags = st.lists(st.integers(-(10**12), 10**15), min_size=STEPS, max_size=STEPS)
    pairs = st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)).filter(lambda pair: pair[0] < pair[1])
    names = draw(st.permutations(range(NODES)))
    return [(names[a], names[b], lag) for (a, b), lag in draw(st.lists(st.tuples(pairs, lags), max_size=15))]


def work(given_edges: Sequence[Edge], begin: Float64) -> Float64:
    dag = Dag.of(NODES, [edge[0] for edge in given_edges], [edge[1] for edge in given_edges])
    lag = np.array([edge[2] for edge in given_edges], dtype=np.float64).reshape(-1, STEPS)
    return longest_path(dag, dag.sorted(lag), begin)


BEGIN = (np.arange(NODES * STEPS).reshape(NODES, STEPS) * 10.0**9).astype(np.float64)


@given(edges())
def test_longest_path_equals_recursion(given_edges: list[Edge]) -> None:
    at = work(given_edges, BEGIN)
    for step in range(STEPS):
        of_step = [(source, target, float(lag[step])) for source, target, lag in given_edges]
        expected = [naive.longest_path(of_step, BEGIN[:, step].tolist(), node) for node in range(NODES)]
        assert at[:, step].tolist() == expected


@given(edges(), st.randoms(use_true_random=False))
def test_longest_path_same_in_any_order_of_edges(given_edges: list[Edge], chances: object) -> None:
    shuffled = list(given_edges)
    chances.shuffle(shuffled)  # type: ignore[attr-defined]
    assert (work(shuffled, BEGIN) == work(given_edges, BEGIN)).all()


@given(edges(), st.integers(-(10**12), 10**12))
def test_later_beginning_shifts_all_moments(given_edges: list[Edge], later: int) -> None:
    assert (work(given_edges, BEGIN + later) == work(given_edges, BEGIN) + later).all()


@given(edges(), st.integers(0, 4))
def test_scaled_lags_scale_all_moments(given_edges: list[Edge], factor: int) -> None:
    scaled = [(source, target, [factor * one for one in lag]) for source, target, lag in given_edges]
    assert (work(scaled, factor * BEGIN) == factor * work(given_edges, BEGIN)).all()


@given(edges().filter(bool), st.data(), st.integers(0, 10**12))
def test_longer_lag_makes_nothing_earlier(given_edges: list[Edge], data: st.DataObject, longer: int) -> None:
    row = data.draw(st.integers(0, len(given_edges) - 1))
    source, target, lag = given_edges[row]
    changed = [*given_edges[:row], (source, target, [one + longer for one in lag]), *given_edges[row + 1 :]]
    assert (work(changed, BEGIN) >= work(given_edges, BEGIN)).all()


def test_absent_edge_is_not_waited_for() -> None:
    dag = Dag.of(3, [0, 1], [2, 2])
    lag = np.array([[ABSENT, 1.0], [5.0, ABSENT]])
    at = longest_path(dag, dag.sorted(lag), np.array([[9.0, 9.0], [1.0, 1.0], [0.0, 0.0]]))
    assert at[2].tolist() == [6.0, 10.0]


def test_cycle_of_edges_refused() -> None:
    with pytest.raises(ValueError, match="cycle"):
        Dag.of(2, [0, 1], [1, 0])
