"""The dashboards of things: of one server, of the network, of prism-ch itself; each answers one question."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from prism_ch.grafana.organisations import OPERATORS_ROW
from tools.dashboards import fields as look
from tools.dashboards import panels as panel
from tools.dashboards.board import OPERATORS, TENANTS, begin, choice, folded, with_panels
from tools.dashboards.columns import INCIDENTS, JOB, SLOWER, SLOWER_BARS, STATUS, TIME
from tools.dashboards.fields import AMBER, BLUE, GREY, RED

_BANDWIDTH = look.unit(look.BITS, 1) + look.width(115)


def host() -> Dashboard:
    """Return the dashboard of one server over all jobs."""
    now = {"Open": look.steps_of((None, BLUE), (1, AMBER)), "GPU-hours lost": look.unit(look.PLAIN, 1)}
    jobs = {
        "Job": JOB,
        "Status": STATUS,
        "Tenant": look.width(120),
        "GPUs here": look.width(90),
        "GPUs in all": look.width(95),
        "From": TIME,
        "Until": TIME,
    }
    moved = {"Sent": look.color(BLUE), "Received": look.color(AMBER)}
    work, axes = look.heat(*SLOWER), ("GPU", "At", "Work beyond peers")
    question = "Is it this server, whatever runs on it?"
    board = begin("host", "Host", question, (OPERATORS, TENANTS), "now-6h", ("Incidents",))
    board = board.with_variable(choice("host", "Server", "shared/choose_host"))
    nothing = "No incident names it in this time"
    board = with_panels(
        board,
        panel.numbers_now("Now", "host/now", 24, columns=now),
        panel.rows("Incidents that name it", "host/incidents", 24, INCIDENTS, height=6, nothing=nothing),
        panel.matrix("Work of its GPUs beyond their peers", "host/work", 24, axes, look.SHARE, work, first=160),
        panel.rows("Jobs on it", "host/jobs", 24, jobs, height=4, nothing="No job ran on it in this time"),
    )
    traffic = panel.lines("Traffic of its NICs", "host/traffic", 24, look.BITS, columns=moved).min(0)
    return folded(board, OPERATORS_ROW, traffic)


def network() -> Dashboard:
    """Return the dashboard of switches, links and NICs."""
    seen = {"Records": look.unit(look.RECORDS, 0), "Traffic": look.unit(look.BITS, 1)}
    bandwidth = {
        "What": look.width(70),
        "Where": look.wrapped(200),
        "Job": JOB,
        "Bus bandwidth": _BANDWIDTH,
        "Usual": look.unit(look.BITS, 1) + look.width(90),
        "Slower": SLOWER_BARS,
    }
    balance = {
        "From leaf": look.wrapped(80),
        "To leaf": look.wrapped(80),
        "Ways": look.width(55),
        "Unevenness": look.unit("suffix: x", 2) + look.width(100),
        "Busiest by": look.wrapped(80),
    }
    exporters = {
        "Traffic": look.unit(look.BITS, 1) + look.width(100),
        "Against peers": look.unit(look.SHARE, 0)
        + look.heat((None, AMBER), (-0.3, GREY), (0.3, AMBER))
        + look.width(115),
        "Records": look.unit(look.RECORDS, 0) + look.width(90),
        "Last flow": TIME,
        "Open incidents": look.width(120),
    }
    leaves, busy_cells = ("From", "To", "Traffic"), look.heat((None, GREY), (1e10, BLUE), (1e11, AMBER))
    question = "Which switch, link or NIC is slow or overloaded?"
    board = begin("network", "Network", question, (OPERATORS,), "now-1h", ("Incidents",))
    no_incident = "No incident of the network in this time"
    no_paths = "No record of the last minutes names the switches it crossed"
    board = with_panels(
        board,
        panel.rows("Incidents of the network", "network/incidents", 24, INCIDENTS, height=7, nothing=no_incident),
        panel.rows("Bus bandwidth against the usual", "network/bandwidth", 15, bandwidth, height=10, nothing=no_paths),
        panel.rows("Balance of paths", "network/balance", 9, balance, height=10, nothing=no_paths),
        panel.rows("Exporters", "network/exporters", 16, exporters),
        panel.numbers_now("Seen in this time", "network/volume", 8, columns=seen, height=8),
        panel.matrix("Traffic from leaf to leaf", "network/leaf_matrix", 24, leaves, look.BITS, busy_cells),
    )
    delay, slow_cells = "Slower for each byte, from server to server", look.heat(*SLOWER)
    details = (
        panel.rows("Links, those with findings and the slowest first", "network/links", 24, _LINKS, height=9),
        panel.matrix(delay, "network/delay_matrix", 24, ("Sender", "Receiver", "Slower"), look.SHARE, slow_cells),
        panel.rows("Receivers of most large flows at once", "network/elephants", 24, _ELEPHANTS),
    )
    return folded(board, "The last 10 seconds: links, servers, large flows", *details)


_LINKS = {
    "Sender": look.width(110),
    "Receiver": look.width(110),
    "Job": JOB,
    "Bytes": look.unit(look.BYTES, 1) + look.width(90),
    "Bus bandwidth": _BANDWIDTH,
    "Slower": SLOWER_BARS,
    "Findings": look.link("Open the incident", "incident", "incident", "Incident") + look.width(80),
    "Status": STATUS,
    "Incident": look.hidden(),
}
_ELEPHANTS = {
    "At once": look.gauge(0, 16, (None, BLUE), (4, AMBER), (8, RED)) + look.width(120),
    "When": TIME,
    "Bytes": look.unit(look.BYTES, 1),
}


def service() -> Dashboard:
    """Return the dashboard of prism-ch itself: whether the others can be trusted."""
    trusted = {
        "Trusted": look.colored(look.TRUSTED) + look.width(90),
        "Why": look.wrapped(400),
        "How to mend it": look.wrapped_in(300),
    }
    unseen = {
        "Job": JOB,
        "Tenant": look.width(120),
        "GPUs": look.width(70),
        "GPUs seen": look.width(90),
        "Time seen": look.unit(look.SHARE, 0) + look.width(90),
        "Why": look.wrapped(250),
    }
    health = {
        "Looked at": look.wrapped_in(170),
        "State": look.colored(look.LIGHTS) + look.width(70),
        "Found": look.wrapped(200),
        "How to mend it": look.wrapped_in(280),
        "Checked": TIME,
    }
    exporters = {
        "Exporter": look.width(150),
        "Last flow": TIME,
        "Lag": look.unit(look.SECONDS, 1) + look.gauge(0, 60, (None, BLUE), (10, AMBER), (30, RED)) + look.width(120),
        "Clock ahead": look.unit(look.SECONDS, 4) + look.width(110),
        "Idle timeout": look.unit(look.SECONDS, 3) + look.width(110),
        "Active timeout": look.unit(look.SECONDS, 0) + look.width(115),
    }
    question = "Can what the other dashboards show be trusted, yes or no?"
    board = begin("service", "Service", question, (OPERATORS,), "now-3h", ("Failed windows",))
    behind = panel.lines("Windows behind", "service/windows_behind", 12, look.COUNT).min(0)
    freshness = {"Median": look.color(BLUE), "Longest": look.color(AMBER)}
    until_there = "From the end of a window to its results"
    late = panel.lines(until_there, "service/freshness", 12, look.SECONDS, columns=freshness)
    board = with_panels(
        board,
        panel.rows("Can it be trusted?", "service/trusted", 24, trusted, height=4),
        panel.rows("Who is not seen", "service/unseen", 24, unseen, height=4, nothing="All jobs are wholly seen"),
        panel.rows("Health", "service/health", 24, health, height=7),
        panel.limits(behind, (None, BLUE), (5, AMBER), (15, RED)),
        late.min(0),
        panel.rows("Exporters", "service/exporters", 24, exporters),
    )
    details = (
        panel.lines("Records landed", "service/landed", 12, look.RECORDS).min(0),
        panel.lines("Records rejected", "service/rejected", 12, look.COUNT, bars=True).min(0),
        panel.rows("Records rejected, by reason", "service/rejected_examples", 24, _REJECTED, height=6),
        panel.rows("Windows that failed or had late records", "service/failed_windows", 15, _WINDOWS),
        panel.rows("Storage", "service/storage", 9, _STORAGE),
    )
    return folded(board, "Records, windows, storage", *details)


_STORAGE = {
    "Table": look.wrapped(120),
    "Rows": look.unit(look.LARGE) + look.width(100),
    "On disk": look.unit(look.BYTES, 1) + look.width(90),
    "Parts": look.width(65),
}
_REJECTED = {
    "Reason": look.width(160),
    "Records": look.unit(look.LARGE) + look.width(90),
    "Sources": look.width(80),
    "Last": TIME,
    "Example": look.wrapped(300),
}
_WINDOWS = {
    "Window": TIME,
    "Records": look.unit(look.LARGE) + look.width(80),
    "Late": look.width(60),
    "Status": STATUS,
    "Attempts": look.width(75),
    "Worked": TIME,
    "Error": look.wrapped(100),
}
