"""Tells of a job whether it is as fast as usual, and which of its GPUs makes the others wait."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from prism_ch.grafana.dashboards import fields as look
from prism_ch.grafana.dashboards import panels as panel
from prism_ch.grafana.dashboards.fields import BLUE, GREEN, ORANGE, Property
from prism_ch.grafana.dashboards.fleet import FINDINGS, HEALTH
from prism_ch.grafana.dashboards.frame import OPERATORS, TENANTS, annotation, choose, dashboard, with_panels

STEPS = {
    "Step": look.width(80),
    "Start": look.width(180),
    "Duration": look.unit(look.SECONDS, 2),
    "Slower": look.unit(look.SHARE, 0),
    "Compute": look.unit(look.SECONDS, 2),
    "Pipeline": look.unit(look.SECONDS, 2),
    "Data parallel": look.unit(look.SECONDS, 2),
    "Findings": look.link("Open the finding", "finding", "finding", "Finding"),
    "Finding": look.hidden(),
}
FOUND = look.only(FINDINGS, "Finding", "Severity", "Status", "Kind", "Subject", "Since", "Until", "Slowdown", "Summary")


def color(name: str) -> list[Property]:
    """Give a line a colour of its own."""
    return [Property(id_val="color", value={"mode": "fixed", "fixedColor": name})]


def band(low: str) -> list[Property]:
    """Fill the space down to another line, and draw no line."""
    return [
        Property(id_val="custom.fillBelowTo", value=low),
        Property(id_val="custom.fillOpacity", value=15),
        Property(id_val="custom.lineWidth", value=0),
        *color(GREEN),
    ]


def invisible() -> list[Property]:
    """Draw no line."""
    return [Property(id_val="custom.lineWidth", value=0), *color(GREEN)]


def job() -> Dashboard:
    """Return the dashboard."""
    facts = {"Usual step time": look.unit(look.SECONDS, 2)}
    lost = {"GPU-hours lost": look.unit(look.PLAIN, 1) + look.steps_of((None, BLUE))}
    steps = {
        "Usual, high": band("Usual, low"),
        "Usual, low": invisible(),
        "Usual": color(GREEN),
        "Step time": color(BLUE),
        "Longest": color(ORANGE),
    }
    phases = {
        "Compute": color(GREEN),
        "Pipeline": color(BLUE),
        "Data parallel": color(ORANGE),
        "Other": color(look.GREY),
    }
    groups = "Data-parallel groups and the pipelines between them"
    question = "Is a job as fast as it usually is, and which of its GPUs makes the others wait?"
    board = dashboard("job", "Job", question, (OPERATORS, TENANTS), "now-1h")
    board = board.with_variable(choose("job", "Job", "shared/choose_job"))
    board = board.annotation(annotation("Findings", "job/annotate_findings"))
    board = board.annotation(annotation("Restarts", "job/annotate_restarts"))
    share = look.SHARE
    return with_panels(
        board,
        panel.text_now("The job", "job/facts", 18, columns=facts),
        panel.numbers_now("GPU time", "job/healthy_share", 6, unit_name=share, steps=HEALTH, columns=lost),
        panel.lines("Step time against the usual", "job/step_time", 12, look.SECONDS, columns=steps),
        panel.lines("What steps consist of", "job/shares", 12, share, stacked=True, columns=phases).min(0).max(1),
        panel.heat_map("Work beyond peers, by GPU", "job/gpu_excess", 24, share, label="gpu", top=0.5, high=12),
        panel.states("Phases of the latest steps, by GPU", "job/phases", 24, "gpu", look.PHASES, high=10),
        panel.rows("Findings", "job/findings", 24, FOUND, high=7),
        panel.rows("Longest steps", "job/steps", 14, STEPS, high=12),
        panel.graph(groups, "job/group_nodes", "job/group_edges", 10),
    )
