"""Writes tables into docs/accuracy.md: each between its own marks, everything else stays as it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"


def put(page: str, name: str, command: str, lines: Sequence[str]) -> str:
    """Replace the table `name` of a page, and the command above it that printed it.

    Returns the page as it is if it has no marks `<!-- table: name -->` and `<!-- end -->`.
    """
    between = re.compile(rf"(<!-- table: {re.escape(name)} -->\n).*?(?=<!-- end -->)", re.DOTALL)
    table = "\n".join((f"`{command}` printed:", "", *lines, ""))
    return between.sub(lambda found: found[1] + table, page)
