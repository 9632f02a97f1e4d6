"""Answers SQL over HTTP as a ClickHouse server does, to the users of the settings, from the embedded engine."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path

from starlette.types import Receive, Scope, Send

from prism_ch.serve.delivery import Delivery, delivery_of
from prism_ch.serve.exchange import ClientGoneError, Exchange
from prism_ch.serve.handles import Handles
from prism_ch.serve.handshake import Server, go_handshake
from prism_ch.serve.limits import Places, Rate
from prism_ch.serve.permission import Gate, meant_database, permit_command, public_refusal
from prism_ch.serve.refusal import Refusal, access_denied
from prism_ch.serve.request import Asked, parse
from prism_ch.serve.results import Results
from prism_ch.serve.statement import LONGEST_BYTES, Insert, as_insert, first_word, is_answering
from prism_ch.serve.users import User, Users, credentials_of
from prism_ch.serve.work import PIPE_BYTES, Engine
from prism_ch.settings import ServeSettings
from prism_ch.store.client import Store
from prism_ch.store.handle import EngineError, Handle, Work

log = logging.getLogger(__name__)

#: A statement without rows may be longer for an operator, who lands lists of values with it.
_OPERATORS_LONGEST_BYTES = 16 << 20


class SqlEndpoint:
    """The application behind `/`: one database of the engine that this process has running."""

    def __init__(self, store: Store, folder: Path, settings: ServeSettings) -> None:
        """Take requests for a store's database in a folder, over connections of its own.

        Raises SettingsError where a user's password is no hash.
        """
        self.settings = settings
        self.users = Users(settings)
        self.folder = folder
        self.database = database = store.database
        self._store = store.another()
        self.gate = Gate(self._store)
        self.engine = Engine(settings.queries_at_once, lambda: Handle(folder, database, {}))
        self.handles = Handles(folder, self.engine)
        self.places = Places(settings.queries_at_once, settings.queries_per_user, settings.queue_s)
        self.rate = Rate(settings.requests_per_minute)
        with closing(Handle(folder, database, {})) as handle:
            self.server = Server("prism-ch", handle.run("SELECT version()").decode().strip())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, and write the line of it into the access log, without what was asked."""
        exchange = Exchange(scope, receive, send, self.settings.stall_s)
        call = _Call(self, exchange)
        begun_s = time.monotonic()
        try:
            outcome = await call.answer()
        except ClientGoneError:
            outcome = "client gone"
        log.info(
            "request method=%s status=%d user=%r address=%s query_id=%r bytes=%d seconds=%.3f outcome=%r",
            exchange.request.method,
            exchange.status,
            call.user_name,
            exchange.address,
            call.query_id,
            exchange.sent_bytes,
            time.monotonic() - begun_s,
            outcome,
        )

    def close(self) -> None:
        """Cancel what is at work, and give everything back to the engine."""
        self.engine.close()
        self.handles.close()
        self._store.close()


