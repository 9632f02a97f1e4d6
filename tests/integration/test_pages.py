"""Browsers get pages at the same address, as the same users, and with the same rows as SQL."""

from __future__ import annotations

import csv
import gzip
import http.client
import io
import re
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from bench import example_data
from prism_ch.store.client import connect
from prism_ch.store.migrate import migrate
from tests import traces
from tests.hostile_job import fill_hostile
from tests.pages import HOSTILE, Page, assert_rounded, read_page, style_digest
from tests.serving import PASSWORD, Answered, OwnEndpoint, endpoint
from tests.sweeps import swept
from tests.two_tenants import ALPHA, BRAVO, fill

_HTML = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
_PATHS = ("/", "/job", "/incident", "/step", "/host", "/report", "/sql", "/trace")


def _served(folder: Path, name: str, fill_it: Any, **settings: Any) -> Iterator[OwnEndpoint]:
    with connect(f"chdb://{folder}?database={name}") as store:
        migrate(store)
        fill_it(store)
        with endpoint(store, folder, **settings) as listening:
            yield listening
        store.command("DROP DATABASE {name:Identifier} SYNC", {"name": name}, use_database=False)


@pytest.fixture(scope="module")
def example(engine_folder: Path) -> Iterator[OwnEndpoint]:
    """An endpoint on the made-up run of sql/examples/data.sql."""
    yield from _served(engine_folder, "of_pages", lambda store: example_data.fill(store, 16, 1000))


@pytest.fixture(scope="module")
def two(engine_folder: Path) -> Iterator[OwnEndpoint]:
    """An endpoint on a database in which both tenants have rows."""
    yield from _served(engine_folder, "two_on_pages", fill)


@pytest.fixture(scope="module")
def hostile(engine_folder: Path) -> Iterator[OwnEndpoint]:
    """An endpoint on jobs with names that should break a page."""
    yield from _served(engine_folder, "hostile_pages", lambda store: fill_hostile(store, HOSTILE))


def _get(served: OwnEndpoint, path: str, user: str = "operator", **parameters: Any) -> Answered:
    return served.ask(b"", user, headers=_HTML, method="GET", path=path, **parameters)


def _page(served: OwnEndpoint, path: str, user: str = "operator", **parameters: Any) -> Page:
    answered = _get(served, path, user, **parameters)
    assert answered.status == 200, answered.text[-2000:]
    page = read_page(answered.text)
    assert_rounded(page)
    return page


def _post(served: OwnEndpoint, statement: str, user: str = "operator", **more: Any) -> Answered:
    form = urlencode({"statement": statement, "as": more.pop("kind", "table")})
    headers = {**_HTML, "Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin", **more}
    return served.ask(form, user, headers=headers, path="/sql")


def _links(page: Page, path: str) -> list[dict[str, str]]:
    """Return the parameters of the links to a path."""
    split = (urlsplit(each.attributes["href"]) for each in page.all("a"))
    return [{name: value[0] for name, value in parse_qs(each.query).items()} for each in split if each.path == path]


def test_who_names_no_html_gets_what_clickhouse_answers(example: OwnEndpoint) -> None:
    for headers in ({}, {"Accept": "*/*"}, {"Accept": "application/json"}):
        assert example.ask(b"", "", headers=headers, method="GET").text == "Ok.\n"
        assert example.ask(b"", "", headers=headers, method="GET", path="/ping").text == "Ok.\n"
    assert example.ask(b"", "operator", headers=_HTML, method="GET", query="SELECT 1").text == "1\n"
    assert example.ask("SELECT 2", "operator", headers=_HTML).text == "2\n"


@pytest.mark.parametrize("path", _PATHS)
def test_nobody_sees_a_page_without_a_password(example: OwnEndpoint, path: str) -> None:
    asked = example.ask(b"", "", headers=_HTML, method="GET", path=path)
    assert asked.status == 401
    assert asked.headers["www-authenticate"].startswith("Basic ")
    wrong = example.ask(b"", "", headers={**_HTML, "Authorization": "Basic b3BlcmF0b3I6eA=="}, method="GET", path=path)
    assert wrong.status == 401
    in_the_address = example.ask(b"", "", headers=_HTML, method="GET", path=path, user="operator", password=PASSWORD)
    assert in_the_address.status == 401
    assert _get(example, path, "collector").status == 403
    for answered in (asked, wrong, in_the_address):
        assert "job-one" not in answered.text


