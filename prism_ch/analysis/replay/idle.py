"""Idle time: when ranks neither compute nor move data, and how much of that the schedule itself leaves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.analysis.continuity.continuity import RebuiltAttempt
from prism_ch.analysis.replay.causes import evened
from prism_ch.analysis.replay.draft import INPUT, ORDER, OWN, ROUND
from prism_ch.analysis.replay.graph import ExecutionGraph
from prism_ch.analysis.replay.longest_path import longest_source
from prism_ch.analysis.replay.replay import replay
from prism_ch.core import intervals
from prism_ch.core.arrays import fold_rows, ranges
from prism_ch.model.columns import Float64, Int32, Int64
from prism_ch.model.job import Division
from prism_ch.model.params import ReplayParams
from prism_ch.model.result import PHASES

#: After any time.
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Idle:
    """Seconds of each endpoint in each new step, float64[m, k], NaN where nothing is known.

    `idle_s`: waiting for others while no data move. `bubble_s`: of that, what would be left if all ranks of a stage
    computed alike: the bubbles of the schedule.
    """

    idle_s: Float64
    bubble_s: Float64


@dataclass(frozen=True, slots=True)
class _Waits:
    """When units wait: `unit` int64[w], `start`, `end` float64[w, k]; no longer than nothing where they don't."""

    unit: Int64
    start: Float64
    end: Float64

    def total(self, units: int) -> Float64:
        """Add up how long each unit waits in each step, float64[units, k]."""
        total = np.zeros((units, self.start.shape[1]))
        np.add.at(total, self.unit, np.maximum(self.end - self.start, 0))
        return total


def measure_idle(graph: ExecutionGraph, attempt: RebuiltAttempt, params: ReplayParams) -> Idle:
    """Measure how long endpoints wait for others in compute phases of new steps.

    Parameters: `graph` of all steps of the attempt's division but the first.

    1. A unit waits before an output whose input came after it was free, and before a round until all are ready.
    2. An endpoint waits when its step has ended before that of its role.
    3. What lies in a phase in which it moves data is no idle time.
    4. Replay the steps with all units of a role as quick as most: the share of waiting that is left is the schedule's.
    """
    last = _last_ready(graph)
    waits = _waits(graph, last, graph.lag, graph.at)
    waited = waits.total(len(graph.role))
    even = evened(graph)
    bubbles = _waits(graph, last, even, replay(graph, even, params.sweeps).at).total(len(graph.role))
    share = np.divide(bubbles, waited, out=np.ones_like(waited), where=waited > 0).clip(max=1.0)
    phases, division, new = attempt.rebuilt.timeline.rows(), attempt.division, len(attempt.rebuilt.steps)
    computing = phases.take(phases.phase == PHASES.index("compute"))
    of_span = division.rows_of(computing.endpoint)
    spans = of_span.astype(np.int32), computing.start_ns, computing.end_ns
    cell = of_span * new + computing.step - attempt.first_new
    idle_ns = np.zeros(len(division.endpoints) * new)
    for apart in _of_endpoints(graph, waits, division):
        parts = intervals.cut(*apart, *spans)
        idle_ns += np.bincount(cell[parts.span], weights=parts.end - parts.start, minlength=len(idle_ns))
    seconds = np.where(np.append(False, graph.known)[-new:], idle_ns.reshape(-1, new) / 1e9, np.nan)
    unknown = np.full((len(division.endpoints), 1), np.nan)
    return Idle(seconds, seconds * np.concatenate([unknown, share[graph.unit]], axis=1)[:, -new:])


