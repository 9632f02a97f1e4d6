"""Lets through one reading statement, and refuses everything that could write, or reach past the database.

The engine's read-only mode alone is not enough: under it the embedded engine still reads any file of the host, by the
function file(), by a table named like a path and by the database `default`, and writes files by INTO OUTFILE. So a
statement passes only if it was parsed whole and everything in it is of a kind known to be harmless; the text itself is
handed on as written.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.dialects.clickhouse import ClickHouse
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from prism_ch.errors import UsageError

#: Table functions that make rows out of their arguments alone.
TABLE_FUNCTIONS = frozenset({"generate_series", "generateseries", "numbers", "numbers_mt", "values", "zeros"})

#: Views of the database that take parameters, and so look like table functions.
PARAMETERISED_VIEWS = frozenset({"pair_traffic", "switch_traffic"})

#: Databases that may be named besides the store's own.
SYSTEM_DATABASES = frozenset({"system", "information_schema"})

#: Functions, of tables or of values, that read or run something outside the database; a second fence for the former.
OUTSIDE_FUNCTION = re.compile(
    r"(arrowflight|azureblobstorage|catboostevaluate|cluster|deltalake|executable|file|gcs|hdfs|hudi|iceberg|input|jdbc"
    r"|merge|mongodb|mysql|odbc|oss|paimon|postgresql|python|redis|remote|s3|sqlite|url|ytsaurus)"
    r"(allreplicas|azure|cluster|hdfs|local|s3|secure)*"
)

#: First words of a statement, and what may follow SHOW.
READING = ("SELECT", "WITH", "SHOW", "DESCRIBE", "EXPLAIN")
_FIRST_WORDS = frozenset({*READING, "DESC", "("})
_NOT_READING = f"only reading statements are allowed: {', '.join(READING)}"
SHOWABLE = frozenset({"COLUMNS", "CREATE", "DATABASES", "FUNCTIONS", "INDEXES", "SETTINGS", "TABLES"})

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXPLAIN_KIND = re.compile(
    r"^(?:(?:AST|SYNTAX|QUERY\s+TREE|PLAN|PIPELINE|ESTIMATE)\s+)?(?:[a-z_]+\s*=\s*[01]\s*,?\s*)*", re.IGNORECASE
)
# The functions behind the operator IN take a table as their second argument.
_IN_FUNCTION = re.compile(r"(global)?(not)?(null)?in(ignoreset)?")
# ClickHouse reads curly quotes as quotes and sqlglot does not, so the two could disagree on what is inside a string.
_UNREADABLE = re.compile(r"[\u2018\u2019\u201c\u201d\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def check(sql: str, database: str) -> str:
    """Return the one statement in `sql`, as written, without the semicolon behind it.

    Parameters: `database`, the store's own, the only one that may be named besides the engine's system databases.
    Raises UsageError, saying what is in the way, unless the statement only reads.
    """
    statement, tokens = _only_statement(sql)
    first = tokens[0].text.upper()
    if first in {"SHOW", "EXPLAIN"}:
        # To sqlglot all behind these words is one lump, so it is read apart.
        rest, tokens = _only_statement(statement[len(first) :])
        if first == "SHOW":
            _check_show(tokens)
        else:
            query = _EXPLAIN_KIND.sub("", rest, count=1)
            _check_query(query, _tokens(query), database)
        return f"{first} {rest}"
    _check_query(statement, tokens, database)
    return statement


def _only_statement(sql: str) -> tuple[str, list[Token]]:
    """Split off trailing semicolons; refuse none, several and unreadable statements."""
    unreadable = _UNREADABLE.search(sql)
    if unreadable:
        raise UsageError(
            f"the statement holds the character U+{ord(unreadable[0]):04X}, which is not allowed; quotes are straight"
        )
    tokens = _tokens(sql)
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise UsageError("there is no statement; give one, for example: SELECT kind, subject, summary FROM diagnoses")
    if any(token.token_type is TokenType.SEMICOLON for token in tokens):
        raise UsageError("give one statement at a time")
    return sql[tokens[0].start : tokens[-1].end + 1], tokens


def _tokens(sql: str) -> list[Token]:
    """Read the words of a statement; comments are gone."""
    try:
        return list(ClickHouse().tokenize(sql))
    except SqlglotError as error:
        raise UsageError(f"the statement can't be read: {_first_line(error)}") from error


def _check_show(tokens: list[Token]) -> None:
    """Allow SHOW with names, patterns and limits, and nothing that could hold a function or an output file."""
    what = next((token.text.upper() for token in tokens if token.text.upper() not in {"FULL", "EXTENDED"}), "")
    if what not in SHOWABLE:
        raise UsageError(f"SHOW {what} is not offered; SHOW knows {', '.join(sorted(SHOWABLE))}")
    for token in tokens:
        text = token.text
        if token.token_type in {TokenType.STRING, TokenType.NUMBER, TokenType.DOT}:
            continue
        if not _PLAIN_NAME.fullmatch(text) or text.upper() in {"INTO", "FORMAT", "SETTINGS"} - {what}:
            raise UsageError(f"`{text}` can't stand in a SHOW statement here")


def _check_query(sql: str, tokens: list[Token], database: str) -> None:
    """Refuse a statement unless it parses to one query or description over harmless tables and functions."""
    if not tokens or tokens[0].text.upper() not in _FIRST_WORDS:
        raise UsageError(_NOT_READING)
    for token in tokens:
        if token.token_type is TokenType.IDENTIFIER and re.search(r"[/\\.]", token.text):
            raise UsageError(f"`{token.text}`: a name may hold no slash and no dot, as that could name a file")
    for token, following in pairwise(tokens):
        if following.token_type is TokenType.L_PAREN and _reaches_outside(token):
            raise UsageError(f"{token.text}() can reach outside the database and is refused")
    tree = _parse(sql)
    if isinstance(tree, exp.Describe):
        if isinstance(tree.this, exp.Schema) or tree.expressions:
            raise UsageError("DESCRIBE takes the name of a table or a SELECT in brackets")
    elif not isinstance(tree, exp.Query):
        raise UsageError(_NOT_READING)
    for node in tree.walk():
        _check_node(node, database)


def _reaches_outside(token: Token) -> bool:
    """Tell whether a word before a bracket is a function that could read what is not in the database."""
    name = token.text.lower()
    return bool(OUTSIDE_FUNCTION.fullmatch(name)) or (
        token.token_type is not TokenType.IN and bool(_IN_FUNCTION.fullmatch(name))
    )


def _parse(sql: str) -> exp.Expr:
    """Parse one statement whole."""
    quiet = logging.getLogger("sqlglot")
    level = quiet.level
    quiet.setLevel(logging.ERROR)  # what sqlglot warns of, statements it can't look into, is refused by its type
    try:
        trees = sqlglot.parse(sql, read="clickhouse")
    except (SqlglotError, RecursionError) as error:
        raise UsageError(
            f"the statement can't be read, and what can't be read isn't run: {_first_line(error)}"
        ) from error
    finally:
        quiet.setLevel(level)
    if len(trees) != 1 or trees[0] is None:
        raise UsageError(_NOT_READING)
    return trees[0]


def _check_node(node: exp.Expr, database: str) -> None:
    """Refuse what does not only read the database's own tables."""
    if isinstance(node, exp.Command | exp.DDL | exp.DML | exp.Into | exp.Lateral):
        raise UsageError(_NOT_READING)
    if isinstance(node, exp.Query) and (node.args.get("format") or node.args.get("settings")):
        raise UsageError("leave out FORMAT and SETTINGS; choose the format with --format")
    for name in _table_names(node):
        *qualifiers, table = name
        for part in name:
            if not _PLAIN_NAME.fullmatch(part):
                raise UsageError(f"`{part}` can't name a table; tables are named with letters, digits and _")
        if qualifiers and qualifiers[-1].lower() not in {database.lower(), *SYSTEM_DATABASES}:
            raise UsageError(
                f"{'.'.join(name)} is not in the database {database}; only its tables and system's can be read"
            )
        if len(qualifiers) > 1:
            raise UsageError(f"{'.'.join(name)}: name a table as {table} or {database}.{table}")


