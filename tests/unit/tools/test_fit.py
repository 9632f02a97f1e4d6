"""Columns of tables that are cut or out of sight are named."""

from __future__ import annotations

from typing import Any

import pytest

from prism_ch.grafana.queries import Query
from tools.dashboards.fit import column_widths, problems
from tools.dashboards.frames import Frame

FRAME = Frame(("Job", "Why", "Since"), ("String", "String", "DateTime"), [["job-1", "a " * 200, 0]], 0)


def panel(**columns: dict[str, Any]) -> dict[str, Any]:
    """Return a table as wide as the page, with properties of its columns."""
    overrides = [
        {
            "matcher": {"id": "byName", "options": name},
            "properties": [{"id": f"custom.{key}", "value": value} for key, value in properties.items()],
        }
        for name, properties in columns.items()
    ]
    return {"gridPos": {"w": 24}, "fieldConfig": {"defaults": {}, "overrides": overrides}}


def found(**columns: dict[str, Any]) -> list[str]:
    return list(problems(Query("d", "p", "table", "", panel(**columns)), FRAME))


def test_columns_without_a_width_share_what_is_left() -> None:
    widths = column_widths(panel(Job={"width": 100}, Since={"hidden": True}), FRAME.names, 1280)
    assert widths == {"Job": 100, "Why": 1130}


def test_column_that_needs_more_takes_from_the_others() -> None:
    widths = column_widths(panel(Job={"minWidth": 600}), FRAME.names, 1280)
    assert widths == {"Job": 600, "Why": 315, "Since": 315}


def test_table_whose_texts_wrap_and_fit_has_no_problem() -> None:
    assert found(Job={"width": 100}, Why={"wrapText": True, "minWidth": 300}, Since={"width": 165}) == []


@pytest.mark.parametrize(
    "columns, problem",
    [
        ({"Job": {"width": 30}, "Why": {"wrapText": True}}, "cuts 'Job': 5 letters in 30 px at 1280 px"),
        ({"Since": {"width": 100}, "Why": {"wrapText": True}}, "cuts 'Since': 19 letters in 100 px at 1280 px"),
        ({}, "cuts 'Why': 400 letters in 410 px at 1280 px"),
        ({"Job": {"width": 1300}}, "its columns take 1600 px of the 1230 that it has at 1280 px"),
    ],
)
def test_column_cut_or_out_of_sight_is_named(columns: dict[str, Any], problem: str) -> None:
    assert problem in found(**columns)
