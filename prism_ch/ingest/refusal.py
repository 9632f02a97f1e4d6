"""Decides who is at fault if a file did not land: the file, which then fails alone, or the database.

Whatever goes wrong while a file is read is the file's fault: no list of what a decoder may raise is ever complete. An
error while rows are sent is the database's fault if it names an outage, or if the database takes no statement at all.
"""

from __future__ import annotations

from dataclasses import dataclass

from prism_ch.errors import InputError, StoreError
from prism_ch.store.client import MAY_PASS, OUTAGES, Store
from prism_ch.store.statements import statement

_REASON_CHARS = 300


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a source did not land, one line; `may_pass` if trying again later may help."""

    reason: str
    may_pass: bool = False


def damage(source: str, error: Exception) -> str:
    """Describe in one line why a source can't be read."""
    if isinstance(error, InputError):
        return str(error)
    detail = " ".join(str(error).split())[:_REASON_CHARS]
    return f"{source}: can't be read: {type(error).__name__}" + (f": {detail}" if detail else "")


def refusal(store: Store, source: str, error: Exception) -> Refusal:
    """Blame a source for an error, or raise StoreError if the database is at fault."""
    if isinstance(error, InputError):
        return Refusal(str(error))
    if isinstance(error, StoreError) and error.code in OUTAGES:
        raise error
    store.command(statement("land_nothing"))
    if isinstance(error, StoreError):
        return Refusal(f"{source}: the database refused it: {error.reason}", error.code in MAY_PASS)
    return Refusal(damage(source, error), isinstance(error, MemoryError))


def printable(name: str) -> str:
    """Return a name as valid text in one line.

    Bytes that are no UTF-8 and control characters are escaped.
    """
    return "".join(character if character.isprintable() else _escaped(character) for character in name)


def _escaped(character: str) -> str:
    # Names of files hold bytes that are no text so; other halves of a surrogate pair come from JSON.
    handler = "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", handler))
