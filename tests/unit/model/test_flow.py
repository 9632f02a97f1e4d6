"""Flow batches: parts join to what the whole would have been."""

from __future__ import annotations

import tracemalloc
from dataclasses import fields, replace
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.model import flow as batches
from prism_ch.model.flow import FlowBatch
from tests.unit.analysis.build import Flow, batch

flows = st.lists(
    st.builds(
        Flow,
        src=st.integers(0, 3),
        dst=st.integers(4, 6),
        start_ms=st.integers(0, 9),
        port=st.integers(1, 3),
        exporter=st.sampled_from(["", "leaf", "spine"]),
        way=st.sampled_from([(), ("leaf", "spine"), ("leaf", "core", "leaf")]),
    ),
    unique=True,
    max_size=20,
)


def columns(flows_: FlowBatch) -> list[tuple[object, ...]]:
    """The rows, with exporters and ways by name."""
    names = [flows_.exporters[code] for code in flows_.exporter]
    ways = [flows_.ways[code] if code >= 0 else () for code in flows_.way]
    others = ("exporter", "exporters", "way", "ways")
    numbers = [getattr(flows_, field.name).tolist() for field in fields(FlowBatch) if field.name not in others]
    return list(zip(*numbers, names, ways, strict=True))


@given(flows, st.lists(st.integers(0, 2), min_size=20, max_size=20), st.sampled_from([1, 4, 1 << 18]))
def test_however_a_batch_is_cut_its_parts_join_to_the_whole(seen: list[Flow], part: list[int], at_once: int) -> None:
    parts = [batch([flow for flow, number in zip(seen, part, strict=False) if number == n]) for n in range(3)]
    with patch.object(batches, "ROWS_AT_ONCE", at_once):
        joined = FlowBatch.concat(parts)
    order = [(flow.src, flow.dst, flow.start_ns, flow.end_ns, flow.port) for flow in seen]
    keys = ("src", "dst", "start_ns", "end_ns", "src_port")
    assert list(zip(*(getattr(joined, key).tolist() for key in keys), strict=True)) == sorted(order)
    assert sorted(columns(joined)) == sorted(columns(batch(seen)))


def test_exporters_are_numbered_anew_where_batches_name_others() -> None:
    joined = FlowBatch.concat([batch([Flow(0, 1, 0, exporter="b")]), batch([Flow(0, 1, 5, exporter="a")])])
    assert joined.exporters == ("a", "b")
    assert joined.exporter.tolist() == [1, 0]


def test_rows_are_taken_with_all_exporters() -> None:
    seen = batch([Flow(0, 1, 0, exporter="a"), Flow(0, 1, 5, exporter="b")])
    later = seen.take(seen.start_ns > seen.start_ns.min())
    assert (len(later), later.exporters, later.exporter.tolist()) == (1, ("a", "b"), [1])


def five_tuples(flows_: FlowBatch) -> list[tuple[int, ...]]:
    """The 5-tuple of each row."""
    names = ("src", "dst", "src_port", "dst_port", "proto")
    return list(zip(*(getattr(flows_, name).tolist() for name in names), strict=True))


@given(flows)
def test_rows_of_one_five_tuple_have_one_number(seen: list[Flow]) -> None:
    made = batch(seen)
    numbers, named = made.five_tuples().tolist(), five_tuples(made)
    assert len(set(numbers)) == len(set(named)) == len(set(zip(numbers, named, strict=True)))
    assert set(numbers) == set(range(len(set(numbers))))


@given(flows)
def test_rows_are_shared_when_several_exporters_saw_them(seen: list[Flow]) -> None:
    made = batch(seen)
    named = five_tuples(made)
    exporters = {key: {code for other, code in zip(named, made.exporter, strict=True) if other == key} for key in named}
    assert made.shared().tolist() == [len(exporters[key]) > 1 for key in named]


