"""Growth: since when steps had become longer bit by bit before anything was found."""

from __future__ import annotations

import math

import numpy as np

from prism_ch.model.columns import Float64, Int64
from prism_ch.model.params import IncidentParams


def grown_since(step: Int64, duration_s: Float64, params: IncidentParams) -> tuple[int, float] | None:
    """Find since when steps have been growing longer, and how long they were before.

    A broken stick (Hinkley, 1969): level up to some step, then rising by as much a step up to the last, fitted by least
    squares for every step that it may break at. Parameters: `step` int64[n], rising, not all of them; `duration_s`
    float64[n], seconds. Returns the step of the best fit and the level in seconds, None where so steep a rise may be
    chance, or a leap from one level to another fits better: then the work changed.
    """
    rows, least = len(step), params.recent_steps
    if rows < least + params.judged_steps:
        return None
    # With the level free, the slope is the covariance of the hinge and the durations over the hinge's variance.
    breaks = step[params.judged_steps : rows - least + 1]
    hinge = np.maximum(step - breaks[:, None], 0).astype(np.float64)
    hinge -= hinge.mean(axis=1)[:, None]
    apart = duration_s - duration_s.mean()
    variance = (hinge**2).sum(axis=1)
    slope = hinge @ apart / variance
    left = (apart**2).sum() - slope**2 * variance
    best = int(np.argmin(left))
    error = math.sqrt(max(float(left[best]), 0.0) / (rows - 3) / variance[best])
    if slope[best] <= params.min_score * error or _left_by_leap(apart) <= left[best]:
        return None
    since = int(breaks[best])
    return since, float(np.median(duration_s - np.maximum(step - since, 0) * slope[best]))


def _left_by_leap(values: Float64) -> float:
    """Return the least sum of squares that two levels in a row leave.

    Parameters: `values` float64[n], about their mean.
    """
    before = np.arange(1, len(values))
    first = np.cumsum(values)[:-1]
    return float((values**2).sum() - (first**2 / before + first**2 / (len(values) - before)).max())
