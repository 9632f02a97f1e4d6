"""Lays out an answer as a table on a terminal of some width."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from prism_ch.query.answer import Answer
from prism_ch.query.layout import is_number, one_line

_FLOAT = re.compile(r"(Nullable\()?B?Float")
_TIME = re.compile(r"(Nullable\()?DateTime64")

#: A terminal shows floats with this many significant digits: medians of steps differ in the fourth.
_DIGITS = 6
#: Digits of a second that a terminal shows: milliseconds.
_OF_SECOND = 3
#: Text on a terminal is cut to this many columns at the least; where that is not enough, rows are written as blocks.
_LEAST_COLUMNS = 16
#: Columns between two columns.
_GAP = 3


def drawn_table(answer: Answer, width: int) -> RenderableType:
    """Lay out an answer for a terminal of some width, and count its rows.

    1. Floats have six significant digits, times milliseconds.
    2. Where rows are too wide, text is cut, the longest first.
    3. Where that is not enough, each row is a block with a line a value, which is whole.
    """
    rows = [tuple(map(_shown, row, answer.types)) for row in answer.rows]
    widths = _fitting(answer, rows, width)
    drawn = _blocks(answer) if widths is None else _lines(answer, rows, widths)
    return Group(drawn, Text(f"{len(rows):,} row{'' if len(rows) == 1 else 's'}", style="dim"))


def _fitting(answer: Answer, rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Return the width of each column, None if they don't fit side by side."""
    widths = [max(map(cell_len, column)) for column in zip(answer.names, *rows, strict=True)]
    may_cut = [not is_number(kind) and _TIME.match(kind) is None for kind in answer.types]
    least = [min(own, _LEAST_COLUMNS) if cut else own for own, cut in zip(widths, may_cut, strict=True)]
    room = width - _GAP * (len(widths) - 1)
    if sum(least) > room:
        return None
    while sum(widths) > room:
        longest = max(own for own, small in zip(widths, least, strict=True) if own > small)
        widths[widths.index(longest)] -= 1
    return widths


def _lines(answer: Answer, rows: Sequence[Sequence[str]], widths: Sequence[int]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    for name, kind, own in zip(answer.names, answer.types, widths, strict=True):
        table.add_column(
            Text(name), justify="right" if is_number(kind) else "left", overflow="ellipsis", no_wrap=True, width=own
        )
    for row, given in zip(rows, answer.rows, strict=True):
        # Text, as a value must never be read as markup.
        table.add_row(
            *(Text(cell, style="dim" if value is None else "") for cell, value in zip(row, given, strict=True))
        )
    return table


def _blocks(answer: Answer) -> Group:
    blocks: list[RenderableType] = []
    for number, row in enumerate(answer.rows, start=1):
        block = Table.grid(padding=(0, 2))
        block.add_column(justify="right", style="bold", no_wrap=True)
        block.add_column(overflow="fold")
        for name, value in zip(answer.names, row, strict=True):
            block.add_row(Text(name), Text(one_line(value), style="dim" if value is None else ""))
        blocks += [Rule(f"row {number:,}", align="left", style="dim"), block]
    return Group(*blocks)


def _shown(value: str | None, kind: str) -> str:
    """Return a value as a terminal shows it."""
    text = one_line(value)
    if value is not None and _FLOAT.match(kind):
        return f"{float(value):.{_DIGITS}g}"
    if value is not None and _TIME.match(kind):
        seconds, _, digits = text.partition(".")
        return f"{seconds}.{digits[:_OF_SECOND]}" if digits else seconds
    return text
