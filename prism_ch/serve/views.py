"""Makes the pages: jobs and incidents on top, then a job, an incident, a step, a server, a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from prism_ch.errors import PrismError
from prism_ch.model.window import Interval
from prism_ch.report.ask import ALWAYS, SECOND_NS, Ask, Question, read, rows_of, span
from prism_ch.report.document import Subject, write_report
from prism_ch.report.incident_view import view_incident
from prism_ch.report.job_view import TIMELINE_GPUS, draw_gpus, draw_phases, read_phases, view_job
from prism_ch.report.page import render
from prism_ch.report.rows import GpuRow, HealthRow, HostRow, IncidentRow, JobRow, OverviewRow, StepRow, StepsRow
from prism_ch.serve.request import RequestError

#: Rows of a page of jobs and of steps.
JOBS_ROWS, STEPS_ROWS = 50, 50
_INCIDENTS_ROWS = 100
#: The most steps of a trace that a page links to; the command writes more.
_TRACE_STEPS = 100
#: Jobs whose GPUs a server's page compares with their peers, over so many of their latest steps.
_HOST_JOBS, _HOST_STEPS = 4, 80
#: The shortest span that a timeline is zoomed to.
_ZOOM_LEAST_NS = 1000
_NUMBER_DIGITS_MAX = 15


class NotThereError(PrismError):
    """There is no such thing, or the reader may not see it."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Whose page it is; `tenant` is whose rows he sees, None for all."""

    name: str
    tenant: str | None


@dataclass(frozen=True, slots=True)
class Zoom:
    """The part of a step that is shown, and where its links lead, in seconds since the start of the step."""

    since_s: float
    until_s: float
    lasts_s: float

    def part(self, begin: float, end: float) -> tuple[float, float]:
        """Return a part by shares of what is shown. 0 to 1 is all of it, and more is zoomed out."""
        shown = self.until_s - self.since_s
        since_s = max(self.since_s + begin * shown, 0.0)
        return round(since_s, 9), round(min(self.since_s + end * shown, self.lasts_s), 9)

    @property
    def is_whole(self) -> bool:
        """Whether the whole step is shown."""
        return self.since_s <= 0 and self.until_s >= self.lasts_s


def view_overview(ask: Ask, reader: Reader, given: Mapping[str, str]) -> str:
    """Make the first page: health, open incidents, jobs."""
    page = whole_number(given, "page")
    named, only_open = given.get("named", ""), int(given.get("open", "") == "1")
    asked = {"job_id": "", "named": named, "only_open": only_open, "rows": JOBS_ROWS, "first_row": page * JOBS_ROWS}
    questions: list[Question] = [("show_jobs", {**asked, **span(ALWAYS)}), ("show_incidents", _about(only_open=1))]
    if reader.tenant is None:
        questions.append(("show_health", {}))
    listed, wrong, *lights = ask.together(questions)
    jobs = rows_of(JobRow, listed)
    counts = jobs[0] if jobs else read(ask, OverviewRow, "show_overview")[0]
    return render(
        "page_overview.html",
        reader=reader,
        path="/",
        counts=counts,
        health=rows_of(HealthRow, lights[0]) if lights else [],
        incidents=rows_of(IncidentRow, wrong),
        jobs=jobs,
        named=named,
        only_open=only_open,
        page=page,
        rows=JOBS_ROWS,
    )


def view_one_job(ask: Ask, reader: Reader, given: Mapping[str, str]) -> str:
    """Make the page of a job."""
    job = find_job(ask, given.get("id", ""))
    page, slowest = whole_number(given, "page"), int(given.get("order", "") == "slowest")
    incidents = _incidents(ask, job_id=job.job_id)
    within = Interval(max(job.first_ns, job.last_ns - 7 * 86_400 * SECOND_NS), job.last_ns + 1)
    asked = {"job_id": job.job_id, "slowest": slowest, "rows": STEPS_ROWS, "first_row": page * STEPS_ROWS}
    return render(
        "page_job.html",
        reader=reader,
        path="/job",
        view=view_job(ask, job, within, incidents),
        incidents=incidents,
        steps=read(ask, StepsRow, "show_steps", **asked),
        slowest=slowest,
        page=page,
        rows=STEPS_ROWS,
        trace_steps=_TRACE_STEPS,
    )


def view_one_incident(ask: Ask, reader: Reader, given: Mapping[str, str]) -> str:
    """Make the page of an incident."""
    incident_id = given.get("id", "")
    found = _incidents(ask, incident_id=incident_id) if incident_id else []
    if not found:
        raise NotThereError(f"There is no incident {incident_id[:80]}")
    view = view_incident(ask, found[0])
    return render("page_incident.html", reader=reader, path="/incident", view=view, trace_steps=_TRACE_STEPS)


