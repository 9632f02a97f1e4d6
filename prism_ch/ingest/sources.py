"""Reads the files and streams that the user names as contents, which land as one."""

from __future__ import annotations

import glob
import hashlib
import io
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from shutil import copyfileobj
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from prism_ch.errors import InputError
from prism_ch.ingest.columnar import (
    ARROW_MAGIC,
    engine_can_read,
    land_by_engine,
    landing_rows,
    read_arrow,
    read_parquet,
)
from prism_ch.ingest.columns import identify_collector, is_json
from prism_ch.ingest.lines import UTF8_BOM, LineReader, read_blocks
from prism_ch.ingest.messages import is_messages, read_messages
from prism_ch.ingest.refusal import printable
from prism_ch.store.client import Store

#: The name of standard input as a source.
STDIN = "stdin"

_HEAD_BYTES = 1 << 16
_PARQUET_MAGIC = b"PAR1"
_ARROW_STREAM_MAGIC = b"\xff\xff\xff\xff"
_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_COMPRESSION_SUFFIXES = (".gz", ".gzip", ".zst", ".zstd")

#: A compressed file that unpacks to more than this many times its size, and this many bytes, is no file of flows: those
#: of tests/data unpack to 3 to 12 times theirs, the longest runs of one byte to 30,000 times in zstd.
_UNPACKED_RATIO, _UNPACKED_BYTES = 1000, 64 << 20

#: The engine reads smaller files, in bytes, no faster by itself, and several of them may share a statement.
_ENGINE_BYTES_MIN = 1 << 20
#: A stretch of a stream lands after this long, in seconds, however short it is.
_STREAM_TIMEOUT_S = 5.0


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
        """Return a file as a source, under a name that is valid text."""
        return cls(printable(str(path)), path)

    @property
    def size_bytes(self) -> int:
        """Size as stored, in bytes; 0 for a stream."""
        try:
            state = None if self.path is None else self.path.stat()
        except OSError:  # it went away, and opening it says so
            return 0
        return state.st_size if state is not None and stat.S_ISREG(state.st_mode) else 0


@dataclass(frozen=True, slots=True)
class Opened:
    """A decompressed source: its first bytes, a stream of the rest, and the file below both."""

    source: Source
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
        stream: Any = _Unpacked(source, file, codec) if codec else file
        yield Opened(source, stream.read1(_HEAD_BYTES), stream, codec is not None, file)


class _Unpacked:
    """A compressed file as it is unpacked, up to a multiple of what was read of it."""

    def __init__(self, source: Source, file: BinaryIO, codec: str) -> None:
        self._stream = pa.CompressedInputStream(file, codec)
        self._source = source
        self._file = file if source.size_bytes else None
        self._unpacked_bytes = 0

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes. Raises InputError if too much was unpacked."""
        return self._count(self._stream.read(size))

    def read1(self, size: int) -> bytes:
        """Read what is at hand, up to `size` bytes. Raises InputError if too much was unpacked."""
        return self._count(self._stream.read1(size))

    def _count(self, data: bytes) -> bytes:
        self._unpacked_bytes += len(data)
        # A stream has no size, and is read in blocks that are bounded by themselves.
        if self._file and self._unpacked_bytes > _UNPACKED_BYTES + _UNPACKED_RATIO * self._file.tell():
            raise InputError(f"{self._source.name}: unpacks to more than {_UNPACKED_RATIO:,} times its size")
        return data


@contextmanager
def readable(source: Source) -> Iterator[None]:
    """Turn errors of the system or a decompressor into InputError."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or f"damaged or cut off: {error}"
        raise InputError(f"{source.name}: can't be read: {reason}") from error


def detect_format(opened: Opened, requested: str) -> Format:
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
    suffix = _format_suffix(Path(opened.source.name))
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    return Format.JSONL if is_json(text) else Format.CSV


def _find(pattern: str) -> list[Source]:
    if pattern == "-":
        return [Source(STDIN, None)]
    name = printable(pattern)
    path = Path(pattern)
    with readable(Source(name, path)):
        if path.is_dir():
            below = sorted(entry for entry in path.rglob("*") if entry.is_file() and _format_suffix(entry) in _SUFFIXES)
            if not below:
                raise InputError(f"{name}: is a folder without flow files ({', '.join(_SUFFIXES)}, also compressed)")
            return [Source.of(entry) for entry in below]
        if path.exists():
            return [Source(name, path)]
        found = glob.glob(pattern, recursive=True)  # noqa: PTH207 (Path.glob takes no absolute patterns)
        matches = sorted(match for match in found if not Path(match).is_dir())
    if not matches:
        raise InputError(f"{name}: no file matches" if glob.has_magic(pattern) else f"{name}: no such file")
    return [Source(printable(match), Path(match)) for match in matches]


