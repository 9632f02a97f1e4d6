"""The schedule as data: which task is woken how often."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from prism_ch.assets import asset
from prism_ch.errors import SettingsError

_SHIPPED = "scheduler/schedule.toml"


class TaskPlan(BaseModel):
    """When a task is woken. A tick is only a wake-up: what there is to do is asked of the database and the spool."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: From one tick to the next, in seconds.
    every_s: float = Field(gt=0)
    #: A task that is still at work after so long, in seconds, is reported as hung.
    hung_after_s: float = Field(gt=0)


class Schedule(BaseModel):
    """What runs when, and how what failed is tried again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: A tick that comes later than this, in seconds, is left out; the next one does its work.
    misfire_grace_s: int = Field(ge=1)
    #: A task that failed rests so long, in seconds, and twice as long with each further failure in a row,
    retry_first_s: float = Field(gt=0)
    #: but not longer than this, in seconds.
    retry_most_s: float = Field(gt=0)
    #: By the name of the task.
    task: dict[str, TaskPlan]


def load_schedule(path: Path | None, known: Collection[str]) -> Schedule:
    """Read a schedule, the shipped one where none is given.

    Raises SettingsError where it can't be read, is no schedule, or names a task that is not `known`.
    """
    name = str(path or _SHIPPED)
    try:
        text = (asset(_SHIPPED) if path is None else path).read_text(encoding="utf-8")
        schedule = Schedule.model_validate(tomllib.loads(text))
    except OSError as error:
        raise SettingsError(f"{name}: can't be read: {error.strerror}") from error
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False))
        raise SettingsError(f"{name}: {problems}") from None
    except ValueError as error:
        raise SettingsError(f"{name}: is no TOML: {error}") from error
    unknown = sorted(schedule.task.keys() - set(known))
    if unknown:
        raise SettingsError(f"{name}: there is no task {unknown[0]}; there are {', '.join(sorted(known))}")
    return schedule
