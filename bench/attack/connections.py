"""Opens connections that ask nothing or half of something, while SQL, landing and analysis go on."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, suppress

from bench.attack.target import Held, Others, Target

_CONNECTIONS = 5_000
_P95_S, _LANDED_WITHIN_S = 2.0, 30.0
#: What a connection has sent when it falls silent.
_BEGUN = (
    b"",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    b"POST /?query=SELECT%201 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx",
)


def silent_connections(target: Target, until_s: float) -> list[Held]:
    """Open connections that fall silent, as many as there is time for."""
    opened = 0
    with ExitStack() as stack, Others(target) as others:
        open_now: list[socket.socket] = []
        while opened < _CONNECTIONS and (opened < _CONNECTIONS // 10 or time.monotonic() < until_s):
            with suppress(OSError):
                connection = socket.create_connection(("127.0.0.1", target.service.port), timeout=5)
                stack.callback(connection.close)
                connection.sendall(_BEGUN[opened % len(_BEGUN)])
                open_now.append(connection)
            opened += 1
        landed_s = target.lands_within(_LANDED_WITHIN_S)
        while time.monotonic() < until_s:
            time.sleep(1.0)
        # What has landed is of another time than the recording: its window is due as soon as it closes.
        health = target.service.health() or {}
    bad = [reason for reason in health.get("reasons", ["no answer"]) if "task" in reason or "database" in reason]
    return [
        Held(
            "idle and half-open connections: SQL goes on",
            others.p95_s <= _P95_S and not others.refused,
            f"{opened:,} opened; {others.figures}",
        ),
        Held("landing goes on", landed_s < _LANDED_WITHIN_S, f"a file landed in {landed_s:.1f} s"),
        Held("analysis goes on", not bad, "; ".join(bad) or "no task fails"),
    ]
