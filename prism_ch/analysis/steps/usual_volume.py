"""What a whole step of each sequence carries: of all ways to cut it, the one that leaves steps most alike."""

from __future__ import annotations

import numpy as np

from prism_ch.analysis.steps.periods import ends_as_others, find_periods, period_ends, show_ends
from prism_ch.analysis.steps.regularity import most_regular, unevenness
from prism_ch.analysis.steps.sequences import Sequences
from prism_ch.core import bocd, robust
from prism_ch.core.arrays import run_starts
from prism_ch.core.periodicity import short_turn
from prism_ch.core.step_volume import segment_by_volume
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.params import DivideParams

#: Place of the longer of two classes of silences among proposals.
_SPLIT = 2


def choose_volume(
    sequences: Sequences, proposals: list[Bool], preference: Float64, known_volume: Float64, params: DivideParams
) -> tuple[Float64, Float64, Float64]:
    """Choose what a step of each sequence carries.

    Parameters: `proposals` bool[n] each and `preference` float64[n], see `propose`; `known_volume` float64[k], what
    steps published before carry, NaN where none are; it stays so.
    Returns that, the regular share of what it cuts, float64[k], and the preference of an end after each burst,
    float64[n], where some are cut by their periods.

    1. Choose among the proposals.
    2. Find sequences whose cut is irregular, uneven, without silence, or less than a period of their sizes. Cut them by
       their periods, or where others are cut, if that is more even.
    3. Where bursts run together, so that there is no period, one of them may still come before a silence, or be of a
       size, that no other of its step has. Cut what is left irregular by these, if that is plainly more regular and
       more even.
    4. Where every k-th piece is quick, k of them are a step.
    """
    is_known = ~np.isnan(known_volume)
    step_volume, regular, uneven = usual_step(sequences, proposals, params)
    of_volume = robust.size_classes(sequences.volume, params.same_volume)
    step_volume = _as_most(step_volume, of_volume, params)
    irregular = regular < params.min_plain_share
    irregular |= _silence_share(sequences, step_volume) < params.min_silence_share
    periods = find_periods(sequences, params)
    carried = np.array([0.0 if period is None else period.payload.sum() for period in periods])
    wanting = carried > (1 + 2 * params.size_spread) * step_volume
    throughout = np.array([period is not None and period.moves_throughout(params) for period in periods])
    irregular |= throughout & ~wanting
    # What most do, one that lost too many records to show a period does as well.
    alike = np.array([period is None for period in periods]) & (np.mean(throughout) > params.half)
    several = _carry_several(carried, of_volume, params)
    alike, throughout = alike | (several & throughout), throughout & ~several
    irregular |= alike
    step_volume, regular = np.where(is_known, known_volume, step_volume), np.where(is_known, 1.0, regular)
    irregular, wanting = irregular & ~is_known, wanting & ~is_known
    as_much = np.abs(carried - step_volume) <= params.size_spread * step_volume
    by_gather = show_ends(periods, as_much & ~is_known, params) & ~is_known
    odd = irregular | by_gather | ((uneven > params.max_uneven) & ~is_known)
    if (odd | wanting).any():
        silent = proposals[min(_SPLIT, len(proposals) - 1)]
        ends, shown = period_ends(sequences, periods, silent, odd | wanting, params)
        ends = ends_as_others(sequences, ends, alike, throughout)
        size, share = most_regular(sequences, ends, params)
        evident = wanting & (share > regular + params.little)
        enough = np.maximum(params.even_gain * uneven, params.max_uneven)
        wanted = np.where(irregular | evident, enough, _even_enough(uneven, size / step_volume, params))
        # Bursts that are joined in slow steps have no place in a period, but steps still carry as much.
        by_period = np.where(ends, 1, -1) * params.log_odds
        cut = segment(sequences, np.where(size > 0, size, step_volume), by_period, params)
        even = (odd | evident) & (unevenness(sequences, cut, params) < wanted)
        even |= by_gather
        even |= wanting & shown & (most_regular(sequences, cut, params)[1] >= params.min_plain_share)
        even = (even | _do_most(even, of_volume)) & (share >= params.half)
        step_volume = np.where(even, size, step_volume)
        preference = np.where(even[sequences.line], by_period, preference)
        left = irregular & ~even
        for ends in _rare_bursts(sequences, left, params):
            size, share = _between_rare(sequences, ends, step_volume, regular, uneven, params)
            rare = left & (share > 0)
            step_volume, regular = np.where(rare, size, step_volume), np.where(rare, share, regular)
            preference = np.where(rare[sequences.line], np.where(ends, 1, -1) * params.log_odds, preference)
    times, quick = _quick_pieces(sequences, segment(sequences, step_volume, preference, params), params)
    several = ~is_known & (times > 1)
    step_volume = np.where(several, times * step_volume, step_volume)
    preference = np.where(several[sequences.line], np.where(quick, 1, -1) * params.log_odds, preference)
    return step_volume, regular, preference


