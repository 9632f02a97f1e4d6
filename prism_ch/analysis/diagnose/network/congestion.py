"""Congestion: what is slow for a job because others cross the same port, which itself moves as much as it ever did.

A port that is shared gives each its part; one that is broken moves less than before, all flows taken together. Ports of
endpoints alone are looked at: records do not say which uplink a flow took.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from prism_ch.analysis.diagnose.findings import identity
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.finding import Finding
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import TimePerByteParams
from prism_ch.model.topology import Topology

#: Findings that may be no fault after all.
_OF_PORTS = ("slow_nic", "slow_link")


def tell_congestion(
    findings: Sequence[Finding],
    job_id: str,
    flows: FlowBatch,
    members: Int32,
    topology: Topology,
    params: TimePerByteParams,
) -> tuple[Finding, ...]:
    """Return findings of a job, those as congestion that others on the same port explain.

    Parameters: `flows`, one observation a flow, of the job and of all others; `members` int32[m], the job's endpoints.
    """
    accused = [finding for finding in findings if finding.kind in _OF_PORTS]
    if not accused:
        return tuple(findings)
    inside = np.isin(flows.src, members) & np.isin(flows.dst, members)
    return tuple(
        _explained(finding, job_id, flows, inside, topology, params) if finding in accused else finding
        for finding in findings
    )


def _explained(
    finding: Finding, job_id: str, flows: FlowBatch, inside: Bool, topology: Topology, params: TimePerByteParams
) -> Finding:
    """Return one finding, as congestion of the port that others use most, where that port is as fast as usual."""
    usual = finding.baseline.s_per_byte
    during = (flows.end_ns > finding.start_ns) & (flows.start_ns < finding.end_ns)
    best: tuple[float, str] | None = None
    for side in ("src", "dst"):
        for way, s_per_byte in usual.items():
            first, _, second = way.partition("->")  # a group has no ends
            if first not in topology.index or second not in topology.index:
                continue
            ends = (topology.index[first], topology.index[second])
            port = getattr(flows, side) == ends[side == "dst"]
            mine = np.flatnonzero(inside & during & (flows.src == ends[0]) & (flows.dst == ends[1]))
            others = np.flatnonzero(~inside & during & port)
            share = _share_of_others(flows, mine, others, s_per_byte, params)
            if share > 0 and (best is None or share > best[0]):
                best = (share, topology.endpoints[ends[side == "dst"]])
    return finding if best is None else _congestion(finding, job_id, *best)


def _share_of_others(
    flows: FlowBatch, mine: Int64, others: Int64, usual_s_per_byte: float, params: TimePerByteParams
) -> float:
    """Return the part of a port that others take while a job's slow flows cross it; 0 where they explain nothing.

    They do where the port, all flows taken together, moves its bytes in no longer than what is slow needs.
    """
    length_s = (flows.end_ns[mine] - flows.start_ns[mine]) / 1e9
    slow = (length_s > 0) & (length_s >= (1 + params.network_excess) * usual_s_per_byte * flows.bytes[mine])
    if len(others) == 0 or not slow.any():
        return 0.0
    mine, length_s = mine[slow], length_s[slow]
    foreign = np.diff(_moved(flows, others, np.stack([flows.start_ns[mine], flows.end_ns[mine]], axis=1)), axis=1)[:, 0]
    together = length_s / (flows.bytes[mine] + foreign)
    if np.median(together) > (1 + params.network_excess) * usual_s_per_byte:
        return 0.0
    return float(np.median(foreign / (flows.bytes[mine] + foreign)))


def _moved(flows: FlowBatch, rows: Int64, at_ns: Int64) -> Float64:
    """Return the bytes that some flows have moved up to some moments, each evenly over its time: of `at_ns`'s shape."""
    start, end = flows.start_ns[rows], flows.end_ns[rows]
    begin = int(start.min())
    rate = flows.bytes[rows] / np.maximum(end - start, 1)
    moved = np.zeros(at_ns.shape)
    for edge, sign in ((start, 1.0), (end, -1.0)):
        order = np.argsort(edge)
        rates = np.concatenate([[0.0], np.cumsum(rate[order])])
        offsets = np.concatenate([[0.0], np.cumsum(rate[order] * (edge[order] - begin))])
        place = np.searchsorted(edge[order], at_ns)
        moved += sign * (rates[place] * (at_ns - begin) - offsets[place])
    return moved


def _congestion(finding: Finding, job_id: str, share: float, address: str) -> Finding:
    """Put it into words and numbers."""
    return replace(
        finding,
        diagnosis_id=identity(job_id, "congestion", address, finding.first_step),
        kind="congestion",
        subject_type="endpoint",
        subject=address,
        severity="info",
        summary=(
            f"Flows of this job take {finding.observed:.2g} times as long for their bytes while others take "
            f"{share:.0%} of the port of {address}, which moves as much as ever: no fault; let those others go "
            "another way or at another time."
        ),
        evidence={**finding.evidence, "share_of_others": round(share, 4), "instead_of": finding.kind},
    )
