"""Compares the rows of every public view as text, without columns that depend on the time of day."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from types import MappingProxyType
from typing import Any

import pyarrow as pa

#: Views that only the program itself reads.
INTERNAL = frozenset({
    "arrivals", "dead_blocks", "dead_exporters", "dead_findings", "dead_revisions", "dead_states", "dead_steps",
    "exporter_marks", "final_cuts", "final_revisions", "prune_horizon", "published", "raw_horizon", "revision_cuts",
    "unpublished",
})  # fmt: skip

#: Columns of any view that hold when something was done.
MOMENTS = frozenset({"changed_at", "last_received_at", "received_at", "worked_at"})

#: Columns of single views that depend on the time of day or the speed of the machine. `profile` is the analysis's own
#: memory of a job.
EXEMPT_COLUMNS: Mapping[str, frozenset[str]] = MappingProxyType({
    "exporters": frozenset({"lag_s"}),
    "jobs": frozenset({"profile"}),
    "stage_seconds": frozenset({"seconds"}),
})  # fmt: skip

#: Keys of `diagnoses.evidence` that may differ.
EXEMPT_EVIDENCE: frozenset[str] = frozenset()

#: Views of sums of floating-point numbers, whose last digits depend on the order in which parts are read.
SUMS = frozenset({"gpu_time", "losses", "tenant_summary"})
_DIGITS = 9

#: Parameters of the views that need some: all of time, at the coarsest resolution.
_SPAN = "from_time = '2000-01-01 00:00:00', to_time = '2100-01-01 00:00:00'"
PARAMETERS: Mapping[str, str] = MappingProxyType({
    "gpu_time": _SPAN,
    "pair_traffic": f"{_SPAN}, points = 1",
    "switch_traffic": f"{_SPAN}, points = 1",
})  # fmt: skip

#: Gives the views of a database.
LIST_VIEWS = "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine = 'View' ORDER BY name"

#: The names under which a dump lists the columns of its views, and the printed lines of commands.
COLUMNS, PRINTED = "columns", "printed"

#: Shown of a row at most: characters of a value, and unchanged columns, which identify the row.
_LONGEST_VALUE, _KEY_COLUMNS = 60, 4

Rows = Sequence[str]


@dataclass(frozen=True, slots=True)
class Dump:
    """The rows of each view as unordered JSON arrays, and its columns if known."""

    rows: Mapping[str, Rows]
    columns: Mapping[str, Sequence[str]]

    @property
    def count(self) -> int:
        """How many rows there are."""
        return sum(map(len, self.rows.values()))


def public(views: Iterable[str]) -> list[str]:
    """Return the names of views that others may read, in order."""
    return sorted(set(views) - INTERNAL)


def dump_statement(views: Sequence[str]) -> str:
    """Return a statement that reads all views: the view and a JSON array per row."""
    names = ", ".join(f"'{view}'" for view in views)
    columns = f"FROM system.columns WHERE database = currentDatabase() AND table IN ({names})"
    parts = [f"SELECT '{COLUMNS}' AS view, toJSONString((table, position, name, type)) AS row {columns}"]
    for view in views:
        source = f"{view}({PARAMETERS[view]})" if view in PARAMETERS else view
        parts.append(f"SELECT '{view}', toJSONString(tuple(*)) FROM {source}")
    settings = "output_format_json_quote_denormals = 1, output_format_json_escape_forward_slashes = 0, max_threads = 1"
    return "\nUNION ALL\n".join(parts) + f"\nSETTINGS {settings}"


def read_dump(table: pa.Table, views: Sequence[str]) -> Dump:
    """Group the statement's rows by view; `views` are those that were read."""
    rows: dict[str, list[str]] = {name: [] for name in (COLUMNS, PRINTED, *views)}
    for view, row in zip(table["view"].to_pylist(), table["row"].to_pylist(), strict=True):
        rows[view].append(row)
    columns: dict[str, list[str]] = {}
    for view, _, name, _ in sorted(json.loads(row) for row in rows[COLUMNS]):
        columns.setdefault(view, []).append(name)
    return Dump(rows, columns)


def differences(base: Dump, head: Dump) -> list[str]:
    """Return a line for each view that differs: how many rows, and the first one."""
    found = []
    for view in sorted({*base.rows, *head.rows}):
        if view not in head.rows or view not in base.rows:
            found.append(f"{view}: only in {'BASE' if view in base.rows else 'HEAD'}")
            continue
        ours, theirs = (Counter(_comparable(dump, view)) for dump in (base, head))
        lost, new = sorted((ours - theirs).elements()), sorted((theirs - ours).elements())
        if lost or new:
            rows = f"{len(base.rows[view]):,} rows, {len(lost):,} of them changed or lost, {len(new):,} other ones"
            columns = [name for name in base.columns.get(view, ()) if name not in _exempt(view)]
            found.append(f"{view}: {rows}; first: {_first(lost, new, columns)}")
    return found


def _comparable(dump: Dump, view: str) -> Rows:
    """Return the rows of a view without exempt values, in one form for both sides."""
    if view == COLUMNS:
        listed = (json.loads(row) for row in dump.rows[view])
        return [json.dumps([name, column, type_]) for name, _, column, type_ in listed if column not in _exempt(name)]
    columns, exempt = dump.columns.get(view, ()), _exempt(view)
    evidence = columns.index("evidence") if view == "diagnoses" and "evidence" in columns else None
    kept = []
    for row in dump.rows[view]:
        values: list[Any] = json.loads(row)
        if evidence is not None:
            values[evidence] = {k: v for k, v in json.loads(values[evidence]).items() if k not in EXEMPT_EVIDENCE}
        if view in SUMS:
            values = [round(value, _DIGITS) if isinstance(value, float) else value for value in values]
        if columns:
            values = [value for name, value in zip(columns, values, strict=True) if name not in exempt]
        kept.append(json.dumps(values, sort_keys=True))
    return kept


def _exempt(view: str) -> frozenset[str]:
    """Return the columns of a view that may differ or be in one version only."""
    return MOMENTS | EXEMPT_COLUMNS.get(view, frozenset())


def _first(lost: Rows, new: Rows, columns: Sequence[str]) -> str:
    """Write what differs in the first row that only one side has."""
    if not lost or not new:
        side, row = ("BASE", lost[0]) if lost else ("HEAD", new[0])
        return f"only in {side}: {_short(row, 4 * _LONGEST_VALUE)}"
    ours, theirs = (_named(json.loads(rows[0]), columns) for rows in (lost, new))
    equal = [f"{name} {_short(value)}" for name, value in ours.items() if theirs.get(name) == value]
    changed = [
        f"{name} {_short(ours.get(name))} -> {_short(theirs.get(name))}"
        for name in {**ours, **theirs}
        if ours.get(name) != theirs.get(name)
    ]
    return f"{', '.join(equal[:_KEY_COLUMNS])}: {'; '.join(changed)}"


def _named(values: Any, columns: Sequence[str]) -> dict[str, Any]:
    """Return a row's values by column or place; an object's values by column.key."""
    named: dict[str, Any] = {}
    for place, (value, column) in enumerate(zip_longest(values if isinstance(values, list) else [values], columns)):
        name = column or f"value {place + 1}"
        if isinstance(value, dict):
            named |= {f"{name}.{key}": inner for key, inner in value.items()}
        else:
            named[name] = value
    return named


def _short(value: Any, longest: int = _LONGEST_VALUE) -> str:
    """Write a value as text, cut where it is long."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= longest else f"{text[:longest]}..."
