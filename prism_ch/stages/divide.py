"""Divide: a job's time into training steps (LLMPrism, section IV-C).

A step moves the same bytes every time: that, not silence, is what a step is made of. Production traces hold longer
silences inside a step than at its edge.

1. Closing traffic (data-parallel, or pipeline where there is none) is read as sequences of bursts, one a communicator.
2. BOCD on the gaps of each sequence, and a split of the gaps into short and long, propose boundaries.
3. The proposals vote on the quantum: the payload of a whole step, equal from step to step.
4. Segments of one quantum each are cut by dynamic programming, the gaps deciding where bytes leave it open.
5. The communicators of a job agree: what half of them confirm at one moment is a step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.core import bocd, intervals, robust
from prism_ch.core.disjoint_set import components
from prism_ch.core.quantum import segment_by_quantum
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.division import Division
from prism_ch.model.groupset import PairKinds
from prism_ch.model.params import DivideParams
from prism_ch.model.result import DP
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Sequences:
    """Bursts of closing traffic, one sequence a communicator, end to end: sequence i is offsets[i]:offsets[i + 1].

    `line` int32[n] is the sequence of each burst, `gap_s` float64[n] the silence after it (infinite after the last).
    """

    line: Int32
    start_ns: Int64
    end_ns: Int64
    payload: Float64
    gap_s: Float64
    offsets: Int64

    def __len__(self) -> int:
        """Count the sequences."""
        return len(self.offsets) - 1


def divide(traffic: Traffic, kinds: PairKinds, endpoints: Int32, params: DivideParams) -> Division:
    """Divide a job's time into steps.

    Parameters: `traffic`, the job's bursts; `kinds`, of its pairs; `endpoints` int32[m], its members, sorted.
    Only steps whose end is in the data are returned; the first may lack its beginning.
    """
    closing_kind = kinds.closing
    closing = kinds.of_kind(traffic, closing_kind)
    if len(closing) == 0:
        return Division.none(endpoints)
    line_of_pair = _communicators(closing) if closing_kind == DP else _links(closing)
    sequences = read_sequences(closing, line_of_pair, params)
    ends = (
        _step_ends(sequences, params)
        if closing_kind == DP
        else _pipeline_ends(closing, line_of_pair, sequences, params)
    )
    agreed = _agree(sequences, ends, params)
    if agreed.shape[1] == 0:
        return Division.none(endpoints)
    whole = np.ones(agreed.shape[1], dtype=bool)
    whole[0] = _begins_whole(sequences, agreed, params)
    return Division(np.array(endpoints), _endpoint_ends(closing, line_of_pair, agreed, endpoints), whole)


def _communicators(traffic: Traffic) -> Int32:
    """Return the number of each pair's communicator: the endpoints that its traffic joins."""
    size = int(max(traffic.pair_src.max(), traffic.pair_dst.max())) + 1
    label = components(size, traffic.pair_src, traffic.pair_dst)[traffic.pair_src]
    return np.unique(label, return_inverse=True)[1].astype(np.int32)


def _links(traffic: Traffic) -> Int32:
    """Return the number of each pair's undirected link."""
    low, high = np.minimum(traffic.pair_src, traffic.pair_dst), np.maximum(traffic.pair_src, traffic.pair_dst)
    key = low.astype(np.int64) * (int(high.max()) + 1) + high
    return np.unique(key, return_inverse=True)[1].astype(np.int32)


def read_sequences(traffic: Traffic, line_of_pair: Int32, params: DivideParams) -> Sequences:
    """Join the bursts of each line's pairs into one sequence of bursts in time."""
    joined = intervals.merge(line_of_pair[traffic.pair], traffic.start_ns, traffic.end_ns, params.burst_gap_ns)
    payload = np.bincount(joined.owner, weights=traffic.payload, minlength=len(joined.group)).astype(np.float64)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(joined.group))])
    gap_s = np.full(len(joined.group), np.inf)
    gap_s[:-1] = (joined.start[1:] - joined.end[:-1]) / 1e9
    gap_s[offsets[1:] - 1] = np.inf
    return Sequences(joined.group, joined.start, joined.end, payload, gap_s, offsets)


def _step_ends(sequences: Sequences, params: DivideParams) -> Bool:
    """Mask the bursts that close a step of their sequence, bool[n]."""
    preference, proposals = _proposals(sequences, params)
    quantum = _quantum(sequences, proposals, params)
    return segment_by_quantum(
        sequences.payload, sequences.offsets, quantum, preference, params.quantum_tolerance, params.max_bursts
    )


