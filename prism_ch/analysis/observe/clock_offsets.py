"""Compare: the offset between the clocks of every two exporters that saw the same 5-tuples.

Observations of one flow differ by the offset, in their starts and in their ends; those of different flows by anything,
or by periods of the traffic, which jitter. So most differences lie close together at the offset, whether the two count
the same bytes or not, miss some flows, cut them differently, or tell the time in milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from prism_ch.core.arrays import group_search, order_by, run_starts
from prism_ch.core.density import densest
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

_SECOND_NS = 10**9


@dataclass(frozen=True, slots=True)
class Compared:
    """How far the clock of the second exporter is ahead of the first's, one row a pair of them.

    `first`, `second` int32[n] are exporters of the batch; `offset_s` and its standard deviation `uncertainty_s`
    float64[n]; `matches` int64[n] counts the observations matched. `clear` bool[n]: the offset explains enough of what
    both can have seen; `sharp` bool[n]: nearly all of it, and closely.
    """

    first: Int32
    second: Int32
    offset_s: Float64
    uncertainty_s: Float64
    matches: Int64
    clear: Bool
    sharp: Bool

    def take(self, rows: Bool) -> Compared:
        """Return the rows of a mask."""
        return Compared(*(getattr(self, column.name)[rows] for column in fields(self)))

    def joined(self, other: Compared) -> Compared:
        """Return these rows, then those of another."""
        return Compared(
            *(np.concatenate([getattr(self, column.name), getattr(other, column.name)]) for column in fields(self))
        )


@dataclass(frozen=True, slots=True)
class _Sequences:
    """What each exporter saw of each 5-tuple, one row a sequence, sorted by (5-tuple, exporter).

    `seen` are the observations, sequence after sequence, each sorted by end; `of` int32[n] is the sequence of each;
    `tick_ns` int64[exporters] is what all times of an exporter are multiples of, up to a second.
    """

    seen: FlowBatch
    of: Int32
    five_tuple: Int64
    exporter: Int32
    first: Int64
    length: Int64
    tick_ns: Int64


@dataclass(frozen=True, slots=True)
class _Partners:
    """Every two sequences, `left` and `right` int64[n], of one 5-tuple, one row each two, sorted by pair of exporters.

    `pair` int32[n] numbers the pairs; `first`, `second` int32[pairs] are their exporters.
    """

    left: Int64
    right: Int64
    pair: Int32
    first: Int32
    second: Int32

    def of_pairs(self, wanted: Bool) -> _Partners:
        """Return the rows of the pairs of a mask."""
        rows, number = wanted[self.pair], np.cumsum(wanted) - 1
        return _Partners(
            self.left[rows],
            self.right[rows],
            number[self.pair[rows]].astype(np.int32),
            self.first[wanted],
            self.second[wanted],
        )


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Observations that may be of one flow, rows `before` and `after` int64[m] of what was seen, by `pair` int32[m].

    `looked_at` float64[pairs] counts the observations of the first exporter for which they were sought.
    """

    before: Int64
    after: Int64
    pair: Int32
    looked_at: Float64


def compare(seen: FlowBatch, params: ClockParams) -> Compared:
    """Compare every two exporters that have observations of the same 5-tuples, and return what is clear.

    An offset is looked for nearby first, and far away where what is nearby does not explain nearly everything.
    """
    sequences = _sequences(seen, seen.five_tuples())
    partners = _partners(sequences, len(seen.exporters))
    near = _offsets(sequences, partners, round(params.near_s * _SECOND_NS), params)
    far = _offsets(sequences, partners.of_pairs(~near.sharp), round(params.far_s * _SECOND_NS), params)
    return near.take(near.sharp).joined(far.take(far.clear))


def compare_lanes(seen: FlowBatch, lanes: Int64, params: ClockParams) -> Compared:
    """Compare every two exporters of which each saw other flows of the same lanes, and return what is sharp.

    Parameters: `lanes` int64[n], which flows move at the same moments. That is believed where nearly all of them do.
    Messages recur, and of the offsets that differ by a period the one nearest to none is right where clocks are. Of one
    that is wrong nothing says by how much: it is looked at again, more closely, for the offset that explains most.
    """
    sequences = _sequences(seen, lanes)
    partners = _partners(sequences, len(seen.exporters))
    reach = round(params.near_s * _SECOND_NS)
    found = _offsets(sequences, partners, reach, params)
    wrong = found.sharp & (np.abs(found.offset_s) > max(params.widths_s))
    if wrong.any():
        again = _offsets(sequences, partners.of_pairs(wrong), reach, params, nearest=False)
        found = found.take(~wrong).joined(again)
    return found.take(found.sharp)


def _sequences(seen: FlowBatch, five_tuple: Int64) -> _Sequences:
    """Sort observations into sequences, one an exporter and number in `five_tuple` int64[n]."""
    order = order_by(five_tuple, seen.exporter, seen.end_ns)
    seen, five_tuple = seen.take(order), five_tuple[order]
    first = run_starts(five_tuple, seen.exporter)
    length = np.diff(np.append(first, len(seen)))
    of = np.repeat(np.arange(len(first), dtype=np.int32), length)
    return _Sequences(seen, of, five_tuple[first], seen.exporter[first], first, length, seen.ticks_ns())


