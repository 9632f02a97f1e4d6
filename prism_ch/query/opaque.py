"""Hides a tenant's conditions from the engine's index, which would compute them for keys of others' rows.

The engine reads less where a condition excludes whole ranges of keys. For that it computes the condition's functions
for keys of all rows, before a row filter: an error then tells of others' rows. So all it gets to see are comparisons
of columns with constants, which can't fail. Any other condition becomes identity(condition), which it does not look
into.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sqlglot.dialects.clickhouse import ClickHouse
from sqlglot.tokens import Token, TokenType

from prism_ch.query.checked import WITHOUT_INDEX, CheckedStatement

_CONDITION = frozenset({"HAVING", "ON", "QUALIFY", "WHERE"})
_END = frozenset({
    "ALL", "ANTI", "ANY", "ARRAY", "ASOF", "CROSS", "EXCEPT", "FETCH", "FORMAT", "FULL", "GLOBAL", "GROUP", "GROUP BY",
    "HAVING", "INNER", "INTERPOLATE", "INTERSECT", "JOIN", "LEFT", "LIMIT", "OFFSET", "ORDER", "ORDER BY", "PASTE",
    "QUALIFY", "RIGHT", "SEMI", "SETTINGS", "UNION", "WHERE", "WINDOW", "WITH",
})  # fmt: skip
_OPEN = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSE = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
#: What a comparison consists of besides names, constants and brackets.
_COMPARING = frozenset({
    "!=", ",", "<", "<=", "<>", "=", "==", ">", ">=", "AND", "FALSE", "ILIKE", "IN", "IS", "LIKE", "NOT", "NULL", "OR",
    "TRUE",
})  # fmt: skip
#: What may stand in front of a column that is selected as it is.
_BEFORE_COLUMN = frozenset({",", "(", "DISTINCT", "FROM", "JOIN", "SELECT", "WITH"})
#: Words that are functions in front of a bracket.
_ALSO_FUNCTIONS = frozenset({"ALL", "ANY", "ARRAY", "FORMAT", "LEFT", "RIGHT"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONSTANTS = frozenset({TokenType.NUMBER, TokenType.STRING})


def without_seen_conditions(checked: CheckedStatement, normal: str) -> CheckedStatement:
    """Return a tenant's statement whose conditions an index may see.

    Parameters: `normal`, ClickHouse's own form of it. Where that can't be told from the text, no index is used.
    """
    hidden = hidden_conditions(normal)
    if hidden is None:
        return replace(checked, text=normal, settings={**WITHOUT_INDEX, **checked.settings})
    return replace(checked, text=hidden)


def hidden_conditions(sql: str) -> str | None:
    """Return a statement in ClickHouse's own form with all conditions hidden but comparisons.

    Returns None where it can't be told what a condition compares.
    """
    tokens = list(ClickHouse().tokenize(sql))
    text = _Text(tokens)
    if not text.is_understood():
        return None
    edits: list[tuple[int, str]] = []
    for at, token in enumerate(tokens):
        if text.is_word(at) and token.text.upper() in _CONDITION:
            for first, last in text.conditions(at + 1):
                if text.is_plain(first, last):
                    continue
                if token.text.upper() == "ON" and text.compares_columns(first, last):
                    if text.equal_columns(first, last):
                        continue
                    return None
                edits += [(tokens[first].start, "identity("), (tokens[last].end + 1, ")")]
    # A condition in a subquery ends before the one around it.
    for place, written in sorted(edits, key=lambda edit: edit[0], reverse=True):
        sql = sql[:place] + written + sql[place:]
    return sql


@dataclass(slots=True)
class _Text:
    """The tokens of a statement; places in it are their numbers."""

    tokens: Sequence[Token]
    _partner: dict[int, int] = field(default_factory=dict)
    _computed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        opened: list[int] = []
        for at, token in enumerate(self.tokens):
            if token.token_type in _OPEN:
                opened.append(at)
            elif token.token_type in _CLOSE and opened:
                self._partner[opened[-1]] = at
                self._partner[at] = opened.pop()
        self._computed = {self._text(at + 1) for at in self._aliases() if not self._is_rename(at)}
        # A condition on one of two equal columns may be passed on to the other: both are computed if one is.
        equal = [{self._text(at - 1), self._text(at + 1)} for at in self._aliases() if self._renames_column(at)]
        equal += self._joined()
        while more := {name for names in equal if names & self._computed for name in names} - self._computed:
            self._computed |= more

    def is_understood(self) -> bool:
        """Check that columns get their names by AS alone. A place in a list or UNION names none."""
        for at in range(len(self.tokens)):
            word = self._text(at).upper()
            if self.is_word(at) and word in {"INTERSECT", "UNION"}:
                return False
            if self.is_word(at) and word == "EXCEPT" and self._word_within(at + 1) in {"ALL", "DISTINCT", "SELECT"}:
                return False
            if word != "AS" or not self.is_word(at):
                continue
            names_columns = self._is_open(at + 2) and self._text(at + 1).upper() != "MATERIALIZED"
            if (names_columns and not self._is_open(at + 1)) or (self._is_open(at + 1) and self._text(at - 1) == ")"):
                return False
        return True

    def is_word(self, at: int) -> bool:
        """Check whether a token is a word of the grammar: no name and no string."""
        token = self.tokens[at]
        called = self._is_open(at + 1) and token.text.upper() in _ALSO_FUNCTIONS
        is_name = token.token_type in {TokenType.IDENTIFIER, TokenType.STRING} or self._text(at - 1) == "."
        return not called and not is_name

    def conditions(self, first: int) -> Iterator[tuple[int, int]]:
        """Yield the first and last place of each condition that AND joins."""
        last = first
        while last < len(self.tokens) and not self._ends(last):
            last = self._partner.get(last, last) + 1
        yield from self._parts(first, last - 1)

    def _parts(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        is_bracket = self._text(first) == "(" and self._partner.get(first) == last
        if is_bracket and self._text(first + 1).upper() not in {"SELECT", "WITH"}:
            yield from self._parts(first + 1, last - 1)
            return
        joints, at = [], first
        while at <= last:
            word = self._text(at).upper()
            if (self.is_word(at) and word in {"BETWEEN", "CASE", "OR", "XOR"}) or word in {"?", "->"}:
                yield first, last
                return
            if self.is_word(at) and word == "AND":
                joints.append(at)
            at = self._partner.get(at, at) + 1 if self.tokens[at].token_type in _OPEN else at + 1
        if not joints:
            yield first, last
            return
        for begin, end in zip([first, *(at + 1 for at in joints)], [*(at - 1 for at in joints), last], strict=True):
            yield from self._parts(begin, end)

    def is_plain(self, first: int, last: int) -> bool:
        """Check whether a condition only compares columns with constants and each other."""
        at = first
        while at <= last:
            token = self.tokens[at]
            if token.token_type in _OPEN and self._is_constant(at):
                at = self._partner[at] + 1
            elif self._is_open(at + 1) and _NAME.fullmatch(token.text) and token.text.upper() not in _COMPARING:
                at = self._partner[at + 1] + 1
                if not self._is_constant(self._partner[at - 1]) or self._is_open(at):
                    return False
            elif token.token_type in _CONSTANTS or token.text in {"(", ")"} or self._is_comparing(at):
                at += 1
            elif token.text == "-" and at < last and self.tokens[at + 1].token_type is TokenType.NUMBER:
                # A number below zero, not a difference: behind a comparison or a bracket.
                if at > first and not (self._is_comparing(at - 1) or self._text(at - 1) == "("):
                    return False
                at += 2
            elif (end := self._column_end(at)) is not None:
                at = end + 1
            else:
                return False
        return True

    def compares_columns(self, first: int, last: int) -> bool:
        """Check whether the first comparison has columns on both sides, as in a JOIN."""
        sides: list[list[int]] = [[], []]
        for at in range(first, last + 1):
            if self._text(at) in {"=", "==", "<", "<=", ">", ">=", "!="}:
                sides = [list(range(first, at)), list(range(at + 1, last + 1))]
                break
        return all(any(self._is_name(place) for place in side) for side in sides)

    def equal_columns(self, first: int, last: int) -> set[str]:
        """Return the names of two columns if a condition is that they are equal, alone."""
        left, _, right = " ".join(self._text(at) for at in range(first, last + 1)).partition(" = ")
        names = [re.fullmatch(r"(?:\w+ \. )?(\w+)", side) for side in (left, right)]
        return {found[1] for found in names if found} if all(names) else set()

    def _column_end(self, at: int) -> int | None:
        """Return the last place of a column's name; None if it is computed.

        The name may have the table's in front and the number of an element behind it.
        """
        if not self._is_name(at):
            return None
        name = self._text(at)
        while self._text(at + 1) == "." and at + 2 < len(self.tokens):
            at += 2
            if self._is_name(at):
                name = self._text(at)
            elif self.tokens[at].token_type is not TokenType.NUMBER:
                return None
        if self.tokens[at + 1 : at + 2] and self.tokens[at + 1].token_type is TokenType.L_BRACKET:
            return None
        return None if name in self._computed else at

    def _is_constant(self, at: int) -> bool:
        """Check whether what a bracket holds depends on no column. So do constants, functions of these, a subquery."""
        if self._text(at + 1).upper() in {"SELECT", "WITH"} or self._text(at) == "{":
            return True
        place, end = at + 1, self._partner[at]
        while place < end:
            if self.tokens[place].token_type in _OPEN and self._is_constant(place):
                place = self._partner[place]
            elif self._is_name(place) and not self._is_open(place + 1):
                return False
            place += 1
        return True

    def _is_rename(self, at: int) -> bool:
        """Check whether AS names something as it is: a column, constant, table or subquery."""
        if self._text(at - 1) == ")":
            begin = self._partner[at - 1]
            return self._text(begin + 1) in {"SELECT", "WITH"} and not self._is_called(begin)
        begin = at - 1
        while self._text(begin - 1) == ".":
            begin -= 2
        before = self._text(begin - 1).upper()
        return (self._is_name(at - 1) or self.tokens[at - 1].token_type in _CONSTANTS) and (before in _BEFORE_COLUMN)

    def _renames_column(self, at: int) -> bool:
        return self._is_rename(at) and self._is_name(at - 1)

    def _joined(self) -> Iterator[set[str]]:
        """Yield the names of each two columns that a JOIN sets equal."""
        for at in range(len(self.tokens)):
            if self.is_word(at) and self._text(at).upper() == "ON":
                yield from (self.equal_columns(first, last) for first, last in self.conditions(at + 1))

    def _aliases(self) -> Iterator[int]:
        for at in range(1, len(self.tokens) - 1):
            if self._text(at).upper() == "AS" and self.is_word(at) and not self._is_open(at + 1):
                yield at

    def _ends(self, at: int) -> bool:
        token = self.tokens[at]
        if token.token_type in _CLOSE or token.token_type is TokenType.COMMA:
            return True
        return self.is_word(at) and token.text.upper().split()[0] in _END

    def _is_comparing(self, at: int) -> bool:
        words = self._text(at).upper().split()
        return self.tokens[at].token_type is not TokenType.IDENTIFIER and all(word in _COMPARING for word in words)

    def _is_called(self, at: int) -> bool:
        before = self._text(at - 1)
        return bool(_NAME.fullmatch(before)) and before.upper() not in _COMPARING | _END | _BEFORE_COLUMN

    def _is_name(self, at: int) -> bool:
        token = self.tokens[at]
        return token.token_type not in _CONSTANTS and bool(_NAME.fullmatch(token.text)) and not self._is_comparing(at)

    def _is_open(self, at: int) -> bool:
        return at < len(self.tokens) and self.tokens[at].token_type is TokenType.L_PAREN

    def _word_within(self, at: int) -> str:
        while self._is_open(at):
            at += 1
        return self._text(at).upper()

    def _text(self, at: int) -> str:
        return self.tokens[at].text if 0 <= at < len(self.tokens) else ""
