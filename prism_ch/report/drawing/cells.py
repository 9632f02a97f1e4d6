"""Draws heat maps: GPUs by server, and delays from sender to receiver."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from prism_ch.report.drawing.figure import WIDTH, picture, text
from prism_ch.report.drawing.markup import element, joined, label
from prism_ch.report.drawing.palette import HEAT, HEAT_FROM, heat_class

_CELL, _GAP, _LABEL, _BETWEEN = 14, 1, 92, 18
#: Rows that a map of GPUs has at least before it takes another column.
_ROWS_LEAST = 12
_NUMBERED = re.compile(r"([^0-9]*)([0-9]{0,18})")
#: Letters of a name that fit beside a row.
_LETTERS = 15


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU in a map: where it is, and how much longer it worked than its peers; 0 is as usual.

    `is_named` if an incident names it: it gets a frame.
    """

    server: str
    number: int
    excess: float
    is_named: bool = False


def gpu_map(says: str, gpus: Sequence[Gpu]) -> Markup:
    """Draw the GPUs of each server in a row.

    Rows stand in as many columns as fit.
    """
    servers: dict[str, list[Gpu]] = {}
    for gpu in sorted(gpus, key=lambda gpu: (natural_key(gpu.server), gpu.number)):
        servers.setdefault(gpu.server, []).append(gpu)
    wide = max((len(row) for row in servers.values()), default=1)
    block = _LABEL + wide * _CELL + _BETWEEN
    columns = max(1, min(int((WIDTH + _BETWEEN) // block), math.ceil(len(servers) / _ROWS_LEAST)))
    rows = math.ceil(len(servers) / columns)
    drawn = []
    for place, (server, row) in enumerate(servers.items()):
        x, y = (place // rows) * block, (place % rows) * _CELL
        drawn.append(text(x + _LABEL - 5, y + 11, label(server, _LETTERS), anchor="end", kind="t s"))
        drawn += [_gpu(x + _LABEL + nth * _CELL, y, gpu) for nth, gpu in enumerate(row)]
    width = max(WIDTH, columns * block - _BETWEEN)
    return picture(max(rows, 1) * _CELL, says, *drawn, width=width)


def natural_key(name: str) -> list[tuple[str, int]]:
    """Return a key that sorts host-9 before host-10."""
    return [(letters, int(digits or 0)) for letters, digits in _NUMBERED.findall(name)]


def _gpu(x: float, y: float, gpu: Gpu) -> Markup:
    side = _CELL - _GAP
    says_cell = f"{label(gpu.server, 60)} GPU {gpu.number}: {gpu.excess:+.1%}"
    kind = f"f-heat-{heat_class(gpu.excess)}" + (" named" if gpu.is_named else "")
    return element("rect", element("title", says_cell), x=x, y=y, width=side, height=side, _class=kind)


def matrix(says: str, cells: Mapping[tuple[str, str], float]) -> Markup:
    """Draw cells by sender, downwards, and receiver, to the right."""
    senders = sorted({sender for sender, _ in cells})
    receivers = sorted({receiver for _, receiver in cells})
    side, high, left, top = 46, 27, 190, 24
    drawn = [
        text(left + (column + 0.5) * side, top - 8, str(column + 1), anchor="middle")
        for column in range(len(receivers))
    ]
    drawn += [
        text(left - 8, top + row * high + 18, label(sender, 26), anchor="end") for row, sender in enumerate(senders)
    ]
    for (sender, receiver), slower in sorted(cells.items()):
        x = left + receivers.index(receiver) * side
        y = top + senders.index(sender) * high
        rank = heat_class(slower)
        says_cell = f"{label(sender, 60)} to {label(receiver, 60)}: {slower:+.0%}"
        drawn += [
            element(
                "rect", element("title", says_cell), x=x, y=y, width=side - 1, height=high - 1, _class=f"f-heat-{rank}"
            ),
            text(x + side / 2, y + 18, f"{slower:+.0%}", anchor="middle", kind=f"t s on-{rank}"),
        ]
    below = top + len(senders) * high + 18
    numbered = [
        text(left, below + nth * 16, f"{nth + 1}: {label(receiver, 60)}", kind="t s")
        for nth, receiver in enumerate(receivers)
    ]
    width = max(WIDTH, left + len(receivers) * side)
    return picture(below + len(receivers) * 16, says, joined([*drawn, *numbered]), width=width)


def heat_key() -> list[tuple[str, str]]:
    """Return the classes of the heat scale with their bounds in words, for a legend."""
    lows = [f"under {HEAT_FROM[0]:.0%}", *(f"from {low:.0%}" for low in HEAT_FROM)]
    return [(f"k-heat-{rank}", words) for rank, words in zip(range(len(HEAT)), lows, strict=True)]
