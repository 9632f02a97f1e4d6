"""Quantum: what a whole step carries, and where segments of it end."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from prism_ch.analysis.steps.periods import Period, ends_as_others, find_periods, lonely_silence, period_ends
from prism_ch.analysis.steps.proposals import propose
from prism_ch.analysis.steps.sequences import Sequences
from prism_ch.core import robust
from prism_ch.core.arrays import run_starts
from prism_ch.core.step_volume import segment_by_volume
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.params import DivideParams


@dataclass(frozen=True, slots=True)
class KnownSteps:
    """What is known of sequences by steps that were told before.

    `quantum` float64[k] is what one carries, NaN where too few are seen; `ends` bool[n] masks the bursts that closed
    them.
    """

    step_volume: Float64
    ends: Bool

    @classmethod
    def none(cls, sequences: Sequences) -> KnownSteps:
        """Return that nothing is known."""
        return cls(np.full(len(sequences), np.nan), np.zeros(len(sequences.line), dtype=bool))


def collective_ends(
    sequences: Sequences, follows: Float64, known: KnownSteps, data_end_ns: int, params: DivideParams
) -> Bool:
    """Mask the bursts that close a step of their sequence, bool[n].

    Parameters: `follows` float64[n], the payload of other traffic after each burst, see `Beside.follows`; `known`,
    what earlier steps tell, which stays so; `data_end_ns`, until when the job was looked at.
    """
    preference, proposals = propose(sequences, follows, params)
    step_volume, regular, uneven = usual_step(sequences, proposals, follows, params)
    irregular = regular < params.min_plain_share
    irregular |= _silence_share(sequences, step_volume) < params.min_silence_share
    periods = find_periods(sequences, params)
    wanting = _wants(step_volume, periods, params)
    throughout = np.array([period is not None and period.moves_throughout(params) for period in periods])
    irregular |= throughout & ~wanting
    # What most do, one that lost too many records to show a period does as well.
    alike = np.array([period is None for period in periods]) & (np.mean(throughout) > params.half)
    irregular |= alike
    parts = wanting & np.array(
        [period is not None and lonely_silence(period, params) is not None for period in periods]
    )
    told = ~np.isnan(known.step_volume)
    step_volume, regular = np.where(told, known.step_volume, step_volume), np.where(told, 1.0, regular)
    irregular, wanting, parts = (mask & ~told for mask in (irregular, wanting, parts))
    odd = irregular | ((uneven > params.max_uneven) & ~told)
    if (odd | wanting).any():
        ends = period_ends(sequences, periods, odd | wanting, params)
        ends = ends_as_others(sequences, ends, alike, throughout)
        size, share = most_regular(sequences, ends, params)
        evident = wanting & (share > regular + params.little)
        enough = np.maximum(params.even_gain * uneven, params.max_uneven)
        wanted = np.where(irregular | evident, enough, _evener(uneven, size / step_volume, params))
        even = (odd | evident) & (unevenness(sequences, ends, params) < wanted)
        even |= parts & (share >= regular - params.regularity_margin)
        even &= share >= params.half
        step_volume = np.where(even, size, step_volume)
        preference = np.where(even[sequences.line], np.where(ends, 1, -1) * params.log_odds, preference)
    preference = np.where(known.ends & told[sequences.line], params.log_odds, preference)
    ends = segment_by_volume(
        sequences.payload, sequences.offsets, step_volume, preference, params.size_spread, params.max_bursts
    )
    ends = _by_pass(sequences, ends, proposals, follows, regular, params)
    ends = _before_stubs(sequences, ends, step_volume, params)
    return ends | closed_by_silence(sequences, ends, step_volume, data_end_ns, params)


def _before_stubs(sequences: Sequences, ends: Bool, step_volume: Float64, params: DivideParams) -> Bool:
    """End the last step of a sequence before bursts that come most of a step later and carry next to nothing, bool[n].

    They begin a collective that hangs: those who have reached it pass on first pieces.
    """
    rows = np.flatnonzero(ends)
    line, same = sequences.line[rows], np.diff(sequences.line[rows]) == 0
    step_s = robust.median_by(line[1:][same], np.diff(sequences.end_ns[rows])[same] / 1e9, len(sequences))
    total = np.concatenate([[0.0], np.cumsum(sequences.payload)])
    after = total[sequences.offsets[1:]][sequences.line] - total[1:]
    stubs_follow = (after > 0) & (after < params.size_spread * step_volume[sequences.line])
    stubs_follow &= np.isfinite(sequences.gap_s) & (sequences.gap_s > params.half * step_s[sequences.line])
    moved = ends.copy()
    for row in np.flatnonzero(stubs_follow).tolist():
        tail = slice(row + 1, int(sequences.offsets[sequences.line[row] + 1]))
        if moved[tail].any():
            moved[tail] = False
            moved[row] = True
    return moved


def closed_by_silence(
    sequences: Sequences, ends: Bool, step_volume: Float64, data_end_ns: int, params: DivideParams
) -> Bool:
    """Mask the last burst of each sequence that ends a step though some of its payload was not counted, bool[n].

    Nothing but a lost record is missing where a sequence has been silent for longer than it is inside a step.
    """
    since: Int64 = np.cumsum(ends) - ends
    last = sequences.offsets[1:] - 1
    unfinished: Bool = since == since[last][sequences.line]
    carried = (
        np.bincount(sequences.line, weights=sequences.payload * unfinished, minlength=len(sequences)) / step_volume
    )
    inner = ~ends & np.isfinite(sequences.gap_s)
    pause_s = np.nan_to_num(robust.quantile_by(sequences.line[inner], sequences.gap_s[inner], 0.95, len(sequences)))
    silent_s = (data_end_ns - sequences.end_ns[last]) / 1e9
    closed = np.zeros_like(ends)
    closed[last] = (carried > 1 - 2 * params.size_spread) & (silent_s > pause_s)
    return closed


def usual_step(
    sequences: Sequences, proposals: list[Bool], follows: Float64, params: DivideParams
) -> tuple[Float64, Float64, Float64]:
    """Choose the payload of one step of each sequence: that which most of the payload is cut into.

    Every proposal cuts the sequence into pieces; the size class with the most payload is its candidate. Pieces that are
    alike in size and in time are steps; buckets of one step are alike in size only, for a forward pass comes between
    the last and the first. So a coarser cut is looked at only where a finer one is wanting, or the steps between two
    checkpoints would be one, and taken where it is about as regular.
    Returns the payload, the regular share of what it cuts, and how uneven that is in time, float64[k] each.
    """
    best_share, uneven = np.zeros(len(sequences)), np.zeros(len(sequences))
    step_volume = np.ones(len(sequences))
    volume = np.bincount(sequences.line, weights=sequences.payload, minlength=len(sequences))
    for size, share, spread in _finest_first(sequences, proposals, follows, params):
        times = np.maximum(size / step_volume, 1)
        joined = _regular_when_joined(best_share, times, volume / size)
        enough = np.where(share >= params.half, joined, best_share) - params.regularity_margin
        evener = (uneven > params.max_uneven) & (spread < _evener(uneven, times, params))
        better = (best_share == 0) | ((share > enough) & ((best_share < params.min_plain_share) | evener))
        step_volume, uneven = np.where(better, size, step_volume), np.where(better, spread, uneven)
        best_share = np.where(better, share, best_share)
    return step_volume, best_share, uneven


def _finest_first(sequences: Sequences, proposals: list[Bool], follows: Float64, params: DivideParams) -> Float64:
    """Measure what each proposal cuts, of each sequence those with the most pieces first, float64[proposals, 3, k].

    The usual size of the pieces, its share of the payload, and how uneven they are in time: not at all where each
    holds a pass of the pipeline, whatever pauses there are between them.
    """
    measured = np.array(
        [
            (
                *most_regular(sequences, ends, params),
                np.where(
                    _pass_share(sequences, ends, follows, params) >= params.min_plain_share,
                    0.0,
                    unevenness(sequences, ends, params),
                ),
            )
            for ends in proposals
        ]
    )
    return np.take_along_axis(measured, _order_by_pieces(sequences, proposals)[:, None], axis=0)


def _order_by_pieces(sequences: Sequences, proposals: list[Bool]) -> Int64:
    """Return the places of the proposals, for each sequence those with the most pieces first, int64[proposals, k]."""
    pieces = np.array([np.bincount(sequences.line[ends], minlength=len(sequences)) for ends in proposals])
    return np.argsort(-pieces, axis=0, kind="stable")


def _by_pass(
    sequences: Sequences, ends: Bool, proposals: list[Bool], follows: Float64, regular: Float64, params: DivideParams
) -> Bool:
    """Cut sequences by what comes between their bursts where that is more alike than their pieces are, bool[n].

    Parameters: `ends` bool[n], where they were cut by their own payload, of which `regular` float64[k] is alike. Of
    several records of one size and moment only one may be counted, as of two GPUs behind one NIC by a coarse clock:
    bursts halve at random then. A pass of the pipeline shows a step all the same. Whether the last one is whole is not
    said.
    """
    share = np.array([_pass_share(sequences, each, follows, params) for each in proposals])
    tells = share > np.maximum(regular + params.little, params.min_plain_share)
    order = _order_by_pieces(sequences, proposals)
    finest = np.argmax(np.take_along_axis(tells, order, axis=0), axis=0)
    chosen = np.take_along_axis(order, finest[None], axis=0)[0]
    proposed: Bool = np.array(proposals)[chosen[sequences.line], np.arange(len(ends))]
    by_pass = proposed & np.isfinite(sequences.gap_s)
    return np.where(np.take_along_axis(tells, chosen[None], axis=0)[0][sequences.line], by_pass, ends)


def _pass_share(sequences: Sequences, ends: Bool, follows: Float64, params: DivideParams) -> Float64:
    """Return the share of pieces that come with the same other traffic, with a step's whole pass, float64[k]."""
    closed = ends | np.isinf(sequences.gap_s)
    moved = np.bincount(np.cumsum(closed) - closed, weights=follows)
    line = sequences.line[closed]
    # The first and the last piece of a sequence may be cut by the edge of the data.
    within = np.concatenate([[False], line[1:] == line[:-1]]) & np.isfinite(sequences.gap_s[closed])
    usual = robust.median_by(line[within], moved[within], len(sequences))
    alike = np.abs(moved - usual[line]) < 2 * params.size_spread * usual[line]
    count = np.maximum(np.bincount(line[within], minlength=len(sequences)), 1)
    share: Float64 = np.bincount(line[within & alike], minlength=len(sequences)) / count
    return share


