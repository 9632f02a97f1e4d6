"""Asks a database the queries of dashboards as Grafana would: at several time ranges, for various selections."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prism_ch.errors import PrismError
from prism_ch.grafana.alerts import alerts_of
from prism_ch.grafana.organisations import of_tenants
from prism_ch.grafana.queries import (
    Query,
    Selection,
    TimeRange,
    expand,
    initial_selection,
    offer,
    queries,
    query_variables,
    unexpanded,
)
from prism_ch.query.answer import check_statement, prepared, run
from prism_ch.store.client import Store
from tools.dashboards import fit, frames, wide
from tools.dashboards.frames import Frame
from tools.dashboards.sample import statement

#: Rows that the engine may read for one query of the small cluster.
ROWS_READ_MAX = 3_000_000
#: A value that no variable has, with all that breaks careless quoting.
AWKWARD = 'o\'no; such -- "value" $__fromTime ${job}'
#: A time zone whose days start at no full hour of UTC.
OTHER_ZONE = "Asia/Kathmandu"

#: How a problem begins with a query that reads more rows than that.
_READS = "reads"

Offered = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Answer:
    """A query's answer; `frame` is None if it failed."""

    query: Query
    duration_s: float
    frame: Frame | None
    problems: tuple[str, ...] = ()


def ask(
    store: Store,
    query: Query,
    time_range: TimeRange,
    variables: Mapping[str, Selection],
    *,
    tenant: str | None = None,
    zone: str = "UTC",
) -> Answer:
    """Ask one query and check its rows; an error of the engine is a problem."""
    started = time.perf_counter()
    try:
        sql = expand(query.sql, time_range, variables)
        if left := unexpanded(sql):
            return Answer(query, 0.0, None, (f"holds {left}, which nothing expands",))
        frame = read_frame(store, sql, tenant=tenant, zone=zone)
    except PrismError as error:
        return Answer(query, time.perf_counter() - started, None, (str(error),))
    duration_s = time.perf_counter() - started
    problems = [
        *frames.problems(query, frame),
        *wide.problems(query, frame, time_range),
        *fit.problems(query, frame),
    ]
    if frame.rows_read is not None and frame.rows_read > ROWS_READ_MAX:
        problems.append(f"{_READS} {frame.rows_read:,} rows, more than {ROWS_READ_MAX:,}")
    return Answer(query, duration_s, frame, tuple(problems))


def read_frame(store: Store, sql: str, *, tenant: str | None = None, zone: str = "UTC") -> Frame:
    """Return the result of an expanded query. Times are numbers, in which zones don't show.

    Raises UsageError and StoreError as the query API does.
    """
    settings = {"date_time_output_format": "unix_timestamp", "session_timezone": zone}
    document = json.loads(run(store, check_statement(store, sql, tenant=tenant, settings=settings), "JSONCompact"))
    return Frame(
        tuple(column["name"] for column in document["meta"]),
        tuple(column["type"] for column in document["meta"]),
        document["data"],
        document["statistics"]["rows_read"] if tenant is None else None,
    )


def offered_values(
    store: Store, dashboard: Mapping[str, Any], time_range: TimeRange, tenant: str | None = None
) -> dict[str, list[str]]:
    """Return the values that each variable of a dashboard offers."""
    return {
        each["name"]: [str(row[0]) for row in read_frame(store, offer(each, time_range), tenant=tenant).rows]
        for each in query_variables(dashboard)
    }


def other_selections(dashboard: Mapping[str, Any], offered: Offered) -> Iterator[dict[str, Selection]]:
    """Yield selections of one value, of several, and of an awkward unknown one."""
    initial = initial_selection(dashboard, offered)
    is_multi = {each["name"]: bool(each["multi"]) for each in query_variables(dashboard)}
    for name, values in offered.items():
        for value in (*values[0 if is_multi[name] else 1 : 3], AWKWARD):
            yield {**initial, name: Selection((value,))}
        if is_multi[name]:
            yield {**initial, name: Selection((*values[:2], AWKWARD))}


def ask_all(store: Store, uid: str, dashboard: Mapping[str, Any], time_ranges: Sequence[TimeRange]) -> Iterator[Answer]:
    """Ask every query of a dashboard at every time range, as it opens.

    At the first range, which must have data for each query, it is asked with other selections and in another time zone
    as well.
    """
    first = time_ranges[0]
    offered = offered_values(store, dashboard, first)
    initial = initial_selection(dashboard, offered)
    others = list(other_selections(dashboard, offered))
    for query in queries(uid, dashboard):
        relevant = [each for each in others if _named(query, each) != _named(query, initial)]
        answers = [ask(store, query, first, each) for each in (initial, *relevant)]
        yield from answers
        if not any(answer.frame and answer.frame.rows for answer in answers):
            yield Answer(query, 0.0, None, ("shows nothing, whatever is chosen",))
        yield from (ask(store, query, time_range, initial) for time_range in time_ranges[1:])
        yield ask_in_other_zone(store, query, first, initial, answers[0])


