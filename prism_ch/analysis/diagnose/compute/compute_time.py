"""Work: how long each rank computes in each step, less what it waits for others, as its messages show.

In synchronous training everybody slows together, and the one that makes the others wait is the one that does not wait.

- In a pipeline a rank computes from when its input is there, and it is free, until it sends its output.
- In a collective a rank is late by how long after its peers it first takes part: nobody sends to or is sent to by a
  rank that still computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType

import numpy as np

from prism_ch.core import intervals, robust
from prism_ch.core.arrays import order_by, run_starts
from prism_ch.core.graph import components
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.job import Division, GroupSet, PairKinds
from prism_ch.model.params import ComputeTimeParams
from prism_ch.model.result import CP, DP, EP, PP, TP
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class ComputeTime:
    """Seconds of work of each rank in each step, `seconds` float64[m, k], NaN where it can't be told.

    `endpoints` int32[m] and their `role` int32[m], the pipeline stage: ranks of a role do the same work.
    `mates` int32[m] joins ranks that wait for one another inside a step's operations: those of one tensor, expert or
    context group; `chain` int32[m], those of one pipeline. `absolute` says that the seconds are those of the rank
    itself, whatever its peers do; else only the differences between peers mean something. `turn_s` float64[m, k], where
    there is one, is the work of ranks whose n-th output is made of their n-th input: that of different stages compares
    too, and is NaN of a first stage.
    `needs` are the inputs that outputs were found to wait for: by "stage>to<from", of each output in order the number
    of the last input that it can't do without, -1 for none. `hidden` bool[m], where there is one, are ranks that do
    something that no message follows, which may pass for waiting: how long they work says less than how it changes.
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

    def usual_s(self) -> Float64:
        """Return what each rank works in its better steps, float64[m]: a quarter of them shows what is usual."""
        return robust.quantile_of_rows(self.seconds, 0.25)


