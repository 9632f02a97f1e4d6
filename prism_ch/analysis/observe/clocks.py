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

from prism_ch.analysis.observe.sightings import Sightings, differences
from prism_ch.core.arrays import run_lengths, run_numbers, run_starts
from prism_ch.core.density import densest
from prism_ch.core.graph import components, levels
from prism_ch.core.search import group_search
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.exporter import ExporterHistory, ExporterStates
from prism_ch.model.flow import FlowBatch, of_several
from prism_ch.model.params import ClockParams

#: No two clocks are compared better than this.
_EXACT_S = 1e-9
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
    sightings = Sightings.listed(seen, np.arange(len(seen)), seen.five_tuples())
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
    # An exchange is many flows at once, of as many queue pairs and peers: anything agrees with one of several.
    sightings = Sightings.listed(batch, apart, lane[apart]).moments(round(min(params.widths_s) * _SECOND_NS))
    near_ns = round(params.near_s * _SECOND_NS)
    found = _offsets(sightings, near_ns, params, least=params.lane_moments)
    wrong = found.sharp & (np.abs(found.offset_s) > max(params.widths_s))
    if wrong.any():
        again = _offsets(sightings.of_pairs(wrong), near_ns, params, least=params.lane_moments, nearest=False)
        found = found.take(~wrong).joined(again)
    return found.take(found.sharp & (joined[found.first] != joined[found.second]))


def _offsets(
    sightings: Sightings, within_ns: int, params: ClockParams, *, least: int = 1, nearest: bool = True
) -> _Compared:
    """Find the offset of each pair of exporters, within `within_ns` of 0 (see `differences`).

    1. List the observations of one 5-tuple by both exporters that may be of one flow.
    2. Find where the differences between their times lie densest: of places as good the `nearest` to 0, or the best.
    3. Judge the offset there by the share of observations that it explains.
    """
    pairs = len(sightings.first)
    of_first, of_second = (
        np.bincount(sightings.pair, sightings.length[side], pairs) for side in (sightings.left, sightings.right)
    )
    apart = differences(sightings, within_ns, params, least)
    tick = np.maximum(sightings.tick_ns[sightings.first], sightings.tick_ns[sightings.second])
    width = np.rint(np.array(params.widths_s) * _SECOND_NS).astype(np.int64)
    widths = np.maximum(width[:, None], 2 * tick[None, :])
    attainable = apart.looked_at * np.minimum(of_second / of_first, 1)
    # Every observation has two ends.
    peaks = densest(apart.pair, apart.apart_ns, apart.weight, widths, 2 * attainable, apart.reach_ns, nearest=nearest)
    found = np.maximum(peaks.inside / 2, 1)
    share = peaks.inside / 2 / np.maximum(attainable, 1)
    matches = np.rint(np.minimum(share, 1) * np.minimum(of_first, of_second)).astype(np.int64)
    clear = (matches >= params.min_count) & (share >= params.min_share) & (peaks.log_ratio >= params.min_log_ratio)
    clear &= apart.looked_at >= min(least, params.min_count)
    clear &= tick <= width.max()  # where most times are equal, all of them match
    sharp = clear & (share >= params.nearly_all) & (peaks.spread <= widths[0])
    # Times cut to ticks show no spread where they happen to fall on one side of them all.
    error = np.sqrt(peaks.spread**2 / found + (tick / found) ** 2)
    return _Compared(
        sightings.first, sightings.second, peaks.mean / _SECOND_NS, error / _SECOND_NS, matches, clear, sharp
    )


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
