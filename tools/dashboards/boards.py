"""The six dashboards, each of which answers one question."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as model

from prism_ch.grafana.alerts import DATASOURCE_UID
from tools.dashboards import fields as look
from tools.dashboards import panels as panel
from tools.dashboards.fields import BLUE, GREEN, ORANGE, PURPLE, RED, YELLOW, Columns
from tools.dashboards.query import DATASOURCE, PLUGIN, TABLE, Target, sql

#: Tags for the readers of a dashboard; a tenant's organisation has those of "tenants".
OPERATORS, TENANTS = "operators", "tenants"

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
    "Open incidents": look.width(110),
    "Worst": look.colored(look.SEVERITIES) + look.width(80),
}
#: Columns of every table of findings.
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
    "Summary": look.link("Open the finding", "finding", "finding", "Finding") + look.wrapped(420),
}
#: Columns of every table of incidents.
INCIDENTS = {
    "Finding": look.hidden(),
    **{name: FINDING[name] for name in ("Severity", "Status", "Kind", "Subject", "Since", "Until")},
    "Sure": look.unit(look.SHARE, 0) + look.width(70),
    "GPU-hours lost": look.unit(look.PLAIN, 1) + look.width(110),
    "Slowdown": FINDINGS["Slowdown"],
    "Summary": FINDINGS["Summary"],
    "What to do": look.wrapped(260),
}
FINDING_LINK = {
    "Findings": look.link("Open the finding", "finding", "finding", "Finding"),
    "Finding": look.hidden(),
}
#: Time spans to mark in all panels of a dashboard: their query and colour.
ANNOTATIONS = {
    "Incidents": ("annotate_incidents", ORANGE),
    "Restarts": ("annotate_restarts", PURPLE),
    "Finding": ("annotate", RED),
    "Failed windows": ("annotate_failed", RED),
}
SERVERS = {"GPU-hours lost": look.unit(look.PLAIN, 1), "Incidents": look.width(80), "Open": look.width(60)}


def fleet() -> Dashboard:
    """Return the dashboard of all jobs and tenants."""
    alarming = look.steps_of((None, GREEN), (1, RED))
    noted = ((None, GREEN), (1, ORANGE))
    now = {"Critical": alarming, "GPU-hours lost": look.unit(look.PLAIN, 1) + look.steps_of((None, BLUE))}
    question = "Is the cluster's GPU time spent on training, and if not, where is it lost?"
    board = _dashboard("fleet", "Fleet", question, (OPERATORS,))
    board = board.with_variable(_variable("tenant", "Tenant", "shared/choose_tenant", multi=True))
    share, states = look.SHARE, look.SEVERITY_NUMBERS
    return _with_panels(
        board,
        panel.numbers_now("Jobs", "fleet/jobs_now", 8, columns={"Stalled": alarming}),
        panel.numbers_now("GPUs recognised", "fleet/gpus_recognised", 4, unit_name=share, steps=((None, BLUE),)),
        panel.numbers_now("GPU time healthy", "fleet/healthy_share", 4, unit_name=share, steps=HEALTH),
        panel.numbers_now("Open incidents", "fleet/open_incidents", 8, steps=noted, columns=now),
        panel.rows("Incidents", "fleet/incidents", 24, INCIDENTS, height=9),
        panel.rows("Jobs, stalled and slowest first", "fleet/jobs", 24, JOBS, height=9),
        panel.heat_map("Slowdown by job", "fleet/slowdown", 12, share, label="job", top=0.5),
        panel.states("Incidents by kind", "fleet/incidents_timeline", 12, "kind", states, height=10),
        panel.lines("GPU time healthy, by tenant", "fleet/healthy_over_time", 12, share, by_label="tenant").max(1),
        panel.rows("Servers that cost most", "fleet/worst_servers", 12, SERVERS),
    )


def tenant() -> Dashboard:
    """Return the dashboard of one tenant."""
    totals = {
        "GPU-hours": look.unit(look.PLAIN, 0),
        "GPU-hours lost": look.unit(look.PLAIN, 1),
        "Healthy": look.unit(look.SHARE, 1) + look.steps_of(*HEALTH),
    }
    found, jobs = INCIDENTS | {"Tenants": look.hidden()}, JOBS | {"Tenant": look.hidden()}
    lost = "GPU-hours lost over time, by cause"
    question = "What do a tenant's jobs get out of their GPUs, and what costs them the rest?"
    board = _dashboard("tenant", "Tenant", question, (OPERATORS, TENANTS))
    board = board.with_variable(_variable("tenant", "Tenant", "shared/choose_tenant"))
    return _with_panels(
        board,
        panel.numbers_now("Account of the span", "tenant/account", 24, steps=((None, BLUE),), columns=totals),
        panel.rows("Incidents", "tenant/incidents", 24, found, height=9),
        panel.rows("Jobs, stalled and slowest first", "tenant/jobs", 24, jobs),
        panel.ranking("GPU-hours lost, by cause", "tenant/lost_by_cause", 8, look.PLAIN),
        panel.lines(lost, "tenant/lost_over_time", 16, look.PLAIN, stacked=True, bars=True, by_label="cause"),
        panel.lines("Slowdown against the usual step, by job", "tenant/slower", 12, look.SHARE, by_label="job"),
        panel.states("Incidents by kind", "tenant/incidents_timeline", 12, "kind", look.SEVERITY_NUMBERS),
        panel.rows("Servers that cost most", "tenant/worst_servers", 24, SERVERS, height=6),
    )


def job() -> Dashboard:
    """Return the dashboard of one job."""
    facts = {"Usual step time": look.unit(look.SECONDS, 2)}
    lost = {"GPU-hours lost": look.unit(look.PLAIN, 1) + look.steps_of((None, BLUE))}
    lines = {
        "Usual, high": look.band("Usual, low"),
        "Usual, low": look.invisible(),
        "Usual": look.color(GREEN),
        "Step time": look.color(BLUE),
        "Longest": look.color(ORANGE),
    }
    phases = {
        "Compute": look.color(GREEN),
        "Pipeline": look.color(BLUE),
        "Data parallel": look.color(ORANGE),
        "Other": look.color(look.GREY),
    }
    steps = {
        "Step": look.width(80),
        "Start": look.width(180),
        "Duration": look.unit(look.SECONDS, 2),
        "Slower": look.unit(look.SHARE, 0),
        "Compute": look.unit(look.SECONDS, 2),
        "Pipeline": look.unit(look.SECONDS, 2),
        "Data parallel": look.unit(look.SECONDS, 2),
        **FINDING_LINK,
    }
    found = _findings_without("Job", "Tenant")
    groups = "Data-parallel groups and the pipelines between them"
    phases_of, in_phase = "Phases of the longest of the latest steps, by GPU (C: compute)", look.states(look.PHASES)
    who = {"GPU": look.width(170), "Endpoint": look.width(120), "Sure": look.unit(look.SHARE, 0) + look.width(70)}
    question = "Is a job as fast as it usually is, and which of its GPUs makes the others wait?"
    board = _dashboard("job", "Job", question, (OPERATORS, TENANTS), "now-1h")
    board = board.with_variable(_variable("job", "Job", "shared/choose_job"))
    share = look.SHARE
    return _with_panels(
        board,
        panel.text_now("The job", "job/facts", 18, columns=facts),
        panel.numbers_now("GPU time", "job/healthy_share", 6, unit_name=share, steps=HEALTH, columns=lost),
        panel.rows("Incidents", "job/incidents", 24, INCIDENTS | {"Tenants": look.hidden()}, height=7),
        panel.lines("Step time against the usual", "job/step_time", 12, look.SECONDS, columns=lines),
        panel.lines("What steps consist of", "job/shares", 12, share, stacked=True, columns=phases).min(0).max(1),
        panel.rows("Who makes the others wait", "job/who", 10, who, height=12),
        panel.heat_map("Compute beyond peers, by GPU", "job/gpu_excess", 14, share, label="gpu", top=0.5, height=12),
        panel.matrix(phases_of, "job/phases", 24, ("GPU", "At", "Phase"), look.PLAIN, in_phase, first=170),
        panel.rows("Findings that incidents rest on", "job/findings", 24, found, height=7),
        panel.rows("Longest steps", "job/steps", 14, steps, height=12),
        panel.graph(groups, "job/group_nodes", "job/group_edges", 10),
    )


def finding() -> Dashboard:
    """Return the dashboard of one finding."""
    measures = {
        "Time lost": look.unit(look.SHARE, 0),
        "Robust standard deviations": look.unit(look.PLAIN, 1),
        "Observed against expected": look.unit("suffix: x", 2),
        "Lasted": look.unit(look.SECONDS, 1),
        "GPU-hours lost": look.unit(look.PLAIN, 1),
    }
    parts = ("Step time", "95th percentile", "Compute", "Pipeline", "Data parallel")
    part_columns = {name: look.unit(look.SECONDS, 2) for name in parts}
    peers = {
        "Peers, high": look.band("Peers, low"),
        "Peers, low": look.invisible(),
        "Peers": look.color(GREEN),
        "Culprit": look.color(RED),
    }
    during = {"Before and after": look.color(BLUE), "During": look.color(RED)}
    excess, cells = "Compute beyond peers, by server and GPU", look.heat(-0.1, 0.5)
    delays, slow_cells = "Delay per byte from sender to receiver, against usual", look.heat(-0.1, 1)
    ends = ("Sender", "Receiver", "Slower")
    others = _findings_without("Status", "Tenant", "Slowdown") | {"Incident": look.width(80)}
    incident = {
        name: properties
        for name, properties in INCIDENTS.items()
        if name in {"Severity", "Kind", "Subject", "Sure", "GPU-hours lost", "Slowdown"}
    } | {"Summary": look.wrapped(420), "What to do": look.wrapped(320)}
    question = "What is wrong, who is to blame, and what does that rest on?"
    board = _dashboard("finding", "Finding", question, (OPERATORS, TENANTS), also="Finding")
    board = board.with_variable(_variable("finding", "Finding", "shared/choose_finding"))
    return _with_panels(
        board,
        panel.rows("Verdict", "finding/verdict", 24, FINDING | {"Summary": look.wrapped(520)}, height=5),
        panel.rows("Incident", "finding/incident", 24, incident, height=5),
        panel.numbers_now("What was measured", "finding/measures", 24, steps=((None, BLUE),), columns=measures),
        panel.lines("Compute of the culprit against its peers", "finding/culprit", 12, look.SECONDS, columns=peers),
        panel.lines("Step time before, during and after", "finding/step_time", 12, look.SECONDS, columns=during),
        panel.matrix(excess, "finding/excess", 14, ("Server", "GPU", "Excess"), look.SHARE, cells),
        panel.rows("Before and after", "finding/before_and_after", 10, part_columns, height=10),
        panel.matrix(delays, "finding/delays", 14, ends, look.SHARE, slow_cells).no_value("It rests on no delays"),
        panel.rows("Evidence", "finding/evidence", 10, {"Evidence": look.width(180)}, height=10),
        panel.rows("Other findings at the time", "finding/other_findings", 24, others),
    )


def network() -> Dashboard:
    """Return the dashboard of switches, links and NICs."""
    seen = {"Records": look.unit(look.RECORDS, 0), "Traffic": look.unit(look.BITS, 1)}
    exporters = {
        "Traffic": look.unit(look.BITS, 1),
        "Against peers": look.unit(look.SHARE, 0) + look.heat(-0.5, 0.5, "continuous-BlYlRd"),
        "Records": look.unit(look.RECORDS, 0),
        "Open incidents": look.width(110),
    }
    elephants = {"Bytes": look.unit(look.BYTES, 1), "At once": look.gauge(0, 16, (None, GREEN), (4, ORANGE), (8, RED))}
    links = {
        "Sender": look.width(100),
        "Receiver": look.width(100),
        "Job": look.link("Open the job", "job", "job") + look.width(110),
        "Bytes": look.unit(look.BYTES, 1),
        "Delay per byte": look.unit("suffix: ns", 3),
        "Slower": look.unit(look.SHARE, 0) + look.gauge(0, 2, (None, GREEN), (0.25, ORANGE), (1, RED)),
        "Findings": FINDING_LINK["Findings"] + look.width(80),
        "Status": look.colored(look.STATES) + look.width(70),
        "Finding": look.hidden(),
    }
    balance = "Balance: the busiest exporter of a kind against the mean"
    delay, slow_cells = "Delay per byte from server to server, against the middle", look.heat(-0.1, 1)
    leaves, busy_cells = ("From", "To", "Traffic"), look.heat(0, 1e11, "continuous-BlPu")
    question = "Which switch, link or NIC is slow or overloaded?"
    board = _dashboard("network", "Network", question, (OPERATORS,), "now-1h")
    uplinks = panel.lines(balance, "network/uplink_balance", 12, "suffix: x", by_label="exporters").min(1)
    return _with_panels(
        board,
        panel.numbers_now("Seen in the span", "network/volume", 12, columns=seen),
        panel.numbers_now("Open incidents", "network/incidents_now", 12, steps=((None, GREEN), (1, ORANGE))),
        panel.rows("Incidents of the network", "network/incidents", 24, INCIDENTS, height=7),
        panel.lines("Traffic of the exporters that stand out", "network/traffic", 12, look.BITS, by_label="exporter"),
        panel.limits(uplinks, (None, GREEN), (1.3, ORANGE)),
        panel.rows("Exporters", "network/exporters", 12, exporters, height=10),
        panel.matrix("Traffic from leaf to leaf", "network/leaf_matrix", 12, leaves, look.BITS, busy_cells),
        panel.matrix(delay, "network/delay_matrix", 14, ("Sender", "Receiver", "Slower"), look.SHARE, slow_cells),
        panel.rows("Receivers of most large flows at once", "network/elephants", 10, elephants, height=10),
        panel.rows("Links, those with findings and the slowest first", "network/links", 24, links, height=9),
    )


def pipeline() -> Dashboard:
    """Return the dashboard of prism-ch itself: records, windows, service."""
    now = {"Memory": look.unit(look.BYTES, 1), "Largest lag": look.unit(look.SECONDS, 1)}
    health = {
        "State": look.colored(look.LIGHTS) + look.width(70),
        "Looked at": look.width(160),
        "Checked": look.width(170),
    }
    exporters = {
        "Lag": look.unit(look.SECONDS, 1) + look.gauge(0, 60, (None, GREEN), (10, ORANGE), (30, RED)),
        "Clock ahead": look.unit(look.SECONDS, 4),
        "Idle timeout": look.unit(look.SECONDS, 3),
        "Active timeout": look.unit(look.SECONDS, 0),
    }
    windows = {
        "Status": look.colored(look.STATES) + look.width(80),
        "Attempts": look.width(80),
        "Late": look.width(80),
    }
    rejected, parts = "Records rejected, by reason", "Working a window, by part"
    question = "Can what the other dashboards show be trusted right now?"
    board = _dashboard("pipeline", "Pipeline", question, (OPERATORS,), "now-3h", also="Failed windows")
    lag = panel.lines("Lag of the slowest exporters", "pipeline/exporter_lag", 8, look.SECONDS, by_label="exporter")
    behind = panel.lines("Windows behind", "pipeline/windows_behind", 8, look.COUNT).min(0)
    return _with_panels(
        board,
        panel.numbers_now("Now", "pipeline/now", 10, columns=now),
        panel.rows("Health", "pipeline/health", 14, health, height=4),
        panel.lines("Records landed", "pipeline/landed", 8, look.RECORDS).min(0),
        panel.lines(rejected, "pipeline/rejected", 8, look.COUNT, stacked=True, bars=True, by_label="reason"),
        panel.limits(behind, (None, GREEN), (5, ORANGE), (15, RED)),
        panel.lines("From the end of a window to its results", "pipeline/freshness", 8, look.SECONDS).min(0),
        panel.lines(parts, "pipeline/stage_seconds", 8, look.SECONDS, stacked=True, by_label="stage"),
        lag.min(0),
        panel.rows("Exporters", "pipeline/exporters", 14, exporters),
        panel.lines("Clocks that are off", "pipeline/clocks", 10, look.SECONDS, by_label="exporter"),
        panel.rows("Windows that failed or had late records", "pipeline/failed_windows", 14, windows),
        panel.rows("Storage", "pipeline/storage", 10, {"On disk": look.unit(look.BYTES, 1)}),
        panel.rows("Records rejected", "pipeline/rejected_examples", 24, {}, height=6),
    )


def _findings_without(*names: str) -> Columns:
    return {name: properties for name, properties in FINDINGS.items() if name not in names}


def _dashboard(
    name: str, title: str, question: str, readers: tuple[str, ...], since: str = "now-6h", *, also: str = ""
) -> Dashboard:
    """Begin a dashboard that answers one question.

    Parameters: `also`, an annotation besides those of all dashboards.
    """
    board = (
        Dashboard(f"prism: {title}")
        .uid(f"prism-{name}")
        .description(question)
        .tags(["prism", *readers])
        .timezone("utc")
        .time(since, "now")
        .refresh("1m")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .readonly()
        .with_variable(
            build.DatasourceVariable("datasource")
            .label("Data source")
            .type(PLUGIN)
            .current(model.VariableOption(text=DATASOURCE_UID, value=DATASOURCE_UID))
        )
    )
    links = build.DashboardLink("prism").type(model.DashboardLinkType.DASHBOARDS).tags(["prism"])
    board = board.link(links.as_dropdown(True).keep_time(True))
    for annotation in (*([also] if also else []), "Incidents", "Restarts"):
        query, color = ANNOTATIONS[annotation]
        marks = build.AnnotationQuery().name(annotation).datasource(DATASOURCE).enable(True).icon_color(color)
        board = board.annotation(marks.target(Target(f"{name}/{query}", TABLE, "Anno")))
    return board


def _with_panels(board: Dashboard, *panels: Builder[model.Panel]) -> Dashboard:
    """Add panels, which fill rows of 24 columns from left to right."""
    for each in panels:
        board = board.with_panel(each)
    return board


def _variable(name: str, label: str, query: str, *, multi: bool = False) -> build.QueryVariable:
    """Return a variable with the values of a query. With `multi` it takes several, and All at first."""
    variable = (
        build.QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query(sql(query))
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.DISABLED)
        .multi(multi)
        .include_all(multi)
    )
    return variable.current(model.VariableOption(text="All", value="$__all")) if multi else variable
