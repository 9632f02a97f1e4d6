"""Opens, lends and closes handles on the engine: for reading, for one request, for a session."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from prism_ch.serve.engine import Engine
from prism_ch.serve.memory import Memory
from prism_ch.serve.request import RequestError, SessionRequest
from prism_ch.store.handle import Handle, array_of
from prism_ch.store.statements import statement

_Key = tuple[str, tuple[tuple[str, str], ...]]
_IDLE_MAX = 64
_SESSIONS_MAX = 500
_EXPIRY_MARGIN_S = 0.1
#: A client has its answer a moment before its session is free again; its next request waits this long, in seconds.
_SESSION_WAIT_S = 1.0


@dataclass(slots=True)
class Session:
    """A handle that keeps its settings and temporary tables from one request to the next.

    `_overrides` are the settings of the last request, `_overridden` the session's own values of these, None for the
    default.
    """

    database: str = ""
    timeout_s: int = 60
    used_s: float = field(default_factory=time.monotonic)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    handle: Handle | None = None
    _overrides: dict[str, str] = field(default_factory=dict)
    _overridden: dict[str, str | None] = field(default_factory=dict)

    def prepared(self, folder: Path, database: str, settings: Mapping[str, str], *, named: bool) -> Handle:
        """Open the handle in a database, unless it is open, and set a request's settings.

        If the request has `named` the database, it becomes that of the session. Raises EngineError.
        """
        if self.handle is None:
            self.handle, self.database = Handle(folder, database, {}), database
        handle = self.handle
        if named and database != self.database:
            handle.use(database)
            self.database = database
        if settings == self._overrides:
            return handle
        own, self._overrides, self._overridden = self._overridden, {}, {}
        handle.set_default([name for name, value in own.items() if value is None])
        handle.set({name: value for name, value in own.items() if value is not None})
        if settings:
            known = handle.run(statement("session_settings"), "JSONEachRow", {"names": array_of(settings)})
            self._overridden = {row["name"]: row["own"] for row in map(json.loads, known.splitlines())}
            self._overrides = dict(settings)
            handle.set(settings)
        return handle

    def close(self) -> None:
        """Close the handle."""
        if self.handle is not None:
            self.handle.close()
            self.handle = None


class Handles:
    """Opens, lends and closes handles on one folder."""

    def __init__(self, folder: Path, engine: Engine, memory: Memory) -> None:
        self._folder = folder
        self._engine = engine
        self._memory = memory
        #: Reading does not change a handle, so it serves again for the same database and settings. Oldest first.
        self._idle: list[tuple[_Key, Handle]] = []
        #: By user and name, so that no user reaches the sessions of another.
        self._sessions: dict[tuple[str, str], Session] = {}

    @asynccontextmanager
    async def for_reading(self, database: str, settings: Mapping[str, str]) -> AsyncIterator[Handle]:
        """Lend a handle with exactly these settings to a statement that can't change them."""
        async with self._room(settings):
            key = (database, tuple(settings.items()))
            place = next((place for place in reversed(range(len(self._idle))) if self._idle[place][0] == key), None)
            handle = await self._open(database, settings) if place is None else self._idle.pop(place)[1]
            try:
                yield handle
            except BaseException:
                self._engine.run_later(handle.close)
                raise
            self._idle.append((key, handle))
        if len(self._idle) > _IDLE_MAX:
            self._engine.run_later(self._idle.pop(0)[1].close)

    @asynccontextmanager
    async def for_request(self, database: str, settings: Mapping[str, str]) -> AsyncIterator[Handle]:
        """Open a handle for one request."""
        handle = await self._open(database, settings)
        try:
            yield handle
        finally:
            self._engine.run_later(handle.close)

    @asynccontextmanager
    async def for_session(
        self, user: str, request: SessionRequest, database: str, settings: Mapping[str, str], *, named: bool
    ) -> AsyncIterator[Handle]:
        """Lend the handle of a session.

        Parameters: `named`, whether the request names the database, which then becomes that of the session.
        Raises RequestError if the session must exist and does not, or is used by another request.
        """
        async with self._room(settings):
            session = await self._acquire(user, request)
            try:
                yield await self._engine.run(lambda: session.prepared(self._folder, database, settings, named=named))
            finally:
                self._release(user, request, session)

    def close(self) -> None:
        """Close all idle handles and sessions."""
        for session in self._sessions.values():
            if not session.lock.locked():
                session.close()
        self._sessions.clear()
        for _, handle in self._idle:
            handle.close()
        self._idle.clear()

    def _room(self, settings: Mapping[str, str]) -> AbstractAsyncContextManager[None]:
        """Hold what a statement may use of memory, none where nothing bounds it."""
        most = settings.get("max_memory_usage", "")
        return self._memory.reserved(int(most) if most.isascii() and most.isdigit() else 0)

    async def _open(self, database: str, settings: Mapping[str, str]) -> Handle:
        return await self._engine.run(lambda: Handle(self._folder, database, settings))

    async def _acquire(self, user: str, request: SessionRequest) -> Session:
        """Lock a session, which is made if there is none. Raises RequestError."""
        session = self._sessions.get((user, request.name))
        if session is None:
            if request.must_exist:
                raise RequestError("SESSION_NOT_FOUND", f"Session {request.name} not found")
            if len(self._sessions) >= _SESSIONS_MAX:
                text = f"More than {_SESSIONS_MAX} sessions are open"
                raise RequestError("TOO_MANY_SIMULTANEOUS_QUERIES", text)
            session = self._sessions[user, request.name] = Session()
        try:
            async with asyncio.timeout(_SESSION_WAIT_S):
                await session.lock.acquire()
        except TimeoutError:
            text = f"Session {request.name} is locked by a concurrent client"
            raise RequestError("SESSION_IS_LOCKED", text) from None
        return session

    def _release(self, user: str, request: SessionRequest, session: Session) -> None:
        """Unlock a session after a request, and close it if that was its last one."""
        session.used_s = time.monotonic()
        session.timeout_s = request.timeout_s
        is_kept = self._sessions.get((user, request.name)) is session
        if is_kept and (request.closes or session.handle is None):
            del self._sessions[user, request.name]
            is_kept = False
        if is_kept:
            asyncio.get_running_loop().call_later(request.timeout_s + _EXPIRY_MARGIN_S, self._expire_sessions)
        else:  # it may also have been closed while this request waited for it
            session.close()
        session.lock.release()

    def _expire_sessions(self) -> None:
        now_s = time.monotonic()
        for key, session in list(self._sessions.items()):
            if not session.lock.locked() and now_s - session.used_s > session.timeout_s:
                del self._sessions[key]
                session.close()
