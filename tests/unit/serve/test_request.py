"""Requests are parsed whole or refused, and statements are split where ClickHouse splits them."""

from typing import Any
from urllib.parse import urlencode

import pytest

from prism_ch.serve.request import RequestError, as_insert, first_word, is_reading, parse, without_format


def query(**parameters: Any) -> bytes:
    return urlencode(parameters).encode()


def test_the_protocols_own_parameters_are_no_settings() -> None:
    request, given = parse(
        query(query="SELECT 1", database="d", param_a="1", max_threads=2, query_id="q", user="u", default_format="CSV"),
        {},
    )
    assert (request.statement, request.database, request.format, request.query_id) == ("SELECT 1", "d", "CSV", "q")
    assert (request.parameters, request.settings) == ({"a": "1"}, {"max_threads": "2"})
    assert given["user"] == "u"
    assert parse(b"", {"x-clickhouse-database": "h", "x-clickhouse-format": "TSV"})[0].database == "h"
    assert parse(b"", {})[0].query_id != parse(b"", {})[0].query_id


@pytest.mark.parametrize(
    "parameters",
    [
        {"query_id": "a\r\nSet-Cookie: b"},
        {"query_id": "x" * 300},
        {"session_id": "é"},
        {"session_id": "s", "session_timeout": "-1"},
        {"session_id": "s", "session_timeout": "4000"},
        {"client_protocol_version": "many"},
        {"default_format": "CSV; DROP"},
        {"compress": "1"},
        {"decompress": "1"},
        {f"p{number}": 1 for number in range(1001)},
    ],
)
def test_what_makes_no_sense_is_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as raised:
        parse(query(**parameters), {})
    assert (raised.value.code, raised.value.status) == (36, 400)
    with pytest.raises(RequestError):
        parse(b"query=%ff", {})


def test_an_error_reads_as_clickhouses() -> None:
    written = b"Code: 36. DB::Exception: No. (BAD_ARGUMENTS) (version 1.2)\n"
    assert RequestError("BAD_ARGUMENTS", "No.").body("1.2") == written
    assert RequestError("ODD", "x", 1).status == 500


@pytest.mark.parametrize(
    "text, word",
    [
        ("select 1", "SELECT"),
        ("  -- x\n /* y */ Show tables", "SHOW"),
        ("(SELECT 1)", "("),
        ("", ""),
        ("-- only a comment", ""),
        ("1", ""),
    ],
)
def test_the_first_word_is_behind_comments(text: str, word: str) -> None:
    assert first_word(text) == word


def test_what_answers_changes_nothing() -> None:
    assert all(map(is_reading, ["SELECT 1", "with 1 as x select x", "EXPLAIN SELECT 1", "exists table a"]))
    assert not any(map(is_reading, ["INSERT INTO a SELECT 1", "SET a = 1", "KILL QUERY WHERE 1", "", "selec 1"]))


@pytest.mark.parametrize(
    "text, parts",
    [
        ("SELECT 1", ("SELECT 1", "", "")),
        ("SELECT 1;\n", ("SELECT 1", "", "")),
        ("SELECT 1 FORMAT JSON", ("SELECT 1", "JSON", "")),
        ("SELECT 1\nformat Native ; ", ("SELECT 1", "Native", "")),
        ("SELECT 1;\n FORMAT JSON", ("SELECT 1", "JSON", "")),
        ("SELECT 1 FORMAT CSV SETTINGS a = 1", ("SELECT 1", "CSV", "SETTINGS a = 1")),
        ("SELECT ' FORMAT JSON'", ("SELECT ' FORMAT JSON'", "", "")),
        ("SELECT 1 AS format", ("SELECT 1 AS format", "", "")),
    ],
)
def test_the_format_is_taken_off_the_end(text: str, parts: tuple[str, str, str]) -> None:
    assert without_format(text) == parts


@pytest.mark.parametrize(
    "text, head, name, rows",
    [
        ("INSERT INTO t FORMAT CSV\n1\n", "INSERT INTO t ", "CSV", "1\n"),
        ("INSERT INTO t FORMAT CSV  \r\n 1", "INSERT INTO t ", "CSV", " 1"),
        ("insert into t (a, format) format TSV\n\t", "insert into t (a, format) ", "TSV", "\t"),
        ("INSERT INTO t (a) VALUES (1), ('FORMAT CSV')", "INSERT INTO t (a) ", "Values", " (1), ('FORMAT CSV')"),
        ("INSERT INTO format (values) VALUES (1)", "INSERT INTO format (values) ", "Values", " (1)"),
        ("INSERT INTO db.values SETTINGS a=1 FORMAT Native\n", "INSERT INTO db.values SETTINGS a=1 ", "Native", ""),
        ("INSERT INTO `VALUES` FORMAT CSV\n", "INSERT INTO `VALUES` ", "CSV", ""),
        (
            "INSERT /* FORMAT x */ INTO t -- SELECT\n FORMAT CSV\n",
            "INSERT /* FORMAT x */ INTO t -- SELECT\n ",
            "CSV",
            "",
        ),
        ("INSERT INTO t (a);", "INSERT INTO t (a)", "", ""),
    ],
)
def test_an_insert_is_cut_where_its_rows_begin(text: str, head: str, name: str, rows: str) -> None:
    insert = as_insert(text)
    assert insert is not None
    assert (insert.text, insert.format, text[insert.rows_at :]) == (head, name, rows)


@pytest.mark.parametrize(
    "text", ["SELECT 1", "INSERT INTO t SELECT 1 FORMAT CSV", "INSERT INTO t WITH 1 AS x SELECT x"]
)
def test_what_brings_its_own_rows_is_no_insert_with_rows(text: str) -> None:
    assert as_insert(text) is None


def test_a_format_without_name_is_refused() -> None:
    with pytest.raises(RequestError, match="names no format"):
        as_insert("INSERT INTO t FORMAT")
