"""Pipeline schedules as static programs of operations and messages.

Sources: GPipe (Huang et al. 2019, section 2.3), 1F1B and its interleaved form (Narayanan et al. 2021, section 2.2),
zero bubble (Qi et al. 2024, section 2.1: the backward is split, weight gradients fill the bubble), in a greedy order
within the memory of ZB-H1, which leaves more bubbles than the order that its authors made by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from prism_ch.model.columns import Int64
from prism_ch.simulate.job import Pipeline, Schedule, require

FORWARD, BACKWARD, WEIGHT = range(3)


class Operation(NamedTuple):
    """One piece of a stage's computing.

    `kind` is FORWARD, BACKWARD (towards the input) or WEIGHT (of the weights).
    """

    stage: int
    kind: int
    microbatch: int
    chunk: int = 0


@dataclass(frozen=True, slots=True)
class Program:
    """A step of a whole pipeline, sorted by level.

    Every operation depends on earlier levels only. One row an operation: `stage`, `kind`, `microbatch`, `chunk`;
    `incoming` is a message (a row below) or -1. One row a message: `sender` and `receiver` are operations. `levels`
    bounds the operations of each level, `sends` the messages that they send. A level has at most one operation of a
    stage.
    """

    stage: Int64
    kind: Int64
    microbatch: Int64
    chunk: Int64
    incoming: Int64
    sender: Int64
    receiver: Int64
    levels: tuple[tuple[int, int], ...]
    sends: tuple[tuple[int, int], ...]


def stage_orders(schedule: Schedule, stages: int, microbatches: int, chunks: int) -> list[list[Operation]]:
    """Return each stage's operations in the order it does them.

    All schedules but zero-bubble warm up with some forwards, then alternate, then drain: GPipe with all of them, 1F1B
    with as many as there are stages behind. Interleaved stages take microbatches through their chunks in rounds of
    `stages`. Raises UsageError if the schedule does not fit.
    """
    if schedule == "zero-bubble":
        return _zero_bubble(stages, microbatches)
    visits = back = [(m, 0) for m in range(microbatches)]
    warm_ups = list(range(stages - 1, -1, -1))
    if schedule == "interleaved" and stages > 1:
        multiple = f"the interleaved schedule needs microbatches in multiples of {stages}, not {microbatches}"
        require(microbatches % stages == 0, multiple)
        rounds = range(0, microbatches, stages)
        visits = [(first + m, chunk) for first in rounds for chunk in range(chunks) for m in range(stages)]
        back = [(m, chunks - 1 - chunk) for m, chunk in visits]
        warm_ups = [2 * behind + (chunks - 1) * stages for behind in warm_ups]
    elif schedule == "gpipe" and stages > 1:
        back, warm_ups = visits[::-1], [microbatches] * stages
    orders = []
    for stage, warm_up in enumerate(min(count, len(visits)) for count in warm_ups):
        forwards = [Operation(stage, FORWARD, *visit) for visit in visits]
        backwards = [Operation(stage, BACKWARD, *visit) for visit in back]
        paired = chain.from_iterable(zip(forwards[warm_up:], backwards, strict=False))
        orders.append([*forwards[:warm_up], *paired, *backwards[len(visits) - warm_up :]])
    return orders


def _zero_bubble(stages: int, microbatches: int) -> list[list[Operation]]:
    """Order a zero-bubble schedule as a race of equal operations.

    Input gradients come first, forwards within 1F1B's memory, weight gradients in the gaps.
    """
    orders: list[list[Operation]] = [[] for _ in range(stages)]
    done: dict[Operation, int] = {}
    counts = np.zeros((stages, 3), dtype=int)
    tick = 0
    while counts[:, WEIGHT].min() < microbatches:
        for stage in range(stages):
            forward, backward, weight = counts[stage].tolist()
            from_above = -1 if stage == stages - 1 else done.get(Operation(stage + 1, BACKWARD, backward), tick)
            from_below = -1 if stage == 0 else done.get(Operation(stage - 1, FORWARD, forward), tick)
            if backward < forward and from_above < tick:
                operation = Operation(stage, BACKWARD, backward)
            elif forward < microbatches and forward - weight < stages and from_below < tick:
                operation = Operation(stage, FORWARD, forward)
            elif weight < backward:
                operation = Operation(stage, WEIGHT, weight)
            else:
                continue
            orders[stage].append(operation)
            counts[stage, operation.kind] += 1
            done[operation] = tick
        tick += 1
    return orders


def compile_program(pipeline: Pipeline, stages: int, *, forward_only: bool = False) -> Program:
    """Turn a schedule into a program.

    `forward_only` leaves out the backward, as an evaluation does. Raises ValueError if stages wait for one another.

    1. Find what each operation waits for: the one before it on its stage, and the one whose output it needs.
    2. Its level is one more than the highest it waits for.
    3. Sort operations by level and stage; number the messages in sending order.
    """
    orders = stage_orders(pipeline.schedule, stages, pipeline.microbatches, pipeline.chunks)
    operations = [op for order in orders for op in order if op.kind == FORWARD or not forward_only]
    waits_for: dict[Operation, list[Operation]] = {operation: [] for operation in operations}
    for before, operation in pairwise(operations):
        if before.stage == operation.stage:
            waits_for[operation].append(before)
    fed = {op: consumer for op in operations if (consumer := _consumer(op, stages, pipeline.chunks)) is not None}
    for operation, consumer in fed.items():
        waits_for[consumer].append(operation)
    level: dict[Operation, int] = {}
    for operation in TopologicalSorter(waits_for).static_order():
        level[operation] = 1 + max((level[before] for before in waits_for[operation]), default=-1)
    operations.sort(key=lambda operation: (level[operation], operation.stage))
    row = {operation: number for number, operation in enumerate(operations)}
    sent = [(row[op], row[fed[op]]) for op in operations if op in fed and fed[op].stage != op.stage]
    sender, receiver = np.array(sent, dtype=np.int64).reshape(-1, 2).T
    stage, kind, microbatch, chunk = np.array(operations, dtype=np.int64).T
    incoming = np.full(len(operations), -1, dtype=np.int64)
    incoming[receiver] = np.arange(len(sent))
    bounds = np.searchsorted([level[operation] for operation in operations], np.arange(max(level.values()) + 2))
    levels = tuple(pairwise(bounds.tolist()))
    sends = tuple(pairwise(np.searchsorted(sender, bounds).tolist()))
    return Program(stage, kind, microbatch, chunk, incoming, sender, receiver, levels, sends)


def _consumer(operation: Operation, stages: int, chunks: int) -> Operation | None:
    stage, kind, _, chunk = operation
    if kind == WEIGHT:
        return None
    step, last_stage, last_chunk = (1, stages - 1, chunks - 1) if kind == FORWARD else (-1, 0, 0)
    if stage != last_stage:
        return operation._replace(stage=stage + step)
    return operation._replace(stage=stages - 1 - stage, chunk=chunk + step) if chunk != last_chunk else None
