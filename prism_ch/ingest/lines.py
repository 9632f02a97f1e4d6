"""Splits text into chunks of lines or JSON objects, which the database parses."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from prism_ch.errors import InputError
from prism_ch.ingest.columns import COLUMNS, constant, find_columns, find_fields, split_names

#: Text sent in one statement, in bytes; about 300,000 records.
CHUNK_BYTES = 32 << 20
#: Lines sent in one statement: the engine needs more memory for a short line than the line has bytes.
CHUNK_LINES = 1 << 19
#: A file with a longer line, in bytes, is no text of flows, whose lines have some 200 to 2,000: the engine needs many
#: times the memory of a line for its fields.
LINE_BYTES_MAX = 2 << 20

#: The byte order mark with which UTF-8 text may begin.
UTF8_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
#: The end of a JSON object, possibly of several lines: before a line that opens one, after a line that closes one.
_OBJECT_ENDS = re.compile(rb"^(?=[ \t\[,]*\{)|^[ \t]*\}.*\n|^[ \t\[,]*\{.*\}[ \t,\]\r]*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a text. Only the last line of the text may lack its end."""

    text: bytes
    first_line: int


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a CSV file.

    `width` counts the fields of a line; `places` are the positions in it, from 1, of COLUMNS, or of a collector's
    FIELDS, and 0 for missing ones.
    """

    width: int
    places: tuple[int, ...]


def end_of_lines(text: bytes) -> int:
    """Return the end of the last whole line of a text."""
    return text.rfind(b"\n") + 1


def end_of_objects(text: bytes) -> int:
    """Return the end of the last whole JSON object: where a line opens the next."""
    return max(text.rfind(b"\n{"), text.rfind(b"\n[")) + 1


def read_blocks(
    head: bytes,
    stream: BinaryIO,
    source: str,
    timeout_s: float = float("inf"),
    end_of: Callable[[bytes], int] = end_of_lines,
) -> Iterator[Block]:
    """Yield a text in blocks of about CHUNK_BYTES, or of at most CHUNK_LINES short lines.

    Parameters: `head`, its first bytes, already read from `stream`; `timeout_s`, an older block is yielded before it is
    full, as soon as more bytes arrive; `end_of`, returns where a block may end.
    Raises InputError if the text is UTF-16, or a line is longer than LINE_BYTES_MAX.
    """
    if head.startswith(_UTF16_BOMS):
        raise InputError(f"{source}: is UTF-16; convert it, for example with `iconv -f UTF-16 -t UTF-8`")
    pending = [head.removeprefix(UTF8_BOM)]
    size, limit, line = len(pending[0]), CHUNK_BYTES, 1
    began = time.monotonic()
    # Never read beyond the limit, so that the blocks of a file do not depend on how many bytes a read returns.
    while data := stream.read1(max(limit - size, 1)):  # type: ignore[attr-defined] # buffered and Arrow's streams have it
        pending.append(data)
        size += len(data)
        if size < limit and time.monotonic() - began < timeout_s:
            continue
        text = b"".join(pending)
        end = end_of(text)
        if size - end > LINE_BYTES_MAX:
            number = line + text.count(b"\n")
            raise InputError(
                f"{source}: line {number} does not end within {LINE_BYTES_MAX >> 20} MiB; is the file no text?"
            )
        if end:
            yield from _split_lines(Block(text[:end], line), end_of)
            line += text.count(b"\n")
            began = time.monotonic()
        pending, size = [text[end:]], size - end
        limit = CHUNK_BYTES * (size // CHUNK_BYTES + 1)
    if size:
        yield from _split_lines(Block(b"".join(pending), line), end_of)


def _split_lines(block: Block, end_of: Callable[[bytes], int]) -> Iterator[Block]:
    lines = block.text.count(b"\n")
    half = end_of(block.text[: len(block.text) // 2]) if lines > CHUNK_LINES else 0
    if not half:
        yield block
        return
    first, second = block.text[:half], block.text[half:]
    yield from _split_lines(Block(first, block.first_line), end_of)
    yield from _split_lines(Block(second, block.first_line + first.count(b"\n")), end_of)


class LineReader:
    """Converts the blocks of one text to rows of the table in which its lines land.

    Parameters: `is_csv`, whether the lines are CSV with a header, else they are JSON; `collector`, the tool that wrote
    them, empty if they have the canonical names.
    """

    def __init__(self, source: str, *, is_csv: bool, collector: str = "") -> None:
        json_table = f"{collector}_lines" if collector else "flow_json_lines"
        self.table = "flow_csv_lines" if is_csv else json_table
        self.header: Header | None = None
        #: Only nfdump writes objects over several lines.
        self.end_of = end_of_objects if collector == "nfdump" and not is_csv else end_of_lines
        self._source = source
        self._is_csv = is_csv
        self._collector = collector

    def rows(self, block: Block) -> pa.Table:
        """Convert a block without its header to rows, without the columns that name the source.

        Raises InputError if the header lacks a column, or a line is longer than LINE_BYTES_MAX.
        """
        if self._is_csv and self.header is None:
            self.header, block = self._split_header(block)
        lines, position = _objects(block) if self.end_of is end_of_objects else _lines(block)
        if len(lines) and pc.max(pc.binary_length(lines)).as_py() > LINE_BYTES_MAX:
            number = position[pc.index(pc.greater(pc.binary_length(lines), LINE_BYTES_MAX), True).as_py()]
            raise InputError(f"{self._source}: line {number} is longer than {LINE_BYTES_MAX >> 20} MiB")
        columns = {"position": position, "line": lines}
        if self.header is not None:
            count, fields = len(lines), len(self.header.places)
            columns["collector"] = constant(self._collector, count)
            columns["width"] = pa.array(np.full(count, self.header.width, dtype=np.uint16))
            columns["places"] = pa.ListArray.from_arrays(
                np.arange(count + 1, dtype=np.int32) * fields,
                np.tile(np.array(self.header.places, dtype=np.uint16), count),
            )
        return pa.table(columns)

    def _split_header(self, block: Block) -> tuple[Header | None, Block]:
        """Split a block into header and rest. The header is None if all lines are blank."""
        start, number = 0, block.first_line
        while start < len(block.text):
            end = block.text.find(b"\n", start) + 1 or len(block.text)
            text = block.text[start:end].decode("utf-8", "replace").strip()
            start, number = end, number + 1
            if text:
                names = split_names(text)
                return Header(len(names), self._places(names)), Block(block.text[start:], number)
        return None, Block(b"", number)

    def _places(self, names: list[str]) -> tuple[int, ...]:
        if self._collector:
            return find_fields(names, self._collector, self._source)
        found = find_columns(names, self._source)
        return tuple(found[name] + 1 if name in found else 0 for name in COLUMNS)


def _lines(block: Block) -> tuple[pa.Array, pa.Array]:
    """Split a block into lines, binary[n] in the block's memory, and their numbers, uint64[n]."""
    ends = np.flatnonzero(np.frombuffer(block.text, dtype=np.uint8) == ord("\n")) + 1
    if block.text and not block.text.endswith(b"\n"):
        ends = np.append(ends, len(block.text))
    return _cut(block, ends), pa.array(np.arange(len(ends), dtype=np.uint64) + block.first_line)


def _objects(block: Block) -> tuple[pa.Array, pa.Array]:
    """Split a block into JSON objects and what is between, with their first lines' numbers."""
    found = {match.end() for match in _OBJECT_ENDS.finditer(block.text)} | {len(block.text)}
    ends = np.array(sorted(found - {0}), dtype=np.int64)
    line_ends = np.flatnonzero(np.frombuffer(block.text, dtype=np.uint8) == ord("\n")) + 1
    begins = np.concatenate([[0], ends[:-1]])
    numbers = np.searchsorted(line_ends, begins, side="right").astype(np.uint64) + block.first_line
    return _cut(block, ends), pa.array(numbers)


def _cut(block: Block, ends: npt.NDArray[np.int64]) -> pa.Array:
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(block.text)])
