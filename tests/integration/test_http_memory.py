"""What a client sends or asks for takes no more memory than there is."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.serving import OwnEndpoint

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


@pytest.mark.parametrize(
    "table, rows_format", [("flow_landing", "JSONEachRow"), ("flow_json_lines (line)", "LineAsString")]
)
def test_a_line_that_does_not_end_is_refused(served: OwnEndpoint, table: str, rows_format: str) -> None:
    bomb = zstd.compress(b'{"src_addr":"' + b"a" * (64 << 20), level=1)
    assert len(bomb) < 1 << 20
    insert = f"INSERT INTO {table} FORMAT {rows_format}"
    refused = served.ask(bomb, "collector", query=insert, headers={"Content-Encoding": "zstd"})
    assert "longer than 2 MiB" in refused.text
    assert refused.status == 400
    assert served.ask("SELECT 1").text == "1\n"


def test_statements_that_want_all_memory_end_alone(served: OwnEndpoint) -> None:
    hungry = "SELECT length(groupArray(toString(number))) FROM numbers(100000000000)"
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: served.ask(hungry, "reader", max_memory_usage="100000000"), range(8)))
    assert {answer.code for answer in answers} <= {"241", "202"}
    assert served.ask("SELECT 1", "reader").text == "1\n"
