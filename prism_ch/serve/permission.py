"""Decides what a user's statement may do, by the user's role, and with which settings it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from prism_ch.errors import UsageError
from prism_ch.query.allowed import FORMATS, SETTABLE
from prism_ch.query.answer import LIMITS_PASSED, question
from prism_ch.query.question import Question
from prism_ch.query.tenancy import TELLING_FORMATS, TELLING_SETTINGS
from prism_ch.serve.handshake import asks_for_settings
from prism_ch.serve.refusal import Refusal, access_denied
from prism_ch.serve.request import Asked
from prism_ch.serve.statement import first_word, without_format
from prism_ch.serve.users import User
from prism_ch.serve.work import Engine
from prism_ch.store.client import Store
from prism_ch.store.handle import EngineError, Statement, quoted

#: A statement as it was asked: its text, the tenant, and settings of the URL.
_Asked = tuple[str, str | None, tuple[tuple[str, str], ...]]

_REMEMBERED_MOST, _REMEMBERED_LENGTH = 1000, 10_000
#: How the gate's words begin where a statement is no SQL.
_UNREADABLE = "the statement can't be read"
_DEFAULT_FORMAT = "TabSeparated"
# Clients know ClickHouse's own default database by this name; here it is the one with the tables.
_CLIENTS_DEFAULT = "default"

#: Errors that are found before a row is read, or name only what was asked for.
_TELL_NOTHING = frozenset({36, 42, 43, 46, 47, 60, 62, 73, 164, 215, 386, 394, 396, 456, 457})


@dataclass(frozen=True, slots=True)
class Permitted:
    """A statement that may run, with all settings that a handle for it has."""

    statement: Statement
    settings: Mapping[str, str]


def meant_database(asked: Asked, user: User, own: str) -> str:
    """Return the database that a request is about; only an operator may name another than the endpoint's own."""
    if asked.database in {"", _CLIENTS_DEFAULT, own}:
        return own
    if user.role != "operator":
        raise Refusal(81, "UNKNOWN_DATABASE", f"Database {asked.database[:80]} does not exist; use {own}")
    return asked.database


class Gate:
    """The gate that readers' and tenants' statements pass; it remembers which have, as clients ask the same again."""

    def __init__(self, store: Store) -> None:
        """Take a connection over, which reads statements and runs none."""
        self._store = store
        self._passed: dict[_Asked, Question] = {}

    async def permitted(self, text: str, asked: Asked, user: User, engine: Engine) -> Permitted:
        """Let a user's statement through, if it only reads what the user may read; operators may read everything.

        Raises Refusal.
        """
        if user.role == "collector":
            raise access_denied("A collector reads nothing")
        body, result_format, behind = without_format(text)
        if user.role == "operator":
            statement = Statement(body, result_format or asked.format or _DEFAULT_FORMAT, asked.parameters, behind)
            return Permitted(statement, asked.settings)
        if asks_for_settings(body):
            return _settings(result_format or asked.format, user)
        # The gate takes no FORMAT behind SHOW, which clients put behind everything.
        text = body if first_word(text) == "SHOW" else text
        key = (text, user.tenant, tuple(asked.settings.items()))
        passed = self._passed.get(key)
        if passed is None:
            passed = await engine.do(partial(self._pass, key))
        chosen = passed.format or result_format or asked.format or _DEFAULT_FORMAT
        if chosen not in FORMATS or (user.tenant is not None and chosen in TELLING_FORMATS):
            raise Refusal(73, "UNKNOWN_FORMAT", f"The format {chosen} is not offered")
        return Permitted(Statement(passed.text, chosen, asked.parameters), passed.settings)

    def _pass(self, key: _Asked) -> Question:
        """Check a statement; raises Refusal."""
        text, tenant, settings = key
        try:
            passed = question(self._store, text, tenant=tenant, settings=dict(settings))
        except UsageError as error:
            if str(error).startswith(_UNREADABLE):
                raise Refusal(62, "SYNTAX_ERROR", str(error)) from error
            raise access_denied(str(error)) from error
        if len(self._passed) >= _REMEMBERED_MOST:
            self._passed.clear()
        if len(text) <= _REMEMBERED_LENGTH:
            self._passed[key] = passed
        return passed


def permit_command(user: User, method: str) -> None:
    """Raise Refusal unless a user's statements may do more than read."""
    if user.role != "operator":
        raise access_denied("Only reading statements are allowed")
    if method != "POST":
        raise Refusal(
            164, "READONLY", "Cannot execute query in readonly mode. For queries over HTTP, method GET implies readonly"
        )


def _settings(result_format: str, user: User) -> Permitted:
    """Tell clickhouse-connect which settings there are, and that those that can't be changed here can't be changed."""
    fixed = TELLING_SETTINGS if user.tenant is not None else frozenset()
    names = ", ".join(map(quoted, sorted(SETTABLE.keys() - fixed)))
    text = f"SELECT name, default AS value, toUInt8(name NOT IN ({names})) AS readonly FROM system.settings"  # noqa: S608 - our own names
    return Permitted(Statement(text, result_format or _DEFAULT_FORMAT), {"readonly": "1"})


def public_refusal(error: EngineError, user: User | None) -> Refusal:
    """Hand on what the engine has against a statement; a tenant learns no value, as it may be another's."""
    if user is None or user.tenant is None or error.code in _TELL_NOTHING:
        return Refusal.of(error)
    words = LIMITS_PASSED.get(error.code, "the statement failed; its error could show what is not yours")
    return Refusal(error.code, error.name, words[0].upper() + words[1:])
