"""Clocks: how far exporters' clocks are off, by flows that several of them saw, and times corrected for that.

1. Two exporters that saw the same 5-tuples are compared by the differences between their observations of these.
2. The offsets of pairs add up to one for each exporter; a wrong one among them is overruled.
3. The right time is what most exporters show, against what was known of them before.

Observations of one flow differ by the offset, in their starts and in their ends; those of different flows by anything,
or by periods of the traffic, which jitter. So most differences lie close together at the offset, even if the two count
different bytes, miss some flows, cut them differently, or have clocks of whole milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from prism_ch.core.arrays import ROWS_AT_ONCE, blocks, order_by, ranges, run_lengths, run_numbers, run_starts
from prism_ch.core.density import densest
from prism_ch.core.graph import components, levels
from prism_ch.core.search import group_search
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.exporter import ExporterHistory, ExporterStates
from prism_ch.model.flow import FlowBatch, of_several
from prism_ch.model.params import ClockParams

#: No two clocks are compared better than this.
_EXACT_S = 1e-9
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

_SECOND_NS = 10**9


def estimate(
    batch: FlowBatch, history: ExporterHistory, params: ClockParams, server: Int32 | None = None
) -> ExporterStates:
    """Estimate how far each exporter's clock is ahead, by flows that others saw as well.

    Parameters: `batch`, the window's observations by the exporters' own clocks; `history`, what earlier windows found;
    `server` int32[endpoints], where each endpoint sits, if flows of one pair of servers may be compared as well.
    Returns the exporters in the batch that have a name, in the batch's order. Exporters that share no flows, nor share
    them with the same others, are no time for one another: each such set of exporters has its own.
    """
    exporters = len(batch.exporters)
    observations = np.bincount(batch.exporter, minlength=exporters)
    named = np.array([name != "" for name in batch.exporters], dtype=bool)
    present = np.flatnonzero((observations > 0) & named)
    states = ExporterStates.unknown(tuple(batch.exporters[code] for code in present))
    shared = batch.shared()
    compared = _compare(batch.take(shared & named[batch.exporter]), params)
    if server is not None:
        compared = compared.joined(_compare_apart(batch.take(named[batch.exporter]), compared, server, params))
    if len(compared.first) == 0:
        return states
    level, compared = _agreeing_levels(compared, exporters, params)
    before_s = np.nan_to_num(history.latest_offset_s(batch.exporters))
    offset_s = level - _right_time(level - before_s, compared, observations)
    precision = compared.sum_by_exporter(1 / np.maximum(compared.uncertainty_s, _EXACT_S) ** 2, exporters)
    matches = compared.sum_by_exporter(compared.matches, exporters)
    uncertainty_s = np.sqrt(1 / np.where(precision > 0, precision, np.nan))
    offset_s[np.isnan(uncertainty_s)] = np.nan
    return replace(
        states,
        clock_offset_s=offset_s[present],
        clock_uncertainty_s=uncertainty_s[present],
        clock_matches=matches[present].astype(np.int64),
    )


def correct(batch: FlowBatch, history: ExporterHistory, params: ClockParams) -> FlowBatch:
    """Return observations with the times of right clocks, sorted by these.

    Parameters: `batch`, by the exporters' own clocks; `history`, with what the window of its last observations found.
    An offset that a window found holds for what ends from its start on, up to the next one, and the first one also for
    what came before it. Offsets that may be none are left alone, and so are exporters that nothing is known of.
    """
    code = {name: number for number, name in enumerate(batch.exporters)}
    exporter = np.array([code.get(name, -1) for name in history.exporters], dtype=np.int32)[history.exporter]
    ahead_ns = np.where(exporter >= 0, _significant_ns(history, params), 0)
    if not ahead_ns.any():
        return batch
    order = np.lexsort((history.window_start_ns, exporter))
    exporter, since_ns, ahead_ns = exporter[order], history.window_start_ns[order], ahead_ns[order]
    first, last = (np.searchsorted(exporter, np.arange(len(batch.exporters)), side) for side in ("left", "right"))

    def later_ns(rows: slice) -> Int64:
        code, end_ns = batch.exporter[rows], batch.end_ns[rows]
        row = np.maximum(group_search(exporter, since_ns, code, end_ns) - 1, first[code])
        known = (first < last)[code]
        return -np.where(known, ahead_ns[np.where(known, row, 0)], 0)

    return batch.moved(later_ns)


def blurs_ns(ticks_ns: Int64, params: ClockParams) -> Int64:
    """Bound how far apart an exporter and others see one moment after correction, int64[exporters].

    Parameters: `ticks_ns` int64[exporters], what their own clocks cut times to. They are taken at different switches.
    """
    return np.minimum(ticks_ns, round(max(params.widths_s) * 1e9)) + round(2 * params.path_delay_s * 1e9)


def reach_ns(history: ExporterHistory, params: ClockParams) -> int:
    """Return how far at most the time of an observation is corrected, in ns."""
    return int(np.abs(_significant_ns(history, params)).max(initial=0))


def _significant_ns(history: ExporterHistory, params: ClockParams) -> Int64:
    """Return each offset, or 0 if its uncertainty may account for it, int64[n]."""
    significant = np.abs(history.clock_offset_s) > params.min_score * history.clock_uncertainty_s
    return np.where(significant, np.rint(history.clock_offset_s * 1e9), 0).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Compared:
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

    def take(self, rows: Bool) -> _Compared:
        return _Compared(*(getattr(self, column.name)[rows] for column in fields(self)))

    def joined(self, other: _Compared) -> _Compared:
        columns = ((getattr(self, column.name), getattr(other, column.name)) for column in fields(self))
        return _Compared(*map(np.concatenate, columns))

    def sum_by_exporter(self, values: Float64 | Int64, exporters: int) -> Float64:
        first, second = (np.bincount(side, values, exporters) for side in (self.first, self.second))
        return np.asarray(first + second, dtype=np.float64)


def _compare(seen: FlowBatch, params: ClockParams) -> _Compared:
    """Compare every two exporters by their observations of the same 5-tuples; return what is clear.

    An offset is looked for nearby first, and far away if what is nearby does not explain nearly everything.
    """
    sightings = _sightings(seen, np.arange(len(seen)), seen.five_tuples())
    near = _offsets(sightings, round(params.near_s * _SECOND_NS), params)
    far = _offsets(sightings.of_pairs(~near.sharp), round(params.far_s * _SECOND_NS), params)
    return near.take(near.sharp).joined(far.take(far.clear))


def _compare_apart(batch: FlowBatch, compared: _Compared, server: Int32, params: ClockParams) -> _Compared:
    """Compare exporters that no shared flow joins by what moves between the same servers.

    A tensor-parallel group does everything at once on all its GPUs: each rail shows the same messages at the same
    moments, and so do the rings of one collective. That is believed if nearly all of them do. Messages recur, and of
    the offsets that differ by a period the one nearest to none is right if clocks are. A wrong clock may be off by
    anything: it is looked at again for the offset that explains most.
    """
    joined = components(len(batch.exporters), compared.first, compared.second)
    servers = int(server.max(initial=0)) + 1
    first = run_starts(batch.src, batch.dst)
    between = server[batch.src[first]].astype(np.int64) * servers + server[batch.dst[first]]
    _, lane = np.unique(between, return_inverse=True)
    lane = lane.astype(np.int32)[run_numbers(batch.src, batch.dst)]
    apart = np.flatnonzero(of_several(lane, joined[batch.exporter]))
    sightings = _sightings(batch, apart, lane[apart])
    near_ns = round(params.near_s * _SECOND_NS)
    found = _offsets(sightings, near_ns, params)
    wrong = found.sharp & (np.abs(found.offset_s) > max(params.widths_s))
    if wrong.any():
        again = _offsets(sightings.of_pairs(wrong), near_ns, params, nearest=False)
        found = found.take(~wrong).joined(again)
    return found.take(found.sharp & (joined[found.first] != joined[found.second]))


@dataclass(frozen=True, slots=True)
class _Sightings:
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

    def of_pairs(self, wanted: Bool) -> _Sightings:
        rows = wanted[self.pair]
        pair = (np.cumsum(wanted, dtype=np.int32) - 1)[self.pair[rows]]
        left, right, first, second = self.left[rows], self.right[rows], self.first[wanted], self.second[wanted]
        return replace(self, left=left, right=right, pair=pair, first=first, second=second)


def _sightings(batch: FlowBatch, rows: Int64, five_tuple: Int64 | Int32) -> _Sightings:
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
    of = np.repeat(number.astype(np.int32), length)
    return _Sightings(
        batch,
        rows,
        batch.end_ns[rows],
        of,
        begin,
        length,
        batch.ticks_ns(rows),
        left[order],
        right[order],
        pair.astype(np.int32),
        first,
        second,
    )


def _offsets(sightings: _Sightings, within_ns: int, params: ClockParams, *, nearest: bool = True) -> _Compared:
    """Find the offset of each pair of exporters within `within_ns` of 0.

    1. List the observations of one 5-tuple by both exporters that may be of one flow.
    2. Find where the differences between their times lie densest: of places as good the `nearest` to 0, or the best.
    3. Judge the offset there by the share of observations that it explains.
    """
    pairs = len(sightings.first)
    of_first, of_second = (
        np.bincount(sightings.pair, sightings.length[side], pairs) for side in (sightings.left, sightings.right)
    )
    before, after, pair, looked_at = _candidates(sightings, within_ns)
    group, difference, weight = _differences(sightings, before, after, pair, params)
    tick = np.maximum(sightings.tick_ns[sightings.first], sightings.tick_ns[sightings.second])
    width = np.rint(np.array(params.widths_s) * _SECOND_NS).astype(np.int64)
    widths = np.maximum(width[:, None], 2 * tick[None, :])
    attainable = looked_at * np.minimum(of_second / of_first, 1)
    # Every observation has two ends.
    peaks = densest(group, difference, weight, widths, 2 * attainable, within_ns, nearest=nearest)
    found = np.maximum(peaks.inside / 2, 1)
    share = peaks.inside / 2 / np.maximum(attainable, 1)
    matches = np.rint(np.minimum(share, 1) * np.minimum(of_first, of_second)).astype(np.int64)
    clear = (matches >= params.min_count) & (share >= params.min_share) & (peaks.log_ratio >= params.min_log_ratio)
    clear &= tick <= width.max()  # where most times are equal, all of them match
    sharp = clear & (share >= params.nearly_all) & (peaks.spread <= widths[0])
    # Times cut to ticks show no spread where they happen to fall on one side of them all.
    error = np.sqrt(peaks.spread**2 / found + (tick / found) ** 2)
    return _Compared(
        sightings.first, sightings.second, peaks.mean / _SECOND_NS, error / _SECOND_NS, matches, clear, sharp
    )


def _candidates(sightings: _Sightings, within_ns: int) -> tuple[Int64, Int64, Int32, Float64]:
    """List observations of one 5-tuple by both exporters of a pair that end nearly together.

    Returns two rows of what was seen, int64[m] each, their pair, int32[m], and of how many observations of the first
    exporter others were sought, float64[pairs]: an even sample if there are many.
    """
    pairs, end_ns = len(sightings.first), sightings.end_ns
    length = sightings.length[sightings.left]
    share = _share(sightings.pair, length, _MAX_OBSERVATIONS, pairs)
    row, place = _sampled(share, length)
    before = (sightings.begin[sightings.left] - (np.cumsum(length) - length))[row] + place
    partner, pair = sightings.right[row].astype(np.int32), sightings.pair[row]
    begin = group_search(sightings.of, end_ns, partner, end_ns[before] - within_ns - 1)
    count = group_search(sightings.of, end_ns, partner, end_ns[before] + within_ns) - begin
    most = max(_MAX_CANDIDATES / max(pairs, 1), _MIN_CANDIDATES)
    some = _turn(0, len(pair), _SILVER) < _share(pair, count, most, pairs)
    before, begin, pair, count = before[some], begin[some], pair[some], count[some]
    after = ranges(begin, count)
    looked_at = np.bincount(pair, minlength=pairs).astype(np.float64)
    return np.repeat(before, count), after, np.repeat(pair, count), looked_at


def _differences(
    sightings: _Sightings, before: Int64, after: Int64, pair: Int32, params: ClockParams
) -> tuple[Int32, Int64, Float64]:
    """Return pair, difference in ns and weight of candidates' starts and ends, sorted.

    Candidates are sorted by pair, and some pairs at a time are looked at: copies of all would be as large as a window.
    """
    both_ends = 2 * len(pair)
    group, difference, weight = np.empty(both_ends, np.int32), np.empty(both_ends, np.int64), np.empty(both_ends)
    first = run_starts(pair)
    edges = np.append(first, len(pair))
    for low, high in blocks(first, ROWS_AT_ONCE):
        some = slice(edges[low], edges[high])
        one, other = sightings.row[before[some]], sightings.row[after[some]]
        seen, alike = sightings.seen, np.zeros(len(one), dtype=np.bool_)
        for count in (seen.bytes, seen.packets):
            mine, theirs = count[one].astype(np.int64), count[other].astype(np.int64)
            alike |= np.abs(mine - theirs) <= params.same_count * np.maximum(mine, theirs)
        # Starts may lie farther apart than what is looked for.
        apart_ns = np.concatenate([times[other] - times[one] for times in (seen.start_ns, seen.end_ns)])
        both = np.tile(pair[some], 2)
        order = order_by(both, apart_ns)
        into = slice(2 * edges[low], 2 * edges[high])
        group[into], difference[into] = both[order], apart_ns[order]
        weight[into] = np.where(np.tile(alike, 2), 1.0, params.unlike_weight)[order]
    return group, difference, weight


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


def _agreeing_levels(compared: _Compared, exporters: int, params: ClockParams) -> tuple[Float64, _Compared]:
    """Return how far each exporter is ahead of an unknown time, and what agrees."""
    measured = np.maximum(compared.uncertainty_s, params.path_delay_s)
    level = levels(compared.first, compared.second, compared.offset_s, 1 / measured, exporters)
    apart_s = np.abs(level[compared.second] - level[compared.first] - compared.offset_s)
    return level, compared.take(apart_s <= params.agreement_s)


def _right_time(ahead_s: Float64, compared: _Compared, observations: Int64) -> Float64:
    """Return the median time of those joined to each exporter, float64[exporters].

    Parameters: `ahead_s` float64[exporters], against what was known before; `observations`, of each exporter: if two
    are in the middle, the one with more of them counts.
    """
    joined = components(len(ahead_s), compared.first, compared.second)
    order = np.lexsort((ahead_s, joined))
    first = run_starts(joined[order])
    length = run_lengths(first, len(order))
    lower, upper = order[first + (length - 1) // 2], order[first + length // 2]
    middle = np.where(observations[lower] >= observations[upper], lower, upper)
    time = np.empty(len(ahead_s))
    time[order] = np.repeat(ahead_s[middle], length)
    return time
