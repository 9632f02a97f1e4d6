"""Finds the files that the user names, decompresses them, and detects their format."""

from __future__ import annotations

import glob
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from prism_ch.errors import InputError
from prism_ch.ingest.columnar import ARROW_MAGIC
from prism_ch.ingest.columns import identify_collector, is_json
from prism_ch.ingest.messages import is_messages

#: The byte order mark with which UTF-8 text may begin.
UTF8_BOM = b"\xef\xbb\xbf"
#: The name of standard input as a source.
STDIN = "stdin"

_HEAD_BYTES = 1 << 16
_PARQUET_MAGIC = b"PAR1"
_ARROW_STREAM_MAGIC = b"\xff\xff\xff\xff"
_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_COMPRESSION_SUFFIXES = (".gz", ".gzip", ".zst", ".zstd")


class Format(StrEnum):
    """The format of a file, or the collector that wrote it."""

    PARQUET = "parquet"
    ARROW = "arrow"
    CSV = "csv"
    JSONL = "jsonl"
    GOFLOW2 = "goflow2"
    PMACCT = "pmacct"
    NFDUMP = "nfdump"
    AKVORADO = "akvorado"


_SUFFIXES = {
    **dict.fromkeys((".parquet", ".pq"), Format.PARQUET),
    **dict.fromkeys((".arrow", ".arrows", ".feather", ".ipc"), Format.ARROW),
    ".csv": Format.CSV,
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), Format.JSONL),
}


@dataclass(frozen=True, slots=True)
class Source:
    """A file, or a stream that can be read once; standard input has no path."""

    name: str
    path: Path | None

    @classmethod
    def of(cls, path: Path) -> Source:
        """Return a file as a source."""
        return cls(str(path), path)

    @property
    def size_bytes(self) -> int:
        """Size as stored, in bytes; 0 for a stream."""
        return self.path.stat().st_size if self.path is not None and self.path.is_file() else 0


@dataclass(frozen=True, slots=True)
class Opened:
    """A decompressed source: its first bytes, a stream of the rest, and the file below both."""

    head: bytes
    stream: BinaryIO
    is_compressed: bool
    file: BinaryIO


def find_sources(patterns: Sequence[str]) -> list[Source]:
    """Find the sources of paths, folders, globs and - (standard input), sorted within each.

    A folder stands for the files below it whose suffix names a format. Raises InputError if a pattern finds nothing.
    """
    return [source for pattern in patterns for source in _find(pattern)]


@contextmanager
def open_source(source: Source) -> Iterator[Opened]:
    """Open a source, decompress gzip and zstd, and read its first bytes.

    Raises InputError if it can't be read, or the compressed data is damaged or cut off.
    """
    with readable(source), _open_file(source) as file:
        start = file.peek(max(map(len, _COMPRESSIONS)))
        codec = next((codec for magic, codec in _COMPRESSIONS.items() if start.startswith(magic)), None)
        stream = pa.CompressedInputStream(file, codec) if codec else file
        yield Opened(stream.read1(_HEAD_BYTES), stream, codec is not None, file)


@contextmanager
def readable(source: Source) -> Iterator[None]:
    """Turn errors of the system or a decompressor into InputError."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or f"damaged or cut off: {error}"
        raise InputError(f"{source.name}: can't be read: {reason}") from error


def detect_format(opened: Opened, source: Source, requested: str) -> Format:
    """Return the requested format, or detect it by first bytes, names of fields, and suffix.

    Parameters: `requested`, a format's name, or auto.
    """
    if requested != "auto":
        return Format(requested)
    if opened.head.startswith(_PARQUET_MAGIC):
        return Format.PARQUET
    if opened.head.startswith((ARROW_MAGIC, _ARROW_STREAM_MAGIC)):
        return Format.ARROW
    text = opened.head.removeprefix(UTF8_BOM)
    collector = Format.GOFLOW2 if is_messages(opened.head) else identify_collector(text)
    if collector is not None:
        return Format(collector)
    suffix = _format_suffix(Path(source.name))
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    return Format.JSONL if is_json(text) else Format.CSV


def _find(pattern: str) -> list[Source]:
    if pattern == "-":
        return [Source(STDIN, None)]
    path = Path(pattern)
    if path.is_dir():
        below = sorted(entry for entry in path.rglob("*") if entry.is_file() and _format_suffix(entry) in _SUFFIXES)
        if not below:
            raise InputError(f"{pattern}: is a folder without flow files ({', '.join(_SUFFIXES)}, also compressed)")
        return [Source.of(entry) for entry in below]
    if path.exists():
        return [Source(pattern, path)]
    found = glob.glob(pattern, recursive=True)  # noqa: PTH207 (Path.glob takes no absolute patterns)
    matches = sorted(match for match in found if not Path(match).is_dir())
    if not matches:
        raise InputError(f"{pattern}: no file matches" if glob.has_magic(pattern) else f"{pattern}: no such file")
    return [Source(match, Path(match)) for match in matches]


def _format_suffix(path: Path) -> str:
    """Return the suffix before those of compressions, in lower case."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    while suffixes and suffixes[-1] in _COMPRESSION_SUFFIXES:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


@contextmanager
def _open_file(source: Source) -> Iterator[io.BufferedReader]:
    """Open a source as stored; standard input stays open."""
    if source.path is not None:
        with source.path.open("rb") as file:
            yield file
        return
    # The buffer of sys.stdin would wait until it is full, so it is bypassed.
    standard: Any = sys.stdin.buffer
    reader = io.BufferedReader(getattr(standard, "raw", standard))
    try:
        yield reader
    finally:
        reader.detach()
