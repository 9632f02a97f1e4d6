"""Keeps each tenant from the others' rows: what it may ask for, row filters, and roles on a server.

sql/roles/tenancy.toml names everything in the database: which rows of a table are a tenant's, which views it may name.
Rows whose tenant is empty belong to nobody: switches, exporters, jobs of mixed or unknown tenants are the operator's.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain

from prism_ch.assets import asset
from prism_ch.errors import UsageError
from prism_ch.store.client import Store
from prism_ch.store.statements import quoted, split_statements, statement

#: ClickHouse's own tables that a tenant may name, each with the rows it sees of them.
TENANT_SYSTEM_TABLES = frozenset({
    "columns", "data_type_families", "databases", "formats", "functions", "keywords", "one", "table_engines",
    "table_functions", "tables", "time_zones",
})  # fmt: skip

#: What may follow SHOW for a tenant.
TENANT_SHOWABLE = frozenset({"COLUMNS", "DATABASES", "TABLES"})

#: Formats that reveal how many rows were read, other tenants' among them.
REVEALING_FORMATS = frozenset({"JSONCompactEachRowWithProgress", "JSONEachRowWithProgress"})

#: Limits on what is read: lowered bit by bit, they would reveal the same. Small blocks show where others' rows lie.
REVEALING_SETTINGS = frozenset({
    "max_block_size", "max_memory_usage", "max_rows_to_read", "preferred_block_size_bytes",
})  # fmt: skip


@cache
def _lists() -> Mapping[str, Mapping[str, Sequence[str]]]:
    return tomllib.loads(asset("sql/roles/tenancy.toml").read_text(encoding="utf-8"))


@cache
def tenant_views() -> frozenset[str]:
    """Return the views that a tenant may name."""
    return frozenset(_lists()["views"]["public"])


@cache
def listed_views() -> frozenset[str]:
    """Return the views that people read, and not what those are made of."""
    return tenant_views() | frozenset(_lists()["views"]["operators"])


@cache
def inner_tables() -> frozenset[str]:
    """Return the tables that a tenant's views read."""
    rows = _lists()["rows"]
    return frozenset(chain.from_iterable(rows.values())) - frozenset(rows["none"])


@cache
def closed_names() -> frozenset[str]:
    """Return the tables and views of the database that a tenant may not name."""
    return known_names() - tenant_views()


@cache
def known_names() -> frozenset[str]:
    """Return all tables and views of the database."""
    return frozenset(chain.from_iterable(names for part in _lists().values() for names in part.values()))


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
    pairs = (f"{quoted(table)}: {quoted(condition)}" for table, condition in filters.items())
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


def topology_tenants(store: Store) -> list[str]:
    """Return the tenants that the topology names, in order."""
    return [tenant for (tenant,) in store.rows(statement("topology_tenants"))]


def apply_access(store: Store) -> list[str]:
    """Make roles, users and row policies for every tenant, and return the tenants.

    May be repeated: what exists stays, what has changed is replaced, passwords and other users are left alone.
    Raises UsageError on the embedded engine and on a cluster, StoreError if the user may not manage access.
    """
    if store.embedded:
        raise UsageError(
            "the embedded engine has one user and no roles; give tenants users of `prism-ch serve`,"
            " or see what one sees with `prism-ch sql --tenant NAME`"
        )
    if store.cluster:
        raise UsageError("on a cluster run the statements of `prism-ch tenants apply --print` on each node")
    tenants = topology_tenants(store)
    for text in access_statements(store.database, tenants):
        store.command(text)
    return tenants


def access_statements(database: str, tenants: Sequence[str]) -> tuple[str, ...]:
    """Return the statements that give tenants their roles, users and row policies, in order.

    All row policies come before the first grant. Raises UsageError if a tenant has no name.
    """
    return tuple(_statements(database, tenants))


def user_of(tenant: str) -> str:
    """Return the name of a tenant's user on a server."""
    return f"prism_user_{tenant}"


def _statements(database: str, tenants: Sequence[str]) -> Iterator[str]:
    own = inner_tables() | tenant_views()
    tables = [table.split(".") for table in row_filters(database, "any")]
    filtered = [".".join(table) for table in tables if table[0] == "system" or table[1] in own]
    yield from _filled("shared", database=_identifier(database))
    for tenant in tenants:
        role = _identifier(f"prism_tenant_{tenant}")
        yield from _filled("role", role=role)
        conditions = row_filters(database, tenant)
        for table in filtered:
            yield from _filled("policy", role=role, table=_identifier(*table.split(".")), condition=conditions[table])
    for table in filtered:
        yield from _filled("table", table=_identifier(*table.split(".")))
    for name in sorted(own - {table.partition(".")[2] for table in filtered}):
        yield from _filled("view", table=_identifier(database, name))
    for tenant in tenants:
        role, user = _identifier(f"prism_tenant_{tenant}"), _identifier(user_of(tenant))
        yield from _filled("user", role=role, user=user, database=_identifier(database))


def _filled(name: str, **values: str) -> tuple[str, ...]:
    """Return the statements of sql/roles/<name>.sql with values filled in, as ClickHouse binds no parameters there."""
    text = asset(f"sql/roles/{name}.sql").read_text(encoding="utf-8")
    place = re.compile(r"\{(\w+):(?:Identifier|Expression)\}")
    return tuple(place.sub(lambda found: values[found[1]], one) for one in split_statements(text))


def _identifier(*names: str) -> str:
    escapes = {"\\": "\\\\", "`": "\\`", "\n": "\\n", "\r": "\\r", "\0": "\\0"}
    return ".".join("`" + "".join(escapes.get(letter, letter) for letter in name) + "`" for name in names)
