"""Authenticates users by Basic authentication, ClickHouse's headers or its URL parameters."""

from __future__ import annotations

import binascii
import hashlib
import hmac
import ipaddress
import os
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from threading import BoundedSemaphore, Lock
from typing import Literal

from prism_ch.errors import SettingsError
from prism_ch.serve.request import RequestError
from prism_ch.settings import ServeSettings, UserSettings

Role = Literal["operator", "reader", "tenant", "collector"]

_FAILURES_PER_MINUTE = 30
_CHECKS_AT_ONCE = 2
#: Larger memories of users or addresses are cleared.
_REMEMBERED_MAX = 10_000

# OWASP's minimum for scrypt is a cost of 2**17, a block size of 8 and a parallelism of 1, which take 128 MiB. A quarter
# of the cost three times over is as strong, for a service that shares its memory with an engine.
_COST, _BLOCK, _PARALLEL = 2**15, 8, 3
_SALT_BYTES, _KEY_BYTES = 16, 32
_MEMORY_BYTES_MAX = 288 << 20
_COSTS, _BLOCKS, _PARALLELS = {2**14, 2**15, 2**16, 2**17}, range(8, 17), range(1, 9)


def _written(salt: bytes, key: bytes) -> str:
    return f"scrypt:{_COST}:{_BLOCK}:{_PARALLEL}:{b64encode(salt).decode()}:{b64encode(key).decode()}"


#: A hash without a password, to check for unknown users, so that they take as long as known ones.
UNMATCHED = _written(bytes(_SALT_BYTES), bytes(_KEY_BYTES))


def hash_password(password: str) -> str:
    """Hash a password with a new salt, as the settings hold it."""
    salt = os.urandom(_SALT_BYTES)
    return _written(salt, _derive(password, salt, _COST, _BLOCK, _PARALLEL))


def is_hash(text: str) -> bool:
    """Return whether is_password() can check a hash in bearable time and memory."""
    try:
        cost, block, parallel, salt, key = _parse_hash(text)
    except ValueError:
        return False
    is_bearable = cost in _COSTS and block in _BLOCKS and parallel in _PARALLELS
    return is_bearable and len(salt) >= _SALT_BYTES and len(key) == _KEY_BYTES


def is_password(password: str, hashed: str) -> bool:
    """Return whether a password has this hash, in constant time."""
    cost, block, parallel, salt, key = _parse_hash(hashed)
    return hmac.compare_digest(_derive(password, salt, cost, block, parallel), key)


def _parse_hash(hashed: str) -> tuple[int, int, int, bytes, bytes]:
    kind, cost, block, parallel, salt, key = hashed.split(":")
    if kind != "scrypt":
        raise ValueError("not scrypt")
    return int(cost), int(block), int(parallel), b64decode(salt, validate=True), b64decode(key, validate=True)


