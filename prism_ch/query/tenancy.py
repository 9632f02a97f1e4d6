"""What a tenant may ask for, and the row filters by which the engine itself keeps everyone else's rows from it.

A stored table with a column `tenant` shows rows that name the tenant; one that only has `job_id` and `revision` shows
those that were written while the job was its own; all others show nothing, so a table that is added later is closed.
Rows whose tenant is empty belong to nobody: switches, exporters, jobs of mixed or unknown tenants are the operator's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from prism_ch.assets import asset
from prism_ch.errors import UsageError

#: Views that a tenant may name. Flow records, volumes and windows are of the whole network and so not among them.
TENANT_VIEWS = frozenset({
    "diagnosed_steps", "diagnoses", "gpu_steps", "gpu_time", "groups", "job_members", "job_timeline", "jobs", "losses",
    "pairs", "steps", "tenant_summary", "timeline", "topology",
})  # fmt: skip

#: ClickHouse's own tables that a tenant may name, each with the rows it sees of them.
TENANT_SYSTEM_TABLES = frozenset(
    {"columns", "data_type_families", "databases", "functions", "one", "tables", "time_zones"}
)

#: What may follow SHOW for a tenant.
TENANT_SHOWABLE = frozenset({"COLUMNS", "TABLES"})

#: Formats that tell how many rows were read, before a tenant's own were picked out of them.
TELLING_FORMATS = frozenset({"JSONCompactEachRowWithProgress", "JSONEachRowWithProgress"})

#: Limits on what is read: lowered bit by bit, they would tell the same.
TELLING_SETTINGS = frozenset({"max_memory_usage", "max_rows_to_read"})

#: Stored tables that hold nothing of anyone: how often the topology was loaded.
_OPEN = frozenset({"topology_loads"})
_DEFINITION = re.compile(
    r"^CREATE (?P<kind>TABLE|VIEW|MATERIALIZED VIEW) IF NOT EXISTS (?P<name>\w+)[^\n]*\n\((?P<columns>.*?)^\)",
    re.MULTILINE | re.DOTALL,
)
_COLUMN = re.compile(r"^    `(\w+)`", re.MULTILINE)


@cache
def stored_columns() -> Mapping[str, frozenset[str]]:
    """Return the columns of each stored table of the schema."""
    return {name: columns for (kind, name), columns in _schema().items() if kind == "TABLE"}


@cache
def schema_names() -> frozenset[str]:
    """Return the names of all tables and views of the schema."""
    return frozenset(name for _, name in _schema())


@cache
def _schema() -> Mapping[tuple[str, str], frozenset[str]]:
    """Read kind, name and columns of everything in the schema."""
    text = asset("sql/schema.sql").read_text(encoding="utf-8")
    return {
        (found["kind"], found["name"]): frozenset(_COLUMN.findall(found["columns"]))
        for found in _DEFINITION.finditer(text)
    }


@cache
def read_through_views() -> frozenset[str]:
    """Return what a tenant's views are made of: the tables and other views that they read, and these read in turn."""
    reads = {name: _names_in(body) for name, body in _view_bodies().items()}
    found: set[str] = set()
    pending = set(TENANT_VIEWS)
    while pending:
        pending = set().union(*(reads.get(name, frozenset()) for name in pending)) - found
        found |= pending
    return frozenset(found - TENANT_VIEWS)


def row_filters(database: str, tenant: str) -> dict[str, str]:
    """Return for each table, as `database.table`, the condition on its rows that the engine adds for a tenant.

    Raises UsageError where the tenant has no name: rows without tenant are nobody's.
    """
    if not tenant:
        raise UsageError("a tenant needs a name: rows without one are the operator's")
    conditions = {
        f"{database}.{name}": _of_tenant(_condition(name, columns), database, tenant)
        for name, columns in stored_columns().items()
        if name not in _OPEN
    }
    names = ", ".join(f"'{name}'" for name in sorted(TENANT_VIEWS))
    return {
        **conditions,
        "system.columns": f"database = '{database}' AND table IN ({names})",
        "system.databases": f"name = '{database}'",
        "system.functions": "origin = 'System'",
        "system.tables": f"database = '{database}' AND name IN ({names})",
    }


def filter_setting(filters: Mapping[str, str]) -> str:
    """Write row filters as the value of ClickHouse's setting additional_table_filters."""
    pairs = (f"{_quoted(table)}: {_quoted(condition)}" for table, condition in filters.items())
    return "{" + ", ".join(pairs) + "}"


def _view_bodies() -> dict[str, str]:
    """Return the SELECT of each view of the schema."""
    bodies = {}
    for text in asset("sql/schema.sql").read_text(encoding="utf-8").split(";\n"):
        found = re.search(r"^CREATE VIEW IF NOT EXISTS (\w+).*?^AS (.*)", text, re.MULTILINE | re.DOTALL)
        if found:
            bodies[found[1]] = found[2]
    return bodies


def _names_in(body: str) -> frozenset[str]:
    """Return the tables and views that a SELECT names behind FROM or JOIN."""
    return frozenset(re.findall(r"\b(?:FROM|JOIN)\s+(\w+)", body)) & schema_names()


def _condition(name: str, columns: frozenset[str]) -> str:
    """Return the condition in sql/roles that tells whose a table's rows are; empty where they are nobody's."""
    if "tenant" in columns:
        return "own_rows"
    if name == "revisions":
        return "own_jobs"
    if {"job_id", "revision"} <= columns:
        return "own_steps" if "step" in columns else "own_states"
    return ""


def _of_tenant(condition: str, database: str, tenant: str) -> str:
    """Return a condition of sql/roles for a tenant."""
    if not condition:
        return "0"
    lines = asset(f"sql/roles/{condition}.sql").read_text(encoding="utf-8").splitlines()
    text = " ".join(line for line in lines if not line.startswith("--"))
    # The engine binds no parameters in a filter. As hexadecimal digits a name can hold no quote.
    constant = f"unhex('{tenant.encode().hex()}')"
    return text.replace("{database:Identifier}", database).replace("{tenant:String}", constant)


def _quoted(text: str) -> str:
    """Write a ClickHouse string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
