"""A handle on the embedded engine for statements of others: results go through a pipe, inserts come in pieces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import chdb
from chdb import ChdbError

from prism_ch.errors import StoreError

#: What every handle starts with: text without a zone means UTC, whatever the zone of the machine.
_BASE = {"session_timezone": "UTC"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ERROR = re.compile(
    r"Code: (?P<code>\d+)\. DB::Exception: (?:Code: \d+\. DB::Exception: )?(?P<text>.*?)"
    r"(?:\. \((?P<name>[A-Z][A-Z0-9_]+)\).*)?$",
    re.DOTALL,
)
# What write() adds to a statement is no business of whoever sent it.
_ADDED = re.compile(r"\s*INTO OUTFILE '/dev/fd/\d+' TRUNCATE FORMAT \w+ /\* [0-9a-f]{32} \*/")
_UNKNOWN_EXCEPTION = 1002
_SYNTAX_ERROR = 62


class EngineError(StoreError):
    """The engine refused a statement; `code` and `name` are ClickHouse's, `text` its words."""

    def __init__(self, code: int, name: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.name = name
        self.text = text


@dataclass(frozen=True, slots=True)
class Work:
    """What a statement took: rows and bytes read, and seconds."""

    rows: int = 0
    bytes: int = 0
    elapsed_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Statement:
    """A reading statement without FORMAT, the format of its result, and its parameters as ClickHouse's text.

    `mark` is its own alone, and tells the engine which one to cancel. `settings` stand behind the statement.
    """

    text: str
    format: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    settings: str = ""
    mark: str = field(default_factory=lambda: uuid4().hex)


class Insertion:
    """An INSERT that is open: rows are appended in pieces, and land when it is finished; cancelled, none do."""

    def __init__(self, inserter: Any) -> None:
        self._inserter = inserter

    def append(self, data: bytes) -> None:
        """Hand over a piece of the rows; raises EngineError where they can't be read."""
        try:
            self._inserter.append(data)
        except RuntimeError as error:
            raise engine_error(error) from error

    def finish(self) -> int:
        """Land the rows, and return how many were written, in all tables; raises EngineError."""
        try:
            return int(self._inserter.finish().rows_written)
        except RuntimeError as error:
            raise engine_error(error) from error

    def cancel(self) -> None:
        """Land nothing of what has not landed; without effect once it is finished."""
        self._inserter.cancel()


class Handle:
    """A connection of its own: the database it means, its settings, temporary tables and parameters are nobody else's.

    One statement at a time. Every method raises EngineError where the engine refuses.
    """

    def __init__(self, folder: Path, database: str, settings: Mapping[str, str]) -> None:
        """Open a handle on the engine, which this process has running; `settings` are set in their order."""
        self._connection = chdb.connect(str(folder.resolve()))  # type: ignore[no-untyped-call] # it has none
        try:
            self.use(database)
            self.set({**_BASE, **settings})
        except EngineError:
            self.close()
            raise

    def use(self, database: str) -> None:
        """Let unqualified names of tables mean a database's."""
        self.run(f"USE `{database.replace('`', '``')}`")

    def set(self, settings: Mapping[str, str]) -> None:
        """Set settings; names that are none are the engine's to refuse."""
        if settings:
            self.run("SET " + ", ".join(f"{_identifier(name)} = {quoted(value)}" for name, value in settings.items()))

    def set_default(self, names: list[str]) -> None:
        """Give settings their default again."""
        for name in names:
            self.run(f"SET {_identifier(name)} = DEFAULT")

    def run(self, text: str, result_format: str = "TabSeparated", parameters: Mapping[str, str] | None = None) -> bytes:
        """Run any statement whose result, if it has one, is small."""
        try:
            return bytes(self._connection.query(text, result_format, params=dict(parameters or {})).bytes())
        except (ChdbError, RuntimeError) as error:
            raise engine_error(error) from error

    def write(self, statement: Statement, descriptor: int) -> Work:
        """Write a statement's result to a file, best the end of a pipe, whose reader then sets the pace.

        Once nobody reads the pipe, cancel() ends the statement.
        """
        text = (
            f"{statement.text}\nINTO OUTFILE '/dev/fd/{descriptor}' TRUNCATE FORMAT {statement.format}"
            f" /* {statement.mark} */ {statement.settings}"
        )
        try:
            done = self._connection.query(text, "Null", params=dict(statement.parameters))
            return Work(done.rows_read(), done.bytes_read(), done.elapsed())
        except (ChdbError, RuntimeError) as error:
            found = engine_error(error)
            if found.code == _SYNTAX_ERROR:
                # Said of the statement alone, the error's position is one that its author knows.
                self.run(statement.text, "Null", statement.parameters)
            raise found from error

    def insertion(self, text: str, input_format: str) -> Insertion:
        """Open an INSERT, its text without FORMAT and without rows."""
        try:
            return Insertion(self._connection.send_insert(text, input_format))
        except (ChdbError, RuntimeError) as error:
            raise engine_error(error) from error

    def cancel(self, mark: str) -> None:
        """Cancel the statement of that mark, which runs on another handle."""
        self.run(f"KILL QUERY WHERE position(query, {quoted(mark)}) > 0 ASYNC")

    def close(self) -> None:
        """Give the handle back to the engine."""
        self._connection.close()


def engine_error(error: Exception) -> EngineError:
    """Read code, name and words out of what the engine raised."""
    message = _ADDED.sub("", str(error)).replace("(INTO) (line", "(end of query) (line")
    found = _ERROR.search(message)
    if found is None:
        return EngineError(_UNKNOWN_EXCEPTION, "UNKNOWN_EXCEPTION", message)
    return EngineError(int(found["code"]), found["name"] or "UNKNOWN_EXCEPTION", found["text"])


def quoted(text: str) -> str:
    """Write a ClickHouse string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _identifier(name: str) -> str:
    """Check the name of a setting, which goes into a statement as it is."""
    if not _NAME.fullmatch(name):
        raise EngineError(
            115, "UNKNOWN_SETTING", f"Setting {name[:80]} is neither a builtin setting nor started with the prefix"
        )
    return name