def _table_names(node: exp.Expr) -> Iterator[list[str]]:
    """Yield the tables that a node itself names, each as its dotted parts; refuse functions that make tables."""
    if isinstance(node, exp.Table):
        source = node.this
        alias = node.args.get("alias")
        if isinstance(source, exp.Func):
            name = source.name if isinstance(source, exp.Anonymous) else source.sql_name()
            if name.lower() not in TABLE_FUNCTIONS and name not in PARAMETERISED_VIEWS:
                raise UsageError(f"the table function {name}() is not offered; use the tables of the database")
        elif isinstance(source, exp.Identifier) and not (alias and alias.args.get("columns")):
            yield [part.name for part in node.parts]
        else:
            raise UsageError(f"{node.sql('clickhouse')} can't stand where a table is expected")
    elif isinstance(node, exp.In):
        # `x IN name` and `x IN (name)` read a table where there is one, though they parse as a column.
        among = node.expressions
        source = node.args.get("field") or (among[0] if len(among) == 1 else None)
        if isinstance(source, exp.Column):
            yield [part.name for part in source.parts]


def _first_line(error: Exception) -> str:
    """Return an error's first line without the colours that sqlglot puts in."""
    return re.sub(r"\x1b\[[0-9;]*m", "", str(error)).partition("\n")[0]
