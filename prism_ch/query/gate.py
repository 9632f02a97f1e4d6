"""Lets through one reading statement, and refuses whatever could write, or reach what its author may not see.

The engine's read-only mode alone is not enough: under it the embedded engine still reads any file of the host, by the
function file(), by a table named like a path and by the database `default`, and writes files by INTO OUTFILE. So a
statement passes only if it was parsed whole and everything in it is of a kind known to be harmless; the text itself is
passed on as written. For a tenant the engine filters rows besides (prism_ch/query/tenancy.py).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.dialects.clickhouse import ClickHouse
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from prism_ch.errors import UsageError
from prism_ch.query import allowed, tenancy
from prism_ch.query.checked import CheckedStatement, Limits, engine_settings, limits_of

#: Longest statement, in bytes; also ClickHouse's own limit.
MAX_STATEMENT_BYTES = 262_144

#: First words of a statement.
READING = ("SELECT", "WITH", "SHOW", "DESCRIBE", "EXPLAIN")
_FIRST_WORDS = frozenset({*READING, "DESC", "("})
# sqlglot does not parse what follows these words, so it is checked by itself.
_SHOW_TABLES = re.compile(
    r"SHOW\s+(?:FULL\s+)?TABLES(?:\s+(?:FROM|IN)\s+[`\"]?(?P<database>\w+)[`\"]?)?(?=\s+LIMIT\s+\d+\s*$|\s*$)",
    re.IGNORECASE,
)
_UNPARSED = frozenset({"SHOW", "EXPLAIN"})
_NOT_READING = f"only reading statements are allowed: {', '.join(READING)}"

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXPLAIN_KIND = re.compile(
    r"^(?:(?:AST|SYNTAX|QUERY\s+TREE|PLAN|PIPELINE|ESTIMATE)\s+)?(?:[a-z_]+\s*=\s*[01]\s*,?\s*)*", re.IGNORECASE
)
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_ ]*")
# ClickHouse reads curly quotes as quotes, all blanks of Unicode as blanks and its minus as one; sqlglot does not.
_UNREADABLE = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\xa0\u1680\u180e\u2000-\u200f\u2018-\u201d\u2028-\u202f\u205f-\u206f"
    r"\u2212\u3000\ufeff\ud800-\udfff]"
)
# What may stand between words. In sqlglot comments nest, in ClickHouse they end at the first `*/`.
_BETWEEN = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*(?:(?!/\*|\*/).)*\*/)*", re.DOTALL)
_ODD_STRINGS = frozenset({
    TokenType.BIT_STRING, TokenType.BYTE_STRING, TokenType.HEREDOC_STRING, TokenType.HEX_STRING,
    TokenType.NATIONAL_STRING, TokenType.RAW_STRING, TokenType.UNICODE_STRING,
})  # fmt: skip
_VALUES = frozenset({TokenType.NUMBER, TokenType.STRING, TokenType.TRUE, TokenType.FALSE})


class SyntaxUsageError(UsageError):
    """The statement can't be read as SQL."""


def scope(
    sql: str,
    database: str,
    *,
    tenant: str | None = None,
    limits: Limits | None = None,
    settings: Mapping[str, str] | None = None,
) -> CheckedStatement:
    """Check the one statement in `sql`, and return it as written, with its settings.

    Parameters: `database`, the store's own, the only one that may be named besides ClickHouse's system databases;
    `tenant`, whose rows it may see, None for an operator, who sees all; `limits`, by default those of a tenant or an
    operator; `settings`, requested by the client besides a SETTINGS clause of the statement.
    Raises UsageError with the reason unless the statement only reads, and SyntaxUsageError if it can't be parsed.
    """
    body, tokens = _only_statement(sql)
    body, tokens, written, result_format = _without_tail(body, tokens)
    requested = {**(settings or {}), **written}
    _check_settings(requested, result_format, tenant)
    text = _check_statement(body, tokens, database, tenant)
    bounds = limits or limits_of(tenant)
    return CheckedStatement(text, engine_settings(database, tenant, bounds, requested), result_format, tenant)