def test_pages_run_nothing_are_in_no_frame_and_link_to_pages(example: OwnEndpoint) -> None:
    kinds: dict[tuple[str, ...], str] = {}
    for path, parameters in (
        ("/", {}),
        ("/job", {"id": "job-one"}),
        ("/incident", {"id": "incident-job-one-180"}),
        ("/step", {"job": "job-two", "step": 495}),
        ("/host", {"server": "host-1-0"}),
        ("/report", {"job": "job-one"}),
        ("/sql", {"statement": "SELECT 1"}),
    ):
        answered = _get(example, path, **parameters)
        assert answered.status == 200, path
        page = read_page(answered.text)
        assert_rounded(page)
        policy = answered.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ")
        assert style_digest(page) in policy
        assert policy.endswith("; frame-ancestors 'none'")
        assert answered.headers["x-content-type-options"] == "nosniff"
        assert answered.headers["cache-control"] == "private, no-cache"
        hrefs = [link.attributes["href"] for link in page.all("a")]
        # One link of each kind: those of a table differ in what they name.
        kinds |= {
            (urlsplit(href).path, *sorted(parse_qs(urlsplit(href).query))): href for href in hrefs if href[0] == "/"
        }
    assert {kind[0] for kind in kinds} == set(_PATHS)
    for href in kinds.values():
        split = urlsplit(href)
        reached = example.ask(b"", "operator", headers=_HTML, method="GET", path=f"{split.path}?{split.query}&x=")
        assert reached.status == 200, href


def test_the_first_page_equals_sql(example: OwnEndpoint) -> None:
    page = _page(example, "/")
    shown = [value for value, _ in page.numbers()]
    for answer in (
        "SELECT sum(lost_gpu_h) FROM incidents WHERE status = 'open'",
        "SELECT arrayJoin([count(), sum(endpoints)]) FROM jobs WHERE status = 'running'",
        "SELECT step_s_median FROM jobs",
    ):
        for line in example.ask(answer).text.splitlines():
            assert any(value == pytest.approx(float(line)) for value in shown), answer
    table = page.tables()[-1]
    assert [row[0] for row in table[1:]] == ["job-one", "job-two"]


def test_a_step_equals_sql_and_zooms(example: OwnEndpoint) -> None:
    page = _page(example, "/step", job="job-one", step=190)
    shown = {value for value, _ in page.numbers()}
    [row] = example.ask(
        "SELECT duration_s, compute_s, pp_s, dp_s FROM steps WHERE job_id = 'job-one' AND step = 190"
    ).text.splitlines()
    assert set(map(float, row.split("\t"))) <= shown
    zooms = [link for link in _links(page, "/step") if "until" in link]
    assert {"since": "3.5", "until": "10.5"}.items() <= zooms[0].items()
    zoomed = _page(example, "/step", **zooms[0])
    back = [link for link in _links(zoomed, "/step") if "until" in link]
    assert {"since": "0.0", "until": "14.0"}.items() <= back[1].items()
    inside = _page(example, "/step", job="job-one", step=190, since="-5", until="99999")
    assert inside.all("svg")


def test_a_job_and_a_server_equal_sql(example: OwnEndpoint) -> None:
    job = {value for value, _ in _page(example, "/job", id="job-two").numbers()}
    latest = "(SELECT * FROM steps WHERE job_id = {job:String} ORDER BY step DESC LIMIT 50)"
    for question in (
        "SELECT arrayJoin([endpoints, servers, dp_size, steps, step_s_median]) FROM jobs WHERE job_id = {job:String}",
        "SELECT arrayJoin([lost_gpu_h, confidence]) FROM incidents WHERE has(jobs, {job:String})",
        f"SELECT arrayJoin([step, duration_s, compute_s, pp_s, dp_s]) FROM {latest}",  # noqa: S608
    ):
        assert set(map(float, example.ask(question, param_job="job-two").text.split())) <= job, question
    server = _page(example, "/host", server="host-1-1")
    assert [row[0] for row in next(rows for rows in server.tables() if rows[0][0] == "Job")[1:]] == ["job-one"]
    work = example.ask(
        "SELECT avg(compute_s + pp_s) FROM gpu_steps"
        " WHERE job_id = 'job-one' AND step >= 920 AND endpoint LIKE '10.1.1.%' GROUP BY endpoint"
    )
    shown = [value for value, _ in server.numbers()]
    for line in work.text.splitlines():
        assert any(value == pytest.approx(float(line)) for value in shown), line


