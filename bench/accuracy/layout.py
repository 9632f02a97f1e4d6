"""Lays tables out, for a terminal or as Markdown; a share is never rounded towards what it should be."""

from __future__ import annotations

import math
from collections.abc import Sequence

NOTHING = "-"

#: Floating-point noise, in percent, that is not rounded away from.
_NOISE = 1e-9


def share(value: float | None) -> str:
    """Write a share that should be large as a percentage of two digits, rounded down."""
    return NOTHING if value is None else f"{math.floor(value * 1e4 + _NOISE) / 100:.4g}%"


def fault(value: float | None) -> str:
    """Write a share that should be small as a percentage of three digits, rounded up."""
    return NOTHING if value is None else f"{math.ceil(value * 1e5 - _NOISE) / 1000:g}%"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, prose: bool = False) -> list[str]:
    """Lay out a table of known rows; with `prose`, its last column is text."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return [line(cells, widths[:-1] if prose else widths) for cells in (header, *rows)]


def line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Lay out one row: its name to the left, numbers to the right.

    Cells beyond the widths come last, as they are.
    """
    name, *numbers = (
        cell.rjust(width) if place else cell.ljust(width)
        for place, (cell, width) in enumerate(zip(cells, widths, strict=False))
    )
    return "  ".join((name, *numbers, *cells[len(widths) :])).rstrip()


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay out a table as Markdown."""
    marks = ["---", *("---:" for _ in header[1:])]
    return ["| " + " | ".join(cells) + " |" for cells in (header, marks, *rows)]
