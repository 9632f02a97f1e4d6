"""What a client is told when its request fails: ClickHouse's number, name, words and HTTP status."""

from __future__ import annotations

from prism_ch.errors import PrismError
from prism_ch.store.handle import EngineError

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


class Refusal(PrismError):  # noqa: N818 - it is what the client is told
    """A request that is not answered; `code` and `name` are ClickHouse's."""

    def __init__(self, code: int, name: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.name = name
        self.text = text

    @classmethod
    def of(cls, error: EngineError) -> Refusal:
        """Hand on what the engine has against a statement."""
        return cls(error.code, error.name, error.text)

    @property
    def status(self) -> int:
        """HTTP status."""
        return _STATUS.get(self.code, 500)

    @property
    def ends_connection(self) -> bool:
        """Tell whether the request never came whole, so that no other can follow it."""
        return self.code == _SOCKET_TIMEOUT

    def body(self, version: str) -> bytes:
        """Say it as ClickHouse of a version does; its clients read code and name out of the text."""
        text = self.text.rstrip(".\n")
        return f"Code: {self.code}. DB::Exception: {text}. ({self.name}) (version {version})\n".encode()


def bad_request(text: str) -> Refusal:
    """Refuse what can't be understood."""
    return Refusal(36, "BAD_ARGUMENTS", text)


def access_denied(text: str) -> Refusal:
    """Refuse what this user may not do."""
    return Refusal(497, "ACCESS_DENIED", text)
