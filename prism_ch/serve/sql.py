"""Answers SQL over HTTP as a ClickHouse server does, from the embedded engine."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, closing
from functools import partial
from pathlib import Path

from starlette.types import Receive, Scope, Send

from prism_ch.ingest.lines import LINE_BYTES_MAX
from prism_ch.serve.engine import PIPE_BYTES, Engine, Slots
from prism_ch.serve.exchange import PIECE_BYTES, ClientGoneError, Exchange
from prism_ch.serve.handles import Handles
from prism_ch.serve.memory import Memory
from prism_ch.serve.origin import is_cross_site, is_for_this_machine
from prism_ch.serve.permission import (
    Gate,
    check_alone,
    permit_command,
    permit_insert,
    permitted_database,
    public_error,
)
from prism_ch.serve.request import (
    LONGEST_BYTES,
    Insert,
    RequestError,
    SqlRequest,
    as_insert,
    first_word,
    is_reading,
    parse,
    with_form,
)
from prism_ch.serve.results import Results, Server, go_handshake
from prism_ch.serve.users import Credentials, RateLimit, User, Users, credentials_of
from prism_ch.settings import ServeSettings
from prism_ch.store.client import Store
from prism_ch.store.handle import EngineError, Handle, QueryCost

log = logging.getLogger(__name__)

#: The longest statement of an operator, in bytes, who may send lists of values with it.
_OPERATOR_LONGEST_BYTES = 16 << 20


class SqlEndpoint:
    """The application behind `/`, for one database of the engine in this process."""

    def __init__(self, store: Store, folder: Path, settings: ServeSettings) -> None:
        """Serve a store's database in a folder, over connections of its own.

        Raises SettingsError if a user's password is not hashed.
        """
        self.settings = settings
        self.users = Users(settings)
        self.folder = folder
        self.database = database = store.database
        self._store = store.another()
        memory = Memory(settings.queue_s)
        self.statement_bytes = memory.statement_bytes
        self.gate = Gate(self._store, self.statement_bytes)
        self.engine = Engine(settings.queries_at_once, lambda: Handle(folder, database, {}))
        self.handles = Handles(folder, self.engine, memory)
        self.slots = Slots(settings.queries_at_once, settings.queries_per_user, settings.queue_s)
        self.rate_limit = RateLimit(settings.requests_per_minute)
        with closing(Handle(folder, database, {})) as handle:
            self.server = Server("prism-ch", handle.run("SELECT version()").decode().strip())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, and log it without its statement."""
        exchange = Exchange(scope, receive, send, self.settings.stall_s)
        call = _Call(self, exchange)
        start_s = time.monotonic()
        try:
            outcome = await call.answer()
        except ClientGoneError:
            outcome = "client gone"
        form = "request method=%s status=%d user=%r address=%s query_id=%r bytes=%d seconds=%.3f outcome=%r"
        whose = (exchange.request.method, exchange.status, call.user_name, exchange.address, call.query_id)
        log.info(form, *whose, exchange.sent_bytes, time.monotonic() - start_s, outcome)

    async def authenticate(self, credentials: Credentials, address: str) -> User:
        """Return the user with these credentials, unless it asks too often. Raises RequestError."""
        user = self.users.known(credentials)
        if user is None:
            user = await asyncio.to_thread(self.users.authenticate, credentials, address)
        if user.role != "operator":
            if not self.rate_limit.allows(user.name):
                per_minute = self.settings.requests_per_minute
                raise RequestError("QUOTA_EXCEEDED", f"More than {per_minute} requests a minute; wait")
            self.rate_limit.count(user.name)
        return user

    def connection(self) -> Store:
        """Open a connection of the service's own, as what reads flow records takes it."""
        return self._store.another()

    def close(self) -> None:
        """Cancel running statements, and close all handles."""
        self.engine.close()
        self.handles.close()
        self._store.close()


