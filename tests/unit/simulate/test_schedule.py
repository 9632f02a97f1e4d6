"""Pipeline schedules: each does everything once, in an order that can be worked."""

import numpy as np
import pytest

from prism_ch.errors import UsageError
from prism_ch.simulate.job import Pipeline, Schedule
from prism_ch.simulate.schedule import BACKWARD, FORWARD, WEIGHT, Operation, compile_program, stage_orders

SHAPES = [
    ("1f1b", 4, 8, 1),
    ("1f1b", 4, 2, 1),
    ("gpipe", 3, 5, 1),
    ("interleaved", 4, 8, 2),
    ("interleaved", 2, 4, 3),
    ("zero-bubble", 4, 8, 1),
    ("zero-bubble", 4, 3, 1),
    ("1f1b", 1, 6, 1),
]


@pytest.mark.parametrize("schedule,stages,microbatches,chunks", SHAPES)
def test_every_stage_does_everything_once(schedule: Schedule, stages: int, microbatches: int, chunks: int) -> None:
    kinds = (FORWARD, BACKWARD, WEIGHT) if schedule == "zero-bubble" else (FORWARD, BACKWARD)
    for stage, order in enumerate(stage_orders(schedule, stages, microbatches, chunks)):
        everything = {(stage, k, m, c) for k in kinds for m in range(microbatches) for c in range(chunks)}
        assert len(order) == len(everything)
        assert set(order) == everything


@pytest.mark.parametrize("schedule,stages,microbatches,chunks", SHAPES)
def test_program_depends_on_earlier_levels_only(
    schedule: Schedule, stages: int, microbatches: int, chunks: int
) -> None:
    program = compile_program(Pipeline(schedule=schedule, microbatches=microbatches, chunks=chunks), stages)
    level = np.empty(len(program.stage), dtype=int)
    for number, (low, high) in enumerate(program.levels):
        level[low:high] = number
        assert len(np.unique(program.stage[low:high])) == high - low > 0
    assert (level[program.sender] < level[program.receiver]).all()
    assert (program.stage[program.sender] != program.stage[program.receiver]).all()
    assert len(np.unique(program.sender)) == len(np.unique(program.receiver)) == len(program.sender)
    assert (program.incoming[program.receiver] == np.arange(len(program.sender))).all()
    assert sum(last - first for first, last in program.sends) == len(program.sender)


def test_messages_a_step() -> None:
    assert len(compile_program(Pipeline(microbatches=8), 4).sender) == 2 * 3 * 8
    interleaved = compile_program(Pipeline(schedule="interleaved", microbatches=8, chunks=2), 4)
    wrap = (interleaved.stage[interleaved.sender] == 3) & (interleaved.stage[interleaved.receiver] == 0)
    assert len(interleaved.sender) == 2 * 8 * (4 * 2 - 1)
    assert wrap.sum() == 8
    assert (interleaved.kind[interleaved.sender[wrap]] == FORWARD).all()


def test_1f1b_holds_no_more_activations_than_stages_behind() -> None:
    for stage, order in enumerate(stage_orders("1f1b", 4, 8, 1)):
        held = np.cumsum([1 if op.kind == FORWARD else -1 for op in order])
        assert held.max() == 4 - stage
        assert held[-1] == 0


def test_zero_bubble_fills_the_gap_behind_the_last_backward() -> None:
    def last(order: list[Operation], kind: int) -> int:
        return max(i for i, op in enumerate(order) if op.kind == kind)

    first_stage = stage_orders("zero-bubble", 4, 8, 1)[0]
    assert last(first_stage, WEIGHT) > last(first_stage, BACKWARD)


def test_interleaving_needs_whole_rounds() -> None:
    with pytest.raises(UsageError, match="multiples of 4"):
        compile_program(Pipeline(schedule="interleaved", microbatches=6, chunks=2), 4)
