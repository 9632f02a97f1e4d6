"""Samples: a few flow records behind a finding, which a sceptic can look up in table `flows`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from prism_ch.model.columns import Bool, Float64, Int32
from prism_ch.model.finding import Finding
from prism_ch.model.flow import FlowBatch
from prism_ch.model.topology import Topology

#: Flow records shown with a finding: enough to look it up, few enough to read.
_SHOWN = 5


def with_sample_flows(findings: Sequence[Finding], flows: FlowBatch, topology: Topology) -> tuple[Finding, ...]:
    """Return findings of slowness with records of those they are about, at their time, in their evidence.

    Parameters: `flows`, one observation a flow, by right clocks. The slowest for their bytes are shown, of those that
    are no smaller than most: control messages tell nothing. A finding without any keeps its evidence.
    """
    if len(flows) == 0:
        return tuple(findings)
    pace = (flows.end_ns - flows.start_ns) / np.maximum(flows.bytes, 1)
    return tuple(_with_samples(finding, flows, pace, topology) for finding in findings)


def _with_samples(finding: Finding, flows: FlowBatch, pace: Float64, topology: Topology) -> Finding:
    """Return one finding with its records, the earliest first."""
    about = _about(finding, flows, topology)
    rows = np.flatnonzero(about & (flows.end_ns > finding.start_ns) & (flows.start_ns < finding.end_ns))
    if len(rows) == 0:
        return finding
    rows = rows[flows.bytes[rows] >= np.median(flows.bytes[rows])]
    rows = np.sort(rows[np.argsort(-pace[rows], kind="stable")[:_SHOWN]])
    rows = rows[np.argsort(flows.start_ns[rows], kind="stable")]
    samples = [
        {
            "time_flow_start_ns": int(flows.start_ns[row]),
            "time_flow_end_ns": int(flows.end_ns[row]),
            "src_addr": topology.endpoints[flows.src[row]],
            "dst_addr": topology.endpoints[flows.dst[row]],
            "bytes": int(flows.bytes[row]),
        }
        for row in rows.tolist()
    ]
    return replace(finding, evidence={**finding.evidence, "sample_flows": samples})


def _about(finding: Finding, flows: FlowBatch, topology: Topology) -> Bool:
    """Mask the flows between those that a finding names, or, where it names nobody, all of them, bool[n]."""
    ways = [finding.subject] if finding.subject_type in ("link", "endpoint") else []
    ways += finding.about
    about = np.zeros(len(flows), dtype=bool)
    alone: list[int] = []
    for way in ways:
        ends = [topology.index[address] for address in way.split("->") if address in topology.index]
        if len(ends) > 1:
            about |= (flows.src == ends[0]) & (flows.dst == ends[1])
        else:
            alone += ends
    if finding.subject_type == "switch" and finding.subject in topology.leaf_names:
        alone += np.flatnonzero(topology.leaf == topology.leaf_names.index(finding.subject)).tolist()
    if alone:
        members = np.unique(np.array(alone, dtype=np.int32))
        both = len(members) > 1 and finding.subject_type == "group"
        about |= _inside(flows.src, members) & _inside(flows.dst, members) if both else _touching(flows, members)
    return about if about.any() else np.ones(len(flows), dtype=bool)


def _inside(side: Int32, members: Int32) -> Bool:
    """Mask the flows with one side among some endpoints."""
    return np.isin(side, members)


def _touching(flows: FlowBatch, members: Int32) -> Bool:
    """Mask the flows with either side among some endpoints."""
    return _inside(flows.src, members) | _inside(flows.dst, members)
