"""Answers browsers with pages, for the same users and tenants as SQL; no page has a script."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope, Send

from prism_ch.errors import PrismError, UsageError
from prism_ch.report.page import content_security_policy, render
from prism_ch.serve.exchange import ClientGoneError, Exchange
from prism_ch.serve.origin import is_for_this_machine, is_same_origin
from prism_ch.serve.page_ask import PageAsk
from prism_ch.serve.permission import public_error
from prism_ch.serve.request import RequestError
from prism_ch.serve.sql import SqlEndpoint
from prism_ch.serve.sql_page import answer_csv, view_answer
from prism_ch.serve.trace_file import answer_trace
from prism_ch.serve.users import User, credentials_of
from prism_ch.serve.views import VIEWS, NotThereError, Reader
from prism_ch.store.handle import EngineError

log = logging.getLogger(__name__)

#: How many pages are made at once; each asks one statement at a time.
_PAGES_AT_ONCE = 4
#: The longest form: a statement of the longest size, with every letter of it escaped.
_FORM_BYTES_MAX = 1 << 20
_PARAMETERS_MAX = 50
#: How many traces are made at once: each takes as long as its client reads.
_TRACES_AT_ONCE = 2
_SQL_PATH, _TRACE_PATH = "/sql", "/trace"
#: The paths of pages; `/` is asked by ClickHouse's clients too.
PATHS = (*VIEWS, _SQL_PATH, _TRACE_PATH)
_TITLES = {400: "That can't be answered", 401: "Who are you?", 403: "Not allowed", 404: "Not there"}


class Pages:
    """The application of the pages."""

    def __init__(self, endpoint: SqlEndpoint) -> None:
        self._endpoint = endpoint
        self._threads = ThreadPoolExecutor(_PAGES_AT_ONCE, thread_name_prefix="page")
        self._tracing = ThreadPoolExecutor(_TRACES_AT_ONCE, thread_name_prefix="trace")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, and log it without its parameters."""
        exchange = Exchange(scope, receive, send, self._endpoint.settings.stall_s)
        call = _Call(self._endpoint, (self._threads, self._tracing), exchange)
        start_s = time.monotonic()
        try:
            await call.answer()
        except ClientGoneError:
            outcome = "client gone"
        else:
            outcome = "ok" if exchange.status < 400 else "refused"
        form = "page method=%s path=%s status=%d user=%r address=%s bytes=%d seconds=%.3f outcome=%r"
        whose = (exchange.request.method, scope["path"], exchange.status, call.user_name, exchange.address)
        log.info(form, *whose, exchange.sent_bytes, time.monotonic() - start_s, outcome)

    def close(self) -> None:
        """Begin no more pages and traces."""
        for threads in (self._threads, self._tracing):
            threads.shutdown(wait=False, cancel_futures=True)


