"""Recognises kinds of statements, and splits off formats and the rows of an INSERT."""

from __future__ import annotations

import re
from dataclasses import dataclass

from prism_ch.serve.errors import bad_request
from prism_ch.store.statements import statement

#: The longest statement in a body, in bytes, not counting the rows of an INSERT; as ClickHouse's max_query_size.
LONGEST_BYTES = 262_144

_SPACE = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)"
_FIRST_WORD = re.compile(_SPACE + r"*(\(|[A-Za-z]+)", re.DOTALL)
_READING = frozenset({"(", "CHECK", "DESC", "DESCRIBE", "EXISTS", "EXPLAIN", "SELECT", "SHOW", "WITH"})
_END = re.compile(r"\sFORMAT\s+(?P<format>\w+)(?P<settings>\s+SETTINGS\s[^;]*)?(?:\s|;)*$|(?:\s|;)+$", re.IGNORECASE)
_TOKEN = re.compile(
    _SPACE + r"+|'(?:[^'\\]|\\.|'')*'|`(?:[^`\\]|\\.)*`|\"(?:[^\"\\]|\\.)*\"|(?P<word>\w+)|(?P<other>.)", re.DOTALL
)
_AFTER_INTO = frozenset({"FORMAT", "FROM", "SELECT", "VALUES", "WITH"})


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
    return text[: found.start()], found["format"] or "", (found["settings"] or "").strip()


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
        raise bad_request("FORMAT names no format")
    gap = re.compile(r"[ \t\f;]*\r?\n?").match(text, name.end())
    return Insert(text[:at], name[1], gap.end() if gap else name.end())
