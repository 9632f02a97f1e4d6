"""What an incident costs: the time that its jobs' steps take beyond their usual one, and the time of its stops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from prism_ch.analysis.diagnose.findings import severity
from prism_ch.analysis.incidents.groups import STOPS, Group, is_slow, names_place
from prism_ch.analysis.incidents.usual_steps import compared_with, covered, healthy_steps
from prism_ch.core import robust
from prism_ch.model.columns import Bool, Float64
from prism_ch.model.finding import NETWORK_KINDS, Finding, Severity
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


#: Tells which share of its steps' time a finding costs a job, by job_id; None where nothing does.
LostShare: TypeAlias = Callable[[str, Finding], float | None]


def not_replayed(_job_id: str, _finding: Finding) -> None:
    """Return None, as where no step is replayed."""


@dataclass(frozen=True, slots=True)
class Around:
    """What else is known of the costs of jobs.

    The `groups` of all incidents and the other incidents `known` before may have cost the same steps; `replayed` tells
    by replays what findings cost.
    """

    groups: Sequence[Group]
    known: Sequence[Incident] = ()
    replayed: LostShare = not_replayed

    def counted(self, job_id: str, steps: Steps) -> Bool:
        """Mask the steps of a job, bool[n], that count to a known incident."""
        done = np.zeros(len(steps), dtype=np.bool_)
        for one in self.known:
            for other in one.costs:
                if other.job_id == job_id and one.kind != "telemetry":
                    done |= (steps.end_ns > one.start_ns) & (steps.end_ns <= other.until_ns)
        return np.asarray(done)


def costs_of(
    group: Group, before: Sequence[JobCost], jobs: dict[str, JobMemory], around: Around, params: IncidentParams
) -> tuple[JobCost, ...]:
    """Return what an incident cost each of its jobs so far.

    Parameters: `before`, what it was known to have cost; `jobs`, with their steps, by job_id.
    """
    known = {cost.job_id: cost for cost in before}
    concerned = {claim.job_id for claim in group.claims} | set(group.cause.jobs)
    for job_id in sorted(concerned & jobs.keys()):
        job = jobs[job_id]
        least_s = _least_steps(group.cause, job, params) * job.job.step_s_median
        cost = known.get(job_id, JobCost(job_id, job.job.tenant, 0))
        # A young job may turn out to be larger; one that goes on with fewer GPUs lost what it lost with more.
        cost = replace(cost, gpus=max(cost.gpus, _gpus(job)), least_s=least_s)
        own = group.of_job(job_id)
        if group.is_telemetry:
            known[job_id] = cost
        elif own and own[0].kind in STOPS:
            known[job_id] = _of_stops(cost, [one for one in own if one.kind in STOPS])
        else:
            slow, others = _on_job(group, job), [one for one in around.groups if one is not group]
            beside = [found for found in (_on_job(one, job) for one in others if not one.is_telemetry) if found]
            counted = around.counted(job_id, job.steps)
            known[job_id] = _of_steps(cost, slow, (job, counted), beside, around.replayed, params)
    return tuple(known[job_id] for job_id in sorted(known))


def _least_steps(cause: Finding, job: JobMemory, params: IncidentParams) -> int:
    """Return over how many steps a loss is taken at the least.

    What evidence places costs what it costs while it lasts: detectors want it in several steps. So do as many slow
    steps as show that they are alike. Fewer whose cause no evidence places, or who paused in, vary by themselves, and
    a single one may be a hiccup, unless they lose much more than any other step of their job. No stop is jitter.
    """
    if cause.kind in STOPS:
        return params.recent_steps
    is_placed, count = _is_slow_there(cause), cause.last_step - cause.first_step + 1
    if cause.kind != "slow_step":
        return 0 if is_placed else params.severity_steps
    if count >= params.judged_steps or (is_placed and count > 1):
        return 0
    if _stand_alone(cause, job, params, is_placed=is_placed):
        return 1 if is_placed else params.slow_steps
    return params.judged_steps if is_placed else params.severity_steps


def _stand_alone(slow: Finding, job: JobMemory, params: IncidentParams, *, is_placed: bool) -> bool:
    """Whether slow steps lose more than hiccups, and each more than other steps, do.

    A hiccup does not lengthen all that a rank computes. Elsewhere, what a job's hiccups cost, its own steps show once
    there are some: one that loses twice as much as any of them is rarer the longer the job goes on, and must lose more
    while few are known. A pause in one operation is a hiccup unless it is long, and so is a step that shows nobody
    whose work took longer.
    """
    if slow.shown == "slow":
        return True
    # Where steps overlap, the ones beside it hold a part of what it loses.
    with_beside = replace(slow, first_step=slow.first_step - 1, last_step=slow.last_step + 1)
    others_s = healthy_steps(job, [with_beside]).duration_s
    lost_s = slow.observed - slow.expected
    most_s = others_s.max(initial=slow.expected) - slow.expected
    is_known = (is_placed or slow.shown == "either") and len(others_s) >= params.recent_steps
    if not (is_known or is_long(slow, params)) or lost_s < params.twice * most_s:
        return False
    usual_chance = _chance_beyond(params.recent_steps, params.twice)
    return most_s <= 0 or _chance_beyond(len(others_s), lost_s / most_s) <= usual_chance


def _chance_beyond(count: int, times: float) -> float:
    """Return the chance of a value `times` the largest of `count` others, all exponential.

    By the spacings of their order statistics (Rényi, 1953): the product of i / (i + times) over i = 1 to count.
    """
    return math.exp(math.lgamma(count + 1) + math.lgamma(times + 1) - math.lgamma(count + times + 1))


def _is_slow_there(slow: Finding) -> bool:
    """Whether a finding names a place that is slow, and did not just pause."""
    return names_place(slow) and slow.shown != "pause"


def is_long(slow: Finding, params: IncidentParams) -> bool:
    """Whether slow steps lose more time than a hiccup."""
    count = slow.last_step - slow.first_step + 1
    return count * (slow.observed - slow.expected) >= params.min_lost_s


def _gpus(job: JobMemory) -> int:
    """Count the GPUs of a job's newest step; those of earlier attempts are members, too."""
    newest = job.gpu_steps.step == job.gpu_steps.step.max(initial=-1)
    return int(np.count_nonzero(newest)) or len(job.members)


