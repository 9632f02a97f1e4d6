"""Expands Grafana's variables and the macros of its ClickHouse plugin, so that the engine can answer a query.

1. The browser replaces `$__conditionalAll(condition, $variable)` and then `${variable:sqlstring}`.
2. The plugin (grafana-clickhouse-datasource 4.x) blanks comments and replaces its macros, the longest name first.

The query of an alert rule passes the plugin only. Variables in other forms stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from prism_ch.errors import GrafanaError

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
    """The time range of a dashboard, in milliseconds since the epoch, and the interval between points."""

    from_ms: int
    to_ms: int
    interval_ms: int = 60_000

    @classmethod
    def until(cls, end_s: int, length_s: int) -> TimeRange:
        """Return the range up to a time, with the interval that Grafana chooses for it."""
        length_ms = length_s * 1000
        return cls(end_s * 1000 - length_ms, end_s * 1000, max(length_s // _POINTS * 1000, 1000))

    def values(self) -> dict[str, object]:
        """Return what macros are made of: bounds, days in UTC, and intervals."""
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
