"""Reads a database URL into what is needed to connect, and never lets its password into a message."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from prism_ch.errors import SettingsError

DEFAULT_DATABASE = "prism"
_HTTP_PORT, _HTTPS_PORT = 8123, 8443
_DATABASE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_FORMS = "chdb:///folder, chdb://./folder or clickhouse(s)://user:password@host:port/database"


@dataclass(frozen=True, slots=True)
class EmbeddedLocation:
    """A folder that the embedded engine keeps its data in."""

    folder: Path
    database: str

    def __str__(self) -> str:
        """Name the folder."""
        return str(self.folder)


@dataclass(frozen=True, slots=True)
class ServerLocation:
    """A ClickHouse server, by its HTTP interface."""

    host: str
    port: int
    secure: bool
    user: str
    password: str = field(repr=False)
    database: str

    def __str__(self) -> str:
        """Name user, host and port, without the password."""
        return f"{self.user}@{self.host}:{self.port}"


Location = EmbeddedLocation | ServerLocation


def parse_url(url: str) -> Location:
    """Read a URL of either form; `?database=name` names the database of an embedded folder.

    Raises SettingsError; the message never repeats what was given, as a misplaced password could be anywhere in it.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in {"chdb", "clickhouse", "clickhouses"}:
        raise SettingsError(f"the database URL must be {_FORMS}")
    if scheme == "chdb":
        return _parse_embedded(rest)
    return _parse_server(url, secure=scheme == "clickhouses")


def _parse_embedded(rest: str) -> EmbeddedLocation:
    """Read what follows chdb:// as a folder, relative ones under the working directory."""
    folder, _, query = rest.partition("?")
    if not folder.strip("/"):
        raise SettingsError("the database URL names no folder; write chdb:///path/to/folder or chdb://./folder")
    return EmbeddedLocation(Path(unquote(folder)).absolute(), _database(query))


def _parse_server(url: str, *, secure: bool) -> ServerLocation:
    """Read a server's URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise SettingsError(
            "the database URL's host and port can't be read; in a user name or password write special characters"
            " percent-encoded, for example %40 for @ and %2F for /"
        ) from None
    if not parts.hostname:
        raise SettingsError(f"the database URL names no host; write it as {_FORMS}")
    return ServerLocation(
        host=parts.hostname,
        port=port or (_HTTPS_PORT if secure else _HTTP_PORT),
        secure=secure,
        user=unquote(parts.username or "default"),
        password=unquote(parts.password or ""),
        database=_database(parts.query, unquote(parts.path.strip("/"))),
    )


def _database(query: str, in_path: str = "") -> str:
    """Find the database's name in a URL's path or query."""
    options = dict(parse_qsl(query, keep_blank_values=True))
    name = options.pop("database", in_path) or DEFAULT_DATABASE
    if options:
        # Not named: a `?` in a password that is not percent-encoded makes an option of the rest of it.
        raise SettingsError("the database URL has an option other than ?database=name")
    if not _DATABASE_NAME.fullmatch(name):
        raise SettingsError(
            "the database's name in the URL may hold letters, digits and _ only, and starts with no digit"
        )
    return name
