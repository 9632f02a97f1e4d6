"""Policies: what becomes of all that was found of a job, put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from prism_ch.analysis.diagnose.context import AttemptContext, JobContext, is_of_steps
from prism_ch.analysis.diagnose.episodes import carry_on, together
from prism_ch.analysis.diagnose.sample_flows import with_sample_flows
from prism_ch.analysis.diagnose.stops.stop_findings import carry_on_stops, is_stop
from prism_ch.model.finding import Finding
from prism_ch.model.topology import Topology

#: Kinds that blame a part of the network.
_OF_NETWORK = ("slow_nic", "slow_link", "slow_switch")


def not_by_network(found: Sequence[Finding], attempt: AttemptContext) -> tuple[Finding, ...]:
    """Leave out slow groups and GPUs of an attempt that something slow in the network explains.

    A group is the symptom of that; and so is the rank behind a slow NIC, which can't send before its last message is
    out.
    """
    causes, topology = attempt.network, attempt.topology
    return tuple(one for one in found if not any(_explains(cause, one, topology) for cause in causes))


def _explains(cause: Finding, symptom: Finding, topology: Topology) -> bool:
    """Say whether something slow in the network explains a slow group or GPU at the same time."""
    if not together(cause, symptom):
        return False
    if symptom.kind == "slow_group" or cause.kind == "slow_switch":
        return True
    accused, waiting = (
        {int(topology.server[topology.index[end]]) for end in ends if end in topology.index}
        for ends in (cause.subject.split("->"), symptom.about)
    )
    return not accused.isdisjoint(waiting)


def one_alarm(found: Sequence[Finding], _: JobContext) -> tuple[Finding, ...]:
    """Leave one alarm for what slows a job at one time, and grade what else says the same as information.

    What is slow in the network is the alarm, and the steps that it slows are its symptom. Else the slow steps are the
    alarm, which name the GPU to blame where it is known: whoever is late, the groups that wait for it take long, and
    are a symptom in the alarm's evidence.
    """
    network = [finding for finding in found if finding.kind in _OF_NETWORK]
    steps = [finding for finding in found if finding.kind == "slow_step"]
    above = {"slow_step": network, "slow_group": steps, "slow_gpu": steps}
    graded = [
        replace(finding, severity="info")
        if any(together(finding, alarm) and alarm.severity != "info" for alarm in above.get(finding.kind, ()))
        or (finding.kind == "slow_group" and any(together(finding, step) for step in steps))
        else finding
        for finding in found
    ]
    return _with_symptoms(graded)


def _with_symptoms(found: Sequence[Finding]) -> tuple[Finding, ...]:
    """Put slow groups, which wait for a GPU to blame, into the evidence of the slow steps that name it."""
    blaming = [finding for finding in found if finding.kind == "slow_step" and _blames_gpu(finding)]
    waiting = [one for one in found if one.kind == "slow_group" and any(together(one, step) for step in blaming)]
    return tuple(
        replace(finding, evidence=_with_groups(finding, waiting)) if finding in blaming else finding
        for finding in found
        if finding not in waiting
    )


def _blames_gpu(finding: Finding) -> bool:
    """Say whether a finding's evidence names a GPU as the root cause."""
    return finding.cause is not None and finding.cause.kind == "slow_gpu"


def _with_groups(step: Finding, waiting: Sequence[Finding]) -> Mapping[str, object]:
    """Return the evidence of slow steps with the groups that wait at the same time."""
    groups = [group.subject for group in waiting if together(group, step)]
    return {**step.evidence, "slow_groups": groups}


def with_flows_to_look_up(found: Sequence[Finding], context: JobContext) -> tuple[Finding, ...]:
    """Put a few flow records behind each finding of slowness into its evidence."""
    flows = context.job.traffic.flows
    return tuple(with_sample_flows([one], flows, context.topology)[0] if is_of_steps(one) else one for one in found)


def no_stall_beside_slow_gpu(found: Sequence[Finding], _: JobContext) -> tuple[Finding, ...]:
    """Leave out stalls in steps in which a slow GPU makes the others wait for as long: that is no stop of its own."""
    causes = [one for one in found if one.kind == "slow_gpu" and one.first_step < one.last_step]

    def explains(cause: Finding, stall: Finding) -> bool:
        covers = cause.first_step <= stall.first_step <= cause.last_step
        return covers and cause.observed - cause.expected >= stall.observed - stall.expected

    return tuple(one for one in found if one.kind != "stall" or not any(explains(cause, one) for cause in causes))


def doubt_in_gaps(found: Sequence[Finding], _: JobContext) -> tuple[Finding, ...]:
    """Grade as information slow steps that begin when exporters fall silent, and that nobody is found to cause.

    Where the ends of steps are not seen, two look like one.
    """
    gaps = [one for one in found if one.kind == "telemetry" and is_stop(one)]

    def in_a_gap(one: Finding) -> bool:
        """Say whether the first of some slow steps holds the beginning of a gap, or lies in it."""
        first_end_ns = one.start_ns + round(one.observed * 1e9)
        return any(gap.start_ns < first_end_ns and one.start_ns < gap.end_ns for gap in gaps)

    return tuple(
        replace(one, severity="info") if one.kind == "slow_step" and one.cause is None and in_a_gap(one) else one
        for one in found
    )


def carry_on_findings(found: Sequence[Finding], context: JobContext) -> tuple[Finding, ...]:
    """Let findings take the identity of open ones that they go on from, and close open ones that nothing carries on."""
    own = [one for one in found if is_of_steps(one) and one.kind != "slow_switch"]
    stops = [one for one in found if is_stop(one)]
    others = [one for one in found if not is_stop(one) and (one.kind in ("telemetry", "slow_switch"))]
    last_known_ns = int(context.job.steps.end_ns[:-1].max(initial=0))
    return (
        *carry_on(context.known_of_steps, own, context.first_new_step, context.params.diagnose),
        *carry_on_stops(context.known, stops, last_known_ns),
        *others,
    )