class _Call:
    _request: SqlRequest  # once it is parsed
    _results: Results

    def __init__(self, endpoint: SqlEndpoint, exchange: Exchange) -> None:
        self._endpoint = endpoint
        self._exchange = exchange
        self._method = exchange.request.method
        self._user: User | None = None
        self._compresses = False
        self.user_name = self.query_id = ""

    async def answer(self) -> str:
        """Answer, and return the outcome for the log; raises ClientGoneError."""
        try:
            await self._answer()
        except EngineError as raised:
            error = public_error(raised, self._user)
        except RequestError as raised:
            error = raised
        except asyncio.CancelledError:
            error = RequestError("ABORTED", "The service stops; ask again")
        else:
            return "ok"
        await self._send_error(error)
        return error.name

    async def _answer(self) -> None:
        scope = self._exchange.request.scope
        self._request, given = parse(scope["query_string"], self._exchange.headers)
        self.query_id = self._request.query_id
        self._compresses = self._request.accepts_compression
        if self._method == "GET" and "query" not in given:
            await self._exchange.start(200, {"Content-Type": "text/html; charset=UTF-8"}, compress=False, size=4)
            await self._exchange.end(b"Ok.\n")
            return
        headers = self._exchange.headers
        if self._endpoint.users.is_open and "host" in headers and not is_for_this_machine(headers):
            raise RequestError("ACCESS_DENIED", "Without users only this machine is answered, by its own names")
        if self._method == "POST" and is_cross_site(headers):
            raise RequestError("ACCESS_DENIED", "A page of another site may not send statements")
        credentials = credentials_of(headers, given)
        self._user = user = await self._endpoint.authenticate(credentials, self._exchange.address)
        self.user_name = user.name
        body = self._exchange.body()
        head, whole = await self._head(user, body)
        content_type = headers.get("content-type", "")
        if whole and content_type.startswith("multipart/form-data"):
            self._request = with_form(self._request, content_type, head)
            head = self._request.statement.encode(errors="surrogateescape")
        text = head.decode(errors="surrogateescape")
        insert = as_insert(text)
        self._results = Results(self._exchange, self._request, user, self._endpoint.server)
        async with self._endpoint.slots.slot(user.name):
            if insert is not None or (user.role == "collector" and not is_reading(text)):
                await self._insert(user, insert, text, body)
                return
            if not whole:
                raise RequestError("SYNTAX_ERROR", f"Max query size exceeded: {LONGEST_BYTES} bytes")
            try:
                text = head.decode()
            except UnicodeDecodeError as error:
                raise RequestError("SYNTAX_ERROR", "The statement is no UTF-8") from error
            if is_reading(text):
                await self._read(user, text)
            else:
                await self._command(user, text)

    async def _head(self, user: User, body: AsyncIterator[bytes]) -> tuple[bytes, bool]:
        """Read the statement from URL and body. Returns it, and whether it is whole.

        Of an INSERT only the first rows are read, of a statement that is too long only its beginning.
        """
        head = bytearray(self._request.statement.encode(errors="surrogateescape"))
        if self._method == "GET":
            return bytes(head), True
        separator = b"\n" if head else b""
        async for piece in body:
            head += separator + piece
            separator = b""
            if len(head) < LONGEST_BYTES:
                continue
            is_insert = first_word(head[:LONGEST_BYTES].decode(errors="replace")) == "INSERT"
            if is_insert or user.role != "operator" or len(head) > _OPERATOR_LONGEST_BYTES:
                return bytes(head), False
        return bytes(head), True

    async def _read(self, user: User, text: str) -> None:
        endpoint, request, results = self._endpoint, self._request, self._results
        database = permitted_database(request, user, endpoint.database)
        handshake = go_handshake(text, request, endpoint.server)
        if handshake is not None:
            await results.send(handshake, "Native", QueryCost(1))
            return
        permitted = await endpoint.gate.permit(text, request, user, endpoint.engine)
        if request.session is not None and user.role == "operator":
            lent = self._handle(user, permitted.settings)
        else:
            lent = endpoint.handles.for_reading(database, permitted.settings)
        async with lent as handle:
            if user.role == "operator":
                await endpoint.engine.run(partial(check_alone, handle, permitted.statement.text))
            await self._exchange.while_connected(results.stream(endpoint.engine, handle, permitted.statement))

    async def _command(self, user: User, text: str) -> None:
        if not text.strip():
            raise RequestError("SYNTAX_ERROR", "Empty query")
        permit_command(user, self._method)
        request, result_format = self._request, self._request.format or "TabSeparated"
        # What SET changes must outlast the request, so nothing is set for the request itself.
        changes_session = request.session is not None and first_word(text) in {"SET", "USE"}
        async with self._handle(user, {} if changes_session else request.settings) as handle:
            data = await self._endpoint.engine.run(lambda: handle.run(text, result_format, request.parameters))
        await self._results.send(data, result_format, QueryCost())

    async def _insert(self, user: User, insert: Insert | None, text: str, body: AsyncIterator[bytes]) -> None:
        permitted = permit_insert(insert, self._request, user, self._method, self._endpoint.database)
        rows = text[insert.rows_at :].encode(errors="surrogateescape") if insert else b""
        parameters = {f"param_{name}": value for name, value in self._request.parameters.items()}
        engine = self._endpoint.engine
        # What rows unpack to shows only once the engine has unpacked them.
        bound = {"max_memory_usage": str(self._endpoint.statement_bytes)}
        async with self._handle(user, {**bound, **permitted.settings, **parameters}) as handle:
            insertion = await engine.run(lambda: handle.insertion(permitted.text, permitted.format))
            try:
                async for piece in _gathered(rows, _of_short_lines(body) if permitted.is_text else body):
                    await engine.run(partial(insertion.append, piece))
                written = await engine.run(insertion.finish)
            finally:
                await engine.run(insertion.cancel)
        await self._results.send(b"", "TabSeparated", QueryCost(), written)

    def _handle(self, user: User, settings: Mapping[str, str]) -> AbstractAsyncContextManager[Handle]:
        """Lend the handle of an operator's session, else one for this request."""
        handles, request = self._endpoint.handles, self._request
        database = permitted_database(request, user, self._endpoint.database)
        if request.session is None or user.role != "operator":
            return handles.for_request(database, settings)
        return handles.for_session(user.name, request.session, database, settings, named=bool(request.database))

    async def _send_error(self, error: RequestError) -> None:
        """Send an error, unless the response has begun, which then stays without an end."""
        if self._exchange.status:
            return
        body = error.body(self._endpoint.server.version)
        headers = {
            "Content-Type": "text/plain; charset=UTF-8",
            "X-ClickHouse-Exception-Code": str(error.code),
            "X-ClickHouse-Server-Display-Name": self._endpoint.server.name,
            "X-ClickHouse-Query-Id": self.query_id,
        }
        if error.ends_connection:
            headers["Connection"] = "close"  # what is left of the request will not come
        await self._exchange.start(error.status, headers, compress=self._compresses, size=len(body))
        await self._exchange.end(body)


async def _of_short_lines(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Pass on a collector's text.

    Raises RequestError where a line does not end: the engine would keep it as a whole.
    """
    open_bytes = 0
    async for piece in body:
        last = piece.rfind(b"\n")
        open_bytes = open_bytes + len(piece) if last < 0 else len(piece) - last - 1
        if open_bytes > LINE_BYTES_MAX + PIECE_BYTES:
            raise RequestError("BAD_ARGUMENTS", f"A line of the rows is longer than {LINE_BYTES_MAX >> 20} MiB")
        yield piece


async def _gathered(first: bytes, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Join pieces to larger ones, for fewer calls of the engine."""
    gathered = bytearray(first)
    async for piece in body:
        gathered += piece
        if len(gathered) >= PIPE_BYTES:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)
