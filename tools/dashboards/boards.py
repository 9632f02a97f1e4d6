"""The dashboards of GPU time: of the fleet, a tenant, a job, an incident; each answers one question."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from prism_ch.grafana.organisations import OPERATORS_ROW
from tools.dashboards import fields as look
from tools.dashboards import panels as panel
from tools.dashboards.board import OPERATORS, TENANTS, begin, choice, choices, folded, with_panels
from tools.dashboards.columns import (
    HEALTH,
    INCIDENTS,
    JOB,
    JOBS,
    KIND,
    SERVERS,
    SEVERITY,
    SLOWER,
    STATUS,
    SURE,
    TIME,
    WHO,
)
from tools.dashboards.fields import AMBER, BLUE, GREY, RED, Columns

_STATE = {
    "Jobs stopped": look.steps_of((None, BLUE), (1, RED)),
    "Open incidents": look.steps_of((None, BLUE), (1, AMBER)),
    "GPU-hours lost": look.unit(look.PLAIN, 1),
    "GPU time healthy": look.unit(look.SHARE, 1) + look.steps_of(*HEALTH),
}
#: Who is to blame for lost hours.
_BLAMED = {
    "GPUs": look.color(BLUE),
    "Network": look.color(AMBER),
    "Standing still": look.color(RED),
    "Other": look.color(GREY),
}
_NO_INCIDENT = "No incident in this time"
_NO_SERVER = "No incident names a server in this time"
_NOBODY = "Nobody stands out"
_SECONDS_EACH = look.unit(look.SECONDS, 2) + look.width(100)


def fleet() -> Dashboard:
    """Return the dashboard of all jobs and tenants."""
    question = "Is the cluster's GPU time spent on training, and if not, where is it lost?"
    board = begin("fleet", "Fleet", question, (OPERATORS,), "now-6h", ("Incidents", "Restarts"))
    board = board.with_variable(choices("tenant", "Tenant", "fleet/choose_tenant"))
    return _overview(board, "fleet", {}, jobs_height=8)


def tenant() -> Dashboard:
    """Return the dashboard of one tenant."""
    question = "What do a tenant's jobs get out of their GPUs, and what costs them the rest?"
    board = begin("tenant", "Tenant", question, (OPERATORS, TENANTS), "now-6h", ("Incidents", "Restarts"))
    board = board.with_variable(choice("tenant", "Tenant", "tenant/choose_tenant"))
    return _overview(board, "tenant", {"Tenant": look.hidden()}, jobs_height=5)


def _overview(board: Dashboard, name: str, hidden: Columns, jobs_height: int) -> Dashboard:
    """Add the panels on many jobs: state, incidents, jobs, lost hours; then what was when."""
    share, hours = look.SHARE, look.PLAIN
    by_cause = "GPU-hours lost over time, by what was to blame"
    board = with_panels(
        board,
        panel.numbers_now("State", f"{name}/state", 24, columns=_STATE),
        panel.rows("Incidents, open ones first", f"{name}/incidents", 24, INCIDENTS, nothing=_NO_INCIDENT),
        panel.rows("Jobs, stopped and slowest first", f"{name}/jobs", 24, JOBS | hidden, height=jobs_height),
        panel.ranking("GPU-hours lost, by cause", f"{name}/lost_by_cause", 8, hours),
        panel.lines(by_cause, f"{name}/lost_over_time", 16, hours, stacked=True, bars=True, columns=_BLAMED),
    )
    kinds = panel.states(
        "Incidents by kind", f"{name}/incidents_timeline", 12, "kind", look.SEVERITY_NUMBERS, height=10
    )
    servers = panel.rows("Servers that cost most", f"{name}/worst_servers", 24, SERVERS, height=7, nothing=_NO_SERVER)
    slower = panel.heat_map("Slower than usual, by job", f"{name}/slower", 12, share, label="job", top=0.5)
    return folded(board, "When, and on which servers", slower, kinds, servers)


def job() -> Dashboard:
    """Return the dashboard of one job."""
    lost = {"GPU-hours lost": look.unit(look.PLAIN, 1) + look.steps_of((None, BLUE))}
    lines = {
        "Usual, high": look.band("Usual, low"),
        "Usual, low": look.invisible(),
        "Usual": look.color(GREY),
        "Step time": look.color(BLUE),
        "Longest": look.color(AMBER),
    }
    parts = {"Compute": look.color(BLUE), "Pipeline": look.color(AMBER), "Data parallel": look.color(GREY)}
    who = WHO | {"Named by incidents": look.wrapped(120), "Sure": SURE, "Last in slow steps": look.width(150)}
    phases, in_phase = "Phases of the longest of the latest steps (C: compute)", look.states(look.PHASES)
    question = "Is a job as fast as it usually is, and which of its GPUs makes the others wait?"
    board = begin("job", "Job", question, (OPERATORS, TENANTS), "now-1h", ("Incidents", "Restarts"))
    board = board.with_variable(choice("job", "Job", "shared/choose_job"))
    share = look.SHARE
    board = with_panels(
        board,
        panel.text_now("The job", "job/facts", 18, columns={"Usual step time": look.unit(look.SECONDS, 2)}),
        panel.numbers_now("GPU time", "job/healthy_share", 6, unit_name=share, steps=HEALTH, columns=lost),
        panel.rows("Incidents, open ones first", "job/incidents", 24, INCIDENTS, height=7, nothing=_NO_INCIDENT),
        panel.lines("Step time against the usual", "job/step_time", 12, look.SECONDS, columns=lines),
        panel.lines("What steps consist of", "job/shares", 12, share, stacked=True, columns=parts).min(0).max(1),
        panel.rows("Whom the others wait for", "job/who", 24, who, height=6, nothing=_NOBODY),
        panel.matrix("Work beyond peers", "job/work", 24, ("GPU", "At", "Work beyond peers"), share, _WORK, first=260),
        panel.matrix(phases, "job/phases", 24, ("GPU", "At", "Phase"), look.PLAIN, in_phase, first=175),
    )
    groups = "Data-parallel groups and the pipelines between them"
    details = (
        panel.rows("Longest steps", "job/steps", 24, _STEPS, height=10),
        panel.rows("Findings that incidents rest on", "job/findings", 24, _FINDINGS),
        panel.graph(groups, "job/group_nodes", "job/group_edges", 24),
    )
    return folded(board, "Steps, findings and groups", *details)


_WORK = look.heat(*SLOWER)
_OPEN = look.link("Open the incident", "incident", "incident", "Incident")
_STEPS = {
    "Step": look.width(80),
    "Start": TIME,
    "Duration": _SECONDS_EACH,
    "Slower": look.unit(look.SHARE, 0) + look.width(80),
    "Compute": _SECONDS_EACH,
    "Pipeline": _SECONDS_EACH,
    "Data parallel": look.unit(look.SECONDS, 2) + look.width(115),
    "Waited for": look.width(175),
    "Findings": _OPEN + look.wrapped(150),
    "Incident": look.hidden(),
}
_FINDINGS = {
    "Incident": look.hidden(),
    "Severity": SEVERITY,
    "Status": STATUS,
    "Kind": KIND,
    "Subject": look.wrapped_in(190),
    "Since": TIME,
    "Slower": look.unit(look.SHARE, 0) + look.width(80),
    "What was found": _OPEN + look.wrapped(300),
}


def incident() -> Dashboard:
    """Return the dashboard of one incident."""
    verdict = {
        "What is wrong": look.wrapped(330),
        "What to do": look.wrapped(260),
        "Severity": SEVERITY,
        "Status": STATUS,
        "Sure": SURE,
        "Since": TIME,
        "Until": TIME,
    }
    cost = {
        "GPU-hours lost": look.unit(look.PLAIN, 1),
        "Slower": look.unit(look.SHARE, 0),
        "Lasted": look.unit(look.SECONDS, 1),
    }
    peers = {
        "Peers, high": look.band("Peers, low"),
        "Peers, low": look.invisible(),
        "Peers": look.color(GREY),
        "Culprit": look.color(RED),
    }
    during = {"Before and after": look.color(GREY), "During": look.color(RED)}
    who = WHO | {"Endpoint": look.hidden(), "Named": look.width(90), "Last in steps": look.width(115)}
    parts = {"Part": look.width(80), "Steps": look.width(70)}
    parts |= dict.fromkeys(("Step time", "Compute", "Pipeline"), _SECONDS_EACH)
    parts |= {"Data parallel": look.unit(look.SECONDS, 2) + look.width(115)}
    question = "What is wrong, who is to blame, and what does that rest on?"
    board = begin("incident", "Incident", question, (OPERATORS, TENANTS), "now-6h", ("Incident", "Incidents"))
    board = board.with_variable(choice("incident", "Incident", "shared/choose_incident"))
    board = with_panels(
        board,
        panel.rows("What is wrong", "incident/verdict", 24, verdict, height=4, nothing="No incident is chosen"),
        panel.numbers_now("What it costs", "incident/cost", 14, columns=cost),
        panel.rows("Jobs that it slows or stops", "incident/jobs", 10, _CONCERNED, height=4),
        panel.lines("Culprit against its peers: work", "incident/culprit", 12, look.SECONDS, columns=peers).min(0),
        panel.lines("Step time before, during and after", "incident/step_time", 12, look.SECONDS, columns=during),
        panel.rows("Whom the others wait for", "incident/who", 12, who, height=6, nothing=_NOBODY),
        panel.rows("Before and after", "incident/before_and_after", 12, parts, height=6),
    )
    delays, slow = "Slower for each byte, from sender to receiver", look.heat(*SLOWER)
    ends = ("Sender", "Receiver", "Slower")
    flows = panel.rows(
        "Flows behind it", "incident/flows", 24, _FLOWS, height=6, nothing="No records of that time are left"
    )
    evidence = (
        panel.rows("Findings that it rests on", "incident/findings", 24, _EVIDENCE, height=5),
        panel.matrix(delays, "incident/delays", 24, ends, look.SHARE, slow).no_value("It rests on no delays"),
    )
    board = folded(board, "What it rests on", *evidence)
    return folded(board, OPERATORS_ROW, panel.explorable(flows, "incident/flows"))


_CONCERNED = {"Job": JOB, "Tenant": look.width(120), "Status": STATUS, "GPUs": look.width(80)}
_EVIDENCE = {
    "Severity": SEVERITY,
    "Kind": KIND,
    "Subject": look.wrapped_in(190),
    "Job": JOB,
    "Measured": look.unit(look.PLAIN, 2) + look.width(100),
    "Expected": look.unit(look.PLAIN, 2) + look.width(110),
    "Deviations": look.unit(look.PLAIN, 1) + look.width(95),
    "What was found": look.wrapped(300),
}
_FLOWS = {
    "Start": TIME,
    "Sender": look.width(140),
    "Receiver": look.width(140),
    "Bytes": look.unit(look.BYTES, 1) + look.width(100),
    "Lasted": look.unit(look.SECONDS, 2) + look.width(100),
    "Speed": look.unit(look.BITS, 1) + look.width(110),
}