@given(flows, st.lists(st.integers(-20, 20), min_size=20, max_size=20), st.sampled_from([1, 4, 1 << 18]))
def test_moved_rows_are_sorted_anew_and_otherwise_the_same(seen: list[Flow], by_ms: list[int], at_once: int) -> None:
    made = batch(seen)
    by_ns = np.array(by_ms[: len(made)], np.int64) * 10**6
    with patch.object(batches, "ROWS_AT_ONCE", at_once):
        moved = made.moved(by_ns.__getitem__)
    wanted = replace(made, start_ns=made.start_ns + by_ns, end_ns=made.end_ns + by_ns)
    assert sorted(columns(moved)) == sorted(columns(wanted))
    keys = ("src", "dst", "start_ns", "end_ns", "src_port")
    order = list(zip(*(getattr(moved, key).tolist() for key in keys), strict=True))
    assert order == sorted(order)


def test_of_what_stays_in_order_only_times_are_copied() -> None:
    made = batch([Flow(0, 1, 0), Flow(0, 1, 50), Flow(1, 0, 5)])
    moved = made.moved(np.array([10**6, 0, -(10**6)]).__getitem__)
    assert (moved.bytes is made.bytes, moved.start_ns is made.start_ns) == (True, False)


def test_parts_that_nobody_else_holds_go_while_they_are_joined() -> None:
    times = np.arange(100_000)
    src = (times // 5000).astype(np.int32)
    tracemalloc.start()
    try:
        one = batch([Flow(0, 1, 0)])
        parts = [replace(one.take(times * 0), src=src.copy(), start_ns=2 * times + late) for late in (0, 1)]
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        with patch.object(batches, "ROWS_AT_ONCE", len(times) // 10):
            joined = FlowBatch.concat(parts.pop() for _ in range(2))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert joined.start_ns.tolist() == list(range(2 * len(times)))
    assert peak < 1.5 * held


def test_ticks_divide_all_times_of_an_exporter() -> None:
    fine = [Flow(0, 1, at + 0.000_007, exporter="fine") for at in range(5)]
    coarse = [Flow(0, 1, at, length_ms=20, exporter="coarse") for at in range(0, 500, 10)]
    seen = batch([*fine, *coarse], ["coarse", "fine", "silent"])
    assert seen.ticks_ns().tolist() == [10**7, 1, 10**9]


def test_empty() -> None:
    assert len(FlowBatch.empty()) == 0
    assert len(FlowBatch.concat([FlowBatch.empty(), batch([Flow(0, 1, 0)])])) == 1


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"FlowBatch\.bytes has 2 rows"):
        replace(batch([Flow(0, 1, 0)]), bytes=np.zeros(2, np.int64))


@given(flows, st.lists(st.integers(0, 9), max_size=6))
def test_rows_between_endpoints_are_those_of_a_look_at_each(seen: list[Flow], endpoints: list[int]) -> None:
    flows_ = batch(seen)
    found = flows_.rows_between(np.array(endpoints, dtype=np.int32))
    both = np.isin(flows_.src, endpoints) & np.isin(flows_.dst, endpoints)
    assert found.tolist() == np.flatnonzero(both).tolist()


@given(flows, st.lists(st.integers(0, 4), max_size=2))
def test_parts_by_sender_join_to_the_whole_in_order(seen: list[Flow], cuts: list[int]) -> None:
    whole = batch(seen)
    edges = [0, *np.searchsorted(whole.src, sorted(cuts)).tolist(), len(whole)]
    parts = [whole.take(np.arange(low, high)).with_used_names() for low, high in pairwise(edges)]
    joined = FlowBatch.in_order(iter(parts))
    assert columns(joined) == columns(whole)
    assert list(joined.exporters) == sorted({whole.exporters[code] for code in whole.exporter})
    assert list(joined.ways) == sorted({whole.ways[code] for code in whole.way if code >= 0})


def test_a_batch_alone_is_not_copied() -> None:
    one = batch([Flow(0, 1, 0), Flow(1, 0, 5)])
    assert FlowBatch.concat([one]).bytes.base is one.bytes.base


@pytest.mark.parametrize("rows", [[0, 1, 2], [2, 0]])
def test_ticks_of_some_are_those_of_a_batch_of_them(rows: list[int]) -> None:
    seen = batch([Flow(0, 1, 6, 12), Flow(1, 2, 9, 3, exporter="leaf"), Flow(2, 3, 30, 10)])
    some = np.array(rows)
    assert seen.ticks_ns(some).tolist() == seen.take(some).ticks_ns().tolist()
    assert seen.ticks_ns().tolist() == seen.ticks_ns(np.arange(3)).tolist()