def _wants(step_volume: Float64, periods: list[Period | None], params: DivideParams) -> Bool:
    """Mask the sequences whose quantum is less than one period of their sizes carries, bool[k]."""
    carried = np.array([0.0 if period is None else period.payload.sum() for period in periods])
    return np.asarray(carried > (1 + 2 * params.size_spread) * step_volume)


def _evener(uneven: Float64, times: Float64, params: DivideParams) -> Float64:
    """Return how even pieces must be that join so many others each, to be steps rather than some of them, float64[k].

    Sums are more even than what they are sums of, by the root of its number, whatever it is.
    """
    result: Float64 = params.even_gain * uneven / np.sqrt(np.maximum(times, 1))
    return result


def unevenness(sequences: Sequences, ends: Bool, params: DivideParams) -> Float64:
    """Return how unequal the times of a sequence's pieces are: mean deviation from the median over it, float64[k].

    What is usual may change once, for a job that gets slower takes steps that are as alike as before: where that leaves
    less, deviation is from the medians before and after. 0 for a sequence of fewer than two pieces.
    """
    closed = ends | np.isinf(sequences.gap_s)
    line, end = sequences.line[closed], sequences.end_ns[closed]
    same = line[1:] == line[:-1]
    owner, took_s = line[1:][same], np.diff(end)[same] / 1e9
    usual_s = robust.median_by(owner, took_s, len(sequences))
    count = np.maximum(np.bincount(owner, minlength=len(sequences)), 1)
    side = 2 * owner + _after_change(owner, took_s - usual_s[owner], params.enough)
    beside_s = robust.median_by(side, took_s, 2 * len(sequences))
    deviation = [
        np.bincount(owner, weights=np.abs(took_s - centre_s), minlength=len(sequences)) / count
        for centre_s in (usual_s[owner], beside_s[side])
    ]
    return np.nan_to_num(np.minimum(*deviation) / usual_s)


