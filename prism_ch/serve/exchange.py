"""One request and its response, piece by piece: a client that stalls or leaves is noticed and holds nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import TypeVar

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from prism_ch.serve.compression import Compressor, Decompressor, chosen_coding, compressor
from prism_ch.serve.refusal import Refusal

_Result = TypeVar("_Result")

#: Smaller pieces are compressed at once, larger ones in a thread, so that others are not held up.
_SMALL_BYTES = 1 << 16


class ClientGoneError(Exception):
    """The client has closed the connection, or takes nothing any more."""


class Exchange:
    """A request's body and the way back to whoever sent it."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, stall_s: float) -> None:
        self.request = Request(scope)
        self.status = 0
        self.sent_bytes = 0
        self._receive = receive
        self._send = send
        self._stall_s = stall_s
        self._compressor: Compressor | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers, by names in lower case."""
        return self.request.headers

    @property
    def address(self) -> str:
        """Where the request comes from."""
        return self.request.client.host if self.request.client else ""

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the body decompressed, in pieces of bounded size; raises ClientGoneError, Refusal."""
        decompressor = Decompressor(self.headers.get("content-encoding", ""))
        more = True
        while more:
            message = await self._patiently(self._receive(), "The body does not come")
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            for piece in decompressor.pieces(message.get("body", b"")):
                yield piece
            more = message.get("more_body", False)
        decompressor.finish()

    async def while_connected(self, work: Awaitable[_Result]) -> _Result:
        """Do something once the body is read, unless the client leaves; raises ClientGoneError then."""
        task = asyncio.ensure_future(work)
        gone = asyncio.create_task(self._gone())
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ClientGoneError
            return task.result()
        finally:
            gone.cancel()
            task.cancel()
            await asyncio.wait({task})

    async def start(self, status: int, headers: Mapping[str, str], *, compress: bool, size: int | None = None) -> None:
        """Send status and headers; compress what follows where the client can take it; `size` where it is known."""
        given = [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
        coding = chosen_coding(self.headers.get("accept-encoding", "")) if compress else ""
        if coding:
            self._compressor = compressor(coding)
            given.append((b"content-encoding", coding.encode()))
        elif size is not None:
            given.append((b"content-length", str(size).encode()))
        self.status = status
        await self._patiently_send({"type": "http.response.start", "status": status, "headers": given})

    async def piece(self, data: bytes) -> None:
        """Send a piece, as fast as the client takes it."""
        await self._piece(await self._compressed(data), more=True)

    async def end(self, data: bytes = b"") -> None:
        """Send the last piece."""
        last = await self._compressed(data)
        if self._compressor is not None:
            last += self._compressor.flush()
        await self._piece(last, more=False)

    async def break_off(self, data: bytes) -> None:
        """Send a last piece, and leave the response without an end, so that nobody takes it for whole."""
        last = await self._compressed(data)
        if self._compressor is not None:
            last += self._compressor.flush()
        await self._piece(last, more=True)

    async def _compressed(self, data: bytes) -> bytes:
        """Compress a piece, if anything is."""
        if self._compressor is None or not data:
            return data
        if len(data) <= _SMALL_BYTES:
            return self._compressor.compress(data)
        return await asyncio.to_thread(self._compressor.compress, data)

    async def _piece(self, data: bytes, *, more: bool) -> None:
        """Send what is ready."""
        if data or not more:
            self.sent_bytes += len(data)
            await self._patiently_send({"type": "http.response.body", "body": data, "more_body": more})

    async def _patiently_send(self, message: dict[str, object]) -> None:
        """Send; raises ClientGoneError where the client takes nothing."""
        try:
            async with asyncio.timeout(self._stall_s):
                await self._send(message)
        except TimeoutError:
            raise ClientGoneError from None
        except OSError:
            raise ClientGoneError from None

    async def _patiently(self, coming: Awaitable[_Result], what: str) -> _Result:
        """Wait for the client, but not for ever."""
        try:
            async with asyncio.timeout(self._stall_s):
                return await coming
        except TimeoutError:
            raise Refusal(209, "SOCKET_TIMEOUT", f"{what}; waited {self._stall_s:.0f} s") from None

    async def _gone(self) -> None:
        """Wait until the client leaves."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
