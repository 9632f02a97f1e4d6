"""Timeouts: when exporters close their records, and what shows training in records that run on over many steps.

1. A record is closed when its flow has been silent for the idle timeout, so no silence between two records of one
   5-tuple is shorter. The shortest one seen is an upper bound.
2. Where silences of all lengths occur right above the shortest and none below, that edge is the timeout. One length of
   silence that recurs is a rhythm of the traffic, and shows no edge.
3. A record is closed as well when it reaches the active timeout, though its flow goes on: the longest records are of
   one length, and the next ones follow at once.

An idle timeout longer than the pauses of a step joins all steps into one record, and nothing recurs. What is left is
volume: training is symmetric, and little else that runs on is.

1. Pairs of one role move equally many bytes a second, because all of them make the same steps.
2. What a server receives of a role it sends as well: a ring hands on, a pipeline answers. Reading from storage,
   broadcasting and serving go one way.
3. Rings, trees and chains have few partners each; meshes are shuffles, replicated stores or gossip.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.core import robust
from prism_ch.core.arrays import distinct, order_by, ranges, run_lengths, run_numbers, run_starts
from prism_ch.core.graph import components
from prism_ch.core.pairs import PairIndex
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.exporter import Timeouts
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import MergedParams, TimeoutParams
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic

#: Records looked at in a window: the shortest silence of as many is close to the shortest of all.
_MAX_RECORDS = 100_000

#: Parts of the octave above the shortest silence, equal on a logarithmic scale.
_PARTS = 16


@dataclass(frozen=True, slots=True)
class _Silences:
    """What lies between two records of one 5-tuple by one exporter, a row each.

    `exporter` int32[n]; `length_s` float64[n] of the earlier record, `silence_s` float64[n] between the two.
    """

    exporter: Int32
    length_s: Float64
    silence_s: Float64


def infer_timeouts(batch: FlowBatch, params: TimeoutParams) -> Timeouts:
    """Infer the timeouts of every exporter of a batch of observations.

    Of a large batch only every k-th pair of endpoints is looked at: all records of a 5-tuple, or none.
    """
    every = -(-len(batch) // _MAX_RECORDS)
    some = batch if every <= 1 else batch.take(_rows_of_each(batch, every))
    exporters = len(batch.exporters)
    longest_s = np.zeros(exporters)
    np.maximum.at(longest_s, some.exporter, (some.end_ns - some.start_ns) / 1e9)
    found = _silences(some)
    # A record that is cut is among the longest, and its flow pauses for less than the idle timeout, which is shorter.
    maybe_cut = (found.length_s >= params.half * longest_s[found.exporter]) & (found.silence_s < found.length_s)
    ended = ~maybe_cut & (found.silence_s > 0)
    at_most_s = np.full(exporters, np.inf)
    np.minimum.at(at_most_s, found.exporter[ended], found.silence_s[ended])
    at_most_s[np.isinf(at_most_s)] = np.nan
    edge = _is_edge(found.exporter[ended], found.silence_s[ended], at_most_s, params)
    active = _is_cut_at_longest(found, longest_s, params)
    return Timeouts(batch.exporters, np.where(edge, at_most_s, np.nan), at_most_s, np.where(active, longest_s, np.nan))


def _rows_of_each(batch: FlowBatch, every: int) -> Int64:
    """Return the rows of every k-th pair of endpoints, int64[n]."""
    first = run_starts(batch.src, batch.dst)
    count = run_lengths(first, len(batch))
    return ranges(first[::every], count[::every])


def _silences(batch: FlowBatch) -> _Silences:
    """List the silences between records; overlapping ones have none."""
    keys = (batch.src, batch.dst, batch.exporter, batch.src_port, batch.dst_port, batch.proto)
    order = order_by(*keys)  # stable: a batch is sorted by start within a pair
    same = np.diff(run_numbers(*(key[order] for key in keys))) == 0
    earlier, later = order[:-1][same], order[1:][same]
    return _Silences(
        batch.exporter[earlier],
        (batch.end_ns[earlier] - batch.start_ns[earlier]) / 1e9,
        np.maximum(batch.start_ns[later] - batch.end_ns[earlier], 0) / 1e9,
    )


def _is_edge(exporter: Int32, silence_s: Float64, shortest_s: Float64, params: TimeoutParams) -> Bool:
    """Mask the exporters whose silences begin at an edge, bool[exporters].

    Every quarter of the octave above the shortest holds some, and the first sixteenth not many fewer than the others.
    Equal ones count once: times in whole milliseconds show no edge sharper than that.
    """
    above = np.log2(silence_s / shortest_s[exporter])
    near = above < 1
    part = exporter[near].astype(np.int64) * _PARTS + np.floor(above[near] * _PARTS).astype(np.int64)
    different = np.unique(part + 1j * silence_s[near]).real.astype(np.int64)
    count = np.bincount(different, minlength=len(shortest_s) * _PARTS).reshape(-1, _PARTS)
    quarters = count.reshape(len(count), 4, -1).sum(axis=2)
    first = np.maximum(params.first_part_share * count.mean(axis=1), params.min_count)
    return np.asarray((quarters >= params.min_count).all(axis=1) & (count[:, 0] >= first))


def _is_cut_at_longest(found: _Silences, longest_s: Float64, params: TimeoutParams) -> Bool:
    """Mask the exporters that cut records at the length of their longest, bool[exporters].

    Many are as long, few are nearly as long, and flows go on at once after nearly all of them: not after the last of
    several buckets of one size.
    """
    longest_s, size = longest_s[found.exporter], len(longest_s)
    share = np.divide(found.length_s, longest_s, out=np.zeros(len(found.length_s)), where=found.length_s > 0)
    as_long = share >= 1 - params.same_count
    nearly = (share >= 1 - 2 * params.same_count) & ~as_long
    goes_on = as_long & (found.silence_s <= params.same_count * longest_s)
    cuts, alike, fewer = (np.bincount(found.exporter[rows], minlength=size) for rows in (goes_on, as_long, nearly))
    cut: Bool = (cuts >= params.repeats) & (cuts >= params.nearly_all * alike) & (alike >= params.pile_up * fewer)
    return cut


def coarse_pairs(traffic: Traffic, flows: FlowBatch, timeouts: Timeouts, params: MergedParams) -> Bool:
    """Mask the pairs whose records run on for much longer than a message takes, bool[pairs].

    Parameters: `flows` that the bursts are of, and `timeouts` of their exporters.

    1. A pair moves data without a pause, for most of the time in records that are long, or cut at an active timeout.
    2. Messages may be long, too, where each waits for the one before it: an exporter whose records of a flow part
       silences as short as those inside bursts joins nothing.
    3. Nor does one whose records carry no more than the messages of pairs that move as much, and pause.
    """
    pairs = len(traffic.pair_src)
    span_s = traffic.span_ns() / 1e9
    burst_s = traffic.sums_of_pairs(traffic.end_ns - traffic.start_ns) / 1e9
    without_pause = (span_s >= params.min_span_s) & (burst_s >= params.nearly_all * span_s)
    if not without_pause.any():
        return without_pause
    records, pair = _records_of(traffic, flows, without_pause)
    exporter = flows.exporter[records]
    record_s = (flows.end_ns[records] - flows.start_ns[records]) / 1e9
    in_long_s, in_all_s = (
        np.bincount(pair, weights=record_s * counted, minlength=pairs) for counted in (record_s >= params.message_s, 1)
    )
    long = in_long_s >= params.half * in_all_s
    is_cut, may_join = np.zeros((2, pairs), dtype=bool)
    is_cut[pair[~np.isnan(timeouts.active_s[exporter])]] = True
    may_join[pair[~(timeouts.idle_at_most_s[exporter] < params.burst_gap_ns / 1e9)]] = True
    long |= is_cut & (burst_s >= params.message_s * traffic.counts_of_pairs())
    coarse: Bool = without_pause & long & may_join
    if coarse.any():
        coarse &= ~_are_messages(traffic, pair, flows.bytes[records], ~without_pause, params)
    return coarse


def _are_messages(traffic: Traffic, pair: Int64, record: Int64, pauses: Bool, params: MergedParams) -> Bool:
    """Mask the pairs whose records are single messages, bool[pairs].

    A slow one lasts until the next is due. Parameters: `pair` and `record` int64[k], pairs of records and the bytes of
    each; `pauses` bool[pairs], those with pauses, whose bursts are messages.
    """
    pairs = len(pauses)
    role = robust.size_classes(traffic.rate_bytes_s(), params.same_volume)
    message = robust.median_by(traffic.pair, traffic.payload, pairs)
    carried = robust.median_by(pair.astype(np.int32), record, pairs)
    shown = np.bincount(role, pauses)[role] >= params.enough
    usual = robust.median_by(role[pauses], message[pauses], int(role.max(initial=-1)) + 1)[role]
    single: Bool = shown & (carried < (1 + params.half) * usual)
    return single


def _records_of(traffic: Traffic, flows: FlowBatch, wanted: Bool) -> tuple[Int64, Int64]:
    """Return the rows of the flows of wanted pairs, bool[pairs], and their pair, int64[k] each.

    Few pairs move data without a pause: the flows of the others cost nothing.
    """
    first = run_starts(flows.src, flows.dst)
    pair = PairIndex.of(traffic.pair_src, traffic.pair_dst).rows_of(flows.src[first], flows.dst[first])
    count = run_lengths(first, len(flows))
    chosen = (pair >= 0) & wanted[pair]
    return ranges(first[chosen], count[chosen]), np.repeat(pair[chosen], count[chosen])


def merged_training(traffic: Traffic, topology: Topology, coarse: Bool, recurring: Bool, params: MergedParams) -> Bool:
    """Mask the coarse pairs whose volumes show training, bool[pairs].

    Parameters: `coarse` bool[pairs]; `recurring` bool[pairs], the pairs known to carry steady traffic of jobs: with
    exporters of different timeouts, one direction of a link may be coarse and the other not.
    """
    shown = np.zeros(len(traffic.pair_src), dtype=bool)
    if not coarse.any():
        return shown
    rate, src, dst = traffic.rate_bytes_s(), traffic.pair_src, traffic.pair_dst
    rows = np.flatnonzero(
        (coarse | recurring)
        & (rate >= params.min_rate_bytes_s)
        & (topology.tenant[src] == topology.tenant[dst])
        & (topology.server[src] != topology.server[dst])
    )
    if len(rows) == 0:
        return shown
    rate, src, dst = rate[rows], src[rows], dst[rows]
    tenant = topology.tenant[src]
    role = robust.size_classes(rate, params.same_volume, tenant).astype(np.int64)
    alike = np.bincount(role)[role] >= params.enough
    symmetric = _symmetric(role, rate, src, dst, topology, params) & alike
    # Rings of two kinds on some of the same pairs are conserved together only.
    left = np.flatnonzero(alike & ~symmetric)
    if len(left):
        mixed = tenant[left].astype(np.int64)
        symmetric[left] = _symmetric(mixed, rate[left], src[left], dst[left], topology, params)
    shown[rows] = symmetric
    return shown & coarse


def _symmetric(role: Int64, rate: Float64, src: Int32, dst: Int32, topology: Topology, params: MergedParams) -> Bool:
    """Mask the pairs that belong to a conserved and sparse part of their role, bool[n].

    Parameters: of each pair its `role`, `rate`, `src` and `dst`, [n]. A part is the servers that pairs of a role join.
    """
    servers = len(topology.server_names)
    ends = np.concatenate([role * servers + topology.server[side] for side in (src, dst)])
    sender, receiver = np.split(np.unique(ends, return_inverse=True)[1].astype(np.int32), 2)
    part = components(int(max(sender.max(), receiver.max())) + 1, sender, receiver)
    out, into = (np.bincount(side, weights=rate, minlength=len(part)) for side in (sender, receiver))
    balanced = np.abs(out - into) <= params.same_volume * np.maximum(out, into)
    size, of_pair = np.bincount(part), part[sender]
    senders = distinct(of_pair * np.int64(src.max() + 1) + src) // (src.max() + 1)
    partners = np.bincount(of_pair) / np.bincount(senders)
    symmetric: Bool = (
        (np.bincount(of_pair) >= params.enough)
        & (np.bincount(part, weights=balanced) >= params.nearly_all * size)
        & (partners <= np.maximum(params.few_partners, params.half * (size - 1)))
    )
    return symmetric[of_pair]
