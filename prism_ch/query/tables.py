"""Decides which tables a statement may name, and finds those that it names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from prism_ch.errors import UsageError
from prism_ch.query import allowed, tenancy

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: What EXISTS may ask for besides a table; the engine answers for views as for tables.
_KINDS = frozenset({"DATABASE", "DICTIONARY", "TABLE", "TEMPORARY", "VIEW"})


def check_table(name: Sequence[str], database: str, tenant: str | None) -> None:
    """Raise UsageError unless a table, given as its dotted parts, may be read.

    Parameters: `tenant`, None for an operator.
    """
    *qualifiers, table = name
    for part in name:
        if not _PLAIN_NAME.fullmatch(part):
            raise UsageError(f"`{short(part)}` can't name a table; tables are named with letters, digits and _")
    if len(qualifiers) > 1:
        raise UsageError(f"{short('.'.join(name))}: name a table as {table} or {database}.{table}")
    where = qualifiers[0] if qualifiers else database
    if where == database:
        offered = tenant is None or table in tenancy.tenant_views()
    elif where == "system":
        offered = table in (allowed.SYSTEM_TABLES if tenant is None else tenancy.TENANT_SYSTEM_TABLES)
    elif where.lower() == "information_schema":
        offered = table.lower() in allowed.INFORMATION_TABLES
    else:
        raise UsageError(
            f"{short('.'.join(name))} is not in the database {database}; only its tables and system's can be read"
        )
    if not offered:
        known = "; a tenant can read " + ", ".join(sorted(tenancy.tenant_views())) if tenant is not None else ""
        raise UsageError(f"the table {short('.'.join(name))} is not offered{known}")


def existence(tokens: Sequence[Token], database: str, tenant: str | None) -> str:
    """Return the statement that answers EXISTS, given what follows it.

    What may not be read does not exist.
    """
    kinds = [
        token.text.upper()
        for token in takewhile(lambda token: token.text.upper() in _KINDS, tokens[:-1])
        if token.token_type is not TokenType.IDENTIFIER
    ]
    name = tokens[len(kinds) :]
    if len(name) not in {1, 3} or (len(name) == 3 and name[1].token_type is not TokenType.DOT):
        raise UsageError("EXISTS takes TABLE, VIEW or DATABASE and one name")
    parts = [token.text for token in name[::2]]
    # A database is there where a table that everyone may read could be in it.
    asked = [*parts, "tables" if parts[0] != database else "jobs"] if "DATABASE" in kinds else parts
    try:
        check_table(asked, database, tenant)
    except UsageError:
        return "SELECT 0 AS result"
    return " ".join(["EXISTS", *kinds, ".".join(f"`{part}`" for part in parts)])


def table_names(node: exp.Expr) -> Iterator[list[str]]:
    """Yield the tables that FROM and JOIN name, each as its dotted parts. Refuses table functions."""
    if isinstance(node, exp.Table):
        source = node.this
        alias = node.args.get("alias")
        if isinstance(source, exp.Func):
            name = source.name if isinstance(source, exp.Anonymous) else source.sql_name()
            yield from table_function(name)
        elif isinstance(source, exp.Identifier) and not (alias and alias.args.get("columns")):
            yield [part.name for part in node.parts]
        else:
            raise UsageError(f"{short(node.sql('clickhouse'))} can't stand where a table is expected")


def member_names(node: exp.Expr) -> Iterator[list[str]]:
    """Yield the name after IN, as its dotted parts. It may be a table's, though it parses as a column."""
    if isinstance(node, exp.In):
        among = node.expressions
        source = node.args.get("field") or (among[0] if len(among) == 1 else None)
        source = source.unnest() if source is not None else None
        if isinstance(source, exp.Column):
            yield [part.name for part in source.parts]


def table_function(name: str) -> Iterator[list[str]]:
    """Yield the view that stands as a table function; nothing for one that makes rows. Refuses all others."""
    if name in allowed.PARAMETERISED_VIEWS:
        yield [name]
    elif name.lower() not in allowed.TABLE_FUNCTIONS:
        raise UsageError(f"the table function {short(name)}() is not offered; use the tables of the database")


def is_defined(node: exp.Expr, name: str) -> bool:
    """Check whether a WITH of this statement defines a name before it is used."""
    inside = node
    while (outside := inside.parent) is not None:
        definitions = outside.args.get("with_")
        if isinstance(inside, exp.CTE):
            # In its own definition a name means the table, unless it is recursive.
            before = outside.expressions[: outside.expressions.index(inside) + bool(outside.args.get("recursive"))]
            if any(name == cte.alias for cte in before):
                return True
        elif definitions and inside is not definitions and any(name == cte.alias for cte in definitions.expressions):
            return True
        inside = outside
    return False


def short(text: str) -> str:
    """Fold a text to one line of at most 60 characters and a mark."""
    folded = " ".join(text.split())
    return folded if len(folded) <= 60 else folded[:60] + " ..."
