"""Serves HTTP in a thread: SQL as ClickHouse does, /healthz and /metrics."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Thread

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from prism_ch.errors import SettingsError
from prism_ch.health.checks import MEASURES, Check, Measure, without_exporters
from prism_ch.serve.connections import Connections
from prism_ch.serve.origin import wants_page
from prism_ch.serve.pages import PATHS
from prism_ch.serve.users import Users

log = logging.getLogger(__name__)

#: After this long, in seconds, what a client has not read of its last answer is dropped.
_LAST_WORDS_S = 1.0


def application(
    checks: Callable[[], list[Check]],
    measures: Callable[[], list[Measure]],
    sql: ASGIApp | None = None,
    pages: ASGIApp | None = None,
    users: Users | None = None,
) -> Starlette:
    """Make the application; checks and measures are taken at each request, in a thread.

    Where there are `users`, names of exporters, which are addresses, are measured for those alone who may read all.

    Parameters: `sql`, the application that answers SQL; None if the database is on a server, which does that itself.
    `pages`, the application that answers browsers; None without one.
    """

    def healthz(request: Request) -> Response:  # noqa: ARG001 - the library's form
        """Answer 200, or 503 if something stops or spoils the results, and why."""
        found = checks()
        bad = [check for check in found if check.state == "bad"]
        status = {
            "status": "bad" if bad else "ok",
            "reasons": [f"{check.name}: {check.what}" for check in bad],
            "lights": [asdict(check) for check in found],
        }
        return JSONResponse(status, status_code=503 if bad else 200)

    def metrics(request: Request) -> Response:
        address = request.client.host if request.client else ""
        shows_names = users is None or users.may_read_all(request.headers, address)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_MeasureCollector(measures() if shows_names else without_exporters(measures())))
        return Response(generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    ok = PlainTextResponse("Ok.\n")  # as ClickHouse answers if it runs, and no replica lags
    elsewhere = PlainTextResponse("SQL is answered by the ClickHouse server that holds the database\n", status_code=404)
    of_pages = [Route(path, pages, methods=["GET", "POST"]) for path in PATHS if pages is not None and path != "/"]
    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/metrics", metrics),
            Route("/ping", ok, methods=["GET"]),
            Route("/replicas_status", ok, methods=["GET"]),
            Route("/", _Front(sql or elsewhere, pages), methods=["GET", "POST"]),
            *of_pages,
        ]
    )


@contextmanager
def listening(
    app: Starlette,
    host: str,
    port: int,
    certificate: Path | None = None,
    key: Path | None = None,
    *,
    connections: Connections | None = None,
) -> Iterator[int]:
    """Answer requests while a block runs, and yield the port.

    Parameters: `port`, 0 for any free one; `certificate` and `key`, PEM files, with which HTTPS is served;
    `connections`, which bounds how many are open.
    Raises SettingsError if the address can't be listened on, or the certificate can't be used.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        opened = socket.create_server((host, port), family=family)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise SettingsError(f"{host}:{port}: can't listen there: {reason}; give another with --listen") from error
    among = connections or Connections()
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
        timeout_keep_alive=math.ceil(among.asks_within_s),
        http=among.protocol(),
        server_header=False,
        # A client could put any address into a proxy's header, and so try passwords without limit.
        proxy_headers=False,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    # uvicorn's lines would hold URLs, and those may hold passwords.
    logging.getLogger("uvicorn.access").disabled = True
    try:
        config.load()
    except (OSError, ValueError) as error:
        opened.close()
        raise SettingsError(f"{certificate}, {key}: can't be used for TLS: {error}") from error
    server = _Server(config)
    thread = Thread(target=server.run, kwargs={"sockets": [opened]}, name="http", daemon=True)
    with opened:
        thread.start()
        bound: int = opened.getsockname()[1]
        log.info("listening host=%s port=%d", host, bound)
        try:
            yield bound
        finally:
            server.should_exit = True
            thread.join(timeout=5)


class _Server(uvicorn.Server):
    """A server that closes, once it stops, also connections whose clients don't read what was sent.

    The event loop can't be closed while something is left to be written.
    """

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop as the library does, then close what is still open after a while."""
        await super().shutdown(sockets)
        until_s = time.monotonic() + _LAST_WORDS_S
        while self.server_state.connections:
            await asyncio.sleep(0.02)
            if time.monotonic() > until_s:
                for connection in self.server_state.connections:
                    connection.transport.abort()


class _Front:
    """Answers browsers at `/` with a page, and all others as ClickHouse does."""

    def __init__(self, sql: ASGIApp, pages: ASGIApp | None) -> None:
        self._sql = sql
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        is_statement = request.method == "POST" or "query" in request.query_params
        if self._pages is None or is_statement or not wants_page(request.headers.get("accept", "")):
            await self._sql(scope, receive, send)
        else:
            await self._pages(scope, receive, send)


class _MeasureCollector(Collector):
    def __init__(self, measures: Sequence[Measure]) -> None:
        self._measures = measures

    def collect(self) -> Iterator[Metric]:
        for name, (meaning, label) in MEASURES.items():
            labels = label.split()
            found = [measure for measure in self._measures if measure.name == name]
            family_type = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = family_type(f"prism_ch_{name}", meaning, labels=labels)
            for measure in found:
                family.add_metric(measure.label.split(" ", len(labels) - 1) if labels else [], measure.value)
            if found:
                yield family