def _derive(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    text = password.encode(errors="surrogateescape")
    return hashlib.scrypt(text, salt=salt, n=cost, r=block, p=parallel, maxmem=_MEMORY_BYTES_MAX, dklen=_KEY_BYTES)


class RateLimit:
    """Limits events per minute and key, by token buckets that hold a minute's events."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._lock = Lock()
        #: For each key, how much was missing from its bucket, and when, in seconds.
        self._missing: dict[str, tuple[float, float]] = {}

    def allows(self, key: str) -> bool:
        """Return whether one more event is within the limit."""
        with self._lock:
            return self._missing_now(key) + 1 <= self._per_minute

    def count(self, key: str) -> None:
        """Count an event."""
        with self._lock:
            missing = self._missing_now(key) + 1
            if len(self._missing) >= _REMEMBERED_MAX:
                self._missing = {each: state for each, state in self._missing.items() if self._missing_now(each) > 0}
            if len(self._missing) >= _REMEMBERED_MAX:
                self._missing.clear()
            self._missing[key] = (missing, time.monotonic())

    def _missing_now(self, key: str) -> float:
        missing, since_s = self._missing.get(key, (0.0, 0.0))
        return max(0.0, missing - (time.monotonic() - since_s) * self._per_minute / 60)


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated user; `tenant` is whose rows it reads, None for all."""

    name: str
    role: Role
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class Credentials:
    """The name and password in a request."""

    name: str
    password: str


class Users:
    """The users of the settings."""

    def __init__(self, settings: ServeSettings) -> None:
        """Take the users; raises SettingsError if a password is not hashed."""
        self._users = dict(settings.users)
        self._open = not self._users and is_loopback(settings.host)
        self._secret = os.urandom(32)
        # Checking a password takes a third of a second, so digests of correct credentials are remembered.
        self._known: set[tuple[str, bytes]] = set()
        self._checks = BoundedSemaphore(_CHECKS_AT_ONCE)
        self._failures = RateLimit(_FAILURES_PER_MINUTE)
        self._nobody = UserSettings(password=UNMATCHED, role="reader")
        for name, user in self._users.items():
            if not is_hash(user.password):
                raise SettingsError(
                    f"serve.users.{name}.password: is no hash of a password; `prism-ch hash-password` makes one"
                )

    @property
    def is_open(self) -> bool:
        """Whether everyone on this machine may read, as no user is configured."""
        return self._open

    def may_read_all(self, headers: Mapping[str, str], address: str) -> bool:
        """Check whether credentials let a request read what is about all tenants. This may take a while."""
        if "authorization" not in headers:
            return self._open
        try:
            user = self.authenticate(credentials_of(headers, {}), address)
        except RequestError:
            return False
        return user.role in ("operator", "reader") and user.tenant is None

    def known(self, credentials: Credentials) -> User | None:
        """Return the user whose credentials were correct before, without delay; else None."""
        return self._user(credentials.name) if self._digest(credentials) in self._known else None

    def authenticate(self, credentials: Credentials, address: str) -> User:
        """Return the user with these credentials; may take a while.

        Raises RequestError, the same for a wrong name and a wrong password, and where an address has guessed a user's
        password too often.
        """
        if not self._users:
            if self._open:
                return User("default", "reader")
            text = "No user is configured; name some in the settings, as [serve.users.NAME]"
            raise RequestError("AUTHENTICATION_FAILED", text)
        user = self.known(credentials)
        if user is not None:
            return user
        self._check(credentials, address)
        if len(self._known) >= _REMEMBERED_MAX:
            self._known.clear()
        self._known.add(self._digest(credentials))
        return self._user(credentials.name)

    def _user(self, name: str) -> User:
        user = self._users[name]
        return User(name, user.role, user.tenant or None)

    def _digest(self, credentials: Credentials) -> tuple[str, bytes]:
        password = credentials.password.encode(errors="surrogateescape")
        return credentials.name, hmac.digest(self._secret, password, "sha256")

    def _check(self, credentials: Credentials, address: str) -> None:
        user = self._users.get(credentials.name, self._nobody)
        # All names behind one proxy share its address: guesses of one name must not shut out the others. Names that
        # exist and those that don't are counted alike, or it would show which do.
        guessed = f"{address} {credentials.name}"
        self._refuse_guesses(guessed)
        # Nobody has an empty password: a crowd that gives none costs no hashing.
        is_correct = False
        if credentials.password:
            with self._checks:
                # Others of a crowd that came at once have failed since.
                self._refuse_guesses(guessed)
                is_correct = is_password(credentials.password, user.password)
        if not is_correct or user is self._nobody:
            self._failures.count(guessed)
            name = credentials.name[:80].encode(errors="backslashreplace").decode()
            text = f"{name}: Authentication failed: wrong password, or there is no such user"
            raise RequestError("AUTHENTICATION_FAILED", text)

    def _refuse_guesses(self, guessed: str) -> None:
        """Raise RequestError if an address has guessed the password of a name too often."""
        if not self._failures.allows(guessed):
            raise RequestError("QUOTA_EXCEEDED", "Too many failed attempts from this address; wait a minute")


def credentials_of(headers: Mapping[str, str], parameters: Mapping[str, str]) -> Credentials:
    """Read a request's credentials; raises RequestError if they are given twice or can't be read."""
    basic = headers.get("authorization", "")
    in_headers = "x-clickhouse-user" in headers or "x-clickhouse-key" in headers
    in_url = "user" in parameters or "password" in parameters
    if bool(basic) + in_headers + in_url > 1:
        raise RequestError("AUTHENTICATION_FAILED", "Invalid authentication: it is given in more than one way")
    if in_headers:
        return Credentials(headers.get("x-clickhouse-user", "default"), headers.get("x-clickhouse-key", ""))
    if in_url or not basic:
        return Credentials(parameters.get("user", "default"), parameters.get("password", ""))
    kind, _, encoded = basic.partition(" ")
    try:
        name, colon, password = b64decode(encoded, validate=True).decode(errors="surrogateescape").partition(":")
    except (binascii.Error, ValueError):
        colon = name = password = ""
    if kind.lower() != "basic" or not colon:
        raise RequestError("AUTHENTICATION_FAILED", "Invalid authentication: only Basic authentication is spoken")
    return Credentials(name, password)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a host's ports."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