def measure_compute_time(
    traffic: Traffic,
    kinds: PairKinds,
    division: Division,
    groups: GroupSet,
    params: ComputeTimeParams,
    needs: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> tuple[ComputeTime, ...]:
    """Measure the work of a job's ranks in each step of a division, in each way that its traffic allows, best first.

    Parameters: `needs`, what was found before of what a pipeline's outputs wait for.
    Members of a collective inside a step's operations wait for one another there, and their messages are late together:
    lateness in that collective tells them apart, and work between messages only their group from others.
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
        ComputeTime(
            division.endpoints,
            role,
            _until_taking_part(kinds.of_kind(traffic, kind), division, params),
            mates,
            chain,
            absolute=False,
        )
        for kind in (EP, CP, TP, DP)
        if (kinds.burst == kind).any() and not (kind == DP and pipelined)
    ]
    if pipelined:
        needs = dict(needs)
        seconds, turn_s = between_messages(kinds.of_kind(traffic, PP), division, role, needs, params)
        seconds = _without_exchanges(seconds, traffic.take(np.isin(kinds.burst, (EP, CP, TP))), division, params)
        hidden = _ends_of_ring(kinds.of_kind(traffic, PP), division, role)
        measured.append(
            ComputeTime(
                division.endpoints,
                role,
                seconds,
                mates,
                chain,
                absolute=True,
                turn_s=turn_s,
                needs=needs,
                hidden=hidden,
            )
        )
    return tuple(measured)


def _ends_of_ring(pipeline: Traffic, division: Division, role: Int32) -> Bool:
    """Mask the ranks of the first and the last stage of a pipeline that wraps round, bool[m].

    Of its chunks of the model, the last does a forward and the first a backward without a message after it.
    """
    stage = [role[np.searchsorted(division.endpoints, side)] for side in (pipeline.pair_src, pipeline.pair_dst)]
    wraps = bool((np.abs(stage[0] - stage[1]) > 1).any())
    return np.asarray(wraps & ((role == 0) | (role == role.max())))


def between_messages(
    pipeline: Traffic, division: Division, role: Int32, needs: dict[str, Sequence[int]], params: ComputeTimeParams
) -> tuple[Float64, Float64]:
    """Sum the time from when a rank was free, and had its input, to each of its outputs: float64[m, k].

    By the inputs that outputs can't do without, and by those that come in the same turn. Parameters: `needs`, of which
    inputs that is known; what is found now is added.
    """
    sent = _messages(pipeline.src, pipeline.dst, pipeline.start_ns, division, role)
    received = _messages(pipeline.dst, pipeline.src, pipeline.end_ns, division, role)
    seconds, turn_s = (np.full(division.end_ns.shape, np.nan) for _ in range(2))
    begin = np.concatenate([division.end_ns[:, :1] * 0, division.end_ns[:, :-1]], axis=1)
    for stage in np.unique(role).tolist():
        rows = np.flatnonzero(role == stage)
        keys = [key for key in sorted(sent) if key[0] == stage]
        outs = [sent[key].of(rows) for key in keys]
        ins = [(key[1], received[key].of(rows)) for key in sorted(received) if key[0] == stage]
        if not outs:
            continue
        total = np.zeros((len(rows), division.steps))
        # Ranks of a role agree on their gradients before any of them goes on, be it inside their server, unseen.
        free = _free(outs, np.broadcast_to(begin[rows].max(axis=0), (len(rows), division.steps)))
        least_ns = params.half * _operation_ns(outs)
        for (_, to), out, idle in zip(keys, outs, free, strict=True):
            known = [idle]
            for source, arrived in ins:
                way = f"{stage}>{to}<{source}"
                waits_for = _needs(out - least_ns, arrived, needs.get(way, ()), params)
                needs[way] = waits_for or needs.get(way, [])
                known.append(_last_needed(arrived, waits_for, out.shape[2]))
            total += np.maximum(out - np.maximum.reduce(known), 0).sum(axis=2)
        seconds[rows] = total / 1e9
        fed = [_in_turn(key, sent, received) for key in keys]
        if all(arrived is not None for arrived in fed):
            since = [np.maximum(idle, each.of(rows)) for idle, each in zip(free, fed, strict=True) if each is not None]
            turn_s[rows] = sum(np.maximum(out - at, 0).sum(axis=2) for out, at in zip(outs, since, strict=True)) / 1e9
    seconds[:, 0] = turn_s[:, 0] = np.nan  # where the first step began is not known
    return seconds, turn_s


def _in_turn(
    key: tuple[int, int], sent: dict[tuple[int, int], _Messages], received: dict[tuple[int, int], _Messages]
) -> _Messages | None:
    """Return the inputs of which the outputs of a link (own stage, other stage) are made one by one; None without.

    What goes on comes from the other side, and a last stage answers what it gets. A first stage begins with what no
    message brings; and of a pipeline that wraps round, or sends more than it gets, turns are not known.
    """
    stage, other = key
    away = 2 * stage - other
    fed = received.get((stage, away))
    if fed is None and other < stage and not any(mine == stage and far > stage for mine, far in received):
        fed = received.get(key)
    steady = abs(stage - other) == 1 and fed is not None and fed.ns.shape == sent[key].ns.shape
    return fed if steady else None


def _without_exchanges(seconds: Float64, inner: Traffic, division: Division, params: ComputeTimeParams) -> Float64:
    """Take from the work of each rank the time in which it exchanges data inside its operations, float64[m, k].

    A slow network lengthens that, and is no slow GPU. Where so much is exchanged that it must go on beside the work,
    nothing is taken.
    """
    if len(inner) == 0:
        return seconds
    row = np.concatenate([np.searchsorted(division.endpoints, side) for side in (inner.src, inner.dst)])
    start, end = np.tile(inner.start_ns, 2), np.tile(inner.end_ns, 2)
    step = step_of(row, end - 1, division)
    inside = step < division.steps
    cell = (row * division.steps + step)[inside].astype(np.int32)
    busy_s = intervals.union_length(cell, start[inside], end[inside], seconds.size).reshape(seconds.shape) / 1e9
    beside = robust.median(busy_s / np.where(seconds > 0, seconds, np.nan))
    return seconds - busy_s if beside <= params.half else seconds


@dataclass(frozen=True, slots=True)
class _Messages:
    """Moments of messages between two stages: `ns` float64[m, k, n], NaN where a step has not the usual n of them."""

    ns: Float64

    def of(self, rows: Int64) -> Float64:
        """Return those of some ranks."""
        return self.ns[rows]


def _messages(
    mine: Int32, other: Int32, at_ns: Int64, division: Division, role: Int32
) -> dict[tuple[int, int], _Messages]:
    """Return the moments of each rank's messages by (own stage, other stage), in order in each step."""
    row, far = (np.searchsorted(division.endpoints, side) for side in (mine, other))
    step = step_of(row, at_ns, division)
    inside = step < division.steps
    row, far, step, at = row[inside], far[inside], step[inside], at_ns[inside]
    found = {}
    span = int(role.max(initial=0)) + 1
    code = role[row].astype(np.int64) * span + role[far]
    order = order_by(code, row, step, at)
    code, row, step, at = code[order], row[order], step[order], at[order]
    edges = np.append(run_starts(code), len(code)).tolist()
    for low, high in pairwise(edges):
        key = int(code[low])
        cell = row[low:high] * division.steps + step[low:high]
        starts = run_starts(cell)
        counts = np.diff(np.append(starts, len(cell)))
        usual = int(np.bincount(counts).argmax())
        place = np.arange(len(cell)) - np.repeat(starts, counts)
        kept = np.repeat(counts == usual, counts)
        ns = np.full((len(division.endpoints) * division.steps, usual), np.nan)
        ns[cell[kept], place[kept]] = at[low:high][kept]
        found[key // span, key % span] = _Messages(ns.reshape(len(division.endpoints), division.steps, usual))
    return found


def step_of(row: Int64, at_ns: Int64, division: Division) -> Int64:
    """Return the step, by the endpoint's own count, in which each moment lies; `division.steps` past the last."""
    first = min(int(division.end_ns.min()), int(at_ns.min(initial=np.iinfo(np.int64).max)))
    span = max(int(division.end_ns.max()), int(at_ns.max(initial=0))) - first + 1
    lines = np.arange(len(division.endpoints))[:, None]
    flat = (lines * span + (division.end_ns - first)).ravel()
    found: Int64 = np.searchsorted(flat, row * span + (at_ns - first)) - row * division.steps
    return found


def _free(outs: list[Float64], begin_ns: Int64) -> list[Float64]:
    """Return when the rank was free to work for each output: at the output before it, or as its step began."""
    together = np.concatenate(outs, axis=2)
    order = np.argsort(together, axis=2, kind="stable")  # NaN last
    ordered = np.take_along_axis(together, order, axis=2)
    before = np.concatenate([begin_ns[:, :, None].astype(np.float64), ordered[:, :, :-1]], axis=2)
    since = np.empty_like(together)
    np.put_along_axis(since, order, before, axis=2)
    return np.split(since, np.cumsum([out.shape[2] for out in outs])[:-1], axis=2)


def _operation_ns(outs: list[Float64]) -> float:
    """Return how long the shorter operations of a role take: what outputs usually are apart, at the least."""
    apart = np.diff(np.sort(np.concatenate(outs, axis=2), axis=2), axis=2)
    return float(np.nan_to_num(robust.quantile_by(np.zeros(apart.size, dtype=np.int32), apart.ravel(), 0.25, 1)[0]))


def _needs(out: Float64, arrived: Float64, before: Sequence[int], params: ComputeTimeParams) -> list[int]:
    """Return, for each output, the number of the last input that it can't do without, -1 where it needs none.

    A schedule is the same in every step and on every replica: an output can't do without those inputs that have always
    come before it, and of these it waits for the last. What is late for long lets others come before it that it does
    not wait for: what was found `before` of as many outputs tells those. Empty where no step shows both.
    """
    known = ~np.isnan(out[:, :, 0] + arrived[:, :, 0])
    if not known.any():
        return []
    found, sent, come = [], out[known].T, arrived[known].T
    last = -1  # both are in order: an output needs what the one before it needed, and perhaps more
    for place in range(len(sent)):
        while last + 1 < len(come) and np.mean(come[last + 1] <= sent[place]) >= params.causal_share:
            last += 1
        found.append(last)
    if len(found) == len(before):
        return [min(now, then) for now, then in zip(found, before, strict=True)]
    return found


def _last_needed(arrived: Float64, needs: Sequence[int], outputs: int) -> Float64:
    """Return when the last input that each output needs arrived, [rows, k, outputs]; -inf where it needs none."""
    found = np.full((*arrived.shape[:2], outputs), -np.inf)
    for place, last in enumerate(needs):
        if last >= 0:
            found[:, :, place] = arrived[:, :, last]
    return found


def _until_taking_part(collective: Traffic, division: Division, params: ComputeTimeParams) -> Float64:
    """Sum how much later than its peers a rank takes part in each round of a step's collectives: float64[m, k].

    A round is the n-th burst of each pair in the step; a pair takes part in a step where it has as many as usual. Where
    one moves as much as usual in fewer bursts, flows that wait for a late rank run into those of the next round, and
    where it does so in more, rounds that run together are parted by a rank that is slow: no round of the communicator
    can be told in that step. All of them end together, so whoever is late moves for less time by as much.
    """
    steps = division.steps
    row = np.searchsorted(division.endpoints, collective.src)
    step = step_of(row, collective.end_ns - 1, division)
    inside = np.flatnonzero(step < steps)
    pair, step, at = collective.pair[inside].astype(np.int64), step[inside], collective.start_ns[inside]
    cell = pair * steps + step  # sorted: bursts of a pair are in order
    starts = run_starts(cell)
    counts = np.diff(np.append(starts, len(cell)))
    usual = _usual_counts(cell[starts] // steps, counts, len(collective.pair_src))
    joined = _communicators(collective, division)
    kept = np.repeat(counts == usual[cell[starts] // steps], counts)
    place = (np.arange(len(cell)) - np.repeat(starts, counts))[kept]
    rounds = int(usual.max(initial=0))
    touched = np.full((len(division.endpoints), steps, rounds), np.inf)
    for side in (collective.pair_src, collective.pair_dst):
        member = np.searchsorted(division.endpoints, side[pair[kept]])
        np.minimum.at(touched, (member, step[kept], place), at[kept].astype(np.float64))
    touched[np.isinf(touched)] = np.nan
    late = np.full(touched.shape, np.nan)
    for rows in joined:
        late[rows] = touched[rows] - robust.median(touched[rows], axis=0)[None]
    late[_uneven(collective, division, joined, usual)] = np.nan
    late = _added(late)
    seen = ~np.isnan(late)
    late_s = np.where(seen.any(axis=2), np.nansum(late, axis=2), np.nan) / 1e9
    unusual = np.zeros((len(collective.pair_src), steps), dtype=bool)
    unusual.ravel()[cell[starts]] = counts != usual[cell[starts] // steps]
    return _where_told(late_s, collective.take(inside), cell, unusual, joined, division, params)


def _added(late: Float64) -> Float64:
    """Return by how much each round adds to the lateness of a rank, of `late`'s shape [m, k, rounds].

    Where a round ends for all at once whoever was late begins the next one with the others. Where it does not, as with
    gathers ahead of their use, or in a ring of neighbours, lateness is carried on, and would count again in each round.
    How much of it is, the lateness of most ranks shows as it varies from step to step.
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


def _where_told(
    late_s: Float64,
    collective: Traffic,
    cell: Int64,
    unusual: Bool,
    joined: list[Int64],
    division: Division,
    params: ComputeTimeParams,
) -> Float64:
    """Tell lateness by how long ranks move data, in the steps in which rounds can't be, float64[m, k].

    Parameters: `late_s` by rounds; `collective`, the bursts in steps, and the `cell` of each (pair x steps + step);
    `unusual` bool[pairs, k], where a pair has more or fewer bursts than usual.
    """
    shape = unusual.shape
    moved, busy_s = (
        np.bincount(cell, weights=weights, minlength=unusual.size).reshape(shape)
        for weights in (collective.payload, (collective.end_ns - collective.start_ns) / 1e9)
    )
    all_usual = moved >= (1 - params.same_size) * robust.median(moved, axis=1)[:, None]
    otherwise = unusual & all_usual & (moved > 0)
    busy_s[~all_usual] = np.nan
    told = late_s.copy()
    longest = np.full(late_s.shape, np.nan)
    untold = np.zeros(late_s.shape, dtype=bool)
    for side in (collective.pair_src, collective.pair_dst):
        member = np.searchsorted(division.endpoints, side)
        np.fmax.at(longest, member, busy_s)
        np.logical_or.at(untold, member, otherwise)
    for rows in joined:
        steps = np.flatnonzero(untold[rows].any(axis=0))
        moving_s = longest[np.ix_(rows, steps)]
        told[np.ix_(rows, steps)] = robust.median(moving_s, axis=0) - moving_s
    return told


def _uneven(collective: Traffic, division: Division, joined: list[Int64], usual: Int64) -> Bool:
    """Mask the endpoints with a pair of fewer rounds than its communicator has, bool[m]: bursts ran together there."""
    rounds = np.zeros(len(division.endpoints), dtype=np.int64)
    sides = [np.searchsorted(division.endpoints, side) for side in (collective.pair_src, collective.pair_dst)]
    for side in sides:
        np.maximum.at(rounds, side, usual)
    for rows in joined:
        rounds[rows] = rounds[rows].max()
    uneven = np.zeros(len(division.endpoints), dtype=bool)
    for side in sides:
        uneven[side[usual < rounds[side]]] = True
    return uneven


def _communicators(collective: Traffic, division: Division) -> list[Int64]:
    """List the rows of the division's endpoints that are joined by a collective, a list a communicator."""
    label = joined_by(collective.pair_src, collective.pair_dst, division)
    order = np.argsort(label, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(label[order])) + 1)


def joined_by(src: Int32, dst: Int32, division: Division) -> Int32:
    """Label the division's endpoints by the set that pairs join them to, int32[m]."""
    first, second = (np.searchsorted(division.endpoints, side).astype(np.int32) for side in (src, dst))
    return components(len(division.endpoints), first, second)


def _usual_counts(pair: Int64, counts: Int64, pairs: int) -> Int64:
    """Return the count that each pair most often has, int64[pairs]."""
    width = int(counts.max(initial=0)) + 1
    times = np.bincount(pair * width + counts, minlength=pairs * width).reshape(pairs, width)
    return np.asarray(times.argmax(axis=1))
