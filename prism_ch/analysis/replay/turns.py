"""What pairs of endpoints do in turn in each step: the messages of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.core import robust
from prism_ch.core.arrays import distinct, run_lengths, run_places, run_starts
from prism_ch.model.columns import Float64, Int64
from prism_ch.model.job import Division
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Turns:
    """The messages of pairs that do the same, in order in each step.

    `pair` int64[p] are rows of all pairs, `src`, `dst` int64[p] of the division; `start`, `end` float64[p, k, n]
    nanoseconds since the step began, NaN in steps in which a pair has another number of messages than is usual.
    """

    pair: Int64
    src: Int64
    dst: Int64
    start: Float64
    end: Float64

    @property
    def count(self) -> int:
        """How many turns a step has."""
        return int(self.start.shape[2])


def read_turns(bursts: Traffic, division: Division, base_ns: Int64, alike: Int64) -> dict[int, Turns]:
    """List the turns of each set of pairs, by its number.

    Parameters: `bursts` of one kind; `base_ns` int64[k], when each step began; `alike` int64[pairs] numbers the set of
    each pair. Sets without a burst are left out.
    """
    src, dst = division.rows_of(bursts.pair_src), division.rows_of(bursts.pair_dst)
    step = division.step_of(src[bursts.pair], bursts.start_ns)
    inside = step < division.steps
    pair, step = bursts.pair[inside].astype(np.int64), step[inside]
    start, end = bursts.start_ns[inside] - base_ns[step], bursts.end_ns[inside] - base_ns[step]
    starts = run_starts(pair, step)  # bursts are sorted by pair and time
    counts = run_lengths(starts, len(pair))
    place, many = run_places(starts, len(pair)), np.repeat(counts, counts)
    number = np.full(len(src), -1)
    found = {}
    for one in distinct(alike[pair]).tolist():
        pairs = np.flatnonzero(alike == one)
        number[pairs] = np.arange(len(pairs))
        usual = int(np.bincount(counts[alike[pair[starts]] == one]).argmax())
        kept = (alike[pair] == one) & (many == usual)
        at = [np.full((len(pairs), division.steps, usual), np.nan) for _ in range(2)]
        for times, moments in zip(at, (start, end), strict=True):
            times[number[pair[kept]], step[kept], place[kept]] = moments[kept]
        found[one] = Turns(pairs, src[pairs], dst[pairs], at[0], at[1])
    return found


def fill(values: Float64) -> Float64:
    """Fill in missing moments of units that do the same, float64[u, k, n].

    By what the others do in that step, and by how much the unit usually differs from them. NaN stays where no other
    shows it.
    """
    if not np.isnan(values).any():
        return values
    usual = robust.median(values, axis=0)[None]
    own = robust.median(values - usual, axis=1)[:, None]
    return np.where(np.isnan(values), np.rint(usual + np.nan_to_num(own)), values)
