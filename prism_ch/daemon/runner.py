"""Runs a task whenever it is woken, records the result, and rests after a failure."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from prism_ch.daemon.tasks import Schedule, Task, TaskContext, TaskPlan
from prism_ch.errors import ClaimedError, PrismError
from prism_ch.store.client import Store

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TaskState:
    """The state of a task; times are Unix seconds, None if it never happened.

    `failures` counts those in a row, until now. `units` is how much it has done since the service started. `running_s`
    is how long it has been running, None while it waits. `is_hung` tells that this is longer than planned.
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
    """One task and its connection, which is opened when first needed and after each failure."""

    def __init__(
        self,
        name: str,
        task: Task,
        plan: TaskPlan,
        schedule: Schedule,
        make_context: Callable[[Store | None], TaskContext],
    ) -> None:
        """Take a task; `make_context` takes its connection, or opens one if there is none."""
        self._task = task
        self._plan = plan
        self._schedule = schedule
        self._make_context = make_context
        self._store: Store | None = None
        self._lock = threading.Lock()
        self._state = TaskState(name)
        self._started_s: float | None = None
        self._rests_until_s = 0.0

    @property
    def state(self) -> TaskState:
        """The state at this moment."""
        with self._lock:
            if self._started_s is None:
                return self._state
            running_s = time.monotonic() - self._started_s
            return replace(self._state, running_s=running_s, is_hung=running_s > self._plan.hung_after_s)

    def __call__(self) -> None:
        """Run the task, unless it rests or runs already. An error is recorded, not raised."""
        with self._lock:
            if time.monotonic() < self._rests_until_s or self._started_s is not None:
                return
            self._started_s = time.monotonic()
        try:
            context = self._make_context(self._store)
            self._store = context.store
            units = self._task(context)
        except ClaimedError as error:
            log.debug("task waits task=%s reason=%r", self._state.name, str(error))
            self._finish(replace(self._state, error=""))
        except Exception as error:  # noqa: BLE001 - a failure of one task must not end the others
            self._fail(error)
        else:
            self._succeed(units)

    def close(self) -> None:
        """Close the connection."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _succeed(self, units: int) -> None:
        if units:
            seconds = time.monotonic() - (self._started_s or 0.0)
            log.info("task done task=%s units=%d seconds=%.3f", self._state.name, units, seconds)
        if self._state.failures:
            log.info("task mended task=%s failures=%d", self._state.name, self._state.failures)
        done = self._state.units + units
        self._finish(replace(self._state, last_success_s=time.time(), failures=0, error="", units=done))

    def _fail(self, error: Exception) -> None:
        """Record a failure, drop the connection, and rest longer after each failure in a row."""
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
        self._rests_until_s = time.monotonic() + rest_s
        self._finish(replace(self._state, last_failure_s=time.time(), failures=failures, error=reason))

    def _finish(self, state: TaskState) -> None:
        with self._lock:
            self._state = state
            self._started_s = None
