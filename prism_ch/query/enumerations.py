"""Writes enumerations as text in formats that would number them, or would write them as bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from prism_ch.errors import StoreError

#: Formats with types of their own, none of which is an enumeration.
NUMBERING_FORMATS = frozenset({"Arrow", "ArrowStream", "Parquet"})
_SELECT = re.compile(r"\s*(?:\(|(?:FROM|SELECT|WITH)\b)", re.IGNORECASE)
_ENUMERATION = re.compile(r"Enum(?:8|16)\((?:'(?:[^'\\]|\\.)*' = -?\d+(?:, )?)+\)")


def with_names(text: str, result_format: str, ask: Callable[[str], bytes]) -> str:
    """Return a SELECT whose enumerations are text, alone and in arrays, maps and tuples, if its format has none.

    Parameters: `ask` returns what a statement answers as JSONEachRow. A statement that can't be described stays as it
    is, and so do columns of the same name.
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


def _escaped(text: str) -> str:
    return re.sub(r"[\\'`]", r"\\\g<0>", text)