def _waits(graph: ExecutionGraph, last: Int64, lag: Float64, at: Float64) -> _Waits:
    """List when units wait in each step, as nodes take place `at` float64[nodes, k].

    Parameters: `last`, see `_last_ready`.
    """
    source, target = graph.dag.source, graph.dag.target
    own = np.flatnonzero(graph.kind == OWN)
    made, first, which = np.unique(target[own], return_index=True, return_inverse=True)
    free = np.full((len(made), at.shape[1]), -np.inf)
    fold_rows(np.maximum, free, which, at[source[own]] + lag[own])
    inputs = longest_source(graph.dag, at, graph.kind == INPUT)[made]
    wait = np.where(np.isfinite(inputs), np.maximum(at[made] - free, 0), 0.0)
    until = np.where(np.isfinite(inputs), inputs, at[made])
    after, ended, ready = _between_rounds(graph, at)
    return _Waits(
        np.concatenate([graph.owner[own[first]], graph.owner[last], after]),
        np.concatenate([until - wait, at[source[last]], ended]),
        np.concatenate([until, at[target[last]], ready]),
    )


def _between_rounds(graph: ExecutionGraph, at: Float64) -> tuple[Int64, Float64, Float64]:
    """List the waits between rounds: units, start and end.

    All stages compute alike on the result of a round; one that takes longer for it than another waits for that.
    """
    follows = (graph.kind == INPUT) & (graph.place >= 0)
    target, first = np.unique(graph.dag.target[follows], return_index=True)
    unit, place = graph.owner[follows][first], graph.place[follows][first]
    ended = longest_source(graph.dag, at, follows)[target]
    took = at[target] - ended
    least = np.full((int(place.max(initial=-1)) + 1, at.shape[1]), np.inf)
    fold_rows(np.minimum, least, place, took)
    # The stage that the others wait for goes on at once, and shows no time between the rounds.
    for one in range(len(least)):
        if len(np.unique(graph.role[unit[place == one]])) < len(graph.begins):
            least[one] = 0.0
    return unit, ended, at[target] - least[place]


def _last_ready(graph: ExecutionGraph) -> Int64:
    """List the edges by which units wait for a round. Their computing is done.

    That is so before the last round, and before one on whose result they go on computing.
    """
    source, target = graph.dag.source, graph.dag.target
    begins = np.unique(source[graph.kind == ROUND])
    ready = np.flatnonzero((graph.kind == ORDER) & np.isin(target, begins) & (graph.owner >= 0))
    goes_on = np.unique(source[(graph.kind == OWN)])
    edges: Int64 = ready[~np.isin(source[ready], goes_on)]
    return edges


def _of_endpoints(
    graph: ExecutionGraph, waits: _Waits, division: Division
) -> tuple[tuple[Int32, Int64, Int64], tuple[Int32, Int64, Int64]]:
    """Return when endpoints wait inside steps, and between them; no two overlap.

    Each is rows of the division, int32[n], and start and end in nanoseconds, int64[n].
    """
    steps, base = graph.steps, graph.base_ns[None]
    begin = np.rint(graph.at[graph.begins]).astype(np.int64) + base
    start, end = np.rint(waits.start).astype(np.int64) + base, np.rint(waits.end).astype(np.int64) + base
    start = np.maximum(start, begin[graph.role[waits.unit]])  # what came before is waiting of the step before
    which, step = np.nonzero((end > start) & graph.known)
    cell = (waits.unit[which] * steps + step).astype(np.int32)
    united = intervals.merge(cell, start[which, step], end[which, step])
    # All endpoints of a unit wait together, until their own ends of steps, after which they wait for the next.
    first = np.searchsorted(united.group, np.arange(len(graph.role) + 1) * steps)
    count = np.diff(first)[graph.unit]
    row = np.repeat(np.arange(len(count), dtype=np.int32), count)
    of_unit = ranges(first[graph.unit], count)
    next_ns, own_end = begin[graph.role[graph.unit]], division.end_ns
    between = (next_ns > own_end[:, :-1]) & graph.known
    until = np.where(np.append(between[:, 1:], np.zeros((len(count), 1), dtype=bool), axis=1), own_end[:, 1:], _NEVER)
    begins, ends = united.start[of_unit], united.end[of_unit]
    ends = np.minimum(ends, until[row, united.group[of_unit] % steps])
    kept = ends > begins
    rest = np.nonzero(between)
    return (
        (row[kept], begins[kept], ends[kept]),
        (rest[0].astype(np.int32), own_end[:, :-1][rest], next_ns[rest]),
    )
