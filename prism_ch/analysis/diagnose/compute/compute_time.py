"""Compute time: how long each rank computes in each step, less what it waits for others, as its messages show.

In synchronous training everybody slows together, and the one that makes the others wait is the one that does not wait.

- In a pipeline a rank computes from when its input is there, and it is free, until it sends its output.
- In a collective a rank is late by how long after its peers it first takes part: nobody sends to or is sent to by a
  rank that still computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from prism_ch.analysis.diagnose.compute.between_messages import between_messages
from prism_ch.core import intervals, robust
from prism_ch.core.arrays import order_by, run_starts
from prism_ch.core.graph import components
from prism_ch.core.significance import quickest_run
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.job import Division, GroupSet, PairKinds
from prism_ch.model.params import ComputeTimeParams
from prism_ch.model.result import CP, DP, EP, PP, TP
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class ComputeTime:
    """Seconds that each rank computes in each step, `seconds` float64[m, k], else NaN.

    `endpoints` int32[m] and their `role` int32[m], the pipeline stage: ranks of a role compute the same.
    `mates` int32[m] joins ranks that wait for one another inside a step's operations: those of one tensor, expert or
    context group; `chain` int32[m], those of one pipeline. `absolute`: the seconds are those of the rank itself,
    whatever its peers do; else only the differences between peers mean something. `turn_s` float64[m, k], if not None,
    is the compute time of ranks whose n-th output is made of their n-th input: that of different stages compares too,
    and is NaN of a first stage.
    `needs` are the inputs that outputs were found to wait for: by "stage>to<from", of each output in order the number
    of the last input that it needs, -1 for none. `hidden` bool[m], if not None, are ranks that compute something that
    no message follows, which may pass for waiting: their level means less than its changes.
    """

    endpoints: Int32
    role: Int32
    seconds: Float64
    mates: Int32
    chain: Int32
    absolute: bool
    turn_s: Float64 | None = None
    needs: Mapping[str, Sequence[int]] = field(default_factory=dict)
    hidden: Bool | None = None

    def usual_s(self, params: ComputeTimeParams) -> Float64:
        """Return what each rank computes in its better steps, float64[m], in seconds.

        That is the lower quartile. Where fewer of the steps are better, as of a young job, some in a row show it.
        """
        usual_s, chance = robust.quantile_of_rows(self.seconds, 0.25), (params.compute_jitter, params.min_score)
        for row, each_s in enumerate(self.seconds):
            quicker = quickest_run(each_s, usual_s[row], params.reference_steps, *chance)
            if quicker is not None:
                usual_s[row] = robust.median(each_s[quicker])
        return usual_s


def measure_compute_time(
    traffic: Traffic,
    kinds: PairKinds,
    division: Division,
    groups: GroupSet,
    params: ComputeTimeParams,
    needs: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> tuple[ComputeTime, ...]:
    """Measure the compute time of ranks in each possible way, best first.

    Parameters: `needs`, what was found before, see ComputeTime.
    Members of a collective inside a step's operations wait for one another there, and their messages are late together:
    lateness in that collective tells them apart, and compute time between messages only their group from others.
    """
    if division.steps == 0:
        return ()
    role = groups.stage_of(division.endpoints)
    pipelined = bool((kinds.burst == PP).any())
    mates, chain = (
        joined_by(traffic.pair_src[pairs], traffic.pair_dst[pairs], division)
        for pairs in (np.isin(kinds.kind, (EP, CP, TP)), kinds.kind == PP)
    )
    measured = [
        ComputeTime(division.endpoints, role, late_s, mates, chain, absolute=False)
        for kind in (EP, CP, TP, DP)
        if (kinds.burst == kind).any() and not (kind == DP and pipelined)
        for late_s in [_until_taking_part(kinds.of_kind(traffic, kind), division, params)]
    ]
    if pipelined:
        pipeline, found = kinds.of_kind(traffic, PP), dict(needs)
        seconds, turn_s = between_messages(pipeline, division, role, found, params)
        seconds = _without_exchanges(seconds, traffic.take(np.isin(kinds.burst, (EP, CP, TP))), division, params)
        hidden = _ends_of_ring(pipeline, division, role)
        shown = (division.endpoints, role, seconds, mates, chain)
        measured.append(ComputeTime(*shown, absolute=True, turn_s=turn_s, needs=found, hidden=hidden))
    return tuple(measured)


def joined_by(src: Int32, dst: Int32, division: Division) -> Int32:
    """Label the division's endpoints by the set that pairs join them to, int32[m]."""
    first, second = (division.rows_of(side).astype(np.int32) for side in (src, dst))
    return components(len(division.endpoints), first, second)


