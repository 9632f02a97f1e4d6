"""Without users everyone on this machine may read, by its own names only; a stop ends what is being answered."""

from __future__ import annotations

import socket
from base64 import b64encode
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from threading import Thread

import pytest

from prism_ch.store.client import Store
from tests.e2e.service import until
from tests.serving import PASSWORD, OwnEndpoint, endpoint


def test_a_name_that_only_leads_here_is_not_answered(store: Store, engine_folder: Path) -> None:
    with endpoint(store, engine_folder, users={}) as served:
        assert served.ask("SELECT 1", "").text == "1\n"
        for host in ("localhost", "localhost:80", "127.0.0.1", "[::1]:9"):
            assert served.ask("SELECT 1", "", headers={"Host": host}).status == 200, host
        for host in ("rebound.example", "127.0.0.1.example:80", "", "x@y"):
            assert served.ask("SELECT 1", "", headers={"Host": host}).code == "497", host
        assert served.ask("", "", method="GET", path="/ping", headers={"Host": "rebound.example"}).text == "Ok.\n"


def test_a_stop_while_answering_logs_no_traceback(
    store: Store, engine_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    codes: list[str] = []

    def ask(served: OwnEndpoint, statement: str) -> None:
        with suppress(OSError, HTTPException):
            codes.append(served.ask(statement).code)

    endless = ("SELECT sum(cityHash64(number)) FROM numbers(100000000000)", "SELECT number FROM numbers(100000000000)")
    with endpoint(store, engine_folder) as served:
        asking = [Thread(target=ask, args=(served, statement)) for statement in endless]
        for each in asking:
            each.start()
        until(lambda: len(served.sql.engine.marks) == len(endless))
    for each in asking:
        each.join()
    assert "236" in codes
    assert not [record for record in caplog.records if record.exc_info]


def test_a_stop_closes_connections_of_clients_that_read_nothing(store: Store, engine_folder: Path) -> None:
    login = b64encode(f"operator:{PASSWORD}".encode())
    statement = b"SELECT number FROM numbers(100000000000)"
    request = b"POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic %b\r\nContent-Length: %d\r\n\r\n%b"
    with socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with endpoint(store, engine_folder) as served:
            silent.connect(("127.0.0.1", served.port))
            silent.sendall(request % (login, len(statement), statement))
            until(lambda: len(served.sql.engine.marks) == 1)
            assert silent.recv(1)
        silent.settimeout(10)
        with suppress(ConnectionResetError):
            while silent.recv(1 << 16):
                pass
