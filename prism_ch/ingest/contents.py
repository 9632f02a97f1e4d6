"""Reads sources as contents, which land as one, in chunks that are the same whenever they are read."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copyfileobj
from typing import Any

import numpy as np
import pyarrow as pa

from prism_ch.errors import InputError
from prism_ch.ingest.columnar import engine_can_read, land_by_engine, landing_rows, read_arrow, read_parquet
from prism_ch.ingest.columns import is_json
from prism_ch.ingest.lines import LineReader, read_blocks
from prism_ch.ingest.messages import is_messages, read_messages
from prism_ch.ingest.sources import Format, Opened, Source, detect_format, open_source, readable
from prism_ch.store.client import Store

#: The engine reads smaller files, in bytes, no faster by itself, and several of them may share a statement.
_ENGINE_BYTES_MIN = 1 << 20
#: A stretch of a stream lands after this long, in seconds, however short it is.
_STREAM_TIMEOUT_S = 5.0


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

    `chunks` can be read once. `land_by_engine`, if there is one, has an embedded engine land all of it instead, with
    the given settings.
    """

    source: str
    format: Format
    digest: str
    size_bytes: int
    chunks: Iterable[Chunk]
    land_by_engine: Callable[[Store, Mapping[str, Any]], None] | None = None

    @property
    def landing(self) -> str:
        """Identity in the database; the same bytes in another format are another content."""
        return f"{self.digest}-{self.format}"


def read_contents(source: Source, fmt: str) -> Iterator[Content]:
    """Yield the content of a file, or one for each stretch of a stream.

    Each must be landed before the next one is read. Parameters: `fmt`, auto or the name of a Format.
    Raises InputError, also from the contents' chunks, if the source can't be read further.
    """
    with open_source(source) as opened:
        form = detect_format(opened, source, fmt)
        if form in (Format.PARQUET, Format.ARROW):
            with _on_disk(source, opened) as path:
                yield _whole(source, form, path, _column_chunks(source, form, path))
        elif form is Format.GOFLOW2 and is_messages(opened.head):
            with _on_disk(source, opened) as path:
                yield _whole(source, form, path, _message_chunks(source, path))
        elif source.path is not None and source.path.is_file():
            yield _whole(source, form, source.path, _text_chunks(source, form, opened))
        else:
            yield from _stretches(source, form, opened)


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

    def land(store: Store, settings: Mapping[str, Any]) -> None:
        land_by_engine(store, path, content.landing, source.name, settings)
        check()

    return replace(content, land_by_engine=land)


def _text_chunks(source: Source, form: Format, opened: Opened) -> Iterator[Chunk]:
    reader = _line_reader(source, form, opened)
    with readable(source):
        for block in read_blocks(opened.head, opened.stream, source.name, end_of=reader.end_of):
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
def _on_disk(source: Source, opened: Opened) -> Iterator[Path]:
    """Yield a file with the decompressed content: the source itself, or a temporary copy."""
    if source.path is not None and source.path.is_file() and not opened.is_compressed:
        yield source.path
        return
    with tempfile.NamedTemporaryFile(prefix="prism-ch-") as copy:
        copy.write(opened.head)
        copyfileobj(opened.stream, copy, 1 << 20)
        copy.flush()
        yield Path(copy.name)


def _stretches(source: Source, form: Format, opened: Opened) -> Iterator[Content]:
    """Yield the stretches of a text stream, which may never end."""
    reader = _line_reader(source, form, opened)
    for block in read_blocks(opened.head, opened.stream, source.name, _STREAM_TIMEOUT_S, reader.end_of):
        rows = reader.rows(block)
        digest = hashlib.blake2b(repr(reader.header).encode(), digest_size=16)
        digest.update(block.text)
        size_bytes = len(block.text)
        yield Content(source.name, form, digest.hexdigest(), size_bytes, [Chunk(reader.table, rows, size_bytes)])


def _line_reader(source: Source, form: Format, opened: Opened) -> LineReader:
    """Return the reader of a text. A collector may write CSV or JSON."""
    if form in (Format.CSV, Format.JSONL):
        return LineReader(source.name, is_csv=form is Format.CSV)
    return LineReader(source.name, is_csv=not is_json(opened.head), collector=form.value)
