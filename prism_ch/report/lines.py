"""Lines of the summary: a label on the left, a text that folds beside it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rich.text import Text

#: Columns that the summary is laid out for.
WIDTH = 100
LABEL_WIDTH = 16


def labelled(label: str, text: str, style: str = "") -> Iterator[Text]:
    """Yield the lines of a text, the first with a label."""
    first = f"  {label}".ljust(LABEL_WIDTH)
    for number, line in enumerate(textwrap.wrap(text, WIDTH - LABEL_WIDTH, break_on_hyphens=False) or [""]):
        yield Text.assemble((first if number == 0 else " " * LABEL_WIDTH, "dim"), (line, style))


def wrapped(text: str) -> Iterator[Text]:
    """Yield the lines of a text without label."""
    for line in textwrap.wrap(text, WIDTH - 2, break_on_hyphens=False):
        yield Text(f"  {line}")
