"""Policies: what becomes of all findings on a job together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from prism_ch.analysis.diagnose.context import AttemptContext, JobContext, is_of_steps
from prism_ch.analysis.diagnose.episodes import carry_on, together
from prism_ch.analysis.diagnose.network.sharing import is_shared
from prism_ch.analysis.diagnose.stops.stop_findings import carry_on_stops, find_habits, is_stop
from prism_ch.model.columns import Bool
from prism_ch.model.finding import NETWORK_KINDS, Finding
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import DiagnoseParams
from prism_ch.model.topology import Topology

#: Flow records shown with a finding: enough to look it up, few enough to read.
SAMPLE_FLOWS = 5


def not_by_network(found: Sequence[Finding], attempt: AttemptContext) -> tuple[Finding, ...]:
    """Leave out slow groups and GPUs that something slow in the network explains.

    A group is the symptom of that; and so are the rank behind a slow NIC, which can't send before its last message is
    out, and whoever waits for it in exchanges.
    """
    params = attempt.params.diagnose

    def is_symptom(one: Finding) -> bool:
        causes = [cause for cause in attempt.network if together(cause, one)]
        return any(
            _explains(cause, one, attempt.topology, params) or _costs_more(cause, one, params) for cause in causes
        )

    return tuple(one for one in found if not is_symptom(one))


def _explains(cause: Finding, symptom: Finding, topology: Topology, params: DiagnoseParams) -> bool:
    """Whether a slow place explains a slow group, or most of what a GPU loses."""
    if symptom.kind == "slow_group" or is_shared(cause):
        return True
    if cause.slowdown < params.half * symptom.slowdown:
        return False
    causing, waiting = (
        {int(topology.server[topology.index[end]]) for end in ends if end in topology.index}
        for ends in (cause.subject.split("->"), symptom.about)
    )
    return not causing.isdisjoint(waiting)


def _costs_more(cause: Finding, gpu: Finding, params: DiagnoseParams) -> bool:
    """Whether the network explains what steps lose, and a slow GPU does not.

    Both began together. A GPU that makes the others wait is late by about as much as they lose. One that waits for the
    network is late by a part of that.
    """
    if gpu.kind != "slow_gpu" or abs(cause.first_step - gpu.first_step) > params.repeats:
        return False
    step_s = (gpu.end_ns - gpu.start_ns) / 1e9 / (gpu.last_step - gpu.first_step + 1)
    own = (gpu.observed - gpu.expected) / step_s
    return own < params.half * gpu.slowdown <= params.half * cause.slowdown / (1 - params.little)


def without_waiting_groups(found: Sequence[Finding], _: JobContext) -> tuple[Finding, ...]:
    """Leave out groups that wait for a GPU; the steps that it slows list them."""
    named = [one for one in found if one.kind == "slow_step" and one.cause and one.cause.kind == "slow_gpu"]
    waiting = [one for one in found if one.kind == "slow_group" and any(together(one, step) for step in named)]

    def with_waiting(step: Finding) -> Finding:
        groups = [group.subject for group in waiting if together(group, step)]
        return replace(step, evidence={**step.evidence, "slow_groups": groups})

    return tuple(with_waiting(one) if one in named else one for one in found if one not in waiting)


def with_sample_flows(found: Sequence[Finding], context: JobContext) -> tuple[Finding, ...]:
    """Put a few flow records, to look up in table `flows`, into the evidence."""
    if not any(map(is_of_steps, found)):
        return tuple(found)
    flows = context.job.flows.batch()
    return tuple(with_samples(one, flows, context.topology) if is_of_steps(one) else one for one in found)


def with_samples(finding: Finding, flows: FlowBatch, topology: Topology) -> Finding:
    """Put some of the records that a finding is about into its evidence.

    Parameters: `flows`, one observation a flow, by right clocks.
    Shown are the slowest for their bytes of those that are no smaller than most: control messages show no slowness.
    """
    about = _about(finding, flows, topology)
    rows = np.flatnonzero(about & (flows.end_ns > finding.start_ns) & (flows.start_ns < finding.end_ns))
    if len(rows) == 0:
        return finding
    rows = rows[flows.bytes[rows] >= np.median(flows.bytes[rows])]
    ns_per_byte = (flows.end_ns[rows] - flows.start_ns[rows]) / np.maximum(flows.bytes[rows], 1)
    rows = np.sort(rows[np.argsort(-ns_per_byte, kind="stable")[:SAMPLE_FLOWS]])
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
    """Mask the flows between endpoints that a finding names, by default all, bool[n]."""
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
        sends, receives = np.isin(flows.src, alone), np.isin(flows.dst, alone)
        both = len(set(alone)) > 1 and finding.subject_type == "group"
        about |= sends & receives if both else sends | receives
    return about if about.any() else np.ones(len(flows), dtype=bool)


def no_stall_of_slow_gpu(found: Sequence[Finding], _: JobContext) -> tuple[Finding, ...]:
    """Leave out stalls in steps in which a slow GPU costs as much."""
    causes = [one for one in found if one.kind == "slow_gpu" and one.first_step < one.last_step]

    def explains(cause: Finding, stall: Finding) -> bool:
        covers = cause.first_step <= stall.first_step <= cause.last_step
        return covers and cause.observed - cause.expected >= stall.observed - stall.expected

    return tuple(one for one in found if one.kind != "stall" or not any(explains(cause, one) for cause in causes))


def doubt_in_gaps(found: Sequence[Finding], context: JobContext) -> tuple[Finding, ...]:
    """Let steps cost nothing if they may seem slow as exporters fall silent.

    Where the ends of steps are not seen, two look like one, and those whose ends are seen seem late. So only what is
    found to be slow beside them is to blame for steps that get slow at that moment, and for later ones whoever is late.
    """
    known = (one for one in context.seen.known.findings if context.job_id in one.baseline.jobs)
    gaps = [one for one in (*found, *known) if one.kind == "telemetry" and is_stop(one)]
    beside = {(one.kind, one.subject) for one in found if one.kind != "slow_step"}

    def is_doubted(one: Finding) -> bool:
        if one.kind != "slow_step" or (one.cause is not None and (one.cause.kind, one.cause.subject) in beside):
            return False
        first_ns = round(one.observed * 1e9)
        within = (gap for gap in gaps if gap.start_ns < one.start_ns + first_ns and one.start_ns < gap.end_ns)
        return any(one.cause is None or one.start_ns - gap.start_ns < first_ns for gap in within)

    return tuple(replace(one, severity="info", slowdown=0.0) if is_doubted(one) else one for one in found)


def carry_on_findings(found: Sequence[Finding], context: JobContext) -> tuple[Finding, ...]:
    """Let findings continue open ones, and close the other open ones.

    On places that jobs share, all that is of new steps stays; of a young job, all of whose steps are new.
    """
    own = [one for one in found if is_of_steps(one) and not is_shared(one)]
    stops = [one for one in found if is_stop(one) and one.kind != "telemetry"]
    first, repeats = context.first_new_step, context.params.diagnose.repeats
    shared = [one for one in found if is_shared(one) and (one.status == "open" or one.last_step + repeats >= first)]
    telemetry = [one for one in found if one.kind == "telemetry"]
    slow = [one for one in (*own, *shared) if one.kind in ("slow_gpu", *NETWORK_KINDS)]
    last_known_ns = int(context.job.steps.end_ns[:-1].max(initial=0))
    pauses = () if context.job.memory is None else context.job.memory.pauses
    return (
        *carry_on(context.known_of_steps, own, first, context.params.diagnose),
        *carry_on_stops(context.known, stops, last_known_ns, context.job.holes, slow),
        *find_habits(pauses, context.job.steps, context.params.stops),
        *telemetry,
        *shared,
    )