def _proposals(sequences: Sequences, params: DivideParams) -> tuple[Float64, list[Bool]]:
    """Propose boundaries from the gaps: the log-odds of one after each burst, and the sets of them to choose from."""
    last = np.isinf(sequences.gap_s)
    every = np.ones(len(last), dtype=bool)
    if last.all():
        return np.zeros(len(last)), [every]
    inner = ~last
    log_gap = np.log(sequences.gap_s[inner])
    counts = np.diff(sequences.offsets) - 1
    found = bocd.detect(log_gap, np.concatenate([[0], np.cumsum(counts)]), expected_run=params.expected_run)
    typical = robust.median_by(sequences.line[inner], log_gap, len(sequences))[sequences.line[inner]]
    threshold, separation = robust.two_class_split(sequences.gap_s[inner])
    long = np.log(threshold) if separation >= params.min_separation else typical
    odds = np.zeros(len(last))
    mass = np.clip(found.new_run_mass, 1e-6, 1 - 1e-6)
    surprise = np.where(log_gap > typical, np.log(mass / (1 - mass)), -np.abs(np.log(mass / (1 - mass))))
    odds[inner] = np.clip(log_gap - long, -1, 1) + np.clip(surprise, -1, 1)
    changed = every.copy()
    changed[inner] = (found.new_run_mass > params.changepoint_mass) & (log_gap > typical)
    split = every.copy()
    split[inner] = sequences.gap_s[inner] > threshold
    return odds * params.gap_weight, [every, changed, split]


def _quantum(sequences: Sequences, proposals: list[Bool], params: DivideParams) -> Float64:
    """Choose the payload of one step of each sequence, float64[k]: that which most of the payload is cut into.

    Every proposal cuts the sequence into pieces; the size class with the most payload is its candidate. A finer cut
    wins only where it is clearly more regular: equal buckets of one step look as regular as the steps themselves.
    """
    best_share = np.zeros(len(sequences))
    quantum = np.ones(len(sequences))
    volume = np.bincount(sequences.line, weights=sequences.payload, minlength=len(sequences))
    for ends in proposals:
        size, share = _most_regular(sequences, ends, params)
        joined = _regular_when_joined(best_share, np.maximum(size / quantum, 1), volume / size)
        enough = np.where(share >= params.min_regular_share, joined, best_share) - params.regularity_margin
        better = share > np.where(best_share > 0, enough, 0)
        quantum = np.where(better, size, quantum)
        best_share = np.where(better, share, best_share)
    return quantum


def _regular_when_joined(share: Float64, joined: Float64, pieces: Float64) -> Float64:
    """Return what share of pieces must be regular that are each joined from regular ones with a share of `share`.

    A lost record spoils one bucket, but with it the whole step: where chance spoils buckets, share^k of the steps of k
    are spared, less two standard errors over the pieces there are.
    """
    expected = share**joined
    result: Float64 = expected - 2 * np.sqrt(expected * (1 - expected) / np.maximum(pieces, 1))
    return result


def _most_regular(sequences: Sequences, ends: Bool, params: DivideParams) -> tuple[Float64, Float64]:
    """Cut each sequence after the masked bursts and return the size class of the pieces with the most payload.

    Returns its median size and its share of the sequence's payload, float64[k] each; a class of too few pieces shows no
    regularity and has no share.
    """
    closed = ends | np.isinf(sequences.gap_s)
    piece: Int64 = np.cumsum(closed) - closed
    amount = np.bincount(piece, weights=sequences.payload)
    line = sequences.line[closed]
    classes = robust.size_classes(amount, params.quantum_tolerance / 2, line)
    payload, members = np.bincount(classes, weights=amount), np.bincount(classes)
    class_line = np.zeros(len(payload), dtype=np.int32)
    class_line[classes] = line
    order = np.lexsort((-payload, class_line))
    heaviest = order[np.concatenate([[True], class_line[order][1:] != class_line[order][:-1]])]
    # The first and the last piece may be cut by the edge of the data, and say nothing where they differ.
    edge = np.concatenate([[True], line[1:] != line[:-1]]) | np.concatenate([line[1:] != line[:-1], [True]])
    counts = ~edge | np.isin(classes, heaviest)
    total = np.maximum(np.bincount(line, weights=amount * counts, minlength=len(sequences)), 1)
    repeats = members[heaviest] >= params.min_repeats
    return robust.median_by(classes, amount)[heaviest], np.where(repeats, payload[heaviest] / total, 0.0)


