"""What the steps of an incident are compared with: how long a job's steps took before it, and since when they grew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prism_ch.analysis.incidents.groups import is_slow
from prism_ch.analysis.incidents.growth import grown_since
from prism_ch.core import robust
from prism_ch.model.columns import Bool, Int64
from prism_ch.model.finding import NETWORK_KINDS, Finding
from prism_ch.model.incident import JobCost
from prism_ch.model.memory import JobMemory
from prism_ch.model.params import IncidentParams
from prism_ch.model.result import Steps


@dataclass(frozen=True, slots=True)
class Compared:
    """What the steps of an incident are compared with.

    `usual_s`: how long steps usually are, None where too few are known; `far_s`: by how much they vary by chance;
    `grows` bool[n]: those that grew longer before it was seen; `finds_again`: all that were counted before are there.
    """

    usual_s: float | None
    far_s: float
    grows: Bool
    finds_again: bool


def compared_with(
    cost: JobCost, slow: Sequence[Finding], others: Sequence[Finding], job: JobMemory, params: IncidentParams
) -> Compared:
    """Choose what to compare the steps of an incident with.

    What a young job loses shows better once more of it is known: how long its steps usually are, where they end, and
    which of them were slow. Once steps that were counted are forgotten, or those that grew longer, the newer ones are
    compared with what these were: the usual ones that are remembered may have grown longer, too.
    Parameters: `slow`, its findings on the job, and `others` those of others.
    """
    steps = job.steps
    healthy = healthy_steps(job, (*slow, *(one for one in others if is_slow(one))))
    far_s = params.min_score * float(np.nan_to_num(robust.mad(healthy.duration_s)))
    growth = None if slow[0].kind in NETWORK_KINDS else _growth(job, slow, others, params)
    begin_ns = min(one.start_ns for one in slow)
    is_same = cost.until_ns == 0 or begin_ns < cost.until_ns  # else it was over, and came again
    counted_s = steps.duration_s[covered(steps, slow) & (steps.start_ns < cost.until_ns)].sum()
    is_known = is_same and len(steps) > 0 and bool(steps.start_ns[0] <= begin_ns)
    has_grown = cost.unseen_s > 0 and is_same
    forgets = has_grown and (growth is None or bool(steps.step[0] > growth.since))
    finds_again = not forgets and (is_known or bool(counted_s >= params.nearly_all * cost.time_s))
    grows = np.zeros(len(steps), dtype=np.bool_)
    if cost.usual_s > 0 and is_same and not finds_again:
        usual_s: float | None = cost.usual_s
    elif growth is None:
        usual_s = _usual_s(slow, healthy, params)
    else:
        usual_s, grows = growth.usual_s, np.isin(steps.step, growth.steps)
    return Compared(usual_s, far_s, grows, finds_again)


@dataclass(frozen=True, slots=True)
class _Growth:
    """Steps that took `usual_s` up to step `since`, and since then longer bit by bit; `steps` are numbers of those."""

    since: int
    usual_s: float
    steps: Int64


def _growth(
    job: JobMemory, slow: Sequence[Finding], others: Sequence[Finding], params: IncidentParams
) -> _Growth | None:
    """Find the steps that grew longer before an incident was seen; None where none did.

    They lead up to it: where its first steps are longer by much more, something else slows them. Parameters: `slow` and
    `others`, its findings and those of others.
    """
    healthy = healthy_steps(job, (*slow, *others))
    before = healthy.take(healthy.step < min(one.first_step for one in slow))
    grown, own_s = grown_since(before.step, before.duration_s, params), job.steps.duration_s[covered(job.steps, slow)]
    if grown is None or not len(own_s):
        return None
    since, usual_s = grown
    few = params.judged_steps
    last_s, first_s = (float(np.median(one)) for one in (before.duration_s[-few:], own_s[:few]))
    if last_s - usual_s < params.half * (first_s - usual_s):
        return None
    return _Growth(since, usual_s, before.step[before.step > since])


def _usual_s(slow: Sequence[Finding], healthy: Steps, params: IncidentParams) -> float | None:
    """Return the usual duration of steps, in seconds; None where too few are known."""
    begins = min(one.first_step for one in slow)
    # Slow steps inside what is slow all along were compared with steps that are slow as well.
    known = [one.expected for one in slow if one.kind == "slow_step" and one.first_step <= begins + params.repeats]
    if any(known) and (healthy.step < begins).any():
        return float(np.median(known))
    recent_s = healthy.duration_s[-params.settled_steps :]
    return float(np.median(recent_s)) if len(healthy) >= params.slow_steps else None


def healthy_steps(job: JobMemory, found: Sequence[Finding]) -> Steps:
    """Return the job's known whole steps on which nothing is found.

    They do as much work as those that the first finding is on.
    """
    history = Steps.concat([job.baseline_steps, job.steps])
    nobodys = (one.first_step for one in job.findings if one.status == "open" and one.baseline.other_work)
    since = max((step for step in nobodys if step <= found[0].first_step), default=0)
    return history.take(~covered(history, found) & (history.complete == 1) & (history.step >= since))


def covered(steps: Steps, findings: Sequence[Finding]) -> Bool:
    """Mask the steps that findings concern, bool[n]."""
    mask = np.zeros(len(steps), dtype=bool)
    for one in findings:
        mask |= (steps.step >= one.first_step) & (steps.step <= one.last_step)
    return mask
