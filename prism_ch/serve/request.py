"""Parses the URL and the headers of a request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl
from uuid import uuid4

from prism_ch.serve.errors import bad_request

#: Parameters of the protocol; all others are settings, or parameters of the statement.
_PROTOCOL = frozenset({
    "add_http_cors_header", "buffer_size", "client_protocol_version", "close_session", "compress", "database",
    "decompress", "default_format", "enable_http_compression", "http_headers_progress_interval_ms",
    "http_zlib_compression_level", "password", "query", "query_id", "quota_key", "role",
    "send_progress_in_http_headers", "session_check", "session_id", "session_timeout", "stacktrace", "user",
    "wait_end_of_query",
})  # fmt: skip
_PARAMETERS_MAX = 1000
_SESSION_DEFAULT_S, _SESSION_MAX_S = 60, 3600
_VISIBLE = re.compile(r"[\x20-\x7e]{1,200}")
_FORMAT = re.compile(r"[A-Za-z0-9_]{1,64}")


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """The session of a request; `timeout_s` counts from the end of its last request."""

    name: str
    timeout_s: int
    must_exist: bool
    closes: bool


@dataclass(frozen=True, slots=True)
class SqlRequest:
    """A request without its body; a text that is missing is empty.

    `statement` is the part of it in the URL. `parameters` are those of the statement, `settings` those of the engine.
    """

    statement: str
    database: str
    format: str
    query_id: str
    session: SessionRequest | None
    parameters: Mapping[str, str]
    settings: Mapping[str, str]
    accepts_compression: bool
    waits_for_end: bool
    protocol_version: int


def parse(query_string: bytes, headers: Mapping[str, str]) -> tuple[SqlRequest, dict[str, str]]:
    """Parse the URL's query string and the headers; return also all parameters as given.

    Raises RequestError if they make no sense.
    """
    given = _url_parameters(query_string)
    for name in ("compress", "decompress"):
        if _is_set(given, name):
            raise bad_request(f"The parameter {name} is not spoken; use Accept-Encoding and Content-Encoding instead")
    others = {name: value for name, value in given.items() if name not in _PROTOCOL}
    request = SqlRequest(
        statement=given.get("query", ""),
        database=given.get("database") or headers.get("x-clickhouse-database", ""),
        format=_matching(_FORMAT, "format", given.get("default_format") or headers.get("x-clickhouse-format", "")),
        query_id=_matching(_VISIBLE, "query_id", given.get("query_id", "")) or str(uuid4()),
        session=_session(given),
        parameters={name.removeprefix("param_"): value for name, value in others.items() if name.startswith("param_")},
        settings={name: value for name, value in others.items() if not name.startswith("param_")},
        accepts_compression=_is_set(given, "enable_http_compression"),
        waits_for_end=_is_set(given, "wait_end_of_query"),
        protocol_version=_whole(given, "client_protocol_version", 0),
    )
    return request, given


def _url_parameters(query_string: bytes) -> dict[str, str]:
    """Decode a query string; the last of several parameters of one name counts."""
    try:
        text = query_string.decode("ascii")
        return dict(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_PARAMETERS_MAX))
    except ValueError as error:
        raise bad_request(f"The URL's parameters can't be read: {error}") from error


def _session(given: Mapping[str, str]) -> SessionRequest | None:
    if not given.get("session_id"):
        return None
    timeout_s = _whole(given, "session_timeout", _SESSION_DEFAULT_S)
    if timeout_s > _SESSION_MAX_S:
        raise bad_request(f"session_timeout is {_SESSION_MAX_S} s at most")
    name = _matching(_VISIBLE, "session_id", given["session_id"])
    return SessionRequest(name, timeout_s, _is_set(given, "session_check"), _is_set(given, "close_session"))


def _is_set(given: Mapping[str, str], name: str) -> bool:
    return given.get(name, "0") not in {"", "0", "false"}


def _whole(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise bad_request(f"{name} takes a whole number")
    return int(text)


def _matching(pattern: re.Pattern[str], name: str, text: str) -> str:
    """Check a text that goes into headers or statements."""
    if text and not pattern.fullmatch(text):
        raise bad_request(f"{name} holds what it can't hold, or is too long")
    return text
