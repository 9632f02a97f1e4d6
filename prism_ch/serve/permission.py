"""Decides what statements a user may run, and with which settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from prism_ch.errors import UsageError
from prism_ch.ingest.landing import LANDING_SETTINGS
from prism_ch.query.allowed import FORMATS, SETTABLE
from prism_ch.query.answer import LIMIT_MESSAGES, check_statement, without_plan
from prism_ch.query.checked import CheckedStatement, limits_of
from prism_ch.query.gate import SyntaxUsageError
from prism_ch.query.shape import COUNTING_FORMATS
from prism_ch.query.shown import as_shown
from prism_ch.query.tenancy import REVEALING_FORMATS, REVEALING_SETTINGS
from prism_ch.serve.engine import Engine
from prism_ch.serve.progress_rows import INTERVAL_US
from prism_ch.serve.request import (
    Insert,
    RequestError,
    SqlRequest,
    first_word,
    is_query,
    without_format,
    writes_file,
)
from prism_ch.serve.users import User
from prism_ch.store.client import Store
from prism_ch.store.handle import EngineError, Handle, Statement, array_of
from prism_ch.store.statements import statement

#: A statement's text, the tenant, and the settings of the URL.
_Key = tuple[str, str | None, tuple[tuple[str, str], ...]]

_REMEMBERED_MAX, _REMEMBERED_LENGTH_MAX = 1000, 10_000
_DEFAULT_FORMAT = "TabSeparated"
_WITHOUT_FORMAT = frozenset({"EXPLAIN", "SHOW"})
#: Clients know ClickHouse's own default database by this name; here it is the one with the tables.
_DEFAULT_DATABASE = "default"

#: The parts of clickhouse-connect's first statement that some of its versions leave out.
_SETTINGS_QUERY_OPTIONS = re.compile(r"(?<=\breadonly)\s+as\s+readonly\b|\s+limit\s+\d+$", re.IGNORECASE)

#: Codes of errors that are found before a row is read, or name only what was asked for.
_HARMLESS_ERRORS = frozenset({36, 42, 43, 46, 47, 60, 62, 73, 164, 215, 386, 394, 396, 456, 457})

#: The tables that records land in, whose views check and count them.
LANDING_TABLES = frozenset({"flow_landing", "flow_json_lines", "goflow2_lines", "pmacct_lines"})
#: Columns with the time and the file in which a record came, which a collector can't know.
_OWN_COLUMNS = ("landing", "received_at")
#: Formats whose rows are nothing but data: `Values` evaluates expressions, those with a schema read it from a file.
_TEXT_FORMATS = frozenset({
    "CSV", "CSVWithNames", "CSVWithNamesAndTypes", "JSONCompactEachRow", "JSONCompactEachRowWithNames",
    "JSONCompactEachRowWithNamesAndTypes", "JSONEachRow", "JSONLines", "LineAsString", "NDJSON", "TSV", "TSVWithNames",
    "TSVWithNamesAndTypes", "TabSeparated", "TabSeparatedWithNames", "TabSeparatedWithNamesAndTypes",
})  # fmt: skip
_ROW_FORMATS = _TEXT_FORMATS | {
    "Arrow", "ArrowStream", "Native", "Parquet", "RowBinary", "RowBinaryWithNames", "RowBinaryWithNamesAndTypes",
}  # fmt: skip
_NAME = r"(?:`(\w+)`|\"(\w+)\"|(\w+))"
_COLLECTOR_INSERT = re.compile(
    rf"\s*INSERT\s+INTO\s+(?:TABLE\s+)?(?:{_NAME}\s*\.\s*)?{_NAME}\s*(?:\(([\w\s,`\"]*)\))?\s*",
    re.IGNORECASE | re.ASCII,
)
_DESCRIBE = re.compile(
    rf"\s*(?:DESC|DESCRIBE)\s+(?:TABLE\s+)?(?:{_NAME}\s*\.\s*)?{_NAME}[\s;]*", re.IGNORECASE | re.ASCII
)
_TOKEN = "insert_deduplication_token"  # noqa: S105 - the name of a setting


@dataclass(frozen=True, slots=True)
class Permitted:
    """A reading statement that may run, with all settings of its handle."""

    statement: Statement
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PermittedInsert:
    """An INSERT that may run: its text, the format of its rows, and its settings."""

    text: str
    format: str
    settings: Mapping[str, str]
    #: Whether its rows are lines of a collector's text.
    is_text: bool = False


def permitted_database(request: SqlRequest, user: User, own: str) -> str:
    """Return the database of a request. Only an operator may name another than the endpoint's."""
    if request.database in {"", _DEFAULT_DATABASE, own}:
        return own
    if user.role != "operator":
        raise RequestError("UNKNOWN_DATABASE", f"Database {request.database[:80]} does not exist; use {own}")
    return request.database