def test_a_job_links_to_its_trace_which_equals_sql(example: OwnEndpoint) -> None:
    [link] = _links(_page(example, "/job", id="job-two"), "/trace")
    answered = example.ask(b"", "operator", headers=_HTML, method="GET", path=f"/trace?{urlencode(link)}&x=")
    assert answered.headers["content-type"] == "application/gzip"
    assert answered.headers["content-disposition"] == 'attachment; filename="job-two.pftrace.gz"'
    shown = Counter(_phases(answered.body))
    rows = example.ask(
        "SELECT step, phase, toUnixTimestamp64Nano(end_time) - toUnixTimestamp64Nano(start_time) FROM timeline"
        " WHERE job_id = 'job-two' AND step BETWEEN {first:UInt64} AND {last:UInt64}",
        param_first=link["first"],
        param_last=link["last"],
    ).text.splitlines()
    stored = Counter((f"step {step}", phase, int(length)) for step, phase, length in (row.split("\t") for row in rows))
    assert stored
    assert shown == stored


def _phases(packed: bytes) -> Iterator[tuple[str, str, int]]:
    """List the phases of a trace: the slice around, the name, nanoseconds."""
    for each in traces.decode(gzip.decompress(packed)).all_slices():
        if each.parent is not None:
            yield each.parent.name, each.name, each.end_ns - each.start_ns


def test_pages_of_steps_and_jobs_are_turned(example: OwnEndpoint) -> None:
    page = _page(example, "/job", id="job-one", order="slowest")
    after = next(each for each in page.all("a") if each.attributes.get("rel") == "next")
    assert "order=slowest" in after.attributes["href"]
    second = _page(example, "/job", id="job-one", order="slowest", page=1)
    first_steps, second_steps = ({link["step"] for link in _links(each, "/step")} for each in (page, second))
    assert len(first_steps) == len(second_steps) == 50
    assert not first_steps & second_steps
    assert {each.attributes.get("rel") for each in second.all("a")} >= {"prev", "next"}


@pytest.mark.parametrize(
    "path, parameters, status",
    [
        ("/job", {}, 404),
        ("/job", {"id": "job-three"}, 404),
        ("/incident", {"id": "no"}, 404),
        ("/host", {"server": "no"}, 404),
        ("/step", {"job": "job-one", "step": 123456}, 404),
        ("/step", {"job": "job-one", "step": "-1"}, 400),
        ("/step", {"job": "job-one", "step": "1", "since": "1e5"}, 400),
        ("/job", {"id": "job-one", "page": "9" * 16}, 400),
        ("/report", {"job": "no"}, 400),
        ("/trace", {}, 404),
        ("/trace", {"job": "no"}, 404),
        ("/trace", {"job": "job-one", "first": "-1"}, 400),
        ("/trace", {"job": "job-one", "first": "7", "last": "6"}, 400),
        ("/trace", {"job": "job-one", "first": "123456"}, 400),
        ("/nothing", {}, 404),
    ],
)
def test_what_is_not_there_is_said(example: OwnEndpoint, path: str, parameters: dict[str, Any], status: int) -> None:
    assert _get(example, path, **parameters).status == status


