"""Lines of the summary: a label on the left, a text that folds beside it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich.text import Text

#: Columns that the summary is laid out for where the reader's window is unknown.
WIDTH = 100
_LABEL_WIDTH = 16
_INDENT = 2


@dataclass(frozen=True, slots=True)
class Line:
    """A text with a label, or indented without one; `text` may depend on how many columns there are for it."""

    text: str | Callable[[int], str]
    label: str | None = None
    style: str = ""

    def laid_out(self, columns: int) -> Iterator[Text]:
        """Yield it as lines of at most `columns`."""
        indent = _INDENT if self.label is None else _LABEL_WIDTH
        first = f"  {self.label or ''}".ljust(indent)
        room = columns - indent
        text = self.text if isinstance(self.text, str) else self.text(room)
        for number, line in enumerate(textwrap.wrap(text, room, break_on_hyphens=False) or [""]):
            yield Text.assemble((first if number == 0 else " " * indent, "dim"), (line, self.style))


def labelled(label: str, text: str | Callable[[int], str], style: str = "") -> Iterator[Line]:
    """Yield a line with a label."""
    yield Line(text, label, style)


def wrapped(text: str) -> Iterator[Line]:
    """Yield a line without label."""
    yield Line(text)