class Gate:
    """Checks reading statements, and remembers those that passed, since clients repeat them."""

    def __init__(self, store: Store, statement_bytes: int) -> None:
        """Take a connection that analyses statements and runs none.

        Parameters: `statement_bytes`, how much memory one statement may use.
        """
        self._store = store
        self._statement_bytes = statement_bytes
        self._passed: dict[_Key, CheckedStatement] = {}

    async def permit(self, text: str, request: SqlRequest, user: User, engine: Engine) -> Permitted:
        """Permit a statement that reads only what the user may read; operators may read everything.

        Raises RequestError.
        """
        body, result_format, at_end = without_format(text)
        if user.role == "operator":
            chosen = result_format or request.format or _DEFAULT_FORMAT
            body = as_shown(body, self._store.database)
            settings = {**_pace_of(chosen), **request.settings}
            return Permitted(Statement(body, chosen, request.parameters, at_end), settings)
        if is_settings_query(body):
            return _settings_query(result_format or request.format, user)
        if user.role == "collector":
            return _collector_question(body, result_format or request.format, self._store.database)
        # Clients append FORMAT to everything, also where the gate does not accept it.
        text = body if first_word(text) in _WITHOUT_FORMAT else text
        key = (text, user.tenant, tuple(request.settings.items()))
        passed = self._passed.get(key)
        if passed is None:
            passed = await engine.run(partial(self._check, key))
        chosen = passed.format or result_format or request.format or _DEFAULT_FORMAT
        if chosen not in FORMATS or (user.tenant is not None and chosen in REVEALING_FORMATS):
            raise RequestError("UNKNOWN_FORMAT", f"The format {chosen} is not offered")
        settings = {**_pace_of(chosen), **passed.settings}
        if user.tenant is not None and chosen in COUNTING_FORMATS:
            settings = {"exact_rows_before_limit": "1", **settings}
        return Permitted(Statement(passed.text, chosen, request.parameters), settings)

    def _check(self, key: _Key) -> CheckedStatement:
        text, tenant, settings = key
        usual = limits_of(tenant)
        limits = replace(usual, memory_bytes=min(usual.memory_bytes, self._statement_bytes))
        try:
            passed = check_statement(self._store, text, tenant=tenant, limits=limits, settings=dict(settings))
        except SyntaxUsageError as error:
            raise RequestError("SYNTAX_ERROR", str(error)) from error
        except UsageError as error:
            raise RequestError("ACCESS_DENIED", str(error)) from error
        if len(self._passed) >= _REMEMBERED_MAX:
            self._passed.clear()
        if len(text) <= _REMEMBERED_LENGTH_MAX:
            self._passed[key] = passed
        return passed


def _pace_of(result_format: str) -> dict[str, str]:
    """Have a statement report its progress often, where its format shows it."""
    return {"interactive_delay": str(INTERVAL_US)} if result_format in REVEALING_FORMATS else {}


def is_settings_query(text: str) -> bool:
    """Return whether a statement is clickhouse-connect's first one, which everyone may run.

    After it, the client sends only settings that are not read-only.
    """
    return is_query(_SETTINGS_QUERY_OPTIONS.sub("", text.strip().rstrip(";")), "client_settings")


def _settings_query(result_format: str, user: User) -> Permitted:
    """Answer the settings query: settings that this user can't change are read-only."""
    fixed = REVEALING_SETTINGS if user.tenant is not None else frozenset()
    parameters = {"changeable": array_of(sorted(SETTABLE.keys() - fixed))}
    offered = Statement(statement("offered_settings"), result_format or _DEFAULT_FORMAT, parameters)
    return Permitted(offered, {"readonly": "1"})


def _collector_question(text: str, result_format: str, own: str) -> Permitted:
    """Answer what a client asks before it inserts. It is the server's version, and a landing table's columns."""
    chosen, settings = result_format or _DEFAULT_FORMAT, {"readonly": "1"}
    if is_query(text.strip().rstrip(";"), "client_version"):
        return Permitted(Statement(statement("client_version"), chosen), settings)
    found = _DESCRIBE.fullmatch(text)
    named, table = (next(filter(None, found.groups()[at : at + 3]), "") for at in (0, 3)) if found else ("", "")
    if table not in LANDING_TABLES or named not in {"", own}:
        raise RequestError("ACCESS_DENIED", f"A collector may only DESCRIBE {', '.join(sorted(LANDING_TABLES))}")
    parameters = {"table": table, "own": array_of(_OWN_COLUMNS)}
    return Permitted(Statement(statement("describe_landing"), chosen, parameters), settings)


