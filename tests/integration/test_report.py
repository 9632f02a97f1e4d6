"""The report shows what SQL answers, nothing of other tenants, and stays whole whatever names hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import example_data
from prism_ch.cli import main
from prism_ch.errors import UsageError
from prism_ch.report.ask import AskStore
from prism_ch.report.document import Subject, write_report
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate
from tests.hostile_job import fill_hostile
from tests.incidents import incident, of_job
from tests.pages import HOSTILE, Page, assert_rounded, read_page, style_digest
from tests.two_tenants import ALPHA, BRAVO, fill

GPUS, STEPS = 16, 1000


@pytest.fixture(scope="module")
def example(engine_folder: Path) -> Iterator[Store]:
    """A database with the made-up run of sql/examples/data.sql."""
    with connect(f"chdb://{engine_folder}?database=of_report") as store:
        migrate(store)
        example_data.fill(store, GPUS, STEPS)
        yield store
        store.command("DROP DATABASE of_report SYNC", use_database=False)


def _report(store: Store, **subject: Any) -> Page:
    page = read_page(write_report(AskStore(store, subject.get("tenant")), Subject(**subject)))
    assert_rounded(page)
    return page


def _value(page: Page, text: str) -> float:
    """Return the value behind the first number that reads so."""
    return next(value for value, written in page.numbers() if written == text)


def _shown(page: Page) -> set[float]:
    return {value for value, _ in page.numbers()}


@pytest.mark.parametrize(
    "subject", [{}, {"job_id": "job-one"}, {"tenant": "product"}, {"incident_id": "incident-job-one-180"}]
)
def test_a_report_is_whole_and_loads_nothing(example: Store, subject: dict[str, Any]) -> None:
    page = _report(example, **subject)
    [policy] = [each.attributes["content"] for each in page.all("meta") if "http-equiv" in each.attributes]
    assert policy.startswith("default-src 'none'; ")
    assert style_digest(page) in policy
    assert not page.all("a")
    assert "No training job" not in page.text()


def test_hours_and_incidents_equal_sql(example: Store) -> None:
    page = _report(example)
    span = "from_time = '2026-03-02 00:00:00', to_time = '2026-03-03 00:00:00'"
    [(taken, lost)] = example.rows(f"SELECT sum(gpu_s) / 3600, sum(lost_gpu_s) / 3600 FROM gpu_time({span})")  # noqa: S608
    heading = page.all("h1")[0].text
    assert heading.endswith("were lost")
    assert page.numbers()
    shown = _shown(page)
    assert {value for value in shown if value == pytest.approx(taken)}
    assert {value for value in shown if value == pytest.approx(lost)}
    by_cause = f"SELECT cause, sum(lost_gpu_s) / 3600 FROM gpu_time({span}) WHERE cause != '' GROUP BY cause"  # noqa: S608
    causes = example.rows(by_cause)
    table = next(rows for rows in page.tables() if rows[0][0] == "Cause")
    assert {row[0] for row in table[1:]} == {cause for cause, _ in causes} | {"healthy"}
    for cause, hours in causes:
        written = next(row[1] for row in table if row[0] == cause)
        assert _value(page, written) == pytest.approx(hours)
    for lost_gpu_h, confidence in example.rows("SELECT lost_gpu_h, confidence FROM incidents"):
        assert {lost_gpu_h, confidence} <= shown


def test_before_and_after_equals_sql(example: Store) -> None:
    page = _report(example, incident_id="incident-job-one-180")
    table = next(rows for rows in page.tables() if rows[0][0] == "Part")
    parts = (("before", 160, 179), ("during", 180, 199), ("after", 200, 219))
    question = (
        "SELECT count(), quantileExact(0.5)(duration_s), quantileExact(0.95)(duration_s), avg(compute_s), avg(pp_s),"
        " avg(dp_s) FROM steps WHERE job_id = 'job-one' AND step BETWEEN {a:UInt64} AND {b:UInt64}"
    )
    shown = _shown(page)
    for row, (part, first, last) in zip(table[1:], parts, strict=True):
        [values] = example.rows(question, {"a": first, "b": last})
        assert row[0] == part
        assert set(values) <= shown
        assert row[1] == str(values[0])


def test_every_gpu_equals_sql(example: Store) -> None:
    page = _report(example, job_id="job-one")
    rows = example.rows(
        "SELECT m.server, m.gpu, m.pp_stage, avg(g.compute_s + g.pp_s) AS work FROM gpu_steps AS g"
        " INNER JOIN job_members AS m ON g.endpoint = m.endpoint AND g.job_id = m.job_id"
        " WHERE g.job_id = 'job-one' AND g.step % 13 = 0 GROUP BY ALL"
    )
    usual: dict[int, list[float]] = {}
    for _, _, stage, work in rows:
        usual.setdefault(stage, []).append(work)
    titles = {each.text for each in page.all("title")}
    for server, gpu, stage, work in rows:
        works = sorted(usual[stage])
        middle = (works[(len(works) - 1) // 2] + works[len(works) // 2]) / 2
        assert f"{server} GPU {gpu}: {work / middle - 1:+.1%}" in titles


def test_the_slowest_step_equals_sql(example: Store) -> None:
    page = _report(example, job_id="job-two")
    [(step, lasted)] = example.rows(
        "SELECT step, duration_s FROM steps WHERE job_id = 'job-two' ORDER BY duration_s DESC, step LIMIT 1"
    )
    assert {float(step), lasted} <= _shown(page)
    waited = example.rows(
        "SELECT dp_s FROM gpu_steps WHERE job_id = 'job-two' AND step = {step:UInt64}", {"step": step}
    )
    table = next(rows for rows in page.tables() if rows[0][-1] == "In data-parallel phases")
    assert len(table) - 1 == GPUS
    for (seconds,) in waited:
        assert any(value == pytest.approx(seconds, abs=1e-8) for value in _shown(page))


def test_a_span_leaves_out_what_lies_outside(example: Store) -> None:
    hour_ns = 3_600_000_000_000
    begun_ns = 1_772_409_600_000_000_000
    page = _report(example, job_id="job-one", from_ns=begun_ns + hour_ns // 2, to_ns=begun_ns + hour_ns)
    points = next(rows for rows in page.tables() if rows[0][0] == "Steps")
    times = {row[1] for row in points[1:]}
    assert min(times) >= "2026-03-02 00:30:00"
    assert max(times) < "2026-03-02 01:00:00"


@pytest.mark.parametrize(
    "subject, says",
    [
        ({"job_id": "job-three"}, "there is no job job-three"),
        ({"job_id": "job-one", "tenant": "product"}, "there is no job job-one"),
        ({"incident_id": "incident-job-one-180", "tenant": "product"}, "there is no incident"),
        ({"job_id": "job-one", "from_ns": 2, "to_ns": 1}, "nothing lies in the span"),
        ({"job_id": "job-one", "from_ns": 0, "to_ns": 10}, "was not seen between"),
        ({"tenant": ""}, "a tenant needs a name"),
    ],
)
def test_a_report_about_nothing_is_refused(example: Store, subject: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        write_report(AskStore(example, subject.get("tenant")), Subject(**subject))


def test_a_database_without_jobs_says_so(store: Store) -> None:
    assert "No training job was recognised" in _report(store).text()


def test_a_tenants_report_says_nothing_of_others(store: Store) -> None:
    fill(store)
    html = write_report(AskStore(store, "alpha"), Subject(tenant="alpha"))
    read_page(html)
    body = html.partition("</style>")[2]
    assert ALPHA.name in body
    assert [mark for mark in BRAVO.marks if mark in body] == []


@pytest.mark.sweep
def test_hostile_names_stay_names(store: Store) -> None:
    fill_hostile(store, HOSTILE)
    for subject in (
        {},
        {"job_id": HOSTILE[0]},
        {"job_id": HOSTILE[-1]},
        {"tenant": HOSTILE[1]},
        {"incident_id": HOSTILE[2]},
    ):
        page = _report(store, **subject)
        assert len(page.all("style")) == len(page.all("main")) == 1
        assert "49" not in {each.text for each in page.all("bdi")}
        long = [each.text for each in page.elements if len(each.text) > 1500 and each.tag in {"bdi", "text"}]
        assert not [text for text in long if "\u05d0" * 1500 in text and len(text) > 2001]


def test_a_replay_is_shown_where_there_is_one(empty_store: Store) -> None:
    migrate(empty_store)
    of_job(empty_store, "job-a", "alpha")
    incident(empty_store, "incident-a", "10.0.0.1", jobs=["job-a"], tenants=["alpha"])
    assert "By what each incident cost so far" in _report(empty_store).text()
    empty_store.command("DROP VIEW what_if")
    empty_store.command(
        "CREATE TABLE what_if (job_id String, incident_id String, without String, first_step UInt64, last_step UInt64,"
        " actual_s Float64, replayed_s Float64, without_s Float64, saved_gpu_h Float64)"
        " ENGINE = MergeTree ORDER BY job_id"
    )
    assert "By what each incident cost so far" in _report(empty_store).text()
    empty_store.command("INSERT INTO what_if VALUES ('job-a', 'incident-a', '10.0.0.1', 3, 7, 2.5, 2.53, 1.9, 4.25)")
    page = _report(empty_store)
    assert "Steps replayed without a cause" in page.text()
    assert {3.0, 7.0, 2.5, 2.53, 1.9, 4.25} <= _shown(page)
    empty_store.command(
        "INSERT INTO what_if SELECT 'job-a', '', name, 3, 7, 2.5, 2.5, 2, saved"
        " FROM values('name String, saved Float64', ('stragglers', 8), ('worst 1', 2), ('worst 3', 5), ('worst 10', 7))"
    )
    page = _report(empty_store)
    endpoints = float(empty_store.scalar("SELECT endpoints FROM jobs"))
    assert {8.0, 2 / 8, 5 / 8, 7 / 8, 8 / (2.5 * endpoints / 3600)} <= _shown(page)


def test_the_command_writes_a_file_or_to_a_pipe(
    store: Store, store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_job(store, "job-a", "alpha")
    written = tmp_path / "report.html"
    assert main(["report", "--job", "job-a", "-o", str(written), "--url", store_url]) == 0
    assert capsys.readouterr().out == ""
    assert "job-a" in read_page(written.read_text(encoding="utf-8")).text()
    assert main(["report", "--tenant", "alpha", "-o", "-", "--url", store_url]) == 0
    assert "job-a" in read_page(capsys.readouterr().out).text()


@pytest.mark.parametrize(
    "options, status, says",
    [
        (["--job", "a", "--incident", "b", "-o", "-"], 2, "give --job or --incident, not both"),
        (["--job", "no-such", "-o", "-"], 2, "there is no job no-such"),
        (["-o", "/no/such/folder/report.html"], 1, "can't be written"),
        (["--from", "yesterday", "-o", "-"], 2, "is no time"),
        ([], 2, "Missing option"),
    ],
)
def test_the_command_says_what_is_wrong_in_a_line(
    store: Store, store_url: str, capsys: pytest.CaptureFixture[str], options: list[str], status: int, says: str
) -> None:
    assert main(["report", *options, "--url", store_url]) == status
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.err.count("\n") == 1
