"""One connection to ClickHouse, embedded or server: columns in and out, and errors that a person can read."""

from __future__ import annotations

import errno
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, Self

import clickhouse_connect
import pyarrow as pa
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error

from prism_ch.errors import StoreError
from prism_ch.store.engine import open_folder
from prism_ch.store.statements import CLUSTER_SETTINGS, for_cluster
from prism_ch.store.url import EmbeddedLocation, Location, ServerLocation, parse_url

Parameters = Mapping[str, Any]

_UNKNOWN_DATABASE, _AUTHENTICATION_FAILED = 81, 516
_MAX_REASON_CHARS = 600

_DAMAGED = "a file of the database is damaged; `prism-ch doctor` names it, and `prism-ch doctor --mend` sets it aside"
#: What to do about errors that are no fault of the statement, by ClickHouse's code.
_ADVICE = {
    40: _DAMAGED,
    159: "the statement took too long; ask for less, or raise max_execution_time",
    164: "this user may only read; give --url one that may write",
    226: _DAMAGED,
    228: _DAMAGED,
    241: "the engine has no memory left; give it more, or let less run at once",
    243: "the database's disk is full; make room, what was under way is done again",
    246: _DAMAGED,
    252: "files come in faster than the engine merges them; land fewer and larger ones",
    497: "grant the user what is missing, or give --url another",
}
#: A call of the operating system that meets a full disk fails without this code, and with that text alone.
_DISK_FULL, _NO_SPACE = 243, os.strerror(errno.ENOSPC)
#: Codes of errors that any statement would meet: no network or answer, read-only, disk full, too many parts, no rights,
#: no Keeper.
OUTAGES = frozenset({164, 209, 210, 242, _DISK_FULL, 252, 279, 319, 497, 516, 999})
#: Codes of errors that the same statement may not meet again: time, number of statements, memory.
MAY_PASS = frozenset({159, 202, 241})

#: So many statements run at once at the most: those of one window, each of which is short and waits for the engine.
_AT_ONCE = 4

#: Settings of a small insert: its rows come as one block, and to start threads that share it out takes a fifth of it.
IN_ONE_BLOCK = {"max_threads": 1}


