"""One connection to ClickHouse, embedded or server, that speaks columns and raises errors a person can read."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import clickhouse_connect
import numpy.typing as npt
import pyarrow as pa
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error

from prism_ch.errors import StoreError
from prism_ch.store.cluster import CLUSTER_SETTINGS
from prism_ch.store.engine import open_folder
from prism_ch.store.url import EmbeddedLocation, Location, ServerLocation, parse_url

#: Columns by name, of equal length.
Columns = dict[str, npt.NDArray[Any]]
Parameters = Mapping[str, Any]

_UNKNOWN_DATABASE = 81
_AUTHENTICATION_FAILED = 516
_LONGEST_REASON = 600

#: What to do about errors that are no fault of the statement, by the engine's number.
_ADVICE = {
    159: "the statement took too long; ask for less, or raise max_execution_time",
    164: "this user may only read; give --url one that may write",
    241: "the engine has no memory left; give it more, or let less run at once",
    243: "the database's disk is full; make room, what was under way is done again",
    252: "files come in faster than the engine merges them; land fewer and larger ones",
    497: "grant the user what is missing, or give --url another",
}
_NO_SPACE = "No space left on device"


class Store:
    """A connection to one database of one engine; a context manager.

    Every method raises StoreError, one line without passwords, where the engine refuses or can't be reached.
    Statements name their parameters natively, `{name:Type}`.
    """

    def __init__(self, client: Client, location: Location) -> None:
        self.client = client
        self.location = location
        self.client.database = location.database

    @property
    def database(self) -> str:
        """Name of the database that unqualified table names mean."""
        return self.location.database

    @property
    def embedded(self) -> bool:
        """Tell whether the engine runs inside this process."""
        return isinstance(self.location, EmbeddedLocation)

    @property
    def cluster(self) -> str:
        """Name of the cluster that the server is a node of; empty where it stands alone."""
        return self.location.cluster if isinstance(self.location, ServerLocation) else ""

    def __str__(self) -> str:
        """Name the database and where it is."""
        return f"database {self.database} at {self.location}"

    def arrow(self, sql: str, parameters: Parameters | None = None) -> pa.Table:
        """Return a SELECT's rows as an Arrow table; Enum columns are int8 codes, strings are UTF-8."""
        body = self.raw(sql, parameters, fmt="ArrowStream")
        try:
            with pa.ipc.open_stream(body) as reader:
                return reader.read_all()
        except pa.ArrowInvalid as error:
            # A server that fails after its first rows has already answered 200: the text of the error ends the body.
            raise StoreError(f"{self.location}: the result broke off: {_one_line(str(error))}") from error

    def query(self, sql: str, parameters: Parameters | None = None) -> Columns:
        """Return a SELECT's columns as numpy: numbers by their width, strings and arrays as objects, Enums as codes.

        Read-only where the column could be taken as it came.
        """
        table = self.arrow(sql, parameters)
        return {name: table.column(name).to_numpy() for name in table.column_names}

    def rows(self, sql: str, parameters: Parameters | None = None) -> list[tuple[Any, ...]]:
        """Return a SELECT's rows as Python values, Enums as strings; for few rows, and times only to microseconds."""
        with self._errors():
            return [tuple(row) for row in self.client.query(sql, parameters=_native(parameters)).result_rows]

    def scalar(self, sql: str, parameters: Parameters | None = None) -> Any:
        """Return the one value of a SELECT of one row and column."""
        rows = self.rows(sql, parameters)
        if len(rows) != 1 or len(rows[0]) != 1:
            raise StoreError(f"expected one value, got {len(rows)} rows from: {_one_line(sql)}")
        return rows[0][0]

    def raw(self, sql: str, parameters: Parameters | None = None, *, fmt: str, use_database: bool = True) -> bytes:
        """Return a SELECT's result as ClickHouse writes it in the named format."""
        with self._errors():
            return self.client.raw_query(sql, parameters=_native(parameters), fmt=fmt, use_database=use_database)

    def command(
        self,
        sql: str,
        parameters: Parameters | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        use_database: bool = True,
    ) -> None:
        """Run a statement that returns nothing; `use_database=False` runs it outside the store's database."""
        with self._errors():
            self.client.command(
                sql, parameters=_native(parameters), settings=dict(settings or {}), use_database=use_database
            )

    def insert(
        self, table: str, columns: pa.Table | Mapping[str, Any], *, settings: Mapping[str, Any] | None = None
    ) -> None:
        """Insert columns, matched by name, in one statement; none where there is no row.

        Parameters: `columns`, an Arrow table or a mapping of name to numpy or Arrow column. Arrow timestamps in
        nanoseconds go into DateTime64(9), strings (best dictionary-encoded) into String, LowCardinality and Enum.
        """
        rows = columns if isinstance(columns, pa.Table) else pa.table(dict(columns))
        if not rows.num_rows:
            return
        with self._errors():
            self.client.raw_insert(
                table,
                column_names=rows.column_names,
                insert_block=_arrow_stream(rows),
                settings=dict(settings or {}),
                fmt="ArrowStream",
            )

    def insert_encoded(
        self, table: str, columns: Sequence[str], body: bytes, fmt: str, *, settings: Mapping[str, Any] | None = None
    ) -> None:
        """Insert rows that are encoded in a format of ClickHouse already, in one statement."""
        with self._errors():
            self.client.raw_insert(
                table, column_names=columns, insert_block=body, settings=dict(settings or {}), fmt=fmt
            )

    def another(self) -> Store:
        """Open one more connection to the same database, so that two statements can run at once."""
        return _open(self.location)

    def close(self) -> None:
        """End the connection; the last one on an embedded folder releases it."""
        self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn the driver's errors into StoreError."""
        try:
            yield
        except Error as error:
            raise StoreError(_reason(error, self.location)) from error


