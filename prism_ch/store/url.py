"""Reads database URLs; no message repeats a password."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from prism_ch.errors import SettingsError

DEFAULT_DATABASE = "prism"
_HTTP_PORT, _HTTPS_PORT = 8123, 8443
_DATABASE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_CLUSTER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}")
#: Whether a scheme of a server's URL means TLS; the protocol is always HTTP.
_SECURE = {"clickhouse": False, "http": False, "clickhouses": True, "https": True}
_FORMS = "chdb:///folder, chdb://./folder or clickhouse(s)://user:password@host:port/database"


@dataclass(frozen=True, slots=True)
class EmbeddedLocation:
    """A folder of the embedded engine."""

    folder: Path
    database: str

    def __str__(self) -> str:
        return str(self.folder)


@dataclass(frozen=True, slots=True)
class ServerLocation:
    """The HTTP interface of a ClickHouse server; `cluster` is empty for a single server."""

    host: str
    port: int
    secure: bool
    user: str
    password: str = field(repr=False)
    database: str
    cluster: str = ""

    def __str__(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"


Location = EmbeddedLocation | ServerLocation


def parse_url(url: str) -> Location:
    """Read a database URL.

    `?database=name` names the database of an embedded folder, `?cluster=name` the cluster that a server belongs to.
    Raises SettingsError; the message never repeats the URL, as a misplaced password could be anywhere in it.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in {"chdb", *_SECURE}:
        raise SettingsError(f"the database URL must be {_FORMS}")
    if scheme == "chdb":
        return _parse_embedded(rest)
    return _parse_server(url, secure=_SECURE[scheme])


def _parse_embedded(rest: str) -> EmbeddedLocation:
    folder, _, query = rest.partition("?")
    if not folder.strip("/"):
        raise SettingsError("the database URL names no folder; write chdb:///path/to/folder or chdb://./folder")
    options = _options(query, "database")
    return EmbeddedLocation(Path(unquote(folder)).absolute(), _database(options.get("database", "")))


def _parse_server(url: str, *, secure: bool) -> ServerLocation:
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
    options = _options(parts.query, "database", "cluster")
    return ServerLocation(
        host=parts.hostname,
        port=port or (_HTTPS_PORT if secure else _HTTP_PORT),
        secure=secure,
        user=unquote(parts.username or "default"),
        password=unquote(parts.password or ""),
        database=_database(options.get("database", unquote(parts.path.strip("/")))),
        cluster=_cluster(options.get("cluster", "")),
    )


def _options(query: str, *known: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    if options.keys() - set(known):
        # The option is not repeated: it may be the rest of a password with a `?` that is not percent-encoded.
        forms = " and ".join(f"?{name}=name" for name in known)
        raise SettingsError(f"the database URL has an option other than {forms}")
    return options


def _database(name: str) -> str:
    name = name or DEFAULT_DATABASE
    if not _DATABASE_NAME.fullmatch(name):
        raise SettingsError(
            "the database's name in the URL may hold letters, digits and _ only, and starts with no digit"
        )
    return name


def _cluster(name: str) -> str:
    if name and not _CLUSTER_NAME.fullmatch(name):
        raise SettingsError("the cluster's name in the URL may hold letters, digits, _ . - only, a letter or _ first")
    return name
