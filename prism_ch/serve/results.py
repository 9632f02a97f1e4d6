"""Sends results to clients, with the headers and Native blocks that they expect."""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from uuid import uuid4

from prism_ch.ingest.messages import varint
from prism_ch.query.shape import NUMBERING_FORMATS, in_even_blocks, with_names
from prism_ch.query.tenancy import REVEALING_FORMATS
from prism_ch.serve.engine import PIPE_BYTES, Engine, Result
from prism_ch.serve.exchange import Exchange
from prism_ch.serve.permission import public_error
from prism_ch.serve.progress_rows import has_progress, has_rows, progress_first, progress_of_whole
from prism_ch.serve.request import RequestError, SqlRequest, first_word, is_query, without_format
from prism_ch.serve.users import User
from prism_ch.store.handle import EngineError, Handle, QueryCost, Statement

_CONTENT_TYPES = {
    r"JSON(Strings|Compact|CompactStrings|Columns|ColumnsWithMetadata)?": "application/json; charset=UTF-8",
    r"JSON.*EachRow.*|JSONLines|NDJSON": "application/x-ndjson; charset=UTF-8",
    r"CSVWith.*": "text/csv; charset=UTF-8; header=present",
    r"CSV": "text/csv; charset=UTF-8; header=absent",
    r"TSV.*|TabSeparated.*": "text/tab-separated-values; charset=UTF-8",
    r"Native|RowBinary.*|Arrow.*|Parquet|ORC|Avro": "application/octet-stream",
    r".*": "text/plain; charset=UTF-8",
}
#: First words of statements whose results may be long; the engine writes only these to a pipe.
LONG = frozenset({"(", "FROM", "SELECT", "WITH"})
#: A result that is sent at its end is kept in memory up to this size, in bytes, and in a file above it.
_IN_MEMORY_BYTES = 16 << 20

#: The revision of Native in which clickhouse-go reads the answer to its first statement.
_GO_REVISION = 54_460
_BLOCK_INFO = bytes.fromhex("010002ffffffff00")


@dataclass(frozen=True, slots=True)
class Server:
    """The name, version and time zone that the endpoint shows to clients."""

    name: str
    version: str
    timezone: str = "UTC"