def check_alone(handle: Handle, text: str) -> None:
    """Refuse several statements, and one that writes a file of the service's machine.

    The engine would run all of them, and no setting keeps it from writing files. Raises RequestError, EngineError.
    """
    # Words and semicolons have no escapes, but they stand in texts and comments too: only the engine tells.
    if (";" in text or "OUTFILE" in text.upper()) and writes_file(handle.as_read(text)):
        raise RequestError("INTO_OUTFILE_NOT_ALLOWED", "INTO OUTFILE is not allowed: the answer is the result")


def permit_command(user: User, method: str) -> None:
    """Raise RequestError unless a user's statement may change something."""
    if user.role != "operator":
        raise RequestError("ACCESS_DENIED", "Only reading statements are allowed")
    if method != "POST":
        text = "Cannot execute query in readonly mode. For queries over HTTP, method GET implies readonly"
        raise RequestError("READONLY", text)


def permit_insert(insert: Insert | None, request: SqlRequest, user: User, method: str, own: str) -> PermittedInsert:
    """Permit an operator any INSERT, a collector those into landing tables; raises RequestError."""
    if user.role == "collector":
        permitted_database(request, user, own)
        return collector_insert(insert, request.settings, user.name, own)
    permit_command(user, method)
    if insert is None:
        raise RequestError("ACCESS_DENIED", "There is no INSERT")
    return PermittedInsert(insert.text, insert.format or request.format or "Values", request.settings)


def collector_insert(insert: Insert | None, settings: Mapping[str, str], user: str, database: str) -> PermittedInsert:
    """Write a collector's INSERT anew, using only the names in it.

    Parameters: `settings` of the URL; only the deduplication token counts.
    Raises RequestError unless it inserts rows into a landing table.
    """
    found = _COLLECTOR_INSERT.fullmatch(insert.text) if insert else None
    tables = ", ".join(sorted(LANDING_TABLES))
    if insert is None or found is None:
        raise RequestError("ACCESS_DENIED", f"A collector may only INSERT rows INTO {tables}")
    *names, columns = found.groups()
    named, table = (next(filter(None, names[at : at + 3]), "") for at in (0, 3))
    if table not in LANDING_TABLES or named not in {"", database}:
        raise RequestError("ACCESS_DENIED", f"A collector may not insert into {table[:80]}, only into {tables}")
    if insert.format not in _ROW_FORMATS:
        formats = ", ".join(sorted(_ROW_FORMATS))
        raise RequestError("ACCESS_DENIED", f"Rows can't come as {insert.format[:40]}; use one of {formats}")
    given = {name: str(value) for name, value in LANDING_SETTINGS.items()}
    if settings.get(_TOKEN):
        # Prefixed, so that it never equals the token of a file or of another collector.
        given[_TOKEN] = f"http {user} {settings[_TOKEN]}"
    is_text = insert.format in _TEXT_FORMATS
    return PermittedInsert(f"INSERT INTO `{table}` ({_collector_columns(columns)})", insert.format, given, is_text)


def _collector_columns(columns: str | None) -> str:
    if columns is None or not columns.strip():
        return f"* EXCEPT({', '.join(_OWN_COLUMNS)})"
    names = [name.strip().strip('`"') for name in columns.split(",")]
    for name in names:
        if name in _OWN_COLUMNS or not re.fullmatch(r"\w+", name, re.ASCII):
            raise RequestError("ACCESS_DENIED", f"A collector can't fill the column {name[:80]}")
    return ", ".join(f"`{name}`" for name in names)


def public_error(error: EngineError, user: User | None) -> RequestError:
    """Return the engine's error, for a tenant without values, which may be another's."""
    if user is None or user.tenant is None:
        return RequestError(error.name, error.text, error.code)
    if error.code in _HARMLESS_ERRORS:
        return RequestError(error.name, without_plan(error.text), error.code)
    words = LIMIT_MESSAGES.get(error.code, "the statement failed; its error could show what is not yours")
    return RequestError(error.name, words[0].upper() + words[1:], error.code)
