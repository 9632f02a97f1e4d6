"""What a whole step of each sequence carries: of all ways to cut it, the one that leaves steps most alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.analysis.steps.periods import Period, find_periods, period_ends, show_ends
from prism_ch.analysis.steps.proposals import order_by_pieces, pass_share
from prism_ch.analysis.steps.rare_bursts import before_rare_silences, of_rare_size
from prism_ch.analysis.steps.regularity import most_regular, unevenness
from prism_ch.analysis.steps.sequences import Sequences
from prism_ch.core import robust
from prism_ch.core.periodicity import long_turn
from prism_ch.core.step_volume import segment_by_volume
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.params import DivideParams

#: Place of the longer of two classes of silences among proposals.
_SPLIT = 2


@dataclass(frozen=True, slots=True)
class Cut:
    """How sequences are cut into steps.

    `step_volume` float64[k] is what a step of each carries, in bytes; `regular` float64[k], the share of it all in
    steps that are alike; `preference` float64[n], the log-odds of an end after each burst.
    """

    step_volume: Float64
    regular: Float64
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

    1. Choose among the proposals, silences that are rare, periods, and a size that is rare: see `usual_step`.
    2. End steps as periods do where these show more than silences.
    3. Where every k-th piece is quick, k of them are a step.
    """
    periods = find_periods(sequences, params)
    silent = proposals[min(_SPLIT, len(proposals) - 1)]
    by_period, shown = period_ends(sequences, periods, silent, params)
    silences = [*proposals, *before_rare_silences(sequences, params)]
    others = [by_period, of_rare_size(sequences, params)]
    step_volume, regular, chosen = usual_step(sequences, silences, params, others)
    sure = shown | (chosen != len(silences))
    as_much = robust.size_classes(sequences.volume, params.same_volume)
    differs, step_volume, regular = _as_most(step_volume, regular, sure, as_much, params)
    ways = [*silences, *others]
    if differs.any():
        chosen = np.where(differs, _way_to_cut(sequences, ways, step_volume, params), chosen)
    ends = np.array(ways)[chosen[sequences.line], np.arange(len(preference))]
    cut = Cut(step_volume, regular, preference)
    cut = cut.with_steps(sequences, chosen >= len(proposals), step_volume, ends, params)
    cut = _by_periods(sequences, cut, periods, by_period, shown, params)
    return _by_quick_pieces(sequences, cut, params)


def _by_periods(
    sequences: Sequences, cut: Cut, periods: list[Period | None], ends: Bool, shown: Bool, params: DivideParams
) -> Cut:
    """End steps as periods do, `ends` bool[n], where these show more than silences.

    They carry more, and show where a step ends, `shown` bool[k]; or as much, and silences are alike or short, or a
    gather shows it better.
    """
    size, _ = most_regular(sequences, ends, params)
    same = np.abs(size - cut.step_volume) <= params.size_spread * cut.step_volume
    larger = size > (1 + 2 * params.size_spread) * cut.step_volume
    alike = np.array([period is not None and period.moves_throughout(params) for period in periods])
    alike |= _silence_share(sequences, cut.step_volume) < params.min_silence_share
    better = (shown & larger) | (same & (alike | show_ends(periods, same, params)))
    # Bursts that are joined in slow steps have no place in a period, but steps still carry as much.
    pieces = segment(sequences, np.where(size > 0, size, cut.step_volume), _preferring(ends, params), params)
    better &= most_regular(sequences, pieces, params)[1] >= params.min_plain_share
    return cut.with_steps(sequences, better, size, ends, params)


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