class _Call:
    def __init__(
        self, endpoint: SqlEndpoint, threads: tuple[ThreadPoolExecutor, ThreadPoolExecutor], exchange: Exchange
    ) -> None:
        self._endpoint = endpoint
        self._threads, self._tracing = threads
        self._exchange = exchange
        self._user: User | None = None
        self.user_name = ""

    async def answer(self) -> None:
        """Answer with a page, also if something is wrong; raises ClientGoneError."""
        try:
            await self._answer()
        except EngineError as error:
            await self._refuse(public_error(error, self._user))
        except (RequestError, NotThereError, UsageError) as error:
            await self._refuse(error)

    async def _answer(self) -> None:
        exchange = self._exchange
        path = exchange.request.url.path
        self._user = user = await self._authenticate()
        self.user_name = user.name
        given = _parameters(exchange.request.scope["query_string"])
        posted = None
        if exchange.request.method == "POST":
            if path != _SQL_PATH or not is_same_origin(exchange.headers):
                raise RequestError("ACCESS_DENIED", "Only the form of this service's own page may be sent here")
            posted = _parameters(await self._body())
        ask = PageAsk(self._endpoint, user, asyncio.get_running_loop())
        reader = Reader(user.name, user.tenant)
        async with self._endpoint.slots.slot(user.name):
            if posted is not None and posted.get("as") == "csv":
                text, headers = posted.get("statement", ""), _headers("text/csv")
                await exchange.while_connected(answer_csv(self._endpoint, ask, exchange, text, headers))
                return
            if path == _TRACE_PATH:
                await self._answer_trace(ask, given)
                return
            if path == _SQL_PATH:
                make = partial(view_answer, ask, reader, given, posted)
            else:
                make = partial(VIEWS[path], ask, reader, given)
            html = await self._made(ask, make)
        await self._send(200, html)

    async def _authenticate(self) -> User:
        """Return the user. Raises RequestError: also if a name made by others leads to an open service."""
        headers, users = self._exchange.headers, self._endpoint.users
        if users.is_open and not is_for_this_machine(headers):
            raise RequestError("ACCESS_DENIED", "Ask for this service by the name of this machine")
        if not users.is_open and "authorization" not in headers:
            raise RequestError("AUTHENTICATION_FAILED", "Give the name and password of a user of the settings")
        user = await self._endpoint.authenticate(credentials_of(headers, {}), self._exchange.address)
        if user.role == "collector":
            raise RequestError("ACCESS_DENIED", "A collector reads nothing")
        return user

    async def _body(self) -> bytes:
        body = bytearray()
        async for piece in self._exchange.body():
            body += piece
            if len(body) > _FORM_BYTES_MAX:
                raise RequestError("BAD_ARGUMENTS", "The statement is too long")
        return bytes(body)

    async def _made(self, ask: PageAsk, make: partial[str]) -> str:
        """Make a page in a thread, unless the client leaves first."""
        try:
            return await self._exchange.while_connected(asyncio.get_running_loop().run_in_executor(self._threads, make))
        finally:
            ask.abandon()

    async def _answer_trace(self, ask: PageAsk, given: Mapping[str, str]) -> None:
        """Send a trace, unless the client leaves first. Flow records are in it for those who may read them."""
        records = self._endpoint.connection if ask.user.tenant is None else None
        making = answer_trace(ask, records, self._exchange, self._tracing, given, _headers("application/gzip"))
        try:
            await self._exchange.while_connected(making)
        finally:
            ask.abandon()

    async def _refuse(self, error: PrismError) -> None:
        """Send a page with an error.

        A response that has begun stays without an end instead.
        """
        if self._exchange.status:
            return
        status = 404 if isinstance(error, NotThereError) else error.status if isinstance(error, RequestError) else 400
        needs_login = isinstance(error, RequestError) and error.name == "AUTHENTICATION_FAILED"
        status = 401 if needs_login else status
        reader = None if self._user is None else Reader(self._user.name, self._user.tenant)
        title = _TITLES.get(status, "That failed")
        more = {"WWW-Authenticate": 'Basic realm="prism-ch", charset="UTF-8"'} if needs_login else {}
        html = render("page_error.html", title=title, what=str(error), reader=reader, path="")
        await self._send(status, html, more)

    async def _send(self, status: int, html: str, more: Mapping[str, str] | None = None) -> None:
        body = html.encode(errors="replace")
        headers = {**_headers("text/html"), **(more or {})}
        await self._exchange.start(status, headers, compress=True, size=len(body))
        await self._exchange.end(body)


def _headers(kind: str) -> dict[str, str]:
    """Return the headers of every answer. Nothing in it runs, and no other site shows or reads it."""
    return {
        "Content-Type": f"{kind}; charset=utf-8" if kind.startswith("text/") else kind,
        "Content-Security-Policy": f"{content_security_policy()}; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        # Without any referrer browsers send no origin with a form either.
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "private, no-cache",
        "Vary": "Accept, Accept-Encoding, Authorization",
    }


def _parameters(encoded: bytes) -> dict[str, str]:
    """Decode a query string or a form. Raises RequestError if it can't be read."""
    try:
        text = encoded.decode("ascii")
        return dict(parse_qsl(text, keep_blank_values=True, errors="replace", max_num_fields=_PARAMETERS_MAX))
    except ValueError as error:
        raise RequestError("BAD_ARGUMENTS", f"The parameters can't be read: {error}") from error
