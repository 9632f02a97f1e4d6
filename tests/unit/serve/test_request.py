"""What a URL and headers ask for is read once, strictly."""

from typing import Any
from urllib.parse import urlencode

import pytest

from prism_ch.serve.errors import RequestError, bad_request
from prism_ch.serve.request import parse


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
    assert bad_request("No.").body("1.2") == b"Code: 36. DB::Exception: No. (BAD_ARGUMENTS) (version 1.2)\n"
    assert RequestError(1, "ODD", "x").status == 500
