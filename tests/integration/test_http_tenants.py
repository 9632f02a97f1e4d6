"""Over HTTP, too, a tenant meets no row, count or name of another, whatever it puts into a request."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prism_ch.query.tenancy import REVEALING_SETTINGS, closed_names, tenant_views
from prism_ch.store.client import connect
from prism_ch.store.migrate import migrate
from tests.serving import OwnEndpoint, endpoint
from tests.two_tenants import ALPHA, BRAVO, fill, named


@pytest.fixture(scope="module")
def two(engine_folder: Path) -> Iterator[OwnEndpoint]:
    """An endpoint on a database in which both tenants have rows."""
    with connect(f"chdb://{engine_folder}?database=two_over_http") as store:
        migrate(store)
        fill(store)
        with endpoint(store, engine_folder) as listening:
            yield listening
        store.command("DROP DATABASE two_over_http SYNC", use_database=False)


def assert_nothing_of_bravo(text: str) -> None:
    assert not [mark for mark in BRAVO.marks if mark in text], text[:500]


@pytest.mark.parametrize("view", sorted(tenant_views()))
def test_a_view_shows_each_tenant_its_own_rows(two: OwnEndpoint, view: str) -> None:
    for user, mine, other in (("alpha", ALPHA, BRAVO), ("bravo", BRAVO, ALPHA), ("alpha", ALPHA, BRAVO)):
        seen = two.ask(f"SELECT * FROM {named(view)} FORMAT JSONEachRow", user)  # noqa: S608
        assert seen.status == 200
        assert mine.name in seen.text
        assert other.name not in seen.text
    everything = two.ask(f"SELECT * FROM {named(view)} FORMAT JSONEachRow", "reader").text  # noqa: S608
    assert ALPHA.name in everything
    assert BRAVO.name in everything


def test_every_other_table_is_refused(two: OwnEndpoint) -> None:
    for name in sorted(closed_names()):
        for table in (name, f"{two.database}.{name}", f"`{name}`"):
            answered = two.ask(f"SELECT * FROM {table}", "alpha")  # noqa: S608
            assert (answered.status, answered.code) == (403, "497"), name


@pytest.mark.parametrize(
    "parameters",
    [
        {"param_t": "bravo"},
        {"param_t": "bravo", "param_job_id": "bravo-job"},
        {"database": "default"},
        {"user_tenant": "bravo"},
        {"additional_table_filters": "{}"},
        {"readonly": "0"},
        {"SQL_tenant": "bravo"},
        {"session_id": "of-bravo"},
        {"session_id": "of-bravo", "session_check": "1"},
        {"query_id": "of-bravo"},
        {"role": "bravo"},
        {"quota_key": "bravo"},
        {"log_comment": "bravo"},
        {"additional_result_filter": "1"},
        {"default_format": "JSON"},
        {"use_query_cache": "1"},
        {"profile": "default"},
        {"user": "bravo"},
        {"allow_introspection_functions": "1"},
    ],
)
def test_no_parameter_of_the_url_opens_anything(two: OwnEndpoint, parameters: dict[str, Any]) -> None:
    before = two.ask("SELECT count() FROM jobs", "bravo", session_id="of-bravo", query_id="of-bravo")
    assert before.body == b"53\n"
    for statement in ("SELECT * FROM jobs", "SELECT count(), '{t:String}' FROM steps WHERE tenant = 'bravo'"):
        answered = two.ask(statement, "alpha", **parameters)
        assert_nothing_of_bravo(answered.text)
        assert answered.status == 200 or answered.code


@pytest.mark.parametrize("database", ["system", "two_tenants", "information_schema", "served", "", "../two_over_http"])
def test_another_database_does_not_exist_for_a_tenant(two: OwnEndpoint, database: str) -> None:
    answered = two.ask("SELECT count() FROM jobs", "alpha", database=database)
    assert (answered.code or answered.body) in {"81", b"3\n"}
    assert two.ask("SELECT 1", "alpha", headers={"X-ClickHouse-Database": "system"}).code == "81"


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM {t:Identifier}",
        "SELECT * FROM system.processes",
        "SELECT * FROM system.settings",
        "SELECT name, value FROM system.settings WHERE name = 'additional_table_filters'",
        "SELECT getSetting('additional_table_filters')",
        "SELECT * FROM merge('two_over_http', '.*')",
        "SELECT * FROM jobs INTO OUTFILE '/dev/fd/1'",
        "SELECT * FROM jobs SETTINGS additional_table_filters = {}",
        "SELECT 1; SELECT * FROM jobs_log",
        "SET readonly = 0",
        "CREATE TEMPORARY TABLE t (a UInt8)",
        "INSERT INTO flow_landing FORMAT JSONEachRow {}",
        "INSERT INTO FUNCTION file('x') SELECT * FROM jobs_log",
        "KILL QUERY WHERE 1",
        "USE system",
        "EXPLAIN SELECT * FROM jobs",
        "SHOW PROCESSLIST",
        "SHOW SETTINGS LIKE 'additional%'",
        "SELECT name, value, readonly FROM system.settings LIMIT 10000 UNION ALL SELECT * FROM jobs_log",
    ],
)
def test_what_reaches_further_is_refused(two: OwnEndpoint, statement: str) -> None:
    two.ask("CREATE TEMPORARY TABLE of_operator (a String)", session_id="shared")
    two.ask("INSERT INTO of_operator VALUES ('bravo')", session_id="shared")
    sessions: list[dict[str, Any]] = [{}, {"session_id": "shared"}]
    for session in sessions:
        answered = two.ask(statement, "alpha", param_t="jobs_log", **session)
        assert answered.status >= 400, answered.text
        assert_nothing_of_bravo(answered.text)
    assert two.ask("SELECT a FROM of_operator", "alpha", session_id="shared").code == "497"


def test_what_clients_ask_of_settings_shows_no_value(two: OwnEndpoint) -> None:
    answer = two.ask("SELECT name, value, readonly FROM system.settings LIMIT 10000", "alpha").text
    assert "additional_table_filters\t\t1\n" in answer or "additional_table_filters\t{}\t1\n" in answer
    assert "bravo" not in answer
    assert "alpha" not in answer


def test_an_error_tells_a_tenant_no_value(two: OwnEndpoint) -> None:
    answered = two.ask("SELECT toUInt8(job_id) FROM steps", "alpha")
    assert answered.status >= 400
    assert_nothing_of_bravo(answered.text)


def test_an_error_tells_a_tenant_nothing_of_how_it_is_run(two: OwnEndpoint) -> None:
    for statement in (
        "SELECT * FROM gpu_steps WHERE char(toInt64(bubble_s) - 1) != 10010 OR job_id > 'b'",
        "SELECT sum(job_id) FROM steps WHERE step = 3",
        "SELECT arrayElement(1, step) FROM steps WHERE job_id != toIPv4('127.0.0.1')",
    ):
        answer = two.ask(statement, "alpha")
        assert answer.code in {"43", "386"}, answer.text
        for inner in ("executing", "processing", "__", "unhex", "revision", "_log"):
            assert inner not in answer.text


def test_an_error_far_into_a_result_tells_a_tenant_no_value(two: OwnEndpoint) -> None:
    question = "SELECT toUInt8(if(number = 3000000, 'far', '1')) FROM numbers(4000000)"
    try:
        answer = two.ask(question, "alpha").text
    except http.client.IncompleteRead as error:
        answer = error.partial.decode()
    assert "CANNOT_PARSE_TEXT" in answer
    assert "its error could show what is not yours" in answer
    assert "far" not in answer


@pytest.mark.parametrize(
    "result_format", ["JSON", "JSONCompact", "JSONStrings", "JSONCompactStrings", "JSONColumnsWithMetadata"]
)
def test_no_format_counts_what_was_read_of_others(two: OwnEndpoint, result_format: str) -> None:
    question = "SELECT job_id FROM steps SETTINGS output_format_write_statistics = 1"
    assert "rows_read" in two.ask(question, "reader", default_format=result_format).text
    answer = two.ask(question, "alpha", default_format=result_format)
    assert answer.status == 200
    assert "rows_read" not in answer.text
    assert json.loads(answer.headers["x-clickhouse-summary"])["read_rows"] in {"0", str(ALPHA.rows)}


@pytest.mark.parametrize("result_format", ["JSONEachRowWithProgress", "JSONCompactEachRowWithProgress"])
def test_progress_that_counts_what_is_read_of_others_is_refused(two: OwnEndpoint, result_format: str) -> None:
    clause = two.ask(f"SELECT job_id FROM steps FORMAT {result_format}", "alpha")  # noqa: S608
    default = two.ask("SELECT job_id FROM steps", "alpha", default_format=result_format)
    assert "progress" in two.ask("SELECT job_id FROM steps", "reader", default_format=result_format).text
    assert (clause.code, default.code) == ("497", "73")


@pytest.mark.parametrize("setting", sorted(REVEALING_SETTINGS))
def test_no_limit_can_be_lowered_to_count_what_is_read_of_others(two: OwnEndpoint, setting: str) -> None:
    for value in ("5", "50", "500"):
        lowered: dict[str, Any] = {setting: value}
        url = two.ask("SELECT count() FROM steps", "alpha", **lowered)
        clause = two.ask(f"SELECT count() FROM steps SETTINGS {setting} = {value}", "alpha")  # noqa: S608
        assert (url.code, clause.code) == ("497", "497")
    offered = two.ask("SELECT name, value, readonly FROM system.settings LIMIT 10000", "alpha").text
    assert re.search(rf"^{setting}\t\d+\t1$", offered, re.MULTILINE)


def test_a_cancelled_statement_tells_no_progress(two: OwnEndpoint) -> None:
    headers: dict[str, Any] = {"send_progress_in_http_headers": "1", "http_headers_progress_interval_ms": "1"}
    answer = two.ask(
        "SELECT count() FROM numbers(3000000000) WHERE sin(number) = 2", "alpha", **headers, max_execution_time="0.2"
    )
    assert answer.code in {"158", "159"}
    assert not [name for name in answer.headers if "progress" in name or "summary" in name]
    assert not re.search(r"[0-9]{4,}", answer.text.partition("(version")[0])


def test_an_error_tells_a_tenant_no_place_on_the_host(two: OwnEndpoint) -> None:
    for wrong in (
        "SELECT * FROM jobs LIMIT 1 WITH TIES",
        "SELECT FROM",
        "SELECT * FROM jobs LIMIT -",
        "SELECT nothing FROM jobs",
    ):
        answered = two.ask(wrong, "alpha")
        assert answered.status >= 400
        assert str(two.sql.folder) not in answered.text, wrong


def test_a_limit_tells_a_tenant_no_number(two: OwnEndpoint) -> None:
    answered = two.ask("SELECT count() FROM numbers(3000000000) WHERE cityHash64(number) = 1", "alpha")
    assert answered.code == "158"
    assert "reads too many rows; ask for fewer" in answered.text


def test_a_collector_delivers_and_does_nothing_else(two: OwnEndpoint) -> None:
    rows = '{"source": "x", "src_addr": "10.9.9.9", "landing": "forged", "received_at": "2001-01-01 00:00:00"}\n'
    answered = two.ask(rows, "collector", query="INSERT INTO flow_landing FORMAT JSONEachRow")
    assert answered.status == 200, answered.text
    assert two.ask("SELECT received_at > '2020-01-01' FROM flows_rejected WHERE source = 'x'").body == b"1\n"
    for statement in (
        "SELECT 1",
        "SHOW TABLES",
        "INSERT INTO jobs_log VALUES (1)",
        "INSERT INTO jobs_log FORMAT JSONEachRow {}",
        "INSERT INTO system.flow_landing FORMAT JSONEachRow {}",
        "INSERT INTO flow_landing SELECT * FROM flow_landing",
        "INSERT INTO flow_landing VALUES ((SELECT 1))",
        "INSERT INTO flow_landing (landing) FORMAT CSV\nforged\n",
        "INSERT INTO flow_landing SETTINGS max_threads = 1 FORMAT CSV\n",
        "INSERT INTO FUNCTION file('x') FORMAT CSV\n1\n",
        "INSERT INTO flow_landing FROM INFILE '/etc/passwd' FORMAT CSV",
        "DROP TABLE flow_landing",
    ):
        answered = two.ask(statement, "collector")
        assert (answered.status, answered.code) == (403, "497"), statement


def test_a_delivery_sent_twice_under_one_token_lands_once(two: OwnEndpoint) -> None:
    delivery: dict[str, Any] = {
        "query": "INSERT INTO flow_landing (source, src_addr) FORMAT CSV",
        "insert_deduplication_token": "t1",
    }
    for _ in range(2):
        answered = two.ask("twice,10.1.1.1\n", "collector", **delivery)
        assert answered.status == 200
    assert two.ask("SELECT count() FROM flows_rejected WHERE source = 'twice'").body == b"1\n"
