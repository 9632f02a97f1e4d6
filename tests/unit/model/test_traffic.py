"""Bursts: what is cut out of them is what a look at each would find."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.model.traffic import Traffic
from tests.unit.analysis.build import Flow, traffic

ENDPOINTS = 4
flows = st.lists(
    st.builds(
        Flow,
        src=st.integers(0, ENDPOINTS - 1),
        dst=st.integers(ENDPOINTS, 2 * ENDPOINTS - 1),
        start_ms=st.integers(0, 9).map(lambda place: 100 * place),
    ),
    unique=True,
    max_size=20,
)


def same(one: Traffic, other: Traffic) -> bool:
    return all(np.array_equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(Traffic))


@given(flows, st.data())
def test_pairs_without_a_burst_go_and_the_others_keep_theirs(seen: list[Flow], data: st.DataObject) -> None:
    whole = traffic(seen)
    some = whole.take(np.array(data.draw(st.lists(st.booleans(), min_size=len(whole), max_size=len(whole))), bool))
    assert same(some.without_silent_pairs(), some.keep_pairs(some.moving()))
    assert some.moving_pairs().tolist() == np.flatnonzero(some.moving()).tolist()


@given(flows, st.data())
def test_bursts_of_some_pairs_are_those_of_a_look_at_each(seen: list[Flow], data: st.DataObject) -> None:
    whole = traffic(seen)
    pairs = sorted(data.draw(st.sets(st.sampled_from(range(len(whole.pair_src)))))) if len(whole) else []
    found = whole.rows_of(np.array(pairs, np.int64))
    assert found.tolist() == np.flatnonzero(np.isin(whole.pair, pairs)).tolist()


@given(flows, st.data())
def test_what_pairs_have_in_all_is_a_look_at_each_burst(seen: list[Flow], data: st.DataObject) -> None:
    whole = traffic(seen)
    some = whole.take(np.array(data.draw(st.lists(st.booleans(), min_size=len(whole), max_size=len(whole))), bool))
    counts, moved, span_ns = some.counts_of_pairs(), some.sums_of_pairs(some.payload), some.span_ns()
    for pair in range(len(some.pair_src)):
        rows = some.pair == pair
        assert counts[pair] == rows.sum()
        assert moved[pair] == some.payload[rows].sum()
        assert span_ns[pair] == (some.end_ns[rows].max() - some.start_ns[rows].min() if rows.any() else 0)
