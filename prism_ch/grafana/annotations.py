"""The texts and links of a notification, as Grafana's templates.

They hold no dollar sign, which provisioning files would expand, and only functions that Grafana 9 has too. Grafana
fills them in for rules without rows as well, where labels and values are missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prism_ch.errors import GrafanaError

#: Name of the query of a rule whose columns are texts for notifications. Its labels hold those of the alert, so Grafana
#: gives each alert its row; as labels of the alert itself, texts that change would make another alert.
TEXTS = "texts"
#: Columns of that query: the time range that a link opens, in milliseconds since 1970.
RANGE = ("from_ms", "to_ms")


@dataclass(frozen=True, slots=True)
class Page:
    """A dashboard that a notification leads to.

    `variables` by name, each with the column that holds its value; `time_range`, the columns of its range.
    """

    dashboard: str
    variables: Mapping[str, str] = field(default_factory=dict)
    time_range: tuple[str, str] = RANGE


#: Where an incident is shown, what costs time again and again, and the service itself. Of several that an organisation
#: has, the first one is opened whose value is not empty, and else the last one.
INCIDENT_PAGES = (Page("prism-incident", {"incident": "incident"}),)
CULPRIT_PAGES = (
    Page("prism-host", {"host": "host"}),
    Page("prism-incident", {"incident": "incident"}, ("incident_from_ms", "incident_to_ms")),
)
SERVICE_PAGES = (Page("prism-service"),)
#: The dashboard that says what to do about each rule, in a panel of the rule's title.
RUNBOOK = "prism-runbook"


def text(column: str) -> str:
    """Return what a template names a column of the texts by."""
    return f".Values.{TEXTS}.Labels.{column}"


def dashboard_url(pages: Sequence[Page], organisation: int) -> str:
    """Return the template of a page's address with organisation, variables and time range."""
    *others, last = pages
    found = _query(last, organisation)
    for page in reversed(others):
        (column,) = page.variables.values()
        found = f"{{{{ if {text(column)} }}}}{_query(page, organisation)}{{{{ else }}}}{found}{{{{ end }}}}"
    without = _opened(last.dashboard, organisation)
    return f"{_DASHBOARDS}{{{{ if .Values.{TEXTS} }}}}{found}{{{{ else }}}}{without}{{{{ end }}}}"


def runbook_url(title: str, dashboards: Mapping[str, Mapping[str, Any]], organisation: int) -> str:
    """Return the template of the address of a rule's panel in the runbook.

    Raises GrafanaError if there is no such panel.
    """
    for panel in dashboards.get(RUNBOOK, {}).get("panels", ()):
        if panel["title"] == title:
            return f"{_DASHBOARDS}{_opened(RUNBOOK, organisation)}&viewPanel={panel['id']}"
    raise GrafanaError(f"dashboard {RUNBOOK} has no panel {title!r}, to which an alert links")


#: Template of the address under which dashboards are; Grafana's own ends with a slash.
_DASHBOARDS = r"{{ reReplaceAll `/+\z` `` externalURL }}/d/"


def _opened(dashboard: str, organisation: int) -> str:
    return f"{dashboard}?orgId={organisation}"


def _query(page: Page, organisation: int) -> str:
    """Return the template of a page's address, with variables and time range."""
    chosen = "".join(f"&var-{name}={{{{ urlquery {text(column)} }}}}" for name, column in page.variables.items())
    start, end = (f"{{{{ {text(column)} }}}}" for column in page.time_range)
    return f"{_opened(page.dashboard, organisation)}{chosen}&from={start}&to={end}"


def if_rows(template: str, without: str = "") -> str:
    """Return a template that is `without` where a rule has no rows. Texts stay as they are."""
    if ".Labels." not in template and ".Values." not in template:
        return template
    query = TEXTS if f".{TEXTS}." in template else "A"
    other = f"{{{{ else }}}}{if_rows(without)}" if without else ""
    return f"{{{{ if .Values.{query} }}}}{template}{other}{{{{ end }}}}"


def pages_in(pages: Sequence[Page], dashboards: Mapping[str, Mapping[str, Any]]) -> list[Page]:
    """Return the pages of an organisation, up to the first without a variable.

    Raises GrafanaError if it has none, or a dashboard lacks the variable that a link sets.
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
