"""Lets Ctrl-C stop the program also while the embedded engine works.

Python acts on a signal only between two of its own instructions, and a long query is a single one. A thread notices
the signal meanwhile, and ends the process if that has not happened by itself. The database survives that, as it
survives a kill.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: How long Python has to act on the signal by itself, in seconds.
GRACE_S = 1.0


@contextmanager
def interruptible(leave: Callable[[], None]) -> Iterator[None]:
    """While a block runs in the main thread, call `leave`, which ends the process, if SIGINT doesn't end it soon."""
    ours, pythons = socket.socketpair()
    pythons.setblocking(False)  # noqa: FBT003 - the only way to say it
    ended = threading.Event()

    def watch() -> None:
        while signals := ours.recv(64):
            if signal.SIGINT in signals and not ended.wait(GRACE_S):
                leave()

    watcher = threading.Thread(target=watch, name="interrupt", daemon=True)
    previous = signal.set_wakeup_fd(pythons.fileno(), warn_on_full_buffer=False)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        signal.set_wakeup_fd(previous)
        pythons.close()
        watcher.join()
        ours.close()
