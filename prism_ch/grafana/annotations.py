"""The texts and links of a notification, as Grafana's templates.

They hold no dollar sign, which provisioning files would expand, and only functions that Grafana 9 has too. Grafana
fills them in for rules without rows as well, where labels and values are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prism_ch.errors import GrafanaError
from prism_ch.model.finding import FindingKind

#: Columns of every rule's query besides labels and the number to judge: the time range that a link opens.
RANGE = ("from_ms", "to_ms")


@dataclass(frozen=True, slots=True)
class Page:
    """A dashboard that a notification leads to; `variables` by name, each with the label that holds its value."""

    dashboard: str
    variables: Mapping[str, str] = field(default_factory=dict)


#: Where an incident is shown, what costs time again and again, and the service itself. Of several that an organisation
#: has, the first one is opened whose label is not empty, and else the last one.
INCIDENT_PAGES = (Page("prism-incident", {"incident": "incident"}),)
CULPRIT_PAGES = (Page("prism-host", {"host": "host"}), Page("prism-network"), Page("prism-tenant"))
SERVICE_PAGES = (Page("prism-service"),)
#: The dashboard that says what to do about each rule, in a panel of the rule's title.
RUNBOOK = "prism-runbook"

#: What is wrong, by kind of incident: its own sentence changes while it lasts, and so can be no label.
WHAT_IS_WRONG: Mapping[FindingKind, str] = {
    "slow_step": "steps take longer than usual",
    "slow_group": "a communicator needs longer than its likes",
    "slow_switch": "flows through it need longer for their bytes",
    "slow_gpu": "it computes longer than its peers",
    "slow_nic": "its flows need longer for their bytes",
    "slow_link": "flows over it need longer for their bytes",
    "congestion": "other traffic takes the bandwidth",
    "stall": "training stood still",
    "hang": "training stands still",
    "restart": "all members connected anew",
    "imbalance": "loads are unequal all along",
    "telemetry": "records are missing, or merge what should be told apart",
}


def what_is_wrong() -> str:
    """Return the template of what an incident's kind means."""
    first, *others = (f'if eq .Labels.kind "{kind}" }}}}{text}' for kind, text in WHAT_IS_WRONG.items())
    return "{{ " + first + "".join(f"{{{{ else {each}" for each in others) + "{{ end }}"


def dashboard_url(pages: Sequence[Page], organisation: int) -> str:
    """Return the template of a page's address with organisation, variables and time range."""
    dashboard = _of_first(pages, lambda page: page.dashboard)
    start, end = (f'{{{{ printf "%.0f" .Values.{name}.Value }}}}' for name in RANGE)
    chosen = if_rows(f"{_of_first(pages, _variables)}&from={start}&to={end}", *RANGE)
    return _address(dashboard, organisation) + chosen


def runbook_url(title: str, dashboards: Mapping[str, Mapping[str, Any]], organisation: int) -> str:
    """Return the template of the address of a rule's panel in the runbook.

    Raises GrafanaError if there is no such panel.
    """
    for panel in dashboards.get(RUNBOOK, {}).get("panels", ()):
        if panel["title"] == title:
            return f"{_address(RUNBOOK, organisation)}&viewPanel={panel['id']}"
    raise GrafanaError(f"dashboard {RUNBOOK} has no panel {title!r}, to which an alert links")


def _address(dashboard: str, organisation: int) -> str:
    """Return the template of the address of a dashboard; Grafana's own ends with a slash."""
    return rf"{{{{ reReplaceAll `/+\z` `` externalURL }}}}/d/{dashboard}?orgId={organisation}"


def _variables(page: Page) -> str:
    return "".join(f"&var-{name}={{{{ urlquery .Labels.{label} }}}}" for name, label in page.variables.items())


def _of_first(pages: Sequence[Page], part: Callable[[Page], str]) -> str:
    """Return the template of the first page whose label is not empty. Else it is the last's."""
    *others, last = pages
    text = part(last)
    for page in reversed(others):
        (label,) = page.variables.values()
        text = f"{{{{ if .Labels.{label} }}}}{part(page)}{{{{ else }}}}{text}{{{{ end }}}}"
    return text


def if_rows(text: str, *queries: str) -> str:
    """Return a template that is empty where a rule has no rows. Others stay as they are."""
    if ".Labels." not in text and ".Values." not in text:
        return text
    for name in queries or ("A",):
        text = f"{{{{ if .Values.{name} }}}}{text}{{{{ end }}}}"
    return text


def pages_in(pages: Sequence[Page], dashboards: Mapping[str, Mapping[str, Any]]) -> list[Page]:
    """Return the pages of an organisation, up to the first without a label.

    Raises GrafanaError if it has none, or a dashboard lacks the variable that a label sets.
    """
    found = []
    for page in pages:
        if page.dashboard not in dashboards:
            continue
        known = {each["name"] for each in dashboards[page.dashboard].get("templating", {}).get("list", ())}
        if missing := page.variables.keys() - known:
            raise GrafanaError(f"dashboard {page.dashboard} has no variable {', '.join(missing)}, which an alert sets")
        found.append(page)
        if not page.variables:
            break
    if not found:
        raise GrafanaError(f"there is no dashboard {pages[0].dashboard}, to which an alert links")
    return found
