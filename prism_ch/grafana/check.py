"""Checks that every query of the shipped dashboards and alert rules answers on a database."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prism_ch.errors import PrismError
from prism_ch.grafana.alerts import ALERTS
from prism_ch.grafana.macros import UNEXPANDED, Selection, TimeRange, expand
from prism_ch.grafana.organisations import dashboards_of

#: Answers a statement as JSON lines: with a tenant's rows only, or with all if the tenant is None. Raises PrismError.
Ask = Callable[[str, str | None], bytes]

#: Dashboards are asked for the last six hours, with which most of them open.
_RANGE_S = 6 * 3600


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a dashboard.

    `kind` is a panel's type, "variable" or "annotation"; `element` and `target` the JSON around the query.
    """

    dashboard: str
    place: str
    kind: str
    sql: str
    element: Mapping[str, Any] = field(default_factory=dict)
    target: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """Name the place of the query."""
        ref_id = self.target.get("refId", "A")
        return f"{self.dashboard}: {self.place}" + ("" if ref_id in {"A", "Anno"} else f" ({ref_id})")


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What became of one query: how long it took, and what is wrong, empty if it answered."""

    place: str
    duration_s: float
    problem: str = ""


def queries(uid: str, dashboard: Mapping[str, Any]) -> Iterator[Query]:
    """Yield the queries of a dashboard's variables, annotations and panels."""
    for variable in query_variables(dashboard):
        yield Query(uid, f"variable {variable['name']}", "variable", variable["query"], variable)
    for each in dashboard["annotations"]["list"]:
        if target := each.get("target"):
            yield Query(uid, f"annotation {each['name']}", "annotation", target["rawSql"], each, target)
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield Query(uid, f"panel {panel['title']!r}", panel["type"], target["rawSql"], panel, target)


def query_variables(dashboard: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the variables whose values a query gives."""
    return [each for each in dashboard["templating"]["list"] if each["type"] == "query"]


def initial_selection(dashboard: Mapping[str, Any], offered: Mapping[str, Sequence[str]]) -> dict[str, Selection]:
    """Return the selection with which a dashboard opens.

    That is All of a variable that may have several values, and of another the first; Grafana takes an empty text if
    there is none. Parameters: `offered`, the values of each variable.
    """
    return {
        each["name"]: Selection(tuple(offered[each["name"]]), is_all=True)
        if each["multi"]
        else Selection((*offered[each["name"]], "")[:1])
        for each in query_variables(dashboard)
    }


def check_queries(ask: Ask, tenant: str | None, end_s: int) -> Iterator[QueryResult]:
    """Ask every query of an organisation's dashboards and alert rules.

    Parameters: `tenant`, None for the operators; `end_s`, the end of all time ranges, seconds since the epoch.
    """
    time_range = TimeRange.until(end_s, _RANGE_S)
    for uid, dashboard in dashboards_of(tenant).items():
        offered: dict[str, list[str]] = {}
        for each in query_variables(dashboard):
            place = f"{uid}: variable {each['name']}"
            result, offered[each["name"]] = _answer(ask, place, expand(each["query"], time_range, {}), tenant)
            yield result
        variables = initial_selection(dashboard, offered)
        for query in queries(uid, dashboard):
            if query.kind != "variable":
                yield _answer(ask, str(query), expand(query.sql, time_range, variables), tenant)[0]
    for alert in ALERTS:
        if tenant is None or alert.is_for_tenants:
            sql = expand(alert.sql, TimeRange((end_s - alert.range_s) * 1000, end_s * 1000))
            yield _answer(ask, f"alert rule {alert.title!r}", sql, tenant)[0]


def unexpanded(sql: str) -> str:
    """Return the first macro or variable that an expanded query holds outside quotes, else an empty text."""
    left = UNEXPANDED.search(re.sub(r"'(?:[^']|'')*'", "", sql))
    return "" if left is None else left[0]


def _answer(ask: Ask, place: str, sql: str, tenant: str | None) -> tuple[QueryResult, list[str]]:
    """Ask an expanded query; return its result, and the first column as texts."""
    if left := unexpanded(sql):
        return QueryResult(place, 0.0, f"holds {left}, which nothing expands"), []
    started = time.perf_counter()
    try:
        rows = [json.loads(line) for line in ask(sql, tenant).splitlines()]
    except PrismError as error:
        return QueryResult(place, time.perf_counter() - started, str(error)), []
    return QueryResult(place, time.perf_counter() - started), [str(next(iter(row.values()))) for row in rows]
