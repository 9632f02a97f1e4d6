"""Whoever owns the database may have commands run by the process that holds it, and nobody else."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from prism_ch.daemon import control as control_module
from prism_ch.daemon.control import Request, Streams, call, controlled
from tests.e2e.service import until

REQUEST = Request(["sql", "SELECT 1"], "prism", "/here")


@contextmanager
def pipes() -> Iterator[tuple[list[int], int]]:
    """Yield three streams to send along, and where the second one comes out."""
    out, into = os.pipe()
    with Path(os.devnull).open("r+b") as nowhere:
        try:
            yield [nowhere.fileno(), into, nowhere.fileno()], out
        finally:
            os.close(out)
            os.close(into)


def answer_with(text: str, status: int = 0) -> control_module.RunCommand:
    def run(request: Request, streams: Streams) -> int:
        assert request == REQUEST
        streams.stdout.write(text)
        return status

    return run


def test_a_command_reads_and_writes_its_clients_streams(tmp_path: Path) -> None:
    with controlled(tmp_path, answer_with("hello\n", 7)) as control, pipes() as (streams, out):
        assert call(tmp_path, REQUEST, streams) == 7
        assert os.read(out, 100) == b"hello\n"
        while control.busy:
            pass
    assert call(tmp_path, REQUEST, [0, 1, 2]) is None
    assert list(tmp_path.iterdir()) == []


def test_several_commands_run_at_once(tmp_path: Path) -> None:
    meet = threading.Barrier(3)

    def run(request: Request, streams: Streams) -> int:
        return meet.wait()

    with controlled(tmp_path, run), pipes() as (streams, _):
        found: list[int | None] = []
        threads = [threading.Thread(target=lambda: found.append(call(tmp_path, REQUEST, streams))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(str(each) for each in found) == ["0", "1", "2"]


def test_a_command_notices_when_its_client_has_left(tmp_path: Path) -> None:
    left: list[bool] = []

    def run(request: Request, streams: Streams) -> int:
        left.append(streams.has_left())
        caller.close()
        until(streams.has_left)
        left.append(True)
        return 0

    with controlled(tmp_path, run) as control, pipes() as (streams, _), socket.socket(socket.AF_UNIX) as caller:
        caller.connect(json.loads((tmp_path / "serve.json").read_text())["socket"])
        socket.send_fds(caller, [json.dumps(asdict(REQUEST)).encode() + b"\n"], streams)
        until(lambda: len(left) == 2 and not control.busy)
    assert left == [False, True]


def test_what_is_no_request_harms_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with controlled(tmp_path, answer_with("", 3)), pipes() as (streams, _):
        path = json.loads((tmp_path / "serve.json").read_text())["socket"]
        for text in (b"", b"nonsense\n", b"[]\n", json.dumps({"arguments": []}).encode() + b"\n"):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(path)
                socket.send_fds(connection, [text], streams) if text else connection.shutdown(socket.SHUT_WR)
                assert connection.recv(100) == b""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            connection.sendall(json.dumps(asdict(REQUEST)).encode() + b"\n")
            assert connection.recv(100) == b""
        assert call(tmp_path, REQUEST, streams) == 3
    assert "a request comes with three streams" in caplog.text


def test_a_request_of_another_user_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with controlled(tmp_path, answer_with("")), pipes() as (streams, _):

        def peer(connection: socket.socket) -> int:
            return os.geteuid() if threading.current_thread() is threading.main_thread() else 12345

        monkeypatch.setattr(control_module, "_peer_user", peer)
        with pytest.raises(ConnectionError, match="the service ended before the command did"):
            call(tmp_path, REQUEST, streams)


def test_our_streams_are_given_to_the_owner_of_the_database_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with controlled(tmp_path, answer_with("")), pipes() as (streams, _):
        monkeypatch.setattr(control_module, "_peer_user", lambda connection: 12345)
        assert call(tmp_path, REQUEST, streams) is None


def test_a_service_that_was_killed_left_nothing_to_ask(tmp_path: Path) -> None:
    for text in ("{", "{}", json.dumps({"pid": 1, "socket": str(tmp_path / "gone")})):
        (tmp_path / "serve.json").write_text(text)
        assert call(tmp_path, REQUEST, [0, 1, 2]) is None


def test_the_socket_of_a_service_that_was_killed_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "left"
    left.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(left / "control"))
    (tmp_path / "serve.json").write_text(json.dumps({"pid": 1, "socket": str(left / "control")}))
    with controlled(tmp_path, answer_with("")):
        assert not left.exists()


def test_the_socket_and_what_names_it_are_its_users_alone(tmp_path: Path) -> None:
    with controlled(tmp_path, answer_with("")):
        path = Path(json.loads((tmp_path / "serve.json").read_text())["socket"])
        for each in (tmp_path / "serve.json", path, path.parent):
            assert each.stat().st_mode & 0o077 == 0
