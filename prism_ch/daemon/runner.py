"""Runs one task whenever it is woken: remembers how it went, and lets it rest after a failure."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from prism_ch.daemon.schedule import Schedule, TaskPlan
from prism_ch.daemon.tasks import Shift, Task
from prism_ch.errors import ClaimedError, PrismError
from prism_ch.store.client import Store

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TaskState:
    """How a task stands; times are Unix seconds, None where it never happened.

    `failures`: in a row, until now. `running_s`: how long it has been at work, None while it rests. `is_hung`: longer
    than it ever should.
    """

    name: str
    last_success_s: float | None = None
    last_failure_s: float | None = None
    failures: int = 0
    error: str = ""
    units: int = 0
    running_s: float | None = None
    is_hung: bool = False


class TaskRunner:
    """One task, over one connection that is opened when it is needed and after each failure anew."""

    def __init__(
        self, name: str, task: Task, plan: TaskPlan, schedule: Schedule, begin: Callable[[Store | None], Shift]
    ) -> None:
        """Take a task over; `begin` makes what it is given, with the connection it had, or with a new one."""
        self._task = task
        self._plan = plan
        self._schedule = schedule
        self._begin = begin
        self._store: Store | None = None
        self._lock = threading.Lock()
        self._state = TaskState(name)
        self._began: float | None = None
        self._rests_until = 0.0

    @property
    def state(self) -> TaskState:
        """Tell how the task stands at this moment."""
        with self._lock:
            if self._began is None:
                return self._state
            running_s = time.monotonic() - self._began
            return replace(self._state, running_s=running_s, is_hung=running_s > self._plan.hung_after_s)

    def __call__(self) -> None:
        """Do what there is to do, unless the task rests; whatever goes wrong is noted and ends here."""
        with self._lock:
            if time.monotonic() < self._rests_until or self._began is not None:
                return
            self._began = time.monotonic()
        try:
            shift = self._begin(self._store)
            self._store = shift.store
            units = self._task(shift)
        except ClaimedError as error:
            log.debug("task waits task=%s reason=%r", self._state.name, str(error))
            self._ended(replace(self._state, error=""))
        except Exception as error:  # noqa: BLE001 - one task's failure, whatever it is, must not end the others
            self._failed(error)
        else:
            self._succeeded(units)

    def close(self) -> None:
        """Close the task's connection."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _succeeded(self, units: int) -> None:
        """Note a success."""
        if units:
            seconds = time.monotonic() - (self._began or 0.0)
            log.info("task done task=%s units=%d seconds=%.3f", self._state.name, units, seconds)
        if self._state.failures:
            log.info("task mended task=%s failures=%d", self._state.name, self._state.failures)
        done = self._state.units + units
        self._ended(replace(self._state, last_success_s=time.time(), failures=0, error="", units=done))

    def _failed(self, error: Exception) -> None:
        """Note a failure and rest, longer with each one in a row; what the database is to blame for may have mended."""
        failures = self._state.failures + 1
        rest_s = min(self._schedule.retry_most_s, self._schedule.retry_first_s * 2 ** min(failures - 1, 30))
        reason = str(error) if isinstance(error, PrismError) else repr(error)
        log.error(
            "task failed task=%s failures=%d retry_in_s=%.0f error=%r",
            self._state.name,
            failures,
            rest_s,
            reason,
            exc_info=None if isinstance(error, PrismError) else error,
        )
        self.close()
        self._rests_until = time.monotonic() + rest_s
        self._ended(replace(self._state, last_failure_s=time.time(), failures=failures, error=reason))

    def _ended(self, state: TaskState) -> None:
        """Take the new state over."""
        with self._lock:
            self._state = state
            self._began = None
