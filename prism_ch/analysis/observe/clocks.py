"""Clocks: how far exporters' clocks are off, from the flows that several of them saw; and times without that.

1. Two exporters that saw the same 5-tuples are compared by the differences between their observations of these.
2. The offsets of pairs add up to one for each exporter; a wrong one among them is overruled.
3. The right time is what most exporters show, against what was known of them before.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prism_ch.analysis.observe.clock_offsets import Compared, compare, compare_lanes
from prism_ch.core.arrays import group_search, run_starts
from prism_ch.core.graph import components, levels
from prism_ch.model.columns import Float64, Int32, Int64
from prism_ch.model.exporter import ExporterHistory, ExporterStates
from prism_ch.model.flow import FlowBatch, of_several
from prism_ch.model.params import ClockParams

__all__ = ["blurs_ns", "correct", "estimate", "reach_ns"]

#: No two clocks are compared better than this.
_EXACT_S = 1e-9


def estimate(
    batch: FlowBatch, history: ExporterHistory, params: ClockParams, server: Int32 | None = None
) -> ExporterStates:
    """Say of each exporter in a window how far its clock is ahead, where flows that others saw as well show it.

    Parameters: `batch`, the window's observations by the exporters' own clocks; `history`, what earlier windows found;
    `server` int32[endpoints], where each endpoint sits, if flows of one pair of servers may be compared as well.
    Returns the exporters in the batch that have a name, in the batch's order. Exporters that share no flows, nor share
    them with the same others, are no time for one another: each such set of exporters has its own.
    """
    observations = np.bincount(batch.exporter, minlength=len(batch.exporters))
    named = np.array([name != "" for name in batch.exporters], dtype=bool)
    present = np.flatnonzero((observations > 0) & named)
    names = tuple(batch.exporters[code] for code in present)
    shared = batch.shared()
    compared = compare(batch.take(shared & named[batch.exporter]), params)
    if server is not None:
        compared = compared.joined(_compare_apart(batch.take(named[batch.exporter]), compared, server, params))
    if len(compared.first) == 0:
        return ExporterStates.unknown(names)
    level, compared = _levels(compared, len(batch.exporters), params)
    before_s = np.nan_to_num(history.latest_offset_s(batch.exporters))
    offset_s = level - _right_time(level - before_s, compared, observations)
    precision = _sum_by_exporter(compared, 1 / np.maximum(compared.uncertainty_s, _EXACT_S) ** 2, len(batch.exporters))
    matches = _sum_by_exporter(compared, compared.matches, len(batch.exporters))
    uncertainty_s = np.sqrt(1 / np.where(precision > 0, precision, np.nan))
    offset_s[np.isnan(uncertainty_s)] = np.nan
    return replace(
        ExporterStates.unknown(names),
        clock_offset_s=offset_s[present],
        clock_uncertainty_s=uncertainty_s[present],
        clock_matches=matches[present].astype(np.int64),
    )


def _compare_apart(batch: FlowBatch, compared: Compared, server: Int32, params: ClockParams) -> Compared:
    """Compare exporters that no shared flow joins by what moves between the same servers, as `compare` does.

    A tensor-parallel group does everything at once on all its GPUs: each rail shows the same messages at the same
    moments, and so do the rings of one collective.
    """
    joined = components(len(batch.exporters), compared.first, compared.second)
    servers = int(server.max(initial=0)) + 1
    first = run_starts(batch.src, batch.dst)
    lane = server[batch.src[first]].astype(np.int64) * servers + server[batch.dst[first]]
    _, lane = np.unique(lane, return_inverse=True)
    lane = np.repeat(lane, np.diff(np.append(first, len(batch))))
    apart = of_several(lane, joined[batch.exporter])
    found = compare_lanes(batch.take(apart), lane[apart], params)
    return found.take(joined[found.first] != joined[found.second])


def correct(batch: FlowBatch, history: ExporterHistory, params: ClockParams) -> FlowBatch:
    """Return observations with the times of right clocks, sorted by these.

    Parameters: `batch`, by the exporters' own clocks; `history`, with what the window of its last observations found.
    An offset that a window found holds for what ends from its start on, up to the next one, and the first one also for
    what came before it. Offsets that may be none are left alone, and so is an exporter of which nothing is known.
    """
    code = {name: number for number, name in enumerate(batch.exporters)}
    exporter = np.array([code.get(name, -1) for name in history.exporters], dtype=np.int32)[history.exporter]
    ahead_ns = np.where(exporter >= 0, _significant_ns(history, params), 0)
    if not ahead_ns.any():
        return batch
    order = np.lexsort((history.window_start_ns, exporter))
    exporter, since_ns, ahead_ns = exporter[order], history.window_start_ns[order], ahead_ns[order]
    first, end = (np.searchsorted(exporter, np.arange(len(batch.exporters)), side) for side in ("left", "right"))
    row = np.maximum(group_search(exporter, since_ns, batch.exporter, batch.end_ns) - 1, first[batch.exporter])
    known = (first < end)[batch.exporter]
    return batch.moved(-np.where(known, ahead_ns[np.where(known, row, 0)], 0))


def blurs_ns(ticks_ns: Int64, params: ClockParams) -> Int64:
    """Return how far apart an exporter and others may see one moment once they are corrected, int64[exporters].

    Parameters: `ticks_ns` int64[exporters], what their own clocks cut times to. They are taken at different switches.
    """
    return np.minimum(ticks_ns, round(max(params.widths_s) * 1e9)) + round(2 * params.path_delay_s * 1e9)


def reach_ns(history: ExporterHistory, params: ClockParams) -> int:
    """Return how far at most the time of an observation is corrected, in ns."""
    return int(np.abs(_significant_ns(history, params)).max(initial=0))


def _significant_ns(history: ExporterHistory, params: ClockParams) -> Int64:
    """Return the offsets that are more than their uncertainty may account for, int64[n]; 0 where they are not."""
    significant = np.abs(history.clock_offset_s) > params.min_score * history.clock_uncertainty_s
    return np.where(significant, np.rint(history.clock_offset_s * 1e9), 0).astype(np.int64)


def _levels(compared: Compared, exporters: int, params: ClockParams) -> tuple[Float64, Compared]:
    """Return how far each exporter is ahead of an unknown time, float64[exporters], and what agrees with that."""
    measured = np.maximum(compared.uncertainty_s, params.path_delay_s)
    level = levels(compared.first, compared.second, compared.offset_s, 1 / measured, exporters)
    apart_s = np.abs(level[compared.second] - level[compared.first] - compared.offset_s)
    return level, compared.take(apart_s <= params.agreement_s)


def _right_time(ahead_s: Float64, compared: Compared, observations: Int64) -> Float64:
    """Return the time to set each exporter's clock by, float64[exporters]: that of the median of those joined to it.

    Parameters: `ahead_s` float64[exporters], against what was known before; `observations`, of each exporter: where
    two are in the middle, the one with more of them counts.
    """
    joined = components(len(ahead_s), compared.first, compared.second)
    order = np.lexsort((ahead_s, joined))
    first = run_starts(joined[order])
    length = np.diff(np.append(first, len(order)))
    lower, upper = order[first + (length - 1) // 2], order[first + length // 2]
    middle = np.where(observations[lower] >= observations[upper], lower, upper)
    time = np.empty(len(ahead_s))
    time[order] = np.repeat(ahead_s[middle], length)
    return time


def _sum_by_exporter(compared: Compared, values: Float64 | Int64, exporters: int) -> Float64:
    """Sum values of pairs over the pairs that each exporter is in, float64[exporters]."""
    total = np.zeros(exporters)
    for side in (compared.first, compared.second):
        total += np.bincount(side, values, exporters)
    return total
