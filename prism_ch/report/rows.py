"""Holds the rows of the questions that reports and pages ask; their fields are the columns, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job, of show_jobs.sql; `jobs` counts those of all pages, the last three are over all jobs, chosen or not."""

    job_id: str
    tenant: str
    status: str
    gpus: int
    servers: int
    dp_size: int
    pp_size: int
    steps: int
    step_s: float
    first_ns: int
    last_ns: int
    open_incidents: int
    worst: str
    jobs: int
    running: int
    stalled: int
    gpus_in_jobs: int


@dataclass(frozen=True, slots=True)
class HoursRow:
    """GPU-hours of a job on which a cause lay, and what of them was lost, of show_hours.sql."""

    job_id: str
    cause: str
    gpu_h: float
    lost_gpu_h: float


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """An incident, of show_incidents.sql; the last four are over all that fit."""

    incident_id: str
    kind: str
    subject_type: str
    subject: str
    may_also_be: Sequence[str]
    confidence: float
    severity: str
    status: str
    start_ns: int
    end_ns: int
    jobs: Sequence[str]
    gpus: int
    lost_gpu_h: float
    slowdown: float
    summary: str
    action: str
    incidents: int
    critical: int
    warning: int
    lost_by_all: float


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A finding, of show_findings.sql."""

    diagnosis_id: str
    job_id: str
    kind: str
    subject: str
    severity: str
    status: str
    first_step: int
    last_step: int
    start_ns: int
    end_ns: int
    observed: float
    expected: float
    score: float
    slowdown: float
    confidence: float
    summary: str
    observed_s: Sequence[float]
    expected_s: Sequence[float]


@dataclass(frozen=True, slots=True)
class MarkRow:
    """The steps of a job on which an incident lies, of show_marks.sql."""

    incident_id: str
    first_step: int
    last_step: int


@dataclass(frozen=True, slots=True)
class PartRow:
    """Steps before, during or after a finding, of show_before_and_after.sql."""

    part: str
    steps: int
    step_s: float
    step_s_p95: float
    compute_s: float
    pp_s: float
    dp_s: float


@dataclass(frozen=True, slots=True)
class CulpritRow:
    """A culprit and its peers in a step, of show_culprit.sql."""

    step: int
    culprit_s: float
    peers_s: float
    peers_low_s: float
    peers_high_s: float


@dataclass(frozen=True, slots=True)
class PointRow:
    """A point of a chart of step times, of show_step_times.sql."""

    first_step: int
    last_step: int
    start_ns: int
    step_s: float
    longest_s: float
    compute_s: float
    pp_s: float
    dp_s: float


@dataclass(frozen=True, slots=True)
class GpuRow:
    """A GPU of a job, of show_gpus.sql."""

    server: str
    gpu: int
    endpoint: str
    pp_stage: int
    work_s: float
    excess: float
    steps: int


@dataclass(frozen=True, slots=True)
class StepRow:
    """A step, of show_slowest_step.sql and show_step.sql."""

    step: int
    start_ns: int
    end_ns: int
    duration_s: float
    compute_s: float
    pp_s: float
    dp_s: float
    slowest_endpoints: Sequence[str]


@dataclass(frozen=True, slots=True)
class PhasesRow:
    """What a GPU did in a step, of show_timeline.sql; `gpus` counts those of all pages."""

    server: str
    gpu: int
    endpoint: str
    waited_s: float
    phases: Sequence[tuple[str, int, int]]
    gpus: int


@dataclass(frozen=True, slots=True)
class SeenRow:
    """How much of a job is seen, of show_visibility.sql."""

    windows: int
    share: float
    least: float
    why: str
    complete_steps: int
    steps: int


@dataclass(frozen=True, slots=True)
class DelayRow:
    """How much slower bytes went from a sender to a receiver, of show_delays.sql."""

    sender: str
    receiver: str
    slower: float


@dataclass(frozen=True, slots=True)
class WhatIfRow:
    """What steps would have taken without a cause, of report_what_if.sql."""

    job_id: str
    incident_id: str
    without: str
    first_step: int
    last_step: int
    actual_s: float
    replayed_s: float
    without_s: float
    saved_gpu_h: float


@dataclass(frozen=True, slots=True)
class StragglersRow:
    """How much of a job's GPU time stragglers cost, of list_stragglers.sql; `job_id` is empty for all jobs together."""

    job_id: str
    gpu_h: float
    lost_gpu_h: float
    share: float | None
    worst_1: float | None
    worst_3: float | None
    worst_10: float | None


@dataclass(frozen=True, slots=True)
class OverviewRow:
    """Counts over all jobs, of show_overview.sql."""

    running: int
    stalled: int
    gpus_in_jobs: int


@dataclass(frozen=True, slots=True)
class HealthRow:
    """How a part of the service stands, of show_health.sql."""

    name: str
    state: str
    what: str
    mend: str
    checked_ns: int


@dataclass(frozen=True, slots=True)
class StepsRow:
    """A step in a list, of show_steps.sql; `steps` counts those of all pages."""

    step: int
    start_ns: int
    end_ns: int
    duration_s: float
    compute_s: float
    pp_s: float
    dp_s: float
    slowest_endpoints: Sequence[str]
    steps: int


@dataclass(frozen=True, slots=True)
class HostRow:
    """A job that a server was in, of show_host.sql."""

    job_id: str
    tenant: str
    status: str
    gpus: int
    endpoints: Sequence[str]
    steps: int
    first_ns: int
    last_ns: int