def _pipeline_ends(traffic: Traffic, line_of_pair: Int32, sequences: Sequences, params: DivideParams) -> Bool:
    """Mask the bursts that close a step on a pipeline link: where every activation sent has its gradient back.

    What has been sent either way over a link balances when a step ends, and only then.
    """
    depth = _depth(traffic)
    downward = (depth[traffic.pair_src] < depth[traffic.pair_dst])[traffic.pair]
    joined = intervals.merge(line_of_pair[traffic.pair], traffic.start_ns, traffic.end_ns, params.burst_gap_ns)
    signed = np.bincount(joined.owner, weights=np.where(downward, traffic.payload, -traffic.payload))
    message = robust.median_by(line_of_pair[traffic.pair], traffic.payload, len(sequences))
    sent = np.cumsum(signed)
    level = np.round((sent - (sent - signed)[sequences.offsets[:-1]][sequences.line]) / message[sequences.line])
    low, high = (
        level == reduce(level, sequences.offsets[:-1])[sequences.line]
        for reduce in (np.minimum.reduceat, np.maximum.reduceat)
    )
    chain = _communicators(traffic)[np.unique(line_of_pair, return_index=True)[1]]
    ends = _at_rest(low, high, chain, _haste(traffic, line_of_pair, downward), sequences, params)
    quantum, _ = _most_regular(sequences, ends, params)
    preference = np.where(ends, params.balance_log_odds, -params.balance_log_odds)
    return segment_by_quantum(
        sequences.payload, sequences.offsets, quantum, preference, params.quantum_tolerance, params.max_bursts
    )


def _haste(traffic: Traffic, line_of_pair: Int32, downward: Bool) -> Float64:
    """Return how much faster a link's downward messages follow one another than its upward ones, log, float64[links].

    A backward pass takes about twice as long as a forward one, so activations follow one another faster than
    gradients do. Only messages of one direction with none of the other between them count; 0 where a link has no
    such.
    """
    line = line_of_pair[traffic.pair]
    order = np.lexsort((traffic.start_ns, line))
    same = (line[order][1:] == line[order][:-1]) & (downward[order][1:] == downward[order][:-1])
    after_s = np.diff(traffic.start_ns[order])[same] / 1e9
    run_line, run_down = line[order][1:][same], downward[order][1:][same]
    lines = int(line_of_pair.max()) + 1
    down, up = (robust.quantile_by(run_line[way], after_s[way], 0.1, lines) for way in (run_down, ~run_down))
    return np.nan_to_num(np.log(up / down))


