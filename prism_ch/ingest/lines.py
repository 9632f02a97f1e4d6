"""Cuts text into chunks of lines; what a line says is for the database to find out."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from prism_ch.errors import InputError
from prism_ch.ingest.columns import COLUMNS, find_columns

#: Text sent in one statement, bytes; about 300,000 records.
CHUNK_BYTES = 32 << 20
#: A line that goes on for longer is no flow record, and its file no text.
LINE_BYTES_MAX = 16 << 20

_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a text, in bytes: each ends with a line end, but for the last of the text perhaps."""

    text: bytes
    first_line: int


@dataclass(frozen=True, slots=True)
class Header:
    """What the first line of a CSV file says.

    `width` counts the fields that a line has; `places` say which of them, from 1, are COLUMNS, and are 0 for those that
    are not there.
    """

    width: int
    places: tuple[int, ...]


def read_blocks(head: bytes, stream: BinaryIO, source: str, patience_s: float = float("inf")) -> Iterator[Block]:
    """Yield a text in blocks of about CHUNK_BYTES.

    Parameters: `head`, its first bytes, already taken from `stream`; `patience_s`, a block that has not filled for so
    long is yielded as it is as soon as more bytes arrive.
    Raises InputError where the text is no text: UTF-16, or without a line end for longer than LINE_BYTES_MAX.
    """
    if head.startswith(_UTF16_MARKS):
        raise InputError(f"{source}: is UTF-16; convert it, for example with `iconv -f UTF-16 -t UTF-8`")
    pending = [head.removeprefix(_UTF8_MARK)]
    size, limit, line = len(pending[0]), CHUNK_BYTES, 1
    began = time.monotonic()
    # Reading up to the limit and not beyond, the blocks of a file do not depend on how many bytes each read gives.
    while data := stream.read1(max(limit - size, 1)):  # type: ignore[attr-defined] # buffered and Arrow's streams have it
        pending.append(data)
        size += len(data)
        if size < limit and time.monotonic() - began < patience_s:
            continue
        text = b"".join(pending)
        end = text.rfind(b"\n") + 1
        if size - end > LINE_BYTES_MAX:
            number = line + text.count(b"\n")
            raise InputError(
                f"{source}: line {number} does not end within {LINE_BYTES_MAX >> 20} MiB; is the file no text?"
            )
        if end:
            yield Block(text[:end], line)
            line += text.count(b"\n")
            began = time.monotonic()
        pending, size = [text[end:]], size - end
        limit = CHUNK_BYTES * (size // CHUNK_BYTES + 1)
    if size:
        yield Block(b"".join(pending), line)


class LineReader:
    """Turns the blocks of one text, in order, into rows for the table in which its lines land.

    Rows lack the columns that name the source.
    Parameters: `is_csv`, whether the lines are CSV under a header; else each is JSON.
    """

    def __init__(self, source: str, *, is_csv: bool) -> None:
        self.table = "flow_csv_lines" if is_csv else "flow_json_lines"
        self.header: Header | None = None
        self._source = source
        self._is_csv = is_csv

    def rows(self, block: Block) -> pa.Table:
        """Return a block's lines and what belongs to them; the header, and what is blank before it, are none of them.

        Raises InputError where the header lacks a column.
        """
        if not self._is_csv:
            lines, position = _lines(block)
            return pa.table({"position": position, "line": lines})
        if self.header is None:
            self.header, block = _split_header(block, self._source)
        lines, position = _lines(block)
        columns = {"position": position, "line": lines}
        if self.header is not None:
            count, fields = len(lines), len(self.header.places)
            columns["width"] = pa.array(np.full(count, self.header.width, dtype=np.uint16))
            columns["places"] = pa.ListArray.from_arrays(
                np.arange(count + 1, dtype=np.int32) * fields,
                np.tile(np.array(self.header.places, dtype=np.uint16), count),
            )
        return pa.table(columns)


def _split_header(block: Block, source: str) -> tuple[Header | None, Block]:
    """Take the header off a block; there is none where the block holds blank lines only."""
    start, number = 0, block.first_line
    while start < len(block.text):
        end = block.text.find(b"\n", start) + 1 or len(block.text)
        text = block.text[start:end].decode("utf-8", "replace").strip()
        start, number = end, number + 1
        if text:
            names = _split_names(text)
            found = find_columns(names, source)
            places = tuple(found[name] + 1 if name in found else 0 for name in COLUMNS)
            return Header(len(names), places), Block(block.text[start:], number)
    return None, Block(b"", number)


def _lines(block: Block) -> tuple[pa.Array, pa.Array]:
    """Return a block's lines with their ends, binary[n] in the block's own memory, and their numbers, uint64[n]."""
    ends = np.flatnonzero(np.frombuffer(block.text, dtype=np.uint8) == ord("\n")) + 1
    if block.text and not block.text.endswith(b"\n"):
        ends = np.append(ends, len(block.text))
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    lines = pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(block.text)])
    return lines, pa.array(np.arange(len(ends), dtype=np.uint64) + block.first_line)


def _split_names(line: str) -> list[str]:
    """Return the names in a header line."""
    try:
        return next(csv.reader([line], skipinitialspace=True))
    except csv.Error:
        return line.split(",")
