"""An incident: what is wrong at one place in one stretch of time, over all jobs that it concerns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from prism_ch.model.finding import FindingKind, Severity, SubjectType


@dataclass(frozen=True, slots=True)
class JobCost:
    """What an incident cost one job so far.

    It lost `lost_s` seconds: `unseen_s` while the incident grew and nobody saw it, the others of the `time_s` that it
    took since. Steps count up to `until_ns`, each by what it took beyond `usual_s`, 0 where that is unknown. The lost
    share is taken of `least_s` seconds at the least: steps vary, and where no part of the job is named, one long step
    is no share of its time.
    """

    job_id: str
    tenant: str
    gpus: int
    lost_s: float = 0.0
    time_s: float = 0.0
    least_s: float = 0.0
    until_ns: int = 0
    unseen_s: float = 0.0
    usual_s: float = 0.0

    @property
    def lost_gpu_s(self) -> float:
        """Seconds lost over all its GPUs."""
        return self.lost_s * self.gpus

    @property
    def share(self) -> float:
        """The lost share of the job's time while it lasts, in 0..1."""
        return min(self.seen_s / self.taken_s, 1.0) if self.taken_s > 0 else 0.0

    @property
    def seen_s(self) -> float:
        """What it lost since somebody saw it, in seconds."""
        return self.lost_s - self.unseen_s

    @property
    def taken_s(self) -> float:
        """The time that its share is taken of, in seconds."""
        return max(self.time_s, self.least_s)


@dataclass(frozen=True, slots=True)
class Incident:
    """One row of `incidents` (contract); `tenant` is empty for the whole, else it is that tenant's part.

    `noted_ns` is the start of the window that showed it first: what a later working of that window finds replaces it.
    `is_withdrawn`: it turned out to be part of another one, or of nothing.
    """

    incident_id: str
    kind: FindingKind
    subject_type: SubjectType
    subject: str
    may_also_be: tuple[str, ...]
    confidence: float
    noted_ns: int
    start_ns: int
    end_ns: int
    status: Literal["open", "closed"]
    severity: Severity
    summary: str
    action: str
    costs: tuple[JobCost, ...] = ()
    tenant: str = ""
    is_withdrawn: bool = False

    @property
    def jobs(self) -> tuple[str, ...]:
        """The jobs that it concerns, sorted."""
        return tuple(sorted(cost.job_id for cost in self.costs))

    @property
    def tenants(self) -> tuple[str, ...]:
        """Their tenants, sorted."""
        return tuple(sorted({cost.tenant for cost in self.costs} - {""}))

    @property
    def gpus(self) -> int:
        """GPUs in those jobs."""
        return sum(cost.gpus for cost in self.costs)

    @property
    def lost_gpu_h(self) -> float:
        """GPU-hours lost so far."""
        return sum(cost.lost_gpu_s for cost in self.costs) / 3600

    @property
    def slowdown(self) -> float:
        """The lost share of those jobs' time while it lasts, in 0..1."""
        taken_gpu_s = sum(cost.taken_s * cost.gpus for cost in self.costs)
        lost_gpu_s = sum(cost.seen_s * cost.gpus for cost in self.costs)
        return min(lost_gpu_s / taken_gpu_s, 1.0) if taken_gpu_s > 0 else 0.0
