"""Habits: pauses at equal distance, in steps or in seconds, and those that are none."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from prism_ch.analysis.diagnose.stops.periodic_pauses import habitual, is_due
from prism_ch.model.params import StopParams
from tests.unit.analysis.build import steps_of

PARAMS = StopParams()


def long_steps(durations_s: Sequence[float]) -> list[int]:
    return [row for row, usual in enumerate(habitual(steps_of(durations_s), PARAMS)) if usual]


def paused(count: int, every: int, pause_s: float = 2.0, first: int | None = None) -> list[float]:
    start = every if first is None else first
    return [1.0 + pause_s * (step >= start and (step - start) % every == 0) for step in range(count)]


@pytest.mark.parametrize("every", [3, 8, 17])
def test_three_pauses_at_equal_distance_are_a_habit(every: int) -> None:
    assert long_steps(paused(3 * every + 1, every)) == [every, 2 * every, 3 * every]
    assert long_steps(paused(3 * every, every)) == []


def test_a_job_may_have_several_habits() -> None:
    both = [max(pair) for pair in zip(paused(80, 10), paused(80, 24, 20.0, first=5), strict=True)]
    assert long_steps(both) == sorted([*range(10, 80, 10), *range(5, 80, 24)])


def test_what_is_no_habit_may_lie_between() -> None:
    durations = paused(60, 10)
    durations[25] = 4.0
    assert long_steps(durations) == [10, 20, 30, 40, 50]


def test_pauses_of_other_length_are_not_of_the_habit() -> None:
    durations = paused(60, 10)
    durations[30] = 30.0
    assert long_steps(durations) == [10, 20, 40, 50]


def test_one_pause_may_lengthen_two_steps() -> None:
    durations = [seconds for step in range(4) for seconds in [*[1.0] * 7, 2.0, 2.0]]
    assert long_steps(durations) == [7, 8, 16, 17, 25, 26, 34, 35]


def test_pauses_may_come_by_the_clock() -> None:
    durations = [1.0 + 0.3 * (step % 2) for step in range(20)] + [0.9] * 60
    begun = 0.0
    for step in range(len(durations)):
        if begun // 20 != (begun + durations[step]) // 20:
            durations[step] += 3.0
        begun += durations[step]
    assert len(long_steps(durations)) >= 3


def test_a_slow_time_is_no_habit() -> None:
    assert long_steps([1.0] * 20 + [1.5] * 15 + [1.0] * 20) == []
    assert long_steps([1.0] * 40 + [1.5] * 2 + [1.0] * 5) == []


def test_without_steps_there_is_none() -> None:
    assert long_steps([]) == []
    assert not is_due(steps_of([1.0] * 3), 5.0, PARAMS)


def test_a_habit_is_due_at_its_next_turn_and_for_as_long_as_it_takes() -> None:
    steps = steps_of(paused(40, 10))
    assert is_due(steps, 5.0, PARAMS)
    assert not is_due(steps, 7.0, PARAMS)
    assert not is_due(steps_of(paused(37, 10)), 5.0, PARAMS)
