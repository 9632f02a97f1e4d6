"""Draws every dashboard with queries as <uid>.png, with their results on the small made-up cluster."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from prism_ch.grafana.organisations import panels_of, shipped_dashboards
from prism_ch.grafana.queries import Selection, TimeRange, expand, initial_selection, queries
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import apply_migrations
from tools.dashboards.ask import offered_values, read_frame
from tools.dashboards.draw import Canvas, draw
from tools.dashboards.sample import SMALL, fill, statement
from tools.dashboards.style import BACKGROUND, CARD, FAINT, TEXT

#: End of the data, fixed so that a picture drawn again is the same: 2026-01-15 12:00 UTC.
END_S = 1_768_478_400
#: Width of a column of the grid and height of a unit of it, inches.
COLUMN, UNIT = 0.62, 0.33
_HEAD, _GAP, _DPI = 0.55, 0.05, 100
#: Margins for titles and labels, by the panel's type: left, right, top, bottom; inches.
_MARGINS = {
    "timeseries": (0.65, 0.15, 0.35, 0.5),
    "heatmap": (1.15, 0.15, 0.4, 0.3),
    "state-timeline": (1.15, 0.15, 0.35, 0.55),
    "bargauge": (1.0, 0.2, 0.4, 0.15),
    "stat": (0.1, 0.1, 0.35, 0.1),
    "table": (0.12, 0.1, 0.36, 0.06),
    "nodeGraph": (0.1, 0.1, 0.55, 0.1),
}
_MATRIX_MARGINS = (1.6, 0.1, 0.75, 0.1)


def draw_all(folder: Path) -> None:
    """Draw all dashboards that show answers into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="prism-ch-previews-") as data, connect(f"chdb://{data}") as store:
        # No retention: these rows are of the past.
        apply_migrations(store)
        fill(store, SMALL, END_S)
        for uid, dashboard in shipped_dashboards().items():
            if not any(queries(uid, dashboard)):
                continue
            hours = 1 if uid == "prism-job" else SMALL.hours
            figure = picture(store, dashboard, TimeRange.until(END_S, hours * 3600))
            figure.savefig(folder / f"{uid}.png", dpi=_DPI, facecolor=BACKGROUND, metadata={"Software": None})


def picture(store: Store, dashboard: Mapping[str, Any], time_range: TimeRange) -> Figure:
    """Return a picture of a dashboard as it opens."""
    offered = offered_values(store, dashboard, time_range)
    if "incident" in offered:
        offered["incident"] = [incident for (incident,) in store.rows(statement("most_telling_incident"))]
    variables = initial_selection(dashboard, offered)
    panels = panels_of(dashboard)
    width, units = 24 * COLUMN, max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    height = units * UNIT + _HEAD
    figure = Figure(figsize=(width, height), facecolor=BACKGROUND)
    FigureCanvasAgg(figure)
    figure.text(
        0.15 / width, 1 - 0.26 / height, dashboard["title"], color=TEXT, fontsize=13, weight="bold", va="center"
    )
    figure.text(2.2 / width, 1 - 0.26 / height, dashboard["description"], color=FAINT, fontsize=9, va="center")
    marks = _marks(store, dashboard, time_range, variables)
    for panel in panels:
        if panel["type"] == "row":
            across, down = 0.15 / width, 1 - (_HEAD + (panel["gridPos"]["y"] + 0.5) * UNIT) / height
            figure.text(across, down, f"▾ {panel['title']}", color=TEXT, fontsize=10, va="center")
            continue
        _card(store, figure, panel, time_range, variables, marks)
    return figure


def _card(
    store: Store,
    figure: Figure,
    panel: Mapping[str, Any],
    time_range: TimeRange,
    variables: Mapping[str, Selection],
    marks: list[tuple[float, float]],
) -> None:
    place, (width, height) = panel["gridPos"], figure.get_size_inches()
    left, top = place["x"] * COLUMN + _GAP, _HEAD + place["y"] * UNIT + _GAP
    wide, tall = place["w"] * COLUMN - 2 * _GAP, place["h"] * UNIT - 2 * _GAP
    figure.add_artist(
        FancyBboxPatch(
            (left / width, 1 - (top + tall) / height), wide / width, tall / height, boxstyle="square,pad=0",
            facecolor=CARD, edgecolor="#24272d", linewidth=0.8, zorder=-1,
        )
    )  # fmt: skip
    figure.text((left + 0.1) / width, 1 - (top + 0.16) / height, panel["title"], color=TEXT, fontsize=8.5, va="center")
    margins = _MATRIX_MARGINS if panel.get("transformations") else _MARGINS[panel["type"]]
    inner_wide, inner_tall = wide - margins[0] - margins[1], tall - margins[2] - margins[3]
    box = ((left + margins[0]) / width, 1 - (top + tall - margins[3]) / height, inner_wide / width, inner_tall / height)
    axes = figure.add_axes(box, facecolor=CARD)
    seconds = (time_range.from_ms / 1000, time_range.to_ms / 1000)
    frames = {
        target["refId"]: read_frame(store, expand(target["rawSql"], time_range, variables))
        for target in panel["targets"]
    }
    draw(panel, frames, Canvas(axes, inner_wide, inner_tall, seconds, marks))


def _marks(
    store: Store, dashboard: Mapping[str, Any], time_range: TimeRange, variables: Mapping[str, Selection]
) -> list[tuple[float, float]]:
    """Return the time spans that annotations mark."""
    found: list[tuple[float, float]] = []
    for annotation in dashboard["annotations"]["list"]:
        frame = read_frame(store, expand(annotation["target"]["rawSql"], time_range, variables))
        found += zip(map(float, frame.values("time")), map(float, frame.values("timeEnd")), strict=True)
    return found


if __name__ == "__main__":
    draw_all(Path(sys.argv[1]))
