"""Finds the stop that a job has just gone on after, before another step shows what it was.

Whoever is called by a job that stands still wants to know at once that it goes on, and what that cost. Why it stood
still, and for whom it waited, is known once the step after it has ended: then that finding goes on.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prism_ch.analysis.diagnose.findings import severity
from prism_ch.analysis.diagnose.stops.habits import pause_is_due, was_paused_as_long
from prism_ch.analysis.diagnose.stops.rests import least_stop_s, longest_rests
from prism_ch.analysis.diagnose.stops.silence import QuietJob, UsualRhythm
from prism_ch.analysis.diagnose.stops.stop_findings import Stop, slowdown_by, stop_finding
from prism_ch.analysis.observe.holes import unseen
from prism_ch.core.arrays import distinct
from prism_ch.model.finding import Baseline, Finding
from prism_ch.model.params import Params

#: Steps before a stop: the last one had no rest as long. The one before it bounds it.
_BEFORE = 2


def find_just_ended(quiet: QuietJob, rhythm: UsualRhythm | None, params: Params) -> Finding | None:
    """Find the stop in the last step that has ended, or the one after it.

    It is longer than a slow GPU makes a rest, the step before had none as long, it is no habit, and no hole in the
    records hides it.
    """
    if rhythm is None:
        return None
    settled_ns = int(quiet.steps.end_ns[-2])
    training_ns = quiet.trained(params.stops).end_ns
    ends = np.append(settled_ns, distinct(training_ns[training_ns > settled_ns]))
    if len(ends) < 2:
        return None
    longest = int(np.argmax(np.diff(ends)))
    since_ns, until_ns = int(ends[longest]), int(ends[longest + 1])
    rest_s = (until_ns - since_ns) / 1e9
    lost_s = rest_s - rhythm.rest_s
    earlier = quiet.steps.take(quiet.steps.end_ns <= since_ns)
    least_s = least_stop_s(rhythm.rest_s, rhythm.step_s, params.stops)
    before_since, before_until = longest_rests(training_ns, earlier.end_ns[-_BEFORE:])
    slow = bool(((before_until - before_since)[1:] > least_s * 1e9).any())
    hidden = unseen(np.array([since_ns]), np.array([until_ns]), quiet.holes).any()
    too_short = rest_s <= least_s or lost_s < params.stops.min_lost_s
    if (
        hidden
        or slow
        or too_short
        or pause_is_due(earlier, rest_s, params.stops)
        or was_paused_as_long(earlier, lost_s, params.stops)
    ):
        return None
    slowdown = slowdown_by(lost_s, rest_s, rhythm.step_s, params.stops)
    step = int(quiet.steps.step[-1]) + int(until_ns > quiet.steps.end_ns[-1])
    stop = Stop(quiet.job_id, step, since_ns, until_ns, rhythm.rest_s, lost_s, slowdown)
    found = stop_finding(
        "stall",
        stop,
        severity(slowdown, params.diagnose),
        f"The job stood still for {rest_s:.3g} s in step {step} and has just gone on: who was waited for is told "
        "once the step after it has ended.",
        {"just_ended": True},
        is_open=True,
    )
    return replace(found, baseline=Baseline(early=True))
