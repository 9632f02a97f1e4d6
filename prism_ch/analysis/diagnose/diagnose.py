"""Diagnose: what slows or stops a job (LLMPrism, section V).

1. Each of DETECTORS looks at the job, and at what those before it found.
2. Each of POLICIES then changes all findings together: which one is the alarm, which is the symptom of another, and
   which continues one of an earlier window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from prism_ch.analysis.continuity.continuity import ContinuedJob
from prism_ch.analysis.diagnose import policies
from prism_ch.analysis.diagnose.compute.slow_stages import lengthens_steps
from prism_ch.analysis.diagnose.context import JobContext
from prism_ch.analysis.diagnose.foreign_members import find_foreign_members
from prism_ch.analysis.diagnose.imbalance import find_imbalance
from prism_ch.analysis.diagnose.network.sharing import is_shared, without_congestion
from prism_ch.analysis.diagnose.network.slow_groups import find_slow_groups
from prism_ch.analysis.diagnose.steps.slow_steps import find_slow_steps
from prism_ch.analysis.diagnose.stops.stop_findings import is_gap
from prism_ch.analysis.diagnose.stops.stops import find_restart, find_stops
from prism_ch.analysis.diagnose.telemetry import find_merged_records, resolve_steps
from prism_ch.analysis.observe.holes import Hole
from prism_ch.model.columns import ragged
from prism_ch.model.finding import Finding
from prism_ch.model.memory import UsualComputeTime

Findings: TypeAlias = tuple[Finding, ...]
Detector: TypeAlias = Callable[[JobContext], Findings]
Policy: TypeAlias = Callable[[Findings, JobContext], Findings]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings on a job and on places that it shares with others, and the compute time to be remembered.

    `job` is the job, with who was slowest in each of its new steps. `gaps` are findings on exporters that miss a part
    of it, and `holes` the spans in which none of it is seen.
    """

    job: ContinuedJob
    findings: Findings
    shared: Findings
    gaps: Findings
    holes: tuple[Hole, ...]
    usual_compute: UsualComputeTime

    @property
    def stands_still(self) -> bool:
        """Whether the job stands still at the end of the window."""
        return any(one.status == "open" and one.kind in ("stall", "hang") for one in self.findings)


def slow_network(context: JobContext) -> Findings:
    """Find NICs, links, switches and groups that take longer for their bytes.

    `network/slow_network.py` finds and names them. What other flows on the same port explain becomes congestion.
    """
    found = [one for attempt in context.attempts for one in attempt.network]
    own = context.outside_stops(tuple(one for one in found if not is_shared(one)))
    params = context.params.diagnose.network
    own = without_congestion(own, context.job_id, context.seen.flows, context.endpoints, context.topology, params)
    return (*own, *filter(is_shared, found))


def slow_gpus(context: JobContext) -> Findings:
    """Find GPUs that compute for longer; a slow NIC explains some."""
    return context.outside_stops(
        tuple(one for attempt in context.attempts for one in policies.not_by_network(attempt.gpus, attempt))
    )


def slow_stages(context: JobContext) -> Findings:
    """Find pipeline stages that compute for longer than before, and by that make steps longer."""
    found = [one for attempt in context.attempts for one in attempt.stages]
    if not found:
        return ()
    steps, params = context.ordinary_steps(), context.params.diagnose.compute
    return context.outside_stops(tuple(one for one in found if lengthens_steps(one, steps, params)))


def slow_groups(context: JobContext) -> Findings:
    """Find data-parallel groups slower than their peers; a slow network explains some."""
    found: list[Finding] = []
    for attempt in context.attempts:
        groups = find_slow_groups(*attempt.typed_traffic, attempt.place, context.topology)
        found.extend(policies.not_by_network(groups, attempt))
    return context.outside_stops(tuple(found))


def imbalance(context: JobContext) -> Findings:
    """Find stages that always compute longer, or groups that always move more."""
    last = context.attempts[-1]
    return find_imbalance(*last.typed_traffic, last.compute_times, last.known, last.place)


