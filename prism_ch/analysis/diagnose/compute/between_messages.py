"""Compute time in pipelines: from when a rank has its input, and is free, until it sends its output."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from prism_ch.analysis.roles.units import by_unit, compute_together
from prism_ch.core import robust
from prism_ch.core.arrays import order_by, run_lengths, run_places, run_starts
from prism_ch.core.significance import better_of_rows
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.job import Division
from prism_ch.model.params import ComputeTimeParams
from prism_ch.model.traffic import Traffic

#: Moments of each rank's messages by (own stage, other stage), float64[m, k, n], in order in each step.
_Messages: TypeAlias = dict[tuple[int, int], Float64]


def between_messages(
    pipeline: Traffic,
    division: Division,
    role: Int32,
    of_server: Int32,
    needs: dict[str, Sequence[int]],
    params: ComputeTimeParams,
) -> tuple[Float64, Float64]:
    """Sum the seconds from when a rank can compute to each of its outputs.

    Returns two float64[m, k], NaN where nothing is known: by the inputs that outputs need, and by those of the same
    turn. Parameters: `role` int32[m], the pipeline stage; `of_server` int32[m], equal for ranks of one server and role,
    which may compute as one; `needs`, see ComputeTime; what is found now is added.

    1. List the moments of outputs and inputs by link, in each step. Ranks that compute as one begin with the last input
       of any.
    2. Find since when a rank was free for each output: at its output before, or as the step began.
    3. Find the inputs that each output needs, and sum the time since the last of them, or since the rank was free.
    """
    src, dst = (division.rows_of(side)[pipeline.pair] for side in (pipeline.pair_src, pipeline.pair_dst))
    sent, _ = _messages(src, dst, pipeline.start_ns, None, division, role)
    received, joined = _messages(dst, src, pipeline.end_ns, pipeline.payload, division, role)
    if sent:
        first = np.fmin.reduce([at[:, :, 0] for at in sent.values()])
        near_ns = params.near_ns + int(pipeline.pair_blur_ns.max(initial=0))
        alone = np.arange(len(role), dtype=np.int32)
        unit = compute_together(first[:, 1:], of_server.astype(np.int64), alone, near_ns)
        received = {key: _of_units(at, joined[key], unit) for key, at in received.items()}
    seconds, turn_s = (np.full(division.end_ns.shape, np.nan) for _ in range(2))
    begin = np.concatenate([division.end_ns[:, :1] * 0, division.end_ns[:, :-1]], axis=1)
    for stage in np.unique(role).tolist():
        rows = np.flatnonzero(role == stage)
        keys = [key for key in sorted(sent) if key[0] == stage]
        outs = [sent[key][rows] for key in keys]
        ins = [(key[1], received[key][rows]) for key in sorted(received) if key[0] == stage]
        if not outs:
            continue
        total = np.zeros((len(rows), division.steps))
        # Ranks of a role agree on their gradients before any of them goes on, be it inside their server, unseen.
        free = _free_since(outs, np.broadcast_to(begin[rows].max(axis=0), (len(rows), division.steps)))
        least_ns = params.half * operation_ns(outs, params)
        for (_, to), out, idle in zip(keys, outs, free, strict=True):
            known = [idle]
            for source, arrived in ins:
                way = f"{stage}>{to}<{source}"
                waits_for = find_needs(out - least_ns, arrived, needs.get(way, ()), params)
                needs[way] = waits_for or needs.get(way, [])
                known.append(_last_needed(arrived, waits_for, out.shape[2]))
            total += np.maximum(out - np.maximum.reduce(known), 0).sum(axis=2)
        seconds[rows] = total / 1e9
        fed = [each for key in keys if (each := _in_turn(key, sent, received)) is not None]
        if len(fed) == len(keys):
            since = [np.maximum(idle, each[rows]) for idle, each in zip(free, fed, strict=True)]
            turn_s[rows] = sum(np.maximum(out - at, 0).sum(axis=2) for out, at in zip(outs, since, strict=True)) / 1e9
    seconds[:, 0] = turn_s[:, 0] = np.nan  # where the first step began is not known
    return seconds, turn_s


def _messages(
    row: Int64, far: Int64, at_ns: Int64, payload: Int64 | None, division: Division, role: Int32
) -> tuple[_Messages, dict[tuple[int, int], Bool]]:
    """List the moments of messages, NaN in steps with an unusual number.

    Parameters: `row`, `far` int64[n], the ranks at either end, of which `row` has them at `at_ns` int64[n].
    Returns also by link in which steps messages run into one another, bool[m, k]: there are fewer of as many bytes.
    Without their `payload` int64[n] nothing shows that.
    """
    step = division.step_of(row, at_ns)
    inside = step < division.steps
    row, far, step, at = row[inside], far[inside], step[inside], at_ns[inside]
    found: _Messages = {}
    joined: dict[tuple[int, int], Bool] = {}
    span = int(role.max(initial=0)) + 1
    code = role[row].astype(np.int64) * span + role[far]
    order = order_by(code, row, step, at)
    code, row, step, at = code[order], row[order], step[order], at[order]
    moved = None if payload is None else payload[inside][order].astype(np.float64)
    for low, high in pairwise(np.append(run_starts(code), len(code)).tolist()):
        key = int(code[low])
        cell = row[low:high] * division.steps + step[low:high]
        starts = run_starts(cell)
        counts = run_lengths(starts, len(cell))
        usual = int(np.bincount(counts).argmax())
        place = run_places(starts, len(cell))
        kept = np.repeat(counts == usual, counts)
        ns = np.full((len(division.endpoints) * division.steps, usual), np.nan)
        ns[cell[kept], place[kept]] = at[low:high][kept]
        link, shape = (key // span, key % span), (len(division.endpoints), division.steps)
        found[link] = ns.reshape(*shape, usual)
        if moved is not None:
            together = _run_together(counts, np.add.reduceat(moved[low:high], starts), usual)
            joined[link] = np.zeros(shape, dtype=np.bool_)
            np.put(joined[link], cell[starts[together]], v=True)
    return found, joined


def _run_together(counts: Int64, moved: Float64, usual: int) -> Int64:
    """Return the rows with fewer messages than usual, and as many bytes.

    Parameters: `counts` int64[n] of messages and the bytes that they `moved` float64[n].
    """
    whole = float(robust.median(moved[counts == usual]))
    return np.flatnonzero((counts < usual) & (moved > (1 - 1 / (2 * usual)) * whole))


def _of_units(at: Float64, joined: Bool, unit: Int32) -> Float64:
    """Return when each rank's unit has the inputs of a link, float64[m, k, n].

    It is NaN where that is not known. What one rank lost others show. Parameters: `at`, by rank, and `joined`
    bool[m, k], where some of them run into one another; `unit` int32[m].
    """
    _, latest = by_unit(at, np.arange(len(unit)), unit, latest=True)
    hidden = np.zeros(latest.shape[:2], dtype=np.bool_)
    np.logical_or.at(hidden, unit, joined)
    latest[hidden] = np.nan
    never = np.asarray(np.isnan(at).all(axis=(1, 2)))
    return np.where(never[:, None, None], np.nan, latest[unit])


def _free_since(outs: list[Float64], begin_ns: Int64) -> list[Float64]:
    """Return since when the rank was free for each output."""
    together = np.concatenate(outs, axis=2)
    order = np.argsort(together, axis=2, kind="stable")  # NaN last
    ordered = np.take_along_axis(together, order, axis=2)
    before = np.concatenate([begin_ns[:, :, None].astype(np.float64), ordered[:, :, :-1]], axis=2)
    since = np.empty_like(together)
    np.put_along_axis(since, order, before, axis=2)
    return np.split(since, np.cumsum([out.shape[2] for out in outs])[:-1], axis=2)


def operation_ns(outs: list[Float64], params: ComputeTimeParams) -> float:
    """Return the lower quartile of times between outputs, in the better steps.

    Where a stage is slow, those that follow it wait before most of theirs.
    """
    apart = np.diff(np.sort(np.concatenate(outs, axis=2), axis=2), axis=2)
    of_steps = robust.quantile_of_rows(np.moveaxis(apart, 1, 0).reshape(apart.shape[1], -1), 0.25)
    better = better_of_rows(of_steps[None], params.reference_steps, params.compute_jitter, params.min_score)
    return float(robust.known_or(better[0]))


def find_needs(out: Float64, arrived: Float64, before: Sequence[int], params: ComputeTimeParams) -> list[int]:
    """Return the last input that each output needs, -1 for none.

    A schedule is the same in every step and on every replica: an output needs those inputs that have always come before
    it. When an output is late for long, inputs come before it that it does not wait for: what was found `before` of the
    same number of outputs rules those out. Empty where no step shows both.
    """
    known = ~np.isnan(out[:, :, 0] + arrived[:, :, 0])
    if not known.any():
        return []
    found, sent, come = [], np.ascontiguousarray(out[known].T), np.ascontiguousarray(arrived[known].T)
    count = sent.shape[1]
    last = -1  # both are in order: an output needs what the one before it needed, and perhaps more
    for place in range(len(sent)):
        while last + 1 < len(come) and np.count_nonzero(come[last + 1] <= sent[place]) / count >= params.causal_share:
            last += 1
        found.append(last)
    if len(found) == len(before):
        return [min(now, then) for now, then in zip(found, before, strict=True)]
    return found


def _last_needed(arrived: Float64, needs: Sequence[int], outputs: int) -> Float64:
    """Return when each output's last needed input arrived, [rows, k, outputs], -inf for none."""
    found = np.full((*arrived.shape[:2], outputs), -np.inf)
    for place, last in enumerate(needs):
        if last >= 0:
            found[:, :, place] = arrived[:, :, last]
    return found


def _in_turn(key: tuple[int, int], sent: _Messages, received: _Messages) -> Float64 | None:
    """Pair each output of a link with the input it was computed from.

    What goes on comes from the other side, and a last stage answers what it gets. Returns the moments of the inputs,
    None if the pairing is unknown: first stage, pipeline that wraps round, unequal counts.
    """
    stage, other = key
    fed = received.get((stage, 2 * stage - other))
    if fed is None and other < stage and not any(mine == stage and far > stage for mine, far in received):
        fed = received.get(key)
    steady = abs(stage - other) == 1 and fed is not None and fed.shape == sent[key].shape
    return fed if steady else None
