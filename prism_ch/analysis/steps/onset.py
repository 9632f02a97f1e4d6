"""Which closing bursts open the next step, where a reduce-scatter closes one and an all-gather opens it.

Silence shows when the closing traffic of a step is over, not which of it belongs to the step that follows. But the
first step of a job has nothing before it, and a published one began where the one before it ended. What came from such
an onset to the end of the closing traffic opened that step, and as much opens every other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.analysis.steps.regularity import most_regular
from prism_ch.analysis.steps.sequences import Background, Sequences
from prism_ch.analysis.steps.step_volume import KnownSteps
from prism_ch.analysis.steps.usual_volume import segment
from prism_ch.core import robust
from prism_ch.core.arrays import run_starts
from prism_ch.core.search import group_search
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.job import Division
from prism_ch.model.params import DivideParams


@dataclass(frozen=True, slots=True)
class _Cut:
    """Sequences cut after the masked bursts, `ends` bool[n].

    `step_volume` float64[k] is what a step carries; `after` float64[n] the share of it that follows a burst in its
    segment, NaN in a segment that does not end in the data.
    """

    ends: Bool
    step_volume: Float64
    after: Float64

    @classmethod
    def of(cls, sequences: Sequences, ends: Bool, params: DivideParams) -> _Cut:
        """Measure what follows each burst in its segment."""
        step_volume, _ = most_regular(sequences, ends, params)
        last = np.flatnonzero(ends | np.isinf(sequences.gap_s))
        closing = last[np.searchsorted(last, np.arange(len(ends)))]
        total = np.cumsum(sequences.payload)
        after = (total[closing] - total) / step_volume[sequences.line]
        return cls(ends, step_volume, np.where(ends[closing], after, np.nan))


def with_onset(
    sequences: Sequences, ends: Bool, background: Background, known: KnownSteps, params: DivideParams
) -> Bool:
    """Move the ends of steps before the next one's onset amid closing traffic, bool[n].

    Parameters: `ends` bool[n], where closing traffic of a step is over; `background`, other traffic; `known`, see
    `read_known`.
    """
    cut = _Cut.of(sequences, ends, params)
    if known.last is None:
        share = _share_of_first_step(sequences, cut, background, params)
    else:
        after = cut.after[known.last[known.last >= sequences.offsets[:-1, None]]]
        after = after[~np.isnan(after)]
        share = float(np.median(after)) if len(after) else 0.0
    return _move(sequences, cut, share, params) if share > params.size_spread else ends


def _share_of_first_step(sequences: Sequences, cut: _Cut, background: Background, params: DivideParams) -> float:
    """Return the share of closing traffic that opens the first step.

    Where the data begin with a step, the first segment is short, and no other traffic of the step comes before or
    during it; else 0. It is on all sequences: data that begin amid a step, after the closing traffic of some stages
    and before that of others, show some short segments and some whole ones.
    """
    first = sequences.offsets[:-1]
    opening = cut.after[first] + sequences.payload[first] / cut.step_volume
    over = sequences.offsets[1:] - 1
    rows = np.flatnonzero(cut.ends)
    np.minimum.at(over, sequences.line[rows], rows)
    nobody = len(cut.ends)
    begins_after = np.full(len(sequences), nobody)
    np.minimum.at(begins_after, background.line, background.after)
    alone = (begins_after >= over) & (begins_after < nobody)
    whole = opening >= 1 - 2 * params.size_spread
    shows = alone & ~whole
    if shows.mean() < params.half or whole.mean() > params.little:
        return 0.0
    return float(np.median(opening[shows]))


def read_known(
    sequences: Sequences, line_of_endpoint: Int32, known: Division | None, params: DivideParams
) -> KnownSteps:
    """Measure what the steps published before show; `line_of_endpoint` int32[e], -1 without."""
    if known is None:
        return KnownSteps.none(sequences)
    line = line_of_endpoint[known.endpoints]
    end_ns = np.zeros((len(sequences), known.steps), dtype=np.int64)
    np.maximum.at(end_ns, line[line >= 0], known.end_ns[line >= 0])
    owner = np.repeat(np.arange(len(sequences), dtype=np.int32), known.steps)
    place = group_search(sequences.line, sequences.end_ns, owner, end_ns.ravel() + params.burst_gap_ns) - 1
    place = place.reshape(end_ns.shape)
    inside = place >= sequences.offsets[:-1, None]
    total = np.concatenate([[0.0], np.cumsum(sequences.payload)])
    carried = np.where(inside[:, :-1], np.diff(total[place + 1], axis=1), np.nan)
    carried[carried <= 0] = np.nan
    enough = np.count_nonzero(~np.isnan(carried), axis=1) >= params.repeats
    ends = np.zeros(len(sequences.line), dtype=bool)
    ends[place[inside & (np.abs(sequences.end_ns[place] - end_ns) <= params.burst_gap_ns)]] = True
    usual = np.where(enough, robust.median(carried, axis=1), np.nan)
    return KnownSteps(usual, robust.mad(carried, axis=1) / usual, ends, place)


def _move(sequences: Sequences, cut: _Cut, share: float, params: DivideParams) -> Bool:
    """Cut the sequences anew so that the share opens a step, if most part so."""
    onset = _last_before_onset(sequences, cut, share)
    fits = np.abs(cut.after[onset] - share) <= params.size_spread
    if np.count_nonzero(fits) <= params.half * len(onset):
        return cut.ends
    preference = np.full(len(cut.ends), -params.log_odds)
    preference[onset[fits]] = params.log_odds
    return segment(sequences, cut.step_volume, preference, params)


def _last_before_onset(sequences: Sequences, cut: _Cut, share: float) -> Int64:
    """Find the burst of each whole segment that leaves nearest to the given share."""
    whole = np.flatnonzero(~np.isnan(cut.after))
    number: Int64 = (np.cumsum(cut.ends) - cut.ends)[whole]
    order = np.lexsort((np.abs(cut.after[whole] - share), number))
    nearest = whole[order[run_starts(number[order])]]
    line = sequences.line[nearest]
    return np.asarray(nearest[np.concatenate([[False], line[1:] == line[:-1]])])