def _format_suffix(path: Path) -> str:
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


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows that one statement lands, with their `position`, without the columns that name their source.

    `read_bytes` is how much of the content was read when the chunk was complete.
    """

    table: str
    rows: pa.Table
    read_bytes: int


@dataclass(frozen=True, slots=True)
class Content:
    """A file, or a stretch of a stream, with its digest.

    `chunks` can be read once. `land_by_engine`, if there is one, has an embedded engine land all of it instead, under
    an identity and with the given settings. `again` ends the identity of a landing that puts lost rows back.
    """

    source: str
    format: Format
    digest: str
    size_bytes: int
    chunks: Iterable[Chunk]
    land_by_engine: Callable[[Store, str, Mapping[str, Any]], None] | None = None
    again: str = ""

    @property
    def landing(self) -> str:
        """Identity in the database; the same bytes in another format are another content."""
        return f"{self.digest}-{self.format}{self.again}"


def read_contents(source: Source, fmt: str) -> Iterator[Content]:
    """Yield the content of a file, or one for each stretch of a stream.

    Each must be landed before the next one is read. Parameters: `fmt`, auto or the name of a Format.
    Raises InputError, also from the contents' chunks, if the source can't be read further.
    """
    with open_source(source) as opened:
        form = detect_format(opened, fmt)
        if form in (Format.PARQUET, Format.ARROW):
            with _on_disk(opened) as path:
                yield _whole(source, form, path, _column_chunks(source, form, path))
        elif form is Format.GOFLOW2 and is_messages(opened.head):
            with _on_disk(opened) as path:
                yield _whole(source, form, path, _message_chunks(source, path))
        elif source.path is not None and source.path.is_file():
            yield _whole(source, form, source.path, _text_chunks(opened, form))
        else:
            yield from _stretches(opened, form)


def _whole(source: Source, form: Format, path: Path, chunks: Iterator[Chunk]) -> Content:
    """Read a file for its digest and return it as one content.

    Landing it ends in InputError if the file has changed since: the chunks are then not those of the digest.
    """
    before = path.stat()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()

    def check() -> None:
        after = path.stat()
        if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise InputError(f"{source.name}: was written to while it was read; land it again when it is complete")

    def checked_chunks() -> Iterator[Chunk]:
        yield from chunks
        check()

    content = Content(source.name, form, digest, source.size_bytes or before.st_size, checked_chunks())
    if form is not Format.PARQUET or before.st_size < _ENGINE_BYTES_MIN or not engine_can_read(path):
        return content

    def land(store: Store, landing: str, settings: Mapping[str, Any]) -> None:
        land_by_engine(store, path, landing, source.name, settings)
        check()

    return replace(content, land_by_engine=land)


def _text_chunks(opened: Opened, form: Format) -> Iterator[Chunk]:
    reader = _line_reader(opened, form)
    with readable(opened.source):
        for block in read_blocks(opened.head, opened.stream, opened.source.name, end_of=reader.end_of):
            yield Chunk(reader.table, reader.rows(block), opened.file.tell())


def _column_chunks(source: Source, form: Format, path: Path) -> Iterator[Chunk]:
    read = read_parquet if form is Format.PARQUET else read_arrow
    size_bytes = source.size_bytes or path.stat().st_size
    position = 1
    for columns, share in read(path, source.name):
        table, rows = landing_rows(columns, source.name)
        positions = np.arange(rows.num_rows, dtype=np.uint64) + position
        position += rows.num_rows
        yield Chunk(table, rows.append_column("position", pa.array(positions)), round(share * size_bytes))


def _message_chunks(source: Source, path: Path) -> Iterator[Chunk]:
    share = (source.size_bytes or path.stat().st_size) / max(path.stat().st_size, 1)
    with path.open("rb") as file:
        for table, rows in read_messages(file, source.name):
            yield Chunk(table, rows, round(file.tell() * share))


@contextmanager
def _on_disk(opened: Opened) -> Iterator[Path]:
    """Yield a file with the decompressed content: the source itself, or a temporary copy."""
    if opened.source.path is not None and opened.source.path.is_file() and not opened.is_compressed:
        yield opened.source.path
        return
    with tempfile.NamedTemporaryFile(prefix="prism-ch-") as copy:
        copy.write(opened.head)
        copyfileobj(opened.stream, copy, 1 << 20)
        copy.flush()
        yield Path(copy.name)


def _stretches(opened: Opened, form: Format) -> Iterator[Content]:
    """Yield the stretches of a text stream, which may never end."""
    reader = _line_reader(opened, form)
    for block in read_blocks(opened.head, opened.stream, opened.source.name, _STREAM_TIMEOUT_S, reader.end_of):
        rows = reader.rows(block)
        digest = hashlib.blake2b(repr(reader.header).encode(), digest_size=16)
        digest.update(block.text)
        size_bytes = len(block.text)
        yield Content(opened.source.name, form, digest.hexdigest(), size_bytes, [Chunk(reader.table, rows, size_bytes)])


def _line_reader(opened: Opened, form: Format) -> LineReader:
    if form in (Format.CSV, Format.JSONL):
        return LineReader(opened.source.name, is_csv=form is Format.CSV)
    return LineReader(opened.source.name, is_csv=not is_json(opened.head), collector=form.value)
