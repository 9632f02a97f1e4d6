"""What is found to be wrong with a job or a switch, and what later windows must remember of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

FindingKind = Literal[
    "slow_step",
    "slow_group",
    "slow_switch",
    "slow_gpu",
    "slow_nic",
    "slow_link",
    "congestion",
    "stall",
    "hang",
    "restart",
    "imbalance",
    "telemetry",
]
SubjectType = Literal["job", "group", "endpoint", "server", "switch", "link", "exporter", "stage"]
Severity = Literal["info", "warning", "critical"]
#: What a replayed step shows of who slows it: a pause in one operation, that most took longer, or one of the two.
Shown = Literal["nothing", "pause", "slow", "either"]

#: Kinds on what moves data.
NETWORK_KINDS: tuple[FindingKind, ...] = ("slow_nic", "slow_link", "slow_switch", "slow_group", "congestion")


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a finding was compared with, which later windows go on comparing with.

    `compute_s`: usual seconds of computing in a step, by endpoint address. `s_per_byte`: usual seconds a byte, by way
    ("a->b", or "group N of JOB"). `usual_since`: the step since which slow steps count as usual, None where they don't.
    `other_work`: the steps do something else, and nobody slows them; `maybe_other_work`: records do not show whether
    that is so. `records_missing`: `exporters` fell silent,
    and `jobs` go on, as others see; none where whole jobs are hidden. `hidden` of `around`
    endpoints were seen by them alone.
    `presumed`: members of a job connect anew; whether that is a restart its steps will show, and messages before them.
    `early`: a stop is told of before the step after it has shown what it was.
    `maybe_ended`: a job fell silent between two steps, and whether it goes on nothing shows yet.
    """

    compute_s: Mapping[str, float] = field(default_factory=dict)
    s_per_byte: Mapping[str, float] = field(default_factory=dict)
    usual_since: int | None = None
    other_work: bool = False
    maybe_other_work: bool = False
    records_missing: bool = False
    presumed: bool = False
    early: bool = False
    maybe_ended: bool = False
    exporters: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    hidden: int = 0
    around: int = 0


@dataclass(frozen=True, slots=True)
class Cause:
    """Who slows the steps of a finding, or else may."""

    kind: FindingKind
    subject: str
    may_also_be: tuple[str, ...] = ()
    subject_type: SubjectType = "endpoint"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding; its identity is `diagnosis_id`, all else may be updated while it lasts (contract, `diagnoses`).

    `evidence` is for readers: the analysis writes it and never reads it. What it goes by itself is typed: `about`, the
    addresses and ways ("a->b") that the finding concerns, `may_also_be`, others that explain the same flows, `cause`,
    and `baseline`, the only one of these that is remembered.
    `confidence`, in 0..1, is the probability that the subject is right. `incident_id` names the incident that it
    belongs to, empty where it belongs to none. `lost_s` are the seconds that a job lost to a stop so far; of what is
    slow, the steps tell. `jobs` are those that a place concerns where it is no single one, and `slowdowns` the share of
    its time that each loses, by job_id. `shown`: what its only step shows of who slows it.
    """

    diagnosis_id: str
    kind: FindingKind
    subject_type: SubjectType
    subject: str
    first_step: int
    last_step: int
    start_ns: int
    end_ns: int
    status: Literal["open", "closed"]
    severity: Severity
    observed: float
    expected: float
    score: float
    slowdown: float
    summary: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    about: tuple[str, ...] = ()
    may_also_be: tuple[str, ...] = ()
    cause: Cause | None = None
    baseline: Baseline = field(default_factory=Baseline)
    confidence: float = 0.0
    incident_id: str = ""
    lost_s: float = 0.0
    jobs: tuple[str, ...] = ()
    slowdowns: Mapping[str, float] = field(default_factory=dict)
    shown: Shown = "nothing"

    def remembered(self) -> Finding:
        """Return what later windows know of it. What only the window that found it goes by is left out."""
        return replace(self, about=(), may_also_be=(), cause=None, lost_s=0.0, jobs=(), slowdowns={}, shown="nothing")

    def of_ended_job(self) -> Finding:
        """Return it closed, as its job is over. Silence that was the job's end costs nothing."""
        if not self.baseline.maybe_ended:
            return replace(self, status="closed")
        ended = f"The job fell silent after step {self.first_step - 1} and did not go on: it ended."
        return replace(self, status="closed", severity="info", slowdown=0.0, lost_s=0.0, summary=ended)

    def order(self) -> tuple[int, str]:
        """Return what findings are ordered by: start and identity."""
        return self.start_ns, self.diagnosis_id
