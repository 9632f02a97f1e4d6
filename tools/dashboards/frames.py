"""Checks that a query's result has the form that its panel needs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from prism_ch.grafana.queries import Query

#: Rows that a query may return, by the kind of its panel; a browser draws them all.
ROWS_MAX = {"variable": 500, "annotation": 200, "stat": 1, "table": 600, "bargauge": 50, "nodeGraph": 1000}
POINTS_MAX = 25_000

_LABEL = re.compile(r"\$\{__field\.labels\.(\w+)\}")
_FIELD = re.compile(r'__data\.fields\["([^"]+)"\]')
_WRAPPED = re.compile(r"^(?:LowCardinality|Nullable)\((.*)\)$")


@dataclass(frozen=True, slots=True)
class Frame:
    """A query's result; `types` are ClickHouse's, `rows_read` is None for a tenant."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[list[Any]]
    rows_read: int | None

    def of_kind(self, *kinds: str) -> list[str]:
        """Return the names of the columns of some kinds: time, number, text, other."""
        return [name for name, type_name in zip(self.names, self.types, strict=True) if kind_of(type_name) in kinds]

    def values(self, name: str) -> list[Any]:
        """Return the values of a column."""
        place = self.names.index(name)
        return [row[place] for row in self.rows]


def kind_of(type_name: str) -> str:
    """Return a ClickHouse type's kind in Grafana: time, number, text or other."""
    while wrapped := _WRAPPED.match(type_name):
        type_name = wrapped[1]
    if type_name.startswith("Date"):
        return "time"
    if re.match(r"U?Int\d+$|Float\d+$|Decimal|Bool", type_name):
        return "number"
    return "text" if re.match(r"String$|FixedString|Enum|UUID|IPv", type_name) else "other"


def is_matrix(panel: Mapping[str, Any]) -> bool:
    """Return whether a table is turned into a matrix of rows and columns."""
    return any(step["id"] == "groupingToMatrix" for step in panel.get("transformations", ()))


def problems(query: Query, frame: Frame) -> Iterator[str]:
    """Yield the reasons why a panel can't draw a result."""
    is_series = query.target.get("format") == 0
    rows_max = POINTS_MAX if is_series else ROWS_MAX[query.kind]
    if len(frame.rows) > rows_max:
        yield f"returns {len(frame.rows):,} rows, more than {rows_max:,}"
    if len(set(frame.names)) < len(frame.names):
        yield "has two columns of one name"
    other = [name for name in frame.of_kind("other") if query.kind != "table"]
    if other:
        yield f"has columns of types that Grafana does not draw: {', '.join(other)}"
    missing = set(_named_columns(query.element)) - set(frame.names)
    if missing and query.kind != "nodeGraph":
        yield f"its panel names columns that are not there: {', '.join(sorted(missing))}"
    yield from _time_series(query, frame) if is_series else _SHAPES[query.kind](query, frame)


def _named_columns(panel: Mapping[str, Any]) -> Iterator[str]:
    """Yield the columns that labels, overrides, links and transformations of a panel name."""
    config = panel.get("fieldConfig", {})
    yield from _LABEL.findall(config.get("defaults", {}).get("displayName", ""))
    for step in panel.get("transformations", ()):
        yield from (step["options"][field] for field in ("rowField", "columnField", "valueField"))
    for override in config.get("overrides", ()):
        if override["matcher"]["id"] == "byName" and "\\" not in override["matcher"]["options"]:
            yield override["matcher"]["options"]
        for setting in override["properties"]:
            if setting["id"] == "links":
                yield from _FIELD.findall(json.dumps(setting["value"]).replace('\\"', '"'))


def _time_series(query: Query, frame: Frame) -> Iterator[str]:
    """Check series: a rising time first, numbers, one row for each time and label."""
    times, numbers, labels = frame.of_kind("time"), frame.of_kind("number"), frame.of_kind("text")
    if times != ["time"] or frame.names[0] != "time":
        yield "its first and only column of time must be `time`"
        return
    if not numbers:
        yield "has no number to draw"
    instants = frame.values("time")
    if any(later < earlier for earlier, later in pairwise(instants)):
        yield "is not sorted by time"
    keys = list(zip(instants, *(frame.values(label) for label in labels), strict=True))
    if len(set(keys)) < len(keys):
        yield "has several rows for one time and series"
    if query.kind in {"heatmap", "state-timeline"} and (len(numbers), len(labels)) != (1, 1):
        yield "needs exactly one number and one label"
    if query.kind == "state-timeline":
        mappings = query.element["fieldConfig"]["defaults"]["mappings"]
        known = {int(number) for mapping in mappings for number in mapping["options"]}
        if {value for name in numbers for value in frame.values(name)} - known:
            yield "has numbers for which its panel has no text"


def _numbers(_: Query, frame: Frame) -> Iterator[str]:
    if len(frame.rows) > 1:
        yield "has more than one row"


def _table(query: Query, frame: Frame) -> Iterator[str]:
    """Check that a matrix has one value for each row and column."""
    if not is_matrix(query.element):
        return
    row, column = frame.names[:2]
    keys = list(zip(frame.values(row), frame.values(column), strict=True))
    if len(set(keys)) < len(keys):
        yield f"has several values for one {row} and {column}"


def _bars(_: Query, frame: Frame) -> Iterator[str]:
    if (len(frame.of_kind("text")), len(frame.of_kind("number"))) != (1, 1):
        yield "needs exactly one text and one number"


def _graph(query: Query, frame: Frame) -> Iterator[str]:
    needed = {"nodes": {"id", "title"}, "edges": {"id", "source", "target"}}[query.target["refId"]]
    if needed - set(frame.names):
        yield f"needs the columns {', '.join(sorted(needed))}"
    elif len(set(frame.values("id"))) < len(frame.rows):
        yield "has an id twice"


def _variable(_: Query, frame: Frame) -> Iterator[str]:
    """Check the values of a variable: texts, once each, and maybe a label for each."""
    if len(frame.names) > 2:
        yield "needs one column, or value and label"
    if len(frame.of_kind("text")) != len(frame.names):
        yield "must be texts"
    if len(set(frame.values(frame.names[0]))) < len(frame.rows):
        yield "has a value twice"


def _annotation(_: Query, frame: Frame) -> Iterator[str]:
    missing = {"time", "text"} - set(frame.names)
    if missing:
        yield f"needs the columns {', '.join(sorted(missing))}"
    if set(frame.of_kind("time")) - {"time", "timeEnd"}:
        yield "has times other than time and timeEnd"


_SHAPES = {
    "stat": _numbers,
    "table": _table,
    "bargauge": _bars,
    "nodeGraph": _graph,
    "variable": _variable,
    "annotation": _annotation,
}
