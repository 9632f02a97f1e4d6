"""The order of model chunks at the ends of an interleaved pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from prism_ch.analysis.replay.interleaved import interleaved_outputs
from prism_ch.analysis.replay.outputs import Output
from prism_ch.model.columns import Float64
from prism_ch.simulate.schedule import BACKWARD, FORWARD, Operation
from tests.unit.analysis.replay.simulated import PARAMS

STAGES = 4
FORWARD_NS, MESSAGE_NS = 1_000_000.0, 10_000.0
TAKES_NS = {FORWARD: FORWARD_NS, BACKWARD: 2 * FORWARD_NS}


@dataclass(frozen=True)
class Run:
    """A step of a pipeline: moments of messages by link, and the operations of each stage with what they send."""

    sent: dict[tuple[int, int], list[float]] = field(default_factory=dict)
    arrived: dict[tuple[int, int], list[float]] = field(default_factory=dict)
    orders: list[list[Operation]] = field(default_factory=list)


def orders_of(microbatches: int, chunks: int, group: int) -> list[list[Operation]]:
    """Let so many microbatches at a time go through a chunk."""
    firsts = range(0, microbatches, group)
    visits = [
        (m, chunk)
        for first in firsts
        for chunk in range(chunks)
        for m in range(first, min(first + group, microbatches))
    ]
    found = []
    for stage in range(STAGES):
        forwards = [Operation(stage, FORWARD, *visit) for visit in visits]
        backwards = [Operation(stage, BACKWARD, m, chunks - 1 - chunk) for m, chunk in visits]
        warm_up = min(2 * (STAGES - 1 - stage) + (chunks - 1) * group, len(visits))
        order, rest = forwards[:warm_up], list(backwards)
        for one in forwards[warm_up:]:
            order += [one, rest.pop(0)]
        found.append(order + rest)
    return found


def goes_to(operation: Operation, chunks: int) -> Operation | None:
    stage, kind, microbatch, chunk = operation
    step, last_stage, last_chunk = (1, STAGES - 1, chunks - 1) if kind == FORWARD else (-1, 0, 0)
    if stage != last_stage:
        return Operation(stage + step, kind, microbatch, chunk)
    return Operation(STAGES - 1 - stage, kind, microbatch, chunk + step) if chunk != last_chunk else None


def run(microbatches: int, chunks: int, group: int) -> Run:
    """Run a step without noise, operation by operation as soon as each may begin."""
    made, free, waits = Run(orders=orders_of(microbatches, chunks, group)), [0.0] * STAGES, [0] * STAGES
    came: dict[Operation, float] = {}
    while any(waits[stage] < len(made.orders[stage]) for stage in range(STAGES)):
        for stage in range(STAGES):
            while waits[stage] < len(made.orders[stage]):
                one = made.orders[stage][waits[stage]]
                begins = one.kind == FORWARD and one.stage == 0 and one.chunk == 0
                turns = one.kind == BACKWARD and one.stage == STAGES - 1 and one.chunk == chunks - 1
                if not (begins or turns or one in came):
                    break
                free[stage] = max(free[stage], came.get(one, 0.0)) + TAKES_NS[one.kind]
                waits[stage] += 1
                to = goes_to(one, chunks)
                if to is not None:
                    came[to] = free[stage] + MESSAGE_NS
                    made.sent.setdefault((stage, to.stage), []).append(free[stage])
                    made.arrived.setdefault((stage, to.stage), []).append(came[to])
    return made


def seen(made: Run, stage: int) -> tuple[Output, ...] | None:
    def of(side: dict[tuple[int, int], list[float]], end: int) -> dict[tuple[int, int], Float64]:
        return {link: np.array(moments)[None, None] for link, moments in side.items() if link[end] == stage}

    begin = np.zeros(1)
    return interleaved_outputs(
        stage, of(made.sent, 0), of(made.arrived, 1), begin, (PARAMS.diagnose.compute, PARAMS.replay)
    )


@pytest.mark.parametrize("stage", [0, STAGES - 1])
@pytest.mark.parametrize("microbatches, chunks, group", [(8, 2, 4), (12, 3, 4), (16, 2, 8), (16, 4, 8), (8, 2, 8)])
def test_ends_compute_in_the_order_of_their_program(stage: int, microbatches: int, chunks: int, group: int) -> None:
    made = run(microbatches, chunks, group)
    outputs = seen(made, stage)
    assert outputs is not None
    links = [one.link for one in outputs]
    sends = [to if (to := goes_to(one, chunks)) is None else (stage, to.stage) for one in made.orders[stage]]
    # What is computed after the last output shows in no output.
    last = max(place for place, link in enumerate(sends) if link is not None) + 1
    assert links == [link or (stage, stage) for link in sends[:last]]
    needs_none = [
        one.chunk == (0 if one.kind == FORWARD else chunks - 1) and (stage == 0) == (one.kind == FORWARD)
        for one in made.orders[stage][:last]
    ]
    assert [not one.inputs for one in outputs] == needs_none


def test_inner_stages_and_other_pipelines_are_left_alone() -> None:
    assert seen(run(8, 2, 4), 1) is None
    assert seen(run(8, 1, 8), 0) is None
