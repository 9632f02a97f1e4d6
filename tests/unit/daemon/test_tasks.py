"""Tasks: what is wrong in a schedule is named; a task that fails rests, longer each time; one that hangs is seen."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, cast
from unittest import mock

import pytest

from prism_ch.daemon import tasks as tasks_module
from prism_ch.daemon.tasks import TASKS, Schedule, TaskContext, TaskPlan, TaskRunner, load_schedule
from prism_ch.errors import ClaimedError, SettingsError, StoreError
from prism_ch.settings import Settings
from prism_ch.store.client import Store

HEAD = "misfire_grace_s = 60\nretry_first_s = 2\nretry_most_s = 300\n"


def test_the_shipped_schedule_names_tasks_that_there_are() -> None:
    schedule = load_schedule()
    assert set(schedule.task) <= set(TASKS)
    assert {"land_spool", "analyse", "reanalyse"} <= set(schedule.task)
    assert all(plan.hung_after_s > plan.every_s / 60 for plan in schedule.task.values())


@pytest.mark.parametrize(
    "text, complaint",
    [
        (HEAD + "[task.brew]\nevery_s = 1\nhung_after_s = 1", "there is no task brew; there are analyse,"),
        (HEAD + "[task.analyse]\nevery_s = 0\nhung_after_s = 1", "task.analyse.every_s: Input should be greater"),
        (HEAD + "[task.analyse]\nevery_s = 1\nhung_after_s = 1\nevery = 1", "task.analyse.every: Extra inputs"),
        ("retry_first_s = 2", "misfire_grace_s: Field required"),
        ("misfire_grace_s =", "is no TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "schedule.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=complaint) as raised:
        load_schedule(path)
    assert str(raised.value).startswith(f"{path}: ")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.toml: can't be read: No such file"):
        load_schedule(tmp_path / "none.toml")


PLAN = TaskPlan(every_s=1, hung_after_s=10)
SCHEDULE = Schedule(misfire_grace_s=60, retry_first_s=2, retry_most_s=9, task={"work": PLAN})


class Time:
    """A clock that the test moves; the real one tells no test how long a rest is."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s

    def time(self) -> float:
        return 1_800_000_000.0 + self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    moved = Time()
    monkeypatch.setattr(tasks_module, "time", moved)
    return moved


def runner(task: Callable[[TaskContext], int], stores: list[Any] | None = None) -> TaskRunner:
    opened = [] if stores is None else stores

    def begin(store: Store | None) -> TaskContext:
        if store is None:
            opened.append(mock.create_autospec(Store, instance=True))
        return TaskContext(
            cast("Store", store or opened[-1]), Settings(), None, lambda: False, lambda _: 0, lambda _: 0
        )

    return TaskRunner("work", task, PLAN, SCHEDULE, begin)


def test_successes_are_counted(clock: Time) -> None:
    work = runner(lambda context: 3)
    work()
    work()
    assert (work.state.units, work.state.failures, work.state.last_success_s) == (6, 0, 1_800_000_100.0)


def test_failures_double_the_rest_up_to_a_bound(clock: Time) -> None:
    tries: list[float] = []

    def fail(context: TaskContext) -> int:
        tries.append(clock.now_s)
        raise StoreError("the server can't be reached")

    work = runner(fail)
    for _ in range(400):
        work()
        clock.now_s += 0.1
    rests = [round(later - earlier) for earlier, later in pairwise(tries)]
    assert rests[:4] == [2, 4, 8, 9]
    assert set(rests[4:]) <= {9}
    assert work.state.failures == len(tries)
    assert work.state.error == "the server can't be reached"


def test_failure_reopens_connection_and_success_forgets_it(clock: Time) -> None:
    outcomes: list[Exception | int] = [1, StoreError("gone"), 1]
    stores: list[mock.Mock] = []

    def work_off(context: TaskContext) -> int:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    work = runner(work_off, stores)
    for _ in range(3):
        work()
        clock.now_s += 60
    assert len(stores) == 2
    stores[0].close.assert_called_once_with()
    assert (work.state.failures, work.state.error) == (0, "")
    assert work.state.last_failure_s is not None


def test_what_nobody_expected_is_logged_with_its_traceback(clock: Time, caplog: pytest.LogCaptureFixture) -> None:
    def fail(context: TaskContext) -> int:
        raise ZeroDivisionError("odd")

    runner(fail)()
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "task=work failures=1 retry_in_s=2" in record.getMessage()
    assert record.exc_info is not None


def test_that_another_works_the_windows_is_no_failure(clock: Time) -> None:
    def wait(context: TaskContext) -> int:
        raise ClaimedError("worked by another")

    work = runner(wait)
    work()
    assert (work.state.failures, work.state.last_failure_s) == (0, None)


def test_a_task_at_work_is_not_begun_again_and_is_seen_to_hang(clock: Time) -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()
    starts: list[float] = []

    def hang(context: TaskContext) -> int:
        starts.append(clock.now_s)
        begun.release()
        go_on.wait()
        return 1

    work = runner(hang)
    thread = threading.Thread(target=work)
    thread.start()
    begun.acquire()
    work()
    assert (work.state.running_s, work.state.is_hung) == (0.0, False)
    clock.now_s += PLAN.hung_after_s + 1
    assert work.state.is_hung
    go_on.set()
    thread.join()
    assert len(starts) == 1
    assert (work.state.running_s, work.state.is_hung, work.state.units) == (None, False, 1)
