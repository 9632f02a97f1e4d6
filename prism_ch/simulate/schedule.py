"""Pipeline schedules as static programs: which stage does what in which order, and which message feeds which operation.

Sources: GPipe (Huang et al. 2019, section 2.3), 1F1B and its interleaved form (Narayanan et al. 2021, section 2.2),
ZB-H1 (Qi et al. 2024, section 2.1: the backward is split, weight gradients fill the bubble).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from prism_ch.errors import UsageError
from prism_ch.model.columns import Int64
from prism_ch.simulate.workload import Pipeline, Schedule

FORWARD, BACKWARD, WEIGHT = range(3)


class Operation(NamedTuple):
    """One piece of a stage's computing; `kind` is FORWARD, BACKWARD (towards the input) or WEIGHT (of the weights)."""

    kind: int
    microbatch: int
    chunk: int


@dataclass(frozen=True, slots=True)
class Program:
    """A step of a whole pipeline, sorted by level, so that every operation depends on earlier levels only.

    One row an operation: `stage`, `kind`, `microbatch`, `chunk`; `incoming` and `outgoing` are messages (rows below)
    or -1. One row a message: `sender` and `receiver` are operations. `levels` bounds the operations of each level,
    `sends` the messages that they send. A level has at most one operation of a stage.
    """

    stage: Int64
    kind: Int64
    microbatch: Int64
    chunk: Int64
    incoming: Int64
    outgoing: Int64
    sender: Int64
    receiver: Int64
    levels: tuple[tuple[int, int], ...]
    sends: tuple[tuple[int, int], ...]


def one_f_one_b(stages: int, microbatches: int, stage: int) -> list[Operation]:
    """Warm up with as many forwards as there are stages behind, then alternate, then drain."""
    warm = min(stages - stage - 1, microbatches)
    order = [Operation(FORWARD, m, 0) for m in range(warm)]
    for m in range(microbatches - warm):
        order += [Operation(FORWARD, warm + m, 0), Operation(BACKWARD, m, 0)]
    return order + [Operation(BACKWARD, m, 0) for m in range(microbatches - warm, microbatches)]


def gpipe(microbatches: int) -> list[Operation]:
    """All forwards, then all backwards in reverse."""
    forwards = [Operation(FORWARD, m, 0) for m in range(microbatches)]
    return forwards + [Operation(BACKWARD, m, 0) for m in reversed(range(microbatches))]


def interleaved(stages: int, microbatches: int, chunks: int, stage: int) -> list[Operation]:
    """1F1B over virtual stages: rounds of `stages` microbatches visit the chunks in turn (backwards: last first)."""
    total = microbatches * chunks

    def virtual(k: int, *, backward: bool) -> tuple[int, int]:
        chunk = k // stages % chunks
        microbatch = k // (stages * chunks) * stages + k % stages
        return microbatch, (chunks - 1 - chunk if backward else chunk)

    warm = min((stages - stage - 1) * 2 + (chunks - 1) * stages, total)
    order = [Operation(FORWARD, *virtual(k, backward=False)) for k in range(warm)]
    for k in range(total - warm):
        order.append(Operation(FORWARD, *virtual(warm + k, backward=False)))
        order.append(Operation(BACKWARD, *virtual(k, backward=True)))
    return order + [Operation(BACKWARD, *virtual(k, backward=True)) for k in range(total - warm, total)]


def zero_bubble(stages: int, microbatches: int) -> list[list[Operation]]:
    """ZB-H1 as a race of equal operations: input gradients first, forwards within 1F1B's memory, weights in gaps."""
    orders: list[list[Operation]] = [[] for _ in range(stages)]
    done: dict[tuple[int, int, int], int] = {}
    counts = np.zeros((stages, 3), dtype=int)
    tick = 0
    while counts[:, WEIGHT].min() < microbatches:
        for stage in range(stages):
            forward, backward, weight = (int(n) for n in counts[stage])
            from_above = done.get((stage + 1, BACKWARD, backward), tick) if stage < stages - 1 else -1
            from_below = done.get((stage - 1, FORWARD, forward), tick) if stage else -1
            if backward < forward and from_above < tick:
                kind, microbatch = BACKWARD, backward
            elif forward < microbatches and forward - weight < stages and from_below < tick:
                kind, microbatch = FORWARD, forward
            elif weight < backward:
                kind, microbatch = WEIGHT, weight
            else:
                continue
            orders[stage].append(Operation(kind, microbatch, 0))
            counts[stage, kind] += 1
            done[stage, kind, microbatch] = tick
        tick += 1
    return orders