def _on_job(group: Group, job: JobMemory) -> tuple[Finding, ...]:
    """Return a group's findings on a job.

    Without any, what is found at a place that the job shares is one on its steps.
    """
    own = group.of_job(job.job.job_id)
    return own or ((_in_steps_of(job, group.cause),) if job.job.job_id in group.cause.jobs else ())


def _in_steps_of(job: JobMemory, place: Finding) -> Finding:
    """Return a place's finding as one on a job's steps, with its own loss."""
    steps = job.steps
    slowdown = place.slowdowns.get(job.job.job_id, place.slowdown)
    concerned = steps.step[(steps.end_ns > place.start_ns) & (steps.start_ns < place.end_ns)]
    first, last = (int(concerned[0]), int(concerned[-1])) if len(concerned) else (1, 0)
    return replace(place, first_step=first, last_step=last, slowdown=slowdown)


def _of_stops(cost: JobCost, stops: Sequence[Finding]) -> JobCost:
    """Add the time that stops last; what is counted is not counted again.

    What goes back to where the stops counted began replaces them, if all of it tells its loss: what is only remembered
    does not, nor what may be the job's end.
    """
    lost_s = sum(one.lost_s for one in stops)
    time_s = sum((one.end_ns - one.start_ns) / 1e9 for one in stops)
    until_ns = max(one.end_ns for one in stops)
    begins_ns, began_ns = min(one.start_ns for one in stops), cost.until_ns - round(cost.time_s * 1e9)
    if begins_ns <= began_ns and all(one.lost_s > 0 for one in stops):
        return replace(cost, lost_s=lost_s, time_s=time_s, until_ns=until_ns)
    if until_ns < cost.until_ns:
        return cost
    return replace(cost, lost_s=max(cost.lost_s, lost_s), time_s=max(cost.time_s, time_s), until_ns=until_ns)


