"""A handle on the embedded engine for users' statements: results go through a pipe, inserts come in pieces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import chdb
from chdb import ChdbError

from prism_ch.errors import StoreError
from prism_ch.store.statements import quoted

#: A time without zone means UTC, whatever the zone of the machine; a word alone is no SELECT, as for a server.
_DEFAULT_SETTINGS = {"session_timezone": "UTC", "implicit_select": "0"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ERROR = re.compile(
    r"Code: (?P<code>\d+)\. DB::Exception: (?:Code: \d+\. DB::Exception: )?(?P<text>.*?)"
    r"(?:\. \((?P<name>[A-Z][A-Z0-9_]+)\).*)?$",
    re.DOTALL,
)
# What write() and as_read() add to a statement, which its author should not read in an error.
_ADDED = re.compile(
    r"\s*INTO OUTFILE '/dev/fd/\d+' TRUNCATE FORMAT \w+ /\* [0-9a-f]{32} \*/"
    r"|:? ?In scope SELECT formatQuerySingleLine\(.*\)(?=\. \()",
    re.DOTALL,
)
_SYNTAX_ERROR, _UNKNOWN_SETTING, _UNKNOWN_EXCEPTION = 62, 115, 1002


class EngineError(StoreError):
    """The engine refused a statement; `code`, `name` and `text` are ClickHouse's."""

    def __init__(self, code: int, name: str, text: str) -> None:
        super().__init__(text, code=code)
        self.name = name
        self.text = text


@dataclass(frozen=True, slots=True)
class QueryCost:
    """The cost of a statement: rows and bytes read, those of its result, and seconds."""

    rows: int = 0
    bytes: int = 0
    elapsed_s: float = 0.0
    result_rows: int = 0
    result_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Statement:
    """A reading statement without FORMAT, the format of its result, and its parameters as ClickHouse's text.

    `mark` is unique and identifies the statement to cancel. `settings` is a SETTINGS clause or empty.
    """

    text: str
    format: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    settings: str = ""
    mark: str = field(default_factory=lambda: uuid4().hex)


class Insertion:
    """An open INSERT: rows are appended in pieces and land when it is finished; cancelled, none do."""

    def __init__(self, inserter: Any) -> None:
        self._inserter = inserter

    def append(self, data: bytes) -> None:
        """Append a piece of the rows; raise EngineError if they can't be read."""
        try:
            self._inserter.append(data)
        except RuntimeError as error:
            raise engine_error(error) from error

    def finish(self) -> int:
        """Land the rows and return the number written over all tables. Raises EngineError."""
        try:
            return int(self._inserter.finish().rows_written)
        except RuntimeError as error:
            raise engine_error(error) from error

    def cancel(self) -> None:
        """Drop the rows, unless the insert is finished."""
        self._inserter.cancel()


class Handle:
    """A connection with a database, settings and temporary tables of its own; one statement at a time.

    Every method raises EngineError if the engine refuses.
    """

    def __init__(self, folder: Path, database: str, settings: Mapping[str, str]) -> None:
        """Open a handle on the engine that this process runs. `settings` are set in their order."""
        self._connection = chdb.connect(str(folder.resolve()))  # type: ignore[no-untyped-call]
        try:
            self.use(database)
            self.set({**_DEFAULT_SETTINGS, **settings})
        except EngineError:
            self.close()
            raise

    def use(self, database: str) -> None:
        """Make a database the one that unqualified names of tables refer to."""
        self.run(f"USE `{database.replace('`', '``')}`")

    def set(self, settings: Mapping[str, str]) -> None:
        """Change settings."""
        if settings:
            self.run("SET " + ", ".join(f"{_identifier(name)} = {quoted(value)}" for name, value in settings.items()))

    def set_default(self, names: list[str]) -> None:
        """Reset settings to their defaults."""
        for name in names:
            self.run(f"SET {_identifier(name)} = DEFAULT")

    def run(self, text: str, result_format: str = "TabSeparated", parameters: Mapping[str, str] | None = None) -> bytes:
        """Run a statement and return its result, which must be small."""
        return self.answer(text, result_format, parameters)[0]

    def answer(
        self, text: str, result_format: str, parameters: Mapping[str, str] | None = None
    ) -> tuple[bytes, QueryCost]:
        """Run a statement and return its result, which must be small, and its cost."""
        try:
            done = self._connection.query(text, result_format, params=dict(parameters or {}))
            return bytes(done.bytes()), _cost_of(done)
        except (ChdbError, RuntimeError) as error:
            raise engine_error(error) from error

    def write(self, statement: Statement, descriptor: int) -> QueryCost:
        """Write a statement's result to a file descriptor.

        If it is the end of a pipe that nobody reads any more, cancel() ends the statement.
        """
        text = (
            f"{statement.text}\nINTO OUTFILE '/dev/fd/{descriptor}' TRUNCATE FORMAT {statement.format}"
            f" /* {statement.mark} */ {statement.settings}"
        )
        try:
            done = self._connection.query(text, "Null", params=dict(statement.parameters))
            return _cost_of(done)
        except (ChdbError, RuntimeError) as error:
            found = engine_error(error)
            if found.code == _SYNTAX_ERROR:
                # The position in an error of the statement alone is one that its author can find. It is not run: what
                # has no result to write may change something.
                self.as_read(statement.text)
            raise found from error

    def as_read(self, text: str) -> str:
        """Return a statement as the engine reads it: without comments, each text in plain quotes.

        Raises EngineError also if the text is several statements.
        """
        return self.run(f"SELECT formatQuerySingleLine({quoted(text)})", "TSVRaw").decode(errors="replace")

    def insertion(self, text: str, input_format: str) -> Insertion:
        """Open an INSERT, its text without FORMAT and without rows."""
        try:
            return Insertion(self._connection.send_insert(text, input_format))
        except (ChdbError, RuntimeError) as error:
            raise engine_error(error) from error

    def cancel(self, mark: str) -> None:
        """Cancel the statement with that mark, which runs on another handle."""
        self.run(f"KILL QUERY WHERE position(query, {quoted(mark)}) > 0 ASYNC")

    def close(self) -> None:
        """Give the handle back to the engine."""
        self._connection.close()


def _cost_of(done: Any) -> QueryCost:
    """Return the cost of a statement that is done.

    What chDB calls rows read are those of the result.
    """
    return QueryCost(
        rows=done.storage_rows_read(),
        bytes=done.storage_bytes_read(),
        elapsed_s=done.elapsed(),
        result_rows=done.rows_read(),
        result_bytes=done.bytes_read(),
    )


def engine_error(error: Exception) -> EngineError:
    """Parse the message of the engine's exception, which has no attribute for its code."""
    message = _ADDED.sub("", str(error)).replace("(INTO) (line", "(end of query) (line")
    found = _ERROR.search(message)
    if found is None:
        return EngineError(_UNKNOWN_EXCEPTION, "UNKNOWN_EXCEPTION", message)
    return EngineError(int(found["code"]), found["name"] or "UNKNOWN_EXCEPTION", found["text"])


def array_of(texts: Iterable[str]) -> str:
    """Write the value of a parameter of type Array(String)."""
    return "[" + ", ".join(map(quoted, texts)) + "]"


def _identifier(name: str) -> str:
    if not _NAME.fullmatch(name):
        text = f"Setting {name[:80]} is neither a builtin setting nor started with the prefix"
        raise EngineError(_UNKNOWN_SETTING, "UNKNOWN_SETTING", text)
    return name
