"""Columns of the tables that several dashboards show: units, colours, widths, links."""

from __future__ import annotations

from tools.dashboards import fields as look
from tools.dashboards.fields import AMBER, BLUE, GREY, RED

#: Thresholds of shares: what is healthy of GPU time, and how much longer a step takes than usual.
HEALTH = ((None, RED), (0.9, AMBER), (0.97, BLUE))
SLOWER = ((None, GREY), (0.05, BLUE), (0.1, AMBER), (0.3, RED))
SLOWER_BARS = look.unit(look.SHARE, 0) + look.gauge(0, 0.5, *SLOWER) + look.width(120)
#: Work of a GPU beyond its peers, where it is known.
WORK = look.unit(look.SHARE, 0) + look.gauge(-0.1, 0.5, *SLOWER) + look.unknown("not replayed") + look.width(140)
LOST = look.unit(look.PLAIN, 1) + look.width(120)
TIME = look.width(165)
SEVERITY = look.colored(look.SEVERITIES) + look.width(80)
STATUS = look.colored(look.STATES) + look.width(80)
SURE = look.unit(look.SHARE, 0) + look.width(70)
JOB = look.link("Open the job", "job", "job") + look.width(140)
KIND = look.kinds() + look.width(110)

JOBS = {
    "Job": JOB,
    "Status": STATUS,
    "Tenant": look.width(120),
    "GPUs": look.width(70),
    "DP x PP": look.width(80),
    "Step time": look.unit(look.SECONDS, 2) + look.width(90),
    "Usual": look.unit(look.SECONDS, 2) + look.width(80),
    "Slower": SLOWER_BARS,
    "GPU-hours lost": LOST,
    "Open incidents": look.width(120),
    "Last seen": TIME,
}
INCIDENTS = {
    "Incident": look.hidden(),
    "What is wrong": look.link("Open the incident", "incident", "incident", "Incident") + look.wrapped(300),
    "What to do": look.wrapped(240),
    "Severity": SEVERITY,
    "Status": STATUS,
    "Sure": SURE,
    "GPU-hours lost": LOST,
    "Since": TIME,
    "Lasted": look.unit(look.SECONDS, 1) + look.width(90),
}
#: Whom others wait for: a GPU leads to its server.
WHO = {
    "GPU": look.link("Open the server", "host", "host", "Server") + look.width(175),
    "Endpoint": look.width(125),
    "Server": look.hidden(),
    "Work beyond peers": WORK,
}
SERVERS = {
    "Server": look.link("Open the server", "host", "host") + look.width(130),
    "Incidents": look.width(85),
    "Open": look.width(60),
    "Kinds": look.wrapped_in(160),
    "Jobs": look.wrapped(150),
    "GPU-hours lost": LOST,
    "Last": TIME,
}