class _Call:
    """One request."""

    def __init__(self, endpoint: SqlEndpoint, exchange: Exchange) -> None:
        self._endpoint = endpoint
        self._exchange = exchange
        self._user: User | None = None
        self.query_id = ""

    @property
    def user_name(self) -> str:
        """Name of the user, once it is proven."""
        return "" if self._user is None else self._user.name

    async def answer(self) -> str:
        """Answer, and return the outcome; raises ClientGoneError."""
        try:
            await self._answer()
        except EngineError as error:
            refusal = public_refusal(error, self._user)
        except Refusal as error:
            refusal = error
        else:
            return "ok"
        await self._refuse(refusal)
        return refusal.name

    async def _answer(self) -> None:
        """Find out who asks for what, and do it."""
        request = self._exchange.request
        asked, given = parse(request.scope["query_string"], request.headers)
        self.query_id = asked.query_id
        if request.method == "GET" and "query" not in given:
            await self._exchange.start(200, {"Content-Type": "text/html; charset=UTF-8"}, compress=False, size=4)
            await self._exchange.end(b"Ok.\n")
            return
        self._user = user = await self._authenticate(given)
        body = self._exchange.body()
        head, whole = await self._head(asked, body)
        text = head.decode(errors="surrogateescape")
        insert = as_insert(text)
        results = Results(self._exchange, asked, self._endpoint.server, partial(public_refusal, user=user))
        async with self._endpoint.places.place(user.name):
            if insert is not None or user.role == "collector":
                await self._insert(user, asked, insert, text, body, results)
            elif is_answering(text):
                await self._read(user, asked, _whole_text(head, whole), results)
            else:
                await self._command(user, asked, _whole_text(head, whole), results)

    async def _authenticate(self, given: dict[str, str]) -> User:
        """Find out who asks."""
        users = self._endpoint.users
        credentials = credentials_of(self._exchange.headers, given)
        user = users.known(credentials)
        if user is None:
            user = await asyncio.to_thread(users.find, credentials, self._exchange.address)
        if user.role != "operator":
            if not self._endpoint.rate.has_room(user.name):
                per_minute = self._endpoint.settings.requests_per_minute
                raise Refusal(201, "QUOTA_EXCEEDED", f"More than {per_minute} requests a minute; wait")
            self._endpoint.rate.take(user.name)
        return user

    async def _head(self, asked: Asked, body: AsyncIterator[bytes]) -> tuple[bytes, bool]:
        """Return the statement of URL and body, and whether it is whole; an INSERT only with the first of its rows."""
        head = bytearray(asked.statement.encode(errors="surrogateescape"))
        if self._exchange.request.method == "GET":
            return bytes(head), True
        begun = False
        operators = self._user is not None and self._user.role == "operator"
        async for piece in body:
            if not begun and head:
                head += b"\n"
            begun = True
            head += piece
            if len(head) < LONGEST_BYTES:
                continue
            if first_word(head[:LONGEST_BYTES].decode(errors="replace")) == "INSERT" or not operators:
                return bytes(head), False
            if len(head) > _OPERATORS_LONGEST_BYTES:
                return bytes(head), False
        return bytes(head), True

    async def _read(self, user: User, asked: Asked, text: str, results: Results) -> None:
        """Answer a statement that changes nothing."""
        endpoint = self._endpoint
        database = meant_database(asked, user, endpoint.database)
        greeting = go_handshake(text, asked, endpoint.server)
        if greeting is not None:
            await results.send(greeting, "Native", Work(1))
            return
        permitted = await endpoint.gate.permitted(text, asked, user, endpoint.engine)
        statement = permitted.statement
        if asked.session is not None and user.role == "operator":
            async with endpoint.handles.for_session(
                user.name, asked.session, database, permitted.settings, named=bool(asked.database)
            ) as session:
                await self._exchange.while_connected(results.stream(endpoint.engine, session.handle, statement))
        else:
            async with endpoint.handles.for_reading(database, permitted.settings) as handle:
                await self._exchange.while_connected(results.stream(endpoint.engine, handle, statement))

    async def _command(self, user: User, asked: Asked, text: str, results: Results) -> None:
        """Run a statement that may change something, to its end."""
        if not text.strip():
            raise Refusal(62, "SYNTAX_ERROR", "Empty query")
        permit_command(user, self._exchange.request.method)
        result_format = asked.format or "TabSeparated"
        async with self._handle(user, asked, asked.settings, changes=first_word(text) in {"SET", "USE"}) as handle:
            data = await self._endpoint.engine.do(lambda: handle.run(text, result_format, asked.parameters))
        await results.send(data, result_format, Work())

    async def _insert(
        self, user: User, asked: Asked, insert: Insert | None, text: str, body: AsyncIterator[bytes], results: Results
    ) -> None:
        """Insert the rows of a body as they come."""
        delivery = self._delivery(user, asked, insert)
        rows = text[insert.rows_at :].encode(errors="surrogateescape") if insert else b""
        parameters = {f"param_{name}": value for name, value in asked.parameters.items()}
        engine = self._endpoint.engine
        async with self._handle(user, asked, {**delivery.settings, **parameters}) as handle:
            insertion = await engine.do(lambda: handle.insertion(delivery.text, delivery.format))
            try:
                async for piece in _gathered(rows, body):
                    await engine.do(partial(insertion.append, piece))
                written = await engine.do(insertion.finish)
            finally:
                await engine.do(insertion.cancel)
        await results.send(b"", delivery.format, Work(), written)

    def _delivery(self, user: User, asked: Asked, insert: Insert | None) -> Delivery:
        """Decide what INSERT to run."""
        if user.role == "collector":
            meant_database(asked, user, self._endpoint.database)
            return delivery_of(insert, asked.settings, user.name, self._endpoint.database)
        permit_command(user, self._exchange.request.method)
        if insert is None:
            raise access_denied("There is no INSERT")
        return Delivery(insert.text, insert.format or asked.format or "Values", asked.settings)

    @asynccontextmanager
    async def _handle(
        self, user: User, asked: Asked, settings: Mapping[str, str], *, changes: bool = False
    ) -> AsyncIterator[Handle]:
        """Lend a handle that a statement may change; `changes` where it changes its session's settings."""
        handles = self._endpoint.handles
        database = meant_database(asked, user, self._endpoint.database)
        if asked.session is None or user.role != "operator":
            async with handles.for_one(database, settings) as handle:
                yield handle
            return
        over = {} if changes else settings
        named = bool(asked.database)
        async with handles.for_session(user.name, asked.session, database, over, named=named) as session:
            yield session.handle

    async def _refuse(self, refusal: Refusal) -> None:
        """Say why there is no answer; where it has begun already, break it off."""
        body = refusal.body(self._endpoint.server.version)
        if self._exchange.status:
            return
        headers = {
            "Content-Type": "text/plain; charset=UTF-8",
            "X-ClickHouse-Exception-Code": str(refusal.code),
            "X-ClickHouse-Server-Display-Name": self._endpoint.server.name,
            "X-ClickHouse-Query-Id": self.query_id,
        }
        if refusal.ends_connection:
            headers["Connection"] = "close"  # what is left of the request will not come
        await self._exchange.start(refusal.status, headers, compress=False, size=len(body))
        await self._exchange.end(body)


def _whole_text(head: bytes, whole: bool) -> str:  # noqa: FBT001 - what _head() returns
    """Return a statement that is to be read whole; raises Refusal where it is too long, or no UTF-8."""
    if not whole:
        raise Refusal(62, "SYNTAX_ERROR", f"Max query size exceeded: {LONGEST_BYTES} bytes")
    try:
        return head.decode()
    except UnicodeDecodeError as error:
        raise Refusal(62, "SYNTAX_ERROR", "The statement is no UTF-8") from error


async def _gathered(first: bytes, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield rows in pieces that are worth a turn of the engine."""
    gathered = bytearray(first)
    async for piece in body:
        gathered += piece
        if len(gathered) >= PIPE_BYTES:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)
