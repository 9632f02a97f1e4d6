"""Keeps users from taking more than their share: statements at once, and requests a minute."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Lock

from prism_ch.serve.refusal import Refusal

_MINUTE_S = 60.0
_KEYS_MOST = 10_000


class Rate:
    """So many a minute for each key, as a bucket that fills steadily and holds a minute's worth."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._lock = Lock()
        #: What each key has taken and not yet been given back, and when that was so.
        self._taken: dict[str, tuple[float, float]] = {}

    def has_room(self, key: str) -> bool:
        """Tell whether a key may take one more."""
        with self._lock:
            return self._now_taken(key) + 1 <= self._per_minute

    def take(self, key: str) -> None:
        """Take one."""
        with self._lock:
            taken = self._now_taken(key) + 1
            if len(self._taken) >= _KEYS_MOST:
                self._forget()
            self._taken[key] = (taken, time.monotonic())

    def _now_taken(self, key: str) -> float:
        """Return what a key has taken, less what time has given back."""
        taken, at_s = self._taken.get(key, (0.0, 0.0))
        return max(0.0, taken - (time.monotonic() - at_s) * self._per_minute / _MINUTE_S)

    def _forget(self) -> None:
        """Forget whoever has got all back; where that is nobody, everyone."""
        self._taken = {key: state for key, state in self._taken.items() if self._now_taken(key) > 0}
        if len(self._taken) >= _KEYS_MOST:
            self._taken.clear()


class Places:
    """Places for statements at work: so many in all, so many for each user; whoever finds none waits for a while."""

    def __init__(self, at_once: int, per_user: int, queue_s: float) -> None:
        self._all = asyncio.Semaphore(at_once)
        self._per_user = per_user
        self._users: dict[str, asyncio.Semaphore] = {}
        self._queue_s = queue_s

    @asynccontextmanager
    async def place(self, user: str) -> AsyncIterator[None]:
        """Hold a place while a block runs; raises Refusal where none becomes free in time."""
        mine = self._users.setdefault(user, asyncio.Semaphore(self._per_user))
        await self._acquire(mine)
        try:
            await self._acquire(self._all)
            try:
                yield
            finally:
                self._all.release()
        finally:
            mine.release()

    async def _acquire(self, places: asyncio.Semaphore) -> None:
        """Wait for a place."""
        try:
            async with asyncio.timeout(self._queue_s):
                await places.acquire()
        except TimeoutError:
            raise Refusal(
                202,
                "TOO_MANY_SIMULTANEOUS_QUERIES",
                f"Too many simultaneous queries; none ended within {self._queue_s:.0f} s",
            ) from None