def foreign_members(context: JobContext) -> Findings:
    """Find members that the topology gives to another tenant."""
    return find_foreign_members(context)


def slow_steps(context: JobContext) -> Findings:
    """Find steps longer than the healthy ones, and which earlier finding slows them."""
    job = context.job
    causes = [
        one
        for one in context.found
        if one.kind not in ("slow_group", "imbalance") or one.subject_type == "stage" or one.may_also_be
    ]
    peers, params = job.attempts[-1].groups.largest_role, context.params.diagnose
    known = context.known_of_steps
    return find_slow_steps(
        job.job, context.ordinary_steps(), known, causes, peers, context.topology, params, context.moved
    )


def stops(context: JobContext) -> Findings:
    """Find stalls, hangs and restarts within an attempt, and exporters that fell silent."""
    return tuple(find_stops(context))


def restarts(context: JobContext) -> Findings:
    """Find the restart that the newest attempt began with."""
    if len(context.attempts) == 1 and all(one.kind != "restart" for one in context.known):
        return ()
    return tuple(find_restart(context))


def merged_records(context: JobContext) -> Findings:
    """Find exporters that join many of the job's steps into one record."""
    newest = context.attempts[-1].attempt
    known = tuple(one for one in context.known if one.kind == "telemetry")
    if not known and not newest.traffic.merged.any():
        return ()
    flows = newest.traffic.flows.batch()
    merged, timeouts = newest.traffic.on_merged(flows), newest.traffic.timeouts
    closing = newest.kinds.of_kind(newest.bursts, newest.kinds.closing)
    resolved = resolve_steps(flows, merged, closing, newest.division.steps)
    window, params = context.seen.window, context.params.merged
    return find_merged_records(context.job_id, flows, merged, resolved, timeouts, known, window, params)


#: The detectors in order: each sees what those before it found.
DETECTORS: tuple[Detector, ...] = (
    slow_network,
    slow_gpus,
    slow_stages,
    slow_groups,
    imbalance,
    foreign_members,
    slow_steps,
    stops,
    restarts,
    merged_records,
)

#: The policies in order: each changes what those before it left.
POLICIES: tuple[Policy, ...] = (
    policies.without_waiting_groups,
    policies.with_sample_flows,
    policies.no_stall_of_slow_gpu,
    policies.doubt_in_gaps,
    policies.carry_on_findings,
)


def diagnose(context: JobContext) -> Diagnosis:
    """Find what slows or stops a job."""
    context = context.with_slowest()
    found: Findings = ()
    for detector in DETECTORS:
        found = (*found, *detector(context.with_found(found)))
    for policy in POLICIES:
        found = policy(found, context)
    gaps = tuple(filter(is_gap, found))
    return Diagnosis(
        _with_stragglers(context, found),
        tuple(one for one in found if not is_shared(one) and one not in gaps),
        tuple(filter(is_shared, found)),
        gaps,
        context.job.holes,
        context.attempts[-1].remembered(),
    )


def _with_stragglers(context: JobContext, found: Findings) -> ContinuedJob:
    """Name in slow steps the GPU that their finding names, where none is named."""
    index = context.topology.index
    named = [
        one
        for one in found
        if one.kind == "slow_step" and one.cause and one.cause.kind == "slow_gpu" and one.cause.subject in index
    ]
    attempts = []
    for one in context.job.attempts:
        rows = one.rebuilt.steps.slowest.tolist()
        for place, step in enumerate(one.rebuilt.steps.step.tolist()):
            for finding in named:
                if finding.cause and not rows[place] and finding.first_step <= step <= finding.last_step:
                    rows[place] = (index[finding.cause.subject],)
        steps = replace(one.rebuilt.steps, slowest=ragged(rows))
        attempts.append(replace(one, rebuilt=replace(one.rebuilt, steps=steps)))
    return replace(context.job, attempts=tuple(attempts))
