"""Regimes: lasting changes of how long a job's steps take, which are nobody's fault, as of a batch size.

What makes every rank work longer alike, and move more, is other work and no slowness; the steps since are compared with
one another, not with those before. BOCD on the step times tells since when they last as long as they do now.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.core import bocd, robust
from prism_ch.core.significance import trailing_low_median
from prism_ch.model.columns import Float64, Int64, freeze
from prism_ch.model.params import DiagnoseParams
from prism_ch.model.result import Steps


@dataclass(frozen=True, slots=True)
class Moved:
    """What steps of a job moved, a row a step: `payload` int64[steps, kinds], in bytes, of the step `number`.

    `shows_late`: ranks are seen to be ready one after the other, so that one that keeps others waiting would be, too.
    """

    number: Int64
    payload: Int64
    shows_late: bool = False

    def __post_init__(self) -> None:
        """Freeze the columns."""
        freeze(self, number=np.int64)
        self.payload.flags.writeable = False

    @classmethod
    def unknown(cls) -> Moved:
        """Return that nothing is known."""
        return cls(np.empty(0, dtype=np.int64), np.empty((0, 1), dtype=np.int64))

    def changed(self, first_step: int, last_step: int, share: float) -> bool:
        """Say whether steps move more or less than those before by more than a share, in one kind or another."""
        before, during = self.number < first_step, (self.number >= first_step) & (self.number <= last_step)
        if not before.any() or not during.any():
            return False
        usual, now = (np.median(self.payload[rows], axis=0) for rows in (before, during))
        return bool((np.abs(now - usual) > share * np.maximum(usual, 1)).any())


def newest_run(duration_s: Float64, params: DiagnoseParams) -> int:
    """Return the row of the step since which steps last as long as they do now, most probably.

    Parameters: `duration_s` float64[n], n >= 1. On logarithms of medians of three, which a single slow step does not
    lift, so that the row may be one too late; the spread within a run is that of neighbours, which a change in between
    does not widen.
    """
    smooth = trailing_low_median(duration_s, 3)
    logs = np.log(np.where(np.isnan(smooth), duration_s, smooth))
    neighbours = np.diff(logs) / np.sqrt(2)
    spread = max(float(robust.mad(neighbours)) if len(neighbours) else 0.0, params.compute_jitter)
    prior = bocd.Prior(np.array([float(np.median(logs))]), np.array([spread**2]))
    offsets = np.array([0, len(logs)], dtype=np.int64)
    found = bocd.detect(logs, offsets, prior, expected_run=float(params.settled_steps))
    return len(logs) - 1 - int(found.map_run_length[-1])


def computes_longer(seen: Steps, rows: list[int], first: int) -> bool:
    """Say whether most of what some rows of steps take longer than those before the row `first` is computing."""
    if not first:
        return False
    excess_s = [
        float(np.median(column[rows]) - np.median(column[:first])) for column in (seen.compute_s, seen.duration_s)
    ]
    return excess_s[0] > excess_s[1] / 2
