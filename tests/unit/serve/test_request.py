"""What a URL and headers ask for is read once, strictly."""

from typing import Any
from urllib.parse import urlencode

import pytest

from prism_ch.serve.handshake import Server, asks_for_settings, empty_block, go_handshake
from prism_ch.serve.refusal import Refusal, bad_request
from prism_ch.serve.request import parse


def query(**parameters: Any) -> bytes:
    return urlencode(parameters).encode()


def test_the_protocols_own_parameters_are_no_settings() -> None:
    asked, given = parse(
        query(query="SELECT 1", database="d", param_a="1", max_threads=2, query_id="q", user="u", default_format="CSV"),
        {},
    )
    assert (asked.statement, asked.database, asked.format, asked.query_id) == ("SELECT 1", "d", "CSV", "q")
    assert (asked.parameters, asked.settings) == ({"a": "1"}, {"max_threads": "2"})
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
    with pytest.raises(Refusal) as refused:
        parse(query(**parameters), {})
    assert (refused.value.code, refused.value.status) == (36, 400)
    with pytest.raises(Refusal):
        parse(b"query=%ff", {})


def test_a_refusal_reads_as_clickhouses() -> None:
    assert bad_request("No.").body("1.2") == b"Code: 36. DB::Exception: No. (BAD_ARGUMENTS) (version 1.2)\n"
    assert Refusal(1, "ODD", "x").status == 500


def test_only_the_greeting_is_answered_as_the_greeting() -> None:
    server = Server("name", "1.2")
    asked, _ = parse(query(default_format="Native", client_protocol_version=54460), {})
    greeting = "SELECT displayName(), version(), revision(), timezone()"
    assert go_handshake(greeting, asked, server) is not None
    assert go_handshake(f"{greeting} FROM jobs", asked, server) is None
    assert go_handshake(f"{greeting} FORMAT CSV", asked, server) is None
    assert go_handshake(greeting, parse(query(default_format="Native"), {})[0], server) is None
    assert asks_for_settings("SELECT name, value, readonly FROM system.settings LIMIT 10000")
    assert not asks_for_settings("SELECT name, value, readonly FROM system.settings UNION ALL SELECT 1")


def test_a_block_without_rows_names_its_columns() -> None:
    assert empty_block([("a", "UInt8"), ("b" * 200, "String")]) == (
        b"\x02\x00\x01a\x05UInt8\xc8\x01" + b"b" * 200 + b"\x06String"
    )
