"""Timeouts: after which silence, and at which length, each exporter closes its records, inferred from the records.

1. A record is closed when its flow has been silent for the idle timeout, so no silence between two records of one
   5-tuple is shorter. The shortest one seen is an upper bound.
2. Where silences of all lengths occur right above the shortest and none below, that edge is the timeout. One length of
   silence that recurs is a rhythm of the traffic, and shows no edge.
3. A record is closed as well when it reaches the active timeout, though its flow goes on: the longest records are of
   one length, and the next ones follow at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.core.arrays import order_by
from prism_ch.model.columns import Bool, Float64, Int32
from prism_ch.model.exporter import Timeouts
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import TimeoutParams

#: Records looked at in a window: the shortest silence of so many is close to the shortest of all.
_MAX_RECORDS = 100_000


#: Parts of the octave above the shortest silence, equal on a logarithmic scale.
_PARTS = 16


@dataclass(frozen=True, slots=True)
class _Successions:
    """Two records of one 5-tuple by one exporter, one after the other, a row each.

    `exporter` int32[n]; `length_s` float64[n] of the earlier record, `silence_s` float64[n] between the two.
    """

    exporter: Int32
    length_s: Float64
    silence_s: Float64


def infer_timeouts(batch: FlowBatch, params: TimeoutParams) -> Timeouts:
    """Infer the timeouts of every exporter of a batch of observations.

    Of a large batch only every so many-th pair of endpoints is looked at: all records of a 5-tuple, or none.
    """
    some = batch.take(_sample(batch, _MAX_RECORDS))
    exporters = len(batch.exporters)
    longest_s = np.zeros(exporters)
    np.maximum.at(longest_s, some.exporter, (some.end_ns - some.start_ns) / 1e9)
    found = _successions(some)
    ended = _ended_by_silence(found, longest_s, params)
    at_most_s = np.full(exporters, np.inf)
    np.minimum.at(at_most_s, found.exporter[ended], found.silence_s[ended])
    at_most_s[np.isinf(at_most_s)] = np.nan
    edge = _is_edge(found.exporter[ended], found.silence_s[ended], at_most_s, params)
    active = _is_cut_at_longest(found, longest_s, params)
    return Timeouts(batch.exporters, np.where(edge, at_most_s, np.nan), at_most_s, np.where(active, longest_s, np.nan))


def _sample(batch: FlowBatch, limit: int) -> Bool:
    """Mask the observations of every k-th directed pair, so that about `limit` are left, bool[n]."""
    every = -(-len(batch) // limit)
    if every <= 1:
        return np.ones(len(batch), dtype=bool)
    change = np.zeros(len(batch), dtype=bool)
    change[1:] = (batch.src[1:] != batch.src[:-1]) | (batch.dst[1:] != batch.dst[:-1])
    mask: Bool = np.cumsum(change) % every == 0
    return mask


def _successions(batch: FlowBatch) -> _Successions:
    """List the records that follow one another on a 5-tuple at an exporter; overlapping ones have no silence."""
    keys = (batch.src, batch.dst, batch.exporter, batch.src_port, batch.dst_port, batch.proto)
    order = order_by(*keys)  # stable: a batch is sorted by start within a pair
    same = np.ones(max(len(order) - 1, 0), dtype=bool)
    for key in keys:
        same &= np.diff(key[order].astype(np.int64)) == 0
    earlier, later = order[:-1][same], order[1:][same]
    return _Successions(
        batch.exporter[earlier],
        (batch.end_ns[earlier] - batch.start_ns[earlier]) / 1e9,
        np.maximum(batch.start_ns[later] - batch.end_ns[earlier], 0) / 1e9,
    )


def _ended_by_silence(found: _Successions, longest_s: Float64, params: TimeoutParams) -> Bool:
    """Mask the successions whose earlier record can't have been closed by an active timeout, bool[n].

    A record that is cut is among the longest, and its flow pauses for less than the idle timeout, which is shorter.
    """
    maybe_cut = (found.length_s >= params.half * longest_s[found.exporter]) & (found.silence_s < found.length_s)
    mask: Bool = ~maybe_cut & (found.silence_s > 0)
    return mask


def _is_edge(exporter: Int32, silence_s: Float64, shortest_s: Float64, params: TimeoutParams) -> Bool:
    """Say of which exporters the silences begin at an edge, bool[exporters].

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
    edge: Bool = (quarters >= params.min_count).all(axis=1) & (count[:, 0] >= first)
    return edge


def _is_cut_at_longest(found: _Successions, longest_s: Float64, params: TimeoutParams) -> Bool:
    """Say which exporters cut records at the length of their longest, bool[exporters].

    So many are as long, few are nearly as long, and flows go on at once after nearly all of them: not after the last of
    several buckets of one size.
    """
    share = np.divide(
        found.length_s, longest_s[found.exporter], out=np.zeros(len(found.length_s)), where=found.length_s > 0
    )
    as_long = share >= 1 - params.same_count
    nearly = (share >= 1 - 2 * params.same_count) & ~as_long
    goes_on = as_long & (found.silence_s <= params.same_count * longest_s[found.exporter])
    size = len(longest_s)
    cuts, alike, fewer = (np.bincount(found.exporter[rows], minlength=size) for rows in (goes_on, as_long, nearly))
    cut: Bool = (cuts >= params.repeats) & (cuts >= params.nearly_all * alike) & (alike >= params.pile_up * fewer)
    return cut
