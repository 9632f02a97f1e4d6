"""Lets through one reading statement, and refuses whatever could write, or reach what its author may not see.

The engine's read-only mode alone is not enough: under it the embedded engine still reads any file of the host, by the
function file(), by a table named like a path and by the database `default`, and writes files by INTO OUTFILE. So a
statement passes only if it was parsed whole and everything in it is of a kind known to be harmless; the text itself is
passed on as written. For a tenant the engine filters rows besides (prism_ch/query/tenancy.py).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.dialects.clickhouse import ClickHouse
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from prism_ch.errors import UsageError
from prism_ch.query import allowed, tenancy
from prism_ch.query.checked import CheckedStatement, Limits, engine_settings, limits_of
from prism_ch.query.membership import ColumnAfterInError, as_column, check_member
from prism_ch.query.syntax_tree import check_tree
from prism_ch.query.tables import check_table, existence, is_defined, member_names, short, table_names

#: Longest statement, in bytes; also ClickHouse's own limit.
MAX_STATEMENT_BYTES = 262_144

#: First words of a statement.
READING = ("SELECT", "WITH", "SHOW", "DESCRIBE", "EXISTS", "EXPLAIN")
_FIRST_WORDS = frozenset({*READING, "DESC", "("})
# sqlglot does not parse what follows these words, so it is checked by itself.
_UNPARSED = frozenset({"SHOW", "EXISTS", "EXPLAIN"})
_NOT_READING = f"only reading statements are allowed: {', '.join(READING)}"

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXPLAIN_KIND = re.compile(
    r"^(?:(?:AST|SYNTAX|QUERY\s+TREE|PLAN|PIPELINE|ESTIMATE)\s+)?(?:[a-z_]+\s*=\s*[01]\s*,?\s*)*", re.IGNORECASE
)
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_ ]*")
#: ClickHouse reads curly quotes as quotes, all blanks of Unicode as blanks and its minus as one; sqlglot does not.
UNREADABLE = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\xa0\u1680\u180e\u2000-\u200f\u2018-\u201d\u2028-\u202f\u205f-\u206f"
    r"\u2212\u3000\ufeff\ud800-\udfff]"
)
# The end of a text to some, and halves of characters, which no encoding writes.
_UNSENDABLE = re.compile(r"[\x00\ud800-\udfff]")
# What may stand between words. In sqlglot comments nest, in ClickHouse they end at the first `*/`.
_BETWEEN = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*(?:(?!/\*|\*/).)*\*/)*", re.DOTALL)
_ODD_STRINGS = frozenset({
    TokenType.BIT_STRING, TokenType.BYTE_STRING, TokenType.HEREDOC_STRING, TokenType.HEX_STRING,
    TokenType.NATIONAL_STRING, TokenType.RAW_STRING, TokenType.UNICODE_STRING,
})  # fmt: skip
# Before an expression, where no table can stand.
_BEFORE_EXPRESSION = frozenset(
    {"AND", "AS", "BY", "ELSE", "HAVING", "OR", "QUALIFY", "SELECT", "THEN", "WHEN", "WHERE"}
)
_VALUES = frozenset({TokenType.NUMBER, TokenType.STRING, TokenType.TRUE, TokenType.FALSE})


#: Returns what EXPLAIN AST writes of a statement.
ReadTree = Callable[[str], str]


class SyntaxUsageError(UsageError):
    """The statement can't be read as SQL, or could be read in two ways; ClickHouse's own form of it may pass."""


def scope(
    sql: str,
    database: str,
    *,
    tenant: str | None = None,
    limits: Limits | None = None,
    settings: Mapping[str, str] | None = None,
    read_tree: ReadTree | None = None,
) -> CheckedStatement:
    """Check the one statement in `sql`, and return it as written, with its settings.

    Parameters: `database`, the store's own, the only one that may be named besides ClickHouse's system databases;
    `tenant`, whose rows it may see, None for an operator, who sees all; `limits`, by default those of a tenant or an
    operator; `settings`, requested by the client besides a SETTINGS clause of the statement; `read_tree`, returns the
    engine's syntax tree of a statement that sqlglot can't parse.
    Raises UsageError with the reason unless the statement only reads, and SyntaxUsageError if it can't be parsed.
    """
    body, tokens = _only_statement(sql)
    body, tokens, written, result_format = _without_tail(body, tokens)
    requested = {**(settings or {}), **written}
    _check_settings(requested, result_format, tenant)
    text = _Check(database, tenant, read_tree).statement(body, tokens)
    bounds = limits or limits_of(tenant)
    return CheckedStatement(text, engine_settings(database, tenant, bounds, requested), result_format, tenant)


@dataclass(frozen=True, slots=True)
class _Check:
    """Checks statements on a database for a tenant, None for an operator."""

    database: str
    tenant: str | None
    read_tree: ReadTree | None

    def statement(self, statement: str, tokens: list[Token]) -> str:
        """Return the statement to run; raise UsageError unless it only reads."""
        first = tokens[0].text.upper()
        if first not in _UNPARSED:
            return self._query(statement, tokens)
        rest, tokens = _only_statement(statement[len(first) :])
        if first == "EXISTS":
            return existence(tokens, self.database, self.tenant)
        if first == "SHOW":
            _check_text(rest, tokens)
            _check_show(tokens, allowed.SHOWABLE if self.tenant is None else tenancy.TENANT_SHOWABLE)
        elif self.tenant is not None:
            raise UsageError("EXPLAIN shows how much is stored of other tenants, so it is for operators")
        else:
            query = _EXPLAIN_KIND.sub("", rest, count=1)
            rest = rest.removesuffix(query) + self._query(query, _tokens(query))
        return f"{first} {rest}"

    def _query(self, sql: str, tokens: list[Token]) -> str:
        """Return one SELECT or DESCRIBE over harmless tables and functions; refuse all else."""
        try:
            self._check(sql, tokens)
        except ColumnAfterInError as refused:
            written = as_column(sql, tokens, refused.name)
            if written == sql:
                raise
            return self._query(written, _tokens(written))
        return sql

    def _check(self, sql: str, tokens: list[Token]) -> None:
        if tokens and tokens[0].text.upper() == "FROM":
            raise SyntaxUsageError("SELECT comes before FROM")
        if not tokens or tokens[0].text.upper() not in _FIRST_WORDS - _UNPARSED:
            raise UsageError(_NOT_READING)
        _check_text(sql, tokens)
        _check_words(tokens)
        try:
            tree = _parse(sql)
        except SyntaxUsageError:
            if self.read_tree is None:
                raise
            check_tree(self.read_tree(_without_parameters(sql, tokens)), tokens, self.database, self.tenant)
        else:
            self._tree(tree)

    def _tree(self, tree: exp.Expr) -> None:
        """Refuse a tree unless it is a SELECT or DESCRIBE over offered tables."""
        if isinstance(tree, exp.Describe):
            if isinstance(tree.this, exp.Schema) or tree.expressions:
                raise UsageError("DESCRIBE takes the name of a table or a SELECT in brackets")
        elif not isinstance(tree, exp.Query):
            raise UsageError(_NOT_READING)
        for node in tree.walk():
            _check_node(node)
            for names, check in ((table_names(node), check_table), (member_names(node), check_member)):
                for name in names:
                    if len(name) > 1 or not is_defined(node, name[0]):
                        check(name, self.database, self.tenant)
            if self.tenant is not None:
                _check_for_tenant(node)


def _only_statement(sql: str) -> tuple[str, list[Token]]:
    """Return the statement of a text and its tokens. Refuses none, several and unreadable ones."""
    if len(sql.encode(errors="replace")) > MAX_STATEMENT_BYTES:
        raise UsageError(f"the statement is longer than {MAX_STATEMENT_BYTES:,} bytes; shorten it")
    unreadable = UNREADABLE.search(sql)
    if unreadable:
        text = (
            f"the statement holds the character U+{ord(unreadable[0]):04X}, which is not allowed; quotes are straight"
        )
        raise UsageError(text) if _UNSENDABLE.search(sql) else SyntaxUsageError(text)
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
                raise UsageError(f"the format {short(result_format)} is not offered")
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
    end, twice = len(tokens), ""
    while end >= 4:
        word, name, equals, value = tokens[end - 4 : end]
        if equals.text != "=" or value.token_type not in _VALUES:
            return None
        twice = twice or (name.text if name.text in settings else "")
        settings[name.text] = value.text
        if _is_word(word, "SETTINGS"):
            if twice:
                raise UsageError(f"the setting {short(twice)} is given twice")
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
            raise UsageError(f"the setting {short(name)} can't be changed here")
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
        raise UsageError(f"SHOW {short(what)} is not offered; SHOW knows {', '.join(sorted(showable))}")
    for token in tokens:
        text = token.text
        if token.token_type in {TokenType.STRING, TokenType.NUMBER, TokenType.DOT}:
            continue
        if not _PLAIN_NAME.fullmatch(text) or text.upper() in {"INTO", "FORMAT", "SETTINGS"} - {what}:
            raise UsageError(f"`{short(text)}` can't stand in a SHOW statement here")


def _check_words(tokens: list[Token]) -> None:
    """Refuse functions not known to be harmless, called or only named as an argument."""
    named = {name.text for word, name in pairwise(tokens) if word.text.upper() == "AS"}
    lambdas = named if any(token.token_type is TokenType.ARROW for token in tokens) else frozenset[str]()
    defined = _with_columns(tokens)
    for before, token, following in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        quoted = token.token_type is TokenType.IDENTIFIER
        if not quoted and not _WORD.fullmatch(token.text):
            continue
        name = token.text
        is_column = before is not None and before.text.upper() in {".", "AS"}
        if following and following.token_type is TokenType.L_PAREN:
            # `AS name (a, b)` names columns, `AS MATERIALIZED (` a query, `x -> x + 1 AS name` a function of its own.
            is_named = before is not None and before.text.upper() == "AS"
            is_own = name in lambdas or is_named or token.start in defined
            if is_own and not allowed.is_refused_function(name, as_word=False):
                continue
            if not allowed.may_be_called(name, as_word=not quoted) and name not in allowed.PARAMETERISED_VIEWS:
                raise UsageError(f"the function {short(name)}() is not offered")
        elif allowed.is_refused_function(name, as_word=not quoted) and not is_column:
            # ClickHouse lets arrayMap(file, ...) and APPLY(file) name a function by its name alone.
            raise UsageError(f"`{name}` is the name of a function that is not offered; write it as table.{name}")
    for colon, kind in pairwise(tokens):
        if colon.token_type is TokenType.COLON and kind.text.lower() == "identifier":
            raise UsageError("a parameter can't stand for a name; write the name itself")


def _with_columns(tokens: list[Token]) -> frozenset[int]:
    """Find where names begin that WITH defines with names of columns."""
    kinds = [token.token_type for token in tokens]
    found = []
    for at, (kind, following) in enumerate(zip(kinds, kinds[2:], strict=False)):
        if kind is not TokenType.R_PAREN or following is not TokenType.L_PAREN or tokens[at + 1].text.upper() != "AS":
            continue
        first = at - 1
        while first > 1 and (kinds[first] is TokenType.COMMA or _PLAIN_NAME.fullmatch(tokens[first].text)):
            first -= 1
        if kinds[first] is TokenType.L_PAREN:
            found.append(tokens[first - 1].start)
    return frozenset(found)


def _check_text(statement: str, tokens: list[Token]) -> None:
    """Refuse text that ClickHouse might divide into other words than sqlglot does."""
    end, is_expression = 0, False
    for token in tokens:
        if not _BETWEEN.fullmatch(statement, end, token.start):
            raise SyntaxUsageError("a comment is either /* ... */ without another in it, or -- to the end of the line")
        end = token.end + 1
        written = statement[token.start : end]
        if token.token_type in _ODD_STRINGS:
            raise SyntaxUsageError(f"write the string {short(written)} between single quotes")
        if token.token_type is TokenType.IDENTIFIER and re.search(r"[\\$]" if is_expression else r"[/\\.$]", written):
            raise UsageError(f"{short(written)}: a name may hold no slash and no dot, as that could name a file")
        is_word = token.token_type not in {TokenType.IDENTIFIER, TokenType.STRING}
        # `ORDER BY` and the like are one token.
        is_expression = is_word and token.text.upper().rpartition(" ")[2] in _BEFORE_EXPRESSION
        if token.token_type is not TokenType.STRING and "$" in written:
            raise SyntaxUsageError(f"`{short(written)}`: $ can stand in strings only")


def _without_parameters(sql: str, tokens: list[Token]) -> str:
    """Write NULL for each parameter. The engine shows no tree of a statement whose parameters have no values."""
    pieces, at, start = [], 0, None
    for token, following in zip(tokens, [*tokens[2:], None, None], strict=False):
        if token.token_type is TokenType.L_BRACE and following and following.token_type is TokenType.COLON:
            start = token.start
        elif token.token_type is TokenType.R_BRACE and start is not None:
            pieces += [sql[at:start], "NULL"]
            at, start = token.end + 1, None
    return "".join([*pieces, sql[at:]])


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
        raise UsageError(f"{short(node.alias)} is the name of a table; choose another after WITH")


def _unreadable(error: SqlglotError) -> SyntaxUsageError:
    first = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).partition("\n")[0].rstrip(". ")
    found = re.fullmatch(r"(.*?)\.? Line (\d+), Col: (\d+)", first)
    where = f" near line {found[2]}, column {found[3]}" if found else ""
    return SyntaxUsageError(f"the statement can't be read: syntax error{where}")