def view_one_step(ask: Ask, reader: Reader, given: Mapping[str, str]) -> str:
    """Make the page of a step, whose timeline is zoomed by links."""
    job = find_job(ask, given.get("job", ""))
    number, first_gpu = whole_number(given, "step"), whole_number(given, "first_gpu")
    found = read(ask, StepRow, "show_step", job_id=job.job_id, step=number)
    if not found:
        raise NotThereError(f"There is no step {number} of that job, or it is no longer kept")
    [step] = found
    lasts_s = (step.end_ns - step.start_ns) / SECOND_NS
    since_s, until_s = _seconds(given, "since", 0.0), _seconds(given, "until", lasts_s)
    since_ns = min(round(max(since_s, 0.0) * SECOND_NS), step.end_ns - step.start_ns - 1)
    until_ns = max(min(round(until_s * SECOND_NS), step.end_ns - step.start_ns), since_ns + _ZOOM_LEAST_NS)
    within = Interval(step.start_ns + since_ns, step.start_ns + until_ns)
    phases = read_phases(ask, job.job_id, step, within, TIMELINE_GPUS, first_gpu)
    return render(
        "page_step.html",
        reader=reader,
        path="/step",
        job=job,
        step=step,
        zoom=Zoom(since_ns / SECOND_NS, until_ns / SECOND_NS, lasts_s),
        phases=phases,
        drawn=draw_phases(phases, step, within),
        first_gpu=first_gpu,
        gpus=TIMELINE_GPUS,
    )


def view_host(ask: Ask, reader: Reader, given: Mapping[str, str]) -> str:
    """Make the page of a server. It has jobs, GPUs against their peers, and incidents."""
    server = given.get("server", "")
    hosted = read(ask, HostRow, "show_host", server=server) if server else []
    if not hosted:
        raise NotThereError(f"No job was seen on a server {server[:80]}")
    compared = []
    for row in hosted[:_HOST_JOBS]:
        first = max(row.steps - _HOST_STEPS, 0)
        gpus = read(ask, GpuRow, "show_gpus", job_id=row.job_id, first_step=first, last_step=max(row.steps, 1) - 1)
        mine = [gpu for gpu in gpus if gpu.server == server]
        compared.append((row, mine, draw_gpus(mine, frozenset())))
    return render(
        "page_host.html",
        reader=reader,
        path="/host",
        server=server,
        hosted=hosted,
        compared=compared,
        incidents=_incidents(ask, named=[server, *{endpoint for row in hosted for endpoint in row.endpoints}]),
    )


def view_report(ask: Ask, reader: Reader, given: Mapping[str, str]) -> str:
    """Make a report, as `prism-ch report` does."""
    job_id, incident_id = given.get("job", ""), given.get("incident", "")
    return write_report(ask, Subject(job_id=job_id, incident_id=incident_id, tenant=reader.tenant))


#: The pages by their paths.
VIEWS: Mapping[str, Callable[[Any, Reader, Mapping[str, str]], str]] = MappingProxyType(
    {
        "/": view_overview,
        "/job": view_one_job,
        "/incident": view_one_incident,
        "/step": view_one_step,
        "/host": view_host,
        "/report": view_report,
    }
)


def find_job(ask: Ask, job_id: str) -> JobRow:
    """Find a job that the reader may see. Raises NotThereError."""
    asked = {"job_id": job_id, "named": "", "only_open": 0, "rows": 1, "first_row": 0}
    found = read(ask, JobRow, "show_jobs", **asked, **span(ALWAYS)) if job_id else []
    if not found:
        raise NotThereError(f"There is no job {job_id[:80]}")
    return found[0]


def _incidents(ask: Ask, **chosen: Any) -> list[IncidentRow]:
    return read(ask, IncidentRow, "show_incidents", **_about(**chosen))


def _about(**chosen: Any) -> dict[str, Any]:
    """Return the parameters of a question about incidents."""
    asked: dict[str, Any] = {"incident_id": "", "job_id": "", "named": [], "only_open": 0}
    return {**asked, "rows": _INCIDENTS_ROWS, **chosen, **span(ALWAYS)}


def whole_number(given: Mapping[str, str], name: str) -> int:
    """Read a whole number of the address; 0 where there is none. Raises RequestError."""
    text = given.get(name, "")
    if text and not (text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX):
        raise RequestError("BAD_ARGUMENTS", f"{name} takes a whole number")
    return int(text or 0)


def _seconds(given: Mapping[str, str], name: str, default: float) -> float:
    """Read seconds of the address. Raises RequestError."""
    text = given.get(name, "")
    if not text:
        return default
    whole, _, fraction = text.removeprefix("-").partition(".")
    if not (whole + fraction).isdigit() or not text.isascii() or len(text) > _NUMBER_DIGITS_MAX:
        raise RequestError("BAD_ARGUMENTS", f"{name} takes seconds")
    return float(text)
