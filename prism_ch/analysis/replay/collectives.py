"""Rounds of collectives: which communicators go through them together, and when each begins and ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from prism_ch.core import robust
from prism_ch.core.arrays import fold_at, fold_rows, run_lengths, run_places, run_starts
from prism_ch.core.graph import components
from prism_ch.core.rising_rows import count_below, count_up_to, nearest_place
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.job import Division
from prism_ch.model.params import ReplayParams
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Rounds:
    """Rounds that communicators go through together: they share units, or servers in which no hop shows.

    `units` int64[u], rising, take part; `at` float64[u, k, n] is when each first does, NaN where a flow that waits for
    a late rank hides that. `edges` int64[2, e] are rows of `units` that move data to one another, both ways. `parts`
    are the communicators, rows of the division each, and `ends` float64[parts, k, n] when each round ends there.
    """

    units: Int64
    at: Float64
    edges: Int64
    parts: tuple[Int64, ...]
    ends: Float64

    @property
    def count(self) -> int:
        """How many rounds a step has."""
        return int(self.at.shape[2])


@dataclass(frozen=True, slots=True)
class _Bursts:
    """Bursts inside steps: `pair`, `step`, `start` and `end` int64[n], nanoseconds since the step began."""

    pair: Int64
    step: Int64
    start: Int64
    end: Int64

    def take(self, rows: Bool | Int64) -> _Bursts:
        return _Bursts(self.pair[rows], self.step[rows], self.start[rows], self.end[rows])


def read_rounds(
    traffic: Traffic, division: Division, base_ns: Int64, role: Int64, unit: Int32, params: ReplayParams
) -> Iterator[Rounds]:
    """Read the rounds of all communicators.

    Parameters: `traffic`, the bursts of collectives; `base_ns` int64[k], when each step began; `role` int64[m] and
    `unit` int32[m] of the division's endpoints.

    1. Leave out pairs that move other traffic as well.
    2. Join communicators that share a unit, or are of one role and end their steps together.
    3. Number their bursts by the rounds that they end with.
    """
    traffic = _without_others(traffic, division, params)
    src, dst = division.rows_of(traffic.pair_src), division.rows_of(traffic.pair_dst)
    part = components(len(division.endpoints), src.astype(np.int32), dst.astype(np.int32))[src]
    step = division.step_of(src[traffic.pair], traffic.end_ns - 1)
    rows = np.flatnonzero(step < division.steps)
    base = base_ns[step[rows]]
    pair = traffic.pair[rows].astype(np.int64)
    bursts = _Bursts(pair, step[rows], traffic.start_ns[rows] - base, traffic.end_ns[rows] - base)
    if len(rows) == 0:
        return
    last, near_ns = _last_ends(bursts, part, division.steps, params)
    joined = _together(part, np.stack([src, dst]), unit, role, last, near_ns)
    for one in np.unique(joined[bursts.pair]).tolist():
        pairs = np.flatnonzero(joined == one)
        mine = bursts.take(joined[bursts.pair] == one)
        times = _numbered(_Bursts(np.searchsorted(pairs, mine.pair), mine.step, mine.start, mine.end), near_ns, params)
        start, end = (_of_shape(each, len(pairs), division.steps) for each in times)
        yield _of_units(np.stack([src[pairs], dst[pairs]]), part[pairs], start, end, unit)


def _without_others(traffic: Traffic, division: Division, params: ReplayParams) -> Traffic:
    """Leave out pairs that move more than most of their communicator. They carry other traffic as well."""
    src, dst = (division.rows_of(side).astype(np.int32) for side in (traffic.pair_src, traffic.pair_dst))
    part = components(len(division.endpoints), src, dst)[src]
    moved = traffic.sums_of_pairs(traffic.payload)
    usual = robust.median_by(part, np.where(moved > 0, moved, np.nan))[part]
    return traffic.keep_pairs((moved > 0) & ~(moved > params.other_traffic * usual))


def _last_ends(bursts: _Bursts, part: Int32, steps: int, params: ReplayParams) -> tuple[Float64, float]:
    """Find when each communicator ends each step. Returns float64[parts, k], and how near ends are that are one."""
    last = np.full((int(part.max()) + 1, steps), -np.inf)
    owner = part[bursts.pair]
    fold_at(np.maximum, last, (owner, bursts.step), bursts.end)
    closing = bursts.end >= last[owner, bursts.step] - params.round_ns
    took = np.quantile((bursts.end - bursts.start)[closing], params.plain_quantile)
    return np.where(np.isinf(last), np.nan, last), params.round_ns + params.round_share * float(took)


def _together(part: Int32, sides: Int64, unit: Int32, role: Int64, last: Float64, near_ns: float) -> Int32:
    """Label the pairs, `sides` int64[2, p], by the communicators that go through rounds together."""
    parts = len(last)
    a, b = np.tile(part, 2).tolist(), (parts + unit[sides.ravel()]).tolist()  # a node for each unit
    role_of = np.full(parts, -1)
    role_of[part] = role[sides[0]]
    for one in np.unique(role_of[role_of >= 0]).tolist():
        mine = np.flatnonzero(role_of == one)
        order = mine[np.argsort(robust.median(last[mine] - robust.median(last[mine], axis=0), axis=1), kind="stable")]
        first = int(order[0])
        for other in order[1:].tolist():
            if robust.median(np.abs(last[first] - last[other])) <= near_ns:
                a.append(first)
                b.append(other)
            else:
                first = other
    nodes = parts + int(unit.max()) + 1
    return components(nodes, np.array(a, dtype=np.int32), np.array(b, dtype=np.int32))[part]


@dataclass(frozen=True, slots=True)
class _Numbered:
    """Moments of bursts by `pair`, `step` and number of the `round` of `rounds`."""

    pair: Int64
    step: Int64
    round: Int64
    at: Int64
    rounds: int


def _numbered(bursts: _Bursts, near_ns: float, params: ReplayParams) -> tuple[_Numbered, _Numbered]:
    """Find the rounds that bursts begin with, and those that they end with.

    1. The rounds of a step are the ends of those pairs that show most bursts: flows that wait for a late rank run into
       those of the next round.
    2. Leave out rounds during which most pairs move nothing: they are traffic of a few.
    3. A burst ends with the round whose end is nearest, and begins with the first that its pair has not shown.
    """
    starts = run_starts(bursts.pair, bursts.step)
    counts = run_lengths(starts, len(bursts.pair))
    place, many = run_places(starts, len(bursts.pair)), np.repeat(counts, counts)
    steps, pairs = int(bursts.step.max()) + 1, int(bursts.pair.max()) + 1
    most = np.zeros(steps, dtype=np.int64)
    np.maximum.at(most, bursts.step, many)
    rounds = int(np.bincount(most[most > 0]).argmax())
    whole = many == rounds
    ends = np.full((steps, rounds), np.nan)
    fold_at(np.fmax, ends, (bursts.step[whole], place[whole]), bursts.end[whole])
    known = ~np.isnan(ends[:, 0])
    own = np.where(whole, place, -1)
    shown = _shown(ends, bursts, own, near_ns, known, pairs, params)
    ends = ends[:, shown]
    covers = count_up_to(ends, bursts.step, bursts.end + near_ns) > count_below(ends, bursts.step, bursts.start)
    whole &= bool(shown.all())
    use = np.flatnonzero(known[bursts.step] & (covers | whole))
    last = nearest_place(ends, bursts.step[use], bursts.end[use])
    last = np.where(whole[use], place[use], last)
    first = np.zeros(len(use), dtype=np.int64)
    pair, step = bursts.pair[use], bursts.step[use]
    again = np.flatnonzero((pair[1:] == pair[:-1]) & (step[1:] == step[:-1])) + 1
    first[again] = last[again - 1] + 1
    first = np.minimum(first, last)
    return (
        _Numbered(pair, step, first, bursts.start[use], ends.shape[1]),
        _Numbered(pair, step, last, bursts.end[use], ends.shape[1]),
    )


def _shown(
    ends: Float64, bursts: _Bursts, own: Int64, near_ns: float, known: Bool, pairs: int, params: ReplayParams
) -> Bool:
    """Mask the rounds during which most pairs move data. Returns bool[n]; the last one is always among them.

    A pair that shows all rounds shows them by their numbers, `own` int64[b] of each burst, else -1: where one
    communicator is late, the others have ended a round long before it does.
    """
    first, after = count_below(ends, bursts.step, bursts.start), count_up_to(ends, bursts.step, bursts.end + near_ns)
    first, after = np.where(own < 0, first, own), np.where(own < 0, after, own + 1)
    change = np.zeros((len(ends), ends.shape[1] + 1))
    fold_at(np.add, change, (bursts.step, first), 1.0 * (after > first))
    fold_at(np.add, change, (bursts.step, after), -1.0 * (after > first))
    cover = np.cumsum(change, axis=1)[:, :-1]
    shown: Bool = np.asarray(np.median(cover[known], axis=0) >= params.half * pairs)
    shown[-1] = True
    return shown


def _of_shape(found: _Numbered, pairs: int, steps: int) -> Float64:
    """Lay out moments as float64[pairs, k, n]. The latest counts where there are several; NaN where there is none."""
    times = np.full((pairs, steps, found.rounds), np.nan)
    fold_at(np.fmax, times, (found.pair, found.step, found.round), found.at)
    return times


def _of_units(sides: Int64, part: Int32, start: Float64, end: Float64, unit: Int32) -> Rounds:
    """Return the rounds as units and communicators show them.

    A unit takes part when most of its ranks do: one may move other traffic just before. Pairs inside a unit count only
    where there are no others.
    """
    across = unit[sides[0]] != unit[sides[1]]
    across |= not across.any()
    rows = np.unique(sides)
    first = np.full((len(rows), *start.shape[1:]), np.nan)
    for side in sides:
        fold_rows(np.fmin, first, np.searchsorted(rows, side[across]), start[across])
    units = np.unique(unit[rows]).astype(np.int64)
    at = np.array([np.rint(robust.median(first[unit[rows] == one], axis=0)) for one in units.tolist()])
    joined = np.unique(unit[sides[:, across]], axis=1)
    between = np.searchsorted(units, joined[:, joined[0] != joined[1]])
    everyone = np.fmax.reduce(end, axis=0)
    everyone = np.where(np.isnan(everyone), np.rint(robust.median(everyone, axis=0))[None], everyone)
    numbers = np.unique(part).tolist()
    ends = np.array([np.fmax.reduce(end[part == one], axis=0) for one in numbers])
    parts = tuple(np.unique(sides[:, part == one]) for one in numbers)
    edges = np.concatenate([between, between[::-1]], axis=1)
    return Rounds(units, at, edges, parts, np.where(np.isnan(ends), everyone[None], ends))
