import os

import pytest

from bench.accuracy.sweep import Failed, Task, run


def double(number: int) -> int:
    """Do what succeeds."""
    return 2 * number


def fail(number: int) -> int:
    """Do what raises."""
    raise ValueError(f"no {number}")


def die(number: int) -> int:
    """Do what ends the process."""
    os._exit(number)


@pytest.mark.slow
def test_results_come_in_order_and_a_failure_is_one_of_them() -> None:
    functions = (double, fail, double, die, double)
    tasks = [Task(function.__name__, function, (number,)) for number, function in enumerate(functions)]
    first, second, third, fourth, fifth = run(tasks, 2)
    assert (first, third, fifth) == (0, 4, 8)
    assert isinstance(second, Failed)
    assert second.reason.startswith("ValueError: no 1 (fail, line ")
    assert fourth == Failed("its process died")