def usual_step(
    sequences: Sequences, proposals: list[Bool], params: DivideParams, others: Sequence[Bool] = ()
) -> tuple[Float64, Float64, Int64]:
    """Choose the payload of one step of each sequence: most payload is cut into it.

    1. Every proposal cuts the sequence into pieces; the size class with the most payload is its candidate.
    2. Pieces alike in size and in time are steps. Buckets of one step are alike in size only.
    3. A coarser cut counts where a finer one is irregular, if it is about as regular, or far more even than sums are,
       which chance does not make; or where it is more regular and more even than sums are: lost records make sums less
       alike, but not parts of a step.

    Parameters: `others` bool[n] each, proposals that count as coarser ones. Returns the payload and the regular share
    of what it cuts, float64[k] each, and the place of the proposal, int64[k], that of others behind the last.
    """
    best_share, uneven = np.zeros(len(sequences)), np.zeros(len(sequences))
    step_volume, chosen = np.ones(len(sequences)), np.zeros(len(sequences), dtype=np.int64)
    behind = len(proposals) + np.arange(len(others))
    order = np.vstack([order_by_pieces(sequences, proposals), np.repeat(behind[:, None], len(sequences), axis=1)])
    measured = np.array([_measured(sequences, ends, params) for ends in (*proposals, *others)])
    for place, (size, share, spread) in zip(order, np.take_along_axis(measured, order[:, None], axis=0), strict=True):
        times = np.maximum(size / step_volume, 1)
        pieces = sequences.volume / size
        joined = _regular_when_joined(best_share, times, pieces)
        irregular = best_share < params.min_plain_share
        even = _even_enough(uneven, times, params)
        as_joined = (share >= params.half) | (irregular & (pieces >= params.enough) & (spread < params.little * even))
        enough = np.where(as_joined, joined, best_share) - params.regularity_margin
        plainly = (uneven > params.max_uneven) | (share > best_share + params.little)
        better = (best_share == 0) | ((share > enough) & (irregular | (plainly & (spread <= even))))
        step_volume, uneven = np.where(better, size, step_volume), np.where(better, spread, uneven)
        best_share, chosen = np.where(better, share, best_share), np.where(better, place, chosen)
    return step_volume, best_share, chosen


def _as_most(
    step_volume: Float64, regular: Float64, sure: Bool, of_volume: Int32, params: DivideParams
) -> tuple[Bool, Float64, Float64]:
    """Give sequences the step of most that carry as many bytes.

    The more regular ones count more.
    Parameters: `step_volume`, `regular` float64[k]; `sure` bool[k], those that count where there are such: what repeats
    does so in several steps, too, and only these show where one ends; `of_volume` int32[k], the class of each by its
    bytes in all. Buckets that run into one another on a slow rail seem to be steps. Where most differ, each keeps its
    own. Returns which were given another volume, bool[k], the volumes, and how regular steps are, float64[k].
    """
    counts = sure | (np.bincount(of_volume, sure) == 0)[of_volume]
    weight = np.where(counts, regular, 0.0)
    alike = robust.size_classes(step_volume, params.size_spread, of_volume)
    of_class = np.bincount(alike, weight)
    best = np.zeros(int(of_volume.max()) + 1)
    np.maximum.at(best, of_volume, of_class[alike])
    agree = counts & (of_class[alike] == best[of_volume])
    usual = robust.median_by(of_volume[agree], step_volume[agree], len(best))[of_volume]
    differs = np.abs(step_volume - usual) > params.size_spread * usual
    other = differs & (2 * best > np.bincount(of_volume, weight))[of_volume]
    usual_regular = robust.median_by(of_volume[agree], regular[agree], len(best))[of_volume]
    return other, np.where(other, usual, step_volume), np.where(other, usual_regular, regular)


def _way_to_cut(sequences: Sequences, ways: list[Bool], step_volume: Float64, params: DivideParams) -> Int64:
    """Find the proposal that cuts most into pieces of a given step volume, int64[k].

    It is the first if none does.
    """
    size, share = np.array([most_regular(sequences, ends, params) for ends in ways]).swapaxes(0, 1)
    fits = np.abs(size - step_volume) <= params.size_spread * step_volume
    return np.asarray(np.argmax(np.where(fits, share, 0.0), axis=0))


def _measured(sequences: Sequences, ends: Bool, params: DivideParams) -> tuple[Float64, Float64, Float64]:
    """Measure the pieces that masked bursts end.

    Returns their usual size, how regular and how uneven they are, float64[k] each. Those that each hold a pass of the
    pipeline are even, whatever pauses are between them.
    """
    has_passes = pass_share(sequences, ends, params) >= params.min_plain_share
    uneven = np.where(has_passes, 0.0, unevenness(sequences, ends, params))
    return *most_regular(sequences, ends, params), uneven


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