def stage_orders(schedule: Schedule, stages: int, microbatches: int, chunks: int) -> list[list[Operation]]:
    """Return each stage's operations in the order it does them. Raises UsageError where the schedule does not fit."""
    if schedule == "zero-bubble":
        return zero_bubble(stages, microbatches)
    if schedule == "interleaved" and stages > 1:
        if microbatches % stages:
            raise UsageError(
                f"the interleaved schedule needs microbatches in multiples of {stages}, not {microbatches}"
            )
        return [interleaved(stages, microbatches, chunks, stage) for stage in range(stages)]
    if schedule == "gpipe" and stages > 1:
        return [gpipe(microbatches) for _ in range(stages)]
    return [one_f_one_b(stages, microbatches, stage) for stage in range(stages)]


def compile_program(pipeline: Pipeline, stages: int, *, forward_only: bool = False) -> Program:
    """Turn a schedule into a program: assign levels, order operations by them, number the messages in sending order.

    `forward_only` leaves out the backward, as an evaluation does.
    """
    orders = stage_orders(pipeline.schedule, stages, pipeline.microbatches, pipeline.chunks)
    if forward_only:
        orders = [[operation for operation in order if operation.kind == FORWARD] for order in orders]
    level: dict[tuple[int, Operation], int] = dict(_levels(orders, stages, pipeline.chunks))
    ranked = sorted(level, key=lambda key: (level[key], key[0]))
    row_of = {key: row for row, key in enumerate(ranked)}
    columns = np.array([(stage, *operation) for stage, operation in ranked], dtype=np.int64).T
    senders: list[int] = []
    receivers: list[int] = []
    for stage, operation in ranked:
        target = _consumer(stage, operation, stages, pipeline.chunks)
        if target is not None and target[0] != stage:
            senders.append(row_of[stage, operation])
            receivers.append(row_of[target])
    incoming = np.full(len(ranked), -1, dtype=np.int64)
    outgoing = np.full(len(ranked), -1, dtype=np.int64)
    incoming[receivers] = np.arange(len(receivers))
    outgoing[senders] = np.arange(len(senders))
    bounds = np.searchsorted([level[key] for key in ranked], np.arange(max(level.values()) + 2))
    messages = np.searchsorted(senders, bounds)
    return Program(
        stage=columns[0],
        kind=columns[1],
        microbatch=columns[2],
        chunk=columns[3],
        incoming=incoming,
        outgoing=outgoing,
        sender=np.array(senders, dtype=np.int64),
        receiver=np.array(receivers, dtype=np.int64),
        levels=tuple(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)),
        sends=tuple(zip(messages[:-1].tolist(), messages[1:].tolist(), strict=True)),
    )


def _consumer(stage: int, operation: Operation, stages: int, chunks: int) -> tuple[int, Operation] | None:
    """Return the operation that waits for this one's output, None where the result stays (or the loss is reached)."""
    kind, microbatch, chunk = operation
    if kind == FORWARD:
        if stage < stages - 1:
            return stage + 1, operation
        return (0, Operation(kind, microbatch, chunk + 1)) if chunk < chunks - 1 else None
    if kind == BACKWARD:
        if stage > 0:
            return stage - 1, operation
        return (stages - 1, Operation(kind, microbatch, chunk - 1)) if chunk > 0 else None
    return None


def _levels(orders: list[list[Operation]], stages: int, chunks: int) -> Iterator[tuple[tuple[int, Operation], int]]:
    """Yield every operation with one more than the highest level it waits for. Raises ValueError on a deadlock."""
    producer = {
        target: (stage, operation)
        for stage, order in enumerate(orders)
        for operation in order
        if (target := _consumer(stage, operation, stages, chunks)) is not None
    }
    level: dict[tuple[int, Operation], int] = {}
    position = [0] * stages
    latest = [-1] * stages
    while any(position[stage] < len(order) for stage, order in enumerate(orders)):
        before = sum(position)
        for stage, order in enumerate(orders):
            while position[stage] < len(order):
                key = (stage, order[position[stage]])
                source = producer.get(key)
                if source is not None and source not in level:
                    break
                latest[stage] = max(latest[stage], level[source] if source is not None else -1) + 1
                level[key] = latest[stage]
                position[stage] += 1
                yield key, latest[stage]
        if sum(position) == before:
            raise ValueError("the stages' orders wait for one another")
