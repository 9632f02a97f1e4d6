"""Gathers what a page shows of an incident: before and after, the culprit against its peers, delays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from prism_ch.report import seconds
from prism_ch.report.ask import Ask, read
from prism_ch.report.drawing.bars import Part, compared
from prism_ch.report.drawing.cells import matrix
from prism_ch.report.drawing.figure import Mark
from prism_ch.report.drawing.lines import Chart, Series, durations
from prism_ch.report.rows import CulpritRow, DelayRow, FindingRow, IncidentRow, PartRow

#: Steps that are shown before and after a finding: as many as it lasted, within these bounds.
_WIDTH_LEAST, _WIDTH_MOST = 20, 500
#: Senders and receivers of a delay matrix: more would not fit on paper.
_PLACES = 16
#: Kinds whose culprit computes longer than its peers; of the others that says nothing.
_COMPUTING = frozenset({"slow_gpu", "slow_step", "imbalance"})


@dataclass(frozen=True, slots=True)
class IncidentView:
    """An incident with what it rests on.

    `main` is the finding that names the cause in a job, None if no finding is about a job. Drawings are empty where
    there is nothing to draw. `measured` has a row a step, with the culprit's seconds and its peers'.
    """

    row: IncidentRow
    findings: Sequence[FindingRow]
    main: FindingRow | None
    parts: Sequence[PartRow]
    parts_drawn: Markup
    measured: Sequence[CulpritRow]
    measured_drawn: Markup
    delays: Sequence[DelayRow]
    delays_drawn: Markup


def view_incident(ask: Ask, row: IncidentRow, job_id: str = "") -> IncidentView:
    """Read and draw what an incident rests on.

    Parameters: `job_id`, whose findings count, empty for those of all jobs.
    """
    findings = read(ask, FindingRow, "show_findings", incident_id=row.incident_id, job_id=job_id)
    main = next((finding for finding in findings if finding.job_id), None)
    delays = read(ask, DelayRow, "show_delays", incident_id=row.incident_id, job_id=job_id, places=_PLACES)
    parts = _parts(ask, main)
    measured = _measured(ask, row, main)
    return IncidentView(
        row,
        findings,
        main,
        parts,
        _draw_parts(parts),
        measured,
        _draw_measured(measured, main),
        delays,
        _draw_delays(delays),
    )


def _width(finding: FindingRow) -> int:
    return min(max(finding.last_step - finding.first_step + 1, _WIDTH_LEAST), _WIDTH_MOST)


def _parts(ask: Ask, main: FindingRow | None) -> list[PartRow]:
    if main is None:
        return []
    return read(
        ask,
        PartRow,
        "show_before_and_after",
        job_id=main.job_id,
        first_step=main.first_step,
        last_step=main.last_step,
        width=_width(main),
    )


def _draw_parts(parts: Sequence[PartRow]) -> Markup:
    if len(parts) < 2:
        return Markup("")
    kinds = {"during": "f-series-other"}
    bars = [Part(row.part, row.step_s, seconds(row.step_s), kinds.get(row.part, "f-series-good")) for row in parts]
    words = ", ".join(f"{bar.name} {bar.written}" for bar in bars)
    return compared(f"Median step time: {words}", bars)


def _measured(ask: Ask, row: IncidentRow, main: FindingRow | None) -> list[CulpritRow]:
    """Return the culprit's seconds by step: as the finding measured them, else computing and pipeline."""
    if main is None or main.kind not in _COMPUTING:
        return []
    steps = main.last_step - main.first_step + 1
    if len(main.observed_s) == len(main.expected_s) == steps:
        series = zip(main.observed_s, main.expected_s, strict=True)
        return [
            CulpritRow(main.first_step + nth, observed, expected, expected, expected)
            for nth, (observed, expected) in enumerate(series)
        ]
    blamed = [row.subject, *row.may_also_be] if row.subject_type in {"endpoint", "server"} else [*row.may_also_be]
    if not blamed:
        return []
    width = _width(main)
    return read(
        ask,
        CulpritRow,
        "show_culprit",
        job_id=main.job_id,
        blamed=blamed,
        first_step=max(main.first_step - width, 0),
        last_step=main.last_step + width,
    )


def _draw_measured(rows: Sequence[CulpritRow], main: FindingRow | None) -> Markup:
    if len(rows) < 2 or main is None:
        return Markup("")
    low, high = rows[0], rows[-1]
    chart = Chart(
        says=f"Seconds of the culprit and of its peers in steps {low.step} to {high.step}",
        steps=[row.step for row in rows],
        lines=[
            Series([row.peers_s for row in rows], "s-series-good"),
            Series([row.culprit_s for row in rows], "s-series-other w"),
        ],
        band=([row.peers_low_s for row in rows], [row.peers_high_s for row in rows]),
        marks=_during(rows, main),
        height=200,
    )
    return durations(chart)


def _during(rows: Sequence[CulpritRow], main: FindingRow) -> list[Mark]:
    """Mark the finding where the chart begins before it."""
    if rows[0].step >= main.first_step:
        return []
    last = min(main.last_step, rows[-1].step)
    return [Mark(main.first_step, last, "finding", f"f-severity-{main.severity}")]


def _draw_delays(rows: Sequence[DelayRow]) -> Markup:
    if not rows:
        return Markup("")
    worst = max(rows, key=lambda row: row.slower)
    says = f"Bytes took up to {worst.slower:+.0%} longer than usual, from {worst.sender} to {worst.receiver}"
    return matrix(says, {(row.sender, row.receiver): row.slower for row in rows})
