"""Expands a panel's query as Grafana and its ClickHouse datasource do, so that the engine can answer it without them.

Grafana's browser side goes first (`interpolate`): `$__conditionalAll`, then the dashboard's variables. The plugin's
server side follows (`expand_macros`): comments become blanks, then its macros are replaced, the longest name first;
an alert rule only ever sees this side. Written after grafana-clickhouse-datasource 4.x and the parser that it uses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from prism_ch.errors import GrafanaError

#: What an expanded statement no longer holds, if all in it was known: a macro or a variable.
UNEXPANDED = re.compile(r"\$(?:__\w+|\{[^}]*\}|[A-Za-z_]\w*)")

_VARIABLE = re.compile(r"\$(?P<plain>\w+)|\[\[(?P<square>\w+)\]\]|\$\{(?P<braced>\w+)(?::(?P<format>\w+))?\}")
_CONDITIONAL = "$__conditionalAll("
_ALL_NAME = re.compile(r"(?<=\$\{)\w+(?=\})|(?<=\$)\w+")
# A text or name in quotes, where a doubled quote goes on and an open one ends with the statement; and comments.
_QUOTED = r"'(?:[^']|'')*(?:'|$)|\"(?:[^\"]|\"\")*(?:\"|$)"
_QUOTED_OR_COMMENT = re.compile(rf"{_QUOTED}|--[^\n\r]*|/\*.*?(?:\*/|$)", re.DOTALL)
_ARGUMENT_PART = re.compile(rf"{_QUOTED}|[(),]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Span:
    """What a dashboard shows: from when until when, milliseconds since the epoch, and how far apart points are."""

    from_ms: int
    to_ms: int
    interval_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class Choice:
    """What is chosen of a variable: one value or, where several may be, any number of them; `everything` is All."""

    values: tuple[str, ...]
    several: bool = False
    everything: bool = False


def expand(sql: str, span: Span, variables: Mapping[str, Choice] | None = None) -> str:
    """Return a query as it reaches ClickHouse; without `variables` as an alert rule's does, past the browser.

    Raises GrafanaError where a macro has the wrong number of arguments.
    """
    return expand_macros(sql if variables is None else interpolate(sql, span, variables), span)


def interpolate(sql: str, span: Span, variables: Mapping[str, Choice]) -> str:
    """Put the values of variables in, as Grafana does in the browser; names that are not known stay."""
    sql = _apply_conditional_all(sql, variables)
    built_in = {
        "__interval": _interval_text(span.interval_ms),
        "__interval_ms": str(span.interval_ms),
        "__from": str(span.from_ms),
        "__to": str(span.to_ms),
    }

    def value(found: re.Match[str]) -> str:
        name = found["plain"] or found["square"] or found["braced"]
        if name in built_in:
            return built_in[name]
        return _formatted(variables[name], found["format"]) if name in variables else found[0]

    return _VARIABLE.sub(value, sql)


def expand_macros(sql: str, span: Span) -> str:
    """Replace comments by blanks and the plugin's macros by what they stand for; unknown ones stay.

    Raises GrafanaError where a macro has the wrong number of arguments.
    """
    sql = _QUOTED_OR_COMMENT.sub(lambda part: part[0] if part[0][0] in "'\"" else " " * len(part[0]), sql)
    for name in sorted(_MACROS, key=lambda name: (-len(name), name)):
        sql = "".join(_replaced(sql, name, span))
    return sql


def _formatted(choice: Choice, style: str | None) -> str:
    """Write a variable's values in one of Grafana's formats."""
    if style == "sqlstring":
        return ",".join("'" + value.replace("'", "''") + "'" for value in choice.values)
    if style == "singlequote":
        return ",".join("'" + value.replace("'", "\\'") + "'" for value in choice.values)
    if style in {"csv", "raw"}:
        return ",".join(choice.values)
    if style is not None:
        raise GrafanaError(f"the format {style} of a variable is not known here; use sqlstring")
    # The plugin's own way: several are put in quotes, a quote among them is not escaped.
    return "'" + "','".join(choice.values) + "'" if choice.several else "".join(choice.values)


def _apply_conditional_all(sql: str, variables: Mapping[str, Choice]) -> str:
    """Replace `$__conditionalAll(condition, $variable)` by 1=1 where all is chosen, else by the condition."""
    while (start := sql.rfind(_CONDITIONAL)) >= 0:
        # Quotes mean nothing to this macro: a bracket or comma within them counts.
        ends, pieces = _arguments(sql, start + len(_CONDITIONAL), re.compile(r"[(),]"))
        if len(pieces) != 2:
            return sql
        condition, variable = pieces
        named = _ALL_NAME.search(variable.strip())
        choice = variables.get(named[0]) if named else None
        everything = choice is not None and (choice.everything or "".join(choice.values) == "")
        sql = sql[:start] + ("1=1" if everything else condition) + sql[ends + 1 :]
    return sql


def _replaced(sql: str, name: str, span: Span) -> Iterator[str]:
    """Yield the pieces of a statement with one macro replaced wherever it stands, even in a text."""
    token = re.compile(rf"\$__{name}(?![A-Za-z0-9_])")
    position = 0
    while found := token.search(sql, position):
        yield sql[position : found.start()]
        position = found.end()
        pieces: Sequence[str] = ()
        if sql[position : position + 1] == "(":
            ends, pieces = _arguments(sql, position + 1, _ARGUMENT_PART)
            # Brackets that are not closed are none of the macro's.
            position = ends + 1 if ends >= 0 else position
        arguments = [piece.strip() for piece in pieces]
        yield _MACROS[name](span, [] if arguments == [""] else arguments)
    yield sql[position:]


def _arguments(sql: str, start: int, part: re.Pattern[str]) -> tuple[int, list[str]]:
    """Split what stands in brackets from `start` on; return where they close and the pieces, -1 and none if nowhere."""
    depth, pieces, begun = 1, [], start
    for found in part.finditer(sql, start):
        depth += (found[0] == "(") - (found[0] == ")")
        if depth == 0 or (depth == 1 and found[0] == ","):
            pieces.append(sql[begun : found.start()])
            begun = found.end()
        if depth == 0:
            return found.start(), pieces
    return -1, []


def _interval_text(interval_ms: int) -> str:
    """Write an interval as Grafana does, in the largest unit that divides it."""
    for unit, length_ms in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if interval_ms >= length_ms and interval_ms % length_ms == 0:
            return f"{interval_ms // length_ms}{unit}"
    return f"{interval_ms}ms"


def _interval_s(span: Span) -> int:
    """Return the interval in whole seconds, at least one."""
    return max(span.interval_ms // 1000, 1)


def _moment(at_ms: int) -> str:
    """Write a moment to the second."""
    return f"toDateTime({at_ms // 1000})"


def _moment_ms(at_ms: int) -> str:
    """Write a moment to the millisecond."""
    return f"fromUnixTimestamp64Milli({at_ms})"


def _date(at_ms: int) -> str:
    """Write the day of a moment, UTC."""
    return f"toDate('{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d}')"


def _between(column: str, span: Span, written: Callable[[int], str]) -> str:
    """Write the condition that a column lies within the span, both ends included."""
    return f"{column} >= {written(span.from_ms)} AND {column} <= {written(span.to_ms)}"


def _taking(count: int, text: Callable[..., str]) -> Callable[[Span, list[str]], str]:
    """Make a macro of so many arguments."""

    def macro(span: Span, arguments: list[str]) -> str:
        if len(arguments) != count:
            raise GrafanaError(f"a macro takes {count} arguments, not {len(arguments)}: {', '.join(arguments)}")
        return text(span, *arguments)

    return macro


def _date_time_filter(span: Span, date: str, time: str) -> str:
    """Write the condition on a column of dates and one of times."""
    return f"({_between(date, span, _date)}) AND ({_between(time, span, _moment)})"


#: The macros of the plugin's server side. Those without arguments take no notice of any.
_MACROS: dict[str, Callable[[Span, list[str]], str]] = {
    "fromTime": lambda span, _: _moment(span.from_ms),
    "toTime": lambda span, _: _moment(span.to_ms),
    "fromTime_ms": lambda span, _: _moment_ms(span.from_ms),
    "toTime_ms": lambda span, _: _moment_ms(span.to_ms),
    "timeFilter": _taking(1, lambda span, column: _between(column, span, _moment)),
    "timeFilter_ms": _taking(1, lambda span, column: _between(column, span, _moment_ms)),
    "dateFilter": _taking(1, lambda span, column: _between(column, span, _date)),
    "dateTimeFilter": _taking(2, _date_time_filter),
    "dt": _taking(2, _date_time_filter),
    "timeInterval": _taking(
        1, lambda span, column: f"toStartOfInterval(toDateTime({column}), INTERVAL {_interval_s(span)} second)"
    ),
    "timeInterval_ms": _taking(
        1,
        lambda span, column: (
            f"toStartOfInterval(toDateTime64({column}, 3), INTERVAL {max(span.interval_ms, 1)} millisecond)"
        ),
    ),
    "interval_s": lambda span, _: str(_interval_s(span)),
}
