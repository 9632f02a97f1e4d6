"""The HTTP endpoint says what a ClickHouse server says, on the wire."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import zlib
from base64 import b64encode
from pathlib import Path
from typing import Any

import lz4.frame
import pytest

from tests.e2e.service import until
from tests.serving import PASSWORD, OwnEndpoint


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_no_answer_is_written_to_a_file(served: OwnEndpoint, tmp_path: Path, method: str) -> None:
    path = tmp_path / "written"
    into = ("INTO OUTFILE", "into/**/outfile", "INTO -- x\n OUTFILE", "INTO # x\n OUTFILE", "INTO #! x\n OUTFILE")
    before = ("1", "$$'$$", "$a$ -- $a$", "\u2018'\u2019", "1 # '\n", "'it''s'", '"a""b"')
    statements = [f"SELECT {one} {words} '{path}'" for one in before for words in into]
    statements += [
        f"{reading} INTO # '\n OUTFILE '{path}'" for reading in ("SHOW TABLES", "(SELECT 1)", "EXPLAIN SELECT 1")
    ]
    for statement in statements:
        refused = served.ask(method=method, query=f"{statement} FORMAT CSV")
        assert refused.code == "348", (statement, refused.text)
        assert not path.exists(), statement
    assert served.ask(method=method, query="SELECT 'INTO OUTFILE' -- INTO OUTFILE").text == "INTO OUTFILE\n"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_one_request_runs_one_statement(served: OwnEndpoint, method: str) -> None:
    served.ask("CREATE TABLE IF NOT EXISTS of_one_statement (a UInt8) ENGINE = Memory")
    for first in ("SELECT 1", "SHOW TABLES", "SELECT ';' -- ;\n", "WITH 1 AS x SELECT x", "(SELECT 1)"):
        for second in ("DROP TABLE of_one_statement", "SELECT 2"):
            refused = served.ask(method=method, query=f"{first}; {second}")
            assert refused.code == "62", (first, second, refused.text)
            assert "formatQuery" not in refused.text
    hidden = "WITH x AS (SELECT 1 AS a) INSERT INTO of_one_statement SELECT a FROM x"
    assert served.ask(method=method, query=hidden).code == "62"
    assert served.ask(method=method, query="SELECT count() FROM of_one_statement;;").text == "0\n"
    assert served.ask(method=method, query="SELECT ';' /* ; */;").text == ";\n"


def test_it_is_there(served: OwnEndpoint) -> None:
    for path in ("/ping", "/replicas_status", "/"):
        answered = served.ask(user="", method="GET", path=path)
        assert (answered.status, answered.body) == (200, b"Ok.\n")


def test_a_statement_comes_in_the_url_or_the_body_or_both(served: OwnEndpoint) -> None:
    assert served.ask("SELECT 1").body == b"1\n"
    assert served.ask(method="GET", query="SELECT 2").body == b"2\n"
    assert served.ask("FROM numbers(3)", query="SELECT count()").body == b"3\n"
    assert served.ask().text.startswith("Code: 62. DB::Exception: Empty query. (SYNTAX_ERROR)")


def test_the_format_is_the_statements_else_the_urls_else_tabs(served: OwnEndpoint) -> None:
    assert served.ask("SELECT 1 AS a FORMAT JSONEachRow", default_format="CSV").body == b'{"a":1}\n'
    assert served.ask("SELECT 'x'", default_format="CSV").body == b'"x"\n'
    assert served.ask("SELECT 'x'", headers={"X-ClickHouse-Format": "CSV"}).body == b'"x"\n'
    answered = served.ask("SELECT 1 AS a;\n", default_format="JSON")
    assert json.loads(answered.body)["data"] == [{"a": 1}]
    assert answered.headers["content-type"].startswith("application/json")
    assert answered.headers["x-clickhouse-format"] == "JSON"


@pytest.mark.parametrize("user", ["operator", "reader", "alpha"])
def test_what_only_lists_is_answered_too(served: OwnEndpoint, user: str) -> None:
    assert "jobs\n" in served.ask("SHOW TABLES", user).text
    assert "job_id\tString" in served.ask("DESCRIBE TABLE jobs", user).text


def test_headers_tell_of_the_statement(served: OwnEndpoint) -> None:
    answered = served.ask("SELECT count() FROM numbers(1000)", query_id="mine")
    assert answered.headers["x-clickhouse-query-id"] == "mine"
    assert answered.headers["x-clickhouse-timezone"] == "UTC"
    assert int(json.loads(answered.headers["x-clickhouse-summary"])["elapsed_ns"]) > 0
    assert served.ask("SELECT 1", query_id="not\nmine").code == "36"


@pytest.mark.parametrize("user", ["operator", "reader", "alpha"])
def test_parameters_are_the_engines_to_put_in(served: OwnEndpoint, user: str) -> None:
    question = "SELECT {a:UInt8} + 1, {b:String}, {c:Array(String)}"
    answered = served.ask(question, user, param_a="7", param_b="it's 'x'", param_c="['p','q']")
    assert answered.body == b"8\tit\\'s \\'x\\'\t['p','q']\n"
    assert "UNKNOWN_QUERY_PARAMETER" in served.ask(question, user).text


@pytest.mark.parametrize("user", ["operator", "reader", "alpha"])
def test_settings_hold_for_one_request(served: OwnEndpoint, user: str) -> None:
    question = "SELECT toDateTime(0), 1 = 2 FORMAT TSV"
    assert served.ask(question, user, session_timezone="Asia/Tokyo").body == b"1970-01-01 09:00:00\t0\n"
    assert served.ask(question, user).body == b"1970-01-01 00:00:00\t0\n"
    assert served.ask("SELECT 1", user, no_such_setting="1").code in {"115", "497"}


def test_what_is_too_long_for_a_url_comes_in_a_form(served: OwnEndpoint) -> None:
    def form(**parts: str) -> bytes:
        head = '--edge\r\nContent-Disposition: form-data; name="{}"\r\n\r\n{}\r\n'
        return ("".join(head.format(name, value) for name, value in parts.items()) + "--edge--\r\n").encode()

    headers = {"Content-Type": "multipart/form-data; boundary=edge"}
    query = "SELECT count() FROM numbers(5000) WHERE number IN {ids:Array(UInt64)}"
    for user in ("operator", "reader", "alpha"):
        sent = form(query=query, param_ids=str(list(range(3000))))
        assert served.ask(sent, user, headers=headers).text == "3000\n"
        sent = form(param_text="tab\\t and \u00e9")
        assert served.ask(sent, user, headers=headers, query="SELECT {text:String}").text == "tab\\t and \u00e9\n"
    for broken in (b"", b"--edge", b"SELECT 1", form(query="")[:40], b"--edge\r\n\r\nSELECT 1\r\n--edge--\r\n"):
        assert served.ask(broken, headers=headers).code in {"36", "62"}, broken
    assert served.ask(form(query="SELECT 1"), headers={"Content-Type": "multipart/form-data"}).code == "36"


def test_an_error_names_the_place_in_the_statement(served: OwnEndpoint) -> None:
    for statement, place in (("SELECT 1 FRM x", 14), ("foobar", 1), ("SELECT 1,\n2 FRM x", 17)):
        answered = served.ask(statement)
        assert answered.text.startswith(f"Code: 62. DB::Exception: Syntax error: failed at position {place} ("), (
            statement
        )
        assert "formatQuery" not in answered.text


def test_errors_are_clickhouses_with_number_and_name(served: OwnEndpoint) -> None:
    answered = served.ask("SELECT * FROM nowhere")
    assert (answered.status, answered.code) == (404, "60")
    assert answered.text.startswith("Code: 60. DB::Exception: ")
    assert answered.text.rstrip().endswith(f"(UNKNOWN_TABLE) (version {served.sql.server.version})")
    answered = served.ask("SELECT 1 LIMIT")
    assert (answered.status, answered.code) == (400, "62")
    assert "OUTFILE" not in answered.text
    assert "/dev/fd" not in answered.text


def test_an_error_after_some_rows_of_a_small_result_is_an_error(served: OwnEndpoint) -> None:
    for result_format in ("JSON", "TSV", "Native"):
        answered = served.ask("SELECT throwIf(number = 3) FROM numbers(10)", default_format=result_format)
        assert (answered.status, answered.code) == (500, "395")


def test_an_error_far_into_a_result_breaks_it_off(served: OwnEndpoint) -> None:
    question = "SELECT number, throwIf(number = 3000000, 'far') FROM numbers(4000000) SETTINGS max_threads = 1"
    login = b64encode(f"operator:{PASSWORD}".encode()).decode()
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as client:
        head = f"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {login}\r\nContent-Length: {len(question)}\r\n\r\n"
        client.sendall(f"{head}{question}".encode())
        received = b""
        while piece := client.recv(1 << 20):
            received = (received + piece)[-2000:] if received else piece
    assert b"__exception__" in received
    assert b"Code: 395. DB::Exception: far" in received
    assert not received.endswith(b"\r\n0\r\n\r\n")
    assert served.ask(question, wait_end_of_query=1).code == "395"


def test_a_result_that_is_waited_for_comes_with_its_length(served: OwnEndpoint) -> None:
    answered = served.ask("SELECT number FROM numbers(3000000)", wait_end_of_query=1)
    assert int(answered.headers["content-length"]) == len(answered.body) == 22_888_890


@pytest.mark.parametrize("result_format", ["TSV", "JSONEachRowWithProgress"])
def test_the_summary_counts_what_was_read(served: OwnEndpoint, result_format: str) -> None:
    answered = served.ask("SELECT number % 3 AS a, count() FROM numbers(1000) GROUP BY a", default_format=result_format)
    summary = json.loads(answered.headers["x-clickhouse-summary"])
    names = ["read_rows", "read_bytes", "result_rows", "result_bytes"]
    assert [summary[name] for name in names] == ["1000", "8000", "3", "27"]


def test_each_setting_may_be_sent_at_its_value(served: OwnEndpoint) -> None:
    asked = served.ask("SELECT name, value FROM system.settings FORMAT JSONCompactEachRow")
    settings = [json.loads(line) for line in asked.text.splitlines()]
    assert len(settings) > 1000
    for first in range(0, len(settings), 50):
        answered = served.ask("SELECT 1", **dict(settings[first : first + 50]))
        assert (answered.status, answered.text) == (200, "1\n")


def test_a_statement_is_not_sent_to_the_background(served: OwnEndpoint) -> None:
    answered = served.ask("SELECT 1", run_query_in_background=1)
    assert (answered.status, answered.code) == (400, "36")
    assert "run_query_in_background is not spoken" in answered.text


@pytest.mark.parametrize("rows", [1, 300_000])
def test_results_are_compressed_where_both_sides_want_it(served: OwnEndpoint, rows: int) -> None:
    question = f"SELECT number FROM numbers({rows})"  # noqa: S608 - of this test
    plain = served.ask(question).body
    undo = {"gzip": gzip.decompress, "deflate": zlib.decompress, "lz4": lz4.frame.decompress}
    for coding, decompress in undo.items():
        answered = served.ask(question, headers={"Accept-Encoding": coding}, enable_http_compression=1)
        assert answered.headers["content-encoding"] == coding
        assert decompress(answered.body) == plain
        assert served.ask(question, headers={"Accept-Encoding": coding}).body == plain
    assert served.ask(question, headers={"Accept-Encoding": "br"}, enable_http_compression=1).body == plain


def test_bodies_are_decompressed(served: OwnEndpoint) -> None:
    question = b"SELECT 'compressed'"
    for coding, compress in (("gzip", gzip.compress), ("deflate", zlib.compress), ("lz4", lz4.frame.compress)):
        assert served.ask(compress(question), headers={"Content-Encoding": coding}).body == b"compressed\n"
        assert served.ask(compress(question)[:-3], headers={"Content-Encoding": coding}).code == "36"
    assert served.ask(question, headers={"Content-Encoding": "br"}).code == "36"
    assert served.ask(question, decompress=1).code == "36"


def test_rows_are_inserted_from_the_body_in_any_way(served: OwnEndpoint) -> None:
    served.ask("CREATE TABLE ways (a UInt64, b String) ENGINE = Memory")
    served.ask("INSERT INTO ways FORMAT JSONEachRow\n" + '{"a": 1, "b": "x"}\n{"a": 2}')
    served.ask("3,y\n", query="INSERT INTO ways FORMAT CSV")
    served.ask("INSERT INTO ways (b, a) VALUES ('z', 4), ('(', 5)")
    served.ask(gzip.compress(b"6\tq\n"), query="INSERT INTO ways FORMAT TSV", headers={"Content-Encoding": "gzip"})
    answered = served.ask("INSERT INTO ways SELECT {n:UInt64}, 'p'", param_n=7)
    assert answered.status == 200
    assert served.ask("SELECT groupArray(a) FROM (SELECT a FROM ways ORDER BY a)").body == b"[1,2,3,4,5,6,7]\n"
    wrong = served.ask("INSERT INTO ways FORMAT CSV\n8,x\nnot a number,y\n")
    assert (wrong.code, wrong.status) == ("27", 500)
    assert served.ask("SELECT count() FROM ways").body == b"7\n"
    served.ask("DROP TABLE ways")


def test_a_body_in_chunks_is_inserted_as_it_comes(served: OwnEndpoint) -> None:
    served.ask("CREATE TABLE pieces (a UInt64) ENGINE = Memory")
    rows = (f"{number}\n".encode() * 100 for number in range(5000))
    answered = served.ask(rows, query="INSERT INTO pieces FORMAT TSV", method="POST")
    assert json.loads(answered.headers["x-clickhouse-summary"])["written_rows"] == "500000"
    assert served.ask("SELECT count(), sum(a) FROM pieces").body == b"500000\t1249750000\n"
    served.ask("DROP TABLE pieces")


def test_a_session_keeps_its_settings_and_tables(served: OwnEndpoint) -> None:
    session: dict[str, Any] = {"session_id": "mine"}
    served.ask("CREATE TEMPORARY TABLE kept (a UInt8)", **session)
    served.ask("INSERT INTO kept VALUES (5)", **session)
    served.ask("SET join_use_nulls = 1", **session)
    question = "SELECT getSetting('join_use_nulls'), getSetting('max_block_size') FORMAT CSV"
    assert served.ask("SELECT a FROM kept", **session).body == b"5\n"
    assert served.ask(question, max_block_size="777", **session).body == b"true,777\n"
    assert served.ask(question, **session).body != b"true,777\n"
    assert served.ask("SELECT a FROM kept").code == "60"
    assert served.ask("SELECT a FROM kept", session_id="another").code == "60"
    assert served.ask("SELECT 1", session_id="none", session_check=1).code == "372"
    served.ask("SELECT 1", close_session=1, **session)
    assert served.ask("SELECT a FROM kept", **session).code == "60"


def test_a_session_that_nobody_uses_ends(served: OwnEndpoint) -> None:
    served.ask("CREATE TEMPORARY TABLE kept (a UInt8)", session_id="short", session_timeout=0)
    until(lambda: served.ask("SELECT 1", session_id="short", session_timeout=0, session_check=1).code == "372")
    assert served.ask("SELECT 1", session_id="x", session_timeout=9999).code == "36"


def test_a_get_changes_nothing(served: OwnEndpoint) -> None:
    assert served.ask(method="GET", query="CREATE TABLE got (a UInt8) ENGINE = Memory").code == "164"
    assert served.ask(method="GET", query="INSERT INTO flow_landing VALUES (1)").code == "164"


def test_a_long_statement_is_refused_like_a_bomb(served: OwnEndpoint) -> None:
    assert served.ask("SELECT " + "1," * 200_000 + "1", "reader").code == "62"
    bomb = gzip.compress(bytes(300 << 20))
    assert served.ask(bomb, "reader", headers={"Content-Encoding": "gzip"}).code == "62"


def test_credentials_are_read_in_three_ways(served: OwnEndpoint) -> None:
    assert served.ask("SELECT 1", "").code == "516"
    assert served.ask("SELECT 1", "", user="reader", password=PASSWORD).status == 200
    headers = {"X-ClickHouse-User": "reader", "X-ClickHouse-Key": PASSWORD}
    assert served.ask("SELECT 1", "", headers=headers).status == 200
    assert served.ask("SELECT 1", "reader", headers=headers).code == "516"
    assert served.ask("SELECT 1", "", headers={**headers, "X-ClickHouse-Key": "wrong"}).code == "516"
    assert served.ask("SELECT 1", "", headers={"Authorization": "Basic !"}).code == "516"
    assert served.ask("SELECT 1", "nobody").text == served.ask("SELECT 1", "nobody").text


def test_clickhouse_go_gets_the_greeting_it_expects(served: OwnEndpoint) -> None:
    question = "SELECT displayName(), version(), revision(), timezone()"
    answered = served.ask(question, "alpha", default_format="Native", client_protocol_version=54460)
    version = served.sql.server.version.encode()
    assert answered.body == (
        bytes.fromhex("010002ffffffff00 0401")
        + b"\x0ddisplayName()\x06String\x00\x08prism-ch"
        + b"\x09version()\x06String\x00" + bytes([len(version)]) + version
        + b"\x0arevision()\x06UInt32\x00\x00\x00\x00\x00"
        + b"\x0atimezone()\x06String\x00\x03UTC"
    )  # fmt: skip
    one = served.ask("SELECT 1", "alpha", default_format="Native", client_protocol_version=54460)
    assert one.body == b"\x01\x01\x011\x05UInt8\x01"


def test_the_access_log_tells_no_secret(served: OwnEndpoint, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        served.ask("SELECT 'hidden-in-body'", "", user="reader", password=PASSWORD, param_x="hidden-in-url")
        until(lambda: "user='reader'" in caplog.text)
    assert PASSWORD not in caplog.text
    assert "hidden" not in caplog.text
