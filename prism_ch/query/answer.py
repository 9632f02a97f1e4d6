"""Runs a checked statement on a connection of its own; ClickHouse itself writes the result in the format asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from prism_ch.errors import StoreError, UsageError
from prism_ch.query.gate import SyntaxUsageError, scope
from prism_ch.query.question import Limits, Question
from prism_ch.store.client import Store
from prism_ch.store.statements import statement

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

#: Errors, by ClickHouse's number, that count what was read before rows were filtered: what to tell a tenant instead.
LIMITS_PASSED = {
    158: "the statement reads too many rows; ask for fewer jobs or a shorter time",
    159: "the statement took too long; ask for less",
    160: "the statement would take too long; ask for less",
    241: "the statement needs too much memory; ask for less",
    307: "the statement reads too much; ask for fewer columns or a shorter time",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A result as text: the columns' names and ClickHouse types, and rows as ClickHouse prints them; None is NULL."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


def page(rows: int | None, first_row: int = 0) -> dict[str, str]:
    """Return the settings that cut so many rows from a result, from this one on, counted from 0; None is all."""
    return ({} if rows is None else {"limit": str(rows)}) | ({"offset": str(first_row)} if first_row else {})


def answer_bytes(
    store: Store,
    sql: str,
    file_format: FileFormat,
    *,
    tenant: str | None = None,
    settings: Mapping[str, str] | None = None,
    mark: str = "",
) -> bytes:
    """Return the result of a statement as a file: CSV with header, one JSON object a line, Arrow IPC or Parquet.

    Parameters: `tenant`, whose rows the statement may see, None for an operator, who sees all; `settings`, as of
    question(); `mark`, by which following.followed() knows the statement.
    Raises UsageError where the statement does more than read, StoreError where the engine refuses it.
    """
    asked = _plain(question(store, sql, tenant=tenant, settings=settings))
    return run(store, asked, ENGINE_FORMATS[file_format], mark=mark)


def answer(
    store: Store, sql: str, *, tenant: str | None = None, settings: Mapping[str, str] | None = None, mark: str = ""
) -> Answer:
    """Return the result of a statement as text to lay out; parameters and errors as of answer_bytes()."""
    asked = _plain(question(store, sql, tenant=tenant, settings=settings))
    lines = run(store, asked, "JSONCompactStringsEachRowWithNamesAndTypes", mark=mark).decode(errors="replace")
    names, types, *rows = (json.loads(line) for line in lines.removesuffix("\n").split("\n"))
    return Answer(
        tuple(names), tuple(types), tuple(tuple(None if value == _NULL else value for value in row) for row in rows)
    )


def question(
    store: Store,
    sql: str,
    *,
    tenant: str | None = None,
    limits: Limits | None = None,
    settings: Mapping[str, str] | None = None,
) -> Question:
    """Check a statement as gate.scope() does, and that the engine reads the same in it; parameters are the same.

    Raises UsageError as scope() does; the words for a syntax error are ClickHouse's own.
    """
    try:
        asked = scope(sql, store.database, tenant=tenant, limits=limits, settings=settings)
    except SyntaxUsageError as error:
        _engine_reading(store, sql)
        raise UsageError(
            f"ClickHouse can read the statement, but it could not be looked into, so it isn't run: {error}"
        ) from error
    scope(_engine_reading(store, asked.text), store.database, tenant=tenant)
    return asked


def run(
    store: Store,
    asked: Question,
    engine_format: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    mark: str = "",
) -> bytes:
    """Return the result of a checked statement in a format of ClickHouse's, given by its name.

    Raises StoreError with ClickHouse's own words; to a tenant it does not tell what was read of others.
    """
    with prepared(store, asked, mark=mark) as connection:
        try:
            return connection.raw(asked.text, parameters, fmt=engine_format)
        except StoreError as error:
            _tell(error, asked, f"{connection.location}: ")


@contextmanager
def prepared(store: Store, asked: Question, *, mark: str = "") -> Iterator[Store]:
    """Open a connection of its own that has a checked statement's settings, for a block that runs just that."""
    with store.another() as connection:
        _prepare(connection, asked, mark)
        yield connection


def _prepare(connection: Store, asked: Question, mark: str) -> None:
    """Apply a statement's settings to a connection, and its mark."""
    if asked.tenant is not None and connection.cluster:
        raise StoreError("on a cluster a tenant's rows are not filtered from here; give --url the tenant's own user")
    # A user whom the server already holds to reading may not even say so again.
    mode = connection.client.server_settings.get("readonly")
    if mode is not None and mode.value == "1":
        if asked.tenant is not None:
            raise StoreError(
                "this user's settings are fixed, so rows can't be filtered; give --url the tenant's own user"
            )
        return
    if mark:
        connection.client.set_client_setting("log_comment", mark)
    for name, value in asked.settings.items():
        connection.client.set_client_setting(name, value)


def _tell(error: StoreError, asked: Question, prefix: str) -> NoReturn:
    """Raise an engine's error in words that the asker may read; a tenant need not know where the database is."""
    if asked.tenant is None:
        raise error
    code = getattr(error.__cause__, "code", None)
    text = LIMITS_PASSED.get(code or 0) or str(error).removeprefix(prefix)
    raise StoreError(text) from error.__cause__


def _engine_reading(store: Store, sql: str) -> str:
    """Return a statement as the engine reads and would write it; nothing is run.

    Raises UsageError, in one line, where the engine can't read it.
    """
    try:
        return str(store.scalar(statement("normal_form"), {"sql": sql}))
    except StoreError as error:
        text = re.sub(r"^.*?(?=Syntax error)", "", str(error).removeprefix(f"{store.location}: "))
        text = re.split(r"[.:]? (?:Expected one of|In scope SELECT)\b", text)[0].rstrip(". ")
        raise UsageError(f"the statement can't be read: {text}") from error


def _plain(asked: Question) -> Question:
    """Refuse a FORMAT clause where the format is chosen otherwise."""
    if asked.format is not None:
        raise UsageError("leave out FORMAT; choose the format with --format")
    return asked
