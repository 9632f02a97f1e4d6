"""Opens the embedded engine on a folder, with clear words for the ways in which that fails."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import tempfile
import threading
from pathlib import Path

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error

from prism_ch.errors import StoreError, StoreLockedError

_opening = threading.Lock()


def open_folder(folder: Path) -> Client:
    """Open the engine's database in a folder, which is made where absent.

    The engine reads ./config.xml when its module is imported and when it starts, and whatever software left that file
    there would steer or stop it; so both happen in an empty directory. Threads share the directory they work in: one at
    a time opens the engine, and none changes it where the engine runs already.

    Raises StoreLockedError where another process has the folder open, StoreError where it can't be used.
    """
    folder = folder.resolve()
    _make(folder)
    with _opening:
        return _connect(folder) if _is_ours(folder) else _start(folder)


def _start(folder: Path) -> Client:
    """Start the engine, in an empty directory."""
    with tempfile.TemporaryDirectory(prefix="prism-ch-") as empty, contextlib.chdir(empty):
        return _connect(folder)


def _connect(folder: Path) -> Client:
    """Open a handle on the engine, which starts with the first."""
    try:
        return clickhouse_connect.get_client(interface="chdb", path=str(folder))
    except Error as error:
        # The engine prints why to stderr and raises without a reason; the lock may have been taken just now.
        _is_ours(folder)
        other = re.search(r"already initialized with path '([^']*)'", str(error))
        if other:
            raise StoreError(
                f"{folder}: this process has {other[1]} open, and the embedded engine opens one folder a process;"
                " close that one first"
            ) from error
        raise StoreError(
            f"{folder}: the embedded engine can't open this folder: {str(error).splitlines()[0]}"
        ) from error


def _make(folder: Path) -> None:
    """Create the folder; the engine's own report of a failure is a page of C++ frames."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = None if os.access(folder, os.R_OK | os.W_OK | os.X_OK) else "permission denied"
    except OSError as error:
        reason = error.strerror
    if reason:
        raise StoreError(f"{folder}: can't be used as the database's folder: {reason}; give another with --url")


def _is_ours(folder: Path) -> bool:
    """Tell whether this process holds the engine's lock, a BSD lock on the file `status`; if none does, it is not.

    Raises StoreLockedError where another process holds it.
    """
    try:
        status = (folder / "status").open(encoding="utf-8")
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreError(f"{folder}/status: can't be read: {error.strerror}") from error
    with status:
        try:
            fcntl.flock(status, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = re.search(r"PID: (\d+)", status.read())
            if holder and int(holder[1]) == os.getpid():
                return True
            who = f"process {holder[1]}" if holder else "another process"
            raise StoreLockedError(
                f"{folder}: {who} has this database open, and the embedded engine serves one process at a time;"
                " wait for it or stop it, or give another folder with --url"
            ) from None
    return False
