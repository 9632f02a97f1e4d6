"""Runs the engine's statements in threads, and cancels those that nobody waits for."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import termios
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from prism_ch.serve.request import RequestError
from prism_ch.store.handle import Handle, QueryCost, Statement

#: The capacity of a pipe, in bytes, and what is read from it at once.
PIPE_BYTES = 1 << 20
_CANCEL_EVERY_S = 0.2
#: A reader that empties a pipe while it is written slows the writer down by waking up for every block. Most results are
#: short, so the pipe is left alone for this long, in seconds, over this number of waits, unless it is half full.
_FIRST_WAIT_S, _WAITS = 0.02, 4

_Result = TypeVar("_Result")


class Engine:
    """The engine as the event loop sees it.

    Parameters: `threads` for statements; `open_control` opens a handle that can cancel the statements of others.
    """

    def __init__(self, threads: int, open_control: Callable[[], Handle]) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="sql")
        self._controls = ThreadPoolExecutor(1, thread_name_prefix="sql-control")
        self._open_control = open_control
        #: The marks of the running statements.
        self.marks: set[str] = set()

    async def run(self, function: Callable[[], _Result]) -> _Result:
        """Run a function in a thread. A caller that is cancelled still waits for its end."""
        future = asyncio.get_running_loop().run_in_executor(self._threads, function)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            raise

    def run_later(self, function: Callable[[], object]) -> None:
        """Run a function that nobody waits for."""
        self._controls.submit(function)

    @asynccontextmanager
    async def result(self, handle: Handle, statement: Statement) -> AsyncIterator[Result]:
        """Run a statement while a block reads its result. It is cancelled after the block."""
        read, write = os.pipe()
        os.set_blocking(read, False)
        with contextlib.suppress(OSError):  # this user may have no more memory in pipes; then they are smaller
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

        def run() -> QueryCost:
            try:
                return handle.write(statement, write)
            finally:
                os.close(write)

        self.marks.add(statement.mark)
        future = asyncio.get_running_loop().run_in_executor(self._threads, run)
        future.add_done_callback(_retrieve)
        try:
            yield Result(read, future)
        finally:
            os.close(read)
            await self._ended(statement, future)

    async def whole_result(self, handle: Handle, statement: Statement) -> tuple[bytes, QueryCost]:
        """Run a statement and return its result, which must be small, and cost. It is cancelled with its caller."""
        text = f"{statement.text}\n/* {statement.mark} */ {statement.settings}"
        self.marks.add(statement.mark)
        future = asyncio.get_running_loop().run_in_executor(
            self._threads, handle.answer, text, statement.format, statement.parameters
        )
        future.add_done_callback(_retrieve)
        try:
            return await asyncio.shield(future)
        finally:
            await self._ended(statement, future)

    def close(self) -> None:
        """Cancel all running statements."""
        for mark in list(self.marks):
            self._cancel(mark)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._controls.shutdown(wait=False, cancel_futures=True)

    async def _ended(self, statement: Statement, future: asyncio.Future[_Result]) -> None:
        """Cancel a statement, unless it has ended, and wait for its end."""
        while not future.done():  # the statement may not have begun when it is cancelled for the first time
            await asyncio.get_running_loop().run_in_executor(self._controls, self._cancel, statement.mark)
            await asyncio.wait([future], timeout=_CANCEL_EVERY_S)
        self.marks.discard(statement.mark)

    def _cancel(self, mark: str) -> None:
        with contextlib.closing(self._open_control()) as control:
            control.cancel(mark)


class Result:
    """The result of a running statement, read from a pipe."""

    def __init__(self, descriptor: int, future: asyncio.Future[QueryCost]) -> None:
        self._descriptor = descriptor
        self._future = future

    async def beginning(self, is_enough: Callable[[bytes], bool] | None = None) -> tuple[bytes, bool]:
        """Read up to one pipe's capacity; return it and whether it is all.

        Parameters: `is_enough`, whether what has been read of a statement that goes on can be sent already.
        """
        for _ in range(_WAITS):
            await asyncio.wait([self._future], timeout=_FIRST_WAIT_S / _WAITS)
            if self._future.done() or _pending_bytes(self._descriptor) > PIPE_BYTES // 2:
                break
        data = bytearray()
        while len(data) < PIPE_BYTES:
            piece = await self.piece()
            if not piece:
                return bytes(data), True
            data += piece
            if is_enough is not None and not self._future.done() and is_enough(bytes(data)):
                break
        return bytes(data), False

    async def piece(self) -> bytes:
        """Read the next piece; empty at the end."""
        while True:
            try:
                # A buffer of a whole pipe's capacity would cost more than the reading.
                return os.read(self._descriptor, _pending_bytes(self._descriptor) or 1)
            except BlockingIOError:
                await _readable(self._descriptor)

    async def cost(self) -> QueryCost:
        """Wait for the end and return the cost. Raises EngineError if the statement failed."""
        return await asyncio.shield(self._future)


class Slots:
    """Limits how many statements run at once, in all and for each user.

    Parameters: `queue_s`, how long others wait for a slot, in seconds.
    """

    def __init__(self, at_once: int, per_user: int, queue_s: float) -> None:
        self._all = asyncio.Semaphore(at_once)
        self._per_user = per_user
        self._users: dict[str, asyncio.Semaphore] = {}
        self._queue_s = queue_s

    @asynccontextmanager
    async def slot(self, user: str) -> AsyncIterator[None]:
        """Hold a slot while a block runs; raises RequestError if none becomes free in time."""
        own = self._users.setdefault(user, asyncio.Semaphore(self._per_user))
        async with self._acquired(own), self._acquired(self._all):
            yield

    @asynccontextmanager
    async def _acquired(self, semaphore: asyncio.Semaphore) -> AsyncIterator[None]:
        await in_turn(semaphore.acquire(), self._queue_s, "none ended")
        try:
            yield
        finally:
            semaphore.release()


async def in_turn(turn: Awaitable[object], queue_s: float, what: str) -> None:
    """Wait for a turn, for at most `queue_s` seconds.

    Raises RequestError, with `what` did not happen, if it does not come in time.
    """
    try:
        async with asyncio.timeout(queue_s):
            await turn
    except TimeoutError:
        text = f"Too many simultaneous queries; {what} within {queue_s:.0f} s"
        raise RequestError("TOO_MANY_SIMULTANEOUS_QUERIES", text) from None


def _retrieve(future: asyncio.Future[_Result]) -> None:
    """Mark a failure as read: where the service stops nobody reads it."""
    if not future.cancelled():
        future.exception()


def _pending_bytes(descriptor: int) -> int:
    (size,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))
    return int(size)


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
