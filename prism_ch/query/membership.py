"""Writes a column after IN so that the engine can't read it as a table.

`x IN name` reads a table where no column has that name, and so does `x IN (name)`. Which of both it is only the engine
knows. A name that is no table that may be read becomes identity(name), which is a column or an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot.tokens import Token, TokenType

from prism_ch.errors import UsageError
from prism_ch.query import tenancy
from prism_ch.query.tables import check_table

#: Databases of ClickHouse's own.
_DATABASES = frozenset({"default", "information_schema", "system"})


class ColumnAfterInError(UsageError):
    """A name after IN is no table that may be read; it may be a column."""

    def __init__(self, name: Sequence[str], reason: UsageError) -> None:
        super().__init__(str(reason))
        self.name = tuple(name)


def check_member(name: Sequence[str], database: str, tenant: str | None) -> None:
    """Raise UsageError unless a name after IN is a table that may be read.

    Raises ColumnAfterInError where it names no table of the databases that are known here.
    """
    try:
        check_table(name, database, tenant)
    except UsageError as error:
        is_known = name[0] in tenancy.known_names() if len(name) == 1 else name[0].lower() in {database, *_DATABASES}
        if is_known and len(name) < 3:
            raise
        raise ColumnAfterInError(name, error) from error


def as_column(sql: str, tokens: Sequence[Token], name: Sequence[str]) -> str:
    """Return a statement in which a name is a column wherever it stands after IN."""
    for first, last in reversed(list(_names(tokens))):
        if tuple(token.text for token in tokens[first : last + 1 : 2]) == tuple(name):
            start, end = tokens[first].start, tokens[last].end + 1
            sql = f"{sql[:start]}identity({sql[start:end]}){sql[end:]}"
    return sql


def _names(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield the first and last place of each name that follows IN, also in brackets."""
    for at, token in enumerate(tokens):
        if token.text.upper() != "IN" or token.token_type in {TokenType.IDENTIFIER, TokenType.STRING}:
            continue
        first = at + 1
        while first < len(tokens) and tokens[first].token_type is TokenType.L_PAREN:
            first += 1
        last = first
        while last + 2 < len(tokens) and tokens[last + 1].token_type is TokenType.DOT:
            last += 2
        if last < len(tokens):
            yield first, last
