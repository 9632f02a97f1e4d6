"""Tells whether the cluster's GPU time is spent on training, and if not, where it is lost."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from prism_ch.grafana.dashboards import fields as look
from prism_ch.grafana.dashboards import panels as panel
from prism_ch.grafana.dashboards.fields import GREEN, ORANGE, RED, YELLOW
from prism_ch.grafana.dashboards.frame import OPERATORS, annotation, choose, dashboard, with_panels

HEALTH = ((None, RED), (0.9, ORANGE), (0.97, GREEN))
SLOWER = ((None, GREEN), (0.05, YELLOW), (0.1, ORANGE), (0.3, RED))
JOBS = {
    "Job": look.link("Open the job", "job", "job") + look.width(130),
    "Status": look.colored(look.STATES) + look.width(80),
    "GPUs": look.width(70),
    "DP": look.width(60),
    "PP": look.width(60),
    "Step time": look.unit(look.SECONDS, 2),
    "Usual": look.unit(look.SECONDS, 2),
    "Slower": look.unit(look.SHARE, 1) + look.gauge(0, 0.5, *SLOWER),
    "Healthy": look.unit(look.SHARE, 1),
    "GPU-hours lost": look.unit(look.PLAIN, 1),
    "Worst": look.colored(look.SEVERITIES) + look.width(80),
}
#: What every table of findings says of each.
FINDING = {
    "Severity": look.colored(look.SEVERITIES) + look.width(80),
    "Status": look.colored(look.STATES) + look.width(70),
    "Kind": look.width(100),
    "Subject": look.width(150),
    "Job": look.link("Open the job", "job", "job") + look.width(110),
    "Tenant": look.width(100),
    "Since": look.width(160),
    "Until": look.width(160),
}
FINDINGS = {
    "Finding": look.hidden(),
    **FINDING,
    "Slowdown": look.unit(look.SHARE, 0) + look.width(90),
    "Summary": look.link("Open the finding", "finding", "finding", "Finding"),
}
SERVERS = {
    "GPU-hours lost": look.unit(look.PLAIN, 1),
    "Findings": look.width(80),
    "Open": look.width(60),
}


def fleet() -> Dashboard:
    """Return the dashboard."""
    alarming = look.steps_of((None, GREEN), (1, RED))
    noted = ((None, GREEN), (1, ORANGE))
    question = "Is the cluster's GPU time spent on training, and if not, where is it lost?"
    board = dashboard("fleet", "Fleet", question, (OPERATORS,))
    board = board.with_variable(choose("tenant", "Tenant", "shared/choose_tenant", several=True))
    board = board.annotation(annotation("Findings", "fleet/annotate_findings"))
    board = board.annotation(annotation("Restarts", "fleet/annotate_restarts"))
    share, states = look.SHARE, look.SEVERITY_NUMBERS
    return with_panels(
        board,
        panel.numbers_now("Jobs", "fleet/jobs_now", 8, columns={"Stalled": alarming}),
        panel.numbers_now("GPUs recognised", "fleet/gpus_recognised", 4, unit_name=share),
        panel.numbers_now("GPU time healthy", "fleet/healthy_share", 4, unit_name=share, steps=HEALTH),
        panel.numbers_now("Open findings", "fleet/open_findings", 8, steps=noted, columns={"Critical": alarming}),
        panel.rows("Jobs, slowest against their own usual first", "fleet/jobs", 24, JOBS, high=9),
        panel.heat_map("Slowdown by job", "fleet/slowdown", 12, share, label="job", top=0.5),
        panel.states("Findings by kind", "fleet/findings_timeline", 12, "kind", states, high=10),
        panel.lines("GPU time healthy, by tenant", "fleet/healthy_over_time", 12, share, by_label="tenant").max(1),
        panel.rows("Servers that cost most", "fleet/worst_servers", 12, SERVERS),
        panel.rows("Findings", "fleet/findings", 24, FINDINGS, high=10),
    )