def _between_rare(
    sequences: Sequences, rare: Bool, step_volume: Float64, regular: Float64, uneven: Float64, params: DivideParams
) -> tuple[Float64, Float64]:
    """Return what moves between two rare bursts, and how regularly, float64[k] each.

    The share is 0 of what is not plainly more regular than pieces of `step_volume`, or uneven; where those are regular,
    it is to be more even, too.
    """
    volume, share = most_regular(sequences, rare, params)
    evener = _even_enough(uneven, volume / step_volume, params)
    even = unevenness(sequences, rare, params) < np.where(regular < params.min_plain_share, params.max_uneven, evener)
    plain = even & (share > np.maximum(regular + params.little, params.min_plain_share))
    return volume, np.where(plain, share, 0.0)


def _rare_bursts(sequences: Sequences, wanted: Bool, params: DivideParams) -> list[Bool]:
    """Mask bursts before rare silences, or of a rare size, bool[n] each."""
    if not wanted.any():
        return []
    return [*_before_rare_silences(sequences, wanted, params), _of_rare_size(sequences, params)]


def _before_rare_silences(sequences: Sequences, wanted: Bool, params: DivideParams) -> list[Bool]:
    """Mask the bursts of each sequence before silences that are longest, bool[n] each.

    These are as many as leave the widest gap to the next shorter one, and again of these; two may be strays.
    Parameters: `wanted` bool[k], the sequences to look at.
    """
    parts = [sequences.rows(line) for line in np.flatnonzero(wanted).tolist()]
    longest = [np.argsort(-sequences.gap_s[rows][:-1], kind="stable") for rows in parts]
    masks: list[Bool] = []
    while True:
        mask = np.zeros(len(sequences.line), dtype=np.bool_)
        for part, rows in enumerate(parts):
            silence = sequences.gap_s[rows.start + longest[part]][: len(longest[part]) // 2 + 1]
            shrinks = -np.diff(np.log(silence))[params.repeats - 1 :]
            longest[part] = longest[part][: params.repeats + int(np.argmax(shrinks)) if len(shrinks) else 0]
            mask[rows.start + longest[part]] = True
        if not mask.any():
            return masks
        masks.append(mask)


def _of_rare_size(sequences: Sequences, params: DivideParams) -> Bool:
    """Mask the bursts of one size of each sequence, bool[n].

    It is the size between whose bursts most payload moves in equal parts.
    """
    size = robust.size_classes(sequences.payload, params.size_spread / 2, sequences.line)
    order = np.argsort(size, kind="stable")
    same = np.diff(size[order]) == 0
    of_size, moved = size[order][1:][same], np.diff(np.cumsum(sequences.payload)[order])[same]
    sizes = int(size.max()) + 1
    alike = np.abs(moved / robust.median_by(of_size, moved, sizes)[of_size] - 1) <= params.size_spread / 2
    regularly = np.bincount(of_size[alike], moved[alike], sizes)
    line = np.zeros(sizes, dtype=np.int32)
    line[size] = sequences.line
    best = np.lexsort((-regularly, line))[run_starts(np.sort(line))]
    return np.isin(size, best)


def _quick_pieces(sequences: Sequences, cut: Bool, params: DivideParams) -> tuple[Int64, Bool]:
    """Find where every k-th piece takes less than half as long as all others.

    Pieces are alike in size. The quick one is what all ranks gather once the last microbatch is scattered, which may be
    as many bytes. Nothing that comes now and then, as a checkpoint does, makes one quick.
    Parameters: `cut` bool[n], the ends of pieces. Returns k, int64[lines], 1 where there is none, and which bursts end
    quick pieces, bool[n].
    """
    times, quick = np.ones(len(sequences), dtype=np.int64), np.zeros_like(cut)
    for line in range(len(sequences)):
        rows = sequences.rows(line)
        ends = rows.start + np.flatnonzero(cut[rows])
        took_s = np.diff(sequences.end_ns[ends]) / 1e9
        found = short_turn(took_s, params.max_microbatches + 1, params.half, params.repeats)
        if found is not None:
            turn, times[line] = found
            quick[ends[1:][turn :: times[line]]] = True
    return times, quick


def propose(sequences: Sequences, params: DivideParams) -> tuple[Float64, list[Bool]]:
    """Propose after which bursts a step ends, from silences and from what follows.

    Returns the log-odds of an end after each burst, float64[n], and sets to choose from, bool[n] each: every burst,
    changepoints of the gaps (BOCD), the longer of two classes of gaps, bursts that other traffic follows.
    """
    last = np.isinf(sequences.gap_s)
    every = np.ones(len(last), dtype=bool)
    if last.all():
        return np.zeros(len(last)), [every]
    inner = ~last
    log_gap = np.log(sequences.gap_s[inner])
    counts = np.diff(sequences.offsets) - 1
    offsets = np.concatenate([[0], np.cumsum(counts)])
    found = bocd.detect(log_gap, offsets, expected_run=params.expected_run, run_lengths=False)
    typical = robust.median_by(sequences.line[inner], log_gap, len(sequences))[sequences.line[inner]]
    threshold, separation = robust.two_class_split(sequences.gap_s[inner])
    long = np.log(threshold) if separation >= params.min_separation else typical
    odds = np.zeros(len(last))
    mass = np.clip(found.new_run_mass, 1e-6, 1 - 1e-6)
    surprise = np.where(log_gap > typical, np.log(mass / (1 - mass)), -np.abs(np.log(mass / (1 - mass))))
    odds[inner] = np.clip(log_gap - long, -1, 1) + np.clip(surprise, -1, 1)
    changed = every.copy()
    changed[inner] = (found.new_run_mass > params.half) & (log_gap > typical)
    split = every.copy()
    split[inner] = sequences.gap_s[inner] > threshold
    followed = _follow_odds(sequences)
    odds = params.gap_weight * odds + params.followed_weight * followed
    return odds, [every, changed, split, last | (followed > 0)]


def _follow_odds(sequences: Sequences) -> Float64:
    """Rate how much other traffic follows each burst as log-odds in -1..1, float64[n]."""
    inner = np.isfinite(sequences.gap_s)
    line, follows = sequences.line, sequences.followed_by
    carried = np.bincount(line[inner], weights=follows[inner], minlength=len(sequences))
    mean = (carried / np.maximum(np.bincount(line[inner], minlength=len(sequences)), 1))[line]
    share = np.divide(follows, mean, out=np.ones(len(follows)), where=inner & (mean > 0))
    return np.asarray(np.log(np.clip(share, np.exp(-1), np.exp(1))))


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


def order_by_pieces(sequences: Sequences, proposals: list[Bool]) -> Int64:
    """Order the proposals for each sequence, the finest first, int64[proposals, k]."""
    pieces = np.array([np.bincount(sequences.line[ends], minlength=len(sequences)) for ends in proposals])
    return np.argsort(-pieces, axis=0, kind="stable")


def pass_share(sequences: Sequences, ends: Bool, params: DivideParams) -> Float64:
    """Return the share of pieces with a step's whole pass of other traffic, float64[k]."""
    closed, piece = sequences.pieces(ends)
    moved = np.bincount(piece, weights=sequences.followed_by)
    line = sequences.line[closed]
    # The edge of the data may cut the first and the last piece of a sequence.
    within = np.concatenate([[False], line[1:] == line[:-1]]) & np.isfinite(sequences.gap_s[closed])
    usual = robust.median_by(line[within], moved[within], len(sequences))
    alike = np.abs(moved - usual[line]) < 2 * params.size_spread * usual[line]
    count = np.maximum(np.bincount(line[within], minlength=len(sequences)), 1)
    return np.asarray(np.bincount(line[within & alike], minlength=len(sequences)) / count)


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