def connect(url: str) -> Store:
    """Connect to the database that a URL names: `chdb:///folder` or `clickhouse(s)://user:password@host:port/database`.

    The database itself need not exist yet: migrate() makes it.
    Raises SettingsError where the URL can't be read, StoreLockedError where another process has the folder open,
    StoreError where the engine can't be opened or reached or refuses the user.
    """
    # What the driver logs as an error it also raises, and it is told to the user once, in one line.
    logging.getLogger("clickhouse_connect").setLevel(logging.CRITICAL)
    return _open(parse_url(url))


def _open(location: Location) -> Store:
    """Connect to where a database is, or is to be."""
    client = open_folder(location.folder) if isinstance(location, EmbeddedLocation) else _reach(location)
    # Text without a zone means UTC, whatever the zone of the machine; a read-only user may not say so and need not.
    zone = client.server_settings.get("session_timezone")
    if zone is not None and not zone.readonly:
        client.set_client_setting("session_timezone", "UTC")
    return Store(client, location)


def _reach(location: ServerLocation) -> Client:
    """Open an HTTP connection to a server."""
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
        raise StoreError(_reason(error, location)) from error


def _arrow_stream(rows: pa.Table) -> pa.BufferReader:
    """Return rows as a stream in Arrow's format; its size is found first, since a buffer that grows is copied often."""
    size = pa.MockOutputStream()
    with pa.ipc.new_stream(size, rows.schema) as writer:
        writer.write_table(rows)
    buffer = pa.allocate_buffer(size.size())
    with pa.ipc.new_stream(pa.FixedSizeBufferWriter(buffer), rows.schema) as writer:
        writer.write_table(rows)
    return pa.BufferReader(buffer)


def _native(parameters: Parameters | None) -> dict[str, Any]:
    """Return the parameters as the driver wants them."""
    return dict(parameters or {})


def _reason(error: Error, location: Location) -> str:
    """Say in one line, without the password, what the engine or the way to it had against it."""
    if error.code == _UNKNOWN_DATABASE:
        return f"{location}: there is no database {location.database} yet; `prism-ch migrate` makes it"
    if error.code == _AUTHENTICATION_FAILED:
        return f"{location}: the server refuses this user and password; mend them in --url or PRISM_CH_URL"
    unreached = getattr(error.__cause__, "reason", None)
    if unreached is not None:
        text = _one_line(str(unreached).rpartition(">: ")[2])
        return f"{location}: the ClickHouse server can't be reached: {text}; is it up, and host and port right?"
    text = re.sub(r"^(.*?DB::Exception: )(Code: \d+\. DB::Exception: )?", "", _one_line(str(error)))
    text = re.sub(r"\s*\(version [^()]*(\([^()]*\))?\).*$", "", text)
    if isinstance(location, ServerLocation) and location.password:
        text = text.replace(location.password, "***")
    advice = _ADVICE.get(243 if _NO_SPACE in text else error.code or 0)
    return f"{location}: {text}; {advice}" if advice else f"{location}: {text}"


def _one_line(text: str) -> str:
    """Fold white space and cut what is too long to read."""
    folded = " ".join(text.split())
    return folded if len(folded) <= _LONGEST_REASON else folded[:_LONGEST_REASON] + " ..."
