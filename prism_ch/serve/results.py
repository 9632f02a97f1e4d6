"""Sends a result to a client: whole, with all that is known of it, or as it comes."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from uuid import uuid4

from prism_ch.serve.exchange import Exchange
from prism_ch.serve.handshake import Server, empty_block
from prism_ch.serve.refusal import Refusal
from prism_ch.serve.request import Asked
from prism_ch.serve.statement import first_word
from prism_ch.serve.work import PIPE_BYTES, Engine, Result
from prism_ch.store.handle import EngineError, Handle, Statement, Work

_CONTENT_TYPES = (
    (
        re.compile(r"JSON(Strings|Compact|CompactStrings|Columns|ColumnsWithMetadata)?"),
        "application/json; charset=UTF-8",
    ),
    (re.compile(r"JSON.*EachRow.*|JSONLines|NDJSON"), "application/x-ndjson; charset=UTF-8"),
    (re.compile(r"CSV.*"), "text/csv; charset=UTF-8"),
    (re.compile(r"TSV.*|TabSeparated.*"), "text/tab-separated-values; charset=UTF-8"),
    (re.compile(r"Native|RowBinary.*|Arrow.*|Parquet|ORC|Avro"), "application/octet-stream"),
)
#: What may answer with more than a few rows begins with one of these; the engine writes no other to a pipe.
_LONG = frozenset({"(", "SELECT", "WITH"})
#: A result that is waited for is kept in memory up to this size, and then in a file.
_IN_MEMORY_BYTES = 16 << 20


class Results:
    """Sends results of one request."""

    def __init__(
        self, exchange: Exchange, asked: Asked, server: Server, public: Callable[[EngineError], Refusal]
    ) -> None:
        """Answer an exchange; `public` says what the asker may know of an error."""
        self._public = public
        self._exchange = exchange
        self._asked = asked
        self._server = server
        self._tag = uuid4().hex[:16]

    async def stream(self, engine: Engine, handle: Handle, statement: Statement) -> None:
        """Run a statement and send what it answers, with bounded memory; raises EngineError before the first byte.

        A statement that fails later has its error as the last piece, and the response no end.
        """
        if first_word(statement.text) not in _LONG:
            text = f"{statement.text}\n{statement.settings}"
            data = await engine.do(lambda: handle.run(text, statement.format, statement.parameters))
            await self.send(data, statement.format, Work())
            return
        async with engine.result(handle, statement) as result:
            data, whole = await result.beginning()
            if whole:
                work = await result.work()
                if not data:
                    data = await engine.do(lambda: _without_rows(handle, statement))
                await self.send(data, statement.format, work)
            elif self._asked.waits_for_end:
                await self._send_at_end(result, data, statement.format)
            else:
                await self._send_as_it_comes(result, data, statement.format)

    async def send(self, data: bytes, result_format: str, work: Work, written: int = 0) -> None:
        """Send a result that is known whole."""
        headers = self._headers(result_format, work, written)
        await self._exchange.start(200, headers, compress=self._asked.wants_compression, size=len(data))
        await self._exchange.end(data)

    async def _send_as_it_comes(self, result: Result, data: bytes, result_format: str) -> None:
        """Send a long result while the statement runs."""
        headers = self._headers(result_format, Work(), 0)
        await self._exchange.start(200, headers, compress=self._asked.wants_compression)
        while data:
            await self._exchange.piece(data)
            data = await result.piece()
        try:
            await result.work()
        except EngineError as error:
            await self._exchange.break_off(self._last_words(self._public(error)))
        else:
            await self._exchange.end()

    async def _send_at_end(self, result: Result, data: bytes, result_format: str) -> None:
        """Send a long result once the statement has ended well."""
        with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as kept:
            while data:
                kept.write(data)
                data = await result.piece()
            headers = self._headers(result_format, await result.work(), 0)
            size = kept.tell()
            kept.seek(0)
            await self._exchange.start(200, headers, compress=self._asked.wants_compression, size=size)
            while piece := kept.read(PIPE_BYTES):
                await self._exchange.piece(piece)
        await self._exchange.end()

    def _headers(self, result_format: str, work: Work, written: int) -> dict[str, str]:
        """Say what ClickHouse says of a result."""
        summary = {
            "read_rows": work.rows, "read_bytes": work.bytes, "written_rows": written, "written_bytes": 0,
            "total_rows_to_read": 0, "result_rows": 0, "result_bytes": 0, "elapsed_ns": int(work.elapsed_s * 1e9),
        }  # fmt: skip
        kind = next((kind for pattern, kind in _CONTENT_TYPES if pattern.fullmatch(result_format)), "")
        return {
            "Content-Type": kind or "text/plain; charset=UTF-8",
            "X-ClickHouse-Server-Display-Name": self._server.name,
            "X-ClickHouse-Query-Id": self._asked.query_id,
            "X-ClickHouse-Format": result_format,
            "X-ClickHouse-Timezone": self._server.timezone,
            "X-ClickHouse-Exception-Tag": self._tag,
            "X-ClickHouse-Summary": json.dumps({name: str(value) for name, value in summary.items()}),
        }

    def _last_words(self, refusal: Refusal) -> bytes:
        """Write an error behind rows, framed as ClickHouse does, so that clients can tell it from rows."""
        message = refusal.body(self._server.version)
        tag = self._tag.encode()
        mark = b"__exception__"
        return b"\r\n".join([b"", mark, tag, message + b"%d %s" % (len(message), tag), mark, b""])


def _without_rows(handle: Handle, statement: Statement) -> bytes:
    """Say in Native which columns a result without rows has, which the embedded engine leaves out."""
    if statement.format != "Native" or first_word(statement.text) not in _LONG:
        return b""
    described = handle.run(f"DESCRIBE ({statement.text}\n)", "JSONEachRow", statement.parameters)
    return empty_block([(row["name"], row["type"]) for row in map(json.loads, described.splitlines())])
