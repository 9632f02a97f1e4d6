"""An HTTP endpoint on a database of the session's engine, and users of every role."""

from __future__ import annotations

import http.client
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from prism_ch.serve.http import application, listening
from prism_ch.serve.pages import Pages
from prism_ch.serve.sql import SqlEndpoint
from prism_ch.settings import ServeSettings
from prism_ch.store.client import Store

PASSWORD = "s3cret-of-all"  # noqa: S105 - used in tests only
#: The hash of that password, at the least cost that is accepted.
HASH = "scrypt:16384:8:1:MDEyMzQ1Njc4OWFiY2RlZg==:Mp2WJkNT3i82/g+FSCLmlFIEGkKLlHzy7dinr6YWQAw="


@dataclass(frozen=True, slots=True)
class Answered:
    """A response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    @property
    def code(self) -> str:
        """ClickHouse's number of the error; empty where there is none."""
        return self.headers.get("x-clickhouse-exception-code", "")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The port of an endpoint, and the database that it serves."""

    port: int
    database: str

    def url(self, user: str = "operator") -> str:
        """URL for `--url`."""
        return f"clickhouse://{user}:{PASSWORD}@127.0.0.1:{self.port}/{self.database}"

    def ask(
        self,
        statement: str | bytes | Iterator[bytes] = b"",
        user: str = "operator",
        /,
        *,
        headers: Mapping[str, str] | None = None,
        method: str = "POST",
        path: str = "/",
        **parameters: Any,
    ) -> Answered:
        """Send one request on a connection of its own."""
        login = {"Authorization": "Basic " + b64encode(f"{user}:{PASSWORD}".encode()).decode()} if user else {}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, f"{path}?{urlencode(parameters)}", statement, {**login, **(headers or {})})
            answer = connection.getresponse()
            return Answered(
                answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read()
            )
        finally:
            connection.close()


@dataclass(frozen=True, slots=True)
class OwnEndpoint(Endpoint):
    """An endpoint in this process."""

    sql: SqlEndpoint


def users() -> dict[str, dict[str, str]]:
    """Return a user of every role, and a second tenant."""
    roles = {
        "operator": {"role": "operator"},
        "reader": {"role": "reader"},
        "alpha": {"role": "tenant", "tenant": "alpha"},
        "bravo": {"role": "tenant", "tenant": "bravo"},
        "collector": {"role": "collector"},
    }
    return {name: {"password": HASH, **role} for name, role in roles.items()}


@contextmanager
def endpoint(store: Store, folder: Path, **settings: Any) -> Iterator[OwnEndpoint]:
    """Serve a store's database, in a folder, over HTTP while a block runs."""
    serve = ServeSettings.model_validate({"users": users(), **settings})
    with (
        closing(SqlEndpoint(store, folder, serve)) as sql,
        closing(Pages(sql)) as pages,
        listening(
            application(list, list, sql, pages), "127.0.0.1", 0, certificate=serve.tls_certificate, key=serve.tls_key
        ) as port,
    ):
        yield OwnEndpoint(port, store.database, sql)