def _ends_of_ring(pipeline: Traffic, division: Division, role: Int32) -> Bool:
    """Mask the ranks at both ends of a pipeline that wraps round, bool[m].

    Of its chunks of the model, the last does a forward and the first a backward without a message after it.
    """
    stage = [role[division.rows_of(side)] for side in (pipeline.pair_src, pipeline.pair_dst)]
    wraps = bool((np.abs(stage[0] - stage[1]) > 1).any())
    return np.asarray(wraps & ((role == 0) | (role == role.max())))


def _without_exchanges(seconds: Float64, inner: Traffic, division: Division, params: ComputeTimeParams) -> Float64:
    """Take away the time in which each rank exchanges data inside its operations, float64[m, k].

    A slow network lengthens that, and is no slow GPU. Exchanges that are longer than half of the compute time must go
    on in parallel to it, and are not taken away.
    """
    if len(inner) == 0:
        return seconds
    row = np.concatenate([division.rows_of(side) for side in (inner.src, inner.dst)])
    start, end = np.tile(inner.start_ns, 2), np.tile(inner.end_ns, 2)
    step = division.step_of(row, end - 1)
    inside = step < division.steps
    cell = (row * division.steps + step)[inside].astype(np.int32)
    busy_s = intervals.union_length(cell, start[inside], end[inside], seconds.size).reshape(seconds.shape) / 1e9
    in_parallel = robust.median(busy_s / np.where(seconds > 0, seconds, np.nan))
    return seconds - busy_s if in_parallel <= params.half else seconds


