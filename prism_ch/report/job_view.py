"""Gathers what a page shows of a job: its step times, its GPUs, its slowest step, how much of it is seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from prism_ch.model.window import Interval
from prism_ch.report import seconds
from prism_ch.report.ask import Ask, read, rows_of, span
from prism_ch.report.drawing.cells import Gpu, gpu_map
from prism_ch.report.drawing.figure import Mark
from prism_ch.report.drawing.lines import Chart, Series, durations
from prism_ch.report.drawing.timeline import Phase, Row, timeline
from prism_ch.report.rows import GpuRow, IncidentRow, JobRow, MarkRow, PhasesRow, PointRow, SeenRow, StepRow

#: Points of a chart of step times: a page has room for no more.
_POINTS = 300
#: GPUs in the timeline of a step.
TIMELINE_GPUS = 24


@dataclass(frozen=True, slots=True)
class JobView:
    """A job with its drawings, which are empty where there is nothing to draw.

    `gpus` are those that stand out most, the slowest first, of `gpus_counted`, in `gpus_steps` steps.
    """

    row: JobRow
    points: Sequence[PointRow]
    points_drawn: Markup
    gpus: Sequence[GpuRow]
    gpus_counted: int
    gpus_steps: int
    gpus_drawn: Markup
    slowest: StepRow | None
    phases: Sequence[PhasesRow]
    phases_drawn: Markup
    seen: SeenRow


def view_job(ask: Ask, row: JobRow, within: Interval, incidents: Sequence[IncidentRow]) -> JobView:
    """Read and draw a job in a span of time.

    Parameters: `incidents` to mark, in the order of their numbers on the page.
    """
    about = {"job_id": row.job_id, **span(within)}
    times, slow, sight = ask.together(
        [("show_step_times", {"points": _POINTS, **about}), ("show_slowest_step", about), ("show_visibility", about)]
    )
    points = rows_of(PointRow, times)
    slowest = next(iter(rows_of(StepRow, slow)), None)
    [seen] = rows_of(SeenRow, sight)
    gpus: list[GpuRow] = []
    if points:
        first, last = points[0].first_step, points[-1].last_step
        gpus = read(ask, GpuRow, "show_gpus", job_id=row.job_id, first_step=first, last_step=last)
    phases = (
        [] if slowest is None else read_phases(ask, row.job_id, slowest, Interval(slowest.start_ns, slowest.end_ns))
    )
    return JobView(
        row=row,
        points=points,
        points_drawn=draw_points(points, marks_of(ask, row.job_id, incidents)),
        gpus=sorted(gpus, key=lambda gpu: -gpu.excess)[:10],
        gpus_counted=len(gpus),
        gpus_steps=max((gpu.steps for gpu in gpus), default=0),
        gpus_drawn=draw_gpus(gpus, blamed(row.job_id, incidents)),
        slowest=slowest,
        phases=phases,
        phases_drawn=Markup("")
        if slowest is None
        else draw_phases(phases, slowest, Interval(slowest.start_ns, slowest.end_ns)),
        seen=seen,
    )


def marks_of(ask: Ask, job_id: str, incidents: Sequence[IncidentRow]) -> list[Mark]:
    """Return the steps of a job on which incidents lie, by the numbers of these."""
    found = {mark.incident_id: mark for mark in read(ask, MarkRow, "show_marks", job_id=job_id)}
    numbered = [(number, row, found.get(row.incident_id)) for number, row in enumerate(incidents, start=1)]
    return [
        Mark(mark.first_step, mark.last_step, str(number), f"f-severity-{row.severity}")
        for number, row, mark in numbered
        if mark is not None
    ]


def draw_points(points: Sequence[PointRow], marks: Sequence[Mark]) -> Markup:
    """Draw step times, and where incidents lie."""
    if not points:
        return Markup("")
    first, last = points[0].first_step, points[-1].last_step
    longest = max(point.longest_s for point in points)
    shortest = min(point.step_s for point in points)
    lines = [Series([point.step_s for point in points], "s-series-main w")]
    if any(point.first_step != point.last_step for point in points):
        lines.insert(0, Series([point.longest_s for point in points], "s-series-good"))
    shown = [
        Mark(max(mark.low, first), min(mark.high, last), mark.name, mark.kind)
        for mark in marks
        if mark.low <= last and mark.high >= first
    ]
    says = f"Step times of steps {first} to {last}, from {seconds(shortest)} to {seconds(longest)}"
    return durations(Chart(says, [point.first_step for point in points], lines, marks=shown))


def blamed(job_id: str, incidents: Sequence[IncidentRow]) -> frozenset[str]:
    """Return the endpoints, servers and links that the incidents of a job name."""
    return frozenset(
        name
        for row in incidents
        if job_id in row.jobs
        for name in (row.subject, *row.may_also_be, *row.subject.split("->"))
    )


def draw_gpus(gpus: Sequence[GpuRow], named: frozenset[str]) -> Markup:
    """Draw how much longer each GPU worked than its peers.

    Parameters: `named`, endpoints and servers that get a frame.
    """
    if not gpus:
        return Markup("")
    worst = max(gpus, key=lambda gpu: gpu.excess)
    says = (
        f"How much longer each of {len(gpus)} GPUs worked than the median of its stage; the most, {worst.excess:+.1%},"
        f" GPU {worst.gpu} of {worst.server}"
    )
    return gpu_map(
        says, [Gpu(gpu.server, gpu.gpu, gpu.excess, gpu.endpoint in named or gpu.server in named) for gpu in gpus]
    )


def read_phases(
    ask: Ask, job_id: str, step: StepRow, within: Interval, gpus: int = TIMELINE_GPUS, first_gpu: int = 0
) -> list[PhasesRow]:
    """Read what GPUs did in a step, those that waited least first."""
    return read(
        ask,
        PhasesRow,
        "show_timeline",
        job_id=job_id,
        step=step.step,
        from_ns=within.start_ns,
        to_ns=within.end_ns,
        gpus=gpus,
        first_gpu=first_gpu,
    )


def draw_phases(rows: Sequence[PhasesRow], step: StepRow, within: Interval) -> Markup:
    """Draw a step, or a part of it."""
    if not rows:
        return Markup("")
    drawn = [
        Row(
            gpu_name(row),
            [Phase(kind, start_ns, end_ns) for kind, start_ns, end_ns in row.phases],
            row.endpoint in step.slowest_endpoints,
        )
        for row in rows
    ]
    says = f"What {len(rows)} of {rows[0].gpus} GPUs did in step {step.step}, which took {seconds(step.duration_s)}"
    return timeline(says, drawn, within.start_ns, within.end_ns, step.start_ns)


def gpu_name(row: PhasesRow) -> str:
    """Name a GPU by its server, or by its address if that is not known."""
    return f"{row.server} GPU {row.gpu}" if row.server else row.endpoint
