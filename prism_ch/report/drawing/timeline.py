"""Draws what GPUs did in a step: a row each, and a colour for each kind of phase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from prism_ch.report.drawing.figure import WIDTH, picture, text
from prism_ch.report.drawing.markup import element, joined, label, number
from prism_ch.report.drawing.palette import PHASES
from prism_ch.report.drawing.scales import Scale, decimals, tick_distance

_LEFT, _TOP, _ROW = 150, 26, 17
#: Numbers of the axis behind this place would leave the picture, so that they end at theirs.
_LAST = WIDTH - 40
#: Narrower phases are drawn this wide, in pixels, so that short messages are seen.
_LEAST_WIDTH = 0.7
#: Boxes of one kind with less between them, in pixels, are drawn as one: so a picture has a bounded size.
_LEAST_GAP = 0.4


@dataclass(frozen=True, slots=True)
class Phase:
    """What a GPU did from when until when, nanoseconds since the epoch."""

    kind: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Row:
    """The phases of a GPU, in order, and its name; `is_named` if it kept the others waiting."""

    name: str
    phases: Sequence[Phase]
    is_named: bool = False


def timeline(says: str, rows: Sequence[Row], from_ns: int, to_ns: int, origin_ns: int) -> Markup:
    """Draw rows of phases between two times.

    Parameters: `origin_ns`, from which the axis counts.
    """
    across = Scale(0.0, float(max(to_ns - from_ns, 1)), _LEFT, WIDTH - 4)
    bottom = _TOP + len(rows) * _ROW
    shift_s = (from_ns - origin_ns) / 1e9
    shown = Scale(shift_s, shift_s + across.high / 1e9, _LEFT, WIDTH - 4)
    digits = decimals(tick_distance(shown.high - shown.low, 8))
    grid = [
        part
        for tick in shown.ticks(8)
        for part in (
            element("path", d=f"M{number(shown(tick))} {_TOP - 4}V{bottom}", _class="grid"),
            text(shown(tick), _TOP - 9, f"{tick:.{digits}f} s", anchor="end" if shown(tick) > _LAST else "middle"),
        )
    ]
    drawn = [
        part
        for place, row in enumerate(rows)
        for part in (
            text(
                _LEFT - 6,
                _TOP + place * _ROW + 12,
                label(row.name, 22),
                anchor="end",
                kind="t b" if row.is_named else "t",
            ),
            joined(_phases(row, _TOP + place * _ROW, from_ns, to_ns, across)),
        )
    ]
    return picture(bottom + 4, says, *grid, *drawn)


def _phases(row: Row, y: int, from_ns: int, to_ns: int, across: Scale) -> list[Markup]:
    """Draw the phases of a row, all of one kind in one path. A step has thousands."""
    drawn = []
    for kind in PHASES:
        boxes: list[tuple[float, float]] = []
        for phase in row.phases:
            left, right = max(phase.start_ns, from_ns), min(phase.end_ns, to_ns)
            if phase.kind == kind and left < right:
                _add(boxes, across(left - from_ns), across(right - from_ns))
        if boxes:
            sized = [(number(left), number(right - left)) for left, right in boxes]
            path = "".join(f"M{left} {y}h{width}v{_ROW - 3}h-{width}z" for left, width in sized)
            drawn.append(element("path", d=path, _class=f"f-phase-{kind}"))
    return drawn


def _add(boxes: list[tuple[float, float]], left: float, right: float) -> None:
    """Add a box behind the others.

    The last one is widened instead if no eye could see a gap between them.
    """
    right = max(right, left + _LEAST_WIDTH)
    if boxes and left - boxes[-1][1] < _LEAST_GAP:
        boxes[-1] = (boxes[-1][0], max(right, boxes[-1][1]))
    else:
        boxes.append((left, right))
