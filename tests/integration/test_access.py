"""Roles, users and row policies of tenants: the engine reads every statement, and no name breaks out of its quotes."""

import re
from collections.abc import Iterator

import pytest

from prism_ch.errors import UsageError
from prism_ch.query.tenancy import (
    access_statements,
    apply_access,
    inner_tables,
    row_filters,
    tenant_views,
    topology_tenants,
)
from prism_ch.store.client import Store
from tests.two_tenants import ALPHA, BRAVO, fill

NAMES = [
    "research",
    "a b",
    "o'hara",
    "tick`tick",
    "back\\slash",
    "x`; DROP DATABASE prism; --",
    "é",
    "line\nline",
    "{table:Identifier}",
]


def read_by_engine(store: Store, statements: tuple[str, ...]) -> Iterator[str]:
    for sql in statements:
        yield store.scalar("SELECT formatQuerySingleLine({sql:String})", {"sql": sql})


@pytest.mark.parametrize("name", NAMES)
def test_every_statement_is_one_that_clickhouse_reads(store: Store, name: str) -> None:
    read = list(read_by_engine(store, access_statements("prism", [name])))
    starts = re.compile(r"(CREATE (ROLE IF|USER IF|ROW POLICY OR REPLACE|QUOTA OR|SETTINGS PROFILE OR)|GRANT) ")
    assert all(starts.match(sql) for sql in read), "each may be repeated"
    assert len(read) == len(access_statements("prism", ["other"]))


def test_policies_hold_before_anything_is_granted(store: Store) -> None:
    read = list(read_by_engine(store, access_statements("prism", ["a", "b"])))
    tables = [at for at, sql in enumerate(read) if re.match(r"GRANT SELECT ON .* TO prism_tenant$", sql)]
    policies = [at for at, sql in enumerate(read) if "ROW POLICY" in sql and "prism_tenant_" in sql]
    users = [at for at, sql in enumerate(read) if sql.startswith("CREATE USER")]
    assert max(policies) < min(tables) < max(tables) < min(users)


def test_each_tenant_has_a_policy_on_every_table_it_may_read() -> None:
    statements = access_statements("prism", ["a", "b"])
    granted = {found[1] for sql in statements if (found := re.match(r"GRANT SELECT ON `prism`\.`(\w+)` TO", sql))}
    assert granted == tenant_views() | inner_tables()
    stored = granted & {table.removeprefix("prism.") for table in row_filters("prism", "a")}
    for tenant in ("a", "b"):
        role = f"`prism_tenant_{tenant}`"
        policies = [sql for sql in statements if sql.startswith(f"CREATE ROW POLICY OR REPLACE {role} ON `prism`")]
        assert {sql.split("`")[5] for sql in policies} == stored
        assert all(f"unhex('{tenant.encode().hex()}')" in sql for sql in policies)
    assert all(row_filters("prism", "a")[f"prism.{name}"] != "0" for name in stored)


def test_the_tenants_are_the_topologys(store: Store) -> None:
    fill(store)
    assert topology_tenants(store) == [ALPHA.name, BRAVO.name]


def test_the_embedded_engine_says_what_to_do_instead(store: Store) -> None:
    with pytest.raises(UsageError, match="prism-ch sql --tenant NAME"):
        apply_access(store)
