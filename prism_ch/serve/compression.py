"""Compresses and decompresses bodies piece by piece: gzip, deflate, zstd, lz4."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import lz4.frame

from prism_ch.serve.errors import bad_request

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

#: No more bytes than this come out of one piece at once, so that a decompression bomb fills no memory.
PIECE_BYTES = 1 << 20
_GZIP_WINDOW = 31
_GZIP_OR_ZLIB_WINDOW = 47
_DAMAGED = (zlib.error, zstd.ZstdError, RuntimeError, EOFError, ValueError)


class Compressor(Protocol):
    """Compresses a stream."""

    def compress(self, data: bytes) -> bytes:
        """Compress a piece and return what is ready."""

    def flush(self) -> bytes:
        """Return the rest."""


class _Lz4Compressor(Compressor):
    """The frame format of LZ4, with its header in the first piece."""

    def __init__(self) -> None:
        self._frame = lz4.frame.LZ4FrameCompressor()
        self._header = bytes(self._frame.begin())

    def compress(self, data: bytes) -> bytes:
        header, self._header = self._header, b""
        return header + bytes(self._frame.compress(data))

    def flush(self) -> bytes:
        return self._header + bytes(self._frame.flush())


_COMPRESSORS: dict[str, Callable[[], Any]] = {
    "lz4": _Lz4Compressor,
    "zstd": lambda: zstd.ZstdCompressor(level=1),
    "gzip": lambda: zlib.compressobj(level=1, wbits=_GZIP_WINDOW),
    "deflate": lambda: zlib.compressobj(level=1),
}


def chosen_coding(accepted: str) -> str:
    """Choose the fastest coding that a header Accept-Encoding names; empty if there is none."""
    offers = [offer.strip().replace(" ", "").split(";q=") for offer in accepted.lower().split(",")]
    names = {name for name, *weight in offers if not weight or weight[0].strip("0.") != ""}
    return next((name for name in _COMPRESSORS if name in names), "")


def compressor(coding: str) -> Compressor:
    """Start compressing by a coding that chosen_coding() has returned."""
    made: Compressor = _COMPRESSORS[coding]()
    return made


class _Zlib:
    """Decompresses gzip and deflate, with the interface of the standard library's bz2."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=_GZIP_OR_ZLIB_WINDOW)
        self.needs_input = True

    def decompress(self, data: bytes, max_length: int) -> bytes:
        piece = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        self.needs_input = not self._inner.unconsumed_tail and len(piece) < max_length
        return piece

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data


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
        self._coding = coding.strip().lower()
        if self._coding not in {"", "identity", *_DECOMPRESSORS}:
            raise bad_request(f"Content-Encoding {coding[:40]} is not known; gzip, deflate, zstd and lz4 are")
        self._stream: Any = None

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Decompress data to pieces of bounded size. Raises RequestError if it is damaged."""
        if self._coding in {"", "identity"}:
            if data:
                yield data
            return
        while data:
            self._stream = self._stream or _DECOMPRESSORS[self._coding]()
            try:
                yield self._stream.decompress(data, PIECE_BYTES)
                while not self._stream.eof and not self._stream.needs_input:
                    yield self._stream.decompress(b"", PIECE_BYTES)
            except _DAMAGED as error:
                raise bad_request(f"The body can't be decompressed as {self._coding}: {error}") from error
            data = b""
            if self._stream.eof:
                data = self._stream.unused_data or b""
                self._stream = None

    def finish(self) -> None:
        """Raise RequestError if the body ended in the middle of a stream."""
        if self._stream is not None:
            raise bad_request(f"The body ends in the middle of its {self._coding} stream")
