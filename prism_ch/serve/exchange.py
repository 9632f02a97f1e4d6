"""Receives a request and sends its response piece by piece, also with clients that stall or leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import TypeVar

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from prism_ch.serve.compression import Compressor, Decompressor, chosen_coding, compressor
from prism_ch.serve.errors import RequestError

_Result = TypeVar("_Result")

#: Larger pieces, in bytes, are compressed in a thread, so that they don't delay other requests.
_SMALL_BYTES = 1 << 16


class ClientGoneError(Exception):
    """The client has closed the connection, or has stopped reading."""


class Exchange:
    """A request's body, and the response to it."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, stall_s: float) -> None:
        self.request = Request(scope)
        self.status = 0
        self.sent_bytes = 0
        self._receive = receive
        self._send_message = send
        self._stall_s = stall_s
        self._compressor: Compressor | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, by names in lower case."""
        return self.request.headers

    @property
    def address(self) -> str:
        """The address of the client."""
        return self.request.client.host if self.request.client else ""

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the decompressed body in pieces of bounded size; raises ClientGoneError, RequestError."""
        decompressor = Decompressor(self.headers.get("content-encoding", ""))
        more = True
        while more:
            try:
                async with asyncio.timeout(self._stall_s):
                    message = await self._receive()
            except TimeoutError:
                text = f"The body does not come; waited {self._stall_s:.0f} s"
                raise RequestError(209, "SOCKET_TIMEOUT", text) from None
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            for piece in decompressor.pieces(message.get("body", b"")):
                yield piece
            more = message.get("more_body", False)
        decompressor.finish()

    async def while_connected(self, answer: Awaitable[_Result]) -> _Result:
        """Await something after the body was read; raises ClientGoneError if the client leaves first."""
        task = asyncio.ensure_future(answer)
        gone = asyncio.create_task(self._disconnected())
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
        """Send status and headers.

        Parameters: `compress` what follows, if the client can decompress it; `size` of the body, if it is known.
        """
        encoded = [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
        coding = chosen_coding(self.headers.get("accept-encoding", "")) if compress else ""
        if coding:
            self._compressor = compressor(coding)
            encoded.append((b"content-encoding", coding.encode()))
        elif size is not None:
            encoded.append((b"content-length", str(size).encode()))
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": encoded})

    async def send(self, data: bytes) -> None:
        """Send a piece of the body, as fast as the client reads."""
        data = await self._compressed(data)
        if data:
            await self._send_body(data, more=True)

    async def end(self, data: bytes = b"", *, complete: bool = True) -> None:
        """Send the last piece. An incomplete response gets no end, so that no client takes it for whole."""
        last = await self._compressed(data)
        if self._compressor is not None:
            last += self._compressor.flush()
        await self._send_body(last, more=not complete)

    async def _compressed(self, data: bytes) -> bytes:
        if self._compressor is None or not data:
            return data
        if len(data) <= _SMALL_BYTES:
            return self._compressor.compress(data)
        return await asyncio.to_thread(self._compressor.compress, data)

    async def _send_body(self, data: bytes, *, more: bool) -> None:
        self.sent_bytes += len(data)
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def _send(self, message: dict[str, object]) -> None:
        """Send a message; raises ClientGoneError if the client does not take it."""
        try:
            async with asyncio.timeout(self._stall_s):
                await self._send_message(message)
        except (TimeoutError, OSError):
            raise ClientGoneError from None

    async def _disconnected(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