class Store:
    """A connection to one database of one engine; a context manager.

    Every method raises StoreError, one line without passwords, if the engine refuses or can't be reached. Statements
    name their parameters as ClickHouse does, `{name:Type}`.
    """

    def __init__(self, client: Client, location: Location) -> None:
        self.client = client
        self.location = location
        self.client.database = location.database
        self._beside: list[Store] = []
        self._idle: SimpleQueue[Store] = SimpleQueue()
        self._idle.put(self)

    @property
    def database(self) -> str:
        """Name of the database that unqualified names of tables refer to."""
        return self.location.database

    @property
    def embedded(self) -> bool:
        """Whether the engine runs inside this process."""
        return isinstance(self.location, EmbeddedLocation)

    @property
    def cluster(self) -> str:
        """Name of the cluster that the server belongs to, empty for a single server."""
        return self.location.cluster if isinstance(self.location, ServerLocation) else ""

    def __str__(self) -> str:
        return f"database {self.database} at {self.location}"

    def arrow(self, sql: str, parameters: Parameters | None = None) -> pa.Table:
        """Return a SELECT's rows as an Arrow table. Enum columns are int8 codes, strings are UTF-8."""
        body = self.raw(sql, parameters, fmt="ArrowStream")
        try:
            with pa.ipc.open_stream(body) as reader:
                return reader.read_all()
        except pa.ArrowInvalid as error:
            # A server that fails after its first rows has already answered 200: the text of the error ends the body.
            raise StoreError(f"the result broke off: {_one_line(str(error))}", place=str(self.location)) from error

    def rows(self, sql: str, parameters: Parameters | None = None) -> list[tuple[Any, ...]]:
        """Return a SELECT's few rows as Python values, Enums as strings, times to microseconds."""
        with self._errors():
            return [tuple(row) for row in self.client.query(sql, parameters=dict(parameters or {})).result_rows]

    def scalar(self, sql: str, parameters: Parameters | None = None) -> Any:
        """Return the one value of a SELECT of one row and column."""
        rows = self.rows(sql, parameters)
        if len(rows) != 1 or len(rows[0]) != 1:
            raise StoreError(f"expected one value, got {len(rows)} rows from: {_one_line(sql)}")
        return rows[0][0]

    def raw(self, sql: str, parameters: Parameters | None = None, *, fmt: str, use_database: bool = True) -> bytes:
        """Return a SELECT's result as ClickHouse writes it in a format."""
        with self._errors():
            return self.client.raw_query(sql, parameters=dict(parameters or {}), fmt=fmt, use_database=use_database)

    def command(self, sql: str, parameters: Parameters | None = None, **options: Any) -> None:
        """Run a statement without result.

        Parameters: `options`, `settings` of the engine, or `use_database=False` to run outside the store's database.
        """
        with self._errors():
            self.client.command(sql, parameters=dict(parameters or {}), **options)

    def ddl(self, sql: str, parameters: Parameters | None = None, **options: Any) -> None:
        """Run a CREATE or ALTER as command() does, on every node of a cluster."""
        for text in for_cluster(sql, self.cluster):
            self.command(text, parameters, **options)

    def insert(
        self, table: str, columns: pa.Table | Mapping[str, Any], *, settings: Mapping[str, Any] | None = None
    ) -> None:
        """Insert columns, matched by name, in one statement; do nothing without rows.

        Parameters: `columns`, an Arrow table or a mapping of name to numpy or Arrow column. Arrow timestamps in
        nanoseconds go into DateTime64(9), strings (best dictionary-encoded) into String, LowCardinality and Enum.
        """
        rows = columns if isinstance(columns, pa.Table) else pa.table(dict(columns))
        if rows.num_rows:
            self.insert_encoded(table, rows.column_names, _arrow_stream(rows), "ArrowStream", settings=settings)

    def insert_encoded(
        self,
        table: str,
        columns: Sequence[str],
        body: bytes | pa.BufferReader,
        fmt: str,
        *,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Insert rows that are already encoded in a format of ClickHouse, in one statement."""
        with self._errors():
            self.client.raw_insert(
                table, column_names=columns, insert_block=body, settings=dict(settings or {}), fmt=fmt
            )

    def another(self) -> Store:
        """Open another connection to the same database, so that two statements can run at once."""
        return _open(self.location)

    @contextmanager
    def lent(self) -> Iterator[Store]:
        """Lend a thread a connection: this one, or another while this is lent.

        The others are kept until this one is closed.
        """
        try:
            connection = self._idle.get_nowait()
        except Empty:
            connection = self.another()
            self._beside.append(connection)
        try:
            yield connection
        finally:
            self._idle.put(connection)

    def at_once(self, calls: Iterable[Callable[[Store], None]]) -> None:
        """Lend each call a connection, to some at once, and wait for all.

        Raises the first error in the order of the calls; some of those after it may not be made.
        """

        def run(call: Callable[[Store], None]) -> None:
            with self.lent() as connection:
                call(connection)

        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="statements") as pool:
            for _ in pool.map(run, calls):
                pass

    def close(self) -> None:
        """Close the connection; closing the last one on an embedded folder releases the folder."""
        for one in self._beside:
            one.close()
        self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except Error as error:
            raise _store_error(error, self.location) from error


def connect(url: str) -> Store:
    """Connect to a database: `chdb:///folder` or `clickhouse(s)://user:password@host:port/database`.

    The database itself need not exist yet: migrate() makes it.
    Raises SettingsError if the URL can't be read, StoreLockedError if another process has the folder open, StoreError
    if the engine can't be opened or reached or refuses the user.
    """
    # The driver raises each error that it logs, and the user reads it once, in one line.
    logging.getLogger("clickhouse_connect").setLevel(logging.CRITICAL)
    return _open(parse_url(url))


def _open(location: Location) -> Store:
    client = open_folder(location.folder) if isinstance(location, EmbeddedLocation) else _reach(location)
    # A time without zone means UTC, whatever the zone of the machine; a read-only user can't set this, and need not.
    zone = client.server_settings.get("session_timezone")
    if zone is not None and not zone.readonly:
        client.set_client_setting("session_timezone", "UTC")
    return Store(client, location)


def _reach(location: ServerLocation) -> Client:
    try:
        return clickhouse_connect.get_client(
            host=location.host,
            port=location.port,
            username=location.user,
            password=location.password,
            secure=location.secure,
            settings=CLUSTER_SETTINGS if location.cluster else {},
        )
    except Error as error:
        raise _store_error(error, location) from error


def _arrow_stream(rows: pa.Table) -> pa.BufferReader:
    """Encode rows as an Arrow stream. Its size is computed first, as a growing buffer is copied often."""
    size = pa.MockOutputStream()
    with pa.ipc.new_stream(size, rows.schema) as writer:
        writer.write_table(rows)
    buffer = pa.allocate_buffer(size.size())
    with pa.ipc.new_stream(pa.FixedSizeBufferWriter(buffer), rows.schema) as writer:
        writer.write_table(rows)
    return pa.BufferReader(buffer)


def _store_error(error: Error, location: Location) -> StoreError:
    code = _DISK_FULL if _NO_SPACE in str(error) else error.code or 0
    return StoreError(_reason(error, location), place=str(location), code=code)


def _reason(error: Error, location: Location) -> str:
    """Explain an error in one line, without the password, and name the remedy."""
    if error.code == _UNKNOWN_DATABASE:
        return f"there is no database {location.database} yet; `prism-ch migrate` makes it"
    if error.code == _AUTHENTICATION_FAILED:
        return "the server refuses this user and password; mend them in --url or PRISM_CH_URL"
    unreached = getattr(error.__cause__, "reason", None)
    if unreached is not None:
        text = _one_line(str(unreached).rpartition(">: ")[2])
        return f"the ClickHouse server can't be reached: {text}; is it up, and host and port right?"
    text = re.sub(r"^(.*?DB::Exception: )(Code: \d+\. DB::Exception: )?", "", _one_line(str(error)))
    text = re.sub(r"\s*\(version [^()]*(\([^()]*\))?\).*$", "", text)
    if isinstance(location, ServerLocation) and location.password:
        text = text.replace(location.password, "***")
    advice = _ADVICE.get(_DISK_FULL if _NO_SPACE in text else error.code or 0)
    return f"{text}; {advice}" if advice else text


def _one_line(text: str) -> str:
    folded = " ".join(text.split())
    return folded if len(folded) <= _MAX_REASON_CHARS else folded[:_MAX_REASON_CHARS] + " ..."