def _after_change(owner: Int32, above: Float64, least: int) -> Bool:
    """Mask the values of each group that come after its level has changed, bool[n].

    Parameters: `owner` int32[n], sorted; `above` float64[n], each value less the median of its group; `least`, how many
    values make a level. The change is where values have been most often below the median before, or most often above:
    signs tell, as in Pettitt, "A Non-Parametric Approach to the Change-Point Problem", Applied Statistics 28, 1979.
    """
    after = np.zeros(len(owner), dtype=bool)
    bounds = np.append(run_starts(owner), len(owner))
    for first, behind in pairwise(bounds.tolist()):
        walk = np.abs(np.cumsum(np.sign(above[first:behind])))[least - 1 : max(behind - first - least, 0)]
        if len(walk):
            after[first + least + int(np.argmax(walk)) : behind] = True
    return after


def _silence_share(sequences: Sequences, step_volume: Float64) -> Float64:
    """Return the longest usual silence of a sequence as a share of a step's time, float64[k].

    Of as many silences as there are steps, the longest ones, the median; over the mean time of a step.
    """
    volume = np.bincount(sequences.line, weights=sequences.payload, minlength=len(sequences))
    steps = np.maximum(volume / step_volume, 1)
    bursts = np.diff(sequences.offsets)
    took_s = (sequences.end_ns[sequences.offsets[1:] - 1] - sequences.start_ns[sequences.offsets[:-1]]) / 1e9
    share = np.ones(len(sequences))
    for line, among in enumerate(np.clip(1 - steps / 2 / np.maximum(bursts, 1), 0, 1)):
        gaps = sequences.gap_s[sequences.offsets[line] : sequences.offsets[line + 1] - 1]
        if len(gaps):
            share[line] = np.quantile(gaps, among) / (took_s[line] / steps[line])
    return share


