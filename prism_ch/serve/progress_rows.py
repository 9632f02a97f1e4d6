"""Puts a row of progress first in the formats that have such rows, as ClickHouse does over HTTP."""

from __future__ import annotations

import json
import re

from prism_ch.store.handle import QueryCost

#: No text of a result holds the end of a line, so it is one row.
_ROW = re.compile(rb'^\{"progress":[^\n]*\n', re.MULTILINE)
_ROW_OF_RESULT = re.compile(rb'^\{"row":', re.MULTILINE)
#: How often a statement tells how far it is, in microseconds. Every 100 ms, as by default, is too seldom for a bar.
INTERVAL_US = 10_000


def has_progress(data: bytes) -> bool:
    """Check whether what a statement has written so far holds a whole row of progress."""
    return _ROW.search(data) is not None


def has_rows(data: bytes) -> bool:
    """Check whether what a statement has written so far holds a row of its result."""
    return _ROW_OF_RESULT.search(data) is not None


def progress_first(data: bytes) -> bytes:
    """Begin the first piece of a result with its first row of progress.

    The engine writes it at the moment it is due, which may be after the first rows. Where it is not among them, what
    has been read is not known yet, and told as nothing.
    """
    found = _ROW.search(data)
    if found is None:
        return _row(QueryCost()) + data
    return found[0] + data[: found.start()] + data[found.end() :]


def progress_of_whole(data: bytes, cost: QueryCost) -> bytes:
    """Return a whole result with one row of progress, at its beginning."""
    return _row(cost) + _ROW.sub(b"", data)


def _row(cost: QueryCost) -> bytes:
    read = {
        "read_rows": str(cost.rows), "read_bytes": str(cost.bytes), "total_rows_to_read": str(cost.rows),
        "elapsed_ns": str(int(cost.elapsed_s * 1e9)),
    }  # fmt: skip
    return json.dumps({"progress": read}, separators=(",", ":")).encode() + b"\n"
