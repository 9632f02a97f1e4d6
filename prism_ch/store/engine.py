"""Opens the embedded engine on a folder, and explains in one line why it could not."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error

from prism_ch.errors import StoreError, StoreLockedError
from prism_ch.store.deduplication import forget_unwritten_blocks

#: What the engine prints about a definition that it can't read.
_DEFINITION = re.compile(r"metadata file (\S+\.sql)")
_PRINTED_BYTES = 1 << 16
_opening = threading.Lock()
#: Folders that this process has opened; it may have closed some since.
_opened: set[Path] = set()


def open_folder(folder: Path) -> Client:
    """Open the engine's database in a folder, which is made if absent.

    The engine reads ./config.xml when its module is imported and when it starts, and a file of that name that other
    software left there would change or stop it; so both happen in an empty directory. Threads share the working
    directory: one at a time opens the engine, and none changes directory while the engine runs.
    Raises StoreLockedError if another process has the folder open, StoreError if it can't be used.
    """
    folder = folder.resolve()
    _make(folder)
    with _opening:
        if _is_ours(folder):
            return _connect(folder)
        _complete(folder)
        with tempfile.TemporaryDirectory(prefix="prism-ch-") as empty, contextlib.chdir(empty):
            return _connect(folder)


def _connect(folder: Path) -> Client:
    printed = ""
    try:
        with _printed() as read:
            try:
                from prism_ch.store.embedded import EmbeddedClient  # noqa: PLC0415 - starts the engine

                client: Client = EmbeddedClient(path=str(folder))
            finally:
                printed = read()
    except Error as error:
        # The engine raises without saying why; another process may have taken the lock just now.
        _is_ours(folder)
        other = next((other for other in _opened - {folder} if _lock_holder(other) == os.getpid()), None)
        if other:
            reason = (
                f"this process has {other} open, and the embedded engine opens one folder a process;"
                " close that one first"
            )
        else:
            cause = _cause(folder, printed) or str(error).splitlines()[0]
            reason = f"the embedded engine can't open this folder: {cause}"
        raise StoreError(reason, place=str(folder)) from error
    _opened.add(folder)
    return client


@contextmanager
def _printed() -> Iterator[Callable[[], str]]:
    """Yield a function that returns what has been printed to stderr since.

    The engine gives the reason why it does not start nowhere else. All but that is printed in the end.
    """
    sys.stderr.flush()
    original = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)

        def read() -> str:
            return os.pread(file.fileno(), _PRINTED_BYTES, 0).decode(errors="replace")

        try:
            yield read
        finally:
            os.dup2(original, 2)
            os.close(original)
            sys.stderr.write("" if _DEFINITION.search(read()) else read())


def _cause(folder: Path, printed: str) -> str:
    """Name the definition of a table that the engine can't read; empty for other causes."""
    found = _DEFINITION.search(printed)
    if not found:
        return ""
    path = folder / found[1]
    return (
        f"the definition in {path} is damaged; move that file out of the folder, then `prism-ch migrate` makes the"
        " table anew, and `prism-ch doctor` says how to bring its rows back"
    )


def _make(folder: Path) -> None:
    """Make the folder, as the engine reports a failure by a page of C++ frames."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = None if os.access(folder, os.R_OK | os.W_OK | os.X_OK) else "permission denied"
    except OSError as error:
        reason = error.strerror
    if reason:
        raise StoreError(
            f"can't be used as the database's folder: {reason}; give another with --url", place=str(folder)
        )


def _complete(folder: Path) -> None:
    """Let statements that a killed process left half done be repeated.

    The engine removes its file `status` when it ends by itself. A process that has taken the folder by now has done
    this, too.
    """
    status = folder / "status"
    if not status.exists():
        return
    try:
        with status.open(encoding="utf-8") as held:
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
            forget_unwritten_blocks(folder)
    except BlockingIOError:
        return
    except OSError as error:
        raise StoreError(f"{error.filename} can't be read: {error.strerror}", place=str(folder)) from error


def _is_ours(folder: Path) -> bool:
    """Check whether this process has a folder open; raise StoreLockedError if another one has."""
    holder = _lock_holder(folder)
    if holder in {None, os.getpid()}:
        return holder is not None
    who = f"process {holder}" if holder else "another process"
    raise StoreLockedError(
        f"{who} has this database open, and the embedded engine serves one process at a time;"
        " wait for it or stop it, or give another folder with --url",
        place=str(folder),
    )


def _lock_holder(folder: Path) -> int | None:
    """Return the id of the process that has the engine's lock on a folder.

    It is a BSD lock on the file `status`. Returns None if no process has it, 0 if the process left no id.
    """
    try:
        status = (folder / "status").open(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"can't be read: {error.strerror}", place=f"{folder}/status") from error
    with status:
        try:
            fcntl.flock(status, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = re.search(r"PID: (\d+)", status.read())
            return int(holder[1]) if holder else 0
    return None
