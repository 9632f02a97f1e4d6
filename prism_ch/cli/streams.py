"""Standard streams that differ from thread to thread, so that a service can run commands for several people at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TextIO, cast

_NAMES = ("stdin", "stdout", "stderr")


class ThreadStream:
    """Stands for one of the process's standard streams, and in a thread for which another was named, for that one."""

    def __init__(self, own: TextIO) -> None:
        self._own = own
        self._named = threading.local()

    @property
    def here(self) -> TextIO:
        """The stream of this thread."""
        named: TextIO = getattr(self._named, "stream", self._own)
        return named

    @contextmanager
    def named(self, stream: TextIO) -> Iterator[None]:
        """Stand for another stream in this thread, while a block runs."""
        self._named.stream = stream
        try:
            yield
        finally:
            del self._named.stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.here, name)


def stream_here(stream: TextIO) -> TextIO:
    """Return what a standard stream is in this thread, for use in others that this one starts."""
    return stream.here if isinstance(stream, ThreadStream) else stream


@contextmanager
def streams_by_thread() -> Iterator[None]:
    """Let standard streams differ from thread to thread, while a block runs."""
    own = {name: getattr(sys, name) for name in _NAMES}
    for name, stream in own.items():
        setattr(sys, name, cast("TextIO", ThreadStream(stream)))
    try:
        yield
    finally:
        for name, stream in own.items():
            setattr(sys, name, stream)


@contextmanager
def streams_named(*streams: TextIO) -> Iterator[None]:
    """Have this thread read and write other standard streams (input, output, errors), while a block runs."""
    with ExitStack() as named:
        for name, stream in zip(_NAMES, streams, strict=True):
            named.enter_context(getattr(sys, name).named(stream))
        yield
