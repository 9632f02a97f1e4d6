"""Lays out an answer as plain text, whole: for a pipe or a file."""

from __future__ import annotations

import re

from prism_ch.query.answer import Answer

_NUMBER = re.compile(r"(Nullable\(|LowCardinality\()*(U?Int|Float|BFloat|Decimal)\d*")


def plain_table(answer: Answer) -> str:
    """Lay out header and rows in aligned columns, numbers to the right, all values whole."""
    rows = [answer.names, *(tuple(map(one_line, row)) for row in answer.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = [is_number(kind) for kind in answer.types]
    return "\n".join(
        "  ".join(
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in rows
    )


def is_number(kind: str) -> bool:
    """Check whether a ClickHouse type holds numbers."""
    return _NUMBER.match(kind) is not None


def one_line(value: str | None) -> str:
    """Return a value on one line, with control characters escaped, as records come from outside."""
    if value is None:
        return "NULL"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)
