"""Listens for /healthz and /metrics, in a thread of its own."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from threading import Thread

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from prism_ch.errors import SettingsError
from prism_ch.health.light import Light, any_red
from prism_ch.health.measures import Measure
from prism_ch.serve.metrics import prometheus_text

log = logging.getLogger(__name__)


def application(lights: Callable[[], list[Light]], measures: Callable[[], list[Measure]]) -> Starlette:
    """Make the application; what it tells is asked for at each request, in a thread that may wait."""

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

    return Starlette(routes=[Route("/healthz", healthz), Route("/metrics", metrics)])


@contextmanager
def listening(app: Starlette, host: str, port: int) -> Iterator[int]:
    """Answer requests while a block runs; yields the port, which the system chooses where 0 is asked for.

    Raises SettingsError where nothing can listen there.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        opened = socket.create_server((host, port), family=family)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise SettingsError(f"{host}:{port}: can't listen there: {reason}; give another with --listen") from error
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1)
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
