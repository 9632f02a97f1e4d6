"""Tells which switch, link or NIC is slow or overloaded."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from prism_ch.grafana.dashboards import fields as look
from prism_ch.grafana.dashboards import panels as panel
from prism_ch.grafana.dashboards.fields import GREEN, ORANGE, RED
from prism_ch.grafana.dashboards.fleet import FINDINGS
from prism_ch.grafana.dashboards.frame import OPERATORS, annotation, dashboard, with_panels

EXPORTERS = {
    "Traffic": look.unit(look.BITS, 1),
    "Against peers": look.unit(look.SHARE, 0) + look.heat(-0.5, 0.5, "continuous-BlYlRd"),
    "Records": look.unit(look.RECORDS, 0),
    "Open findings": look.width(110),
}
ELEPHANTS = {"Bytes": look.unit(look.BYTES, 1), "At once": look.gauge(0, 16, (None, GREEN), (4, ORANGE), (8, RED))}
LINKS = {
    "Sender": look.width(100),
    "Receiver": look.width(100),
    "Job": look.link("Open the job", "job", "job") + look.width(110),
    "Bytes": look.unit(look.BYTES, 1),
    "Delay per byte": look.unit("suffix: ns", 3),
    "Slower": look.unit(look.SHARE, 0) + look.gauge(0, 2, (None, GREEN), (0.25, ORANGE), (1, RED)),
    "Findings": look.link("Open the finding", "finding", "finding", "Finding") + look.width(80),
    "Status": look.colored(look.STATES) + look.width(70),
    "Finding": look.hidden(),
}
FOUND = look.only(FINDINGS, "Finding", "Severity", "Status", "Kind", "Subject", "Job", "Since", "Until", "Summary")


def network() -> Dashboard:
    """Return the dashboard."""
    seen = {"Records": look.unit(look.RECORDS, 0), "Traffic": look.unit(look.BITS, 1)}
    balance = "Balance: the busiest exporter of a kind against the mean"
    delay, slow_cells = "Delay per byte from server to server, against the middle", look.heat(-0.1, 1)
    leaves, busy_cells = ("From", "To", "Traffic"), look.heat(0, 1e11, "continuous-BlPu")
    board = dashboard("network", "Network", "Which switch, link or NIC is slow or overloaded?", (OPERATORS,), "now-1h")
    board = board.annotation(annotation("Findings", "network/annotate"))
    board = board.annotation(annotation("Restarts", "network/annotate_restarts"))
    return with_panels(
        board,
        panel.numbers_now("Seen in the span", "network/volume", 12, columns=seen),
        panel.numbers_now("Open findings", "network/findings_now", 12, steps=((None, GREEN), (1, ORANGE))),
        panel.lines("Traffic of the exporters that stand out", "network/traffic", 12, look.BITS, by_label="exporter"),
        panel.limits(
            panel.lines(balance, "network/uplink_balance", 12, "suffix: x", by_label="exporters").min(1),
            (None, GREEN),
            (1.3, ORANGE),
        ),
        panel.rows("Exporters", "network/exporters", 12, EXPORTERS, high=10),
        panel.matrix("Traffic from leaf to leaf", "network/leaf_matrix", 12, leaves, look.BITS, busy_cells),
        panel.matrix(delay, "network/delay_matrix", 14, ("Sender", "Receiver", "Slower"), look.SHARE, slow_cells),
        panel.rows("Receivers of most large flows at once", "network/elephants", 10, ELEPHANTS, high=10),
        panel.rows("Links, those with findings and the slowest first", "network/links", 24, LINKS, high=9),
        panel.rows("Findings about the network", "network/findings", 24, FOUND, high=7),
    )
