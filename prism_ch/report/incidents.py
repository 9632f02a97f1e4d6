"""Lays out the incidents of the summary, and the findings that are of none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prism_ch.model.finding import FindingKind, Severity, SubjectType
from prism_ch.report import count, gpu_time, time_utc
from prism_ch.report.lines import Line, labelled

#: Exporters with too coarse records that are listed one by one; a fabric has hundreds, configured alike.
_EXPORTERS_LISTED = 3
#: Names that are listed of what may be to blame as well, and of jobs that one incident slows.
_NAMES_LISTED = 8
#: From this confidence on a culprit is named without a word on how sure that is.
_SURE = 0.9

_STYLES: dict[Severity, str] = {"critical": "bold red", "warning": "yellow", "info": "dim"}
_RANK: dict[Severity, int] = {"critical": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, slots=True)
class Incident:
    """An incident as the summary shows it.

    `first_step` and `last_step` are None unless its findings are on the steps of one job.
    """

    incident_id: str
    kind: FindingKind
    subject_type: SubjectType
    subject: str
    may_also_be: Sequence[str]
    confidence: float
    severity: Severity
    is_open: bool
    start_ns: int
    end_ns: int
    first_step: int | None
    last_step: int | None
    jobs: Sequence[str]
    lost_gpu_h: float
    slowdown: float
    summary: str
    action: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A diagnosis of no incident as the summary shows it. `job_id` is empty for a switch or exporter."""

    job_id: str
    kind: FindingKind
    severity: Severity
    is_open: bool
    first_step: int
    last_step: int
    start_ns: int
    end_ns: int
    summary: str


def worst(job_id: str, incidents: Sequence[Incident]) -> int:
    """Return the rank of a job's worst incident, from 0. A job without any comes last."""
    return min((_RANK[one.severity] for one in incidents if job_id in one.jobs), default=len(_RANK))


def about_job(
    job_id: str, incidents: Sequence[Incident], findings: Sequence[Finding], *, has_steps: bool
) -> Iterator[Line]:
    """Yield what slows one job.

    1. How many incidents concern it, those of several jobs too.
    2. The incidents that concern it alone.
    3. Its findings of no incident.
    4. Exporters whose records are too coarse or missing.
    """
    mine = [one for one in incidents if job_id in one.jobs]
    yield from _verdict(mine, has_steps=has_steps)
    alone = [one for one in mine if len(one.jobs) == 1]
    for one in _worst_first(one for one in alone if one.kind != "telemetry"):
        yield from _incident(one)
    for finding in findings:
        if finding.job_id == job_id:
            yield from _finding(finding)
    coarse = _worst_first(one for one in alone if one.kind == "telemetry")
    for one in coarse[:_EXPORTERS_LISTED]:
        yield from _incident(one)
    if len(coarse) > _EXPORTERS_LISTED:
        yield from labelled("", f"and likewise {count(len(coarse) - _EXPORTERS_LISTED, 'more exporter')}", "dim")


def of_several_jobs_or_none(incidents: Sequence[Incident], findings: Sequence[Finding]) -> Iterator[Line]:
    """Yield incidents of several jobs or of none. Findings on no job follow."""
    for one in _worst_first(one for one in incidents if len(one.jobs) != 1):
        yield from _incident(one)
    for finding in findings:
        if not finding.job_id:
            yield from _finding(finding)


def _verdict(mine: Sequence[Incident], *, has_steps: bool) -> Iterator[Line]:
    """Yield how many things slow a job.

    A job without steps is not called healthy, nor one that is not seen whole.
    """
    slowing = [one for one in mine if one.kind != "telemetry"]
    costly = [one for one in slowing if one.severity != "info"]
    shared = sum(len(one.jobs) > 1 for one in costly)
    where = f"; {count(shared, 'is', 'are')} shared with other jobs, see below" if shared else ""
    if costly:
        yield from labelled("incidents", f"{count(len(costly), 'thing slows it', 'things slow it')}{where}")
    elif slowing:
        yield from labelled("incidents", "nothing slows it much", "green")
    elif any(one.severity != "info" for one in mine):
        yield from labelled("incidents", "nothing that is seen slows it, but records are missing", "yellow")
    elif has_steps:
        yield from labelled("incidents", "nothing slows it", "green")


def _worst_first(incidents: Iterator[Incident]) -> list[Incident]:
    return sorted(incidents, key=lambda one: _RANK[one.severity])


def _incident(one: Incident) -> Iterator[Line]:
    """Yield an incident's sentence, what to do, how sure that is, time and cost."""
    yield from labelled(f"  {one.severity}", one.summary, _STYLES[one.severity])
    if one.severity != "info":
        yield from labelled("", one.action)
    if one.confidence < _SURE or one.may_also_be:
        whose = "" if one.subject in one.summary else f" that it is {one.subject}"
        # Of a server, what it may also be are its own GPUs.
        such = "one of" if one.subject_type == "server" else "may also be"
        also = f"; {such} {_listed(one.may_also_be)}" if one.may_also_be else ""
        yield from labelled("", f"{one.confidence:.0%} sure{whose}{also}")
    yield from labelled("", ", ".join(_facts(one)), "dim")


def _facts(one: Incident) -> Iterator[str]:
    yield one.kind
    if one.first_step is not None and one.last_step is not None:
        yield f"steps {one.first_step:,} to {one.last_step:,}"
    yield _span(one.start_ns, one.end_ns, is_open=one.is_open)
    if one.lost_gpu_h > 0:
        whose = "its" if len(one.jobs) == 1 else "their"
        yield f"cost {gpu_time(one.lost_gpu_h)}, {one.slowdown:.0%} of {whose} time"
    if len(one.jobs) > 1:
        yield f"{len(one.jobs)} jobs: {_listed(one.jobs)}"


def _finding(finding: Finding) -> Iterator[Line]:
    yield from labelled(f"  {finding.severity}", finding.summary, _STYLES[finding.severity])
    steps = [f"steps {finding.first_step:,} to {finding.last_step:,}"] if finding.job_id else []
    facts = [finding.kind, *steps, _span(finding.start_ns, finding.end_ns, is_open=finding.is_open)]
    yield from labelled("", ", ".join(facts), "dim")


def _span(start_ns: int, end_ns: int, *, is_open: bool) -> str:
    since, until = time_utc(start_ns), time_utc(end_ns)
    day = since[: len("2026-01-01 ")]
    return f"since {since} UTC, " + ("still going on" if is_open else f"until {until.removeprefix(day)}")


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_LISTED
    return ", ".join(names[:_NAMES_LISTED]) + (f" and {more:,} more" if more > 0 else "")
