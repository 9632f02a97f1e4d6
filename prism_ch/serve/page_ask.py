"""Asks the questions of pages as their reader: through the same permission as his own statements."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future
from threading import Lock
from typing import Any

from prism_ch.report.ask import FORMAT, Question, parsed
from prism_ch.serve.exchange import ClientGoneError
from prism_ch.serve.request import RequestError, SqlRequest, first_word
from prism_ch.serve.results import LONG
from prism_ch.serve.sql import SqlEndpoint
from prism_ch.serve.users import User
from prism_ch.store.handle import Statement, array_of
from prism_ch.store.statements import statement

#: A page that would hold more bytes of one answer is none that anybody reads.
_ANSWER_BYTES_MAX = 64 << 20
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0"})


class PageAsk:
    """Answers questions to a thread that makes a page, while the event loop runs; see prism_ch.report.ask.Ask.

    A page reads only, so that an operator's page asks as a reader.
    """

    def __init__(self, endpoint: SqlEndpoint, user: User, loop: asyncio.AbstractEventLoop) -> None:
        self._endpoint = endpoint
        self.user = User(user.name, "reader") if user.role == "operator" else user
        self._loop = loop
        self._lock = Lock()
        self._running: set[Future[bytes]] = set()
        self._is_abandoned = False

    def __call__(self, name: str, /, **parameters: Any) -> list[list[Any]]:
        """Return the rows. Raises ClientGoneError once nobody waits for the page."""
        return parsed(self.answer(name, parameters, FORMAT))

    def answer(self, name: str, parameters: Mapping[str, Any], result_format: str) -> bytes:
        """Return the result of a statement of sql/queries in a format. Raises ClientGoneError as a call does."""
        return self._wait(self._begin(statement(name), result_format, _as_text(parameters), {}))

    def together(self, questions: Sequence[Question]) -> list[list[list[Any]]]:
        """Return the rows of several statements, which run at once."""
        running = [self._begin(statement(name), FORMAT, _as_text(given), {}) for name, given in questions]
        return [parsed(self._wait(each)) for each in running]

    def run(self, text: str, result_format: str, parameters: Mapping[str, str], settings: Mapping[str, str]) -> bytes:
        """Run one statement and return its result in a format. Raises RequestError, EngineError, ClientGoneError."""
        return self._wait(self._begin(text, result_format, parameters, settings))

    def _begin(
        self, text: str, result_format: str, parameters: Mapping[str, str], settings: Mapping[str, str]
    ) -> Future[bytes]:
        with self._lock:
            if self._is_abandoned:
                raise ClientGoneError
            answer = self._answer(text, result_format, parameters, settings)
            running = asyncio.run_coroutine_threadsafe(answer, self._loop)
            self._running.add(running)
        return running

    def _wait(self, running: Future[bytes]) -> bytes:
        try:
            return running.result()
        except CancelledError:
            raise ClientGoneError from None
        finally:
            with self._lock:
                self._running.discard(running)

    def abandon(self) -> None:
        """Cancel what runs, and answer nothing any more."""
        with self._lock:
            self._is_abandoned = True
            for running in self._running:
                running.cancel()

    async def _answer(
        self, text: str, result_format: str, parameters: Mapping[str, str], settings: Mapping[str, str]
    ) -> bytes:
        permitted, permitted_settings = await self.permit(text, result_format, parameters, settings)
        endpoint = self._endpoint
        async with endpoint.handles.for_reading(endpoint.database, permitted_settings) as handle:
            if first_word(permitted.text) not in LONG:
                whole = f"{permitted.text}\n{permitted.settings}"
                return await endpoint.engine.run(lambda: handle.run(whole, permitted.format, permitted.parameters))
            async with endpoint.engine.result(handle, permitted) as result:
                data = bytearray()
                while piece := await result.piece():
                    data += piece
                    if len(data) > _ANSWER_BYTES_MAX:
                        raise RequestError("QUOTA_EXCEEDED", "The answer is too large for a page; ask for less")
                await result.cost()
        return bytes(data)

    async def permit(
        self, text: str, result_format: str, parameters: Mapping[str, str], settings: Mapping[str, str]
    ) -> tuple[Statement, Mapping[str, str]]:
        """Return a statement as its reader may run it, and its settings. Raises RequestError."""
        request = SqlRequest("", "", result_format, "", None, parameters, settings, False, False, 0)  # noqa: FBT003 - fields of a request
        permitted = await self._endpoint.gate.permit(text, request, self.user, self._endpoint.engine)
        return permitted.statement, permitted.settings


def _as_text(given: Mapping[str, Any]) -> dict[str, str]:
    """Write the values of parameters as the engine reads them."""
    return {
        name: array_of(value) if isinstance(value, list) else str(value).translate(_ESCAPES)
        for name, value in given.items()
    }
