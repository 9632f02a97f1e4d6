"""The schema: sql/schema.sql is the sum of the migrations, and every table, view and column says what it is."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from prism_ch.assets import asset
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import apply_migrations
from prism_ch.store.statements import split_statements
from tests.contract import ADDED, PROMISED
from tests.contract import columns as public_columns
from tools.schema_dump import dump_schema

#: What a column's comment must name, by what the column is called or its type.
UNITS = {
    r"_s$|_s_": "seconds",
    r"_hours": "GPU-hours",
    r"_ns$": "nanoseconds since the epoch",
    r"\bDateTime64": "UTC",
    r"^bytes ": r"[Bb]ytes",
    r"^\w*(flows|packets|findings|jobs|gpus|steps|endpoints|servers|lost) UInt": "count",
    r"^attempts ": "times",
    r"^(confidence|slowdown) ": "0 to 1",
    r"^score ": "standard deviations",
    r"^observed ": "seconds",
    r"^expected ": "unit of observed",
}


@pytest.fixture(scope="module")
def schema(engine_folder: Path) -> Iterator[Store]:
    """One migrated database for the tests here that only look."""
    with connect(f"chdb://{engine_folder}?database=test_schema") as store:
        apply_migrations(store)
        yield store
        store.command("DROP DATABASE test_schema", use_database=False)


def columns(store: Store) -> list[tuple[str, ...]]:
    return store.rows(
        "SELECT table, name, type, comment, default_kind, default_expression, compression_codec, is_in_sorting_key,"
        " is_in_partition_key FROM system.columns WHERE database = {name:String} ORDER BY table, position",
        {"name": store.database},
    )


def tables(store: Store) -> list[tuple[str, ...]]:
    rows = store.rows(
        "SELECT name, engine, engine_full, comment, as_select FROM system.tables WHERE database = {name:String}"
        " ORDER BY name",
        {"name": store.database},
    )
    return [tuple(text.replace(f"{store.database}.", "") for text in row) for row in rows]


def test_schema_sql_is_what_the_migrations_add_up_to(empty_store: Store) -> None:
    empty_store.command("CREATE DATABASE {name:Identifier}", {"name": empty_store.database}, use_database=False)
    for text in split_statements(asset("sql/schema.sql").read_text()):
        empty_store.command(text)
    by_hand = tables(empty_store), columns(empty_store)
    empty_store.command("DROP DATABASE {name:Identifier}", {"name": empty_store.database}, use_database=False)
    apply_migrations(empty_store)
    how = "generate it again: python -m tools.schema_dump > sql/schema.sql"
    assert by_hand == (tables(empty_store), columns(empty_store)), how


def test_the_dump_is_the_file(schema: Store) -> None:
    assert dump_schema(schema) == asset("sql/schema.sql").read_text()


def test_every_table_view_and_column_has_a_comment(schema: Store) -> None:
    # Materialized views are the wiring between tables: nobody reads them, and they keep no comments of columns.
    wiring = {row[0] for row in tables(schema) if row[1] == "MaterializedView"}
    assert [row[0] for row in tables(schema) if not row[3] and row[0] not in wiring] == []
    assert [row[:2] for row in columns(schema) if not row[3] and row[0] not in wiring] == []


def test_comments_of_times_and_counts_name_the_unit(schema: Store) -> None:
    units = {r"_s$|_s_": "seconds", r"_ns$": "nanoseconds", r"^DateTime": "UTC"}
    wrong = [
        (table, name, comment)
        for table, name, kind, comment, *_ in columns(schema)
        for pattern, unit in units.items()
        if comment and re.search(pattern, kind if pattern.startswith("^") else name) and unit not in comment
    ]
    assert wrong == []


@pytest.mark.parametrize("table", PROMISED)
def test_public_tables_have_promised_columns_in_order(schema: Store, table: str) -> None:
    found = public_columns(schema, table)
    assert found == PROMISED[table] | ADDED[table]
    assert [name for name in found if name in PROMISED[table]] == list(PROMISED[table])
    assert schema.rows("SELECT * FROM {table:Identifier}", {"table": table}) == []


@pytest.mark.parametrize("table", PROMISED)
def test_public_columns_name_their_unit(schema: Store, table: str) -> None:
    described = schema.rows("DESCRIBE TABLE {table:Identifier}", {"table": table})
    comments = {f"{row[0]} {row[1]}": row[4] for row in described}
    wrong = [
        (column, comment)
        for column, comment in comments.items()
        for pattern, unit in UNITS.items()
        if re.search(pattern, column) and not re.search(unit, comment)
    ]
    assert wrong == []
