"""Tells whether what the other dashboards show can be trusted right now."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from prism_ch.grafana.dashboards import fields as look
from prism_ch.grafana.dashboards import panels as panel
from prism_ch.grafana.dashboards.fields import GREEN, ORANGE, RED
from prism_ch.grafana.dashboards.frame import OPERATORS, annotation, dashboard, with_panels

EXPORTERS = {
    "Lag": look.unit(look.SECONDS, 1) + look.gauge(0, 60, (None, GREEN), (10, ORANGE), (30, RED)),
    "Clock ahead": look.unit(look.SECONDS, 4),
    "Idle timeout": look.unit(look.SECONDS, 3),
    "Active timeout": look.unit(look.SECONDS, 0),
}
WINDOWS = {"Status": look.colored(look.STATES) + look.width(80), "Attempts": look.width(80), "Late": look.width(80)}
HEALTH = {"State": look.colored(look.LIGHTS) + look.width(70), "Looked at": look.width(160), "Checked": look.width(170)}


def pipeline() -> Dashboard:
    """Return the dashboard."""
    now = {"Memory": look.unit(look.BYTES, 1), "Largest lag": look.unit(look.SECONDS, 1)}
    rejected = "Records rejected, by reason"
    question = "Can what the other dashboards show be trusted right now?"
    board = dashboard("pipeline", "Pipeline", question, (OPERATORS,), "now-3h")
    board = board.annotation(annotation("Failed windows", "pipeline/annotate_failed"))
    board = board.annotation(annotation("Findings", "pipeline/annotate_findings"))
    board = board.annotation(annotation("Restarts", "pipeline/annotate_restarts"))
    lag = panel.lines("Lag of the slowest exporters", "pipeline/exporter_lag", 8, look.SECONDS, by_label="exporter")
    behind = panel.lines("Windows behind", "pipeline/windows_behind", 8, look.COUNT).min(0)
    return with_panels(
        board,
        panel.numbers_now("Now", "pipeline/now", 10, columns=now),
        panel.rows("Health", "pipeline/health", 14, HEALTH, high=4),
        panel.lines("Records landed", "pipeline/landed", 8, look.RECORDS).min(0),
        panel.lines(rejected, "pipeline/rejected", 8, look.COUNT, stacked=True, bars=True, by_label="reason"),
        panel.limits(behind, (None, GREEN), (5, ORANGE), (15, RED)),
        panel.lines("From the end of a window to its results", "pipeline/freshness", 8, look.SECONDS).min(0),
        panel.lines(
            "Working a window, by part", "pipeline/stage_seconds", 8, look.SECONDS, stacked=True, by_label="stage"
        ),
        lag.min(0),
        panel.rows("Exporters", "pipeline/exporters", 14, EXPORTERS),
        panel.lines("Clocks that are off", "pipeline/clocks", 10, look.SECONDS, by_label="exporter"),
        panel.rows("Windows that failed or had late records", "pipeline/failed_windows", 14, WINDOWS),
        panel.rows("Storage", "pipeline/storage", 10, {"On disk": look.unit(look.BYTES, 1)}),
        panel.rows("Records rejected", "pipeline/rejected_examples", 24, {}, high=6),
    )
