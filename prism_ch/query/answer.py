"""Runs a checked statement read-only; ClickHouse itself writes the result in the format asked for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from prism_ch.query.gate import check
from prism_ch.store.client import Store

FileFormat = Literal["csv", "json", "arrow", "parquet"]

#: What a format is called in ClickHouse.
ENGINE_FORMATS: dict[FileFormat, str] = {
    "csv": "CSVWithNames",
    "json": "JSONEachRow",
    "arrow": "Arrow",
    "parquet": "Parquet",
}
BINARY_FORMATS = frozenset({"arrow", "parquet"})

#: How ClickHouse writes NULL among strings.
_NULL = "ᴺᵁᴸᴸ"


@dataclass(frozen=True, slots=True)
class Answer:
    """A result as text: the columns' names and ClickHouse types, and rows as ClickHouse prints them; None is NULL."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


def answer_bytes(store: Store, sql: str, file_format: FileFormat) -> bytes:
    """Return the result of a statement as a file: CSV with header, one JSON object a line, Arrow IPC or Parquet.

    Raises UsageError where the statement does more than read, StoreError where the engine refuses it.
    """
    return _ask(store, sql, ENGINE_FORMATS[file_format])


def answer(store: Store, sql: str) -> Answer:
    """Return the result of a statement as text to lay out; raises as answer_bytes()."""
    lines = _ask(store, sql, "JSONCompactStringsEachRowWithNamesAndTypes").decode(errors="replace")
    names, types, *rows = (json.loads(line) for line in lines.removesuffix("\n").split("\n"))
    return Answer(
        tuple(names), tuple(types), tuple(tuple(None if value == _NULL else value for value in row) for row in rows)
    )


def _ask(store: Store, sql: str, engine_format: str) -> bytes:
    """Check a statement and run it in the engine's read-only mode."""
    statement = check(sql, store.database)
    # A user whom the server already holds to reading may not even say so again.
    mode = store.client.server_settings.get("readonly")
    if mode is None or mode.value == "0":
        store.client.set_client_setting("readonly", "1")
    return store.raw(statement, fmt=engine_format)
