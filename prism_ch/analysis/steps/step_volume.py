"""Where the steps of a communicator end: what a whole step carries, and where segments of that volume end."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prism_ch.analysis.steps.periods import ends_as_others, find_periods, period_ends, repetition, show_ends
from prism_ch.analysis.steps.regularity import most_regular, unevenness
from prism_ch.analysis.steps.sequences import Sequences
from prism_ch.core import bocd, robust
from prism_ch.core.step_volume import segment_by_volume
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.params import DivideParams

#: Place of the longer of two classes of silences among proposals.
_SPLIT = 2


@dataclass(frozen=True, slots=True)
class KnownSteps:
    """What steps published before show of sequences.

    `step_volume` float64[k] is what a step carries, and `spread` float64[k] its relative standard deviation, NaN where
    too few are seen; `ends` bool[n] masks the bursts that closed them; `last` int64[k, steps], the last burst of each
    sequence in each of them, one of an earlier sequence where none of its own came before; None where nothing was
    published.
    """

    step_volume: Float64
    spread: Float64
    ends: Bool
    last: Int64 | None = None

    @classmethod
    def none(cls, sequences: Sequences) -> KnownSteps:
        """Return that nothing is known."""
        unknown = np.full(len(sequences), np.nan)
        return cls(unknown, unknown, np.zeros(len(sequences.line), dtype=bool))


def collective_ends(sequences: Sequences, known: KnownSteps, data_end_ns: int, params: DivideParams) -> Bool:
    """Mask the bursts that close a step of their sequence, bool[n].

    Parameters: `known`, from earlier steps, which stays so; `data_end_ns`, until when the job was looked at.

    1. Choose a step volume for each sequence among the proposals, or take the known one.
    2. Find sequences whose cut is irregular, uneven, without silence, or less than a period of their sizes. Cut them by
       their periods, or where others are cut, if that is more even.
    3. Segment all sequences by step volume, with the proposals' preference where bytes leave it open.
    4. Where passes of the pipeline are more alike than bytes, cut after those.
    5. Close the last step of a sequence before stubs of a hanging collective, and where silence has lasted.
    """
    preference, proposals = propose(sequences, params)
    is_known = ~np.isnan(known.step_volume)
    step_volume, regular = known.step_volume, np.ones(len(sequences))
    if not is_known.all():
        step_volume, regular, preference = _choose_volume(sequences, proposals, preference, known, params)
    preference = _as_known(sequences, preference, known.ends & is_known[sequences.line], params)
    ends = segment(sequences, step_volume, preference, params, known.spread)
    ends = _cut_by_passes(sequences, ends, proposals, regular, params)
    ends = _end_before_stubs(sequences, ends, step_volume, params)
    return ends | closed_by_silence(sequences, ends, step_volume, data_end_ns, params)


def _choose_volume(
    sequences: Sequences, proposals: list[Bool], preference: Float64, known: KnownSteps, params: DivideParams
) -> tuple[Float64, Float64, Float64]:
    """Choose what a step of each sequence carries: see collective_ends, 1 and 2.

    Returns that, the regular share of what it cuts, float64[k], and the preference of an end after each burst,
    float64[n], where some are cut by their periods.
    """
    is_known = ~np.isnan(known.step_volume)
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
    step_volume, regular = np.where(is_known, known.step_volume, step_volume), np.where(is_known, 1.0, regular)
    irregular, wanting = irregular & ~is_known, wanting & ~is_known
    as_much = np.abs(carried - step_volume) <= params.size_spread * step_volume
    by_silence = show_ends(periods, as_much & ~is_known, params) & ~is_known
    odd = irregular | by_silence | ((uneven > params.max_uneven) & ~is_known)
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
        even |= by_silence
        even |= wanting & shown & (most_regular(sequences, cut, params)[1] >= params.min_plain_share)
        even = (even | _do_most(even, of_volume)) & (share >= params.half)
        step_volume = np.where(even, size, step_volume)
        preference = np.where(even[sequences.line], by_period, preference)
    return step_volume, regular, preference


def _as_known(sequences: Sequences, preference: Float64, ends: Bool, params: DivideParams) -> Float64:
    """Prefer to end further steps as known ones end, float64[n].

    Parameters: `ends` bool[n], the bursts that end known steps.

    1. Bursts of the size of those end steps, where hardly any others have it. Silences are other ones in slow steps.
    2. Where those are the least preferred of all, as where shards are gathered again right after a step, what is
       preferred is turned round.
    """
    line, count = sequences.line, len(sequences)
    before: Int64 = np.cumsum(ends) - ends
    first, last = before[sequences.offsets[:-1]], before[sequences.offsets[1:] - 1] + ends[sequences.offsets[1:] - 1]
    within = (before > first[line]) & (before < last[line]) & ~ends
    size = robust.median_by(line[ends], sequences.payload[ends], count)[line]
    alike = np.abs(sequences.payload - size) <= params.size_spread * size
    of_ends, of_others = (
        np.bincount(line[mask & alike], minlength=count) / np.maximum(np.bincount(line[mask], minlength=count), 1)
        for mask in (ends, within)
    )
    shows = ((of_ends > params.half) & (of_others < params.little))[line] & np.isfinite(sequences.gap_s)
    highest = robust.quantile_by(line[ends], preference[ends], 0.75, count)
    lowest = robust.quantile_by(line[within], preference[within], 0.25, count)
    turned = np.where((highest < lowest)[line], -preference, preference)
    as_known = np.where(shows & alike, params.log_odds, turned)
    return np.select([ends, within], [params.log_odds, -params.log_odds], as_known)


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
    3. A coarser cut counts where a finer one is irregular, if it is about as regular or much more even.

    Returns the payload, the regular share of what it cuts, and how uneven that is in time, float64[k] each.
    """
    best_share, uneven = np.zeros(len(sequences)), np.zeros(len(sequences))
    step_volume = np.ones(len(sequences))
    for size, share, spread in _finest_first(sequences, proposals, params):
        times = np.maximum(size / step_volume, 1)
        joined = _regular_when_joined(best_share, times, sequences.volume / size)
        enough = np.where(share >= params.half, joined, best_share) - params.regularity_margin
        evener = (uneven > params.max_uneven) & (spread < _even_enough(uneven, times, params))
        better = (best_share == 0) | ((share > enough) & ((best_share < params.min_plain_share) | evener))
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
        has_passes = _pass_share(sequences, ends, params) >= params.min_plain_share
        uneven = np.where(has_passes, 0.0, unevenness(sequences, ends, params))
        measured.append((*most_regular(sequences, ends, params), uneven))
    return np.take_along_axis(np.array(measured), _order_by_pieces(sequences, proposals)[:, None], axis=0)