@pytest.mark.parametrize("path", _PATHS)
def test_a_tenant_meets_nothing_of_another(two: OwnEndpoint, path: str) -> None:
    ids = {
        "/": {},
        "/sql": {},
        "/report": {},
        "/host": {"server": "{}-server-0"},
        "/incident": {"id": "{}-incident_id-0"},
    }
    parameters = ids.get(path, {"id": "{}-job", "job": "{}-job", "step": "{}"})
    for mine, other in ((ALPHA, BRAVO), (BRAVO, ALPHA)):
        own = {name: value.format(mine.name if name != "step" else mine.number) for name, value in parameters.items()}
        body = _get(two, path, mine.name, **own)
        shown = (gzip.decompress(body.body) if path == "/trace" else body.body).decode(errors="replace")
        assert [mark for mark in other.marks if mark in shown.rpartition("</style>")[2]] == []
        others = {
            name: value.format(other.name if name != "step" else other.number) for name, value in parameters.items()
        }
        if others:
            assert _get(two, path, mine.name, **others).status in ({404} if path != "/report" else {400})
    assert "Health of the service" not in _get(two, "/", "alpha").text


@pytest.mark.parametrize("name", [*HOSTILE[:2], *swept(*HOSTILE[2:])])
def test_hostile_names_stay_names_on_every_page(hostile: OwnEndpoint, name: str) -> None:
    page = _page(hostile, "/", named=name[:200])
    assert name in {link["id"] for link in _links(page, "/job")}
    for path, parameters in (
        ("/job", {"id": name}),
        ("/incident", {"id": name}),
        ("/step", {"job": name, "step": 5}),
        ("/host", {"server": name}),
        ("/report", {"job": name}),
    ):
        shown = _page(hostile, path, **parameters)
        assert len(shown.all("main")) == 1
    traced = _get(hostile, "/trace", job=name)
    assert traced.status == 200
    assert re.fullmatch(r'attachment; filename="[A-Za-z0-9_.-]+\.pftrace\.gz"', traced.headers["content-disposition"])
    answered = _post(hostile, f"SELECT {_quoted(name)} AS {_backquoted(name[:60])}")
    shown = read_page(answered.text)
    assert len(shown.all("main")) == 1


def _quoted(text: str) -> str:
    return "unhex('" + text.encode().hex() + "')"


def _backquoted(text: str) -> str:
    return "`" + re.sub(r"[^ -~]|[\\`]", "_", text) + "`"


def test_the_sql_box_shows_a_table(example: OwnEndpoint) -> None:
    answered = _post(example, "SELECT job_id, step_s_median, NULL AS n FROM jobs ORDER BY job_id;")
    assert answered.status == 200
    table = read_page(answered.text).tables()[0]
    assert table[1:] == [["job-one", "10", "NULL"], ["job-two", "10", "NULL"]]


def test_the_sql_box_cuts_a_table_and_saves_all(example: OwnEndpoint) -> None:
    cut = read_page(_post(example, "SELECT number FROM numbers(5000)").text)
    assert len(cut.tables()[0]) == 1001
    assert "CSV has them all" in cut.text()
    saved = _post(example, "SELECT number, 'a,\"b' AS t FROM numbers(5000)", kind="csv")
    assert saved.headers["content-type"] == "text/csv; charset=utf-8"
    assert saved.headers["content-disposition"].startswith("attachment; ")
    rows = list(csv.reader(io.StringIO(saved.text)))
    assert rows[0] == ["number", "t"]
    assert rows[-1] == ["4999", 'a,"b']
    assert len(rows) == 5001


@pytest.mark.parametrize(
    "statement",
    [
        "", "SELEC 1", "DROP TABLE jobs_log", "INSERT INTO flow_landing VALUES ()", "SELECT 1 FORMAT CSV",
        "SELECT * FROM nothing", "SELECT throwIf(1)", "SELECT 1; SELECT 2", "SET readonly = 0",
        "SELECT * FROM file('/x')",
    ],
)  # fmt: skip
def test_the_sql_box_only_reads_also_for_operators(example: OwnEndpoint, statement: str) -> None:
    answered = _post(example, statement)
    assert 'role="alert"' in answered.text
    assert unescape(answered.text).count(f">\n{statement}</textarea>") == 1
    assert _post(example, statement, kind="csv").status >= 400
    assert example.ask("SELECT count() FROM jobs").text == "2\n"


