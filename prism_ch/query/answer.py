"""Runs a checked statement on a connection of its own; ClickHouse itself writes the result in any format."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from threading import Event, Thread
from typing import Any, Literal
from uuid import uuid4

from prism_ch.errors import StoreError, UsageError
from prism_ch.query.checked import CheckedStatement, Limits
from prism_ch.query.gate import UNREADABLE, SyntaxUsageError, scope
from prism_ch.query.opaque import without_seen_conditions
from prism_ch.query.shape import in_even_blocks, with_names
from prism_ch.query.shown import as_shown
from prism_ch.store.client import Store
from prism_ch.store.statements import statement

log = logging.getLogger(__name__)

FileFormat = Literal["csv", "json", "arrow", "parquet"]

#: What a format is called in ClickHouse.
ENGINE_FORMATS: dict[FileFormat, str] = {
    "csv": "CSVWithNames",
    "json": "JSONEachRow",
    "arrow": "Arrow",
    "parquet": "Parquet",
}
BINARY_FORMATS = frozenset({"arrow", "parquet"})

_MAY_HAVE_CONDITIONS = re.compile(r"\(|DESCRIBE|SELECT|WITH")

#: How ClickHouse writes NULL among strings.
_NULL = "ᴺᵁᴸᴸ"

#: Messages for a tenant instead of those errors, by ClickHouse's code, that count what was read of other tenants too.
LIMIT_MESSAGES = {
    158: "the statement reads too many rows; ask for fewer jobs or a shorter time",
    159: "the statement took too long; ask for less",
    160: "the statement would take too long; ask for less",
    241: "the statement needs too much memory; ask for less",
    307: "the statement reads too much; ask for fewer columns or a shorter time",
}

#: What the engine adds to an error: how it runs the statement, with the row filter and marks of what it has read.
_PLAN = re.compile(r"[:.]? ?while (?:executing|processing) .*", re.IGNORECASE | re.DOTALL)

#: Progress is read after this time and then at this interval, in seconds: a short statement needs no connection more.
_FIRST_PROGRESS_S, _PROGRESS_INTERVAL_S = 0.5, 0.25


@dataclass(frozen=True, slots=True)
class Answer:
    """A result as text: names and ClickHouse types of the columns, and rows as ClickHouse prints them; None is NULL."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


def page(rows: int | None, first_row: int = 0) -> dict[str, str]:
    """Return the settings that cut a page out of a result. `rows` None is all, `first_row` counts from 0."""
    return ({} if rows is None else {"limit": str(rows)}) | ({"offset": str(first_row)} if first_row else {})


