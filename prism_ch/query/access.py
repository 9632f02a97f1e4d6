"""Makes the roles, users, row policies and quotas of the topology's tenants on a server, from sql/roles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from prism_ch.assets import asset
from prism_ch.errors import UsageError
from prism_ch.query.tenancy import inner_tables, row_filters, tenant_views
from prism_ch.store.client import Store
from prism_ch.store.statements import split_statements, statement


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
    """Quote a name, or database and table."""
    escapes = {"\\": "\\\\", "`": "\\`", "\n": "\\n", "\r": "\\r", "\0": "\\0"}
    return ".".join("`" + "".join(escapes.get(letter, letter) for letter in name) + "`" for name in names)