def ask_in_other_zone(
    store: Store,
    query: Query,
    time_range: TimeRange,
    variables: Mapping[str, Selection],
    known: Answer | None = None,
) -> Answer:
    """Ask a query in another time zone. That it answers otherwise than in UTC is a problem.

    Parameters: `known`, its answer in UTC, which does for a query without intervals.
    """
    # Longer intervals start with the day of the zone, minutes everywhere at once.
    minutes = replace(time_range, interval_ms=60_000)
    if (
        known is None
        or known.frame is None
        or expand(query.sql, minutes, variables) != expand(query.sql, time_range, variables)
    ):
        known = ask(store, query, minutes, variables)
    in_utc, answer = known, ask(store, query, minutes, variables, zone=OTHER_ZONE)
    if answer.problems or (in_utc.frame and answer.frame and _rounded(in_utc.frame) == _rounded(answer.frame)):
        return answer
    return replace(answer, problems=(f"answers otherwise in {OTHER_ZONE}",))


def ask_as_tenants(store: Store, uid: str, dashboard: Mapping[str, Any], time_range: TimeRange) -> Iterator[Answer]:
    """Ask every query as each tenant, with its own and others' values of variables.

    A result that shows another tenant's names is a problem.
    """
    names: dict[str, set[str]] = {tenant: set(found) for tenant, found in store.rows(statement("tenants_names"))}
    everything = offered_values(store, dashboard, time_range)
    for tenant in sorted(names.keys() - {"nobody"}):
        others = set().union(*(found for owner, found in names.items() if owner != tenant)) - names[tenant]
        own = offered_values(store, dashboard, time_range, tenant)
        foreign = {name: [value for value in values if value not in own[name]] for name, values in everything.items()}
        for query in queries(uid, of_tenants(dashboard)):
            selections = [initial_selection(dashboard, offered) for offered in (own, foreign)]
            for variables in selections if _named(query, selections[0]) else selections[:1]:
                answer = ask(store, query, time_range, variables, tenant=tenant)
                values = {str(value) for row in (answer.frame.rows if answer.frame else ()) for value in row}
                leaks = [f"shows {tenant} what is another's: {name}" for name in sorted(others & values)[:3]]
                yield replace(answer, problems=(*answer.problems, *leaks))


def time_all(
    store: Store, uid: str, dashboard: Mapping[str, Any], time_range: TimeRange, tenant: str | None = None
) -> Iterator[Answer]:
    """Time every query of a dashboard as it opens. It may read as many rows as it likes."""
    variables = initial_selection(dashboard, offered_values(store, dashboard, time_range, tenant))
    for answer in ask_opened(store, uid, dashboard, time_range, tenant):
        problems = tuple(problem for problem in answer.problems if not problem.startswith(_READS))
        taken_s = duration_s(store, expand(answer.query.sql, time_range, variables), tenant) if answer.frame else 0.0
        yield replace(answer, duration_s=taken_s, problems=problems)


def ask_opened(
    store: Store, uid: str, dashboard: Mapping[str, Any], time_range: TimeRange, tenant: str | None = None
) -> Iterator[Answer]:
    """Ask every query of a dashboard once, as it opens."""
    variables = initial_selection(dashboard, offered_values(store, dashboard, time_range, tenant))
    for query in queries(uid, dashboard):
        yield ask(store, query, time_range, variables, tenant=tenant)


def time_rules(store: Store, end_s: int, tenant: str | None = None) -> Iterator[Answer]:
    """Time every query of the alert rules as Grafana evaluates them at a time."""
    for rule in alerts_of(is_tenants=tenant is not None):
        time_range = TimeRange((end_s - rule.range_s) * 1000, end_s * 1000)
        for name, sql in rule.queries.items():
            query = Query("alert rule", f"{rule.title!r}, {name}", "rule", sql)
            yield Answer(query, duration_s(store, expand(sql, time_range), tenant), None)


def duration_s(store: Store, sql: str, tenant: str | None = None) -> float:
    """Return the seconds that a statement takes, as the median of three.

    Files are in memory, the connection is open, as Grafana keeps its own, and the statement has been checked.
    """
    checked = check_statement(store, sql, tenant=tenant)
    durations = []
    with prepared(store, checked) as connection:
        for _ in range(4):
            started = time.perf_counter()
            connection.raw(checked.text, fmt="JSONCompact")
            durations.append(time.perf_counter() - started)
    return sorted(durations[1:])[1]


def _named(query: Query, variables: Mapping[str, Selection]) -> dict[str, Selection]:
    """Return the selections of the variables that a query names."""
    return {name: each for name, each in variables.items() if re.search(rf"\${{?{name}\b", query.sql)}


def _rounded(frame: Frame) -> list[list[Any]]:
    """Return the rows without the last digits of numbers. Those of sums depend on the order of parts."""
    return [[float(f"{value:.9g}") if isinstance(value, float) else value for value in row] for row in frame.rows]
