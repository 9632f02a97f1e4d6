"""Flows by pair: those of some endpoints are the ones that a look at every flow finds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.model.columns import Int32
from prism_ch.model.flow import FlowBatch
from prism_ch.model.flows_by_pair import FlowsByPair
from tests.unit.analysis.build import Flow, batch

ENDPOINTS = 6
FLOWS = st.lists(
    st.builds(Flow, st.integers(0, ENDPOINTS - 1), st.integers(0, ENDPOINTS - 1), st.integers(0, 20), st.just(1)),
    max_size=30,
)
SOME = st.sets(st.integers(0, ENDPOINTS - 1)).map(lambda rows: np.array(sorted(rows), dtype=np.int32))


@given(FLOWS, SOME)
def test_flows_of_some_endpoints_are_those_of_a_full_scan(listed: list[Flow], some: Int32) -> None:
    flows = batch(listed) if listed else FlowBatch.empty()
    by_pair = FlowsByPair.of(flows)
    sends, gets = np.isin(flows.src, some), np.isin(flows.dst, some)
    assert by_pair.rows_at(some).tolist() == np.flatnonzero(sends | gets).tolist()
    assert by_pair.rows_across(some).tolist() == np.flatnonzero(sends != gets).tolist()
    assert by_pair.earliest_ns == (int(flows.end_ns.min()) if listed else None)
