"""Content codings of HTTP that ClickHouse's clients use, both ways and piece by piece: gzip, deflate, zstd, lz4."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import lz4.frame

from prism_ch.serve.refusal import bad_request

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

#: No more than this comes out of one piece at once, so that a bomb fills no memory.
PIECE_BYTES = 1 << 20
_GZIP_WINDOW = 31
_EITHER_ZLIB = 47  # gzip or zlib, as the first bytes say
_DAMAGED = (zlib.error, zstd.ZstdError, RuntimeError, EOFError, ValueError)


class Compressor(Protocol):
    """Compresses a stream."""

    def compress(self, data: bytes) -> bytes:
        """Take a piece, return what is ready."""

    def flush(self) -> bytes:
        """Return the rest."""


class _Lz4(Compressor):
    """The frame format of LZ4, with its beginning in the first piece."""

    def __init__(self) -> None:
        self._frame = lz4.frame.LZ4FrameCompressor()
        self._begun = False

    def compress(self, data: bytes) -> bytes:
        """Take a piece, return what is ready."""
        return self._begin() + bytes(self._frame.compress(data))

    def flush(self) -> bytes:
        """Return the rest."""
        return self._begin() + bytes(self._frame.flush())

    def _begin(self) -> bytes:
        """Return the beginning, once."""
        if self._begun:
            return b""
        self._begun = True
        return bytes(self._frame.begin())


_COMPRESSORS: dict[str, Callable[[], Any]] = {
    "lz4": _Lz4,
    "zstd": lambda: zstd.ZstdCompressor(level=1),
    "gzip": lambda: zlib.compressobj(level=1, wbits=_GZIP_WINDOW),
    "deflate": lambda: zlib.compressobj(level=1),
}


def chosen_coding(accepted: str) -> str:
    """Choose a coding that a header Accept-Encoding names, the fastest first; empty where there is none."""
    offers = [offer.strip().replace(" ", "").split(";q=") for offer in accepted.lower().split(",")]
    wanted = {name for name, *weight in offers if not weight or weight[0].strip("0.") != ""}
    return next((name for name in _COMPRESSORS if name in wanted), "")


def compressor(coding: str) -> Compressor:
    """Start compressing by a coding that chosen_coding() has returned."""
    made: Compressor = _COMPRESSORS[coding]()
    return made


class Decompressor:
    """Undoes a header Content-Encoding; concatenated streams are one."""

    def __init__(self, coding: str) -> None:
        """Start; raises Refusal where the coding is none of ours."""
        self._coding = coding.strip().lower()
        if self._coding not in {"", "identity", "gzip", "deflate", "zstd", "lz4"}:
            raise bad_request(f"Content-Encoding {coding[:40]} is not known; gzip, deflate, zstd and lz4 are")
        self._stream: _Bounded | None = None

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield what a piece of the body says, in pieces of bounded size; raises Refusal where it is damaged."""
        if self._coding in {"", "identity"}:
            if data:
                yield data
            return
        while data:
            self._stream = self._stream or _bounded(self._coding)
            try:
                yield from self._stream.pieces(data)
            except _DAMAGED as error:
                raise bad_request(f"The body can't be decompressed as {self._coding}: {error}") from error
            data = b""
            if self._stream.ended:
                data = self._stream.rest
                self._stream = None

    def finish(self) -> None:
        """Raise Refusal where the body ended in the middle of a stream."""
        if self._stream is not None:
            raise bad_request(f"The body ends in the middle of its {self._coding} stream")


class _Bounded(Protocol):
    """One compressed stream, undone in bounded pieces."""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield what a piece says."""

    @property
    def ended(self) -> bool:
        """Tell whether the stream is over."""

    @property
    def rest(self) -> bytes:
        """Return what comes after it."""


class _Zlib(_Bounded):
    """Gzip and deflate."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=_EITHER_ZLIB)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        while not self._inner.eof:
            piece = self._inner.decompress(data, PIECE_BYTES)
            yield piece
            data = self._inner.unconsumed_tail
            if not data and len(piece) < PIECE_BYTES:
                return

    @property
    def ended(self) -> bool:
        return self._inner.eof

    @property
    def rest(self) -> bytes:
        return self._inner.unused_data


class _Frames(_Bounded):
    """Zstd and lz4, whose decompressors have the interface of the standard library's bz2."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def pieces(self, data: bytes) -> Iterator[bytes]:
        yield self._inner.decompress(data, PIECE_BYTES)
        while not self._inner.eof and not self._inner.needs_input:
            yield self._inner.decompress(b"", PIECE_BYTES)

    @property
    def ended(self) -> bool:
        return bool(self._inner.eof)

    @property
    def rest(self) -> bytes:
        return self._inner.unused_data or b""


def _bounded(coding: str) -> _Bounded:
    """Start undoing one stream."""
    if coding == "zstd":
        return _Frames(zstd.ZstdDecompressor())
    if coding == "lz4":
        return _Frames(lz4.frame.LZ4FrameDecompressor())
    return _Zlib()
