"""Formats with progress tell it while a statement runs, and begin with it."""

from __future__ import annotations

import http.client
import json
from base64 import b64encode
from contextlib import closing
from typing import Any
from urllib.parse import quote

import pytest

from tests.serving import PASSWORD, OwnEndpoint

_FORMATS = ["JSONEachRowWithProgress", "JSONCompactEachRowWithProgress"]
#: A text that could be taken for a row of progress.
_LIKE_PROGRESS = '\'{"progress"}\\n{"progress":\' AS text'


@pytest.mark.parametrize("result_format", _FORMATS)
@pytest.mark.parametrize(
    "role, more_columns",
    [("operator", "1"), ("reader", "1"), ("operator", "sleep(0.1)"), ("operator", "repeat('a', 700000)")],
)
@pytest.mark.parametrize("waits", [0, 1])
def test_progress_comes_first(
    served: OwnEndpoint, role: str, more_columns: str, result_format: str, waits: int
) -> None:
    columns = f"number, {_LIKE_PROGRESS}, {more_columns}"
    answered = served.ask(
        f"SELECT {columns} FROM numbers(3) SETTINGS max_block_size = 1",  # noqa: S608 - columns of this test
        role,
        default_format=result_format,
        wait_end_of_query=waits,
    )
    rows = [json.loads(line) for line in answered.text.splitlines()]
    assert {"read_rows", "read_bytes", "elapsed_ns"} <= set(rows[0]["progress"])
    kinds = [next(iter(row)) for row in rows]
    assert [kind for kind in kinds if kind != "progress"] == ["meta", "row", "row", "row"]


def test_progress_is_sent_while_a_statement_runs(served: OwnEndpoint) -> None:
    endless = "SELECT sleepEachRow(0.02) FROM system.numbers SETTINGS max_block_size = 1"
    login = b64encode(f"operator:{PASSWORD}".encode()).decode()
    read: list[int] = []
    with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)) as connection:
        connection.request(
            "GET", f"/?default_format={_FORMATS[0]}&query={quote(endless)}", headers={"Authorization": f"Basic {login}"}
        )
        answer = connection.getresponse()
        while len(read) < 3:
            row = json.loads(answer.readline())
            read += [int(row["progress"]["read_rows"])] if "progress" in row else []
    assert sorted(set(read)) == read


@pytest.mark.parametrize("pause_s", [0.0, 0.03])
def test_an_error_after_rows_comes_behind_them(served: OwnEndpoint, pause_s: float) -> None:
    statement = (
        "SELECT throwIf(number = 5, 'far'), sleepEachRow({pause_s:Float64}) FROM numbers(9) SETTINGS max_block_size = 1"
    )
    given: dict[str, Any] = {"default_format": _FORMATS[0], "param_pause_s": pause_s}
    with pytest.raises(http.client.IncompleteRead) as broken_off:
        served.ask(statement, **given)
    assert b'{"row":' in broken_off.value.partial
    assert b"Code: 395. DB::Exception: far" in broken_off.value.partial
    assert served.ask(statement, wait_end_of_query=1, **given).code == "395"


def test_an_error_before_all_rows_has_its_status(served: OwnEndpoint) -> None:
    for statement in ("SELECT throwIf(1, 'at once')", "SELECT nothing"):
        assert served.ask(f"{statement} FORMAT {_FORMATS[0]}").status >= 400


@pytest.mark.parametrize("result_format", _FORMATS)
def test_a_long_result_with_progress_is_whole(served: OwnEndpoint, result_format: str) -> None:
    answered = served.ask("SELECT number FROM numbers(3000000)", "reader", default_format=result_format)
    assert sum(b"progress" not in line for line in answered.body.splitlines()) == 3_000_001
