"""How far units are that send nothing on: the traffic inside their operations shows it."""

from __future__ import annotations

import numpy as np

from prism_ch.analysis.replay.turns import fill
from prism_ch.analysis.roles.units import by_unit
from prism_ch.core.arrays import fold_at, fold_rows
from prism_ch.model.columns import Float64, Int32, Int64
from prism_ch.model.job import Division
from prism_ch.model.traffic import Traffic


def last_exchanges(
    bursts: Traffic, division: Division, base_ns: Int64, role: Int64, unit: Int32
) -> dict[tuple[int, int], tuple[Int64, Float64]]:
    """Find when units are first in sight of the last exchange of a step.

    Parameters: `bursts` inside operations; `base_ns` int64[k], when each step began; `role` int64[m] and `unit`
    int32[m] of the endpoints of the division.
    Returns units, int64[u], and moments, float64[u, k, 1], as outputs of each role to itself.

    A hop begins when both of its ends are there. An endpoint was there when the first of its last hops began.
    """
    src, dst = division.rows_of(bursts.pair_src), division.rows_of(bursts.pair_dst)
    step = division.step_of(src[bursts.pair], bursts.start_ns)
    inside = step < division.steps
    hops = np.full((len(src), division.steps), -np.inf)
    moments = bursts.start_ns[inside] - base_ns[step[inside]]
    fold_at(np.maximum, hops, (bursts.pair[inside], step[inside]), moments)
    hops = np.where(np.isinf(hops), np.inf, hops)
    last = np.full((len(role), division.steps), np.inf)
    for side in (src, dst):
        fold_rows(np.minimum, last, side, hops)
    last = np.where(np.isinf(last), np.nan, last)
    found = {}
    for one in np.unique(role).tolist():
        rows = np.flatnonzero((role == one) & np.isfinite(last).any(axis=1))
        if len(rows):
            units, at = by_unit(last[rows, :, None], rows, unit, latest=False)
            found[one, one] = units, fill(at)
    return found
