"""What an incident costs: the time that its jobs' steps take beyond their usual one, and the time of its stops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from prism_ch.analysis.diagnose.findings import severity
from prism_ch.analysis.incidents.groups import STOPS, Group, is_slow, names_place
from prism_ch.model.columns import Bool
from prism_ch.model.finding import Finding, Severity
from prism_ch.model.incident import Incident, JobCost
from prism_ch.model.memory import JobMemory
from prism_ch.model.params import IncidentParams
from prism_ch.model.result import Steps


def grade(incident: Incident, params: IncidentParams) -> Severity:
    """Grade what an incident costs (contract).

    The share is that of the job that it slows most: a place that others hardly feel is no less slow for that one.
    """
    share = max((cost.share for cost in incident.costs), default=0.0)
    lost_gpu_s, by_share = incident.lost_gpu_h * 3600, severity(share, params)
    if lost_gpu_s >= params.critical_gpu_s:
        return "critical"
    return "warning" if by_share == "info" and lost_gpu_s >= params.warning_gpu_s else by_share


#: Kinds of causes in the network.
OF_NETWORK = ("slow_nic", "slow_link", "slow_switch", "slow_group", "congestion")


def costs_of(
    group: Group, before: Sequence[JobCost], jobs: dict[str, JobMemory], others: Sequence[Group], params: IncidentParams
) -> tuple[JobCost, ...]:
    """Return what an incident cost each of its jobs so far.

    Parameters: `before`, what it was known to have cost; `jobs`, with their steps, by job_id; `others`, the groups of
    all incidents, which may share a step's excess.
    """
    known = {cost.job_id: cost for cost in before}
    concerned = {claim.job_id for claim in group.claims} | set(group.cause.jobs)
    for job_id in sorted(concerned & jobs.keys()):
        job = jobs[job_id]
        least_s = _least_steps(group.cause, params) * job.job.step_s_median
        cost = replace(known.get(job_id, JobCost(job_id, job.job.tenant, _gpus(job))), least_s=least_s)
        own = group.of_job(job_id)
        if group.is_telemetry:
            known[job_id] = cost
        elif own and own[0].kind in STOPS:
            known[job_id] = _of_stops(cost, own)
        else:
            beside = [other for other in others if other is not group and other.of_job(job_id)]
            slow = own or (_in_steps_of(job, group.cause),)
            known[job_id] = _of_steps(cost, slow, job, beside, params)
    return tuple(known[job_id] for job_id in sorted(known))


def _least_steps(cause: Finding, params: IncidentParams) -> int:
    """Return over how many steps a loss is taken at the least.

    What evidence places costs what it costs while it lasts: detectors want it in several steps. A single slow step may
    be a hiccup, and steps whose cause no evidence places vary by themselves. No stop is jitter.
    """
    if cause.kind in STOPS:
        return params.recent_steps
    if not names_place(cause):
        return params.severity_steps
    return params.judged_steps if cause.kind == "slow_step" and cause.first_step == cause.last_step else 0


def _gpus(job: JobMemory) -> int:
    """Count the GPUs of a job's newest step; those of earlier attempts are members, too."""
    newest = job.gpu_steps.step == job.gpu_steps.step.max(initial=-1)
    return int(np.count_nonzero(newest)) or len(job.members)


def _in_steps_of(job: JobMemory, place: Finding) -> Finding:
    """Return the finding on a place as one on a job's steps."""
    steps = job.steps
    concerned = steps.step[(steps.end_ns > place.start_ns) & (steps.start_ns < place.end_ns)]
    first, last = (int(concerned[0]), int(concerned[-1])) if len(concerned) else (1, 0)
    return replace(place, first_step=first, last_step=last)


def _of_stops(cost: JobCost, stops: Sequence[Finding]) -> JobCost:
    """Add the time that stops last; what is counted is not counted again."""
    lost_s = sum(one.lost_s for one in stops)
    time_s = sum((one.end_ns - one.start_ns) / 1e9 for one in stops)
    until_ns = max(one.end_ns for one in stops)
    if until_ns < cost.until_ns:
        return cost
    return replace(cost, lost_s=max(cost.lost_s, lost_s), time_s=max(cost.time_s, time_s), until_ns=until_ns)


def _of_steps(
    cost: JobCost, slow: Sequence[Finding], job: JobMemory, beside: Sequence[Group], params: IncidentParams
) -> JobCost:
    """Add the excess of the steps that are new."""
    steps = job.steps
    inside = _covered(steps, slow) & (steps.end_ns > cost.until_ns)
    stopped = [one for group in beside for one in group.of_job(job.job.job_id) if one.kind in STOPS]
    inside &= ~_covered(steps, stopped)
    if not inside.any():
        return cost
    duration_s = steps.duration_s
    excess_s = _excess_s(steps, slow, job, beside, params)
    return replace(
        cost,
        lost_s=cost.lost_s + float(excess_s[inside].sum()),
        time_s=cost.time_s + float(duration_s[inside].sum()),
        until_ns=int(steps.end_ns[inside].max()),
    )


def _excess_s(
    steps: Steps, slow: Sequence[Finding], job: JobMemory, beside: Sequence[Group], params: IncidentParams
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return what steps take beyond the usual one, float64[n].

    Of a job that never was healthy, that is the share that its cause costs.

    What several incidents slow together counts to each by the share of time that it is known to lose.
    """
    job_id, duration_s = job.job.job_id, steps.duration_s
    others = [one for group in beside for one in group.of_job(job_id) if is_slow(one)]
    share = max(one.slowdown for one in slow)
    # Steps may be longer for another reason: what is slow in the network delays them by no more than itself.
    most_s = duration_s * (share if slow[0].kind in OF_NETWORK else 1.0)
    usual_s = _usual_s(steps, (*slow, *others), job, params)
    if usual_s is None:
        return np.asarray(duration_s * share)
    meeting = sum(max(one.slowdown for one in group.of_job(job_id)) for group in beside if _meets(group, slow, job_id))
    part = share / (share + meeting) if meeting else 1.0
    return np.asarray(np.clip(duration_s - usual_s, 0, most_s) * part)


def _usual_s(steps: Steps, slow: Sequence[Finding], job: JobMemory, params: IncidentParams) -> float | None:
    """Return the usual duration of steps, in seconds; None where too few are known."""
    known = [one.expected for one in slow if one.kind == "slow_step" and one.expected > 0]
    if known:
        return float(np.median(known))
    history = Steps.concat([job.baseline_steps, steps])
    healthy = ~_covered(history, slow) & (history.complete == 1)
    if np.count_nonzero(healthy) < params.reference_steps:
        return None
    return float(np.median(history.duration_s[healthy][-params.settled_steps :]))


def _meets(group: Group, slow: Sequence[Finding], job_id: str) -> bool:
    return any(
        is_slow(one) and one.first_step <= mine.last_step and mine.first_step <= one.last_step
        for one in group.of_job(job_id)
        for mine in slow
    )


def _covered(steps: Steps, findings: Sequence[Finding]) -> Bool:
    """Mask the steps that findings concern, bool[n]."""
    mask = np.zeros(len(steps), dtype=bool)
    for one in findings:
        mask |= (steps.step >= one.first_step) & (steps.step <= one.last_step)
    return mask
