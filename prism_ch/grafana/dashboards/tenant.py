"""Tells what a tenant's jobs get out of their GPUs, and what costs them the rest."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from prism_ch.grafana.dashboards import fields as look
from prism_ch.grafana.dashboards import panels as panel
from prism_ch.grafana.dashboards.fields import BLUE
from prism_ch.grafana.dashboards.fleet import FINDINGS, HEALTH, JOBS, SERVERS
from prism_ch.grafana.dashboards.frame import OPERATORS, TENANTS, annotation, choose, dashboard, with_panels


def tenant() -> Dashboard:
    """Return the dashboard."""
    account = {
        "GPU-hours": look.unit(look.PLAIN, 0),
        "GPU-hours lost": look.unit(look.PLAIN, 1),
        "Healthy": look.unit(look.SHARE, 1) + look.steps_of(*HEALTH),
    }
    found, jobs = FINDINGS | {"Tenant": look.hidden()}, JOBS | {"Tenant": look.hidden()}
    lost = "GPU-hours lost over time, by cause"
    question = "What do a tenant's jobs get out of their GPUs, and what costs them the rest?"
    board = dashboard("tenant", "Tenant", question, (OPERATORS, TENANTS))
    board = board.with_variable(choose("tenant", "Tenant", "shared/choose_tenant"))
    board = board.annotation(annotation("Findings", "tenant/annotate_findings"))
    board = board.annotation(annotation("Restarts", "tenant/annotate_restarts"))
    return with_panels(
        board,
        panel.numbers_now("Account of the span", "tenant/account", 24, steps=((None, BLUE),), columns=account),
        panel.rows("Jobs, slowest against their own usual first", "tenant/jobs", 24, jobs),
        panel.ranking("GPU-hours lost, by cause", "tenant/lost_by_cause", 8, look.PLAIN),
        panel.lines(lost, "tenant/lost_over_time", 16, look.PLAIN, stacked=True, bars=True, by_label="cause"),
        panel.lines("Slowdown against the usual step, by job", "tenant/slower", 12, look.SHARE, by_label="job"),
        panel.states("Findings by kind", "tenant/findings_timeline", 12, "kind", look.SEVERITY_NUMBERS),
        panel.rows("Servers that cost most", "tenant/worst_servers", 24, SERVERS, high=6),
        panel.rows("Findings", "tenant/findings", 24, found, high=10),
    )
