"""Draws bars: what a total consists of, and values to compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from prism_ch.report.drawing.figure import WIDTH, picture, text
from prism_ch.report.drawing.markup import element, label
from prism_ch.report.drawing.scales import Scale

_HEIGHT, _ROW, _LEFT, _RIGHT = 34, 26, 120, 150
#: A part of a bar that is not zero is at least this wide, so that it is seen.
_LEAST_WIDTH = 2.0


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar: what it is, how much, that in words, and the class that fills it."""

    name: str
    value: float
    written: str
    kind: str


def total(says: str, parts: Sequence[Part]) -> Markup:
    """Draw one bar out of the parts of a total.

    Parts of no size are left out.
    """
    shown = [part for part in parts if part.value > 0]
    whole = sum(part.value for part in shown)
    if not shown:
        return picture(_HEIGHT, says)
    room = WIDTH - _LEAST_WIDTH * len(shown)
    drawn, x = [], 0.0
    for part in shown:
        width = _LEAST_WIDTH + room * part.value / whole
        drawn.append(
            element(
                "rect",
                element("title", f"{part.name}: {part.written}"),
                x=x,
                y=0,
                width=max(width - 1, 1),
                height=_HEIGHT,
                _class=part.kind,
            )
        )
        x += width
    return picture(_HEIGHT, says, *drawn)


def compared(says: str, parts: Sequence[Part]) -> Markup:
    """Draw a bar for each value, all from zero.

    Its name stands before it, its value after it.
    """
    high = max((part.value for part in parts), default=0.0)
    across = Scale(0.0, high if high > 0 else 1.0, _LEFT, WIDTH - _RIGHT)
    drawn = []
    for place, part in enumerate(parts):
        y = place * _ROW
        width = max(across(part.value) - _LEFT, 1.0)
        drawn += [
            text(_LEFT - 8, y + 17, label(part.name, 18), anchor="end"),
            element("rect", x=_LEFT, y=y + 3, width=width, height=_ROW - 8, _class=part.kind),
            text(_LEFT + width + 8, y + 17, label(part.written, 24), kind="t v"),
        ]
    return picture(len(parts) * _ROW, says, *drawn)
