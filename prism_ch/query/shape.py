"""Gives results the shape that a format can't: enumerations as text, and blocks that tell nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from prism_ch.errors import StoreError

#: Formats with types of their own, none of which is an enumeration.
NUMBERING_FORMATS = frozenset({"Arrow", "ArrowStream", "Parquet"})
#: Formats in which one sees where a block ends.
_BLOCK_FORMATS = NUMBERING_FORMATS | {
    "Native", "Pretty", "PrettyCompact", "PrettyCompactNoEscapes", "PrettyNoEscapes", "PrettySpace",
}  # fmt: skip
#: Formats that tell how many rows there were before LIMIT: at least, as the engine stops reading at the end of a block.
COUNTING_FORMATS = frozenset({
    "JSON", "JSONColumnsWithMetadata", "JSONCompact", "JSONCompactStrings", "JSONStrings",
})  # fmt: skip
_SELECT = re.compile(r"\s*(?:\(|(?:FROM|SELECT|WITH)\b)", re.IGNORECASE)
_ENUMERATION = re.compile(r"Enum(?:8|16)\((?:'(?:[^'\\]|\\.)*' = -?\d+(?:, )?)+\)")


def with_names(text: str, result_format: str, ask: Callable[[str], bytes]) -> str:
    """Return a SELECT whose enumerations are text, if its format has none.

    Those in arrays, maps and tuples too. A statement that can't be described stays as it is, and so do columns of the
    same name.
    Parameters: `ask` returns what a statement answers as JSONEachRow.
    """
    if result_format not in NUMBERING_FORMATS or not _SELECT.match(text):
        return text
    try:
        columns = [json.loads(line) for line in ask(f"DESCRIBE (\n{text}\n)").splitlines()]
    except StoreError:  # running it says why
        return text
    names = [column["name"] for column in columns]
    casts = [
        f"CAST({quoted}, '{_escaped(_ENUMERATION.sub('String', column['type']))}') AS {quoted}"
        for column in columns
        if _ENUMERATION.search(column["type"]) and names.count(column["name"]) == 1
        for quoted in [f"`{_escaped(column['name'])}`"]
    ]
    # The text has passed the gate, or is an operator's; names and types come from the engine.
    return f"SELECT * REPLACE ({', '.join(casts)}) FROM (\n{text}\n)" if casts else text  # noqa: S608


def in_even_blocks(text: str, result_format: str) -> str:
    """Return a tenant's SELECT with blocks of one size, if its format shows them.

    Rows stay in order. The engine makes a block of what it finds in those that it reads, so that their sizes tell of
    rows in between.
    """
    if result_format not in _BLOCK_FORMATS or not _SELECT.match(text):
        return text
    return (
        "SELECT * EXCEPT (__row) FROM (SELECT *, rowNumberInAllBlocks() AS __row"  # noqa: S608 - has passed the gate
        f" FROM (\n{text}\n)) ORDER BY __row"
    )


def _escaped(text: str) -> str:
    return re.sub(r"[\\'`]", r"\\\g<0>", text)
