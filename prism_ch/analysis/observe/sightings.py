"""Sightings: what exporters saw of the same 5-tuples, and how far apart in time what may be one flow was seen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prism_ch.core.arrays import ROWS_AT_ONCE, blocks, order_by, ranges, run_lengths, run_starts
from prism_ch.core.search import group_search
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import ClockParams

#: Exporters of one 5-tuple that are compared with one another; fabrics have paths of up to five or seven switches.
_MAX_SWITCHES = 8
#: Observations looked at for each pair of exporters: the offset of a thousand is sharp.
_MAX_OBSERVATIONS = 1000
#: Candidates looked at for all pairs together, and for each at the least: some tenths of a second.
_MAX_CANDIDATES, _MIN_CANDIDATES = 200_000, 1000
#: Multiples of these, less their whole parts, fall evenly (Weyl, 1916): samples that no period of the traffic meets.
_GOLDEN, _SILVER = (5**0.5 - 1) / 2, 2**0.5 - 1
#: Rows that a sample is taken from at a time.
_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class Sightings:
    """What each exporter saw of each 5-tuple, and every two of these sequences that are of the same 5-tuple.

    `row` int64[n] are observations of `seen`, sequence after sequence, each sorted by `end_ns` int64[n]: of its other
    columns few values are looked at, and copies would be as large as a window. `of` int32[n] is the sequence of each;
    `begin`, `length` int64[sequences] are its first row and its number of rows; `tick_ns` int64[exporters] is what all
    times of an exporter are multiples of, up to a second. `left`, `right` int64[m] are two sequences of one 5-tuple,
    sorted by `pair` int32[m] of exporters, which are `first` and `second` int32[pairs].
    """

    seen: FlowBatch
    row: Int64
    end_ns: Int64
    of: Int32
    begin: Int64
    length: Int64
    tick_ns: Int64
    left: Int64
    right: Int64
    pair: Int32
    first: Int32
    second: Int32

    @classmethod
    def listed(cls, batch: FlowBatch, rows: Int64, five_tuple: Int64 | Int32) -> Sightings:
        """List what exporters saw of 5-tuples, [n], in some rows of a batch, int64[n]."""
        order = np.argsort(five_tuple, kind="stable")
        rows, five_tuple = rows[order], five_tuple[order]
        del order
        first = run_starts(five_tuple)
        edges = np.append(first, len(rows))
        for low, high in blocks(first, ROWS_AT_ONCE):  # to sort all rows at once takes six times their memory
            some = slice(edges[low], edges[high])
            part = rows[some]
            rows[some] = part[order_by(five_tuple[some], batch.exporter[part], batch.end_ns[part])]
        begin = run_starts(five_tuple, batch.exporter[rows])
        length = run_lengths(begin, len(rows))
        number = np.arange(len(begin))
        after = np.searchsorted(five_tuple[begin], five_tuple[begin], side="right") - number - 1
        others = np.minimum(after, _MAX_SWITCHES - 1)
        left = np.repeat(number, others)
        right = ranges(number + 1, others)
        exporter, exporters = batch.exporter[rows[begin]], len(batch.exporters)
        key = exporter[left] * np.int64(exporters) + exporter[right]
        order = np.argsort(key, kind="stable")
        keys, pair = np.unique(key[order], return_inverse=True)
        first, second = (part.astype(np.int32) for part in np.divmod(keys, exporters))
        return cls(
            batch,
            rows,
            batch.end_ns[rows],
            np.repeat(number.astype(np.int32), length),
            begin,
            length,
            batch.ticks_ns(rows),
            left[order],
            right[order],
            pair.astype(np.int32),
            first,
            second,
        )

    def moments(self, gap_ns: int) -> Sightings:
        """Keep the first of observations that end at most `gap_ns` one after the other."""
        kept = np.ones(len(self.row), dtype=bool)
        kept[1:] = (np.diff(self.end_ns) > gap_ns) | (np.diff(self.of) != 0)
        row, end_ns, of = self.row[kept], self.end_ns[kept], self.of[kept]
        begin = run_starts(of)
        return replace(self, row=row, end_ns=end_ns, of=of, begin=begin, length=run_lengths(begin, len(of)))

    def of_pairs(self, wanted: Bool) -> Sightings:
        """Return those of some pairs of exporters, bool[pairs], which are numbered anew."""
        rows = wanted[self.pair]
        pair = (np.cumsum(wanted, dtype=np.int32) - 1)[self.pair[rows]]
        left, right, first, second = self.left[rows], self.right[rows], self.first[wanted], self.second[wanted]
        return replace(self, left=left, right=right, pair=pair, first=first, second=second)


@dataclass(frozen=True, slots=True)
class Differences:
    """How much later than the first exporter of a pair the second one saw what may be one flow.

    `pair` int32[m], `apart_ns` int64[m], sorted by both, and `weight` float64[m] are of starts and of ends.
    `looked_at` float64[pairs] counts the observations of the first exporter for which others were sought, within
    `reach_ns` int64[pairs].
    """

    pair: Int32
    apart_ns: Int64
    weight: Float64
    looked_at: Float64
    reach_ns: Int64


def differences(sightings: Sightings, within_ns: int, params: ClockParams, least: int = 1) -> Differences:
    """Compare observations of one 5-tuple by two exporters.

    Those are compared that end within `within_ns` of each other, or nearer where that is what it takes to look at the
    `least` number of observations. Some pairs at a time are looked at: copies of all would be as large as a window.
    """
    from prism_ch.analysis.observe.pairwise import compare_times  # noqa: PLC0415 - loads a compiler

    candidates = _candidates(sightings, within_ns, least)
    seen, last = sightings.seen, np.concatenate([[0], 2 * np.cumsum(candidates.count)])
    apart_ns, weight = np.empty(last[-1], dtype=np.int64), np.empty(last[-1])
    pair = np.repeat(candidates.pair, 2 * candidates.count)
    edges = np.append(run_starts(candidates.pair), len(candidates.pair))
    for low, high in blocks(last[edges[:-1]], 2 * ROWS_AT_ONCE):
        some, into = slice(edges[low], edges[high]), slice(last[edges[low]], last[edges[high]])
        count = candidates.count[some]
        compare_times(
            sightings.row,
            candidates.before[some],
            candidates.begin[some],
            count,
            *(seen.start_ns, seen.end_ns, seen.bytes, seen.packets),
            *(params.same_count, params.unlike_weight),
            *(apart_ns[into], weight[into]),
        )
        order = order_by(np.tile(np.repeat(candidates.pair[some], count), 2), apart_ns[into])
        apart_ns[into], weight[into] = apart_ns[into][order], weight[into][order]
    return Differences(pair, apart_ns, weight, candidates.looked_at, candidates.reach_ns)


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Observations that may be of one flow: rows of what was seen, sorted by pair of exporters.

    `before` int64[k] is of the first exporter of `pair` int32[k], `count` int64[k] rows from `begin` int64[k] on are of
    the second one. `looked_at` and `reach_ns` are those of Differences.
    """

    before: Int64
    begin: Int64
    count: Int64
    pair: Int32
    looked_at: Float64
    reach_ns: Int64


