"""Tells of a finding what is wrong, who is to blame, and what that rests on."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from prism_ch.grafana.dashboards import fields as look
from prism_ch.grafana.dashboards import panels as panel
from prism_ch.grafana.dashboards.fields import BLUE, GREEN, RED
from prism_ch.grafana.dashboards.fleet import FINDING, FINDINGS
from prism_ch.grafana.dashboards.frame import OPERATORS, TENANTS, annotation, choose, dashboard, with_panels
from prism_ch.grafana.dashboards.job import band, color, invisible

MEASURES = {
    "Time lost": look.unit(look.SHARE, 0),
    "Robust standard deviations": look.unit(look.PLAIN, 1),
    "Observed against expected": look.unit("suffix: x", 2),
    "Lasted": look.unit(look.SECONDS, 1),
    "GPU-hours lost": look.unit(look.PLAIN, 1),
}
PARTS = {
    name: look.unit(look.SECONDS, 2)
    for name in ("Step time", "95th percentile", "Compute", "Pipeline", "Data parallel")
}
BESIDE = look.only(FINDINGS, "Finding", "Severity", "Kind", "Subject", "Job", "Since", "Until", "Summary")


def finding() -> Dashboard:
    """Return the dashboard."""
    peers = {"Peers, high": band("Peers, low"), "Peers, low": invisible(), "Peers": color(GREEN), "Culprit": color(RED)}
    during = {"Before and after": color(BLUE), "During": color(RED)}
    excess, cells = "Work beyond peers, by server and GPU", look.heat(-0.1, 0.5)
    delays, slow_cells = "Delay per byte from sender to receiver, against usual", look.heat(-0.1, 1)
    ends = ("Sender", "Receiver", "Slower")
    question = "What is wrong, who is to blame, and what does that rest on?"
    board = dashboard("finding", "Finding", question, (OPERATORS, TENANTS))
    board = board.with_variable(choose("finding", "Finding", "shared/choose_finding"))
    board = board.annotation(annotation("Finding", "finding/annotate"))
    board = board.annotation(annotation("Findings", "finding/annotate_findings"))
    board = board.annotation(annotation("Restarts", "finding/annotate_restarts"))
    return with_panels(
        board,
        panel.rows("Verdict", "finding/verdict", 24, FINDING, high=4),
        panel.numbers_now("What was measured", "finding/measures", 24, steps=((None, BLUE),), columns=MEASURES),
        panel.lines("Work of the culprit against its peers", "finding/culprit", 12, look.SECONDS, columns=peers),
        panel.lines("Step time before, during and after", "finding/step_time", 12, look.SECONDS, columns=during),
        panel.matrix(excess, "finding/excess", 14, ("Server", "GPU", "Excess"), look.SHARE, cells),
        panel.rows("Before and after", "finding/before_and_after", 10, PARTS, high=10),
        panel.matrix(delays, "finding/delays", 14, ends, look.SHARE, slow_cells).no_value("It rests on no delays"),
        panel.rows("Evidence", "finding/evidence", 10, {"Evidence": look.width(180)}, high=10),
        panel.rows("Other findings at the time", "finding/beside", 24, BESIDE),
    )