def test_the_sql_box_keeps_tenants_apart(two: OwnEndpoint) -> None:
    for kind in ("table", "csv"):
        for statement in ("SELECT * FROM jobs", "SELECT * FROM jobs_log", "SELECT toUInt8(tenant) FROM jobs"):
            answered = _post(two, statement, "alpha", kind=kind)
            assert [mark for mark in BRAVO.marks if mark in answered.text.partition("</style>")[2]] == []
    assert "alpha-job" in _post(two, "SELECT job_id FROM jobs", "alpha").text


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "", "Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "", "Origin": "null"},
        {"Sec-Fetch-Site": ""},
    ],
)
def test_no_other_site_sends_the_form(example: OwnEndpoint, headers: dict[str, str]) -> None:
    answered = _post(example, "SELECT 'it ran'", **headers)
    assert answered.status == 403
    assert "it ran" not in answered.text


def test_no_other_site_sends_statements(example: OwnEndpoint) -> None:
    statement = "CREATE TABLE of_another_site (a UInt8) ENGINE = Memory"
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
        answered = example.ask(statement, "operator", headers=headers)
        assert (answered.status, answered.code) == (403, "497")
    assert example.ask("EXISTS TABLE of_another_site").text == "0\n"
    own = {"Origin": f"http://127.0.0.1:{example.port}"}
    assert example.ask("SELECT 1", "operator", headers=own).text == "1\n"


def test_a_post_to_another_page_is_refused(example: OwnEndpoint) -> None:
    answered = example.ask("id=job-one", "operator", headers={**_HTML, "Sec-Fetch-Site": "same-origin"}, path="/job")
    assert answered.status == 403


def test_an_open_service_answers_by_its_own_name_only(engine_folder: Path) -> None:
    for served in _served(engine_folder, "open_pages", lambda _: None, users={}):
        assert _get(served, "/", "").status == 200
        rebound = served.ask(b"", "", headers={**_HTML, "Host": "evil.example"}, method="GET")
        assert rebound.status == 403


def test_ten_thousand_jobs_are_paged_and_found(engine_folder: Path) -> None:
    def many(store: Any) -> None:
        store.command(
            "INSERT INTO jobs_log (job_id, revision, tenant, status, endpoints, steps, step_s_median,"
            " first_seen, last_seen) SELECT concat('job-', leftPad(toString(number), 5, '0')), 1,"
            " concat('tenant-', toString(number % 100)),"
            " 'running', 8, 10, 2, now() - 600, now() FROM numbers(10000)"
        )
        store.command(
            "INSERT INTO revisions (job_id, revision, cuts)"
            " SELECT concat('job-', leftPad(toString(number), 5, '0')), 1, 0 FROM numbers(10000)"
        )

    for served in _served(engine_folder, "many_pages", many):
        answered = _get(served, "/")
        assert len(answered.body) < 200_000
        assert "1 to 50 of 10,000" in " ".join(read_page(answered.text).text().split())
        last = _page(served, "/", page=199)
        assert {"job-09999"} <= {link["id"] for link in _links(last, "/job")}
        assert "There is no such job" in _page(served, "/", page=200).text()
        found = _page(served, "/", named="JOB-0777")
        assert len(_links(found, "/job")) == 10
        assert not _links(_page(served, "/", open="1"), "/job")


@pytest.mark.parametrize("kind", ["table", "csv"])
def test_a_statement_ends_with_who_waits_for_it(example: OwnEndpoint, kind: str) -> None:
    form = urlencode({"statement": "SELECT count() FROM numbers(10000000000000) WHERE sin(number) = 2", "as": kind})
    login = b64encode(f"reader:{PASSWORD}".encode()).decode()
    headers = {"Authorization": f"Basic {login}", "Sec-Fetch-Site": "same-origin"}
    connection = http.client.HTTPConnection("127.0.0.1", example.port, timeout=60)
    connection.request("POST", "/sql", form, headers)
    assert _within(20, lambda: bool(example.sql.engine.marks))
    connection.close()
    assert _within(20, lambda: not example.sql.engine.marks)


def _within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Wait until something holds; return whether it does in time."""
    until_s = time.monotonic() + seconds
    while not holds() and time.monotonic() < until_s:
        time.sleep(0.05)
    return holds()