def _depth(traffic: Traffic) -> Int64:
    """Return how far each endpoint is from one end of its pipeline, or from a member where it is a ring, int64[n]."""
    size = int(max(traffic.pair_src.max(), traffic.pair_dst.max())) + 1
    low, high = np.minimum(traffic.pair_src, traffic.pair_dst), np.maximum(traffic.pair_src, traffic.pair_dst)
    degree = np.zeros(size, dtype=np.int64)
    for link in np.unique(low.astype(np.int64) * size + high):
        degree[[link // size, link % size]] += 1
    chain = components(size, low, high)
    depth = np.full(size, -1, dtype=np.int64)
    order = np.lexsort((np.arange(size), degree, chain))
    order = order[degree[order] > 0]
    depth[order[np.concatenate([[True], np.diff(chain[order]) > 0])]] = 0
    for reach in range(size):
        for near, far in ((low, high), (high, low)):
            depth[far[(depth[near] == reach) & (depth[far] < 0)]] = reach + 1
        if not (depth == reach + 1).any():
            break
    return depth


def _at_rest(low: Bool, high: Bool, chain: Int32, haste: Float64, sequences: Sequences, params: DivideParams) -> Bool:
    """Choose for each pipeline which extreme of its links' balance is that between two steps, bool[n].

    Parameters: `low`, `high` bool[n], bursts after which a link's balance is at its least or most; `chain`, `haste`
    [links]. Activations come first and leave rest, so rest is the low side where downward messages are the
    activations. Where haste does not tell, there is one microbatch: then the balance stays at rest for longer than it
    is out, by the optimizer's time.
    """
    held_s = np.where(np.isinf(sequences.gap_s), 0, sequences.gap_s)
    passing = params.passing_share * robust.quantile_by(sequences.line, held_s, 0.75, len(sequences))[sequences.line]
    low, high = (at & (sequences.gap_s > passing) for at in (low, high))
    line_chain = chain[sequences.line]
    longer = np.bincount(line_chain, weights=held_s * low) - np.bincount(line_chain, weights=held_s * high)
    faster = robust.median_by(chain, haste)
    at_low = np.where(np.abs(faster) > params.min_haste, faster > 0, longer >= 0)
    return np.where(at_low[line_chain], low, high)


def _agree(sequences: Sequences, ends: Bool, params: DivideParams) -> Int64:
    """Return the end of each step of the job on each line, int64[lines, steps].

    Lines of one job end a step at different moments but at a steady distance. Ends are pooled after that distance is
    taken off; a moment that fewer than half of the lines confirm is no step; a line that misses one is given its
    usual distance.
    """
    line, end = sequences.line[ends], sequences.end_ns[ends]
    if len(end) == 0:
        return np.empty((len(sequences), 0), dtype=np.int64)
    count = np.bincount(line, minlength=len(sequences))
    reference = end[line == int(np.argmax(count))]
    step_ns = float(np.median(np.diff(reference))) if len(reference) > 1 else float(np.iinfo(np.int64).max)
    after = np.clip(np.searchsorted(reference, end), 1, max(len(reference) - 1, 1))
    before = np.maximum(after - 1, 0)
    after = np.minimum(after, len(reference) - 1)
    to_before, to_after = end - reference[before], end - reference[after]
    nearest = np.where(np.abs(to_before) <= np.abs(to_after), to_before, to_after)
    lag = np.nan_to_num(robust.median_by(line, nearest, len(sequences))).astype(np.int64)
    moment = end - lag[line]
    order = np.argsort(moment, kind="stable")
    opens = np.concatenate([[True], np.diff(moment[order]) > params.agreement_share * step_ns])
    step = np.empty(len(order), dtype=np.int64)
    step[order] = np.cumsum(opens) - 1
    steps = int(step.max()) + 1
    result = np.full((len(sequences), steps), np.iinfo(np.int64).min)
    np.maximum.at(result, (line, step), end)
    seen = result > np.iinfo(np.int64).min
    centre = robust.median_by(step.astype(np.int32), moment, steps).astype(np.int64)
    result = np.where(seen, result, centre[None, :] + lag[:, None])
    voters = max(int((count > 0).sum()), 1)
    confirmed = seen.sum(axis=0) >= params.quorum * voters
    return result[:, confirmed]


def _begins_whole(sequences: Sequences, ends: Int64, params: DivideParams) -> bool:
    """Say whether the first step carries as much as the second on most lines: whether it began inside the data."""
    lines, steps = ends.shape
    if steps == 1:
        return False
    carried = np.zeros((lines, 3))
    step = (sequences.end_ns > ends[sequences.line, 0]).astype(np.int64) + (sequences.end_ns > ends[sequences.line, 1])
    np.add.at(carried, (sequences.line, step), sequences.payload)
    return bool(np.median(carried[:, 0] / np.maximum(carried[:, 1], 1)) > 1 - 2 * params.quantum_tolerance)


def _endpoint_ends(traffic: Traffic, line_of_pair: Int32, ends: Int64, endpoints: Int32) -> Int64:
    """Return when each step ends on each endpoint: with its last closing burst of the step, int64[m, k].

    An endpoint without one in a step ends with the job's last line.
    """
    lines, steps = ends.shape
    line = line_of_pair[traffic.pair].astype(np.int64)
    first = int(ends.min())
    span = int(max(ends.max(), traffic.end_ns.max())) - first + 1
    place = np.searchsorted(
        (np.arange(lines)[:, None] * span + (ends - first)).ravel(), line * span + (traffic.end_ns - first).clip(0)
    )
    step = place - line * steps
    inside = step < steps
    row = np.full(int(max(endpoints.max(), traffic.pair_src.max(), traffic.pair_dst.max())) + 1, -1)
    row[endpoints] = np.arange(len(endpoints))
    result = np.full((len(endpoints), steps), np.iinfo(np.int64).min)
    for end in (traffic.src, traffic.dst):
        np.maximum.at(result, (row[end[inside]], step[inside]), traffic.end_ns[inside])
    missing = result == np.iinfo(np.int64).min
    return np.where(missing, ends.max(axis=0)[None, :], result)