def _check_statement(statement: str, tokens: list[Token], database: str, tenant: str | None) -> str:
    first = tokens[0].text.upper()
    if first not in _UNPARSED:
        _check_query(statement, tokens, database, tenant)
        return statement
    rest, tokens = _only_statement(statement[len(first) :])
    if first == "SHOW":
        _check_text(rest, tokens)
        _check_show(tokens, allowed.SHOWABLE if tenant is None else tenancy.TENANT_SHOWABLE)
    elif tenant is not None:
        raise UsageError("EXPLAIN shows how much is stored of other tenants, so it is for operators")
    else:
        query = _EXPLAIN_KIND.sub("", rest, count=1)
        _check_query(query, _tokens(query), database, tenant)
    return f"{first} {rest}"


def listed_only(statement: str, database: str) -> str:
    """Let SHOW TABLES list the views that people read.

    With LIKE or WHERE it lists what those ask for.
    """
    found = _SHOW_TABLES.match(statement)
    if found is None or found["database"] not in (None, database):
        return statement
    names = ", ".join(f"'{name}'" for name in sorted(tenancy.listed_views()))
    return f"{statement[: found.end()]} WHERE name IN ({names}){statement[found.end() :]}"


def _only_statement(sql: str) -> tuple[str, list[Token]]:
    """Return the statement of a text and its tokens. Refuses none, several and unreadable ones."""
    if len(sql.encode(errors="replace")) > MAX_STATEMENT_BYTES:
        raise UsageError(f"the statement is longer than {MAX_STATEMENT_BYTES:,} bytes; shorten it")
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
    statement = sql[tokens[0].start : tokens[-1].end + 1]
    tokens = _tokens(statement)
    return statement, tokens


def _tokens(sql: str) -> list[Token]:
    try:
        return list(ClickHouse().tokenize(sql))
    except SqlglotError as error:
        raise _unreadable(error) from error


def _without_tail(statement: str, tokens: list[Token]) -> tuple[str, list[Token], dict[str, str], str | None]:
    """Split FORMAT and SETTINGS, in either order, from the end of a statement."""
    settings: dict[str, str] = {}
    result_format = None
    while len(tokens) > 2:
        if _is_word(tokens[-2], "FORMAT") and not result_format:
            result_format = tokens[-1].text
            if result_format not in allowed.FORMATS:
                raise UsageError(f"the format {_short(result_format)} is not offered")
            tokens = tokens[:-2]
        elif found := _settings_clause(tokens):
            settings, start = found
            tokens = tokens[:start]
        else:
            break
    return statement[: tokens[-1].end + 1], tokens, settings, result_format


def _settings_clause(tokens: list[Token]) -> tuple[dict[str, str], int] | None:
    """Read `SETTINGS name = value, ...` at the end. Returns the number of its first token as well."""
    settings: dict[str, str] = {}
    end = len(tokens)
    while end >= 4:
        word, name, equals, value = tokens[end - 4 : end]
        if equals.text != "=" or value.token_type not in _VALUES:
            return None
        if name.text in settings:
            raise UsageError(f"the setting {_short(name.text)} is given twice")
        settings[name.text] = value.text
        if _is_word(word, "SETTINGS"):
            return settings, end - 4
        if word.token_type is not TokenType.COMMA:
            return None
        end -= 4
    return None


def _is_word(token: Token, word: str) -> bool:
    return token.text.upper() == word and token.token_type is not TokenType.IDENTIFIER


def _check_settings(requested: Mapping[str, str], result_format: str | None, tenant: str | None) -> None:
    for name, value in requested.items():
        if name not in allowed.SETTABLE:
            raise UsageError(f"the setting {_short(name)} can't be changed here")
        if not allowed.SETTABLE[name].fullmatch(value):
            raise UsageError(f"the setting {name} doesn't take the value {value[:40]!r}")
    if tenant is None:
        return
    for name in requested.keys() & tenancy.REVEALING_SETTINGS:
        raise UsageError(f"the setting {name} can't be changed by a tenant")
    if result_format in tenancy.REVEALING_FORMATS:
        raise UsageError(f"the format {result_format} is not offered to tenants")


