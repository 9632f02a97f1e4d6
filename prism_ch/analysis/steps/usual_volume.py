"""What a whole step of each sequence carries: of all ways to cut it, the one that leaves steps most alike."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from prism_ch.analysis.steps.periods import Period, ends_as_others, find_periods, period_ends, show_ends
from prism_ch.analysis.steps.proposals import order_by_pieces, pass_share
from prism_ch.analysis.steps.rare_bursts import rare_bursts
from prism_ch.analysis.steps.regularity import most_regular, unevenness
from prism_ch.analysis.steps.sequences import Sequences
from prism_ch.core import robust
from prism_ch.core.periodicity import long_turn
from prism_ch.core.step_volume import segment_by_volume
from prism_ch.model.columns import Bool, Float64, Int32
from prism_ch.model.params import DivideParams

#: Place of the longer of two classes of silences among proposals.
_SPLIT = 2


@dataclass(frozen=True, slots=True)
class Cut:
    """How sequences are cut into steps.

    `step_volume` float64[k] is what a step of each carries, in bytes; `regular` float64[k], the share of it all in
    steps that are alike; `uneven` float64[k], how unequal their times are; `preference` float64[n], the log-odds of an
    end after each burst.
    """

    step_volume: Float64
    regular: Float64
    uneven: Float64
    preference: Float64

    def with_steps(
        self, sequences: Sequences, chosen: Bool, step_volume: Float64, ends: Bool, params: DivideParams
    ) -> Cut:
        """Give the chosen sequences, bool[k], other steps, that end at masked bursts, bool[n]."""
        return replace(
            self,
            step_volume=np.where(chosen, step_volume, self.step_volume),
            preference=np.where(chosen[sequences.line], _preferring(ends, params), self.preference),
        )


def choose_volume(sequences: Sequences, proposals: list[Bool], preference: Float64, params: DivideParams) -> Cut:
    """Choose what a step of each sequence carries.

    Parameters: `proposals` bool[n] each and `preference` float64[n], see `propose`.

    1. Choose among the proposals.
    2. Find sequences whose cut is doubtful. Cut them by their periods, or where others are cut, if that is more even.
    3. Where bursts run together, so that there is no period, one of them may still come before a silence, or be of a
       size, that no other of its step has. Cut what is left irregular by these, if that is plainly more regular and
       more even.
    4. Where every k-th piece is quick, k of them are a step.
    """
    step_volume, regular, uneven = usual_step(sequences, proposals, params)
    of_volume = robust.size_classes(sequences.volume, params.same_volume)
    cut = Cut(_as_most(step_volume, of_volume, params), regular, uneven, preference)
    silent = proposals[min(_SPLIT, len(proposals) - 1)]
    cut, irregular = _by_periods(sequences, cut, silent, of_volume, params)
    cut = _by_rare_bursts(sequences, cut, irregular, params)
    return _by_quick_pieces(sequences, cut, params)


class _Doubts(NamedTuple):
    """Why the cut of a sequence may not be into steps, bool[k] each.

    `irregular`: pieces differ, no silence is longer than the others, or there is nothing of the period that most have;
    `in_part`: a period carries more; `uneven`: pieces take unequal times; `by_gather`: a gather shows better than
    silences where steps end. Those that are to be cut `as_others` show less of a period than those that move something
    `throughout`.
    """

    irregular: Bool
    in_part: Bool
    uneven: Bool
    by_gather: Bool
    as_others: Bool
    throughout: Bool


def _doubts(
    sequences: Sequences, cut: Cut, periods: list[Period | None], of_volume: Int32, params: DivideParams
) -> _Doubts:
    carried = np.array([0.0 if period is None else period.volume for period in periods])
    throughout = np.array([period is not None and period.moves_throughout(params) for period in periods])
    in_part = carried > (1 + 2 * params.size_spread) * cut.step_volume
    irregular = cut.regular < params.min_plain_share
    irregular |= _silence_share(sequences, cut.step_volume) < params.min_silence_share
    irregular |= throughout & ~in_part
    # What most do, one that lost too many records to show a period does as well.
    as_others = np.array([period is None for period in periods]) & (np.mean(throughout) > params.half)
    several = _carry_several(carried, of_volume, params)
    as_others, throughout = as_others | (several & throughout), throughout & ~several
    as_much = np.abs(carried - cut.step_volume) <= params.size_spread * cut.step_volume
    by_gather = show_ends(periods, as_much, params)
    uneven = cut.uneven > params.max_uneven
    return _Doubts(irregular | as_others, in_part, uneven, by_gather, as_others, throughout)


def _by_periods(
    sequences: Sequences, cut: Cut, silent: Bool, of_volume: Int32, params: DivideParams
) -> tuple[Cut, Bool]:
    """Cut doubtful sequences by their periods; return which stay irregular, too, bool[k].

    Parameters: `silent` bool[n], bursts before long silences; `of_volume`, see `_as_most`.
    """
    periods = find_periods(sequences, params)
    doubts = _doubts(sequences, cut, periods, of_volume, params)
    odd = doubts.irregular | doubts.uneven | doubts.by_gather
    if not (odd | doubts.in_part).any():
        return cut, doubts.irregular
    ends, shown = period_ends(sequences, periods, silent, odd | doubts.in_part, params)
    ends = ends_as_others(sequences, ends, doubts.as_others, doubts.throughout)
    size, share = most_regular(sequences, ends, params)
    # Bursts that are joined in slow steps have no place in a period, but steps still carry as much.
    pieces = segment(sequences, np.where(size > 0, size, cut.step_volume), _preferring(ends, params), params)
    plainer = doubts.in_part & (share > cut.regular + params.little)
    enough = np.where(
        doubts.irregular | plainer,
        np.maximum(params.even_gain * cut.uneven, params.max_uneven),
        _even_enough(cut.uneven, size / cut.step_volume, params),
    )
    better = (odd | plainer) & (unevenness(sequences, pieces, params) < enough)
    better |= doubts.by_gather
    better |= doubts.in_part & shown & (most_regular(sequences, pieces, params)[1] >= params.min_plain_share)
    better = (better | _do_most(better, of_volume)) & (share >= params.half)
    return cut.with_steps(sequences, better, size, ends, params), doubts.irregular & ~better


def _by_rare_bursts(sequences: Sequences, cut: Cut, irregular: Bool, params: DivideParams) -> Cut:
    """Cut irregular sequences, bool[k], by rare bursts.

    That is to leave them plainly more regular, and even; where they were regular, more even.
    """
    for ends in rare_bursts(sequences, irregular, params):
        size, share = most_regular(sequences, ends, params)
        evener = _even_enough(cut.uneven, size / cut.step_volume, params)
        enough = np.where(cut.regular < params.min_plain_share, params.max_uneven, evener)
        better = irregular & (unevenness(sequences, ends, params) < enough)
        better &= share > np.maximum(cut.regular + params.little, params.min_plain_share)
        cut = cut.with_steps(sequences, better, size, ends, params)
        cut = replace(cut, regular=np.where(better, share, cut.regular))
    return cut


def _by_quick_pieces(sequences: Sequences, cut: Cut, params: DivideParams) -> Cut:
    """Join k pieces where every k-th takes less than half as long as all others.

    Pieces are alike in size. The quick one is what all ranks gather once the last microbatch is scattered, which may be
    as many bytes. Nothing that comes now and then, as a checkpoint does, makes one quick.
    """
    pieces = segment(sequences, cut.step_volume, cut.preference, params)
    times, quick = np.ones(len(sequences), dtype=np.int64), np.zeros_like(pieces)
    for line in range(len(sequences)):
        rows = sequences.rows(line)
        ends = rows.start + np.flatnonzero(pieces[rows])
        speed = 1e9 / np.diff(sequences.end_ns[ends])
        found = long_turn(speed, range(3, params.max_microbatches + 2), params.twice, params.repeats)
        if found is not None:
            turn, times[line] = found
            quick[ends[1:][turn :: times[line]]] = True
    return cut.with_steps(sequences, times > 1, times * cut.step_volume, quick, params)


def _preferring(ends: Bool, params: DivideParams) -> Float64:
    """Return the preference of an end where steps end at masked bursts, float64[n]."""
    return np.where(ends, 1, -1) * params.log_odds


def usual_step(sequences: Sequences, proposals: list[Bool], params: DivideParams) -> tuple[Float64, Float64, Float64]:
    """Choose the payload of one step of each sequence: most payload is cut into it.

    1. Every proposal cuts the sequence into pieces; the size class with the most payload is its candidate.
    2. Pieces alike in size and in time are steps. Buckets of one step are alike in size only.
    3. A coarser cut counts where a finer one is irregular, if it is about as regular, or where it is more regular and
       more even than sums are: lost records make sums less alike, but not parts of a step.

    Returns the payload, the regular share of what it cuts, and how uneven that is in time, float64[k] each.
    """
    best_share, uneven = np.zeros(len(sequences)), np.zeros(len(sequences))
    step_volume = np.ones(len(sequences))
    for size, share, spread in _finest_first(sequences, proposals, params):
        times = np.maximum(size / step_volume, 1)
        joined = _regular_when_joined(best_share, times, sequences.volume / size)
        enough = np.where(share >= params.half, joined, best_share) - params.regularity_margin
        plainly = (uneven > params.max_uneven) | (share > best_share + params.little)
        plainly &= spread < _even_enough(uneven, times, params)
        better = (best_share == 0) | ((share > enough) & ((best_share < params.min_plain_share) | plainly))
        step_volume, uneven = np.where(better, size, step_volume), np.where(better, spread, uneven)
        best_share = np.where(better, share, best_share)
    return step_volume, best_share, uneven


def _as_most(step_volume: Float64, of_volume: Int32, params: DivideParams) -> Float64:
    """Return what most sequences of as many bytes carry in a step, float64[k].

    Parameters: `of_volume` int32[k], the class of each by its bytes in all. Buckets that run into one another on a slow
    rail seem to be steps. Where most differ, each keeps its own.
    """
    usual = robust.median_by(of_volume, step_volume, int(of_volume.max(initial=-1)) + 1)[of_volume]
    differs = np.abs(step_volume - usual) > params.size_spread * usual
    few = 2 * np.bincount(of_volume, differs)[of_volume] < np.bincount(of_volume)[of_volume]
    return np.where(differs & few, usual, step_volume)


def _carry_several(carried: Float64, of_volume: Int32, params: DivideParams) -> Bool:
    """Mask sequences whose period is several of one that carries as much, bool[k].

    Parameters: `carried` float64[k], the bytes of a period; `of_volume`, see `_as_most`. What repeats does so in
    several periods as well: where bursts have run into one another for some time, only these have the same number of
    bursts all the time.
    """
    least = np.full(int(of_volume.max(initial=-1)) + 1, np.inf)
    np.minimum.at(least, of_volume, np.where(carried > 0, carried, np.inf))
    times = carried / least[of_volume]
    return np.asarray((times > params.one_step) & (np.abs(times - np.rint(times)) <= params.size_spread))


def _do_most(mask: Bool, of_volume: Int32) -> Bool:
    """Mask sequences where most that carry as many bytes are masked, bool[k].

    Parameters: `of_volume`, see `_as_most`. All rails of a group pass through the same collectives, a straggler's at
    other times.
    """
    return np.asarray(2 * np.bincount(of_volume, mask)[of_volume] > np.bincount(of_volume)[of_volume])


def _finest_first(sequences: Sequences, proposals: list[Bool], params: DivideParams) -> Float64:
    """Measure what each proposal cuts, for each sequence the finest first, float64[proposals, 3, k].

    As `usual_step` returns; pieces that each hold a pass of the pipeline are even, whatever pauses are between them.
    """
    measured = []
    for ends in proposals:
        has_passes = pass_share(sequences, ends, params) >= params.min_plain_share
        uneven = np.where(has_passes, 0.0, unevenness(sequences, ends, params))
        measured.append((*most_regular(sequences, ends, params), uneven))
    return np.take_along_axis(np.array(measured), order_by_pieces(sequences, proposals)[:, None], axis=0)


def _regular_when_joined(share: Float64, joined: Float64, pieces: Float64) -> Float64:
    """Return the regular share expected of pieces that each join `joined` others, float64[k].

    Losses at random spare share^k of the steps of k buckets, less two standard errors over the `pieces` there are.
    """
    expected = share**joined
    return np.asarray(expected - 2 * np.sqrt(expected * (1 - expected) / np.maximum(pieces, 1)))


def _even_enough(uneven: Float64, times: Float64, params: DivideParams) -> Float64:
    """Return how even pieces that join others must be: more so than sums, float64[k]."""
    return np.asarray(params.even_gain * uneven / np.sqrt(np.maximum(times, 1)))


def _silence_share(sequences: Sequences, step_volume: Float64) -> Float64:
    """Return the longest usual silence as a share of a step, float64[k].

    The median of the longest silences, as many as there are steps, over the mean time of a step.
    """
    steps = np.maximum(sequences.volume / step_volume, 1)
    bursts = np.diff(sequences.offsets)
    took_s = (sequences.end_ns[sequences.offsets[1:] - 1] - sequences.start_ns[sequences.offsets[:-1]]) / 1e9
    share = np.ones(len(sequences))
    for line, among in enumerate(np.clip(1 - steps / 2 / np.maximum(bursts, 1), 0, 1)):
        gaps = sequences.gap_s[sequences.rows(line)][:-1]
        if len(gaps):
            share[line] = np.quantile(gaps, among) / (took_s[line] / steps[line])
    return share


def segment(
    sequences: Sequences,
    step_volume: Float64,
    preference: Float64,
    params: DivideParams,
    spread: Float64 | None = None,
) -> Bool:
    """Cut each sequence into segments of its step volume, where preferred, bool[n].

    Parameters: `spread` float64[k], by how much steps are known to differ, NaN where that is not known.
    """
    tolerance = np.full(len(sequences), params.size_spread)
    if spread is not None:
        tolerance = np.where(np.isnan(spread), tolerance, np.clip(spread, params.same_size, params.size_spread))
    return segment_by_volume(sequences.payload, sequences.offsets, step_volume, preference, tolerance)
