"""Loads and splits SQL statements from sql/, and translates them for a cluster by one substitution.

On a cluster flow records are sharded by the unordered pair of their endpoints, so that both directions of a pair, all
observations of a flow and all repeats of a record meet on one node. Everything else is small and lies whole on every
node, so that no result needs a join across nodes. DDL is changed at tokens and otherwise sent as written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from sqlglot import Token, TokenType, tokenize

from prism_ch.assets import asset
from prism_ch.errors import StoreError

#: The same for both directions of a pair.
_PAIR = "cityHash64(least(src_addr, dst_addr), greatest(src_addr, dst_addr))"
#: The sharded tables, each with the expression that assigns a row to a shard.
SHARDING_KEYS = {
    "flows_log": _PAIR,
    "flow_pair_1m_log": _PAIR,
    "flow_pair_1h_log": _PAIR,
    "flows_rejected_log": "cityHash64(source, position)",
}
#: Suffix of the table that holds a shard's own rows; the plain name is the Distributed table over all of them.
LOCAL_SUFFIX = "_local"
#: What makes a cluster answer as one server does: an insert has reached its shards and most replicas before it returns
#: (once, however often it is repeated: views pass on its token), DDL every node, and a read sees all of that.
CLUSTER_SETTINGS = {
    "distributed_foreground_insert": 1,
    "insert_quorum": "auto",
    "insert_quorum_parallel": 0,
    "select_sequential_consistency": 1,
    "deduplicate_blocks_in_dependent_materialized_views": 1,
    "distributed_ddl_output_mode": "throw",
}
_WORDS_BEFORE_NAME = frozenset(
    ["CREATE", "OR", "REPLACE", "ALTER", "DATABASE", "MATERIALIZED", "TABLE", "VIEW", "IF", "NOT", "EXISTS"]
)
_DEDUPLICATION = "non_replicated_deduplication_window"
_DEDUPLICATION_REPLICATED = "replicated_deduplication_window"
#: An edit of a text: start, end, and what replaces the text between them.
_Edit = tuple[int, int, str]


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


def quoted(text: str) -> str:
    """Write a ClickHouse string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def for_cluster(sql: str, cluster: str) -> tuple[str, ...]:
    """Translate one statement for one server into those for a cluster.

    Parameters: `cluster`, its name as in the server's configuration, empty for a single server. The nodes' macros
    `shard` and `replica` name the place of a node. Statements but CREATE and ALTER are returned as they are.
    """
    tokens = tokenize(sql, read="clickhouse") if cluster else []
    verb = tokens[0].text.upper() if tokens else ""
    if verb not in {"CREATE", "ALTER"}:
        return (sql,)
    start, end = _name_span(tokens)
    name = sql[start:end]
    on_cluster = f" ON CLUSTER '{cluster}'"
    if name not in SHARDING_KEYS:
        return (_edited(sql, [(end, end, on_cluster), *_replicated(tokens, name, whole=True)]),)
    local = name + LOCAL_SUFFIX
    of_shard = _edited(sql, [(start, end, local + on_cluster), *_replicated(tokens, name, whole=False)])
    if verb == "ALTER":
        return (of_shard, _edited(sql, [(end, end, on_cluster)]))
    distributed = (
        f"CREATE TABLE IF NOT EXISTS {name}{on_cluster} AS {local}\n"
        f"ENGINE = Distributed('{cluster}', currentDatabase(), '{local}', {SHARDING_KEYS[name]})"
    )
    return (of_shard, distributed)


def local_name(table: str, cluster: str) -> str:
    """Return the name of the table that stores a table's rows on a node."""
    return table + LOCAL_SUFFIX if cluster and table in SHARDING_KEYS else table


def _name_span(tokens: Sequence[Token]) -> tuple[int, int]:
    """Locate the name that a statement creates or alters. It may be a parameter in braces."""
    first = next(row for row, token in enumerate(tokens) if token.text.upper() not in _WORDS_BEFORE_NAME)
    last = first
    if tokens[first].token_type is TokenType.L_BRACE:
        last = next(row for row, token in enumerate(tokens) if token.token_type is TokenType.R_BRACE)
    return tokens[first].start, tokens[last].end + 1


def _replicated(tokens: Sequence[Token], name: str, *, whole: bool) -> Iterator[_Edit]:
    """Yield the edits that make an engine of the MergeTree family replicated.

    The replicas of a table are all nodes if it lies `whole` on every node, else those of one shard.
    """
    path = f"/clickhouse/tables/{{database}}/{name}" if whole else f"/clickhouse/tables/{{shard}}/{{database}}/{name}"
    replica = "{shard}-{replica}" if whole else "{replica}"
    place = f"'{path}', '{replica}'"
    for row, token in enumerate(tokens):
        if token.text == _DEDUPLICATION:
            yield token.start, token.end + 1, _DEDUPLICATION_REPLICATED
        if token.text.upper() == "ENGINE" and tokens[row + 1].token_type is TokenType.EQ:
            yield from _replicated_engine(tokens[row + 2 :], place)


def _replicated_engine(tokens: Sequence[Token], place: str) -> Iterator[_Edit]:
    """Yield the edit of an engine's name and arguments, with which the tokens begin."""
    name = tokens[0]
    if not name.text.endswith("MergeTree"):
        return
    if len(tokens) > 1 and tokens[1].token_type is TokenType.L_PAREN:
        comma = "" if tokens[2].token_type is TokenType.R_PAREN else ", "
        yield name.start, tokens[1].end + 1, f"Replicated{name.text}({place}{comma}"
    else:
        yield name.start, name.end + 1, f"Replicated{name.text}({place})"


def _edited(text: str, edits: Sequence[_Edit]) -> str:
    """Apply edits to a text, the last first, as each moves what follows it."""
    for start, end, replacement in sorted(edits, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text
