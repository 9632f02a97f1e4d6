"""Lets other processes of the same user have commands run in this one, which holds the embedded database.

Beside the database stands serve.json: the number of this process and the path of a socket that only its user may open.
A request is one JSON line, sent along with the three standard streams of whoever asks; the command reads and writes
those themselves, and the answer is one JSON line with its exit status.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import stat
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from threading import BoundedSemaphore, Thread
from typing import Any, TextIO, cast

log = logging.getLogger(__name__)

_NOTE = "serve.json"
_REQUEST_BYTES = 1 << 20
_AT_ONCE = 8
_PEER = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class Request:
    """A command: its arguments, the database's name in the folder, and the directory that relative paths start from."""

    arguments: list[str]
    database: str
    directory: str


@dataclass(frozen=True, slots=True)
class Streams:
    """The standard streams of whoever asks; `has_left` tells whether that one waits no longer."""

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    has_left: Callable[[], bool]


#: Runs a command on somebody's streams, and returns its exit status.
RunCommand = Callable[[Request, Streams], int]


class Control:
    """Takes requests while it is open; `busy` tells whether a command is at work."""

    def __init__(self, listener: socket.socket, run: RunCommand) -> None:
        self._listener = listener
        self._run = run
        self._free = BoundedSemaphore(_AT_ONCE)
        self._at_work: set[socket.socket] = set()

    @property
    def busy(self) -> bool:
        """Tell whether a command is at work."""
        return bool(self._at_work)

    def accept_all(self) -> None:
        """Take requests until the listener is closed, each in a thread of its own."""
        while True:
            self._free.acquire()
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            Thread(target=self._answer, args=(connection,), name="command", daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        """Run what one connection asks for."""
        self._at_work.add(connection)
        try:
            with connection, ExitStack() as opened:
                if _peer(connection) not in {os.geteuid(), 0}:
                    return
                request, streams = _receive(connection, opened)
                log.info("command begun arguments=%r", request.arguments[:1])
                status = self._run(request, streams)
                _flush(streams.stdout, streams.stderr)
                connection.sendall(json.dumps({"status": status}).encode() + b"\n")
        except (OSError, ValueError, TypeError, KeyError) as error:
            log.warning("command not answered error=%r", error)
        finally:
            self._at_work.discard(connection)
            self._free.release()


@contextmanager
def controlled(folder: Path, run: RunCommand) -> Iterator[Control]:
    """Take requests for the database in a folder, while a block runs."""
    base = os.environ.get("RUNTIME_DIRECTORY") or os.environ.get("XDG_RUNTIME_DIR")
    with tempfile.TemporaryDirectory(prefix="prism-ch-", dir=base) as private:
        path = Path(private) / "control"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            path.chmod(stat.S_IRUSR | stat.S_IWUSR)
            listener.listen()
            control = Control(listener, run)
            Thread(target=control.accept_all, name="control", daemon=True).start()
            _clear(folder / _NOTE)
            _announce(folder / _NOTE, path)
            try:
                yield control
            finally:
                (folder / _NOTE).unlink(missing_ok=True)
                with contextlib.suppress(OSError):
                    listener.shutdown(socket.SHUT_RDWR)


def call(folder: Path, request: Request, streams: Sequence[int]) -> int | None:
    """Have the process that serves a folder run a command on our streams; return its exit status.

    None where no process of ours does. Raises ConnectionError where it ends before the command does.
    """
    try:
        with (folder / _NOTE).open(encoding="utf-8") as note:
            owner = os.fstat(note.fileno()).st_uid
            path = str(json.load(note)["socket"])
    except (OSError, ValueError, KeyError):
        return None
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(path)
        except OSError:
            return None
        # Whoever answers gets hold of our streams: it must be the one who owns the database, and one of us or root.
        if _peer(connection) != owner or os.geteuid() not in {owner, 0}:
            return None
        answer = ""
        with contextlib.suppress(ConnectionResetError), connection.makefile(encoding="utf-8") as answers:
            socket.send_fds(connection, [json.dumps(asdict(request)).encode() + b"\n"], list(streams))
            answer = answers.readline()
    if not answer:
        raise ConnectionError("the service ended before the command did")
    return int(json.loads(answer)["status"])


def _clear(note: Path) -> None:
    """Remove the socket of a service that was killed; nobody takes requests there any more."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        path = Path(json.loads(note.read_text(encoding="utf-8"))["socket"])
        if path.is_socket():
            path.unlink()
            path.parent.rmdir()


def _announce(note: Path, path: Path) -> None:
    """Say beside the database where requests are taken."""
    part = note.with_name(f"{note.name}.part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump({"pid": os.getpid(), "socket": str(path)}, file)
    part.rename(note)


def _peer(connection: socket.socket) -> int:
    """Return the user at the other end."""
    _, user, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return int(user)


def _receive(connection: socket.socket, opened: ExitStack) -> tuple[Request, Streams]:
    """Read a request, and open the streams that came with it; raises ValueError where it is none."""
    text, numbers, _, _ = socket.recv_fds(connection, _REQUEST_BYTES, 3)
    for number in numbers:
        opened.callback(os.close, number)
    while text and not text.endswith(b"\n") and len(text) < _REQUEST_BYTES:
        more = connection.recv(_REQUEST_BYTES)
        if not more:
            break
        text += more
    if len(numbers) != 3:
        raise ValueError("a request comes with three streams")
    told: dict[str, Any] = json.loads(text)
    request = Request([str(each) for each in told["arguments"]], str(told["database"]), str(told["directory"]))
    stdin, stdout, stderr = (
        cast("TextIO", os.fdopen(number, mode, encoding="utf-8", errors="replace", closefd=False))
        for number, mode in zip(numbers, ("r", "w", "w"), strict=True)
    )
    opened.callback(_let_go, stdin, stdout, stderr)
    return request, Streams(stdin, stdout, stderr, partial(_has_left, connection))


def _has_left(connection: socket.socket) -> bool:
    """Tell whether the other end is closed; it sends nothing behind its request."""
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _flush(*streams: TextIO) -> None:
    """Write what is still held, where anybody reads it."""
    for stream in streams:
        with contextlib.suppress(OSError):
            stream.flush()


def _let_go(*streams: TextIO) -> None:
    """Close streams, but not their files; what nobody read goes nowhere, and not into the next file of that number."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in streams:
        os.dup2(nowhere, stream.fileno())
        stream.close()
    os.close(nowhere)
