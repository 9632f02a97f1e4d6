"""Reads sources as contents: what lands as one, in chunks that are the same whenever it is read again."""

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
from prism_ch.ingest.batches import landing_rows, read_arrow, read_parquet
from prism_ch.ingest.collectors import is_json
from prism_ch.ingest.direct import fits, land_directly
from prism_ch.ingest.lines import LineReader, read_blocks
from prism_ch.ingest.messages import is_messages, read_messages
from prism_ch.ingest.sources import Format, Opened, Source, open_source, readable, tell_format
from prism_ch.store.client import Store

#: Of smaller files a statement is as quick whichever way it is given its rows, and several may share one.
_DIRECT_BYTES_MIN = 1 << 20
#: A stretch of a stream lands after so long, however short it is.
_STREAM_PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one statement lands: rows for a table, with their `position`, without the columns that name their source.

    `read` is how many bytes of the content had been read when the chunk was complete.
    """

    table: str
    rows: pa.Table
    read: int


@dataclass(frozen=True, slots=True)
class Content:
    """A file, or a stretch of a stream, and the digest of what it was read from; `chunks` can be read once.

    `direct`, where there is one, lands all of it in an embedded engine instead, under the settings it is given.
    """

    source: str
    format: Format
    digest: str
    size_bytes: int
    chunks: Iterable[Chunk]
    direct: Callable[[Store, Mapping[str, Any]], None] | None = None

    @property
    def landing(self) -> str:
        """Identity in the database: the same bytes read as another format are another content."""
        return f"{self.digest}-{self.format}"


def read_contents(source: Source, fmt: str) -> Iterator[Content]:
    """Yield what is in a source: one content of a file, as many as it has stretches of a stream of text.

    Each must be landed before the next is asked for. Parameters: `fmt`, auto or the name of a Format.
    Raises InputError, also from the contents' chunks, where the source can't be read on.
    """
    with open_source(source) as opened:
        form = tell_format(opened, source, fmt)
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
    """Return a file as one content, having read it once for its digest.

    Its chunks end in InputError where the file has changed since: they are then not those of the digest.
    """
    before = path.stat()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()

    def check() -> None:
        after = path.stat()
        if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise InputError(f"{source.name}: was written to while it was read; land it again when it is complete")

    def unchanged() -> Iterator[Chunk]:
        yield from chunks
        check()

    content = Content(source.name, form, digest, source.size_bytes or before.st_size, unchanged())
    if form is not Format.PARQUET or before.st_size < _DIRECT_BYTES_MIN or not fits(path):
        return content

    def direct(store: Store, settings: Mapping[str, Any]) -> None:
        land_directly(store, path, content.landing, source.name, settings)
        check()

    return replace(content, direct=direct)


def _text_chunks(source: Source, form: Format, opened: Opened) -> Iterator[Chunk]:
    """Yield a file of lines in chunks."""
    reader = _reader(source, form, opened)
    with readable(source):
        for block in read_blocks(opened.head, opened.stream, source.name, end_of=reader.end_of):
            yield Chunk(reader.table, reader.rows(block), opened.file.tell())


def _column_chunks(source: Source, form: Format, path: Path) -> Iterator[Chunk]:
    """Yield a file of columns in chunks."""
    read = read_parquet if form is Format.PARQUET else read_arrow
    size = source.size_bytes or path.stat().st_size
    position = 1
    for columns, share in read(path, source.name):
        table, rows = landing_rows(columns, source.name)
        numbers = np.arange(rows.num_rows, dtype=np.uint64) + position
        position += rows.num_rows
        yield Chunk(table, rows.append_column("position", pa.array(numbers)), round(share * size))


def _message_chunks(source: Source, path: Path) -> Iterator[Chunk]:
    """Yield a file of messages in chunks."""
    share = (source.size_bytes or path.stat().st_size) / max(path.stat().st_size, 1)
    with path.open("rb") as file:
        for table, rows in read_messages(file, source.name):
            yield Chunk(table, rows, round(file.tell() * share))


@contextmanager
def _on_disk(source: Source, opened: Opened) -> Iterator[Path]:
    """Yield where a content can be read at any place: the file itself, or for as long as it is needed a copy."""
    if source.path is not None and source.path.is_file() and not opened.is_compressed:
        yield source.path
        return
    with tempfile.NamedTemporaryFile(prefix="prism-ch-") as copy:
        copy.write(opened.head)
        copyfileobj(opened.stream, copy, 1 << 20)
        copy.flush()
        yield Path(copy.name)


def _stretches(source: Source, form: Format, opened: Opened) -> Iterator[Content]:
    """Yield a stream of text, which may never end, stretch by stretch."""
    reader = _reader(source, form, opened)
    for block in read_blocks(opened.head, opened.stream, source.name, _STREAM_PATIENCE_S, reader.end_of):
        rows = reader.rows(block)
        digest = hashlib.blake2b(repr(reader.header).encode(), digest_size=16)
        digest.update(block.text)
        size = len(block.text)
        yield Content(source.name, form, digest.hexdigest(), size, [Chunk(reader.table, rows, size)])


def _reader(source: Source, form: Format, opened: Opened) -> LineReader:
    """Return what reads the lines of a text: of a collector's format whichever way it writes them."""
    if form in (Format.CSV, Format.JSONL):
        return LineReader(source.name, is_csv=form is Format.CSV)
    return LineReader(source.name, is_csv=not is_json(opened.head), collector=form.value)