def _check_show(tokens: list[Token], showable: frozenset[str]) -> None:
    what = next((token.text.upper() for token in tokens if token.text.upper() not in {"FULL", "EXTENDED"}), "")
    if what not in showable:
        raise UsageError(f"SHOW {_short(what)} is not offered; SHOW knows {', '.join(sorted(showable))}")
    for token in tokens:
        text = token.text
        if token.token_type in {TokenType.STRING, TokenType.NUMBER, TokenType.DOT}:
            continue
        if not _PLAIN_NAME.fullmatch(text) or text.upper() in {"INTO", "FORMAT", "SETTINGS"} - {what}:
            raise UsageError(f"`{_short(text)}` can't stand in a SHOW statement here")


def _check_query(sql: str, tokens: list[Token], database: str, tenant: str | None) -> None:
    """Refuse all but one SELECT or DESCRIBE over harmless tables and functions."""
    if not tokens or tokens[0].text.upper() not in _FIRST_WORDS - _UNPARSED:
        raise UsageError(_NOT_READING)
    _check_text(sql, tokens)
    _check_words(tokens)
    tree = _parse(sql)
    if isinstance(tree, exp.Describe):
        if isinstance(tree.this, exp.Schema) or tree.expressions:
            raise UsageError("DESCRIBE takes the name of a table or a SELECT in brackets")
    elif not isinstance(tree, exp.Query):
        raise UsageError(_NOT_READING)
    for node in tree.walk():
        _check_node(node)
        for name in _table_names(node):
            if len(name) > 1 or not _is_defined(node, name[0]):
                _check_table(name, database, tenant)
        if tenant is not None:
            _check_for_tenant(node)


def _check_words(tokens: list[Token]) -> None:
    """Refuse functions not known to be harmless, called or only named as an argument."""
    for before, token, following in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        quoted = token.token_type is TokenType.IDENTIFIER
        if not quoted and not _WORD.fullmatch(token.text):
            continue
        name = token.text
        is_column = before is not None and before.text.upper() in {".", "AS"}
        if following and following.token_type is TokenType.L_PAREN:
            if not allowed.may_be_called(name, as_word=not quoted) and name not in allowed.PARAMETERISED_VIEWS:
                raise UsageError(f"the function {_short(name)}() is not offered")
        elif allowed.is_refused_function(name, as_word=not quoted) and not is_column:
            # ClickHouse lets arrayMap(file, ...) and APPLY(file) name a function by its name alone.
            raise UsageError(f"`{name}` is the name of a function that is not offered; write it as table.{name}")
    for colon, kind in pairwise(tokens):
        if colon.token_type is TokenType.COLON and kind.text.lower() == "identifier":
            raise UsageError("a parameter can't stand for a name; write the name itself")


def _check_text(statement: str, tokens: list[Token]) -> None:
    """Refuse text that ClickHouse might divide into other words than sqlglot does."""
    end = 0
    for token in tokens:
        if not _BETWEEN.fullmatch(statement, end, token.start):
            raise UsageError("a comment is either /* ... */ without another in it, or -- to the end of the line")
        end = token.end + 1
        written = statement[token.start : end]
        if token.token_type in _ODD_STRINGS:
            raise UsageError(f"write the string {_short(written)} between single quotes")
        if token.token_type is TokenType.IDENTIFIER and re.search(r"[/\\.$]", written):
            raise UsageError(f"{_short(written)}: a name may hold no slash and no dot, as that could name a file")
        if token.token_type is not TokenType.STRING and "$" in written:
            raise UsageError(f"`{_short(written)}`: $ can stand in strings only")


def _parse(sql: str) -> exp.Expr:
    # sqlglot warns of statements that it can't parse; they are refused by their type.
    logger = logging.getLogger("sqlglot")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        trees = sqlglot.parse(sql, read="clickhouse")
    except RecursionError as error:
        raise UsageError("the statement nests brackets too deeply; write parts of it as WITH name AS (...)") from error
    except SqlglotError as error:
        raise _unreadable(error) from error
    finally:
        logger.setLevel(level)
    if len(trees) != 1 or trees[0] is None:
        raise UsageError(_NOT_READING)
    return trees[0]


