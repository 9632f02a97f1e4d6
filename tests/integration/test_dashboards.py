"""The queries of all dashboards, asked of the engine on a made-up cluster."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from prism_ch.grafana.check import ask, tenancy
from prism_ch.grafana.check.findings import Findings
from prism_ch.grafana.check.queries import Query, queries
from prism_ch.grafana.check.run import check, span, time_queries
from prism_ch.grafana.macros import Choice, Span
from prism_ch.grafana.sample import SMALL, fill
from prism_ch.grafana.wanted import shipped_dashboards
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate

END_S = int(time.time()) // 3600 * 3600
EVERY = span(END_S, SMALL.hours)
END = datetime.fromtimestamp(END_S, UTC)
BEGIN = END - timedelta(hours=SMALL.hours)


@pytest.fixture(scope="module")
def filled(engine_folder: Path) -> Iterator[Store]:
    """A database with the small cluster's results, shared by the tests here: they only read."""
    with connect(f"chdb://{engine_folder}?database=dashboards") as store:
        migrate(store)
        fill(store, SMALL, END_S)
        yield store
        store.command("DROP DATABASE dashboards", use_database=False)


@pytest.mark.slow
@pytest.mark.parametrize("uid", sorted(shipped_dashboards()))
def test_every_query_answers_in_the_form_that_its_panel_needs(filled: Store, uid: str) -> None:
    dashboards = shipped_dashboards()
    findings = Findings()
    for asked in ask.all_of(filled, uid, dashboards[uid], (EVERY, span(END_S, 0.2))):
        findings.add(asked)
    assert findings.problems == []
    assert {query for query, _ in findings.asked} == {str(query) for query in queries(uid, dashboards[uid])}


@pytest.mark.slow
@pytest.mark.parametrize("uid", ["prism-tenant", "prism-job", "prism-finding"])
def test_tenants_see_nothing_of_one_another(filled: Store, uid: str) -> None:
    asked = list(tenancy.all_of(filled, uid, shipped_dashboards()[uid], EVERY))
    assert [problem for each in asked for problem in each.problems] == []
    assert any(each.frame is not None and each.frame.rows for each in asked)


@pytest.mark.parametrize(
    "sql, problem",
    [
        ("SELECT 1", "must be `time`"),
        ("SELECT end_time AS time, duration_s FROM steps", "not sorted"),
        ("SELECT end_time AS time, duration_s FROM no_such_table", "no_such_table"),
        ("SELECT $__timeFilter()", "takes 1 argument"),
        ("SELECT $__rateColumns(a, b, c) FROM steps", "holds $__rateColumns"),
        ("SELECT * FROM file('/etc/passwd')", "file"),
    ],
)
def test_what_is_wrong_with_a_query_is_told(filled: Store, sql: str, problem: str) -> None:
    asked = ask.ask(filled, Query("d", "p", "timeseries", sql, time_series=True), EVERY, {})
    assert problem in "; ".join(asked.problems)


def test_the_time_zone_of_a_server_shows_where_a_query_is_careless(filled: Store) -> None:
    careless = (
        "SELECT toStartOfDay(toDateTime($__fromTime)) AS time, count() AS n FROM steps GROUP BY time ORDER BY time"
    )
    found = ask._elsewhere(filled, Query("d", "p", "timeseries", careless, time_series=True), EVERY, {})
    assert "answers otherwise in Asia/Kathmandu" in found.problems


def test_an_empty_panel_is_told(filled: Store) -> None:
    board = {
        "templating": {"list": []},
        "annotations": {"list": []},
        "panels": [
            {"title": "Empty", "type": "table", "targets": [{"rawSql": "SELECT 1 WHERE 0", "format": 1, "refId": "A"}]}
        ],
    }
    asked = list(ask.all_of(filled, "d", board, (EVERY,)))
    assert ["shows nothing, whatever is chosen"] in [list(each.problems) for each in asked]
    findings = check(filled, {}, EVERY)
    assert list(findings.lines())[-1] == "problems: 0"


def test_queries_are_timed(filled: Store) -> None:
    board = {"prism-fleet": shipped_dashboards()["prism-fleet"]}
    findings = time_queries(filled, board, EVERY)
    report = list(findings.lines())
    assert report[0].startswith("1 dashboards, 13 queries asked 13 times: median")
    assert any(line.startswith("slowest: ") for line in report)
    assert any(
        re.fullmatch(r"bounds: p95 200 ms, longest 1,000 ms; a query of nothing takes \d+ ms here", line)
        for line in report
    )


def gpu_time(since: datetime, until: datetime) -> str:
    return f"gpu_time(from_time = '{since:%F %T}', to_time = '{until:%F %T}')"


def test_losses_and_gpu_time_agree(filled: Store) -> None:
    by_cause = (
        "SELECT job_id, cause::String AS cause, round(gpu_hours_lost, 6) FROM losses WHERE lost_s > 0 ORDER BY ALL"
    )
    columns = "job_id, cause, round(sum(lost_gpu_s) / 3600, 6) AS lost"
    by_step = f"SELECT {columns} FROM {gpu_time(BEGIN, END)} GROUP BY ALL HAVING lost > 0 ORDER BY ALL"  # noqa: S608 - times of this file
    assert filled.rows(by_step) == filled.rows(by_cause) != []


def test_each_step_is_in_one_of_two_spans_that_follow_one_another(filled: Store) -> None:
    middle = BEGIN + timedelta(minutes=75)
    # Both ends count, so the next second begins the second span.
    spans = (gpu_time(BEGIN, middle), gpu_time(middle + timedelta(seconds=1), END), gpu_time(BEGIN, END))
    asked = "SELECT job_id, tenant, cause, step, start_time, end_time, round(gpu_s, 6) FROM {} ORDER BY ALL"
    first, second, both = (filled.rows(asked.format(span)) for span in spans)
    assert first
    assert second
    assert sorted(first + second) == both


def test_a_job_that_is_slow_all_through_a_span_is_held_against_the_day_before(filled: Store) -> None:
    late = gpu_time(END - timedelta(minutes=5), END)
    rows = filled.rows(
        f"SELECT cause, sum(lost_gpu_s) / sum(gpu_s) FROM {late} WHERE job_id = 'job-c44e02' GROUP BY cause"  # noqa: S608 - as above
    )
    assert rows == [("slow_gpu", pytest.approx(0.12 / 1.12, rel=0.05))]


def test_nothing_chosen_and_awkward_values_are_no_error(filled: Store) -> None:
    board = shipped_dashboards()["prism-job"]
    (query,) = [query for query in queries("prism-job", board) if query.place == "panel 'The job'"]
    for chosen in (Choice(("",)), Choice((ask.AWKWARD,))):
        asked = ask.ask(filled, query, Span(EVERY.from_ms, EVERY.to_ms), {"job": chosen})
        assert (asked.problems, asked.frame is not None and asked.frame.rows) == ((), [])
