"""Asks the engine the queries of dashboards as Grafana would: at several spans, for each way to choose variables."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prism_ch.errors import PrismError
from prism_ch.grafana.check import frames
from prism_ch.grafana.check.frames import Frame
from prism_ch.grafana.check.queries import Query, choices, queries
from prism_ch.grafana.macros import UNEXPANDED, Choice, Span, expand
from prism_ch.query.answer import prepared, question, run
from prism_ch.store.client import Store

#: Most rows that the engine may read for one query of the small sample.
MOST_ROWS_READ = 3_000_000
#: A value that no variable has, with all that breaks careless quoting.
AWKWARD = 'o\'no; such -- "value" $__fromTime ${job}'
#: Where days begin at another time than at full hours of UTC.
ELSEWHERE = "Asia/Kathmandu"


@dataclass(frozen=True, slots=True)
class Asked:
    """One query as it was asked, and what came of it: seconds, rows, and problems."""

    query: Query
    span: Span
    seconds: float
    frame: Frame | None
    problems: tuple[str, ...] = ()


def ask(
    store: Store,
    query: Query,
    span: Span,
    variables: Mapping[str, Choice],
    *,
    tenant: str | None = None,
    zone: str = "UTC",
) -> Asked:
    """Ask one query and look at its rows; an error of the engine is a problem."""
    started = time.perf_counter()
    try:
        sql = expand(query.sql, span, variables)
        # What a value brings in is no part of the query.
        left = UNEXPANDED.search(re.sub(r"'(?:[^']|'')*'", "", sql))
        if left:
            return Asked(query, span, 0.0, None, (f"holds {left[0]}, which nothing expands",))
        frame = answered(store, sql, tenant=tenant, zone=zone)
    except PrismError as error:
        return Asked(query, span, time.perf_counter() - started, None, (str(error),))
    seconds = time.perf_counter() - started
    found = list(frames.problems(query, frame))
    if frame.rows_read is not None and frame.rows_read > MOST_ROWS_READ:
        found.append(f"reads {frame.rows_read:,} rows, more than {MOST_ROWS_READ:,}")
    return Asked(query, span, seconds, frame, tuple(found))


def answered(store: Store, sql: str, *, tenant: str | None = None, zone: str = "UTC") -> Frame:
    """Return the rows of an expanded query; times are numbers, so that zones don't show.

    Raises UsageError and StoreError as the query API does.
    """
    settings = {"date_time_output_format": "unix_timestamp", "session_timezone": zone}
    document = json.loads(run(store, question(store, sql, tenant=tenant, settings=settings), "JSONCompact"))
    meta: list[dict[str, str]] = document["meta"]
    return Frame(
        tuple(column["name"] for column in meta),
        tuple(column["type"] for column in meta),
        document["data"],
        document["statistics"]["rows_read"] if tenant is None else None,
    )


def chosen(store: Store, dashboard: Mapping[str, Any], span: Span, tenant: str | None = None) -> dict[str, list[str]]:
    """Return the values that each variable of a dashboard offers."""
    return {
        name: [str(row[0]) for row in answered(store, expand(sql, span, {}), tenant=tenant).rows]
        for name, sql, _ in choices(dashboard)
    }


def ways(dashboard: Mapping[str, Any], offered: Mapping[str, Sequence[str]]) -> Iterator[dict[str, Choice]]:
    """Yield ways to choose the variables: each value alone, several, All, and one that is awkward and not there."""
    several = {name: many for name, _, many in choices(dashboard)}
    # Where there is nothing to choose, Grafana takes an empty text.
    usual = {
        name: Choice(tuple(values), several=True, everything=True) if several[name] else Choice((*values, "")[:1])
        for name, values in offered.items()
    }
    yield usual
    for name, values in offered.items():
        alone = [Choice((value,), several[name]) for value in (*values[1 - several[name] : 3], AWKWARD)]
        more = [Choice((*values[:2], AWKWARD), several=True)] if several[name] else []
        yield from ({**usual, name: choice} for choice in (*alone, *more))


def used(query: Query, variables: Mapping[str, Choice]) -> dict[str, Choice]:
    """Return what is chosen of those variables that a query names."""
    return {name: choice for name, choice in variables.items() if re.search(rf"\${{?{name}\b", query.sql)}


def all_of(store: Store, uid: str, dashboard: Mapping[str, Any], spans: Sequence[Span]) -> Iterator[Asked]:
    """Ask every query of a dashboard as it opens at every span, and in every other way at the first.

    The first span must have data for each query.
    """
    offered = chosen(store, dashboard, spans[0])
    usual, *others = ways(dashboard, offered)
    for query in queries(uid, dashboard):
        shown = 0
        named = [way for way in others if used(query, way) != used(query, usual)]
        for variables, span in [*((usual, span) for span in spans), *((way, spans[0]) for way in named)]:
            asked = ask(store, query, span, variables)
            shown += len(asked.frame.rows) if asked.frame is not None and span is spans[0] else 0
            yield asked
        if not shown:
            yield Asked(query, spans[0], 0.0, None, ("shows nothing, whatever is chosen",))
        yield _elsewhere(store, query, spans[0], usual)


def as_opened(store: Store, uid: str, dashboard: Mapping[str, Any], span: Span) -> Iterator[Asked]:
    """Ask every query of a dashboard as it is when it opens; the seconds are of its statement alone, see timed()."""
    variables = next(ways(dashboard, chosen(store, dashboard, span)))
    for query in queries(uid, dashboard):
        asked = ask(store, query, span, variables)
        seconds = asked.seconds if asked.problems else timed(store, expand(query.sql, span, variables))
        yield replace(asked, seconds=seconds, problems=())


def timed(store: Store, sql: str) -> float:
    """Return the seconds that an operator's statement takes: the middle one of three, files being in memory.

    Over a connection that is open, as Grafana keeps its own, and without the gate, which operators do not pass there.
    """
    asked = question(store, sql)
    seconds = []
    with prepared(store, asked) as connection:
        for _ in range(4):
            started = time.perf_counter()
            connection.raw(asked.text, fmt="JSONCompact")
            seconds.append(time.perf_counter() - started)
    return sorted(seconds[1:])[1]


def least_s(store: Store) -> float:
    """Return the seconds that a query of nothing takes: what each query costs besides its own work."""
    return timed(store, "SELECT 1")


def _elsewhere(store: Store, query: Query, span: Span, variables: Mapping[str, Choice]) -> Asked:
    """Ask a query under another time zone: it must answer the same."""
    # Intervals begin with the day of the zone: minutes do so everywhere at once.
    span = replace(span, interval_ms=60_000)
    here = ask(store, query, span, variables)
    there = ask(store, query, span, variables, zone=ELSEWHERE)
    if there.problems or (here.frame and there.frame and _rounded(here.frame) == _rounded(there.frame)):
        return there
    return replace(there, problems=(f"answers otherwise in {ELSEWHERE}",))


def _rounded(frame: Frame) -> list[list[Any]]:
    """Return the rows without the last digits, in which sums differ with the order of their parts."""
    return [[float(f"{value:.9g}") if isinstance(value, float) else value for value in row] for row in frame.rows]
