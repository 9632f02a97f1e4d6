"""Findings: how they are made, named and graded, and where in a job they lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal, TypedDict, Unpack

from prism_ch.analysis.diagnose.episodes import Episode
from prism_ch.model.finding import Baseline, Cause, Finding, FindingKind, Severity, SubjectType
from prism_ch.model.job import Division
from prism_ch.model.params import ConfidenceParams, DiagnoseParams
from prism_ch.model.params.shared import SharedParams

#: Rows of evidence kept with a finding: enough to check it, few enough to read.
EVIDENCE_ROWS = 64

#: Confidence in a job where evidence singles out none of its parts.
UNNAMED = 0.05

#: Types of places that hold all endpoints that may be to blame.
HOLDING = ("server", "group", "stage")


def confidence_in(subject_type: SubjectType | Literal["spines"], others: int = 0) -> float:
    """Return how likely a place is right that evidence singles out.

    Parameters: `subject_type`, where no record names a switch above the leaves `spines`; `others`, how many others
    leave the same records. Any of them may be it as well, unless the place holds them.
    """
    right: float = getattr(_CONFIDENCE, subject_type)
    return right if subject_type in HOLDING else right / (1 + others)


def confidence_in_one_step(subject_type: SubjectType) -> float:
    """Return how likely a place is right that a single slow step shows.

    It may have been a hiccup.
    """
    return confidence_in(subject_type) * _CONFIDENCE.single_step


_CONFIDENCE = ConfidenceParams()


@dataclass(frozen=True, slots=True)
class Place:
    """Where an attempt lies in its job: `first_step` numbers the division's first step.

    `begins` if the attempt begins with that step. `params` are those by which the attempt is diagnosed.
    """

    job_id: str
    first_step: int
    params: DiagnoseParams
    begins: bool = True

    def extent(self, division: Division, episode: Episode) -> Extent:
        """Return where an episode of a division's steps lies."""
        end_ns = division.job_end_ns()
        return Extent(
            self.first_step + episode.first,
            self.first_step + episode.last,
            int(end_ns[max(episode.first - 1, 0)]),
            int(end_ns[episode.last]),
            is_open=not episode.closed,
        )


@dataclass(frozen=True, slots=True)
class Extent:
    """Where a finding lies: its first and last step, its time, and whether it still lasts."""

    first_step: int
    last_step: int
    start_ns: int
    end_ns: int
    is_open: bool = True


@dataclass(frozen=True, slots=True)
class Measured:
    """What a finding rests on: observed and expected, their distance in robust deviations, the lost share of time."""

    observed: float
    expected: float
    score: float = 0.0
    slowdown: float = 0.0


class Typed(TypedDict, total=False):
    """The fields of Finding that later stages and windows go by, besides its evidence."""

    about: tuple[str, ...]
    may_also_be: tuple[str, ...]
    cause: Cause | None
    baseline: Baseline
    confidence: float
    lost_s: float
    jobs: tuple[str, ...]


def make_finding(
    kind: FindingKind,
    subject: tuple[SubjectType, str],
    diagnosis_id: str,
    extent: Extent,
    measured: Measured,
    severity: Severity,
    summary: str,
    evidence: Mapping[str, Any],
    **typed: Unpack[Typed],
) -> Finding:
    """Put a finding together; the parameters are the fields of Finding."""
    return Finding(
        diagnosis_id=diagnosis_id,
        kind=kind,
        subject_type=subject[0],
        subject=subject[1],
        first_step=extent.first_step,
        last_step=extent.last_step,
        start_ns=extent.start_ns,
        end_ns=extent.end_ns,
        status="open" if extent.is_open else "closed",
        severity=severity,
        observed=measured.observed,
        expected=measured.expected,
        score=measured.score,
        slowdown=measured.slowdown,
        summary=summary,
        evidence=evidence,
        **typed,
    )


def identity(job_id: str, kind: FindingKind, subject: str, begin: int) -> str:
    """Name a finding by its subject and beginning. The same flows give the same name."""
    return blake2b(f"{job_id}\n{kind}\n{subject}\n{begin}".encode(), digest_size=8).hexdigest()


def severity(slowdown: float, params: SharedParams) -> Severity:
    """Grade the lost share of the job's time."""
    if slowdown >= params.critical_slowdown:
        return "critical"
    return "warning" if slowdown >= params.warning_slowdown else "info"
