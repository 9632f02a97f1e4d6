"""Forgets, before the engine starts, blocks that it noted as written and did not write before it was killed.

A table with a deduplication window keeps a log of the blocks that it has. ClickHouse 26.9 adds a line to it, and then
renames the block's part to its final name. A process that is killed between the two leaves a line without a part: the
statement is repeated, taken for one that was done, and the rows of that one table are missing for good.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

#: Where an Atomic database keeps the logs of its tables.
_LOGS = "store/*/*/deduplication_logs"
#: Operation, part and block.
_LINE = re.compile(rb"(\d)\t([\w-]+)\t[^\t\n]+\n")
_ADD = b"1"


class _Blocks(NamedTuple):
    """The numbers of the blocks, of one partition, that a part holds."""

    partition: str
    first: int
    last: int


def forget_unwritten_blocks(folder: Path) -> int:
    """Cut lines without a part off the logs of a database's folder.

    Nobody may have it open. Returns the number of lines. Raises OSError if a log can't be read or cut.
    """
    return sum(_forget(logs) for logs in folder.glob(_LOGS))


def _forget(logs: Path) -> int:
    """Cut off the lines at the end of one table's logs that have no part.

    All others were followed by a rename: one lock of the table is held for both.
    """
    parts = [part for entry in os.scandir(logs.parent) if (part := _blocks(entry.name))]
    forgotten = 0
    for path in sorted(logs.glob("deduplication_log_*.txt"), key=_number, reverse=True):
        lines = path.read_bytes().splitlines(keepends=True)
        kept = len(lines)
        while kept and not _has_part(lines[kept - 1], parts):
            kept -= 1
        forgotten += len(lines) - kept
        if kept < len(lines):
            os.truncate(path, sum(map(len, lines[:kept])))
        if kept:
            break
    return forgotten


def _has_part(line: bytes, parts: list[_Blocks]) -> bool:
    """Check whether a line's part is there, or one that it was merged into.

    A line that a power cut has torn has none; one that notes a part's removal needs none.
    """
    found = _LINE.fullmatch(line)
    block = _blocks(found[2].decode()) if found else None
    if found is None or block is None:
        return False
    return found[1] != _ADD or any(
        part.partition == block.partition and part.first <= block.first and block.last <= part.last for part in parts
    )


def _number(path: Path) -> int:
    return int(path.stem.rpartition("_")[2])


def _blocks(name: str) -> _Blocks | None:
    """Read a part's name, `partition_first_last_level[_mutation]`; None for other names."""
    partition, *numbers = name.split("_")
    if len(numbers) not in {3, 4} or not all(number.isdecimal() for number in numbers):
        return None
    return _Blocks(partition, int(numbers[0]), int(numbers[1]))
