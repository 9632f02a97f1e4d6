"""What was read of a span and what it lacks are together what a source has of it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.model.flow import FlowBatch
from prism_ch.model.flow_span import FlowSpan, ReadFlows
from prism_ch.model.window import Interval
from tests.unit.analysis.build import BEGIN_NS, MS, Flow, batch
from tests.unit.chain import FlowsInMemory

ENDPOINTS = 5
LASTS_MS = 20

TIMES = st.tuples(st.integers(0, LASTS_MS), st.integers(0, LASTS_MS)).map(
    lambda ends: Interval(BEGIN_NS + min(ends) * MS, BEGIN_NS + max(ends) * MS)
)


@st.composite
def spans(draw: st.DrawFn) -> FlowSpan:
    """Draw a span of all flows, or of those between endpoints, also since times of their own, or between two sets."""
    time, form = draw(TIMES), draw(st.sampled_from(["all", "between", "since", "across"]))
    place = np.array(draw(st.lists(st.integers(0, 2), min_size=ENDPOINTS, max_size=ENDPOINTS)))
    if form == "all":
        return FlowSpan(time)
    if form == "since":
        moments = st.lists(st.integers(-2, LASTS_MS), min_size=ENDPOINTS, max_size=ENDPOINTS)
        return FlowSpan(time, place == 0, since_ns=BEGIN_NS + np.array(draw(moments)) * MS)
    return FlowSpan(time, place == 0, place == 1 if form == "across" else None)


def all_flows() -> FlowBatch:
    """Make flows from each endpoint to each other one that end at each moment, of two exporters."""
    ends = [(src, dst) for src in range(ENDPOINTS) for dst in range(ENDPOINTS) if src != dst]
    made = [
        Flow(src, dst, at - 3, 3, exporter=("leaf", "spine")[(src + at) % 2])
        for src, dst in ends
        for at in range(LASTS_MS)
    ]
    return batch(made)


FLOWS = all_flows()


def rows(flows: FlowBatch) -> list[tuple[object, ...]]:
    """List the flows of a batch, the exporter of each by name."""
    exporters = [flows.exporters[code] for code in flows.exporter.tolist()]
    return list(zip(flows.src.tolist(), flows.dst.tolist(), flows.start_ns.tolist(), exporters, strict=True))


@given(st.lists(spans(), max_size=4), spans())
def test_kept_flows_and_what_is_lacking_are_a_whole_span(read: list[FlowSpan], wanted: FlowSpan) -> None:
    source = FlowsInMemory(FLOWS)
    held = np.logical_or.reduce([np.zeros(len(FLOWS), dtype=bool), *(span.mask(FLOWS) for span in read)])
    kept = ReadFlows(tuple(read), FLOWS.take(held))
    parts = [kept.of(wanted), *map(source.read, kept.lacks(wanted))]
    assert sorted(row for part in parts for row in rows(part)) == rows(source.read(wanted))


@given(spans())
def test_nothing_is_lacking_of_a_span_that_was_read(span: FlowSpan) -> None:
    assert sum(len(FlowsInMemory(FLOWS).read(rest)) for rest in ReadFlows((span,), FLOWS).lacks(span)) == 0


def test_only_newcomers_are_read_where_others_were() -> None:
    time, old, new = Interval(BEGIN_NS, BEGIN_NS + LASTS_MS * MS), np.arange(ENDPOINTS) < 3, np.arange(ENDPOINTS) < 4
    source = FlowsInMemory(FLOWS)
    kept = ReadFlows((FlowSpan(time, old),), source.read(FlowSpan(time, old)))
    source.rows_read = 0
    for lacking in kept.lacks(FlowSpan(time, new)):
        source.read(lacking)
    assert source.rows_read == 6 * LASTS_MS  # to each of three, and back


@given(spans(), st.integers(1, 4))
def test_slabs_hold_a_span_each_flow_once(span: FlowSpan, most: int) -> None:
    source = FlowsInMemory(FLOWS)
    slabs = list(span.slabs(most))
    parts = [part.take(span.mask(part)) for part in map(source.read, slabs)]
    assert len(slabs) <= most
    assert sorted(row for part in parts for row in rows(part)) == rows(source.read(span))


def test_jobs_read_longer_each_for_their_own_time() -> None:
    time, everyone = Interval(BEGIN_NS, BEGIN_NS + LASTS_MS * MS), np.ones(ENDPOINTS, dtype=bool)
    since_ns = BEGIN_NS + np.array([0, 0, 10, 10, 10]) * MS
    source = FlowsInMemory(FLOWS)
    before = FlowSpan(time, everyone, since_ns=since_ns)
    kept = ReadFlows((before,), source.read(before))
    assert len(kept.flows) == (2 * LASTS_MS + 18 * 10)
    assert kept.lacks(FlowSpan(time, everyone, since_ns=since_ns + 5 * MS)) == ()
    source.rows_read = 0
    longer = np.where(np.arange(ENDPOINTS) == 2, BEGIN_NS, since_ns)
    for lacking in kept.lacks(FlowSpan(time, everyone, since_ns=longer)):
        source.read(lacking)
    assert source.rows_read == 4 * LASTS_MS + 4 * 10  # of one endpoint, with two since then and with two since later
