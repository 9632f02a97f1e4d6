"""Steps compared with the healthy ones before them: which are slow, by themselves or several together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prism_ch.analysis.diagnose.steps.healthy_steps import first_healthy, spread_about, spreads_if_healthy
from prism_ch.core import robust
from prism_ch.core.significance import MEDIAN_SPREAD
from prism_ch.model.columns import Bool, Float64
from prism_ch.model.finding import Finding
from prism_ch.model.params import DiagnoseParams
from prism_ch.model.result import Steps


@dataclass(frozen=True, slots=True)
class Compared:
    """Steps compared with healthy ones, one row each: slow or not, the expected duration in seconds, the score."""

    steps: Steps
    slow: Bool
    expected: Float64
    score: Float64


def compare(seen: Steps, going: Finding | None, late_s: Float64, params: DiagnoseParams) -> Compared:
    """Compare each step, and the median of several, with the healthy ones before.

    Parameters: `late_s` float64[n], by how much somebody kept the others waiting, NaN where nobody is seen to. A step
    that is longer by that is so by more than those before it vary by, however little they do.

    What gets slower bit by bit is never far from what was just before: it shows against the oldest steps known. Healthy
    are steps that neither shows to be slow, though some before them had to be taken for healthy.
    """
    duration = seen.duration_s
    start = np.arange(len(seen)) if going is None else np.flatnonzero(seen.step < going.first_step)
    first = first_healthy(duration[start], params)
    warm_up, healthy = len(first), [int(row) for row in first]
    oldest = spread_about(duration[start[: params.settled_steps]], params) if len(start) else None
    slow = np.zeros(len(seen), dtype=bool)
    expected, score = np.empty(len(seen)), np.zeros(len(seen))
    newest: list[int] = []
    if_healthy = spreads_if_healthy(duration, first, params)
    all_healthy = True
    for row, value in enumerate(duration):
        if all_healthy and len(healthy) == row and row in if_healthy:
            usual, spread = if_healthy[row]
        elif healthy or going is None:
            usual, spread = spread_about(duration[healthy[-params.settled_steps :]], params)
        else:
            usual, spread = spread_about(np.array([going.expected]), params)
        expected[row], score[row] = usual, (value - usual) / spread
        waited = value > (1 + params.small_excess) * usual and late_s[row] >= params.half * (value - usual)
        if waited and healthy:
            waited = value - usual > params.min_score * robust.mad(duration[healthy[-params.settled_steps :]])
        if waited or (score[row] > params.min_score and value > (1 + params.notable) * usual):
            slow[row], all_healthy = True, False
            continue
        newest = [*newest, row][-max(params.run_steps) :]
        for reference in ((usual, spread), oldest if row >= params.settled_steps else None):
            run = _slow_run(duration, newest, reference, params) if reference and not slow[row] else []
            if reference and row in run:
                slow[run], expected[run], all_healthy = True, reference[0], False
                score[run] = (duration[run] - reference[0]) / reference[1]
                healthy = [one for one in healthy if one not in run]
        if row >= warm_up and not slow[row]:
            healthy.append(row)
    return Compared(seen, slow, expected, score)


def _slow_run(
    duration_s: Float64, newest: Sequence[int], reference: tuple[float, float], params: DiagnoseParams
) -> list[int]:
    """List the rows of the newest steps that exceed the reference together.

    Parameters: `newest`, rows of steps that are not slow by themselves; `reference`, the usual duration and its spread.
    Half of some steps have to be longer for their median to be. It spreads 1.25 / sqrt(n) as wide as one of n steps.
    Without the very newest among them there is nothing that an earlier step has not shown.
    """
    usual, spread = reference
    if duration_s[newest[-1]] - usual <= params.small_excess * usual / 2:
        return []
    for width in params.run_steps:
        if len(newest) < width:
            break
        rows = np.array(newest[-width:])
        excess_s = float(np.sort(duration_s[rows])[(width - 1) // 2]) - usual
        surprising = excess_s > params.min_score * MEDIAN_SPREAD * spread / np.sqrt(width)
        if surprising and excess_s > params.small_excess * usual:
            return [int(row) for row in rows[duration_s[rows] - usual >= excess_s / 2]]
    return []
