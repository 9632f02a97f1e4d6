"""Makes the frame of a drawing: its picture with a text for those who don't see it, axes, and marked spans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from prism_ch.report.drawing.markup import element, joined, label, number
from prism_ch.report.drawing.scales import Scale

#: Width of a drawing in its own units; the page stretches it to the width of its column.
WIDTH = 960


def picture(height: float, says: str, *children: Markup, width: float = WIDTH) -> Markup:
    """Make a picture.

    Parameters: `says`, what it shows, for those who don't see it.
    """
    box = f"0 0 {number(width)} {number(height)}"
    return element("svg", *children, viewBox=box, width=width, height=height, role="img", aria_label=says)


def text(x: float, y: float, content: str, *, anchor: str = "start", kind: str = "t") -> Markup:
    """Write a line of text."""
    return element("text", content, x=x, y=y, _class=kind, text_anchor=None if anchor == "start" else anchor)


@dataclass(frozen=True, slots=True)
class Mark:
    """A span of the x axis to mark, with its number, and a class that colours it."""

    low: float
    high: float
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Axes:
    """The two scales of a chart; y grows upwards."""

    x: Scale
    y: Scale

    def grid(self, written: Callable[[float], str], y_name: str, x_name: str) -> Markup:
        """Draw the grid, the numbers at both axes, and what these are."""
        lines = [
            part
            for tick in self.y.ticks(5)
            for part in (
                element(
                    "path", d=f"M{number(self.x.start)} {number(self.y(tick))}H{number(self.x.end)}", _class="grid"
                ),
                text(self.x.start - 6, self.y(tick) + 4, written(tick), anchor="end"),
            )
        ]
        below = [
            text(self.x(tick), self.y.start + 16, f"{tick:,.0f}", anchor="middle")
            for tick in self.x.ticks(9)
            if tick == int(tick)
        ]
        names = (text(0, 11, y_name), text(self.x.end, self.y.start + 32, x_name, anchor="end"))
        return joined([*lines, *below, *names])

    def marks(self, marks: Sequence[Mark]) -> Markup:
        """Shade spans of x from top to bottom, each with its name on top."""
        parts = []
        for mark in marks:
            left, right = self.x(mark.low), self.x(mark.high)
            width = max(right - left, 2.0)
            parts += [
                element(
                    "rect",
                    x=left,
                    y=self.y.end,
                    width=width,
                    height=self.y.start - self.y.end,
                    _class=f"mark {mark.kind}",
                ),
                text(left + width / 2, self.y.end - 3, label(mark.name, 24), anchor="middle"),
            ]
        return joined(parts)

    def line(self, xs: Sequence[float], ys: Sequence[float], kind: str) -> Markup:
        """Draw a line through points."""
        points = (f"{number(self.x(x))} {number(self.y(y))}" for x, y in zip(xs, ys, strict=True))
        return element("path", d="M" + "L".join(points), _class=kind)

    def band(self, xs: Sequence[float], lows: Sequence[float], highs: Sequence[float], kind: str) -> Markup:
        """Fill what lies between two lines."""
        forth = [(x, high) for x, high in zip(xs, highs, strict=True)]
        back = [(x, low) for x, low in zip(xs, lows, strict=True)][::-1]
        points = (f"{number(self.x(x))} {number(self.y(y))}" for x, y in forth + back)
        return element("path", d="M" + "L".join(points) + "Z", _class=kind)