def _until_taking_part(collective: Traffic, division: Division, params: ComputeTimeParams) -> Float64:
    """Sum how much later than its peers a rank joins collectives, float64[m, k].

    1. A round is the n-th burst of each pair in the step; a pair takes part in a step where it has as many as usual.
    2. A rank is late in a round by how long after the median of its communicator it first takes part.
    3. Take away the lateness that is carried on from the round before.
    4. In steps without rounds, compare how long ranks move data, see `_by_moving_time`.
    """
    steps = division.steps
    row = division.rows_of(collective.src)
    step = division.step_of(row, collective.end_ns - 1)
    inside = np.flatnonzero(step < steps)
    pair, step, at = collective.pair[inside].astype(np.int64), step[inside], collective.start_ns[inside]
    cell = pair * steps + step  # sorted: bursts of a pair are in order
    starts = run_starts(cell)
    counts = np.diff(np.append(starts, len(cell)))
    usual = _usual_counts(cell[starts] // steps, counts, len(collective.pair_src))
    label = joined_by(collective.pair_src, collective.pair_dst, division)
    order = np.argsort(label, kind="stable")
    joined = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
    kept = np.repeat(counts == usual[cell[starts] // steps], counts)
    place = (np.arange(len(cell)) - np.repeat(starts, counts))[kept]
    touched = np.full((len(division.endpoints), steps, int(usual.max(initial=0))), np.inf)
    sides = [division.rows_of(side) for side in (collective.pair_src, collective.pair_dst)]
    for side in sides:
        np.minimum.at(touched, (side[pair[kept]], step[kept], place), at[kept].astype(np.float64))
    touched[np.isinf(touched)] = np.nan
    late = np.full(touched.shape, np.nan)
    for rows in joined:
        late[rows] = touched[rows] - robust.median(touched[rows], axis=0)[None]
    rounds = _rounds(sides, joined, usual, len(late))
    late[_uneven(sides, rounds, usual), :, 1:] = np.nan
    late = _added(late)
    late_s = np.where((~np.isnan(late)).any(axis=2), np.nansum(late, axis=2), np.nan) / 1e9
    unusual = np.zeros((len(collective.pair_src), steps), dtype=bool)
    unusual.ravel()[cell[starts]] = counts != usual[cell[starts] // steps]
    # Where most pairs have fewer rounds than others of their communicator they always wait, and it is late for good.
    fewer = usual < rounds[sides[0]]
    pairs_of = np.bincount(label[sides[0]], minlength=int(label.max()) + 1)
    waiting = np.bincount(label[sides[0]], weights=fewer, minlength=len(pairs_of))
    for_good = (waiting > params.half * pairs_of) & (waiting >= params.enough)
    unusual[fewer & for_good[label[sides[0]]]] = True
    return _by_moving_time(late_s, collective.take(inside), cell, unusual, joined, sides, params)


def _usual_counts(pair: Int64, counts: Int64, pairs: int) -> Int64:
    """Return the count that each pair most often has, int64[pairs]."""
    width = int(counts.max(initial=0)) + 1
    times = np.bincount(pair * width + counts, minlength=pairs * width).reshape(pairs, width)
    return np.asarray(times.argmax(axis=1))


def _rounds(sides: Sequence[Int64], joined: Sequence[Int64], usual: Int64, members: int) -> Int64:
    """Return the most rounds that a pair of each member's communicator has, int64[m]."""
    rounds = np.zeros(members, dtype=np.int64)
    for side in sides:
        np.maximum.at(rounds, side, usual)
    for rows in joined:
        rounds[rows] = rounds[rows].max()
    return rounds


def _uneven(sides: Sequence[Int64], rounds: Int64, usual: Int64) -> Bool:
    """Mask members with a pair of fewer rounds than their communicator, bool[m].

    Rounds run into one another where a pair waits for a late rank: only the first of them is known.
    """
    uneven = np.zeros(len(rounds), dtype=bool)
    for side in sides:
        uneven[side[usual < rounds[side]]] = True
    return uneven


def _added(late: Float64) -> Float64:
    """Return what each round adds to a rank's lateness, [m, k, rounds].

    Where a round ends for all at once whoever was late begins the next one with the others. Where it does not, as with
    gathers ahead of their use, or in a ring of neighbours, lateness is carried on, and would count again in each round.
    The share that is carried on is how the lateness of most ranks correlates from round to round.
    """
    if late.shape[2] < 2:
        return late
    varies = late - robust.median(late, axis=1)[:, None]
    before, after = varies[:, :, :-1], varies[:, :, 1:]
    both = ~np.isnan(before + after)
    together = np.where(both, before * after, 0).sum(axis=(1, 2))
    alone = np.where(both, before * before, 0).sum(axis=(1, 2))
    carried = robust.median(np.divide(together, alone, out=np.full(len(late), np.nan), where=alone > 0))
    added = late.copy()
    added[:, :, 1:] -= np.clip(np.nan_to_num(carried), 0, 1) * late[:, :, :-1]
    return added


def _by_moving_time(
    late_s: Float64,
    collective: Traffic,
    cell: Int64,
    unusual: Bool,
    joined: Sequence[Int64],
    sides: Sequence[Int64],
    params: ComputeTimeParams,
) -> Float64:
    """Measure lateness in steps without rounds by moving time, float64[m, k].

    Where a pair moves as much as usual in fewer bursts, flows that wait for a late rank run into those of the next
    round, and where it does so in more, a slow rank parts rounds that run together. All of them end together, so
    whoever is late moves for less time by as much.
    Parameters: `late_s` by rounds; `collective`, the bursts in steps, and the `cell` of each (pair x steps + step);
    `unusual` bool[pairs, k], where a pair has more or fewer bursts than usual.
    """
    moved, busy_s = (
        np.bincount(cell, weights=weights, minlength=unusual.size).reshape(unusual.shape)
        for weights in (collective.payload, (collective.end_ns - collective.start_ns) / 1e9)
    )
    all_usual = moved >= (1 - params.same_size) * robust.median(moved, axis=1)[:, None]
    otherwise = unusual & all_usual & (moved > 0)
    busy_s[~all_usual] = np.nan
    by_moving_s, longest = late_s.copy(), np.full(late_s.shape, np.nan)
    without_rounds = np.zeros(late_s.shape, dtype=bool)
    for side in sides:
        np.fmax.at(longest, side, busy_s)
        np.logical_or.at(without_rounds, side, otherwise)
    for rows in joined:
        steps = np.flatnonzero(without_rounds[rows].any(axis=0))
        moving_s = longest[np.ix_(rows, steps)]
        by_moving_s[np.ix_(rows, steps)] = robust.median(moving_s, axis=0) - moving_s
    return by_moving_s


def passes_on_unseen(
    traffic: Traffic, kinds: PairKinds, division: Division, groups: GroupSet, topology: Topology
) -> bool:
    """Whether a pipeline passes on from link to link inside servers.

    Its links never meet then, and a server holds ranks of several stages, of different links. Replicas of one another
    may be laid out like that, but exchange gradients between the servers.
    """
    if (kinds.kind == DP).any():
        return False
    pairs = kinds.kind == PP
    chain = joined_by(traffic.pair_src[pairs], traffic.pair_dst[pairs], division)
    role, server = groups.stage_of(division.endpoints), topology.server[division.endpoints]
    return any(
        len(np.unique(role[server == one])) > 1 and len(np.unique(chain[server == one])) > 1
        for one in np.unique(server).tolist()
    )


def measure_servers(
    traffic: Traffic,
    kinds: PairKinds,
    division: Division,
    groups: GroupSet,
    topology: Topology,
    params: ComputeTimeParams,
    needs: Mapping[str, Sequence[int]],
) -> tuple[ComputeTime, ...]:
    """Measure each rank of an unseen pipeline by the compute time of its server.

    The n-th ranks of all stages of a server are taken for one rank, of a stage of its own: what one of them gets
    another sends on. Parameters and result: see `measure_compute_time`.
    """
    endpoints, role = division.endpoints, groups.stage_of(division.endpoints)
    server = np.unique(topology.server[endpoints], return_inverse=True)[1].astype(np.int32)
    order = order_by(server, role)
    starts = run_starts(server[order], role[order])
    lane = np.empty(len(order), dtype=np.int32)  # the place of each endpoint among those of its role in its server
    lane[order] = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    _, first, rank = np.unique(server * np.int64(len(lane)) + lane, return_index=True, return_inverse=True)
    ranks = np.sort(first)
    row = np.searchsorted(ranks, first[rank])  # of each endpoint, the rank that it is taken for
    seen = kinds.of_kind(traffic, PP)
    src, dst = (endpoints[ranks[row[division.rows_of(end)]]].astype(np.int32) for end in (seen.pair_src, seen.pair_dst))
    end_ns = np.zeros((len(ranks), division.steps), dtype=np.int64)
    np.maximum.at(end_ns, row, division.end_ns)
    whole = replace(division, endpoints=endpoints[ranks], end_ns=end_ns)
    found = dict(needs)
    seconds, _ = between_messages(replace(seen, pair_src=src, pair_dst=dst), whole, server[ranks], found, params)
    return (ComputeTime(endpoints, server, seconds[row], row.astype(np.int32), lane, absolute=True, needs=found),)
