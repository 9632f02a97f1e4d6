"""Reads what a request asks for, from its URL and headers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl
from uuid import uuid4

from prism_ch.serve.refusal import bad_request

#: Parameters of the protocol; all others are settings, or parameters of the statement.
_PROTOCOL = frozenset({
    "add_http_cors_header", "buffer_size", "client_protocol_version", "close_session", "compress", "database",
    "decompress", "default_format", "enable_http_compression", "http_headers_progress_interval_ms",
    "http_zlib_compression_level", "password", "query", "query_id", "quota_key", "role",
    "send_progress_in_http_headers", "session_check", "session_id", "session_timeout", "stacktrace", "user",
    "wait_end_of_query",
})  # fmt: skip
_PARAMETERS_MOST = 1000
_SESSION_DEFAULT_S, _SESSION_MOST_S = 60, 3600
_VISIBLE = re.compile(r"[\x20-\x7e]{1,200}")
_FORMAT = re.compile(r"[A-Za-z0-9_]{1,64}")


@dataclass(frozen=True, slots=True)
class SessionAsked:
    """The session a request belongs to, how long it lasts after its last request, and whether it must exist."""

    name: str
    timeout_s: int
    must_exist: bool
    closes: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """A request without its body; empty text is what was not said.

    `statement` is what the URL says of it. `parameters` are the statement's, by name, `settings` the engine's.
    """

    statement: str
    database: str
    format: str
    query_id: str
    session: SessionAsked | None
    parameters: Mapping[str, str]
    settings: Mapping[str, str]
    wants_compression: bool
    waits_for_end: bool
    protocol_version: int


def parse(query_string: bytes, headers: Mapping[str, str]) -> tuple[Asked, dict[str, str]]:
    """Read the URL's query string and the headers; returns also all parameters as they were given.

    Raises Refusal where they make no sense.
    """
    given = url_parameters(query_string)
    for name in ("compress", "decompress"):
        if _is_set(given, name):
            raise bad_request(f"The parameter {name} is not spoken; use Accept-Encoding and Content-Encoding instead")
    asked = Asked(
        statement=given.get("query", ""),
        database=given.get("database") or headers.get("x-clickhouse-database", ""),
        format=_matching(_FORMAT, "format", given.get("default_format") or headers.get("x-clickhouse-format", "")),
        query_id=_matching(_VISIBLE, "query_id", given.get("query_id", "")) or str(uuid4()),
        session=_session(given),
        parameters={name.removeprefix("param_"): value for name, value in given.items() if name.startswith("param_")},
        settings={
            name: value for name, value in given.items() if name not in _PROTOCOL and not name.startswith("param_")
        },
        wants_compression=_is_set(given, "enable_http_compression"),
        waits_for_end=_is_set(given, "wait_end_of_query"),
        protocol_version=_whole(given, "client_protocol_version", 0),
    )
    return asked, given


def url_parameters(query_string: bytes) -> dict[str, str]:
    """Decode a query string; the last of several of one name counts."""
    try:
        pairs = parse_qsl(
            query_string.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_PARAMETERS_MOST,
        )
    except ValueError as error:
        raise bad_request(f"The URL's parameters can't be read: {error}") from error
    return dict(pairs)


def _session(given: Mapping[str, str]) -> SessionAsked | None:
    """Read what belongs to a session."""
    if not given.get("session_id"):
        return None
    timeout_s = _whole(given, "session_timeout", _SESSION_DEFAULT_S)
    if timeout_s > _SESSION_MOST_S:
        raise bad_request(f"session_timeout is {_SESSION_MOST_S} s at most")
    name = _matching(_VISIBLE, "session_id", given["session_id"])
    return SessionAsked(name, timeout_s, _is_set(given, "session_check"), _is_set(given, "close_session"))


def _is_set(given: Mapping[str, str], name: str) -> bool:
    """Tell whether a switch is on."""
    return given.get(name, "0") not in {"", "0", "false"}


def _whole(given: Mapping[str, str], name: str, default: int) -> int:
    """Read a whole number."""
    text = given.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise bad_request(f"{name} takes a whole number")
    return int(text)


def _matching(pattern: re.Pattern[str], name: str, text: str) -> str:
    """Refuse text that goes into headers or statements and does not look as it should."""
    if text and not pattern.fullmatch(text):
        raise bad_request(f"{name} holds what it can't hold, or is too long")
    return text
