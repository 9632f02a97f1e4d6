"""Steps of pipelines without data-parallel traffic: one ends when all sent over a link has been answered."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.special import logit

from prism_ch.analysis.steps.regularity import most_regular
from prism_ch.analysis.steps.sequences import Sequences
from prism_ch.analysis.steps.single_messages import read_single_messages
from prism_ch.analysis.steps.step_volume import closed_by_silence
from prism_ch.analysis.steps.usual_volume import segment
from prism_ch.core import intervals, periodicity, robust
from prism_ch.core.arrays import order_by, run_starts
from prism_ch.core.graph import components, distance_from_end
from prism_ch.core.pairs import LinkTable, links_of
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.params import DivideParams
from prism_ch.model.traffic import Traffic


def pipeline_ends(
    traffic: Traffic,
    line_of_pair: Int32,
    chain: Int32,
    sequences: Sequences,
    known_volume: Float64,
    data_end_ns: int,
    params: DivideParams,
) -> Bool:
    """Mask the bursts that close a step on a pipeline link, bool[n].

    Parameters: `traffic`, of links only; `line_of_pair` int32[pairs], the link of each pair; `chain` int32[links], the
    pipeline of each; `sequences`, those of the links; `known_volume` float64[links], the bytes of a step as known from
    before, NaN where unknown; `data_end_ns`, until when the job was looked at.

    1. Sum what was sent over a link, one way less the other: the balance.
    2. It is at rest, at an extreme, only between two steps: then every activation has its gradient back. Choose for
       each pipeline whether at the least or at the most, by which way activations go, and for all together where links
       pass one message to and fro. Where a lost message shifts the balance of all that comes later, take the extremes
       within a step, if pieces are more alike so; where a link rests within a step as well, the longest rest of each.
    3. Segment the links by the volume that is usual between rests: by the known one where a slow stage makes all of
       them rest after every microbatch.
    4. Cut links at rest within a step where another link of their pipeline is cut, and pipelines all of whose links
       are, those of a straggler, before the others go on.
    """
    leads_down, place = _places(traffic)
    downward = leads_down[traffic.pair]
    joined = intervals.merge(line_of_pair[traffic.pair], traffic.start_ns, traffic.end_ns, params.burst_gap_ns)
    signed = np.bincount(joined.owner, weights=np.where(downward, traffic.payload, -traffic.payload))
    haste = _haste(traffic, line_of_pair, downward)
    one = _has_one_microbatch(traffic, chain[line_of_pair], leads_down, place, params)
    alternating = read_single_messages(sequences, signed > 0, params)
    if alternating is not None:  # then all pipelines are one, seen in parts
        signed = np.where(alternating.turned[sequences.line], -signed, signed)
        downward ^= alternating.turned[line_of_pair][traffic.pair]
        chain, one = np.zeros_like(chain), np.full(1, one[chain].all())
        haste = np.full(len(chain), alternating.haste)
    message = robust.median_by(line_of_pair[traffic.pair], traffic.payload, len(sequences))
    level = _in_messages(_so_far(signed, sequences) / message[sequences.line], sequences)
    ends = _at_rest(*_extremes(level, sequences, None), chain, haste, one, sequences, params)
    step_volume, share = most_regular(sequences, ends, params)
    if np.median(share) < params.nearly_all:
        messages = _messages_a_step(traffic, downward, sequences, params)
        within = _at_rest(*_extremes(level, sequences, messages), chain, haste, one, sequences, params)
        # Where a slow link makes its ends rest after every microbatch, the period is that, and other links show more.
        for other in (within, _of_longest_turn(sequences, ends, params)):
            other_volume, other_share = most_regular(sequences, other, params)
            if np.median(other_share) > np.median(share):
                ends, step_volume, share = other, other_volume, other_share
    ends &= _has_begun(sequences, message, params)
    single = (step_volume < params.one_step * 2 * message) & (known_volume > params.one_step * step_volume)
    # Links that move as much show where a step ends, and how much that is, unless they rest within it, too.
    alike = robust.size_classes(sequences.volume, params.same_volume)
    single &= np.bincount(alike, weights=~single)[alike] == 0
    step_volume = np.where(single, known_volume, step_volume)
    odds = _rest_log_odds(share, params)[sequences.line]
    closed = segment(sequences, step_volume, np.where(ends, odds, -odds), params)
    closed |= closed_by_silence(sequences, closed, step_volume, data_end_ns, params)
    closed = _cut_as_pipeline(sequences, closed, step_volume, share, chain, params)
    return _cut_as_replicas(sequences, closed, alike, params)


def _rest_log_odds(share: Float64, params: DivideParams) -> Float64:
    """Weigh rests by the `share` of pieces between them that are alike, float64[links].

    What is lost of a step then puts only that one out of place, not all up to the edge of the data.
    """
    return np.clip(logit(share), params.log_odds, params.certain_log_odds)


def _in_messages(sent: Float64, sequences: Sequences) -> Float64:
    """Round what was sent over each link to whole messages, float64[n].

    A part of a message, of which the rest is not seen, shifts all that comes later: most of a link shows by how much.
    """
    turn = np.exp(2j * np.pi * sent)
    shift = np.angle(np.add.reduceat(turn, sequences.offsets[:-1])) / (2 * np.pi)
    return np.round(sent - shift[sequences.line])


def _has_begun(sequences: Sequences, message: Float64, params: DivideParams) -> Bool:
    """Mask the bursts by which a link has sent a message, bool[n].

    Parameters: `message` float64[links], its size. Ranks of a job that begins send less than that to connect: no step
    ends before.
    """
    return np.asarray(_so_far(sequences.payload, sequences) >= params.half * message[sequences.line])


def _so_far(sent: Float64 | Int64, sequences: Sequences) -> Float64:
    """Sum what bursts sent over each link up to each of them, float64[n]."""
    total = np.cumsum(sent)
    return np.asarray(total - (total - sent)[sequences.offsets[:-1]][sequences.line])


def _places(traffic: Traffic) -> tuple[Bool, Int64]:
    """Mask the pairs that lead away from one end of pipelines, and number the links.

    In a ring, those one way round: the last of interleaved stages passes activations on to the first. Returns
    bool[pairs], and the number of each pair's link from that end, int64[pairs].
    """
    links = links_of(traffic.pair_src, traffic.pair_dst)
    size = int(links.high.max()) + 1
    closes = _closes_ring(size, links)
    depth = distance_from_end(size, links.low[~closes], links.high[~closes])
    src, dst = depth[traffic.pair_src], depth[traffic.pair_dst]
    return (src < dst) ^ closes[links.of_pair], np.minimum(src, dst).astype(np.int64)


def _closes_ring(size: int, links: LinkTable) -> Bool:
    """Mask one link of every ring, without which it is a chain, bool[links]."""
    degree = np.bincount(links.low, minlength=size) + np.bincount(links.high, minlength=size)
    chain = components(size, links.low, links.high)
    forks = np.bincount(chain, weights=(degree > 0) & (degree != 2))
    ring = np.flatnonzero(forks[chain[links.low]] == 0)
    ring = ring[np.argsort(chain[links.low[ring]], kind="stable")]
    closes = np.zeros(len(links.low), dtype=bool)
    # The first two links of a ring are those of its first member.
    closes[ring[run_starts(chain[links.low[ring]]) + 1]] = True
    return closes


def _messages_a_step(traffic: Traffic, downward: Bool, sequences: Sequences, params: DivideParams) -> Int64 | None:
    """Count the messages of each link in a step, int64[links]; None if uneven.

    A step's messages go down more and more, then up: what goes down less what comes up has its period.
    """
    span_s = max(float(traffic.end_ns.max() - traffic.start_ns.min()) / 1e9, 1e-9)
    bursts = np.diff(sequences.offsets)
    # A step has two messages at the least, one each way.
    step = periodicity.event_period(
        traffic.start_ns, weights=np.where(downward, 1.0, -1.0), min_period_s=1.5 * span_s / float(bursts.mean())
    )
    if step.strength < params.half:
        return None
    # Where nothing is sent for longer than a step, the job rests, or its records are missing: no step passes.
    sends_s = float(np.minimum(np.diff(np.sort(traffic.start_ns)) / 1e9, step.period_s).sum())
    return np.rint(bursts * step.period_s / sends_s).astype(np.int64)


def _extremes(level: Float64, sequences: Sequences, messages: Int64 | None) -> tuple[Bool, Bool]:
    """Mask the bursts after which a link's balance is least, and most, bool[n] each.

    Parameters: `level` float64[n], the balance; `messages` int64[links] that a link passes in a step: then the extremes
    within a step count, else those of all.
    """
    from scipy.ndimage import maximum_filter1d, minimum_filter1d  # noqa: PLC0415 - takes long to load

    low, high = np.empty(len(level), dtype=bool), np.empty(len(level), dtype=bool)
    for link, (begin, end) in enumerate(pairwise(sequences.offsets.tolist())):
        here = level[begin:end]
        reach = min(len(here) if messages is None else int(messages[link]) + 1, len(here) - 1) // 2
        # Every stretch of a step and a message holds one at rest; those at either end of the sequence share theirs.
        stretch = np.clip(np.arange(len(here)), reach, len(here) - 1 - reach)
        low[begin:end] = here == minimum_filter1d(here, 2 * reach + 1)[stretch]
        high[begin:end] = here == maximum_filter1d(here, 2 * reach + 1)[stretch]
    return low, high


def _of_longest_turn(sequences: Sequences, ends: Bool, params: DivideParams) -> Bool:
    """Keep one of several rests that take turns, bool[n].

    Parameters: `ends` bool[n], the bursts before rests. Of a few microbatches a link also rests within a step, always
    at the same place: what it moves from rest to rest repeats in turns. The optimizer makes one of them the longest.
    Most links that move as much do the same; those that alone do are a straggler's.
    """
    kept = ends.copy()
    _, piece = sequences.pieces(ends)
    moved = np.bincount(piece, weights=sequences.payload)
    alternates = np.zeros(len(sequences), dtype=np.bool_)
    for link in range(len(sequences)):
        rows = sequences.rows(link)
        rests = rows.start + np.flatnonzero(ends[rows] & np.isfinite(sequences.gap_s[rows]))
        sizes = robust.size_classes(moved[piece[rests]], params.size_spread / 2).astype(np.int64)
        turns, strength = periodicity.sequence_period(sizes, params.max_microbatches)
        if turns > 1 and strength > params.half:
            turn = periodicity.places_in_period(sizes, turns)
            longest = np.argmax(robust.median_by(turn.astype(np.int32), sequences.gap_s[rests], turns))
            kept[rests], alternates[link] = turn == longest, True
    alike = robust.size_classes(sequences.volume, params.same_volume)
    most = np.bincount(alike, alternates) > params.half * np.bincount(alike)
    return np.where(most[alike][sequences.line], kept, ends)


def _haste(traffic: Traffic, line_of_pair: Int32, downward: Bool) -> Float64:
    """Measure how much faster downward messages follow one another than upward ones, log, float64[links].

    A backward pass takes about twice as long as a forward one. Only messages of one direction with none of the other
    between them count; 0 where a link has no such.
    """
    line = line_of_pair[traffic.pair]
    order = order_by(line, traffic.start_ns)
    same = (line[order][1:] == line[order][:-1]) & (downward[order][1:] == downward[order][:-1])
    after_s = np.diff(traffic.start_ns[order])[same] / 1e9
    run_line, run_down = line[order][1:][same], downward[order][1:][same]
    lines = int(line_of_pair.max()) + 1
    down, up = (robust.quantile_by(run_line[way], after_s[way], 0.1, lines) for way in (run_down, ~run_down))
    return np.nan_to_num(np.log(up / down))


def _has_one_microbatch(traffic: Traffic, chain: Int32, downward: Bool, link: Int64, params: DivideParams) -> Bool:
    """Mask the pipelines in which one message moves at a time, bool[chains].

    It goes from stage to stage and back. Parameters: `chain` int32[pairs], the pipeline of each pair; `downward`
    bool[pairs] and `link` int64[pairs], see `_places`. On few links several microbatches look much alike.
    """
    last = np.zeros(int(chain.max()) + 1, dtype=np.int64)
    np.maximum.at(last, chain, link)
    order = order_by(chain[traffic.pair], traffic.start_ns)
    pair = traffic.pair[order]
    of_chain, at, down = chain[pair], link[pair], downward[pair]
    # A message is passed on over the next link, or comes back over the last one.
    turns = np.where(down, at == last[of_chain], at == 0)
    passed = (down[1:] == (down ^ turns)[:-1]) & (at[1:] == np.where(turns, at, at + np.where(down, 1, -1))[:-1])
    together = of_chain[1:] == of_chain[:-1]
    count = np.bincount(of_chain[1:][together], minlength=len(last))
    share = np.bincount(of_chain[1:][together], passed[together], len(last)) / np.maximum(count, 1)
    return np.asarray((share > params.nearly_all) & (last + 1 >= params.telling_links))


def _at_rest(
    low: Bool,
    high: Bool,
    chain: Int32,
    haste: Float64,
    one: Bool,
    sequences: Sequences,
    params: DivideParams,
) -> Bool:
    """Choose for each pipeline the extreme of the balance between two steps, bool[n].

    Activations come first and leave rest: it is low if downward messages are activations. Where haste doesn't show
    that, the balance is at rest for longer than out of it, by the optimizer's time. No message passes another in
    pipelines of `one` microbatch, bool[chains].
    """
    line_chain = chain[sequences.line]
    # A slow stage turns the haste of the links that it sends down on, but less than it adds to that of those before.
    most, least = np.full(int(chain.max()) + 1, -np.inf), np.full(int(chain.max()) + 1, np.inf)
    np.maximum.at(most, chain, haste)
    np.minimum.at(least, chain, haste)
    faster = (most + least) / 2
    seen = np.isfinite(sequences.gap_s)
    long_s = robust.quantile_by(sequences.line, np.where(seen, sequences.gap_s, 0), 0.75, len(sequences))
    apart = one[line_chain] | (sequences.gap_s > params.passing_share * long_s[sequences.line])
    low, high = low & apart, high & apart
    held_s = [_held_s(sequences, at & seen, one[chain]) for at in (low, high)]
    longer = np.bincount(chain, weights=held_s[0] - held_s[1])
    at_low = np.where(np.abs(faster) > params.min_haste, faster > 0, longer >= 0)
    return np.where(at_low[line_chain], low, high)


def _held_s(sequences: Sequences, rows: Bool, once: Bool) -> Float64:
    """Return how long the masked gaps of each line last, in seconds, float64[lines].

    Parameters: `once` bool[lines], where one comes in a step: how long each lasts, as the last has no end in the data.
    """
    line, gap_s = sequences.line[rows], sequences.gap_s[rows]
    count = np.bincount(line, minlength=len(sequences))
    held_s = np.bincount(line, weights=gap_s, minlength=len(sequences))
    return np.asarray(held_s / np.where(once, np.maximum(count, 1), 1))


def _cut_as_pipeline(
    sequences: Sequences, closed: Bool, step_volume: Float64, share: Float64, chain: Int32, params: DivideParams
) -> Bool:
    """Cut links that rest within a step where another of their pipeline does, bool[n].

    Parameters: `step_volume`, `share` float64[links], see `most_regular`. The last link of a pipeline may be at rest
    after every microbatch. Links that move as much in all do so in a step, and the last one is the first to end it.
    """
    alike = robust.size_classes(sequences.volume, params.size_spread, chain)
    best = np.lexsort((-step_volume, -share, alike))
    model = best[run_starts(alike[best])][alike]
    cut = closed.copy()
    other = np.abs(step_volume[model] - step_volume) > params.same_volume * step_volume[model]
    for link in np.flatnonzero(other).tolist():
        rows = sequences.rows(link)
        by_ns = sequences.end_ns[closed & (sequences.line == model[link])]
        last = np.searchsorted(sequences.end_ns[rows], by_ns, side="right") - 1
        cut[rows] = False
        cut[rows.start + last[last >= 0]] = True
    return cut


def _cut_as_replicas(sequences: Sequences, closed: Bool, alike: Int32, params: DivideParams) -> Bool:
    """Cut links that rest within steps before the others go on, bool[n].

    Parameters: `alike` int32[links], the class of those that move as much.
    While a straggler computes its next activation all gradients of the ones before come back, so that its pipeline
    rests within a step. The other pipelines wait for it: its last message before any of them begins the next step is
    the last of its own.
    """
    step_volume, share = most_regular(sequences, closed, params)
    rests = np.zeros(len(sequences), dtype=bool)
    preferred = np.zeros(len(closed), dtype=bool)
    for number in np.unique(alike).tolist():
        mine = np.flatnonzero(alike == number)
        usual = np.sort(step_volume[mine])[len(mine) // 2]
        whole = mine[np.abs(step_volume[mine] - usual) < params.same_volume * usual]
        within = mine[params.one_step * step_volume[mine] < usual]
        others = np.flatnonzero(closed & np.isin(sequences.line, whole) & np.isfinite(sequences.gap_s))
        if not len(within) or not len(others):
            continue
        model = whole[np.argmax(share[whole])]
        begin_ns = np.sort(sequences.start_ns[others + 1])
        place = np.searchsorted(begin_ns, sequences.end_ns[closed & (sequences.line == model)])
        next_ns = begin_ns[place[place < len(begin_ns)]]
        for link in within.tolist():
            rows = sequences.rows(link)
            last = np.searchsorted(sequences.end_ns[rows], next_ns, side="right") - 1
            preferred[rows.start + last[last >= 0]] = True
        rests[within], step_volume[within] = True, step_volume[model]
    if not rests.any():
        return closed
    by_volume = segment(sequences, step_volume, np.where(preferred, params.log_odds, -params.log_odds), params)
    return np.where(rests[sequences.line], by_volume, closed)
