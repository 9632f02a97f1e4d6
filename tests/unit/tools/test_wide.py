"""The wide frame is the one that Grafana makes, and what it would draw wrongly is named."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from prism_ch.grafana.queries import Query, TimeRange
from tools.dashboards.frames import Frame
from tools.dashboards.wide import problems, widen

RECORDED = json.loads(gzip.decompress((Path(__file__).parents[2] / "data/grafana/wide.json.gz").read_bytes()))
#: Of these the long rows were asked for a moment after the wide frame, and the newest had changed meanwhile.
LIVE, LIVE_SINCE_MS = {0, 5, 10}, 1_795_435_740_000
HOUR = TimeRange(0, 3_600_000)


def time_ns(text: str) -> int:
    """Return a time as the engine writes it, in nanoseconds."""
    whole, _, part = text.partition(".")
    return int(datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp()) * 10**9 + int(part.ljust(9, "0"))


@pytest.mark.parametrize("number", range(len(RECORDED)))
def test_long_rows_become_the_frame_that_grafana_makes(number: int) -> None:
    recorded = RECORDED[number]
    names, types = zip(*((each["name"], each["type"]) for each in recorded["long"]["columns"]), strict=True)
    rows = [[time_ns(row[0]), *row[1:]] for row in recorded["long"]["rows"]]
    made = widen(Frame(names, types, rows, 0))
    expected = recorded["wide"]
    assert [(each.name, each.labels) for each in made] == [
        (each["name"], each["labels"]) for each in expected["fields"]
    ]
    until = sum(at < LIVE_SINCE_MS for at in expected["values"][0]) if number in LIVE else None
    assert [at // 10**6 for at in made[0].values][:until] == expected["values"][0][:until]
    assert [list(each.values)[:until] for each in made[1:]] == [values[:until] for values in expected["values"][1:]]


def series(kind: str, *rows: list[object], options: dict[str, Any] | None = None, **custom: object) -> str:
    """Return what is wrong with rows of time, label and value in a panel."""
    panel = {"fieldConfig": {"defaults": {"custom": custom}}, "options": options or {}}
    frame = Frame(("time", "job", "value"), ("DateTime", "String", "Float64"), list(rows), 0)
    return "; ".join(problems(Query("d", "p", kind, "", panel, {"format": 0}), frame, HOUR))


APART = ([0, "a", 1.0], [1, "b", 1.0], [2, "a", 1.0], [3, "b", 1.0])
COLOR = {"color": {"scheme": "RdYlGn", "reverse": False}}


@pytest.mark.parametrize("kind", ["timeseries", "state-timeline"])
def test_series_with_nulls_between_are_to_be_spanned(kind: str) -> None:
    rows = [[float(row[0]) * 1000, *row[1:]] for row in APART]  # type: ignore[arg-type]
    assert "nulls between" in series(kind, *rows)
    assert not series(kind, *rows, spanNulls=True)
    assert not series(kind, [0, "a", 1.0], [900, "a", 1.0], [1800, "a", 1.0])


def test_states_that_fill_little_of_the_range_are_slivers() -> None:
    assert "fill 0.1% of the range" in series("state-timeline", [0, "a", 1.0], [3, "a", 2.0])


def test_a_point_alone_is_to_be_seen() -> None:
    assert "a single point" in series("timeseries", [0, "a", 1.0], showPoints="never")
    assert not series("timeseries", [0, "a", 1.0], showPoints="auto")


def test_cells_of_a_heat_map_are_equally_wide() -> None:
    assert "2 kinds of gap" in series("heatmap", [0, "a", 1.0], [1, "a", 1.0], [3, "a", 1.0], options=COLOR)
    assert not series("heatmap", [0, "a", 1.0], [1, "a", 1.0], [2, "a", 1.0], options=COLOR)


def test_colours_run_from_quiet_to_loud() -> None:
    turned = {"color": {"scheme": "RdYlGn", "reverse": True}}
    assert "from loud to quiet" in series("heatmap", [0, "a", 1.0], options=turned)


def test_nothing_is_drawn_of_no_rows() -> None:
    assert widen(Frame(("time", "value"), ("DateTime", "Float64"), [], 0)) == ()
    assert not series("timeseries")
