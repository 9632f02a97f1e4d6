"""Listens for HTTP in a thread of its own: SQL as ClickHouse takes it, /healthz and /metrics."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Thread

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from prism_ch.errors import SettingsError
from prism_ch.health.light import Light, any_red
from prism_ch.health.measures import Measure
from prism_ch.serve.metrics import prometheus_text

log = logging.getLogger(__name__)

#: A connection is kept for the next request as long as by a ClickHouse server, which its clients count on.
_KEEP_ALIVE_S = 30


def application(
    lights: Callable[[], list[Light]], measures: Callable[[], list[Measure]], sql: ASGIApp | None = None
) -> Starlette:
    """Make the application; what it tells is asked for at each request, in a thread that may wait.

    Parameters: `sql`, what answers SQL; None where the database is on a server, which does that itself.
    """

    def healthz(request: Request) -> Response:  # noqa: ARG001 - the library's form
        """Answer 200, or 503 where something stops or spoils the results, and why."""
        found = lights()
        red = any_red(found)
        told = {
            "status": "bad" if red else "ok",
            "reasons": [f"{light.name}: {light.what}" for light in found if light.state == "bad"],
            "lights": [asdict(light) for light in found],
        }
        return JSONResponse(told, status_code=503 if red else 200)

    def metrics(request: Request) -> Response:  # noqa: ARG001 - the library's form
        """Answer what is measured, in Prometheus's text format."""
        return Response(prometheus_text(measures()), headers={"Content-Type": CONTENT_TYPE_LATEST})

    def well(request: Request) -> Response:  # noqa: ARG001 - the library's form
        """Answer that the endpoint is there, as ClickHouse does; it has no replicas that could lag."""
        return PlainTextResponse("Ok.\n")

    def elsewhere(request: Request) -> Response:  # noqa: ARG001 - the library's form
        """Say where SQL is answered."""
        return PlainTextResponse("SQL is answered by the ClickHouse server that holds the database\n", status_code=404)

    every = ["GET", "POST"]
    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/metrics", metrics),
            Route("/ping", well),
            Route("/replicas_status", well),
            Route("/", elsewhere, methods=every) if sql is None else Route("/", sql, methods=every),
        ]
    )


@contextmanager
def listening(
    app: Starlette, host: str, port: int, certificate: Path | None = None, key: Path | None = None
) -> Iterator[int]:
    """Answer requests while a block runs; yields the port, which the system chooses where 0 is asked for.

    Parameters: `certificate` and `key`, PEM files; with them HTTPS is spoken.
    Raises SettingsError where nothing can listen there, or the certificate can't be used.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        opened = socket.create_server((host, port), family=family)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise SettingsError(f"{host}:{port}: can't listen there: {reason}; give another with --listen") from error
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
        timeout_keep_alive=_KEEP_ALIVE_S,
        server_header=False,
        # Whoever is nearer than a proxy could give any address, and so try passwords without end.
        proxy_headers=False,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    # Its lines would hold URLs, and those may hold passwords.
    logging.getLogger("uvicorn.access").disabled = True
    try:
        config.load()
    except (OSError, ValueError) as error:
        opened.close()
        raise SettingsError(f"{certificate}, {key}: can't be used for TLS: {error}") from error
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, kwargs={"sockets": [opened]}, name="http", daemon=True)
    with opened:
        thread.start()
        bound: int = opened.getsockname()[1]
        log.info("listening host=%s port=%d", host, bound)
        try:
            yield bound
        finally:
            server.should_exit = True
            thread.join(timeout=3)
