"""Sharing: what jobs show of a port that others use as well (congestion), and of a switch behind several of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from prism_ch.analysis.diagnose.findings import EVIDENCE_ROWS, identity
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.finding import Baseline, Finding
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import TimePerByteParams
from prism_ch.model.topology import Topology


def without_congestion(
    findings: Sequence[Finding],
    job_id: str,
    flows: FlowBatch,
    members: Int32,
    topology: Topology,
    params: TimePerByteParams,
) -> tuple[Finding, ...]:
    """Turn slow NICs and links into congestion if others on the port explain them.

    A port that is shared gives each its part; one that is broken moves less than before, all flows taken together.
    Ports of endpoints alone are looked at: records do not show which uplink a flow took.
    Parameters: `flows`, one observation a flow, of the job and of all others; `members` int32[m], the job's endpoints.
    """
    if not any(finding.kind in ("slow_nic", "slow_link") for finding in findings):
        return tuple(findings)
    inside = np.zeros(len(flows), dtype=np.bool_)
    inside[flows.rows_between(members)] = True
    return tuple(
        _as_congestion(finding, job_id, flows, inside, topology, params)
        if finding.kind in ("slow_nic", "slow_link")
        else finding
        for finding in findings
    )


def _as_congestion(
    finding: Finding, job_id: str, flows: FlowBatch, inside: Bool, topology: Topology, params: TimePerByteParams
) -> Finding:
    """Return a finding as congestion of the port that others use most, if any."""
    during = (flows.end_ns > finding.start_ns) & (flows.start_ns < finding.end_ns)
    share, address = 0.0, ""
    for side in ("src", "dst"):
        for way, s_per_byte in finding.baseline.s_per_byte.items():
            first, _, second = way.partition("->")  # a group has no ends
            if first not in topology.index or second not in topology.index:
                continue
            ends = (topology.index[first], topology.index[second])
            port = getattr(flows, side) == ends[side == "dst"]
            mine = np.flatnonzero(inside & during & (flows.src == ends[0]) & (flows.dst == ends[1]))
            of_others = _share_of_others(flows, mine, np.flatnonzero(~inside & during & port), s_per_byte, params)
            if of_others > share:
                share, address = of_others, topology.endpoints[ends[side == "dst"]]
    if not address:
        return finding
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


def _share_of_others(
    flows: FlowBatch, mine: Int64, others: Int64, usual_s_per_byte: float, params: TimePerByteParams
) -> float:
    """Return the part of a port that others take, 0 if they explain nothing.

    They explain it if the port, all flows taken together, moves its bytes in no longer than what is slow needs.
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
    """Return the bytes moved up to some moments, each flow's evenly over its time."""
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


def is_shared(finding: Finding) -> bool:
    """Whether a finding is on what flows of several jobs may cross."""
    return finding.kind in ("slow_switch", "slow_link") and bool(finding.jobs or finding.baseline.jobs)


def join_shared(claims: Sequence[Finding], known: Sequence[Finding]) -> tuple[Finding, ...]:
    """Join the findings of all jobs on each shared place.

    The places are switches and links between them (LLMPrism, section V-C).

    Parameters: `claims`, findings of jobs that such a place slows; `known`, findings open before the window: one on the
    same place goes on, one whose place is no longer slow is closed.
    """
    going = {finding.subject: finding for finding in known if is_shared(finding)}
    by_place: dict[str, list[Finding]] = {}
    for claim in claims:
        by_place.setdefault(claim.subject, []).append(claim)
    found = [_join(of_place, going.pop(place, None)) for place, of_place in by_place.items()]
    found.extend(replace(finding, status="closed") for finding in going.values())
    return tuple(found)


def _join(claims: Sequence[Finding], going: Finding | None) -> Finding:
    worst = max(claims, key=lambda claim: (claim.slowdown, claim.score))
    begin_ns = min(claim.start_ns for claim in claims) if going is None else going.start_ns
    slowdowns: dict[str, float] = {}
    for claim in claims:
        slowdowns |= {job_id: max(slowdowns.get(job_id, 0.0), claim.slowdown) for job_id in claim.jobs}
    jobs = tuple(sorted(slowdowns))
    usual = {way: seconds for claim in claims for way, seconds in claim.baseline.s_per_byte.items()}
    # What each job can't tell apart, others may.
    others = tuple(one for one in worst.may_also_be if all(one in claim.may_also_be for claim in claims))
    return replace(
        worst,
        diagnosis_id=identity("", worst.kind, worst.subject, begin_ns) if going is None else going.diagnosis_id,
        first_step=0,
        last_step=0,
        start_ns=begin_ns,
        end_ns=max(claim.end_ns for claim in claims),
        status="open" if any(claim.status == "open" for claim in claims) else "closed",
        score=float(np.sqrt(sum(claim.score**2 for claim in claims))),
        evidence={
            **worst.evidence,
            "jobs": list(jobs),
            "may_also_be": [one for one in worst.may_also_be if one in others],
        },
        about=tuple(dict.fromkeys(way for claim in claims for way in claim.about))[:EVIDENCE_ROWS],
        may_also_be=others,
        baseline=Baseline(s_per_byte=usual, jobs=jobs),
        confidence=max(claim.confidence for claim in claims),
        jobs=jobs,
        slowdowns=slowdowns,
    )
