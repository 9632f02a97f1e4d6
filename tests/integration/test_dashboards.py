"""Every query of the dashboards answers on a made-up cluster in the form that its panel needs."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prism_ch.grafana.alerts import ALERTS
from prism_ch.grafana.organisations import shipped_dashboards
from prism_ch.grafana.queries import Query, Selection, TimeRange, queries
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate
from tests.incidents import incident as wrong
from tests.sweeps import swept
from tools.dashboards import ask
from tools.dashboards.check import Report, check, time_queries
from tools.dashboards.sample import SMALL, fill

END_S = int(time.time()) // 3600 * 3600
EVERY = TimeRange.until(END_S, SMALL.hours * 3600)


@pytest.fixture(scope="module")
def filled(engine_folder: Path) -> Iterator[Store]:
    """A database with the small cluster's results, shared by the tests here: they leave it as it was."""
    with connect(f"chdb://{engine_folder}?database=dashboards") as store:
        migrate(store)
        fill(store, SMALL, END_S)
        yield store
        store.command("DROP DATABASE dashboards", use_database=False)


@pytest.mark.slow
@pytest.mark.parametrize("uid", sorted(shipped_dashboards()))
def test_every_query_answers_in_the_form_of_its_panel(filled: Store, uid: str) -> None:
    """One dashboard is asked in all ways, the others as they open; `make dashboards-check` asks all in all ways."""
    dashboards = shipped_dashboards()
    report = Report()
    if uid == "prism-incident":
        answers = ask.ask_all(filled, uid, dashboards[uid], (EVERY, TimeRange.until(END_S, 720)))
    else:
        answers = ask.ask_opened(filled, uid, dashboards[uid], EVERY)
    for answer in answers:
        report.add(answer)
    assert report.problems == []
    assert {place for place, _ in report.durations_s} == {str(query) for query in queries(uid, dashboards[uid])}


@pytest.mark.slow
@pytest.mark.parametrize("uid", ["prism-incident", *swept("prism-tenant")])
def test_tenants_see_nothing_of_one_another(filled: Store, uid: str) -> None:
    answers = list(ask.ask_as_tenants(filled, uid, shipped_dashboards()[uid], EVERY))
    assert [problem for answer in answers for problem in answer.problems] == []
    assert any(answer.frame is not None and answer.frame.rows for answer in answers)


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
def test_broken_query_reported_with_the_reason(filled: Store, sql: str, problem: str) -> None:
    answer = ask.ask(filled, Query("d", "p", "timeseries", sql, target={"format": 0}), EVERY, {})
    assert problem in "; ".join(answer.problems)


def test_query_that_depends_on_the_time_zone_reported(filled: Store) -> None:
    careless = (
        "SELECT toStartOfDay(toDateTime($__fromTime)) AS time, count() AS n FROM steps GROUP BY time ORDER BY time"
    )
    answer = ask.ask_in_other_zone(filled, Query("d", "p", "timeseries", careless, target={"format": 0}), EVERY, {})
    assert "answers otherwise in Asia/Kathmandu" in answer.problems


def test_panel_that_shows_nothing_reported(filled: Store) -> None:
    board = {
        "templating": {"list": []},
        "annotations": {"list": []},
        "panels": [
            {"title": "Empty", "type": "table", "targets": [{"rawSql": "SELECT 1 WHERE 0", "format": 1, "refId": "A"}]}
        ],
    }
    answers = list(ask.ask_all(filled, "d", board, (EVERY,)))
    assert ["shows nothing, whatever is chosen"] in [list(answer.problems) for answer in answers]
    assert list(check(filled, {}, EVERY).lines())[-1] == "problems: 0"


def test_timing_reports_quantiles_and_bounds(filled: Store) -> None:
    board = {"prism-fleet": shipped_dashboards()["prism-fleet"]}
    report = list(time_queries(filled, board, EVERY).lines())
    rules = 2 * len(ALERTS)
    assert report[0].startswith(f"1 dashboards, {11 + rules} queries asked {11 + rules} times: median")
    assert any(re.fullmatch(r"alert rules: p95 \d+ ms", line) for line in report)
    assert any(line.startswith("slowest: ") for line in report)
    assert any(
        re.fullmatch(r"bounds: p95 200 ms, longest 1,000 ms; a query of nothing takes \d+ ms here", line)
        for line in report
    )


def _panel(filled: Store, uid: str, title: str, **chosen: str) -> list[list[object]]:
    (query,) = [found for found in queries(uid, shipped_dashboards()[uid]) if found.place == f"panel {title!r}"]
    answer = ask.ask(filled, query, EVERY, {name: Selection((value,)) for name, value in chosen.items()})
    assert answer.frame is not None, answer.problems
    return answer.frame.rows


def test_incident_of_a_nic_shows_its_slow_pairs(filled: Store) -> None:
    ((incident,),) = filled.rows("SELECT incident_id FROM incidents WHERE kind = 'slow_nic' AND status = 'closed'")
    cells = _panel(filled, "prism-incident", "Slower for each byte, from sender to receiver", incident=incident)
    assert cells
    assert all("host-003/2" in cell[:2] for cell in cells)
    assert min(float(str(cell[2])) for cell in cells) == pytest.approx(1.2)


def test_incident_of_a_switch_shows_a_job_that_it_slows(filled: Store) -> None:
    (counted,) = filled.rows("SELECT countIf(job_id != '') FROM diagnoses WHERE incident_id = 'leaf-0-5-slow'")
    assert counted == (0,)
    step_times = _panel(filled, "prism-incident", "Step time before, during and after", incident="leaf-0-5-slow")
    assert step_times


