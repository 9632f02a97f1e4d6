"""The tasks, and the schedule that wakes them. Each task does what is due and returns how much that was."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from prism_ch.assets import asset
from prism_ch.daemon.spool import Spool
from prism_ch.errors import SettingsError
from prism_ch.settings import Settings, read_toml, validated
from prism_ch.store.client import Store
from prism_ch.store.ledger import closed_until_ns, new_from_ns, silent_until_ns
from prism_ch.store.retention import apply_retention, prune
from prism_ch.worker import analyse

#: A task stops after this long, in seconds, and does the rest at its next tick.
_TIME_SLICE_S = 30.0
_SHIPPED = "scheduler/schedule.toml"


@dataclass(frozen=True, slots=True)
class TaskContext:
    """What a task needs: its own connection, the settings, and the spool, if any.

    `stopping` returns whether the service is stopping; `write_health` writes its checks and measures to the database.
    """

    store: Store
    settings: Settings
    spool: Spool | None
    stopping: Callable[[], bool]
    write_health: Callable[[Store], int]

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
        stop=context.time_slice(),
    )
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
    "reanalyse": analyse_changed,
    "retention": keep_retention,
    "note_health": lambda context: context.write_health(context.store),
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

    #: A tick that is late by more than this, in seconds, is left out; the next one does its work.
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
