"""Previews write values as Grafana does, and draw every kind of panel."""

from typing import Any

import pytest
from matplotlib.figure import Figure

from prism_ch.grafana.organisations import panels_of, shipped_dashboards
from tools.dashboards import style
from tools.dashboards.draw import Canvas, draw
from tools.dashboards.frames import Frame


@pytest.mark.parametrize(
    "value, unit, decimals, text",
    [
        (None, "s", None, "-"),
        ("acme", "", None, "acme"),
        (0.256, "percentunit", 0, "26%"),
        (-0.0004, "percentunit", 0, "0%"),
        (2027.0, "s", None, "33.78 min"),
        (0.00024, "s", None, "240.00 µs"),
        (0.0, "s", None, "0 s"),
        (1.28e11, "bps", 1, "128.0 Gb/s"),
        (3.6e9, "decbytes", 1, "3.6 GB"),
        (40.0, "decbytes", 1, "40 B"),
        (16_000, "cps", 0, "16 k/s"),
        (812, "short", None, "812"),
        (1.35, "suffix: x", 2, "1.35 x"),
        (2880, "none", None, "2880"),
        (2880, "locale", None, "2,880"),
    ],
)
def test_value_formatted_in_its_unit(value: Any, unit: str, decimals: int | None, text: str) -> None:
    assert style.formatted(value, unit, decimals) == text


def test_value_coloured_by_thresholds_and_mappings() -> None:
    found = {"thresholds": {"steps": [{"value": None, "color": "green"}, {"value": 1, "color": "red"}]}}
    assert [style.threshold_color(value, found) for value in (0, 1, "text")] == [
        style.COLORS["green"],
        style.COLORS["red"],
        style.COLORS["green"],
    ]
    mapped = {"mappings": [{"options": {"open": {"text": "Open", "color": "#123456"}}}]}
    assert (style.mapped("open", mapped), style.mapped("closed", mapped)) == (("Open", "#123456"), (None, None))


def test_overridden_column_keeps_the_panels_defaults() -> None:
    override = {"matcher": {"id": "byName", "options": "a"}, "properties": [{"id": "decimals", "value": 2}]}
    panel = {"fieldConfig": {"defaults": {"unit": "s"}, "overrides": [override]}}
    assert style.settings(panel, "a") == {"unit": "s", "decimals": 2}
    assert style.settings(panel, "b") == {"unit": "s"}


def test_every_kind_of_panel_can_be_drawn() -> None:
    empty = Frame(("time", "label", "value"), ("DateTime", "String", "Float64"), [], 0)
    graph = {
        "nodes": Frame(
            ("id", "subtitle", "color", "mainstat"), ("String",) * 3 + ("UInt8",), [["1", "s", "red", 2]], 0
        ),
        "edges": Frame(("source", "target"), ("String", "String"), [["1", "1"]], 0),
    }
    drawn = set()
    for dashboard in shipped_dashboards().values():
        for panel in panels_of(dashboard):
            if panel["type"] in {"row", "text"}:
                continue
            axes = Figure().add_axes((0, 0, 1, 1))
            frames = graph if panel["type"] == "nodeGraph" else {"A": empty}
            draw(panel, frames, Canvas(axes, 5, 2, (0, 60), [(10, 20)]))
            drawn.add(panel["type"])
    assert drawn == {"bargauge", "heatmap", "nodeGraph", "stat", "state-timeline", "table", "timeseries"}
