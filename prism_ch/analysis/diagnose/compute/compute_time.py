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
from prism_ch.core.arrays import group_search, order_by, run_starts
from prism_ch.core.graph import components
from prism_ch.core.significance import quickest_runs
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.job import Division, GroupSet, PairKinds
from prism_ch.model.params import ComputeTimeParams
from prism_ch.model.result import CP, DP, EP, PP, TP
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic

#: Kinds of collectives inside a step's operations.
_INNER = (EP, CP, TP)


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
        first = quickest_runs(self.seconds, usual_s, params.reference_steps, *chance)
        rows = np.flatnonzero(first >= 0)
        quicker = first[rows, None] + np.arange(params.reference_steps)
        usual_s[rows] = robust.median(self.seconds[rows[:, None], quicker], axis=1)
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
    # An exchange may share its pairs with gradients, which are more bytes in fewer bursts.
    bursts, inner = (
        np.bincount(traffic.pair, weights, minlength=len(kinds.kind))
        for weights in (None, np.isin(kinds.burst, _INNER))
    )
    mates, chain = (
        joined_by(traffic.pair_src[pairs], traffic.pair_dst[pairs], division)
        for pairs in (inner > params.half * bursts, kinds.kind == PP)
    )
    measured = [
        ComputeTime(division.endpoints, role, late_s, mates, chain, absolute=False)
        for kind in (*_INNER, DP)
        if (kinds.burst == kind).any() and not (kind == DP and pipelined)
        for late_s in [_until_taking_part(kinds.of_kind(traffic, kind), division, params)]
    ]
    if pipelined:
        pipeline, found = kinds.of_kind(traffic, PP), dict(needs)
        seconds, turn_s = between_messages(pipeline, division, role, found, params)
        seconds = _without_exchanges(seconds, traffic.take(np.isin(kinds.burst, _INNER)), division, params)
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

    1. Find the rounds of each communicator, see `_rounds_of`.
    2. A rank is late in a round by how long after the median of its communicator it is ready for it, see `_ready`.
    3. Take away the lateness that is carried on from the round before.
    4. In steps in which most pairs have other rounds, compare how long ranks move data, see `_by_moving_time`.
    """
    steps = division.steps
    step = division.step_of(division.rows_of(collective.src), collective.end_ns - 1)
    inside = np.flatnonzero(step < steps)
    bursts = collective.take(inside)
    sides = [division.rows_of(side) for side in (collective.pair_src, collective.pair_dst)]
    label = joined_by(collective.pair_src, collective.pair_dst, division)
    order = np.argsort(label, kind="stable")
    joined = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
    cell = bursts.pair.astype(np.int64) * steps + step[inside]  # sorted: bursts of a pair are in order
    place, otherwise = _rounds_of(bursts, cell, label[sides[0]], steps, params)
    kept = place >= 0
    size = len(division.endpoints), steps, int(place.max(initial=-1)) + 1
    ends = [side[bursts.pair[kept]] for side in sides]
    ready = _ready(size, ends, step[inside][kept], place[kept], bursts.start_ns[kept].astype(np.float64))
    late = np.full(size, np.nan)
    for rows in joined:
        late[rows] = ready[rows] - robust.median(ready[rows], axis=0)[None]
    late = _added(late, params)
    late_s = np.where((~np.isnan(late)).any(axis=2), np.nansum(late, axis=2), np.nan) / 1e9
    return _by_moving_time(late_s, bursts, cell, otherwise, joined, sides, params)


def _rounds_of(
    bursts: Traffic, cell: Int64, communicator: Int32, steps: int, params: ComputeTimeParams
) -> tuple[Int64, Bool]:
    """Count off the rounds of communicators in each step.

    Returns the round of each burst, int64[n], -1 for none, and which pairs have other rounds, bool[pairs, k].
    Parameters: `bursts` of a collective, in the `cell` int64[n] of their pair and step (pair x steps + step), sorted;
    `communicator` int32[pairs].

    1. A communicator has as many rounds as its busiest pair has bursts in most steps.
    2. The n-th burst of a pair with as many is the n-th round.
    3. Where another message runs into one of them, a pair has fewer: each is of the round in which it goes on.
    The pairs that differ in a step are those with more or fewer bursts where most differ: rounds that
    wait for a late rank run into one another, and then their numbers say nothing.
    """
    pairs, starts = len(communicator), run_starts(cell)
    counts = np.diff(np.append(starts, len(cell)))
    pair, step = np.divmod(cell[starts], steps)
    rounds = np.zeros(int(communicator.max(initial=0)) + 1, dtype=np.int64)
    np.maximum.at(rounds, communicator, _usual_counts(pair, counts, pairs))
    whole = np.zeros((pairs, steps), dtype=bool)
    whole[pair, step] = counts == rounds[communicator[pair]]
    agreed = np.zeros((len(rounds), steps))
    np.add.at(agreed, communicator, whole)
    most = agreed >= params.half * np.bincount(communicator, minlength=len(rounds))[:, None]
    number = np.arange(len(cell)) - np.repeat(starts, counts)
    owner = communicator[bursts.pair].astype(np.int64) * steps + cell % steps
    known = np.repeat(whole[pair, step], counts)
    place = np.where(known, number, _going_on(bursts, owner, number, known))
    return place, ~whole & ~most[communicator]


def _going_on(bursts: Traffic, owner: Int64, number: Int64, known: Bool) -> Int64:
    """Return the round that goes on during each burst, int64[n], -1 for none.

    Parameters: `owner` int64[n], whose rounds; `number` int64[n], those of the `known` bool[n] bursts.
    """
    rounds = int(number.max(initial=0)) + 1
    key, which = np.unique(owner[known] * rounds + number[known], return_inverse=True)
    begin, end = intervals.hull(which, bursts.start_ns[known], bursts.end_ns[known], len(key))
    at = group_search((key // rounds).astype(np.int32), end, owner.astype(np.int32), bursts.start_ns)
    found = np.minimum(at, max(len(key) - 1, 0))
    if len(key) == 0:
        return np.full(len(owner), -1, dtype=np.int64)
    met = (at < len(key)) & (key[found] // rounds == owner) & (bursts.end_ns > begin[found])
    return np.where(met, key[found] % rounds, -1)


def _ready(size: tuple[int, int, int], ends: Sequence[Int64], step: Int64, place: Int64, at: Float64) -> Float64:
    """Return when each rank is ready for each round, float64[m, k, rounds].

    It is in ns, and NaN where the rank has no part in the round.
    Parameters: `ends`, the senders' and the receivers' rows, int64[n] each; `step`, `place` int64[n], the round of each
    burst; `at` float64[n], when it begins.

    Whoever sends is ready. Where transports wait for both sides, whoever is sent to is ready too, and who is not sends
    to nobody. Where they do not, others send to a rank that still computes. What tells: a rank that first sends long
    after it is sent to, to one that has sent for as long, was not ready.
    """
    sent, got, others = (np.full(size, np.inf) for _ in range(3))
    sender, receiver = ends
    np.minimum.at(sent, (sender, step, place), at)
    np.minimum.at(got, (receiver, step, place), at)
    np.minimum.at(others, (sender, step, place), sent[receiver, step, place])
    ready: Float64 = np.minimum(sent, got)
    with np.errstate(invalid="ignore"):
        computed = np.isfinite(sent) & (others - ready < sent - others)
    ready[computed] = sent[computed]
    ready[np.isinf(ready)] = np.nan
    return ready


def _usual_counts(pair: Int64, counts: Int64, pairs: int) -> Int64:
    """Return the count that each pair most often has, int64[pairs]."""
    width = int(counts.max(initial=0)) + 1
    times = np.bincount(pair * width + counts, minlength=pairs * width).reshape(pairs, width)
    return np.asarray(times.argmax(axis=1))


def _added(late: Float64, params: ComputeTimeParams) -> Float64:
    """Return what each round adds to a rank's lateness, [m, k, rounds].

    Where a round ends for all at once whoever was late begins the next one with the others. Where it does not, as with
    gathers ahead of their use, or in a ring of neighbours, lateness is carried on, and would count again in each round.
    The share that is carried on is how the usual lateness of most ranks correlates from round to round: that of a rank
    which is slow for a while comes anew with each.
    """
    if late.shape[2] < 2:
        return late
    varies = late - robust.median(late, axis=1)[:, None]
    usual = params.min_score * robust.mad(varies.reshape(len(late), -1), axis=1)[:, None, None]
    varies = np.clip(varies, -usual, usual)
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
    otherwise: Bool,
    joined: Sequence[Int64],
    sides: Sequence[Int64],
    params: ComputeTimeParams,
) -> Float64:
    """Measure lateness in steps without rounds by moving time, float64[m, k].

    Where a pair moves as much as usual in fewer bursts, flows that wait for a late rank run into those of the next
    round, and where it does so in more, a slow rank parts rounds that run together. All of them end together, so
    whoever is late moves for less time by as much.
    Parameters: `late_s` by rounds; `collective`, the bursts in steps, and the `cell` of each (pair x steps + step);
    `otherwise` bool[pairs, k], where a pair has more or fewer of them than rounds.
    """
    moved, busy_s = (
        np.bincount(cell, weights=weights, minlength=otherwise.size).reshape(otherwise.shape)
        for weights in (collective.payload, (collective.end_ns - collective.start_ns) / 1e9)
    )
    all_usual = moved >= (1 - params.same_size) * robust.median(moved, axis=1)[:, None]
    joined_otherwise = otherwise & all_usual & (moved > 0)
    busy_s[~all_usual] = np.nan
    by_moving_s, longest = late_s.copy(), np.full(late_s.shape, np.nan)
    without_rounds = np.zeros(late_s.shape, dtype=bool)
    for side in sides:
        np.fmax.at(longest, side, busy_s)
        np.logical_or.at(without_rounds, side, joined_otherwise)
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
