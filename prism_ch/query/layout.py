"""Lays out an answer as a table: with lines on a terminal, as aligned plain text in a pipe."""

from __future__ import annotations

import re

from rich import box
from rich.table import Table
from rich.text import Text

from prism_ch.query.answer import Answer

_NUMBER = re.compile(r"(Nullable\(|LowCardinality\()*(U?Int|Float|BFloat|Decimal)\d*")


def plain_table(answer: Answer) -> str:
    """Lay out header and rows in aligned columns, numbers to the right."""
    rows = [answer.names, *(tuple(map(_cell, row)) for row in answer.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = [is_number(kind) for kind in answer.types]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in rows
    )


def drawn_table(answer: Answer) -> Table:
    """Lay out a table for a terminal; long cells fold."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, kind in zip(answer.names, answer.types, strict=True):
        table.add_column(Text(name), justify="right" if is_number(kind) else "left", overflow="fold")
    for row in answer.rows:
        # Text, as a value must never be read as markup.
        table.add_row(*(Text(_cell(value), style="dim" if value is None else "") for value in row))
    return table


def is_number(kind: str) -> bool:
    """Check whether a ClickHouse type holds numbers."""
    return _NUMBER.match(kind) is not None


def _cell(value: str | None) -> str:
    """Return a value on one line, with control characters escaped, as records come from outside."""
    if value is None:
        return "NULL"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)