def _candidates(sightings: Sightings, within_ns: int, least: int) -> _Candidates:
    """List observations of one 5-tuple by both exporters of a pair that end nearly together.

    It is an even sample if there are many.
    """
    pairs, end_ns = len(sightings.first), sightings.end_ns
    length = sightings.length[sightings.left]
    share = _share(sightings.pair, length, _MAX_OBSERVATIONS, pairs)
    row, place = _sampled(share, length)
    before = (sightings.begin[sightings.left] - (np.cumsum(length) - length))[row] + place
    partner, pair = sightings.right[row].astype(np.int32), sightings.pair[row]
    reach_ns = np.full(pairs, within_ns)
    begin, count = _within(sightings, partner, end_ns[before], reach_ns[pair])
    most = max(_MAX_CANDIDATES / max(pairs, 1), _MIN_CANDIDATES)
    usual = np.bincount(pair, count, pairs) / np.maximum(np.bincount(pair, minlength=pairs), 1)
    dense = usual * least > most
    reach_ns[dense] = within_ns * most / (usual[dense] * least)
    again = dense[pair]
    begin[again], count[again] = _within(sightings, partner[again], end_ns[before[again]], reach_ns[pair[again]])
    some = _turn(0, len(pair), _SILVER) < _share(pair, count, most, pairs)
    looked_at = np.bincount(pair[some], minlength=pairs).astype(np.float64)
    return _Candidates(before[some], begin[some], count[some], pair[some], looked_at, reach_ns)


def _within(sightings: Sightings, sequence: Int32, end_ns: Int64, reach_ns: Int64) -> tuple[Int64, Int64]:
    """Find the first row of sequences that ends near some moments, and how many do."""
    begin = group_search(sightings.of, sightings.end_ns, sequence, end_ns - reach_ns - 1)
    return begin, group_search(sightings.of, sightings.end_ns, sequence, end_ns + reach_ns) - begin


def _share(pair: Int32, cost: Int64, most: float, pairs: int) -> Float64:
    """Return what share of its pair's rows to sample, for each row, float64[n].

    A pair's sample is to cost `most` in all.
    """
    return np.asarray(np.minimum(most / np.maximum(np.bincount(pair, cost, pairs), 1), 1)[pair])


def _sampled(share: Float64, length: Int64) -> tuple[Int64, Int64]:
    """Sample runs of rows evenly; return run and row, int64[m] each.

    Parameters: `share` float64[runs], how much of each is taken; `length` int64[runs].
    Of many rows few are taken, so that they are looked at some at a time, which stay in the processor's cache.
    """
    end = np.cumsum(length)
    total = int(end[-1]) if len(end) else 0
    taken = [np.empty(0, dtype=np.int64)]
    for first in range(0, total, _ROWS_AT_ONCE):
        rows = min(_ROWS_AT_ONCE, total - first)
        begin, last = np.searchsorted(end, (first, first + rows - 1), side="right")
        runs = slice(begin, last + 1)
        inside = np.minimum(end[runs], first + rows) - np.maximum(end[runs] - length[runs], first)
        taken.append(first + np.flatnonzero(_turn(first, rows, _GOLDEN) < np.repeat(share[runs], inside)))
    place = np.concatenate(taken)
    return np.searchsorted(end, place, side="right"), place


def _turn(first: int, rows: int, step: float) -> Float64:
    """Return numbers of 0 to 1 that are even over neighbours, float64[rows]."""
    turn = np.arange(first, first + rows) * step
    return np.asarray(turn - np.floor(turn))
