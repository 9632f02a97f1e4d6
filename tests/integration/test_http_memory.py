"""What a client sends or asks for takes no more memory than there is."""

from __future__ import annotations

import asyncio
import io
import sys
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prism_ch.serve.handles import Handles
from prism_ch.serve.memory import Memory
from prism_ch.serve.request import RequestError
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


def test_rows_that_unpack_to_too_much_are_refused(served: OwnEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served.sql, "statement_bytes", 100 << 20)
    sink = io.BytesIO()
    pq.write_table(pa.table({"src_addr": ["x" * (256 << 20)]}), sink, compression="zstd")
    refused = served.ask(sink.getvalue(), "collector", query="INSERT INTO flow_landing FORMAT Parquet")
    assert (refused.status, refused.code) != (200, "")
    assert refused.code == "241"
    assert served.ask("SELECT 1").text == "1\n"


def test_statements_that_want_all_memory_end_alone(served: OwnEndpoint) -> None:
    hungry = "SELECT length(groupArray(toString(number))) FROM numbers(100000000000)"
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: served.ask(hungry, "reader", max_memory_usage="100000000"), range(8)))
    assert {answer.code for answer in answers} <= {"241", "202"}
    assert served.ask("SELECT 1", "reader").text == "1\n"


def test_all_that_reads_holds_its_memory(served: OwnEndpoint) -> None:
    handles = Handles(served.sql.folder, served.sql.engine, Memory(0.05, total_bytes=1000))

    async def read(most: str) -> None:
        async with handles.for_reading(served.database, {"max_memory_usage": most}):
            pass

    async def crowd() -> None:
        async with handles.for_reading(served.database, {"max_memory_usage": "700"}):
            await read("300")
            with pytest.raises(RequestError, match="did not become free"):
                await read("301")
        await read("1000")

    asyncio.run(crowd())
    handles.close()


def test_an_operators_bound_may_have_a_suffix(served: OwnEndpoint) -> None:
    assert served.ask("SELECT 1", max_memory_usage="1G").text == "1\n"
