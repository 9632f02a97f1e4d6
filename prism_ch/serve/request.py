"""Parses a request: URL, headers and statement; and the error that answers it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from email.parser import BytesParser
from email.policy import HTTP
from itertools import pairwise
from urllib.parse import parse_qsl
from uuid import uuid4

from prism_ch.errors import PrismError
from prism_ch.store.statements import statement

#: ClickHouse's errors: the number of each, and the HTTP status.
_ERRORS = {
    "BAD_ARGUMENTS": (36, 400),
    "UNKNOWN_TABLE": (60, 404),
    "SYNTAX_ERROR": (62, 400),
    "UNKNOWN_FORMAT": (73, 404),
    "UNKNOWN_DATABASE": (81, 404),
    "UNKNOWN_SETTING": (115, 404),
    "TIMEOUT_EXCEEDED": (159, 408),
    "READONLY": (164, 403),
    "QUOTA_EXCEEDED": (201, 429),
    "TOO_MANY_SIMULTANEOUS_QUERIES": (202, 503),
    "SOCKET_TIMEOUT": (209, 408),
    "ABORTED": (236, 503),
    "INTO_OUTFILE_NOT_ALLOWED": (348, 400),
    "SESSION_NOT_FOUND": (372, 404),
    "SESSION_IS_LOCKED": (373, 409),
    "ACCESS_DENIED": (497, 403),
    "AUTHENTICATION_FAILED": (516, 403),
}
_STATUS = dict(_ERRORS.values())

#: Parameters of the protocol; all others are settings, or parameters of the statement.
_PROTOCOL = frozenset({
    "add_http_cors_header", "buffer_size", "client_protocol_version", "close_session", "compress", "database",
    "decompress", "default_format", "enable_http_compression", "http_headers_progress_interval_ms",
    "http_zlib_compression_level", "password", "query", "query_id", "quota_key", "role", "run_query_in_background",
    "send_progress_in_http_headers", "session_check", "session_id", "session_timeout", "stacktrace", "user",
    "wait_end_of_query",
})  # fmt: skip
#: Parameters that may only be off, and what to do instead.
_NOT_SPOKEN = {
    "compress": "use Accept-Encoding",
    "decompress": "use Content-Encoding",
    "run_query_in_background": "leave the connection open until the statement ends, and ask",
}
_PARAMETERS_MAX = 1000
_SESSION_DEFAULT_S, _SESSION_MAX_S = 60, 3600
_VISIBLE = re.compile(r"[\x20-\x7e]{1,200}")
_FORMAT = re.compile(r"[A-Za-z0-9_]{1,64}")
#: The longest statement in a body, in bytes, not counting the rows of an INSERT; as ClickHouse's max_query_size.
LONGEST_BYTES = 262_144
_SPACE = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)"
_FIRST_WORD = re.compile(_SPACE + r"*(\(|[A-Za-z]+)", re.DOTALL)
_READING = frozenset({"(", "CHECK", "DESC", "DESCRIBE", "EXISTS", "EXPLAIN", "FROM", "SELECT", "SHOW", "WITH"})
_END = re.compile(r"\sFORMAT\s+(?P<format>\w+)(?P<settings>\s+SETTINGS\s[^;]*)?(?:\s|;)*$|(?:\s|;)+$", re.IGNORECASE)
_TOKEN = re.compile(
    _SPACE + r"+|'(?:[^'\\]|\\.|'')*'|`(?:[^`\\]|\\.)*`|\"(?:[^\"\\]|\\.)*\"|(?P<word>\w+)|(?P<other>.)", re.DOTALL
)
_AFTER_INTO = frozenset({"FORMAT", "FROM", "SELECT", "VALUES", "WITH"})


class RequestError(PrismError):
    """A request failed; `name` and `code` are ClickHouse's, `status` is HTTP's."""

    def __init__(self, name: str, text: str, code: int = 0) -> None:
        """Make an error; its `code` is needed if it is the engine's own."""
        super().__init__(text)
        self.name, self.text = name, text
        self.code = code or _ERRORS[name][0]
        self.status = _STATUS.get(self.code, 500)

    @property
    def ends_connection(self) -> bool:
        """Whether the request never came whole, so that no other can follow it."""
        return self.code == _ERRORS["SOCKET_TIMEOUT"][0]

    def body(self, version: str) -> bytes:
        """Write the error as ClickHouse does, since its clients parse code and name."""
        text = self.text.rstrip(".\n")
        return f"Code: {self.code}. DB::Exception: {text}. ({self.name}) (version {version})\n".encode()


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
    for name, instead in _NOT_SPOKEN.items():
        if _is_set(given, name):
            raise RequestError("BAD_ARGUMENTS", f"The parameter {name} is not spoken; {instead} instead")
    parameters, settings = _parameters_and_settings(given)
    request = SqlRequest(
        statement=given.get("query", ""),
        database=given.get("database") or headers.get("x-clickhouse-database", ""),
        format=_matching(_FORMAT, "format", given.get("default_format") or headers.get("x-clickhouse-format", "")),
        query_id=_matching(_VISIBLE, "query_id", given.get("query_id", "")) or str(uuid4()),
        session=_session(given),
        parameters=parameters,
        settings=settings,
        accepts_compression=_is_set(given, "enable_http_compression"),
        waits_for_end=_is_set(given, "wait_end_of_query"),
        protocol_version=_whole(given, "client_protocol_version", 0),
    )
    return request, given


