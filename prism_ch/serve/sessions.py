"""Sessions of operators: a handle that keeps its settings and temporary tables from one request to the next."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from prism_ch.serve.refusal import Refusal
from prism_ch.serve.request import SessionAsked
from prism_ch.store.handle import Handle, quoted

_SESSIONS_MOST = 500
_LATER_S = 0.1
#: A client has its answer a moment before its session is free again; so long its next request waits.
_PATIENCE_S = 1.0


@dataclass(slots=True)
class Session:
    """A handle, and the settings that the last request put over the session's own."""

    database: str = ""
    timeout_s: int = 60
    used_s: float = field(default_factory=time.monotonic)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _handle: Handle | None = None
    _over: dict[str, str] = field(default_factory=dict)
    _under: dict[str, str | None] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Tell whether it has a handle."""
        return self._handle is not None

    @property
    def handle(self) -> Handle:
        """The handle; whoever has taken the session has opened it."""
        if self._handle is None:
            raise ValueError("the session is not open")
        return self._handle

    def open(self, folder: Path, database: str) -> None:
        """Open a handle, unless there is one; raises EngineError."""
        if self._handle is None:
            self._handle = Handle(folder, database, {})
            self.database = database

    def close(self) -> None:
        """Give the handle back."""
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def prepare(self, database: str, settings: Mapping[str, str]) -> None:
        """Let settings, and a database if it is named, hold for the statements of one request.

        What they cover comes back with a request that has other ones.
        """
        if database and database != self.database:
            self.handle.use(database)
            self.database = database
        if settings == self._over:
            return
        self.take_off()
        names = ", ".join(map(quoted, settings))
        if names:
            known = self.handle.run(
                f"SELECT name, changed ? value : NULL AS own FROM system.settings WHERE name IN ({names})",  # noqa: S608 - quoted
                "JSONEachRow",
            )
            rows = map(json.loads, known.splitlines())
            self._under = {row["name"]: row["own"] for row in rows}
            self._over = dict(settings)
            self.handle.set(settings)

    def take_off(self) -> None:
        """Let the session's own settings hold again."""
        under, self._over, self._under = self._under, {}, {}
        self.handle.set_default([name for name, value in under.items() if value is None])
        self.handle.set({name: value for name, value in under.items() if value is not None})


class Sessions:
    """Sessions by user and name: nobody reaches another user's by knowing its name."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], Session] = {}

    async def take(self, user: str, asked: SessionAsked) -> Session:
        """Take a session, also one that does not exist yet: whoever takes that opens it.

        Raises Refusal where it must exist, or is at work on another request.
        """
        session = self._sessions.get((user, asked.name))
        if session is None:
            if asked.must_exist:
                raise Refusal(372, "SESSION_NOT_FOUND", f"Session {asked.name} not found")
            if len(self._sessions) >= _SESSIONS_MOST:
                raise Refusal(202, "TOO_MANY_SIMULTANEOUS_QUERIES", f"More than {_SESSIONS_MOST} sessions are open")
            session = self._sessions[user, asked.name] = Session()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await session.turn.acquire()
        except TimeoutError:
            text = f"Session {asked.name} is locked by a concurrent client"
            raise Refusal(373, "SESSION_IS_LOCKED", text) from None
        return session

    def release(self, user: str, asked: SessionAsked, session: Session) -> None:
        """Give a session back after a request; one that is to be closed is closed."""
        session.used_s = time.monotonic()
        session.timeout_s = asked.timeout_s
        is_kept = self._sessions.get((user, asked.name)) is session
        if is_kept and (asked.closes or not session.is_open):
            del self._sessions[user, asked.name]
            is_kept = False
        if not is_kept:  # also one that was closed while this request waited for it
            session.close()
        else:
            asyncio.get_running_loop().call_later(asked.timeout_s + _LATER_S, self.expire)
        session.turn.release()

    def expire(self) -> None:
        """Close the sessions that nobody has used for their time."""
        now_s = time.monotonic()
        for key, session in list(self._sessions.items()):
            if not session.turn.locked() and now_s - session.used_s > session.timeout_s:
                del self._sessions[key]
                session.close()

    def close(self) -> None:
        """Close all."""
        for session in self._sessions.values():
            if not session.turn.locked():
                session.close()
        self._sessions.clear()
