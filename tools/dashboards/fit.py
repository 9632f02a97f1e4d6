"""How wide Grafana makes the columns of a table, and whether their texts fit into them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prism_ch.grafana.queries import Query
from tools.dashboards import style
from tools.dashboards.frames import Frame, is_matrix

#: Pages on which dashboards must work, pixels across; and what Grafana takes of them and of a panel for margins.
PAGES = (1280, 1920)
_PAGE_MARGIN, _PANEL_MARGIN = 32, 18
#: Least width of a column that names none, and what letters and the padding of a cell take, pixels.
_LEAST, _LETTER, _PADDING = 150, 7.2, 14
#: Letters of a time as Grafana writes it, 2026-01-15 12:00:00.
_TIME = 19


def pixels(panel: Mapping[str, Any], page: int) -> float:
    """Return how many pixels a table has across."""
    return float((page - _PAGE_MARGIN) * panel["gridPos"]["w"] / 24 - _PANEL_MARGIN)


def column_widths(panel: Mapping[str, Any], names: Sequence[str], page: int) -> dict[str, float]:
    """Return the pixels of each column that is shown.

    Those without a width share what is left evenly, but for those that need more, which take that first.
    """
    found = {name: style.settings(panel, name) for name in names}
    shown = {name: each for name, each in found.items() if not each.get("custom.hidden")}
    widths = {name: float(each["custom.width"]) for name, each in shown.items() if "custom.width" in each}
    least = {name: each.get("custom.minWidth", _LEAST) for name, each in shown.items() if name not in widths}
    rest = pixels(panel, page) - sum(widths.values())
    for name in sorted(least, key=lambda name: -least[name]):
        widths[name] = max(rest / len(least.keys() - widths.keys()), least[name])
        rest -= widths[name]
    return {name: widths[name] for name in shown}


def problems(query: Query, frame: Frame) -> Iterator[str]:
    """Yield the columns of a table that are out of sight or cut."""
    if query.kind != "table" or "gridPos" not in query.element:
        return
    panel = query.element
    for page in PAGES:
        room = pixels(panel, page)
        if is_matrix(panel):
            taken = _matrix_width(panel, frame)
        else:
            widths = column_widths(panel, frame.names, page)
            taken = sum(widths.values())
            yield from (f"{problem} at {page} px" for problem in _cut(panel, frame, widths))
        if taken > room + 1:
            yield f"its columns take {taken:.0f} px of the {room:.0f} that it has at {page} px"


def _matrix_width(panel: Mapping[str, Any], frame: Frame) -> float:
    numbers, first = panel["fieldConfig"]["overrides"]
    own = {each["id"]: each["value"] for each in numbers["properties"]}
    cell = own.get("custom.width", own.get("custom.minWidth", _LEAST))
    return float(first["properties"][0]["value"] + cell * len(set(frame.values(frame.names[1]))))


def _cut(panel: Mapping[str, Any], frame: Frame, widths: Mapping[str, float]) -> Iterator[str]:
    """Yield columns whose head or longest text is cut."""
    times, texts = frame.of_kind("time"), frame.of_kind("text")
    for name, width in widths.items():
        found = style.settings(panel, name)
        longest = len(name)
        if name in times:
            longest = max(longest, _TIME)
        if name in texts and not found.get("custom.wrapText"):
            shown = (style.mapped(value, found)[0] or str(value or "") for value in frame.values(name))
            longest = max([longest, *map(len, shown)])
        if longest * _LETTER + _PADDING > width:
            yield f"cuts {name!r}: {longest} letters in {width:.0f} px"
