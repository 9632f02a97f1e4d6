"""Finds a job's habits: pauses that recur at equal distances, to save or to evaluate."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from prism_ch.core import robust
from prism_ch.model.columns import Bool, Float64, Int64
from prism_ch.model.params import StopParams
from prism_ch.model.result import Steps

#: A pause that falls into the middle of a step's traffic lengthens two steps.
_PAUSE_STEPS = 2


def periodic_pauses(steps: Steps, params: StopParams) -> Bool:
    """Mask the steps that are long because of a periodic pause, bool[n].

    Pauses for checkpoints or evaluations recur at an equal distance in steps or in seconds, at least `params.repeats`
    times, and are about equally long; a job may have several kinds. Parameters: `steps`, in order.
    """
    mask = np.zeros(len(steps), dtype=bool)
    if len(steps) < params.repeats:
        return mask
    begin, end, lost_s, usual_s = _pauses(steps, params)
    for place, tolerance in ((steps.step[begin].astype(np.float64), 0.0), (steps.start_ns[begin] / 1e9, usual_s)):
        while (found := _one_period(np.flatnonzero(~mask[begin]), place, lost_s, tolerance, params)).size:
            for run in found.tolist():
                mask[begin[run] : end[run]] = True
    return mask


def repeated_pauses(steps: Steps, params: StopParams) -> Bool:
    """Mask the steps that are long by as much as others, bool[n]. Two of a kind are no accident."""
    mask = np.zeros(len(steps), dtype=bool)
    begin, end, lost_s, _ = _pauses(steps, params)
    for row in range(len(begin)):
        mask[begin[row] : end[row]] = _are_alike(lost_s[row], np.delete(lost_s, row), params).any()
    return mask


def was_paused_as_long(steps: Steps, lost_s: float, params: StopParams) -> bool:
    """Return whether a job has lost about `lost_s` in a pause before."""
    return bool(_are_alike(lost_s, _pauses(steps, params)[2], params).any())


def may_be_a_pause(steps: Steps, lost_s: float, params: StopParams) -> bool:
    """Return whether a job has lost `lost_s` in a pause before, or more."""
    return bool((_pauses(steps, params)[2] * (1 + params.stray_share) >= lost_s).any())


def _are_alike(lost_s: float, others_s: Float64, params: StopParams) -> Bool:
    """Mask the pauses that lost as much as one did, bool[n]."""
    mask: Bool = np.abs(np.log(lost_s / others_s)) < np.log1p(params.stray_share)
    return mask


def _pauses(steps: Steps, params: StopParams) -> tuple[Int64, Int64, Float64, float]:
    """Find short runs of steps that are longer than usual.

    Returns the first row of each and the row after its last, int64[p] each, by how many seconds they are longer,
    float64[p], and the usual duration.
    """
    usual_s = float(robust.median(steps.duration_s))
    excess_s = steps.duration_s - usual_s
    long = (excess_s > params.notable * usual_s) & (steps.complete == 1)
    begin = np.flatnonzero(long & ~np.append(False, long[:-1]))
    end = np.flatnonzero(long & ~np.append(long[1:], False)) + 1
    brief = end - begin <= _PAUSE_STEPS
    begin, end = begin[brief], end[brief]
    lost_s = np.array([excess_s[first:last].sum() for first, last in zip(begin, end, strict=True)])
    return begin, end, lost_s, usual_s


def pause_is_due(steps: Steps, silent_s: float, params: StopParams) -> bool:
    """Return whether a periodic pause explains a rest of `silent_s` after the last step."""
    mask = periodic_pauses(steps, params)
    if not mask.any():
        return False
    longest_s = float(steps.duration_s[mask].max())
    if silent_s > params.twice * longest_s:
        return False
    last, end_ns = steps.take(np.array([len(steps) - 1])), int(steps.end_ns[-1])
    span = {"start_ns": np.array([end_ns]), "end_ns": np.array([end_ns + round(longest_s * 1e9)])}
    return bool(periodic_pauses(Steps.concat([steps, replace(last, step=last.step + 1, **span)]), params)[-1])


def _one_period(rows: Int64, place: Float64, lost_s: Float64, tolerance: float, params: StopParams) -> Int64:
    """Return the pauses that recur at one distance, empty if none do.

    Parameters: `place`, where each pause is, in steps or seconds; `lost_s`, its length; `tolerance`, by how much the
    distance may differ. Any two neighbours may give the distance, since other pauses may lie between.
    """
    for first, second in pairwise(rows.tolist()):
        distance = place[second] - place[first]
        turns = np.round((place[rows] - place[first]) / distance)
        at_turn = np.abs(place[rows] - place[first] - turns * distance) <= tolerance * np.maximum(np.abs(turns), 1)
        longer = np.log(lost_s[rows] / lost_s[first])
        # Where two kinds of pauses meet, one of them is hidden in the longer one.
        taken = at_turn & (longer > -np.log(params.twice))
        spanned = 1 + turns[taken].max() - turns[taken].min()
        turned = len(np.unique(turns[taken]))
        if turned >= params.repeats and turned >= (1 - params.stray_share) * spanned:
            recurring: Int64 = rows[taken & (longer < np.log(params.twice))]
            return recurring
    return rows[:0]
