"""Tells who sends a request: by Basic authentication, ClickHouse's headers or its URL parameters."""

from __future__ import annotations

import binascii
import hmac
import ipaddress
import os
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import Literal

from prism_ch.errors import SettingsError
from prism_ch.serve.limits import Rate
from prism_ch.serve.passwords import UNMATCHED, is_hash, is_password
from prism_ch.serve.refusal import Refusal
from prism_ch.settings import ServeSettings, UserSettings

Role = Literal["operator", "reader", "tenant", "collector"]

_FAILURES_PER_MINUTE = 30
_CHECKS_AT_ONCE = 2
_KNOWN_MOST = 10_000


@dataclass(frozen=True, slots=True)
class User:
    """Who asks; `tenant` is whose rows it reads, None for everyone's."""

    name: str
    role: Role
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a request says of its sender."""

    name: str
    password: str


class Users:
    """The users that the settings name, and proof of who is one of them."""

    def __init__(self, settings: ServeSettings) -> None:
        """Take the users over; raises SettingsError where one's password is no hash."""
        self._users = dict(settings.users)
        self._open = not self._users and is_loopback(settings.host)
        self._secret = os.urandom(32)
        # Deriving a key takes a third of a second, too long for each request: what was right is remembered, hashed.
        self._known: set[tuple[str, bytes]] = set()
        self._checks = BoundedSemaphore(_CHECKS_AT_ONCE)
        self._failures = Rate(_FAILURES_PER_MINUTE)
        self._nobody = UserSettings(password=UNMATCHED, role="reader")
        for name, user in self._users.items():
            if not is_hash(user.password):
                raise SettingsError(
                    f"serve.users.{name}.password: is no hash of a password; `prism-ch hash-password` makes one"
                )

    def known(self, credentials: Credentials) -> User | None:
        """Return who it is, if these credentials were right before; takes no time."""
        return self._user(credentials.name) if self._proof(credentials) in self._known else None

    def find(self, credentials: Credentials, address: str) -> User:
        """Return who it is, after a while where it was not known before.

        Raises Refusal for a wrong name or password alike, and for an address from which too many came.
        """
        if not self._users:
            if self._open:
                return User("default", "reader")
            message = "No user is configured; name some in the settings, as [serve.users.NAME]"
            raise Refusal(516, "AUTHENTICATION_FAILED", message)
        user = self.known(credentials)
        if user is not None:
            return user
        self._check(credentials, address)
        if len(self._known) >= _KNOWN_MOST:
            self._known.clear()
        self._known.add(self._proof(credentials))
        return self._user(credentials.name)

    def _user(self, name: str) -> User:
        """Return a user of the settings."""
        user = self._users[name]
        return User(name, user.role, user.tenant or None)

    def _proof(self, credentials: Credentials) -> tuple[str, bytes]:
        """Return what is remembered of credentials, which does not tell the password."""
        password = credentials.password.encode(errors="surrogateescape")
        return credentials.name, hmac.digest(self._secret, password, "sha256")

    def _check(self, credentials: Credentials, address: str) -> None:
        """Check a password the slow way, also where there is no such user."""
        user = self._users.get(credentials.name, self._nobody)
        if not self._failures.has_room(address):
            raise Refusal(201, "QUOTA_EXCEEDED", "Too many failed attempts from this address; wait a minute")
        with self._checks:
            right = is_password(credentials.password, user.password)
        if not right or user is self._nobody:
            self._failures.take(address)
            raise Refusal(
                516,
                "AUTHENTICATION_FAILED",
                f"{credentials.name[:80]}: Authentication failed: wrong password, or there is no such user",
            )


def credentials_of(headers: Mapping[str, str], parameters: Mapping[str, str]) -> Credentials:
    """Read a request's credentials; raises Refusal where they are given in two ways or can't be read."""
    basic = headers.get("authorization", "")
    named = "x-clickhouse-user" in headers or "x-clickhouse-key" in headers
    in_url = "user" in parameters or "password" in parameters
    if bool(basic) + named + in_url > 1:
        raise Refusal(516, "AUTHENTICATION_FAILED", "Invalid authentication: it is given in more than one way")
    if named:
        return Credentials(headers.get("x-clickhouse-user", "default"), headers.get("x-clickhouse-key", ""))
    if in_url:
        return Credentials(parameters.get("user", "default"), parameters.get("password", ""))
    if not basic:
        return Credentials("default", "")
    kind, _, encoded = basic.partition(" ")
    try:
        name, colon, password = b64decode(encoded, validate=True).decode(errors="surrogateescape").partition(":")
    except (binascii.Error, ValueError):
        colon = name = password = ""
    if kind.lower() != "basic" or not colon:
        raise Refusal(516, "AUTHENTICATION_FAILED", "Invalid authentication: only Basic authentication is spoken")
    return Credentials(name, password)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches a host's ports."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