def _of_steps(
    cost: JobCost,
    slow: Sequence[Finding],
    seen: tuple[JobMemory, Bool],
    beside: Sequence[Sequence[Finding]],
    replayed: LostShare,
    params: IncidentParams,
) -> JobCost:
    """Count the excess of steps.

    It is that of all where those counted before are found again, else that of new ones is added. Of a job that never
    was healthy each window tells that of its own.
    Parameters: `slow`, the incident's findings on the job; `seen`, the job, and which of its steps are counted to other
    incidents; `beside`, the findings of each other incident.

    1. Where an incident begins or ends, steps beyond the usual by more than these vary are its own, too, and those that
       grew longer bit by bit before it was seen. It lasts for as large a part of the former as they lose of what the
       others do.
    2. Each step takes that much longer than the usual one; of a job that never was healthy, than a replay without the
       cause takes, or else by the share of time that the cause is known to cost.
    3. What several incidents slow together counts to each by the share of time that it is known to lose.
    4. A step whose beginning was not seen lost the share that the next one did; none if that one has no length.
    """
    job, counted = seen
    steps, duration_s, share = job.steps, job.steps.duration_s, _share(slow)
    others = [one for found in beside for one in found]
    own, theirs = covered(steps, slow), covered(steps, others)
    compared = compared_with(cost, slow, others, job, params)
    usual_s, grows = compared.usual_s, compared.grows
    own |= grows
    lasts_s = duration_s
    if usual_s is None:
        told = replayed(job.job.job_id, slow[0])
        share = share if told is None else told
        excess_s = duration_s * share
    else:
        excess_s = np.maximum(duration_s - usual_s - _made_up_s(steps, usual_s), 0.0)
        found, own = own, _touching(own, (steps.complete == 1) & (excess_s > compared.far_s) & ~theirs)
        lasts_s = duration_s * np.where(own & ~found, _as_of(excess_s, found), 1.0)
    if slow[0].kind in NETWORK_KINDS:
        excess_s = _explained_s(excess_s, duration_s * share, own, params)
    excess_s = excess_s * _part(slow, beside)
    own, excess_s = _unseen_as_next(steps, own, excess_s)
    own &= ~counted & ~covered(steps, [one for one in others if one.kind in STOPS])
    # Of a stop that proves to be slow steps the last one was not over when it was counted.
    before = own & (steps.start_ns < cost.until_ns)
    if compared.finds_again and (usual_s is not None or cost.time_s == 0):
        cost = replace(cost, lost_s=0.0, unseen_s=0.0, time_s=0.0)
    else:
        own &= ~before
    if not own.any():
        return cost
    return replace(
        cost,
        lost_s=cost.lost_s + float(excess_s[own].sum()),
        unseen_s=cost.unseen_s + float(excess_s[own & grows].sum()),
        time_s=cost.time_s + float(lasts_s[own & ~grows].sum()),
        until_ns=int(steps.end_ns[own].max()),
        usual_s=usual_s or 0.0,
    )


def _explained_s(excess_s: Float64, most_s: Float64, own: Bool, params: IncidentParams) -> Float64:
    """Return what of steps' excesses is due to a slow network, float64[n], seconds.

    Parameters: `most_s` float64[n], what messages are known to take longer in each; `own` bool[n], its steps. Steps may
    be longer for another reason, and what explains a part of their excess delays them by no more than itself. What
    explains nearly all is the reason: messages that overlap, or wait for one another, don't show all that they cost.
    """
    limited_s = np.minimum(excess_s, most_s)
    explains = limited_s[own].sum() > (1 - params.stray_share) * excess_s[own].sum()
    return np.asarray(excess_s if explains else limited_s)


def _made_up_s(steps: Steps, usual_s: float) -> Float64:
    """Return by how much only the next step is shorter than usual, float64[n], seconds.

    While a straggler ends a step the others have begun the next one.
    """
    shorter_s = np.where(steps.complete == 1, np.maximum(usual_s - steps.duration_s, 0.0), 0.0)
    next_s, later_s = np.append(shorter_s, 0.0)[1:], np.append(shorter_s, [np.inf] * 2)[2:]
    return np.asarray(np.maximum(next_s - later_s, 0.0))


def _unseen_as_next(steps: Steps, own: Bool, excess_s: Float64) -> tuple[Bool, Float64]:
    """Let steps of unseen beginnings lose the share that the next one does.

    Parameters: `own` bool[n], steps of an incident, and the `excess_s` float64[n] of each. Returns both.
    """
    unseen = np.flatnonzero(steps.complete[:-1] == 0)
    next_s = steps.duration_s[unseen + 1]
    share = np.divide(excess_s[unseen + 1], next_s, out=np.zeros_like(next_s), where=next_s > 0)
    own, excess_s = own.copy(), excess_s.copy()
    own[unseen] |= own[unseen + 1]
    excess_s[unseen] = steps.duration_s[unseen] * share
    return own, excess_s


def _share(findings: Sequence[Finding]) -> float:
    return max(one.slowdown for one in findings)


def _part(slow: Sequence[Finding], beside: Sequence[Sequence[Finding]]) -> float:
    """Return which part of the excess counts to an incident.

    Others may slow the same steps.
    """
    meeting = sum(_share(found) for found in beside if is_slow(found[0]) and _meet(found, slow))
    return _share(slow) / (_share(slow) + meeting) if meeting > 0 else 1.0


def _meet(found: Sequence[Finding], slow: Sequence[Finding]) -> bool:
    return any(one.first_step <= mine.last_step and mine.first_step <= one.last_step for one in found for mine in slow)


def _touching(own: Bool, slow: Bool) -> Bool:
    """Add to a mask of steps, bool[n], the runs of slow ones that it touches."""
    run = np.cumsum(~(own | slow))
    return np.asarray(own | (slow & np.isin(run, run[own])))


def _as_of(excess_s: Float64, found: Bool) -> Float64:
    """Return excesses as parts of what the steps found lose, at most 1, float64[n]."""
    each_s = float(np.nan_to_num(robust.median(excess_s[found])))
    return np.minimum(excess_s / each_s, 1.0) if each_s > 0 else np.ones(len(excess_s))
