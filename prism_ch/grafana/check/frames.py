"""Whether the rows of a query are of the form that its panel needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from prism_ch.grafana.check.queries import Query

#: Most rows that a query may return, by the kind of its panel; a browser draws them all.
MOST_ROWS = {"variable": 500, "annotation": 200, "stat": 1, "table": 600, "bargauge": 50, "nodeGraph": 1000}
MOST_POINTS = 25_000

_WRAPPED = re.compile(r"^(?:LowCardinality|Nullable)\((.*)\)$")


@dataclass(frozen=True, slots=True)
class Frame:
    """A result: names and ClickHouse types of the columns, rows, and how many were read for it, None for a tenant."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[list[Any]]
    rows_read: int | None

    def of_kind(self, *kinds: str) -> list[str]:
        """Return the names of the columns of these kinds: time, number, text, other."""
        return [name for name, type_name in zip(self.names, self.types, strict=True) if kind_of(type_name) in kinds]

    def values(self, name: str) -> list[Any]:
        """Return the values of a column."""
        place = self.names.index(name)
        return [row[place] for row in self.rows]


def kind_of(type_name: str) -> str:
    """Tell what Grafana makes of a ClickHouse type: time, number, text or other."""
    while wrapped := _WRAPPED.match(type_name):
        type_name = wrapped[1]
    if type_name.startswith("Date"):
        return "time"
    if re.match(r"U?Int\d+$|Float\d+$|Decimal|Bool", type_name):
        return "number"
    return "text" if re.match(r"String$|FixedString|Enum|UUID|IPv", type_name) else "other"


def problems(query: Query, frame: Frame) -> Iterator[str]:
    """Yield what of a result its panel can't draw."""
    most = MOST_POINTS if query.time_series else MOST_ROWS[query.kind]
    if len(frame.rows) > most:
        yield f"returns {len(frame.rows):,} rows, more than {most:,}"
    if len(set(frame.names)) < len(frame.names):
        yield "has two columns of one name"
    other = [name for name in frame.of_kind("other") if query.kind != "table"]
    if other:
        yield f"has columns of types that Grafana does not draw: {', '.join(other)}"
    missing = query.named - set(frame.names)
    if missing and query.kind != "nodeGraph":
        yield f"its panel names columns that are not there: {', '.join(sorted(missing))}"
    if query.time_series:
        yield from _time_series(query, frame)
    else:
        yield from _SHAPES[query.kind](query, frame)


def _time_series(query: Query, frame: Frame) -> Iterator[str]:
    """Check rows that become series: time first and rising, numbers, and one row a time and label."""
    times, numbers, labels = frame.of_kind("time"), frame.of_kind("number"), frame.of_kind("text")
    if times != ["time"] or frame.names[0] != "time":
        yield "its first and only column of time must be `time`"
        return
    if not numbers:
        yield "has no number to draw"
    seen = frame.values("time")
    if any(later < earlier for earlier, later in pairwise(seen)):
        yield "is not sorted by time"
    keys = list(zip(seen, *(frame.values(label) for label in labels), strict=True))
    if len(set(keys)) < len(keys):
        yield "has several rows for one time and series"
    if query.kind in {"heatmap", "state-timeline"} and (len(numbers), len(labels)) != (1, 1):
        yield "needs exactly one number and one label"
    if query.states and {value for name in numbers for value in frame.values(name)} - query.states:
        yield "has numbers for which its panel has no text"


def _numbers(_: Query, frame: Frame) -> Iterator[str]:
    """Check one row of large numbers or texts."""
    if len(frame.rows) > 1:
        yield "has more than one row"


def _table(query: Query, frame: Frame) -> Iterator[str]:
    """Check a table; one that is turned into a matrix has one value for each row and column of it."""
    if not query.matrix:
        return
    row, column = frame.names[:2]
    keys = list(zip(frame.values(row), frame.values(column), strict=True))
    if len(set(keys)) < len(keys):
        yield f"has several values for one {row} and {column}"


def _bars(_: Query, frame: Frame) -> Iterator[str]:
    """Check bars: a text and a number."""
    if (len(frame.of_kind("text")), len(frame.of_kind("number"))) != (1, 1):
        yield "needs exactly one text and one number"


def _graph(query: Query, frame: Frame) -> Iterator[str]:
    """Check nodes or edges of a graph."""
    needed = {"nodes": {"id", "title"}, "edges": {"id", "source", "target"}}[query.ref_id]
    if needed - set(frame.names):
        yield f"needs the columns {', '.join(sorted(needed))}"
    elif len(set(frame.values("id"))) < len(frame.rows):
        yield "has an id twice"


def _variable(_: Query, frame: Frame) -> Iterator[str]:
    """Check the values of a variable: texts, once each, and how they read."""
    if len(frame.names) > 2:
        yield "needs one column, or value and label"
    if len(frame.of_kind("text")) != len(frame.names):
        yield "must be texts"
    if len(set(frame.values(frame.names[0]))) < len(frame.rows):
        yield "has a value twice"


def _annotation(_: Query, frame: Frame) -> Iterator[str]:
    """Check events: a time, a text."""
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
