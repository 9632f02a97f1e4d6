"""Handles for requests: those for reading are used again by whoever needs the same, others serve one or a session."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from prism_ch.serve.request import SessionAsked
from prism_ch.serve.sessions import Session, Sessions
from prism_ch.serve.work import Engine
from prism_ch.store.handle import Handle

_Key = tuple[str, tuple[tuple[str, str], ...]]
_IDLE_MOST = 64


class Handles:
    """Opens, lends and closes handles on one folder."""

    def __init__(self, folder: Path, engine: Engine) -> None:
        self._folder = folder
        self._engine = engine
        #: Reading changes nothing about a handle, so one that was opened for the same is as good as a new one.
        self._idle: OrderedDict[_Key, list[Handle]] = OrderedDict()
        self._idle_count = 0
        self.sessions = Sessions()

    @asynccontextmanager
    async def for_reading(self, database: str, settings: Mapping[str, str]) -> AsyncIterator[Handle]:
        """Lend a handle with exactly these settings, for a statement that can change none of them."""
        key = (database, tuple(settings.items()))
        idle = self._idle.get(key)
        if idle:
            handle = idle.pop()
            self._idle_count -= 1
        else:
            handle = await self._open(database, settings)
        try:
            yield handle
        except BaseException:
            self._engine.later(handle.close)
            raise
        self._idle.setdefault(key, []).append(handle)
        self._idle.move_to_end(key)
        self._idle_count += 1
        self._shrink()

    @asynccontextmanager
    async def for_one(self, database: str, settings: Mapping[str, str]) -> AsyncIterator[Handle]:
        """Open a handle for one request."""
        handle = await self._open(database, settings)
        try:
            yield handle
        finally:
            self._engine.later(handle.close)

    @asynccontextmanager
    async def for_session(
        self, user: str, asked: SessionAsked, database: str, settings: Mapping[str, str], *, named: bool
    ) -> AsyncIterator[Session]:
        """Lend the handle of a session; `named` tells whether the request names the database, which then holds on.

        Raises Refusal where it must exist and doesn't, or is at work.
        """
        session = await self.sessions.take(user, asked)
        try:
            await self._engine.do(lambda: session.open(self._folder, database))
            await self._engine.do(lambda: session.prepare(database if named else "", settings))
            yield session
        finally:
            self.sessions.release(user, asked, session)

    def close(self) -> None:
        """Close what is idle, and all sessions."""
        self.sessions.close()
        for handles in self._idle.values():
            for handle in handles:
                handle.close()
        self._idle.clear()

    async def _open(self, database: str, settings: Mapping[str, str]) -> Handle:
        """Open a handle."""
        return await self._engine.do(lambda: Handle(self._folder, database, settings))

    def _shrink(self) -> None:
        """Close the handles that were not needed for the longest time."""
        while self._idle_count > _IDLE_MOST:
            key, handles = next(iter(self._idle.items()))
            if handles:
                self._engine.later(handles.pop().close)
                self._idle_count -= 1
            if not handles:
                del self._idle[key]
