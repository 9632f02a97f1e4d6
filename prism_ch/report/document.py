"""Composes the report: one HTML file that says where GPU-hours went, to be read, sent and printed as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup

from prism_ch.errors import UsageError
from prism_ch.model.window import Interval
from prism_ch.report import gpu_time
from prism_ch.report.ask import ALWAYS, SECOND_NS, Ask, read, span, span_in_seconds, whole_seconds
from prism_ch.report.drawing.bars import Part, total
from prism_ch.report.drawing.palette import LOSSES
from prism_ch.report.incident_view import IncidentView, view_incident
from prism_ch.report.job_view import JobView, view_job
from prism_ch.report.page import render
from prism_ch.report.rows import HoursRow, IncidentRow, JobRow, StragglersRow, WhatIfRow

#: Without --from a report reaches back so far, at most.
_WEEK_NS = 7 * 86_400 * SECOND_NS
#: Jobs and incidents that are shown with drawings; the others are in tables. A file should stay small enough to send.
_JOBS_DRAWN, _INCIDENTS_DRAWN = 3, 8
_JOBS_LISTED, _INCIDENTS_LISTED = 100, 100
#: How much before and after an incident its report shows, as a multiple of its length, and at least, in seconds.
_MARGIN, _MARGIN_LEAST_S = 1.0, 60


@dataclass(frozen=True, slots=True)
class Subject:
    """What a report is about; a text that is empty leaves it open.

    `tenant` is whose rows are shown, None for all. `from_ns` and `to_ns` are None where they follow from the rest.
    """

    job_id: str = ""
    incident_id: str = ""
    tenant: str | None = None
    from_ns: int | None = None
    to_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Hours:
    """GPU-hours of jobs, in all and by cause, the dearest first."""

    gpu_h: float
    lost_gpu_h: float
    causes: Sequence[tuple[str, float]]
    drawn: Markup

    @property
    def healthy(self) -> float | None:
        """The share that was not lost; None without any."""
        return 1 - self.lost_gpu_h / self.gpu_h if self.gpu_h else None


@dataclass(frozen=True, slots=True)
class Report:
    """All that a report shows.

    `jobs_lost` has the GPU-hours that each job took and lost. `what_if` and `stragglers` are empty where no replay is
    stored.
    """

    subject: Subject
    within: Interval
    made_ns: int
    jobs: Sequence[JobRow]
    jobs_counted: int
    jobs_lost: dict[str, tuple[float, float]]
    hours: Hours
    incidents: Sequence[IncidentRow]
    incidents_counted: int
    views: Sequence[IncidentView]
    job_views: Sequence[JobView]
    what_if: Sequence[WhatIfRow]
    stragglers: Sequence[StragglersRow]


def write_report(ask: Ask, subject: Subject, progress: Callable[[int, int], None] | None = None) -> str:
    """Read what a report shows, and write it as one HTML page.

    Parameters: `progress` takes how many parts are done, and of how many.
    Raises UsageError if there is no such job or incident, or nothing of it in the span.
    """
    return render("report.html", report=_gather(ask, subject, progress or (lambda _done, _all: None)))


def _gather(ask: Ask, subject: Subject, progress: Callable[[int, int], None]) -> Report:
    """Read a report.

    1. The span: that of the incident or of the jobs, unless it is given.
    2. Jobs, incidents and GPU-hours in it.
    3. Drawings of the worst incidents, and of the jobs that lost most.
    """
    incident = _incident(ask, subject)
    within = _span(ask, subject, incident)
    jobs = _jobs(ask, subject, incident, within)
    incidents = _incidents(ask, subject, within)
    hours = read(ask, HoursRow, "show_hours", job_id=subject.job_id, **span_in_seconds(within))
    chosen = {job.job_id for job in jobs}
    if incident is not None:
        hours = [row for row in hours if row.job_id in chosen]
    lost = _by_job(hours)
    drawn_jobs = sorted(jobs, key=lambda job: (-lost.get(job.job_id, (0.0, 0.0))[1], job.job_id))[:_JOBS_DRAWN]
    drawn_incidents = incidents[:_INCIDENTS_DRAWN]
    parts = len(drawn_incidents) + len(drawn_jobs)
    views: list[IncidentView] = []
    job_views: list[JobView] = []
    for row in drawn_incidents:
        progress(len(views), parts)
        views.append(view_incident(ask, row, subject.job_id))
    for job in drawn_jobs:
        progress(len(views) + len(job_views), parts)
        job_views.append(view_job(ask, job, within, incidents[:_INCIDENTS_LISTED]))
    progress(parts, parts)
    return Report(
        subject=subject,
        within=within,
        made_ns=int(datetime.now(UTC).timestamp()) * SECOND_NS,
        jobs=jobs,
        jobs_counted=jobs[0].jobs if jobs and incident is None else len(jobs),
        jobs_lost=lost,
        hours=_hours(hours),
        incidents=incidents,
        incidents_counted=incidents[0].incidents if incidents else 0,
        views=views,
        job_views=job_views,
        what_if=_what_if(ask, subject),
        stragglers=read(ask, StragglersRow, "list_stragglers", job_id=subject.job_id) if incident is None else (),
    )


def _incident(ask: Ask, subject: Subject) -> IncidentRow | None:
    """Read the incident that a report is about; None if it is about another thing."""
    if not subject.incident_id:
        return None
    found = _read_incidents(ask, ALWAYS, incident_id=subject.incident_id)
    if not found:
        raise UsageError(f"there is no incident {subject.incident_id[:80]}; `prism-ch incidents` lists them")
    return found[0]


def _span(ask: Ask, subject: Subject, incident: IncidentRow | None) -> Interval:
    """Return the span that a report shows, in whole seconds."""
    if incident is not None:
        margin_ns = max(int((incident.end_ns - incident.start_ns) * _MARGIN), _MARGIN_LEAST_S * SECOND_NS)
        start_ns, end_ns = max(incident.start_ns - margin_ns, 0), incident.end_ns + margin_ns
    else:
        [[seen, first_ns, last_ns]] = ask("show_span", job_id=subject.job_id)
        if subject.job_id and not seen:
            raise UsageError(f"there is no job {subject.job_id[:80]}; `prism-ch jobs` lists them")
        end_ns = max(last_ns, 0) + 1
        start_ns = max(first_ns, end_ns - _WEEK_NS, 0)
    start_ns = start_ns if subject.from_ns is None else subject.from_ns
    end_ns = end_ns if subject.to_ns is None else subject.to_ns
    if start_ns >= end_ns:
        raise UsageError("nothing lies in the span: --from must be before --to, and before the last that was seen")
    return whole_seconds(Interval(start_ns, end_ns))


def _jobs(ask: Ask, subject: Subject, incident: IncidentRow | None, within: Interval) -> list[JobRow]:
    if incident is not None:
        return [job for each in incident.jobs[:_JOBS_LISTED] for job in _read_jobs(ask, ALWAYS, each, rows=1)]
    found = _read_jobs(ask, within, subject.job_id, rows=_JOBS_LISTED)
    if subject.job_id and not found:
        raise UsageError(f"the job {subject.job_id[:80]} was not seen between --from and --to")
    return found


def _read_jobs(ask: Ask, within: Interval, job_id: str, rows: int) -> list[JobRow]:
    asked = {"job_id": job_id, "named": "", "only_open": 0, "rows": rows, "first_row": 0}
    return read(ask, JobRow, "show_jobs", **asked, **span(within))


def _incidents(ask: Ask, subject: Subject, within: Interval) -> list[IncidentRow]:
    """Read the incidents, the worst first, whether they are open or not."""
    found = _read_incidents(ask, within, incident_id=subject.incident_id, job_id=subject.job_id)
    ranks = {"critical": 0, "warning": 1, "info": 2}
    return sorted(found, key=lambda row: (ranks[row.severity], -row.lost_gpu_h, row.start_ns))


def _read_incidents(ask: Ask, within: Interval, incident_id: str = "", job_id: str = "") -> list[IncidentRow]:
    asked = {"incident_id": incident_id, "job_id": job_id, "named": [], "only_open": 0, "rows": _INCIDENTS_LISTED}
    return read(ask, IncidentRow, "show_incidents", **asked, **span(within))


def _by_job(rows: Sequence[HoursRow]) -> dict[str, tuple[float, float]]:
    lost: dict[str, tuple[float, float]] = {}
    for row in rows:
        gpu_h, lost_gpu_h = lost.get(row.job_id, (0.0, 0.0))
        lost[row.job_id] = gpu_h + row.gpu_h, lost_gpu_h + row.lost_gpu_h
    return lost


def _hours(rows: Sequence[HoursRow]) -> Hours:
    """Add up GPU-hours by cause, and draw them."""
    causes: dict[str, float] = {}
    for row in rows:
        if row.lost_gpu_h > 0:
            causes[row.cause] = causes.get(row.cause, 0.0) + row.lost_gpu_h
    ordered = sorted(causes.items(), key=lambda cause: (-cause[1], cause[0]))
    gpu_h, lost_gpu_h = sum(row.gpu_h for row in rows), sum(row.lost_gpu_h for row in rows)
    healthy_h = gpu_h - lost_gpu_h
    parts = [Part("healthy", healthy_h, gpu_time(max(healthy_h, 0.0)), "f-series-good")]
    parts += [Part(cause, lost, gpu_time(lost), loss_class("f", nth)) for nth, (cause, lost) in enumerate(ordered)]
    words = ", ".join(f"{part.name} {part.written}" for part in parts)
    return Hours(gpu_h, lost_gpu_h, ordered, total(f"GPU-hours: {words}", parts) if rows else Markup(""))


def loss_class(prefix: str, nth: int) -> str:
    """Return the class that colours the cause that is the nth dearest."""
    return f"{prefix}-loss-{nth % len(LOSSES)}"


def _what_if(ask: Ask, subject: Subject) -> list[WhatIfRow]:
    """Read what was replayed."""
    return read(ask, WhatIfRow, "report_what_if", job_id=subject.job_id, incident_id=subject.incident_id)
