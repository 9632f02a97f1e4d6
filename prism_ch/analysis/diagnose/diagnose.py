"""Diagnose: what slows or stops a job (LLMPrism, section V).

DETECTORS look at the job one after the other, each at what those before it found; POLICIES then settle what is said:
which finding carries the alarm, which is another's symptom, which goes on from an earlier window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from prism_ch.analysis.continuity.continuity import ContinuedJob
from prism_ch.analysis.diagnose import policies
from prism_ch.analysis.diagnose.context import JobContext
from prism_ch.analysis.diagnose.imbalance import find_imbalance
from prism_ch.analysis.diagnose.network.congestion import tell_congestion
from prism_ch.analysis.diagnose.network.slow_groups import find_slow_groups
from prism_ch.analysis.diagnose.steps.slow_steps import find_slow_steps
from prism_ch.analysis.diagnose.stops.stop_findings import is_stop
from prism_ch.analysis.diagnose.stops.stops import find_restart, find_stops
from prism_ch.analysis.diagnose.telemetry import find_merged_records, steps_told
from prism_ch.analysis.observe.observe import Observed
from prism_ch.model.finding import Finding
from prism_ch.model.memory import UsualComputeTime
from prism_ch.model.params import Params
from prism_ch.model.result import Steps
from prism_ch.model.topology import Topology

Findings: TypeAlias = tuple[Finding, ...]
Detector: TypeAlias = Callable[[JobContext], Findings]
Policy: TypeAlias = Callable[[Findings, JobContext], Findings]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is found of one job.

    `findings` are on the job; `switches`, what it says of switches, which are not its own. `usual_compute` is to be
    remembered.
    """

    findings: Findings
    switches: Findings
    usual_compute: UsualComputeTime

    @property
    def stands_still(self) -> bool:
        """Whether the job stands still at the end of the window."""
        return any(one.status == "open" and one.kind in ("stall", "hang") for one in self.findings)


def slow_network(context: JobContext) -> Findings:
    """Find NICs, links, switches and groups that take longer for their bytes than others, or than before.

    What others on the same port explain is congestion, and no fault.
    """
    found = [one for attempt in context.attempts for one in attempt.network]
    own = context.beside_stops(tuple(one for one in found if one.kind != "slow_switch"))
    pace = context.params.diagnose.pace
    own = tell_congestion(own, context.job_id, context.seen.flows, context.endpoints, context.topology, pace)
    return (*own, *(one for one in found if one.kind == "slow_switch"))


def slow_gpus(context: JobContext) -> Findings:
    """Find GPUs that compute for longer than others of their role, or than before; a slow NIC explains some."""
    return context.beside_stops(
        tuple(one for attempt in context.attempts for one in policies.not_by_network(attempt.gpus, attempt))
    )


def slow_groups(context: JobContext) -> Findings:
    """Find data-parallel groups that take longer for their bytes than their peers; a slow network explains some."""
    found: list[Finding] = []
    for attempt in context.attempts:
        one = attempt.attempt
        groups = find_slow_groups(one.bursts, one.kinds, one.division, one.groups, attempt.place, context.topology)
        found.extend(policies.not_by_network(groups, attempt))
    return context.beside_stops(tuple(found))


def imbalance(context: JobContext) -> Findings:
    """Find stages that always compute for longer, or groups that always move more: how the model is divided."""
    last = context.attempts[-1]
    one = last.attempt
    return find_imbalance(one.bursts, one.kinds, one.division, one.groups, last.compute_times, last.known, last.place)


def slow_steps(context: JobContext) -> Findings:
    """Find the steps that take longer than the job's healthy ones, and what of the above slows them."""
    job = context.job
    ordinary = job.steps.take(~context.not_slow)
    if job.before is not None:
        ordinary = Steps.concat([job.before.baseline_steps, ordinary])
    causes = [one for one in context.found if one.kind not in ("slow_group", "imbalance")]
    return find_slow_steps(
        job.job,
        ordinary,
        context.known_of_steps,
        causes,
        job.attempts[-1].groups.largest_role,
        context.topology,
        context.params.diagnose,
        context.moved,
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
    newest, job = context.attempts[-1].attempt, context.job
    traffic, merged = newest.traffic, newest.traffic.merged_flows()
    closing = newest.kinds.of_kind(newest.bursts, newest.kinds.closing)
    shown = steps_told(traffic.flows, merged, closing, newest.division.steps)
    known = tuple(one for one in context.known if not is_stop(one))
    return find_merged_records(
        job.job.job_id, traffic.flows, merged, shown, traffic.timeouts, known, context.seen.window,
        context.params.merged,
    )  # fmt: skip


#: What is looked for, in order: each sees what those before it found.
DETECTORS: tuple[Detector, ...] = (
    slow_network,
    slow_gpus,
    slow_groups,
    imbalance,
    slow_steps,
    stops,
    restarts,
    merged_records,
)

#: What becomes of all findings together, in order.
POLICIES: tuple[Policy, ...] = (
    policies.one_alarm,
    policies.with_flows_to_look_up,
    policies.no_stall_beside_slow_gpu,
    policies.doubt_in_gaps,
    policies.carry_on_findings,
)


def diagnose(job: ContinuedJob, seen: Observed, topology: Topology, params: Params) -> Diagnosis:
    """Find what slows or stops a job."""
    context = JobContext.of(job, seen, topology, params)
    found: Findings = ()
    for detector in DETECTORS:
        found = (*found, *detector(context.with_found(found)))
    for policy in POLICIES:
        found = policy(found, context)
    return Diagnosis(
        tuple(one for one in found if one.kind != "slow_switch"),
        tuple(one for one in found if one.kind == "slow_switch"),
        context.attempts[-1].remembered(),
    )
