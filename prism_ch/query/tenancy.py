"""What a tenant may ask for, and the row filters by which the engine itself keeps everyone else's rows from it.

sql/roles/tenancy.toml names everything in the database: which rows of a table are a tenant's, which views it may name.
Rows whose tenant is empty belong to nobody: switches, exporters, jobs of mixed or unknown tenants are the operator's.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain

from prism_ch.assets import asset
from prism_ch.errors import UsageError

#: ClickHouse's own tables that a tenant may name, each with the rows it sees of them.
TENANT_SYSTEM_TABLES = frozenset(
    {"columns", "data_type_families", "databases", "functions", "one", "tables", "time_zones"}
)

#: What may follow SHOW for a tenant.
TENANT_SHOWABLE = frozenset({"COLUMNS", "TABLES"})

#: Formats that reveal how many rows were read, other tenants' among them.
REVEALING_FORMATS = frozenset({"JSONCompactEachRowWithProgress", "JSONEachRowWithProgress"})

#: Limits on what is read: lowered bit by bit, they would reveal the same.
REVEALING_SETTINGS = frozenset({"max_memory_usage", "max_rows_to_read"})


@cache
def _lists() -> Mapping[str, Mapping[str, Sequence[str]]]:
    return tomllib.loads(asset("sql/roles/tenancy.toml").read_text(encoding="utf-8"))


@cache
def tenant_views() -> frozenset[str]:
    """Return the views that a tenant may name."""
    return frozenset(_lists()["views"]["public"])


@cache
def inner_tables() -> frozenset[str]:
    """Return the tables and views that a tenant's views read."""
    rows = _lists()["rows"]
    return frozenset(chain(_lists()["views"]["inner"], *rows.values())) - frozenset(rows["none"])


@cache
def closed_names() -> frozenset[str]:
    """Return the tables and views of the database that a tenant may not name."""
    lists = _lists().values()
    return frozenset(chain.from_iterable(names for part in lists for names in part.values())) - tenant_views()


def row_filters(database: str, tenant: str) -> dict[str, str]:
    """Return the row filter of each table, named `database.table`, for a tenant.

    Raises UsageError where the tenant has no name: rows without tenant are nobody's.
    """
    if not tenant:
        raise UsageError("a tenant needs a name: rows without one are the operator's")
    conditions = {
        f"{database}.{name}": _condition(owner, database, tenant)
        for owner, names in _lists()["rows"].items()
        if owner != "all"
        for name in names
    }
    names = ", ".join(f"'{name}'" for name in sorted(tenant_views()))
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


def _condition(owner: str, database: str, tenant: str) -> str:
    """Return the condition of sql/roles/<owner>.sql for a tenant."""
    if owner == "none":
        return "0"
    lines = asset(f"sql/roles/{owner}.sql").read_text(encoding="utf-8").splitlines()
    text = " ".join(line for line in lines if not line.startswith("--"))
    # The engine binds no parameters in a filter. As hexadecimal digits a name can hold no quote.
    constant = f"unhex('{tenant.encode().hex()}')"
    return text.replace("{database:Identifier}", database).replace("{tenant:String}", constant)


def _quoted(text: str) -> str:
    """Write a ClickHouse string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
