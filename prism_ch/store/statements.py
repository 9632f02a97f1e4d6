"""Loads SQL statements from sql/, and splits scripts into statements without changing them."""

from functools import cache

from sqlglot import TokenType, tokenize

from prism_ch.assets import asset
from prism_ch.errors import StoreError


@cache
def statement(name: str) -> str:
    """Load the statement of sql/queries/<name>.sql, without its header comment.

    Raises StoreError if the file does not hold exactly one.
    """
    statements = split_statements(asset(f"sql/queries/{name}.sql").read_text(encoding="utf-8"))
    if len(statements) != 1:
        raise StoreError(f"sql/queries/{name}.sql must hold one statement, not {len(statements)}")
    return statements[0]


@cache
def split_statements(text: str) -> tuple[str, ...]:
    """Split a script into its statements, each as written.

    sqlglot only locates tokens, so quotes, comments and heredocs may hold semicolons; nothing is regenerated.
    """
    statements: list[str] = []
    start: int | None = None
    end = 0
    for token in tokenize(text, read="clickhouse"):
        if token.token_type is TokenType.SEMICOLON:
            if start is not None:
                statements.append(text[start:end])
            start = None
            continue
        start = token.start if start is None else start
        end = token.end + 1
    if start is not None:
        statements.append(text[start:end])
    return tuple(statements)
