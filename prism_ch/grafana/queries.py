"""Finds and expands the queries of the shipped dashboards, and checks their answers.

Grafana expands a query in two steps:

1. The browser replaces `$__conditionalAll(condition, $variable)` and then `${variable:sqlstring}`.
2. The plugin (grafana-clickhouse-datasource 4.x) blanks comments and replaces its macros, the longest name first.

The query of an alert rule passes the plugin only. Variables in other forms stay as they are.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from prism_ch.errors import GrafanaError, PrismError
from prism_ch.grafana.alerts import alerts_of
from prism_ch.grafana.organisations import dashboards_of, panels_of

#: Answers a statement as JSON lines: with a tenant's rows only, or with all if the tenant is None. Raises PrismError.
Ask = Callable[[str, str | None], bytes]

#: Queries of dashboards cover the last six hours, with which most of them open.
_RANGE_S = 6 * 3600
#: A macro or variable that nothing has expanded.
UNEXPANDED = re.compile(r"\$(?:__\w+|\{[^}]*\}|[A-Za-z_]\w*)")

_VARIABLE = re.compile(r"\$\{(\w+):sqlstring\}")
_CONDITIONAL = "$__conditionalAll("
_CONDITIONAL_NAME = re.compile(r"(?<=\$\{)\w+(?=\})|(?<=\$)\w+")
# A quoted text or name, in which a doubled quote is part of it and an open quote reaches to the end; and comments.
_QUOTED = r"'(?:[^']|'')*(?:'|$)|\"(?:[^\"]|\"\")*(?:\"|$)"
_QUOTED_OR_COMMENT = re.compile(rf"{_QUOTED}|--[^\n\r]*|/\*.*?(?:\*/|$)", re.DOTALL)
_ARGUMENT_PART = re.compile(rf"{_QUOTED}|[(),]", re.DOTALL)
#: Grafana asks for about this many points when a dashboard opens.
_POINTS = 300

_BY_DATE = "{0} >= toDate('{from_date}') AND {0} <= toDate('{to_date}')"
_BY_DATE_AND_TIME = f"({_BY_DATE}) AND ({{1}} >= toDateTime({{from_s}}) AND {{1}} <= toDateTime({{to_s}}))"
#: The plugin's macros: {0} and {1} are their arguments, the rest is of the time range. Those without ignore arguments.
_MACROS = {
    "fromTime": "toDateTime({from_s})",
    "toTime": "toDateTime({to_s})",
    "fromTime_ms": "fromUnixTimestamp64Milli({from_ms})",
    "toTime_ms": "fromUnixTimestamp64Milli({to_ms})",
    "timeFilter": "{0} >= toDateTime({from_s}) AND {0} <= toDateTime({to_s})",
    "timeFilter_ms": "{0} >= fromUnixTimestamp64Milli({from_ms}) AND {0} <= fromUnixTimestamp64Milli({to_ms})",
    "dateFilter": _BY_DATE,
    "dateTimeFilter": _BY_DATE_AND_TIME,
    "dt": _BY_DATE_AND_TIME,
    "timeInterval": "toStartOfInterval(toDateTime({0}), INTERVAL {interval_s} second)",
    "timeInterval_ms": "toStartOfInterval(toDateTime64({0}, 3), INTERVAL {interval_ms} millisecond)",
    "interval_s": "{interval_s}",
}


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A time range in milliseconds since the epoch, and the interval between points."""

    from_ms: int
    to_ms: int
    interval_ms: int = 60_000

    @classmethod
    def until(cls, end_s: int, length_s: int) -> TimeRange:
        """Return the range up to a time, with the interval that Grafana chooses for it."""
        length_ms = length_s * 1000
        return cls(end_s * 1000 - length_ms, end_s * 1000, max(length_s // _POINTS * 1000, 1000))

    def values(self) -> dict[str, object]:
        """Return the values in macros: bounds, days in UTC, and intervals."""
        return {
            "from_ms": self.from_ms,
            "to_ms": self.to_ms,
            "from_s": self.from_ms // 1000,
            "to_s": self.to_ms // 1000,
            "interval_ms": max(self.interval_ms, 1),
            "interval_s": max(self.interval_ms // 1000, 1),
            "from_date": f"{datetime.fromtimestamp(self.from_ms / 1000, UTC):%Y-%m-%d}",
            "to_date": f"{datetime.fromtimestamp(self.to_ms / 1000, UTC):%Y-%m-%d}",
        }


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected values of a variable; `is_all` if All is selected."""

    values: tuple[str, ...]
    is_all: bool = False


def expand(sql: str, time_range: TimeRange, variables: Mapping[str, Selection] | None = None) -> str:
    """Return a query as it reaches ClickHouse.

    Parameters: `variables` by name, None for the query of an alert rule, which has none.
    Raises GrafanaError if a macro has the wrong number of arguments.
    """
    if variables is not None:
        sql = _apply_conditional_all(sql, variables)
        sql = _VARIABLE.sub(lambda found: _quoted(variables[found[1]]) if found[1] in variables else found[0], sql)
    sql = _QUOTED_OR_COMMENT.sub(lambda part: part[0] if part[0][0] in "'\"" else " " * len(part[0]), sql)
    values = time_range.values()
    for name in sorted(_MACROS, key=lambda name: (-len(name), name)):
        sql = "".join(_replaced(sql, name, values))
    return sql


def _quoted(selection: Selection) -> str:
    return ",".join("'" + value.replace("'", "''") + "'" for value in selection.values)


def _apply_conditional_all(sql: str, variables: Mapping[str, Selection]) -> str:
    """Replace each `$__conditionalAll(condition, $variable)`: by 1=1 if All is selected, else by the condition."""
    while (start := sql.rfind(_CONDITIONAL)) >= 0:
        # Unlike the plugin's macros, this one counts brackets and commas inside quotes.
        end, pieces = _arguments(sql, start + len(_CONDITIONAL), re.compile(r"[(),]"))
        if len(pieces) != 2:
            return sql
        condition, variable = pieces
        name = _CONDITIONAL_NAME.search(variable.strip())
        selection = variables.get(name[0]) if name else None
        is_all = selection is not None and (selection.is_all or "".join(selection.values) == "")
        sql = sql[:start] + ("1=1" if is_all else condition) + sql[end + 1 :]
    return sql


def _replaced(sql: str, name: str, values: Mapping[str, object]) -> Iterator[str]:
    """Yield the pieces of a statement with one macro replaced everywhere, also inside quotes."""
    token = re.compile(rf"\$__{name}(?![A-Za-z0-9_])")
    template = _MACROS[name]
    position = 0
    while found := token.search(sql, position):
        yield sql[position : found.start()]
        position = found.end()
        arguments: list[str] = []
        if sql[position : position + 1] == "(":
            end, pieces = _arguments(sql, position + 1, _ARGUMENT_PART)
            # A bracket that is never closed does not belong to the macro.
            position = end + 1 if end >= 0 else position
            arguments = [] if "".join(pieces).strip() == "" else [piece.strip() for piece in pieces]
        needed = 2 if "{1}" in template else 1 if "{0}" in template else None
        if needed not in {None, len(arguments)}:
            raise GrafanaError(f"$__{name} takes {needed} arguments, not {len(arguments)}: {', '.join(arguments)}")
        yield template.format(*arguments, **values)
    yield sql[position:]


def _arguments(sql: str, start: int, part: re.Pattern[str]) -> tuple[int, list[str]]:
    """Split the arguments from `start` to the closing bracket.

    Returns the place of the bracket and the arguments, -1 and none if it is never closed.
    """
    depth, pieces, begun = 1, [], start
    for found in part.finditer(sql, start):
        depth += (found[0] == "(") - (found[0] == ")")
        if depth == 0 or (depth == 1 and found[0] == ","):
            pieces.append(sql[begun : found.start()])
            begun = found.end()
        if depth == 0:
            return found.start(), pieces
    return -1, []


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
    """How long a query took, and what is wrong, empty if it answered."""

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
    for panel in panels_of(dashboard):
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


def offer(variable: Mapping[str, Any], time_range: TimeRange) -> str:
    """Return the query of a variable as it is asked while nothing is chosen yet."""
    return expand(variable["query"], time_range, {variable["name"]: Selection(("",))})


def check_queries(ask: Ask, tenant: str | None, end_s: int) -> Iterator[QueryResult]:
    """Ask every query of an organisation's dashboards and alert rules.

    Parameters: `tenant`, None for the operators; `end_s`, the end of all time ranges, seconds since the epoch.
    """
    time_range = TimeRange.until(end_s, _RANGE_S)
    for uid, dashboard in dashboards_of(tenant).items():
        offered: dict[str, list[str]] = {}
        for each in query_variables(dashboard):
            place = f"{uid}: variable {each['name']}"
            result, offered[each["name"]] = _answer(ask, place, offer(each, time_range), tenant)
            yield result
        variables = initial_selection(dashboard, offered)
        for query in queries(uid, dashboard):
            if query.kind != "variable":
                yield _answer(ask, str(query), expand(query.sql, time_range, variables), tenant)[0]
    for alert in alerts_of(is_tenants=tenant is not None):
        sql = expand(alert.sql, TimeRange((end_s - alert.range_s) * 1000, end_s * 1000))
        yield _answer(ask, f"alert rule {alert.title!r}", sql, tenant)[0]


def unexpanded(sql: str) -> str:
    """Return the first macro or variable left outside quotes, else an empty text."""
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
