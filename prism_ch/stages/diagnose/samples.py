"""Samples: a few flow records behind a finding, which a sceptic can look up in table `flows`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from prism_ch.model.columns import Bool, Float64, Int32
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import DiagnoseParams
from prism_ch.model.result import Diagnosis
from prism_ch.model.topology import Topology

#: Parts of the evidence that name endpoints, or ways between them.
_NAMED = ("endpoints", "members", "observed_s_per_byte", "last_ready")


def with_sample_flows(
    findings: Sequence[Diagnosis], flows: FlowBatch, topology: Topology, params: DiagnoseParams
) -> tuple[Diagnosis, ...]:
    """Return findings of slowness with records of those they are about, at their time, in their evidence.

    Parameters: `flows`, one observation a flow, by right clocks. The slowest for their bytes are shown, of those that
    are no smaller than most: control messages tell nothing. A finding without any keeps its evidence.
    """
    if len(flows) == 0:
        return tuple(findings)
    pace = (flows.end_ns - flows.start_ns) / np.maximum(flows.bytes, 1)
    return tuple(_with_samples(finding, flows, pace, topology, params) for finding in findings)


def _with_samples(
    finding: Diagnosis, flows: FlowBatch, pace: Float64, topology: Topology, params: DiagnoseParams
) -> Diagnosis:
    """Return one finding with its records, the earliest first."""
    evidence = json.loads(finding.evidence)
    about = _about(finding, evidence, flows, topology)
    rows = np.flatnonzero(about & (flows.end_ns > finding.start_ns) & (flows.start_ns < finding.end_ns))
    if len(rows) == 0:
        return finding
    rows = rows[flows.bytes[rows] >= np.median(flows.bytes[rows])]
    rows = np.sort(rows[np.argsort(-pace[rows], kind="stable")[: params.sample_flows]])
    rows = rows[np.argsort(flows.start_ns[rows], kind="stable")]
    evidence["sample_flows"] = [
        {
            "time_flow_start_ns": int(flows.start_ns[row]),
            "time_flow_end_ns": int(flows.end_ns[row]),
            "src_addr": topology.endpoints[flows.src[row]],
            "dst_addr": topology.endpoints[flows.dst[row]],
            "bytes": int(flows.bytes[row]),
        }
        for row in rows.tolist()
    ]
    return replace(finding, evidence=json.dumps(evidence))


def _about(finding: Diagnosis, evidence: dict[str, object], flows: FlowBatch, topology: Topology) -> Bool:
    """Mask the flows between those that a finding names, or, where it names nobody, all of them, bool[n]."""
    ways = [finding.subject] if finding.subject_type in ("link", "endpoint") else []
    for part in _NAMED:
        named = evidence.get(part, ())
        ways += [named] if isinstance(named, str) else [str(one) for one in named]  # type: ignore[attr-defined]
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