def answer_bytes(
    store: Store,
    sql: str,
    file_format: FileFormat,
    *,
    tenant: str | None = None,
    settings: Mapping[str, str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    mark: str = "",
) -> bytes:
    """Run a statement and return its result as a file of a format.

    Parameters: `tenant`, whose rows the statement may see, None for an operator, who sees all; `settings`, as for
    check_statement(); `parameters`, values for `{name:Type}` in the text; `mark`, from track_progress().
    Raises UsageError if the statement does more than read, StoreError if the engine refuses it.
    """
    checked = _without_format(check_statement(store, sql, tenant=tenant, settings=settings))
    return run(store, checked, ENGINE_FORMATS[file_format], parameters, mark=mark)


def answer(
    store: Store,
    sql: str,
    *,
    tenant: str | None = None,
    settings: Mapping[str, str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    mark: str = "",
) -> Answer:
    """Run a statement and return its result as text to lay out; else as answer_bytes()."""
    checked = _without_format(check_statement(store, sql, tenant=tenant, settings=settings))
    lines = run(store, checked, "JSONCompactStringsEachRowWithNamesAndTypes", parameters, mark=mark).decode(
        errors="replace"
    )
    names, types, *rows = (json.loads(line) for line in lines.removesuffix("\n").split("\n"))
    return Answer(
        tuple(names), tuple(types), tuple(tuple(None if value == _NULL else value for value in row) for row in rows)
    )


def check_statement(
    store: Store,
    sql: str,
    *,
    tenant: str | None = None,
    limits: Limits | None = None,
    settings: Mapping[str, str] | None = None,
) -> CheckedStatement:
    """Check a statement as gate.scope() does, and the engine's own reading of it too.

    Raises UsageError as scope() does; the text of a syntax error is ClickHouse's own.
    """
    check = partial(scope, database=store.database, tenant=tenant, limits=limits, settings=settings)
    tree = partial(_syntax_tree, store)
    try:
        checked = check(sql)
    except SyntaxUsageError:
        # In ClickHouse's own form there are no comments, no odd strings, and every clause has its place.
        checked = check(_normal_form(store, sql), read_tree=tree)
        normal = checked.text
    else:
        written = _normal_form(store, checked.text)
        normal = scope(written, store.database, tenant=tenant, read_tree=tree).text
        if normal != written:
            checked = replace(checked, text=normal)
    shown = as_shown(checked.text, store.database)
    if shown == checked.text and tenant is not None and _MAY_HAVE_CONDITIONS.match(normal):
        return without_seen_conditions(checked, normal)
    return replace(checked, text=shown)


def run(
    store: Store,
    checked: CheckedStatement,
    engine_format: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    mark: str = "",
) -> bytes:
    """Run a checked statement and return its result in a format of ClickHouse.

    Raises StoreError with ClickHouse's own text, but for a tenant without anything about other tenants' rows.
    """
    with prepared(store, checked, mark=mark) as connection:
        try:
            text = with_names(
                checked.text, engine_format, partial(connection.raw, parameters=parameters, fmt="JSONEachRow")
            )
            if checked.tenant is not None:
                text = in_even_blocks(text, engine_format)
            return connection.raw(text, parameters, fmt=engine_format)
        except StoreError as error:
            raise _public_error(error, checked) from error.__cause__


@contextmanager
def prepared(store: Store, checked: CheckedStatement, *, mark: str = "") -> Iterator[Store]:
    """Open a connection with a checked statement's settings, for a block that runs nothing else."""
    with store.another() as connection:
        _apply_settings(connection, checked, mark)
        yield connection


@contextmanager
def track_progress(
    store: Store, report: Callable[[int, int], None] | None, is_abandoned: Callable[[], bool] | None = None
) -> Iterator[str]:
    """Report the progress of a statement, or cancel it, while a block runs it.

    Yields the mark to run the statement with; it is empty without both parameters.
    Parameters: `report`, takes rows read so far and rows to read, 0 if unknown; `is_abandoned`, whether nobody waits
    for the result any more, upon which the statement is cancelled.
    """
    if report is None and is_abandoned is None:
        yield ""
        return
    mark, ended = uuid4().hex, Event()

    def track() -> None:
        if ended.wait(_FIRST_PROGRESS_S):
            return
        try:
            with store.another() as connection:
                while not ended.wait(_PROGRESS_INTERVAL_S):
                    if is_abandoned is not None and is_abandoned():
                        connection.command(statement("end_statement"), {"mark": mark})
                    elif report is not None:
                        for rows, total in connection.rows(statement("statement_progress"), {"mark": mark}):
                            report(rows, total)
        except StoreError as error:  # a user of a server may lack the right, and reads no progress then
            log.debug("progress not tracked error=%r", error)

    tracker = Thread(target=track, name="track progress", daemon=True)
    tracker.start()
    try:
        yield mark
    finally:
        ended.set()
        tracker.join()


def _apply_settings(connection: Store, checked: CheckedStatement, mark: str) -> None:
    if checked.tenant is not None and connection.cluster:
        raise StoreError("on a cluster a tenant's rows are not filtered from here; give --url the tenant's own user")
    # A user whom the server already restricts to reading can't even set readonly again.
    mode = connection.client.server_settings.get("readonly")
    if mode is not None and mode.value == "1":
        if checked.tenant is not None:
            raise StoreError(
                "this user's settings are fixed, so rows can't be filtered; give --url the tenant's own user"
            )
        return
    if mark:
        connection.client.set_client_setting("log_comment", mark)
    for name, value in checked.settings.items():
        connection.client.set_client_setting(name, value)


def _public_error(error: StoreError, checked: CheckedStatement) -> StoreError:
    """Return an error that the user may read. A tenant need not know where the database is."""
    if checked.tenant is None:
        return error
    return StoreError(LIMIT_MESSAGES.get(error.code, without_plan(error.reason)), code=error.code)


def without_plan(reason: str) -> str:
    """Return the engine's error without how it runs the statement, which depends on others' rows."""
    return _PLAN.sub("", reason)


def _normal_form(store: Store, sql: str) -> str:
    """Return a statement as the engine reads and would write it; nothing is run.

    What its strings hold that is no text, or might be read as something else, is escaped.
    Raises SyntaxUsageError, in one line, if the engine can't read it.
    """
    try:
        written = store.raw(statement("normal_form"), {"sql": sql}, fmt="TSVRaw")
        text = written.decode(errors="backslashreplace").removesuffix("\n")
        return UNREADABLE.sub(lambda found: "".join(f"\\x{byte:02x}" for byte in found[0].encode()), text)
    except StoreError as error:
        if not error.code:
            raise
        text = re.sub(r"^.*?(?=Syntax error)", "", error.reason)
        text = re.split(r"[.:]? (?:Expected one of|In scope SELECT)\b", text)[0].rstrip(". ")
        raise SyntaxUsageError(f"the statement can't be read: {text}") from error


def _syntax_tree(store: Store, sql: str) -> str:
    """Return the engine's syntax tree of a statement, a line a node."""
    return store.raw(f"EXPLAIN AST {sql}", fmt="TSVRaw").decode()


def _without_format(checked: CheckedStatement) -> CheckedStatement:
    if checked.format is not None:
        raise UsageError("leave out FORMAT; choose the format with --format")
    return checked