def _regular_when_joined(share: Float64, joined: Float64, pieces: Float64) -> Float64:
    """Return what share of pieces must be regular that are each joined from regular ones with a share of `share`.

    A lost record spoils one bucket, but with it the whole step: where chance spoils buckets, share^k of the steps of k
    are spared, less two standard errors over the pieces there are.
    """
    expected = share**joined
    result: Float64 = expected - 2 * np.sqrt(expected * (1 - expected) / np.maximum(pieces, 1))
    return result


def most_regular(sequences: Sequences, ends: Bool, params: DivideParams) -> tuple[Float64, Float64]:
    """Cut each sequence after the masked bursts and return the size class of the pieces with the most payload.

    Returns its median size and its share of the sequence's payload, float64[k] each; a class of too few pieces shows no
    regularity and has no share.
    """
    closed = ends | np.isinf(sequences.gap_s)
    piece: Int64 = np.cumsum(closed) - closed
    amount = np.bincount(piece, weights=sequences.payload)
    line = sequences.line[closed]
    classes = robust.size_classes(amount, params.size_spread / 2, line)
    payload, members = np.bincount(classes, weights=amount), np.bincount(classes)
    class_line = np.zeros(len(payload), dtype=np.int32)
    class_line[classes] = line
    order = np.lexsort((-payload, class_line))
    heaviest = order[np.concatenate([[True], class_line[order][1:] != class_line[order][:-1]])]
    # The first and the last piece may be cut by the edge of the data, and say nothing where they differ.
    edge = np.concatenate([[True], line[1:] != line[:-1]]) | np.concatenate([line[1:] != line[:-1], [True]])
    counts = ~edge | np.isin(classes, heaviest)
    total = np.maximum(np.bincount(line, weights=amount * counts, minlength=len(sequences)), 1)
    repeats = members[heaviest] >= params.repeats
    return robust.median_by(classes, amount)[heaviest], np.where(repeats, payload[heaviest] / total, 0.0)
