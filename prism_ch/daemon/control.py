"""Runs commands for other processes in this one, which holds the embedded database.

The file serve.json in the database's folder holds the number of this process and the path of a socket that only its
user may open. A request is one JSON line, sent along with the client's three standard streams. The command reads and
writes those itself; the answer is one JSON line with its exit status.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
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

_ADDRESS_FILE = "serve.json"
_REQUEST_BYTES_MAX = 1 << 20
_COMMANDS_MAX = 8
#: The credentials of a peer: process, user, group.
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class Request:
    """A client's command: its arguments, the database's name, and the working directory."""

    arguments: list[str]
    database: str
    directory: str


@dataclass(frozen=True, slots=True)
class Streams:
    """The standard streams of a client; `has_left` returns whether it has closed the connection."""

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    has_left: Callable[[], bool]


#: Runs a command on a client's streams, and returns its exit status.
RunCommand = Callable[[Request, Streams], int]


class Control:
    """Accepts requests while it is open, and runs each in a thread."""

    def __init__(self, listener: socket.socket, run: RunCommand) -> None:
        self._listener = listener
        self._run = run
        self._slots = BoundedSemaphore(_COMMANDS_MAX)
        self._active: set[socket.socket] = set()

    @property
    def busy(self) -> bool:
        """Whether a command is running."""
        return bool(self._active)

    def accept_all(self) -> None:
        """Accept requests until the listener is closed."""
        while True:
            self._slots.acquire()
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            Thread(target=self._serve, args=(connection,), name="command", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        self._active.add(connection)
        try:
            with connection, ExitStack() as stack:
                if _peer_user(connection) not in {os.geteuid(), 0}:
                    return
                request, streams = _receive(connection, stack)
                log.info("command begun arguments=%r", request.arguments[:1])
                status = self._run(request, streams)
                for stream in (streams.stdout, streams.stderr):
                    with contextlib.suppress(OSError):  # nobody reads it any more
                        stream.flush()
                connection.sendall(json.dumps({"status": status}).encode() + b"\n")
        except (OSError, ValueError, TypeError, KeyError) as error:
            log.warning("command not answered error=%r", error)
        finally:
            self._active.discard(connection)
            self._slots.release()


@contextmanager
def controlled(folder: Path, run: RunCommand) -> Iterator[Control]:
    """Accept requests for the database in a folder while a block runs."""
    base = os.environ.get("RUNTIME_DIRECTORY") or os.environ.get("XDG_RUNTIME_DIR")
    address_file = folder / _ADDRESS_FILE
    with tempfile.TemporaryDirectory(prefix="prism-ch-", dir=base) as private:
        path = Path(private) / "control"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            path.chmod(0o600)
            listener.listen()
            control = Control(listener, run)
            Thread(target=control.accept_all, name="control", daemon=True).start()
            _remove_dead_socket(address_file)
            _write_address(address_file, path)
            try:
                yield control
            finally:
                address_file.unlink(missing_ok=True)
                with contextlib.suppress(OSError):
                    listener.shutdown(socket.SHUT_RDWR)


def call(folder: Path, request: Request, streams: Sequence[int]) -> int | None:
    """Have the service on a folder run a command on our streams.

    Returns the exit status, or None if there is no such service of ours. Raises ConnectionError if the service ends
    before the command does.
    """
    try:
        with (folder / _ADDRESS_FILE).open(encoding="utf-8") as file:
            owner = os.fstat(file.fileno()).st_uid
            path = str(json.load(file)["socket"])
    except (OSError, ValueError, KeyError):
        return None
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(path)
        except OSError:
            return None
        # The service gets hold of our streams: its user must own the database, and be ours unless we are root.
        if _peer_user(connection) != owner or os.geteuid() not in {owner, 0}:
            return None
        answer = ""
        with contextlib.suppress(ConnectionError), connection.makefile(encoding="utf-8") as answers:
            socket.send_fds(connection, [json.dumps(asdict(request)).encode() + b"\n"], list(streams))
            answer = answers.readline()
    if not answer:
        raise ConnectionError("the service ended before the command did")
    return int(json.loads(answer)["status"])


def _remove_dead_socket(address_file: Path) -> None:
    with contextlib.suppress(OSError, ValueError, KeyError):
        path = Path(json.loads(address_file.read_text(encoding="utf-8"))["socket"])
        if path.is_socket():
            path.unlink()
            path.parent.rmdir()


def _write_address(address_file: Path, path: Path) -> None:
    part = address_file.with_name(f"{address_file.name}.part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump({"pid": os.getpid(), "socket": str(path)}, file)
    part.rename(address_file)


def _peer_user(connection: socket.socket) -> int:
    _, user, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(user)


def _receive(connection: socket.socket, stack: ExitStack) -> tuple[Request, Streams]:
    """Read a request and open its streams; raises ValueError if it is none."""
    text, descriptors, _, _ = socket.recv_fds(connection, _REQUEST_BYTES_MAX, 3)
    for descriptor in descriptors:
        stack.callback(os.close, descriptor)
    while text and not text.endswith(b"\n") and len(text) < _REQUEST_BYTES_MAX:
        more = connection.recv(_REQUEST_BYTES_MAX)
        if not more:
            break
        text += more
    if len(descriptors) != 3:
        raise ValueError("a request comes with three streams")
    fields: dict[str, Any] = json.loads(text)
    request = Request([str(each) for each in fields["arguments"]], str(fields["database"]), str(fields["directory"]))
    stdin, stdout, stderr = (
        cast("TextIO", os.fdopen(descriptor, mode, encoding="utf-8", errors="replace", closefd=False))
        for descriptor, mode in zip(descriptors, ("r", "w", "w"), strict=True)
    )
    stack.callback(_discard, stdin, stdout, stderr)
    return request, Streams(stdin, stdout, stderr, partial(_has_left, connection))


def _has_left(connection: socket.socket) -> bool:
    """Return whether the other end is closed; a client sends nothing after its request."""
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _discard(*streams: TextIO) -> None:
    """Close streams but not their descriptors, and discard what nobody read.

    Without this, closing would write it to whichever file has the same number next.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for stream in streams:
        os.dup2(null, stream.fileno())
        stream.close()
    os.close(null)
