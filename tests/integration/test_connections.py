"""Connections that ask nothing are closed, and never keep others from being answered."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.request import urlopen

import pytest

from prism_ch.serve.connections import Connections, bearable
from prism_ch.serve.http import application, listening

MOST = 20


@contextmanager
def served(connections: Connections) -> Iterator[int]:
    with listening(application(list, list), "127.0.0.1", 0, connections=connections) as port:
        yield port


def ping(port: int) -> str:
    with urlopen(f"http://127.0.0.1:{port}/ping", timeout=10) as answer:
        return str(answer.read().decode())


@contextmanager
def idle(port: int, count: int, begun: bytes = b"") -> Iterator[list[socket.socket]]:
    """Open connections that ask nothing, or only begin to."""
    with ExitStack() as opened:
        found = [opened.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(count)]
        for each in found:
            each.settimeout(10)
            each.sendall(begun)
        yield found


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def is_cut_off(connection: socket.socket) -> bool:
    """Send one byte more, and return whether nobody takes it."""
    try:
        connection.sendall(b"G")
    except (BrokenPipeError, ConnectionResetError):
        return True
    return False


@pytest.mark.parametrize("begun", [b"", b"GET /ping HTTP/1.1\r\nHost: x\r\n"], ids=["idle", "half"])
def test_many_that_ask_nothing_keep_nobody_out(begun: bytes) -> None:
    with served(Connections(MOST)) as port, idle(port, 10 * MOST, begun) as resting:
        for _ in range(5):
            assert ping(port) == "Ok.\n"
        assert all(map(is_closed, resting[: 8 * MOST]))


@pytest.mark.parametrize("begun", [b"", b"GET /ping HT"], ids=["idle", "half"])
def test_who_asks_nothing_is_closed_after_a_while(begun: bytes) -> None:
    with served(Connections(MOST, asks_within_s=0.2)) as port, idle(port, 1, begun) as (resting,):
        assert is_closed(resting)
        assert ping(port) == "Ok.\n"


def test_one_byte_at_a_time_does_not_keep_a_connection() -> None:
    with served(Connections(MOST, asks_within_s=0.3)) as port, idle(port, 1) as (slow,):
        until_s = time.monotonic() + 5
        while not is_cut_off(slow) and time.monotonic() < until_s:
            time.sleep(0.02)
        assert time.monotonic() < until_s


def test_a_connection_is_kept_between_requests() -> None:
    request = b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n"
    with served(Connections(MOST, asks_within_s=2)) as port, idle(port, 1) as (client,):
        for _ in range(3):
            client.sendall(request)
            assert client.recv(4096).startswith(b"HTTP/1.1 200")
            time.sleep(0.1)


def test_most_descriptors_stay_with_the_engine() -> None:
    assert 16 <= bearable() <= 1024
