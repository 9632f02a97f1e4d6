from typing import Any

import pytest
from matplotlib.figure import Figure

from prism_ch.grafana.check.frames import Frame
from prism_ch.grafana.previews import looks
from prism_ch.grafana.previews.draw import Canvas, draw
from prism_ch.grafana.wanted import shipped_dashboards


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
        (3.6e9, "bytes", 1, "3.6 GB"),
        (40.0, "bytes", 1, "40 B"),
        (16_000, "cps", 0, "16 k/s"),
        (812, "short", None, "812"),
        (1.35, "suffix: x", 2, "1.35 x"),
        (2880, "none", None, "2,880"),
    ],
)
def test_values_are_written_in_their_unit(value: Any, unit: str, decimals: int | None, text: str) -> None:
    assert looks.written(value, unit, decimals) == text


def test_thresholds_and_mappings_colour() -> None:
    found = {"thresholds": {"steps": [{"value": None, "color": "green"}, {"value": 1, "color": "red"}]}}
    assert [looks.threshold_color(value, found) for value in (0, 1, "text")] == [
        looks.COLORS["green"],
        looks.COLORS["red"],
        looks.COLORS["green"],
    ]
    mapped = {"mappings": [{"options": {"open": {"color": "#123456"}}}]}
    assert (looks.mapped("open", mapped), looks.mapped("closed", mapped)) == ("#123456", None)


def test_an_overridden_column_keeps_the_panels_defaults() -> None:
    override = {"matcher": {"id": "byName", "options": "a"}, "properties": [{"id": "decimals", "value": 2}]}
    panel = {"fieldConfig": {"defaults": {"unit": "s"}, "overrides": [override]}}
    assert looks.settings(panel, "a") == {"unit": "s", "decimals": 2}
    assert looks.settings(panel, "b") == {"unit": "s"}


def test_a_picture_of_every_kind_of_panel() -> None:
    empty = Frame(("time", "label", "value"), ("DateTime", "String", "Float64"), [], 0)
    graph = {
        "nodes": Frame(
            ("id", "subtitle", "color", "mainstat"), ("String",) * 3 + ("UInt8",), [["1", "s", "red", 2]], 0
        ),
        "edges": Frame(("source", "target"), ("String", "String"), [["1", "1"]], 0),
    }
    drawn = set()
    for dashboard in shipped_dashboards().values():
        for panel in dashboard["panels"]:
            axes = Figure().add_axes((0, 0, 1, 1))
            frames = graph if panel["type"] == "nodeGraph" else {"A": empty}
            draw(panel, frames, Canvas(axes, 5, 2, (0, 60), [(10, 20)]))
            drawn.add(panel["type"])
    assert drawn == {"bargauge", "heatmap", "nodeGraph", "stat", "state-timeline", "table", "timeseries"}