def with_form(request: SqlRequest, content_type: str, body: bytes) -> SqlRequest:
    """Add the statement and parameters of a form in the body.

    Raises RequestError if it can't be read, or holds a file.
    """
    head = b"Content-Type: " + content_type.encode("latin-1", "replace") + b"\r\n\r\n"
    form = BytesParser(policy=HTTP).parsebytes(head + body)
    given = {}
    for part in form.iter_parts():
        name, content = part.get_param("name", header="content-disposition"), part.get_payload(decode=True)
        if not isinstance(name, str) or not isinstance(content, bytes) or part.get_filename() is not None:
            raise RequestError(
                "BAD_ARGUMENTS", "A part of the form has no name, or is a file; tables can't be sent along"
            )
        given[name] = content.decode(errors="surrogateescape")
    if not given:
        raise RequestError("BAD_ARGUMENTS", "The form can't be read")
    parameters, settings = _parameters_and_settings(given)
    return replace(
        request,
        statement=given.get("query", request.statement),
        parameters={**request.parameters, **parameters},
        settings={**request.settings, **settings},
    )


def _parameters_and_settings(given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    others = {name: value for name, value in given.items() if name not in _PROTOCOL}
    parameters = {name.removeprefix("param_"): value for name, value in others.items() if name.startswith("param_")}
    return parameters, {name: value for name, value in others.items() if not name.startswith("param_")}


def _url_parameters(query_string: bytes) -> dict[str, str]:
    """Decode a query string; the last of several parameters of one name counts."""
    try:
        text = query_string.decode("ascii")
        return dict(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_PARAMETERS_MAX))
    except ValueError as error:
        raise RequestError("BAD_ARGUMENTS", f"The URL's parameters can't be read: {error}") from error


def _session(given: Mapping[str, str]) -> SessionRequest | None:
    if not given.get("session_id"):
        return None
    timeout_s = _whole(given, "session_timeout", _SESSION_DEFAULT_S)
    if timeout_s > _SESSION_MAX_S:
        raise RequestError("BAD_ARGUMENTS", f"session_timeout is {_SESSION_MAX_S} s at most")
    name = _matching(_VISIBLE, "session_id", given["session_id"])
    return SessionRequest(name, timeout_s, _is_set(given, "session_check"), _is_set(given, "close_session"))


def _is_set(given: Mapping[str, str], name: str) -> bool:
    return given.get(name, "0") not in {"", "0", "false"}


def _whole(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise RequestError("BAD_ARGUMENTS", f"{name} takes a whole number")
    return int(text)


def _matching(pattern: re.Pattern[str], name: str, text: str) -> str:
    """Check a text that goes into headers or statements."""
    if text and not pattern.fullmatch(text):
        raise RequestError("BAD_ARGUMENTS", f"{name} holds what it can't hold, or is too long")
    return text


@dataclass(frozen=True, slots=True)
class Insert:
    """An INSERT whose rows follow: its text without FORMAT, and the format, if it names one.

    `rows_at` is where in the whole text, in characters, the rows begin.
    """

    text: str
    format: str
    rows_at: int


def first_word(text: str) -> str:
    """Return a statement's first word in capitals; empty if there is none."""
    found = _FIRST_WORD.match(text)
    return found[1].upper() if found else ""


def is_reading(text: str) -> bool:
    """Return whether a statement has a result and changes nothing."""
    return first_word(text) in _READING


def writes_file(text: str) -> bool:
    """Return whether a statement, as the engine writes it, writes its result to a file."""
    words = [found["word"].upper() for found in _TOKEN.finditer(text) if found["word"]]
    return ("INTO", "OUTFILE") in pairwise(words)


def is_query(text: str, name: str) -> bool:
    """Return whether a statement is that of sql/queries/NAME.sql, whatever its case and blanks."""
    return _words(text) == _words(statement(name))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text.lower())


def without_format(text: str) -> tuple[str, str, str]:
    """Split a statement into the text before FORMAT, the format, and SETTINGS after it."""
    found = _END.search(text)
    if found is None:
        return text, "", ""
    return text[: found.start()].rstrip("; \t\r\n"), found["format"] or "", (found["settings"] or "").strip()


def as_insert(text: str) -> Insert | None:
    """Parse an INSERT up to its rows. None if it is none, or selects its rows.

    Raises RequestError if FORMAT names no format.
    """
    if first_word(text) != "INSERT":
        return None
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += {"(": 1, ")": -1}.get(token["other"] or "", 0)
        word = (token["word"] or "").upper()
        if depth or word not in _AFTER_INTO or _is_name(text[: token.start()]):
            continue
        if word == "VALUES":
            return Insert(text[: token.start()], "Values", token.end())
        if word == "FORMAT":
            return _with_format(text, token.start(), token.end())
        return None
    return Insert(text.rstrip().rstrip(";"), "", len(text))


def _is_name(before: str) -> bool:
    """Return whether the next word names a table: after INTO, TABLE, FUNCTION or a dot."""
    return bool(re.search(r"(?:\b(?:INTO|TABLE|FUNCTION)\s*|\.)$", before, re.IGNORECASE))


def _with_format(text: str, at: int, end: int) -> Insert:
    """Parse a format. Rows begin after it, blanks and one end of line, as in ClickHouse."""
    name = re.compile(r"\s+(\w+)").match(text, end)
    if name is None:
        raise RequestError("BAD_ARGUMENTS", "FORMAT names no format")
    gap = re.compile(r"[ \t\f;]*\r?\n?").match(text, name.end())
    return Insert(text[:at], name[1], gap.end() if gap else name.end())
