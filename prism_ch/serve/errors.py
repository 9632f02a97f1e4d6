"""The error answer to a request: ClickHouse's number, name and words, and the HTTP status."""

from __future__ import annotations

from prism_ch.errors import PrismError

_SOCKET_TIMEOUT = 209
_STATUS = {
    36: 400,  # BAD_ARGUMENTS
    60: 404,  # UNKNOWN_TABLE
    62: 400,  # SYNTAX_ERROR
    73: 404,  # UNKNOWN_FORMAT
    81: 404,  # UNKNOWN_DATABASE
    115: 404,  # UNKNOWN_SETTING
    159: 408,  # TIMEOUT_EXCEEDED
    164: 403,  # READONLY
    201: 429,  # QUOTA_EXCEEDED
    202: 503,  # TOO_MANY_SIMULTANEOUS_QUERIES
    _SOCKET_TIMEOUT: 408,
    372: 404,  # SESSION_NOT_FOUND
    373: 409,  # SESSION_IS_LOCKED
    497: 403,  # ACCESS_DENIED
    516: 403,  # AUTHENTICATION_FAILED
}


class RequestError(PrismError):
    """A request failed; `code` and `name` are ClickHouse's."""

    def __init__(self, code: int, name: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.name = name
        self.text = text

    @property
    def status(self) -> int:
        """The HTTP status."""
        return _STATUS.get(self.code, 500)

    @property
    def ends_connection(self) -> bool:
        """Whether the request never came whole, so that no other can follow it."""
        return self.code == _SOCKET_TIMEOUT

    def body(self, version: str) -> bytes:
        """Write the error as ClickHouse does, since its clients parse code and name."""
        text = self.text.rstrip(".\n")
        return f"Code: {self.code}. DB::Exception: {text}. ({self.name}) (version {version})\n".encode()


def bad_request(text: str) -> RequestError:
    """Return the error for a request that can't be understood."""
    return RequestError(36, "BAD_ARGUMENTS", text)


def syntax_error(text: str) -> RequestError:
    """Return the error for a statement that can't be parsed."""
    return RequestError(62, "SYNTAX_ERROR", text)


def access_denied(text: str) -> RequestError:
    """Return the error for what this user may not do."""
    return RequestError(497, "ACCESS_DENIED", text)
