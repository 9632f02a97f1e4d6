"""A cut holds the flows between its endpoints that end in its span, and copies none before they are looked at."""

from __future__ import annotations

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.model.flow_cut import FlowCut
from tests.unit.analysis.build import BEGIN_NS, MS, Flow, batch

FLOWS = batch([Flow(src, dst, at, 2) for src in range(4) for dst in range(4) if src != dst for at in range(0, 30, 5)])


@given(st.sets(st.integers(0, 5), max_size=4), st.integers(0, 35), st.integers(0, 35))
def test_a_cut_is_what_a_look_at_each_flow_gives(endpoints: set[int], begin_ms: int, end_ms: int) -> None:
    begin_ns, end_ns = BEGIN_NS + begin_ms * MS, BEGIN_NS + end_ms * MS
    found = FlowCut(FLOWS, np.array(sorted(endpoints), np.int32), begin_ns, end_ns)
    rows = [
        row
        for row, (src, dst, end) in enumerate(zip(FLOWS.src, FLOWS.dst, FLOWS.end_ns, strict=True))
        if {int(src), int(dst)} <= endpoints and begin_ns <= end < end_ns
    ]
    assert found.batch().start_ns.tolist() == FLOWS.start_ns[rows].tolist()
    assert found.batch().src.tolist() == FLOWS.src[rows].tolist()
    assert found.is_empty() == (not rows)
    again = FlowCut(FLOWS).within(np.array(sorted(endpoints), np.int32), begin_ns, end_ns)
    assert again.batch().end_ns.tolist() == FLOWS.end_ns[rows].tolist()


def test_all_flows_are_those_of_the_batch_itself() -> None:
    assert FlowCut(FLOWS).batch() is FLOWS
    assert FlowCut(FLOWS, np.arange(4, dtype=np.int32), 0, 2**62).batch() is FLOWS


def test_only_its_own_flows_travel() -> None:
    found = FlowCut(FLOWS, np.array([0, 1], np.int32), 0, 2**62)
    there = pickle.loads(pickle.dumps(found))  # noqa: S301 - written a line before
    assert len(there.whole) == len(found.batch()) == 12
    assert there.batch().end_ns.tolist() == found.batch().end_ns.tolist()
