"""The tasks of the service, the schedule that wakes them, and the runner of each.

A task does what is due and returns how many units that was: files, windows, rows.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from prism_ch.analysis.executor import Executor
from prism_ch.assets import asset
from prism_ch.daemon.lateness import ArrivedSecond, Lateness
from prism_ch.daemon.spool import Spool
from prism_ch.daemon.watch import SINCE_S, ExporterArrival, JobSilence, Watch
from prism_ch.errors import ClaimedError, PrismError, SettingsError
from prism_ch.settings import Settings, read_toml, validated
from prism_ch.store.client import Store
from prism_ch.store.kept_memory import KeptMemory
from prism_ch.store.ledger import closed_until_ns, new_from_ns, silent_until_ns
from prism_ch.store.retention import apply_retention, prune
from prism_ch.store.statements import statement
from prism_ch.worker import analyse, look_ahead

log = logging.getLogger(__name__)

#: A task stops after this long, in seconds, and does the rest at its next tick.
_TIME_SLICE_S = 30.0
_SHIPPED = "scheduler/schedule.toml"


@dataclass(frozen=True, slots=True)
class TaskContext:
    """What a task needs: its own connection, the settings, and the spool, if any.

    `stopping` returns whether the service is stopping; `write_health` writes its checks and measures to the database;
    `compare_rows` compares ledgers with the rows that are there; `lateness` is how late records come; `watch` knows
    who is silent; `kept` is what is known after the window that was worked last; `executor` works the jobs of windows,
    None for this process.
    """

    store: Store
    settings: Settings
    spool: Spool | None
    stopping: Callable[[], bool]
    write_health: Callable[[Store], int]
    compare_rows: Callable[[Store], int]
    lateness: Lateness = field(default_factory=Lateness)
    watch: Watch = field(default_factory=Watch)
    kept: KeptMemory = field(default_factory=KeptMemory)
    executor: Executor | None = None

    def time_slice(self) -> Callable[[], bool]:
        """Return a function that becomes true when the task should stop for now."""
        end_s = time.monotonic() + _TIME_SLICE_S
        return lambda: self.stopping() or time.monotonic() > end_s


Task = Callable[[TaskContext], int]


def land_spool(context: TaskContext) -> int:
    """Land the files in the spool; return how many."""
    return 0 if context.spool is None else context.spool.land(context.store, context.time_slice())


def clean_spool(context: TaskContext) -> int:
    """Remove old files from the spool's folder done; return how many."""
    return 0 if context.spool is None else context.spool.clean(context.settings.serve.keep_done_days)


def analyse_closed(context: TaskContext) -> int:
    """Analyse the windows that closed after the last finished one; return how many."""
    return _analyse(context, new_from_ns(context.store, context.settings.window_s))


def _arrived_until_ns(context: TaskContext) -> int | None:
    rows = context.store.rows(statement("arrived_seconds"), {"since": SINCE_S})
    return context.lateness.arrived_until_ns([ArrivedSecond(*row) for row in rows])


def look_at_silence(context: TaskContext) -> int:
    """Analyse what has arrived if somebody is silent; return 1 if so."""
    store, watch, since = context.store, context.watch, {"since": SINCE_S}
    until_ns = _arrived_until_ns(context)
    if until_ns is None:
        return 0
    exporters = [ExporterArrival(*row) for row in store.rows(statement("exporter_arrivals"), since)]
    jobs = [JobSilence(*row) for row in store.rows(statement("job_silence"), since)]
    began_s = time.monotonic()
    if not watch.is_due(jobs, exporters, until_ns, began_s):
        return 0
    report = look_ahead(store, context.settings, until_ns, executor=context.executor)
    watch.looked(began_s, time.monotonic())
    return int(report is not None)


def analyse_changed(context: TaskContext) -> int:
    """Analyse all windows that are new or have changed; return how many."""
    return _analyse(context, None)


def _analyse(context: TaskContext, from_ns: int | None) -> int:
    report = analyse(
        context.store,
        context.settings,
        from_ns=from_ns,
        until_ns=closed_until_ns(context.store, context.settings),
        silent_until_ns=silent_until_ns(context.store, context.settings),
        arrived_until_ns=_arrived_until_ns(context) or 0,
        stop=context.time_slice(),
        kept=context.kept,
        executor=context.executor,
    )
    if report.windows:
        context.watch.window_worked()
    return len(report.windows)


def keep_retention(context: TaskContext) -> int:
    """Set the retention of all tables, and prune replaced rows; return how many were pruned."""
    apply_retention(context.store)
    return prune(context.store, context.time_slice())


#: Tasks by the names that a schedule uses.
TASKS: Mapping[str, Task] = {
    "land_spool": land_spool,
    "clean_spool": clean_spool,
    "analyse": analyse_closed,
    "look_ahead": look_at_silence,
    "reanalyse": analyse_changed,
    "retention": keep_retention,
    "note_health": lambda context: context.write_health(context.store),
    "compare_rows": lambda context: context.compare_rows(context.store),
}


class TaskPlan(BaseModel):
    """When a task is woken."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: From one tick to the next, in seconds.
    every_s: float = Field(gt=0)
    #: A task that runs longer than this, in seconds, is reported as hung.
    hung_after_s: float = Field(gt=0)


class Schedule(BaseModel):
    """When each task is woken, and when a failed one is tried again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: A tick that is late by more than this, in seconds, is left out; the next one does what it would have done.
    misfire_grace_s: int = Field(ge=1)
    #: A failed task rests this long, in seconds, and twice as long after each further failure in a row.
    retry_first_s: float = Field(gt=0)
    #: No rest is longer than this, in seconds.
    retry_most_s: float = Field(gt=0)
    #: Plans by the name of the task.
    task: dict[str, TaskPlan]


def load_schedule(path: Path | None = None) -> Schedule:
    """Read a schedule, by default the shipped one.

    Raises SettingsError if it can't be read, is no schedule, or names an unknown task.
    """
    name = str(path or _SHIPPED)
    schedule = validated(Schedule, read_toml(path or asset(_SHIPPED)), name)
    unknown = sorted(schedule.task.keys() - TASKS.keys())
    if unknown:
        raise SettingsError(f"{name}: there is no task {unknown[0]}; there are {', '.join(sorted(TASKS))}")
    return schedule


@dataclass(frozen=True, slots=True)
class TaskState:
    """The state of a task; times are Unix seconds, None if it never happened.

    `failures` counts those in a row, until now. `units` is how much it has done since the service started. `running_s`
    is how long it has been running, None while it waits. `is_hung` if that is longer than planned.
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