class Results:
    """Sends the result of one request."""

    def __init__(self, exchange: Exchange, request: SqlRequest, user: User, server: Server) -> None:
        self._exchange, self._request, self._user, self._server = exchange, request, user, server
        self._tag = uuid4().hex[:16]

    async def stream(self, engine: Engine, handle: Handle, statement: Statement) -> None:
        """Run a statement and send its result with bounded memory.

        Raises EngineError if it fails before the first byte. If it fails later, its error is the last piece, and the
        response has no end.
        """
        shows_progress = statement.format in REVEALING_FORMATS
        if first_word(statement.text) not in LONG:
            data, cost = await engine.whole_result(handle, statement)
            data = progress_of_whole(data, cost) if shows_progress else data
            await self.send(data, statement.format, cost)
            return
        if statement.format in NUMBERING_FORMATS:
            statement = replace(statement, text=await engine.run(partial(_with_names, handle, statement)))
        if self._user.tenant is not None:
            statement = replace(statement, text=in_even_blocks(statement.text, statement.format))
        async with engine.result(handle, statement) as result:
            data, whole = await result.beginning(has_progress if shows_progress else None)
            if whole and shows_progress:
                await self._send_with_progress(result, data, statement.format)
            elif whole:
                cost = await result.cost()
                if not data and statement.format == "Native":
                    data = await engine.run(lambda: _describe(handle, statement))
                await self.send(data, statement.format, cost)
            else:
                send = self._send_at_end if self._request.waits_for_end else self._send_as_it_comes
                await send(result, progress_first(data) if shows_progress else data, statement.format)

    async def send(self, data: bytes, result_format: str, cost: QueryCost, written: int = 0) -> None:
        """Send a whole result."""
        headers = self._headers(result_format, cost, written)
        await self._exchange.start(200, headers, compress=self._request.accepts_compression, size=len(data))
        await self._exchange.end(data)

    async def _send_with_progress(self, result: Result, data: bytes, result_format: str) -> None:
        """Send a whole result with its progress. An error after its first rows comes behind them."""
        try:
            cost = await result.cost()
        except EngineError:
            if self._request.waits_for_end or not has_rows(data):
                raise
            await self._send_as_it_comes(result, progress_first(data), result_format)
        else:
            await self.send(progress_of_whole(data, cost), result_format, cost)

    async def _send_as_it_comes(self, result: Result, data: bytes, result_format: str) -> None:
        headers = self._headers(result_format, QueryCost(), 0)
        await self._exchange.start(200, headers, compress=self._request.accepts_compression)
        while data:
            await self._exchange.send(data)
            data = await result.piece()
        try:
            await result.cost()
        except EngineError as error:
            await self._exchange.end(self._framed(public_error(error, self._user)), complete=False)
        else:
            await self._exchange.end()

    async def _send_at_end(self, result: Result, data: bytes, result_format: str) -> None:
        with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as kept:
            while data:
                kept.write(data)
                data = await result.piece()
            cost = await result.cost()
            headers = self._headers(result_format, cost, 0)
            size = kept.tell()
            kept.seek(0)
            await self._exchange.start(200, headers, compress=self._request.accepts_compression, size=size)
            while piece := kept.read(PIPE_BYTES):
                await self._exchange.send(piece)
        await self._exchange.end()

    def _headers(self, result_format: str, cost: QueryCost, written: int) -> dict[str, str]:
        if self._user.tenant is not None:
            cost = QueryCost(elapsed_s=cost.elapsed_s)  # what was read tells of others' rows
        summary = {
            "read_rows": cost.rows, "read_bytes": cost.bytes, "written_rows": written, "written_bytes": 0,
            "total_rows_to_read": 0, "result_rows": cost.result_rows, "result_bytes": cost.result_bytes,
            "elapsed_ns": int(cost.elapsed_s * 1e9),
        }  # fmt: skip
        return {
            "Content-Type": next(kind for form, kind in _CONTENT_TYPES.items() if re.fullmatch(form, result_format)),
            "X-ClickHouse-Server-Display-Name": self._server.name,
            "X-ClickHouse-Query-Id": self._request.query_id,
            "X-ClickHouse-Format": result_format,
            "X-ClickHouse-Timezone": self._server.timezone,
            "X-ClickHouse-Exception-Tag": self._tag,
            "X-ClickHouse-Summary": json.dumps({name: str(value) for name, value in summary.items()}),
        }

    def _framed(self, error: RequestError) -> bytes:
        """Write an error after rows, framed as by ClickHouse, so that clients can find it."""
        message = error.body(self._server.version)
        tag = self._tag.encode()
        mark = b"__exception__"
        return b"\r\n".join([b"", mark, tag, message + b"%d %s" % (len(message), tag), mark, b""])


def go_handshake(text: str, request: SqlRequest, server: Server) -> bytes | None:
    """Answer clickhouse-go's first statement; None if it is another one.

    The answer gives revision 0, so that the client reads plain blocks from then on: the embedded engine writes no
    others.
    """
    body, result_format, _ = without_format(text)
    is_native = (result_format or request.format) == "Native" and request.protocol_version >= _GO_REVISION
    if not is_native or not is_query(body, "client_greeting"):
        return None
    columns = [
        ("displayName()", "String", _string(server.name)),
        ("version()", "String", _string(server.version)),
        ("revision()", "UInt32", bytes(4)),
        ("timezone()", "String", _string(server.timezone)),
    ]
    block = b"".join(_string(name) + _string(kind) + b"\x00" + value for name, kind, value in columns)
    return _BLOCK_INFO + bytes([len(columns), 1]) + block


def empty_block(description: list[tuple[str, str]]) -> bytes:
    """Write a Native block without rows, given names and types of its columns."""
    head = varint(len(description)) + b"\x00"
    return head + b"".join(_string(name) + _string(kind) for name, kind in description)


def _with_names(handle: Handle, statement: Statement) -> str:
    """Return a statement whose enumerations are text, where its format would number them."""
    return with_names(
        statement.text, statement.format, lambda text: handle.run(text, "JSONEachRow", statement.parameters)
    )


def _describe(handle: Handle, statement: Statement) -> bytes:
    """Write the Native block of a result without rows, which the embedded engine leaves out."""
    described = handle.run(f"DESCRIBE ({statement.text}\n)", "JSONEachRow", statement.parameters)
    return empty_block([(row["name"], row["type"]) for row in map(json.loads, described.splitlines())])


def _string(text: str) -> bytes:
    data = text.encode()
    return varint(len(data)) + data
