"""Has the engine work in threads, and cancels what nobody waits for any more."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import termios
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from prism_ch.store.handle import Handle, Statement, Work

#: What a pipe holds, and what is taken from it at once.
PIPE_BYTES = 1 << 20
_CANCEL_AGAIN_S = 0.2
#: Whoever reads a pipe while it is written waits for its lock, and wakes up for every block. Most results are short and
#: soon there: for so long it is let alone, looked at so often, unless it is half full.
_UNDISTURBED_S, _LOOKS = 0.02, 4

_Result = TypeVar("_Result")


class Engine:
    """The engine, as the event loop sees it; `open_control` opens a handle that may cancel others' statements."""

    def __init__(self, threads: int, open_control: Callable[[], Handle]) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="sql")
        self._controls = ThreadPoolExecutor(1, thread_name_prefix="sql-control")
        self._open_control = open_control
        #: Of the statements at work.
        self.marks: set[str] = set()

    async def do(self, work: Callable[[], _Result]) -> _Result:
        """Do something that may take a while; once begun it is waited for, also by one who is cancelled."""
        future = asyncio.get_running_loop().run_in_executor(self._threads, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            raise

    def later(self, work: Callable[[], object]) -> None:
        """Do something that nobody waits for."""
        self._controls.submit(work)

    @asynccontextmanager
    async def result(self, handle: Handle, statement: Statement) -> AsyncIterator[Result]:
        """Run a statement while a block takes its result; whatever it leaves is cancelled."""
        read, write = os.pipe()
        os.set_blocking(read, False)
        with contextlib.suppress(OSError):  # beyond what this user may have in pipes; then they are short
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

        def run() -> Work:
            try:
                return handle.write(statement, write)
            finally:
                os.close(write)

        self.marks.add(statement.mark)
        future = asyncio.get_running_loop().run_in_executor(self._threads, run)
        try:
            yield Result(read, future)
        finally:
            os.close(read)
            await self._end(future, statement.mark)
            self.marks.discard(statement.mark)

    def close(self) -> None:
        """Cancel whatever is at work."""
        for mark in list(self.marks):
            self._cancel(mark)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._controls.shutdown(wait=False, cancel_futures=True)

    async def _end(self, future: asyncio.Future[Work], mark: str) -> None:
        """Cancel a statement until it has ended; it may not even have begun when it is cancelled first."""
        while not future.done():
            await asyncio.get_running_loop().run_in_executor(self._controls, self._cancel, mark)
            await asyncio.wait([future], timeout=_CANCEL_AGAIN_S)
        future.exception()  # whoever wanted to know has asked

    def _cancel(self, mark: str) -> None:
        """Tell the engine to end the statement of a mark."""
        control = self._open_control()
        try:
            control.cancel(mark)
        finally:
            control.close()


class Result:
    """A result on its way through a pipe."""

    def __init__(self, descriptor: int, future: asyncio.Future[Work]) -> None:
        self._descriptor = descriptor
        self._future = future

    async def beginning(self) -> tuple[bytes, bool]:
        """Take what fits into one piece, and tell whether it is all."""
        for _ in range(_LOOKS):
            await asyncio.wait([self._future], timeout=_UNDISTURBED_S / _LOOKS)
            if self._future.done() or _waiting_bytes(self._descriptor) > PIPE_BYTES // 2:
                break
        pieces: list[bytes] = []
        size = 0
        while size < PIPE_BYTES:
            piece = await self.piece()
            if not piece:
                return b"".join(pieces), True
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces), False

    async def piece(self) -> bytes:
        """Take the next piece; empty at the end."""
        while True:
            try:
                # Room for a whole pipe each time would cost more than the reading itself.
                return os.read(self._descriptor, _waiting_bytes(self._descriptor) or 1)
            except BlockingIOError:
                await _readable(self._descriptor)

    async def work(self) -> Work:
        """Wait for the statement's end and return what it took; raises EngineError where it failed."""
        return await asyncio.shield(self._future)


def _waiting_bytes(descriptor: int) -> int:
    """Return how much a pipe holds."""
    (size,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))
    return int(size)


async def _readable(descriptor: int) -> None:
    """Wait until a pipe holds something, or nobody writes into it any more."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, _tell, ready)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


def _tell(ready: asyncio.Future[None]) -> None:
    """Tell whoever waits, once."""
    if not ready.done():
        ready.set_result(None)