def _partners(sequences: _Sequences, exporters: int) -> _Partners:
    """Pair the sequences of each 5-tuple."""
    number = np.arange(len(sequences.first))
    after = np.searchsorted(sequences.five_tuple, sequences.five_tuple, side="right") - number - 1
    others = np.minimum(after, _MAX_SWITCHES - 1)
    left = np.repeat(number, others)
    right = left + 1 + _count_up(others)
    key = sequences.exporter[left] * np.int64(exporters) + sequences.exporter[right]
    order = np.argsort(key, kind="stable")
    keys, pair = np.unique(key[order], return_inverse=True)
    first, second = (part.astype(np.int32) for part in np.divmod(keys, exporters))
    return _Partners(left[order], right[order], pair.astype(np.int32), first, second)


def _offsets(
    sequences: _Sequences, partners: _Partners, reach: int, params: ClockParams, *, nearest: bool = True
) -> Compared:
    """Find the offset of each pair of exporters within `reach` ns of 0, the `nearest` of those as good or the best."""
    pairs = len(partners.first)
    of_first, of_second = (
        np.bincount(partners.pair, sequences.length[side], pairs) for side in (partners.left, partners.right)
    )
    candidates = _candidates(sequences, partners, reach)
    group, difference, weight = _differences(sequences.seen, candidates, params)
    tick = np.maximum(sequences.tick_ns[partners.first], sequences.tick_ns[partners.second])
    width = np.rint(np.array(params.widths_s) * _SECOND_NS).astype(np.int64)
    widths = np.maximum(width[:, None], 2 * tick[None, :])
    attainable = candidates.looked_at * np.minimum(of_second / of_first, 1)
    # Every observation has two ends.
    peaks = densest(group, difference, weight, widths, 2 * attainable, reach, nearest=nearest)
    found = np.maximum(peaks.inside / 2, 1)
    share = peaks.inside / 2 / np.maximum(attainable, 1)
    matches = np.rint(np.minimum(share, 1) * np.minimum(of_first, of_second)).astype(np.int64)
    clear = (matches >= params.min_count) & (share >= params.min_share) & (peaks.log_ratio >= params.min_log_ratio)
    clear &= tick <= width.max()  # where most times are equal, all of them match
    # Times cut to ticks show no spread where they happen to fall on one side of them all.
    error = np.sqrt(peaks.spread**2 / found + (tick / found) ** 2)
    return Compared(
        partners.first,
        partners.second,
        peaks.mean / _SECOND_NS,
        error / _SECOND_NS,
        matches,
        clear,
        clear & (share >= params.nearly_all) & (peaks.spread <= widths[0]),
    )


def _candidates(sequences: _Sequences, partners: _Partners, reach: int) -> _Candidates:
    """List observations of one 5-tuple by both exporters of a pair that end within `reach` ns of one another.

    Of pairs with many of them an even sample is taken.
    """
    pairs, end_ns = len(partners.first), sequences.seen.end_ns
    length = sequences.length[partners.left]
    row = np.repeat(np.arange(len(length), dtype=np.int32), length)
    place = np.flatnonzero(_sample(partners.pair[row], None, _MAX_OBSERVATIONS, pairs, _GOLDEN))
    row = row[place]
    before = (sequences.first[partners.left] - (np.cumsum(length) - length))[row] + place
    partner, pair = partners.right[row].astype(np.int32), partners.pair[row]
    begin = group_search(sequences.of, end_ns, partner, end_ns[before] - reach - 1)
    count = group_search(sequences.of, end_ns, partner, end_ns[before] + reach) - begin
    most = max(_MAX_CANDIDATES / max(pairs, 1), _MIN_CANDIDATES)
    some = _sample(pair, count, most, pairs, _SILVER)
    before, begin, pair, count = before[some], begin[some], pair[some], count[some]
    return _Candidates(
        np.repeat(before, count),
        np.repeat(begin, count) + _count_up(count),
        np.repeat(pair, count),
        np.bincount(pair, minlength=pairs).astype(np.float64),
    )


def _differences(seen: FlowBatch, candidates: _Candidates, params: ClockParams) -> tuple[Int32, Int64, Float64]:
    """Return the pair, the difference of times in ns and the weight of each candidate's start and end, sorted."""
    before, after = candidates.before, candidates.after
    weight = np.full(len(before), params.unlike_weight)
    for count in (seen.bytes, seen.packets):
        most = np.maximum(count[before], count[after])
        weight[np.abs(count[before] - count[after]) <= params.same_count * most] = 1.0
    difference = np.concatenate([times[after] - times[before] for times in (seen.start_ns, seen.end_ns)])
    # Starts may lie farther apart than what is looked for.
    pair, weight = np.tile(candidates.pair, 2), np.tile(weight, 2)
    order = order_by(pair, difference)
    return pair[order], difference[order], weight[order]


def _sample(pair: Int32, cost: Int64 | None, most: float, pairs: int, step: float) -> Bool:
    """Mask evenly as many rows of each pair as cost `most` together, None: 1 each; all of them where they cost less."""
    total = np.bincount(pair, cost, pairs)
    share = np.minimum(most / np.maximum(total, 1), 1)
    turn = np.arange(len(pair)) * step
    mask: Bool = turn - np.floor(turn) < share[pair]
    return mask


def _count_up(counts: Int64) -> Int64:
    """Count from 0 below each count, one after the other: (2, 3) gives 0, 1, 0, 1, 2."""
    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
