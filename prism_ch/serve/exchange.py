"""Receives a request and sends its response piece by piece, compressed, also with clients that stall or leave."""

from __future__ import annotations

import asyncio
import sys
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeVar

import lz4.frame
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from prism_ch.serve.request import RequestError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

#: No more bytes than this come out of one piece at once, so that a decompression bomb fills no memory.
PIECE_BYTES = 1 << 20
_GZIP_WINDOW = 31
_GZIP_OR_ZLIB_WINDOW = 47
_DAMAGED = (zlib.error, zstd.ZstdError, RuntimeError, EOFError, ValueError)

_Result = TypeVar("_Result")
#: Larger pieces, in bytes, are compressed in a thread, so that they don't delay other requests.
_SMALL_BYTES = 1 << 16


class _Lz4Compressor:
    """The frame format of LZ4, with its header in the first piece."""

    def __init__(self) -> None:
        self._frame = lz4.frame.LZ4FrameCompressor()
        self._header = bytes(self._frame.begin())

    def compress(self, data: bytes) -> bytes:
        header, self._header = self._header, b""
        return header + bytes(self._frame.compress(data))

    def flush(self) -> bytes:
        return self._header + bytes(self._frame.flush())


#: Compressors by the name of their coding, the fastest first.
COMPRESSORS: dict[str, Callable[[], Any]] = {
    "lz4": _Lz4Compressor,
    "zstd": lambda: zstd.ZstdCompressor(level=1),
    "gzip": lambda: zlib.compressobj(level=1, wbits=_GZIP_WINDOW),
    "deflate": lambda: zlib.compressobj(level=1),
}


def chosen_coding(accepted: str) -> str:
    """Choose the fastest coding that a header Accept-Encoding names; empty if there is none."""
    offers = [offer.strip().replace(" ", "").split(";q=") for offer in accepted.lower().split(",")]
    names = {name for name, *weight in offers if not weight or weight[0].strip("0.") != ""}
    return next((name for name in COMPRESSORS if name in names), "")


class _Zlib:
    """Decompresses gzip and deflate, with the interface of the standard library's bz2."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=_GZIP_OR_ZLIB_WINDOW)
        self.needs_input = True

    def decompress(self, data: bytes, max_length: int) -> bytes:
        piece = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        self.needs_input = not self._inner.unconsumed_tail and len(piece) < max_length
        return piece

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # eof and unused_data are named alike


_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    "gzip": _Zlib,
    "deflate": _Zlib,
    "zstd": zstd.ZstdDecompressor,
    "lz4": lz4.frame.LZ4FrameDecompressor,
}


class Decompressor:
    """Undoes a header Content-Encoding; concatenated streams are one."""

    def __init__(self, coding: str) -> None:
        """Start; raises RequestError if the coding is not known."""
        self._coding = coding.strip().lower().replace("identity", "")
        if self._coding and self._coding not in _DECOMPRESSORS:
            text = f"Content-Encoding {coding[:40]} is not known; gzip, deflate, zstd and lz4 are"
            raise RequestError("BAD_ARGUMENTS", text)
        self._stream: Any = None

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Decompress data to pieces of bounded size. Raises RequestError if it is damaged."""
        if data and not self._coding:
            yield data
            return
        while data:
            self._stream = self._stream or _DECOMPRESSORS[self._coding]()
            try:
                yield self._stream.decompress(data, PIECE_BYTES)
                while not self._stream.eof and not self._stream.needs_input:
                    yield self._stream.decompress(b"", PIECE_BYTES)
            except _DAMAGED as error:
                text = f"The body can't be decompressed as {self._coding}: {error}"
                raise RequestError("BAD_ARGUMENTS", text) from error
            data = b""
            if self._stream.eof:
                data = self._stream.unused_data or b""
                self._stream = None

    def finish(self) -> None:
        """Raise RequestError if the body ended in the middle of a stream."""
        if self._stream is not None:
            raise RequestError("BAD_ARGUMENTS", f"The body ends in the middle of its {self._coding} stream")


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
        self._compressor: Any = None

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
                raise RequestError("SOCKET_TIMEOUT", text) from None
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
            self._compressor = COMPRESSORS[coding]()
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
        small = len(data) <= _SMALL_BYTES
        compressed: bytes = (
            self._compressor.compress(data) if small else await asyncio.to_thread(self._compressor.compress, data)
        )
        return compressed

    async def _send_body(self, data: bytes, *, more: bool) -> None:
        self.sent_bytes += len(data)
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def _send(self, message: dict[str, object]) -> None:
        try:
            async with asyncio.timeout(self._stall_s):
                await self._send_message(message)
        except (TimeoutError, OSError):
            raise ClientGoneError from None

    async def _disconnected(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