def _order_by_pieces(sequences: Sequences, proposals: list[Bool]) -> Int64:
    """Order the proposals for each sequence, the finest first, int64[proposals, k]."""
    pieces = np.array([np.bincount(sequences.line[ends], minlength=len(sequences)) for ends in proposals])
    return np.argsort(-pieces, axis=0, kind="stable")


def _pass_share(sequences: Sequences, ends: Bool, params: DivideParams) -> Float64:
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


def impute(sequences: Sequences, whole: Float64, params: DivideParams) -> Sequences:
    """Take the imputed payload (see `whole_payload`) for sequences that it makes more alike.

    It is wrong where late pairs seem to be another burst. Of a sequence's last burst more may yet come: it stays.
    """
    whole = np.where(np.isinf(sequences.gap_s), sequences.payload, whole)
    if np.array_equal(whole, sequences.payload):
        return sequences
    _, proposals = propose(sequences, params)
    imputed = replace(sequences, payload=whole)
    (_, before, _), (_, after, _) = (usual_step(each, proposals, params) for each in (sequences, imputed))
    repeats, repeated = (repetition(each, params) for each in (imputed, sequences))
    better = (after > before + params.regularity_margin) | (repeats > repeated + params.little)
    return replace(sequences, payload=np.where(better[sequences.line], whole, sequences.payload))


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


def _cut_by_passes(
    sequences: Sequences, ends: Bool, proposals: list[Bool], regular: Float64, params: DivideParams
) -> Bool:
    """Cut sequences by what comes between their bursts where that is more alike, bool[n].

    Parameters: `ends` bool[n], where they were cut by their own payload, of which `regular` float64[k] is alike. Bursts
    halve at random where only one of two GPUs behind a NIC is counted, but a pass of the pipeline still shows a step.
    """
    share = np.array([_pass_share(sequences, each, params) for each in proposals])
    shows = share > np.maximum(regular + params.little, params.min_plain_share)
    order = _order_by_pieces(sequences, proposals)
    finest = np.argmax(np.take_along_axis(shows, order, axis=0), axis=0)
    chosen = np.take_along_axis(order, finest[None], axis=0)[0]
    proposed: Bool = np.array(proposals)[chosen[sequences.line], np.arange(len(ends))]
    # The last piece may not be whole.
    by_pass = proposed & np.isfinite(sequences.gap_s)
    return np.where(np.take_along_axis(shows, chosen[None], axis=0)[0][sequences.line], by_pass, ends)


def _end_before_stubs(sequences: Sequences, ends: Bool, step_volume: Float64, params: DivideParams) -> Bool:
    """End the last step of a sequence before stubs that come much later, bool[n].

    Stubs carry next to nothing and begin a collective that hangs.
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
    return segment_by_volume(
        sequences.payload, sequences.offsets, step_volume, preference, tolerance, params.max_bursts
    )


def closed_by_silence(
    sequences: Sequences, ends: Bool, step_volume: Float64, data_end_ns: int, params: DivideParams
) -> Bool:
    """Mask last bursts that end a step though some payload is missing, bool[n].

    A sequence that is silent for longer than it is inside a step has only lost a record.
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
