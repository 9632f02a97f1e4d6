"""Writes what the analysis remembers of jobs, findings and incidents as JSON, and reads it back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from prism_ch.errors import StoreError
from prism_ch.model.finding import Baseline
from prism_ch.model.incident import JobCost
from prism_ch.model.memory import Attempt, UsualComputeTime


@dataclass(frozen=True, slots=True)
class JobNotes:
    """What is remembered of a job and shown in no view; `version` changes with the meaning of any field."""

    attempt: Attempt
    usual_compute: UsualComputeTime
    version: Literal[1] = 1


_JOB = TypeAdapter(JobNotes)
_BASELINE = TypeAdapter(Baseline)
_COSTS = TypeAdapter(tuple[JobCost, ...])


def write_job_notes(notes: JobNotes) -> str:
    """Write a job's notes as JSON."""
    return _JOB.dump_json(notes).decode()


def read_job_notes(job_id: str, text: str) -> JobNotes:
    """Read a job's notes, none from an empty text. Raises StoreError if another version of prism-ch wrote them."""
    try:
        return _JOB.validate_json(text) if text else JobNotes(Attempt(), UsualComputeTime())
    except ValidationError as error:
        raise StoreError(f"what is remembered of {job_id} was written by another version of prism-ch") from error


def write_baseline(baseline: Baseline) -> str:
    """Write a finding's baseline as JSON, empty where nothing of it is set."""
    return "" if baseline == Baseline() else _BASELINE.dump_json(baseline, exclude_defaults=True).decode()


def read_baseline(text: str) -> Baseline:
    """Read a finding's baseline."""
    return _BASELINE.validate_json(text) if text else Baseline()


def write_costs(costs: tuple[JobCost, ...]) -> str:
    """Write what an incident cost each job as JSON."""
    return _COSTS.dump_json(costs).decode()


def read_costs(text: str) -> tuple[JobCost, ...]:
    """Read what an incident cost each job."""
    return _COSTS.validate_json(text)
