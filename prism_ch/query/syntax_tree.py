"""Judges a statement by the engine's own syntax tree, where sqlglot can't parse it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlglot.tokens import Token, TokenType

from prism_ch.errors import UsageError
from prism_ch.query import tenancy
from prism_ch.query.membership import check_member
from prism_ch.query.tables import check_table, short, table_function

#: The nodes that a reading statement consists of; a tree with any other is refused.
_KINDS = frozenset({
    "ArrayJoin", "Asterisk", "ColumnsApplyTransformer", "ColumnsExceptTransformer", "ColumnsListMatcher",
    "ColumnsRegexpMatcher", "ColumnsReplaceTransformer", "ColumnsReplaceTransformer::Replacement",
    "ColumnsTransformerList", "DescribeQuery", "ExpressionList", "Function", "Identifier", "InterpolateElement",
    "Literal", "OrderByElement", "QualifiedAsterisk", "QualifiedColumnsListMatcher", "QualifiedColumnsRegexpMatcher",
    "SampleRatio", "SelectIntersectExceptQuery", "SelectQuery",
    "SelectWithUnionQuery", "Subquery", "TableExpression", "TableIdentifier", "TableJoin", "TablesInSelectQuery",
    "TablesInSelectQueryElement", "WindowDefinition", "WindowListElement", "WithElement",
})  # fmt: skip
_NODE = re.compile(r"( *)([A-Za-z:]+)(?: (.*))?")
#: Functions whose second argument may be the name of a table.
_MEMBERSHIP = re.compile(r"(global)?(not)?(null)?in(ignoreset)?", re.IGNORECASE)
#: Words that the tree does not show, or not with all that stands behind them.
_HIDDEN = frozenset({"FORMAT", "INTO", "OUTFILE", "PREWHERE", "SETTINGS"})
_QUOTED_NAME = re.compile(r"[^\\\n\r\t`\"]*")


@dataclass(frozen=True, slots=True)
class _Node:
    depth: int
    kind: str
    text: str


def check_tree(tree: str, tokens: Sequence[Token], database: str, tenant: str | None) -> None:
    """Raise UsageError unless a statement reads only what may be read.

    Parameters: `tree`, what EXPLAIN AST writes of it; `tokens`, its words, whose functions are known to be harmless.
    The tree does not show what stands inside of APPLY(x -> ...), so as many SELECT and IN as words must be nodes of it.
    """
    words = Counter(token.text.upper() for token in tokens if token.token_type not in _QUOTED)
    for token in tokens:
        if token.token_type is TokenType.IDENTIFIER and not _QUOTED_NAME.fullmatch(token.text):
            raise UsageError(f"`{short(token.text)}`: a name may hold no quote, no backslash and no end of line here")
    hidden = next((word for word in _HIDDEN if words[word]), None)
    if hidden:
        raise UsageError(f"{hidden} can't stand in this statement")
    nodes = [_read(line) for line in tree.splitlines() if line.strip()]
    memberships = [node for node in nodes if node.kind == "Function" and _MEMBERSHIP.fullmatch(_name(node))]
    shown = (sum(node.kind == "SelectQuery" for node in nodes), len(memberships))
    if shown != (words["SELECT"], words["IN"] + sum(words[word] for word in words if word.endswith(" IN"))):
        raise UsageError("a SELECT or IN of the statement could not be looked into, so it isn't run")
    defined = {first.text for first, word in pairwise(tokens) if word.text.upper() == "AS"}
    for name, check in _tables(nodes):
        if len(name) > 1 or name[0] not in defined or name[0] in tenancy.known_names():
            check(name, database, tenant)


_QUOTED = frozenset({TokenType.IDENTIFIER, TokenType.STRING})
_CheckName = Callable[[Sequence[str], str, str | None], None]


def _read(line: str) -> _Node:
    found = _NODE.fullmatch(line)
    if found is None or found[2] not in _KINDS:
        raise UsageError(f"`{short(line)}` is not known here, so the statement isn't run")
    return _Node(len(found[1]), found[2], found[3] or "")


def _name(node: _Node) -> str:
    return re.sub(r" \((alias|children) .*", "", node.text)


def _tables(nodes: Sequence[_Node]) -> Iterator[tuple[list[str], _CheckName]]:
    """Yield the tables that a tree names, and what checks each name. Refuses table functions.

    A name is its dotted parts.
    """
    above: list[_Node] = []
    arguments: dict[int, int] = {}
    for node in nodes:
        above = [*(outer for outer in above if outer.depth < node.depth), node]
        arguments = {depth: count for depth, count in arguments.items() if depth <= node.depth}
        arguments[node.depth] = arguments.get(node.depth, 0) + 1
        within = above[-2].kind if len(above) > 1 else ""
        if node.kind == "TableIdentifier":
            yield _name(node).split("."), check_table
        elif within == "TableExpression" and node.kind == "Function":
            yield from ((name, check_table) for name in table_function(_name(node)))
        elif within == "TableExpression" and node.kind not in {"Subquery", "SampleRatio"}:
            raise UsageError(f"{short(node.text)} can't stand where a table is expected")
        elif node.kind == "Identifier" and arguments[node.depth] > 1 and _is_argument_of_in(above):
            yield _name(node).split("."), check_member


def _is_argument_of_in(above: Sequence[_Node]) -> bool:
    return len(above) > 2 and above[-2].kind == "ExpressionList" and bool(_MEMBERSHIP.fullmatch(_name(above[-3])))
