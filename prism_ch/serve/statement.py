"""Tells kinds of statements apart, and takes off them what the endpoint sees to: the format, and rows that follow."""

from __future__ import annotations

import re
from dataclasses import dataclass

from prism_ch.serve.refusal import bad_request

#: As ClickHouse: what a statement may take of a body, beside an INSERT's rows.
LONGEST_BYTES = 262_144

_SPACE = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)"
_FIRST_WORD = re.compile(_SPACE + r"*(\(|[A-Za-z]+)", re.DOTALL)
_ANSWERING = frozenset({"(", "CHECK", "DESC", "DESCRIBE", "EXISTS", "EXPLAIN", "SELECT", "SHOW", "WITH"})
_TAIL = re.compile(r"\sFORMAT\s+(?P<format>\w+)(?P<settings>\s+SETTINGS\s[^;]*)?(?:\s|;)*$|(?:\s|;)+$", re.IGNORECASE)
_TOKEN = re.compile(
    _SPACE + r"+|'(?:[^'\\]|\\.|'')*'|`(?:[^`\\]|\\.)*`|\"(?:[^\"\\]|\\.)*\"|(?P<word>\w+)|(?P<other>.)", re.DOTALL
)
_TURNING = frozenset({"FORMAT", "FROM", "SELECT", "VALUES", "WITH"})


@dataclass(frozen=True, slots=True)
class Insert:
    """An INSERT whose rows follow: its text without FORMAT, the format of the rows, and how much of the text is theirs.

    `format` is empty where the text names none. `rows_at` is where in the text, in characters, rows begin.
    """

    text: str
    format: str
    rows_at: int


def first_word(text: str) -> str:
    """Return a statement's first word in capitals; empty where there is none."""
    found = _FIRST_WORD.match(text)
    return found[1].upper() if found else ""


def is_answering(text: str) -> bool:
    """Tell whether a statement has a result and changes nothing."""
    return first_word(text) in _ANSWERING


def without_format(text: str) -> tuple[str, str, str]:
    """Take FORMAT off the end; return the text before it, the format or nothing, and SETTINGS that stood behind it."""
    found = _TAIL.search(text)
    if found is None:
        return text, "", ""
    return text[: found.start()], found["format"] or "", (found["settings"] or "").strip()


def as_insert(text: str) -> Insert | None:
    """Read an INSERT up to its rows; None where it is no INSERT, or one that gets its rows by itself.

    Raises Refusal where the beginning of `text` is no whole INSERT.
    """
    if first_word(text) != "INSERT":
        return None
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += {"(": 1, ")": -1}.get(token["other"] or "", 0)
        word = (token["word"] or "").upper()
        if depth or word not in _TURNING or _is_name(text[: token.start()]):
            continue
        if word == "VALUES":
            return Insert(text[: token.start()], "Values", token.end())
        if word == "FORMAT":
            return _with_format(text, token.start(), token.end())
        return None
    return Insert(text.rstrip().rstrip(";"), "", len(text))


def _is_name(before: str) -> bool:
    """Tell whether the word that follows is the name of a table: behind INTO, TABLE, FUNCTION or a dot."""
    return bool(re.search(r"(?:\b(?:INTO|TABLE|FUNCTION)\s*|\.)$", before, re.IGNORECASE))


def _with_format(text: str, at: int, end: int) -> Insert:
    """Read the name of a format, and where rows begin behind it: as ClickHouse, after blanks and one end of line."""
    name = re.compile(r"\s+(\w+)").match(text, end)
    if name is None:
        raise bad_request("FORMAT names no format")
    gap = re.compile(r"[ \t\f;]*\r?\n?").match(text, name.end())
    return Insert(text[:at], name[1], gap.end() if gap else name.end())