@pytest.mark.parametrize(
    "subject_type, subject, named", [("group", "2", "its group"), ("stage", "job/stage/1", "its stage")]
)
def test_members_of_a_blamed_group_or_stage_stand_first(
    store: Store, subject_type: str, subject: str, named: str
) -> None:
    about: dict[str, Any] = {"kind": "slow_group", "subject_type": subject_type, "jobs": ["job"], "tenants": ["alpha"]}
    wrong(store, "i-1", subject, **about, start_s=END_S - 600, end_s=END_S)
    store.command(
        "INSERT INTO job_members_log (job_id, revision, endpoint, server, gpu, dp_group, pp_stage)"
        " SELECT 'job', 1, concat('10.0.0.', toString(number)), 's', number, number % 3, number % 3 = 2 FROM numbers(6)"
    )
    store.command("INSERT INTO revisions (job_id, revision, cuts) SELECT arrayJoin(['', 'job']), 1, 0")
    who = "Whom the others wait for"
    rows = _panel(store, "prism-incident", who, incident="i-1")
    assert [row[1:4:2] for row in rows] == [["10.0.0.2", named], ["10.0.0.5", named]]
    assert [row[1] for row in _panel(store, "prism-job", who, job="job")] == ["10.0.0.2", "10.0.0.5"]


def test_who_is_to_blame_stands_first(filled: Store) -> None:
    who = "Whom the others wait for"
    blamed = filled.rows(
        "SELECT incident_id, jobs[1], subject, status FROM incidents"
        " WHERE severity != 'info' AND kind IN ('slow_gpu', 'slow_nic') AND length(jobs) = 1"
    )
    assert len(blamed) > 1
    for incident, job_id, endpoint, status in blamed:
        assert _panel(filled, "prism-incident", who, incident=incident)[0][1] == endpoint
        if status == "open":
            assert _panel(filled, "prism-job", who, job=job_id)[0][1] == endpoint


def test_work_beyond_peers_is_told_only_where_waiting_is_known(filled: Store) -> None:
    who, job_id = "Whom the others wait for", "job-7b21d9"
    (column,) = [
        each["properties"]
        for panel in shipped_dashboards()["prism-job"]["panels"]
        if panel["title"] == who
        for each in panel["fieldConfig"]["overrides"]
        if each["matcher"]["options"] == "Work beyond peers"
    ]
    assert {"id": "noValue", "value": "not replayed"} in column
    assert {row[6] for row in _panel(filled, "prism-job", who, job=job_id)} == {None}
    assert all("with waiting" in str(row[0]) for row in _panel(filled, "prism-job", "Work beyond peers", job=job_id))
    # Of a replayed job it is told: an eighth of a step longer, of the half of it that is work.
    ((incident,),) = filled.rows(
        "SELECT incident_id FROM incidents WHERE has(jobs, 'job-c44e02') AND kind = 'slow_gpu'"
    )
    assert [row[4] for row in _panel(filled, "prism-incident", who, incident=incident)[:2]] == pytest.approx(
        [0.24, 0], abs=0.03
    )
    assert not any(
        "waiting" in str(row[0]) for row in _panel(filled, "prism-job", "Work beyond peers", job="job-c44e02")
    )


def test_chosen_value_is_offered_wherever_the_range_is(filled: Store) -> None:
    long_ago = TimeRange(EVERY.from_ms - 10**9, EVERY.to_ms - 10**9)
    chosen = {
        "prism-job": ("job", "job-1f0a6c"),
        "prism-incident": ("incident", "leaf-0-5-slow"),
        "prism-host": ("host", "host-003"),
        "prism-tenant": ("tenant", "acme"),
    }
    for uid, (name, value) in chosen.items():
        (query,) = [each for each in queries(uid, shipped_dashboards()[uid]) if each.place == f"variable {name}"]
        for time_range in (EVERY, long_ago):
            frame = ask.ask(filled, query, time_range, {name: Selection((value,))}).frame
            assert frame is not None
            assert value in frame.values(frame.names[0])


def test_repeated_records_change_neither_links_nor_delays(filled: Store) -> None:
    links = "Links, those with findings and the slowest first"
    titles = (links, "Slower for each byte, from server to server")
    before = [_panel(filled, "prism-network", title) for title in titles]
    assert before[0][0][8:10] == [1, "closed"]
    named = "SELECT name FROM system.columns WHERE database = 'dashboards' AND table = 'flows_log'"
    columns = ", ".join(name for (name,) in filled.rows(named))
    filled.command("SYSTEM STOP MERGES flows_log")
    ((once,),) = filled.rows("SELECT count() FROM flows_log")
    repeated = "FROM flows_log WHERE bytes < 100000000"
    try:
        filled.command(f"INSERT INTO flows_log ({columns}) SELECT {columns} {repeated}")
        assert filled.rows("SELECT count() FROM flows_log")[0][0] > once
        assert [_panel(filled, "prism-network", title) for title in titles] == before
    finally:
        filled.command("SYSTEM START MERGES flows_log")
        filled.command("OPTIMIZE TABLE flows_log FINAL")
    assert filled.rows("SELECT count() FROM flows_log") == [(once,)]


def test_empty_and_awkward_values_are_no_error(filled: Store) -> None:
    board = shipped_dashboards()["prism-job"]
    (query,) = [query for query in queries("prism-job", board) if query.place == "panel 'The job'"]
    for value in ("", ask.AWKWARD):
        answer = ask.ask(filled, query, TimeRange(EVERY.from_ms, EVERY.to_ms), {"job": Selection((value,))})
        assert (answer.problems, answer.frame is not None and answer.frame.rows) == ((), [])
