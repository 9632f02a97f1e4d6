"""Which steps are healthy at first, and how widely the durations of healthy steps spread."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from prism_ch.core import robust
from prism_ch.core.significance import quickest_runs
from prism_ch.model.columns import Float64, Int64
from prism_ch.model.params import DiagnoseParams


def first_healthy(start: Float64, params: DiagnoseParams) -> Int64:
    """Return the rows that show what is usual at first, int64[n].

    The first steps have none before them: the first few serve them all. Where later ones are quicker beyond chance, the
    first ones were slow.
    """
    rows = np.arange(min(len(start), params.judged_steps))
    if len(start) <= params.judged_steps:
        return rows
    usual, chance = robust.middle(start[rows]), (params.compute_jitter, params.min_score)
    first = quickest_runs(start[None, : params.settled_steps], np.array([usual]), params.reference_steps, *chance)[0]
    return rows if first < 0 else np.arange(first, first + params.reference_steps)


def spread_about(healthy: Float64, params: DiagnoseParams) -> tuple[float, float]:
    """Return the median of healthy durations and the spread about it, no less than jitter."""
    usual = robust.middle(healthy)
    # `robust.mad`, of values none of which is missing and whose median is known: this is done for every step.
    spread = robust.MAD_TO_SD * robust.middle(np.abs(healthy - usual))
    return usual, max(spread, params.compute_jitter * usual)


def spreads_if_healthy(duration_s: Float64, first: Int64, params: DiagnoseParams) -> dict[int, tuple[float, float]]:
    """Return what `spread_about` gives before each row if all steps are healthy.

    Parameters: `first`, the rows that are healthy at first, which are left out.
    """
    if not 0 < len(first) < len(duration_s) or not np.array_equal(first, np.arange(len(first))):
        return {}
    width = max(params.settled_steps, len(first))
    none = np.full(width - len(first), np.nan)
    before = sliding_window_view(np.concatenate([none, duration_s[:-1]]), width)
    usual = robust.median(before, axis=1)
    spread = robust.MAD_TO_SD * robust.median(np.abs(before - usual[:, None]), axis=1)
    spread = np.maximum(spread, params.compute_jitter * usual)
    return dict(enumerate(zip(usual.tolist(), spread.tolist(), strict=True), start=len(first)))