def _check_node(node: exp.Expr) -> None:
    """Refuse whatever does more than read, and FORMAT and SETTINGS of a part."""
    if isinstance(node, exp.Command | exp.DDL | exp.DML | exp.Into | exp.Lateral):
        raise UsageError(_NOT_READING)
    if isinstance(node, exp.Query) and (node.args.get("format") or node.args.get("settings")):
        raise UsageError("FORMAT and SETTINGS can stand at the end of the statement only")


def _check_for_tenant(node: exp.Expr) -> None:
    """Refuse PREWHERE, which may run before the row filter, and tables' names after WITH."""
    if isinstance(node, exp.PreWhere):
        raise UsageError("write WHERE instead of PREWHERE; the engine moves conditions by itself")
    if isinstance(node, exp.CTE) and node.alias in tenancy.closed_names():
        raise UsageError(f"{_short(node.alias)} is the name of a table; choose another after WITH")


def _check_table(name: list[str], database: str, tenant: str | None) -> None:
    *qualifiers, table = name
    for part in name:
        if not _PLAIN_NAME.fullmatch(part):
            raise UsageError(f"`{_short(part)}` can't name a table; tables are named with letters, digits and _")
    if len(qualifiers) > 1:
        raise UsageError(f"{_short('.'.join(name))}: name a table as {table} or {database}.{table}")
    where = qualifiers[0] if qualifiers else database
    if where == database:
        offered = tenant is None or table in tenancy.tenant_views()
    elif where == "system":
        offered = table in (allowed.SYSTEM_TABLES if tenant is None else tenancy.TENANT_SYSTEM_TABLES)
    elif where.lower() == "information_schema":
        offered = tenant is None and table.lower() in allowed.INFORMATION_TABLES
    else:
        raise UsageError(
            f"{_short('.'.join(name))} is not in the database {database}; only its tables and system's can be read"
        )
    if not offered:
        known = "; a tenant can read " + ", ".join(sorted(tenancy.tenant_views())) if tenant is not None else ""
        raise UsageError(f"the table {_short('.'.join(name))} is not offered{known}")


def _is_defined(node: exp.Expr, name: str) -> bool:
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


def _table_names(node: exp.Expr) -> Iterator[list[str]]:
    """Yield the tables that a node names, each as its dotted parts. Refuses table functions."""
    if isinstance(node, exp.Table):
        source = node.this
        alias = node.args.get("alias")
        if isinstance(source, exp.Func):
            name = source.name if isinstance(source, exp.Anonymous) else source.sql_name()
            if name in allowed.PARAMETERISED_VIEWS:
                yield [name]
            elif name.lower() not in allowed.TABLE_FUNCTIONS:
                raise UsageError(f"the table function {_short(name)}() is not offered; use the tables of the database")
        elif isinstance(source, exp.Identifier) and not (alias and alias.args.get("columns")):
            yield [part.name for part in node.parts]
        else:
            raise UsageError(f"{_short(node.sql('clickhouse'))} can't stand where a table is expected")
    elif isinstance(node, exp.In):
        # `x IN name` and `x IN (name)` read a table where there is one, though they parse as a column.
        among = node.expressions
        source = node.args.get("field") or (among[0] if len(among) == 1 else None)
        if isinstance(source, exp.Column):
            yield [part.name for part in source.parts]


def _short(text: str) -> str:
    folded = " ".join(text.split())
    return folded if len(folded) <= 60 else folded[:60] + " ..."


def _unreadable(error: SqlglotError) -> SyntaxUsageError:
    first = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).partition("\n")[0].rstrip(". ")
    found = re.fullmatch(r"(.*?)\.? Line (\d+), Col: (\d+)", first)
    where = f" near line {found[2]}, column {found[3]}" if found else ""
    return SyntaxUsageError(f"the statement can't be read: syntax error{where}")
