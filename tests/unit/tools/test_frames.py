"""A result of another form than its panel needs is reported, and each reason named."""

from typing import Any

import pytest

from prism_ch.grafana.queries import Query
from tools.dashboards.frames import Frame, kind_of, problems

TIME = "DateTime64(9)"


def frame(columns: dict[str, str], *rows: list[object]) -> Frame:
    return Frame(tuple(columns), tuple(columns.values()), list(rows), 10)


def found(query: Query, rows: Frame) -> str:
    return "; ".join(problems(query, rows))


def series(kind: str = "timeseries", *states: int) -> Query:
    mappings = [{"options": {str(number): {"text": "x"} for number in states}}]
    panel = {"fieldConfig": {"defaults": {"mappings": mappings}, "overrides": []}}
    return Query("d", "p", kind, "", panel, {"format": 0})


@pytest.mark.parametrize(
    "type_name, kind",
    [
        ("Nullable(DateTime64(9))", "time"),
        ("Date", "time"),
        ("UInt64", "number"),
        ("Nullable(Float64)", "number"),
        ("Bool", "number"),
        ("LowCardinality(Nullable(String))", "text"),
        ("Enum8('a' = 1)", "text"),
        ("Array(String)", "other"),
        ("Map(String, UInt8)", "other"),
    ],
)
def test_clickhouse_type_read_as_grafana_reads_it(type_name: str, kind: str) -> None:
    assert kind_of(type_name) == kind


def test_series_accepted_if_its_panel_can_draw_it() -> None:
    assert (
        found(series(), frame({"time": TIME, "job": "String", "v": "Float64"}, [1, "a", 1], [1, "b", 1], [2, "a", 3]))
        == ""
    )
    assert found(series(), frame({"time": TIME, "v": "Float64"})) == ""


@pytest.mark.parametrize(
    "columns, rows, problem",
    [
        ({"v": "Float64"}, [], "must be `time`"),
        ({"t": TIME, "v": "Float64"}, [], "must be `time`"),
        ({"time": TIME, "until": TIME, "v": "Float64"}, [], "must be `time`"),
        ({"time": TIME, "v": "String"}, [], "no number"),
        ({"time": TIME, "v": "Float64"}, [[2, 1], [1, 1]], "not sorted"),
        ({"time": TIME, "v": "Float64"}, [[1, 1], [1, 2]], "several rows for one time"),
        ({"time": TIME, "l": "String", "v": "Float64"}, [[1, "a", 1], [1, "a", 2]], "several rows for one time"),
        ({"time": TIME, "v": "Array(Float64)"}, [], "does not draw: v"),
    ],
)
def test_series_refused_with_the_reason(columns: dict[str, str], rows: list[list[object]], problem: str) -> None:
    assert problem in found(series(), frame(columns, *rows))


def test_heat_map_and_states_need_one_number_and_one_label() -> None:
    wide = frame({"time": TIME, "a": "Float64", "b": "Float64"})
    assert "exactly one number and one label" in found(series("heatmap"), wide)
    one = frame({"time": TIME, "l": "String", "v": "Int8"}, [1, "a", 7])
    assert found(series("state-timeline", 7), one) == ""
    assert "no text" in found(series("state-timeline", 1), one)


def of(kind: str, ref_id: str = "A", **panel: Any) -> Query:
    return Query("d", "p", kind, "", panel, {"refId": ref_id, "format": 1})


OF_JOB = {"overrides": [{"matcher": {"id": "byName", "options": "Job"}, "properties": []}]}
TO_MATRIX = [
    {"id": "groupingToMatrix", "options": {"rowField": "a", "columnField": "b", "valueField": "v"}},
]


NODES = frame({"id": "String", "title": "String"}, ["a", ""], ["a", ""])
CELLS = frame({"a": "String", "b": "String", "v": "UInt8"}, ["x", "y", 1], ["x", "y", 2])
THREE = frame({"v": "String", "t": "String", "u": "String"})


@pytest.mark.parametrize(
    "query, rows, problem",
    [
        (of("stat"), frame({"n": "UInt8"}, [1], [2]), "more than one row"),
        (of("table", fieldConfig=OF_JOB), frame({"n": "UInt8"}), "not there: Job"),
        (of("table"), Frame(("n", "n"), ("UInt8", "UInt8"), [], 0), "two columns of one name"),
        (of("table", transformations=TO_MATRIX), CELLS, "several values for one a and b"),
        (of("bargauge"), frame({"n": "UInt8"}), "one text and one number"),
        (of("nodeGraph", "nodes"), frame({"id": "String"}), "needs the columns id, title"),
        (of("nodeGraph", "nodes"), NODES, "an id twice"),
        (of("variable"), frame({"v": "UInt8"}, [1], [1]), "must be texts; has a value twice"),
        (of("variable"), THREE, "one column, or value and label"),
        (of("annotation"), frame({"time": TIME, "until": TIME}), "needs the columns text; has times other"),
        (of("stat"), frame({"n": "UInt8"}, [1], [1], [1], [1], [1]), "returns 5 rows, more than 1"),
    ],
)
def test_result_of_another_form_refused_with_the_reason(query: Query, rows: Frame, problem: str) -> None:
    assert problem in found(query, rows)
