"""Draws lines over steps: how long steps took, and a culprit against its peers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from prism_ch.report.drawing.figure import WIDTH, Axes, Mark, picture
from prism_ch.report.drawing.scales import covering, decimals, tick_distance

_LEFT, _TOP, _BELOW = 64, 34, 40


@dataclass(frozen=True, slots=True)
class Series:
    """A line over steps, and the classes that draw it."""

    ys: Sequence[float]
    kind: str


@dataclass(frozen=True, slots=True)
class Chart:
    """What a chart of durations over steps shows.

    `says` describes it in words; `band` is filled between its two lines, None for no band. Lines are drawn in order.
    """

    says: str
    steps: Sequence[int]
    lines: Sequence[Series]
    band: tuple[Sequence[float], Sequence[float]] | None = None
    marks: Sequence[Mark] = ()
    height: float = 240


def durations(chart: Chart) -> Markup:
    """Draw durations over steps, from zero unless their differences would not be seen."""
    every = [y for line in chart.lines for y in line.ys] + [y for side in chart.band or () for y in side]
    low, high = min(every), max(every)
    # Jitter of a percent should not fill the chart; nor should a jump of a tenth look flat.
    low = max(0.0, low - max(0.25 * low, high - low) * 0.4)
    axes = Axes(
        covering(chart.steps[0], chart.steps[-1], _LEFT, WIDTH - 12),
        covering(low, high + (high - low) * 0.06, chart.height - _BELOW, _TOP),
    )
    digits = decimals(tick_distance(axes.y.high - axes.y.low, 5))
    band = Markup("") if chart.band is None else axes.band(chart.steps, *chart.band, "f-series-band")
    return picture(
        chart.height,
        chart.says,
        axes.marks(chart.marks),
        axes.grid(lambda tick: f"{tick:.{digits}f}", "seconds", "step"),
        band,
        *(axes.line(chart.steps, line.ys, line.kind) for line in chart.lines),
    )
