"""The schema: sql/schema.sql is the sum of the migrations, and every table, view and column says what it is."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from prism_ch.assets import asset
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate
from prism_ch.store.schema_dump import dump_schema
from prism_ch.store.statements import split_statements

#: contract: the result tables by their public names, with the columns they must have, in order.
CONTRACT = {
    "jobs": "job_id tenant status first_seen last_seen endpoints servers dp_size pp_size steps step_s_median",
    "job_members": "job_id endpoint server gpu dp_group pp_stage first_seen last_seen",
    "pairs": "job_id src_addr dst_addr kind confidence flows bytes first_seen last_seen",
    "groups": "job_id group_id kind pp_stage members",
    "steps": "job_id tenant step start_time end_time duration_s compute_s pp_s dp_s slowest_endpoint",
    "gpu_steps": "job_id tenant endpoint step start_time end_time duration_s compute_s pp_s dp_s",
    "timeline": "job_id endpoint step phase start_time end_time",
    "diagnoses": (
        "diagnosis_id job_id tenant kind subject_type subject first_step last_step start_time end_time status severity"
        " observed expected score slowdown summary evidence"
    ),
    "windows": "window_start window_end flows late_flows worked_at attempts status error",
}
TYPES = {
    **dict.fromkeys(("job_id", "tenant", "endpoint", "server", "src_addr", "dst_addr", "subject", "summary"), "String"),
    **dict.fromkeys(("first_seen", "last_seen", "start_time", "end_time"), "DateTime64(9)"),
    **dict.fromkeys(("step", "first_step", "last_step", "bytes"), "UInt64"),
    **dict.fromkeys(("endpoints", "servers", "dp_size", "pp_size", "dp_group", "pp_stage", "group_id"), "UInt32"),
    **dict.fromkeys(("duration_s", "compute_s", "pp_s", "dp_s", "score", "slowdown", "confidence"), "Float64"),
    "gpu": "UInt8",
    "members": "Array(String)",
}


@pytest.fixture(scope="module")
def schema(engine_folder: Path) -> Iterator[Store]:
    """One migrated database for the tests here that only look."""
    with connect(f"chdb://{engine_folder}?database=test_schema") as store:
        migrate(store)
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
    migrate(empty_store)
    how = "generate it again: python -m prism_ch.store.schema_dump > sql/schema.sql"
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


@pytest.mark.parametrize("view", CONTRACT)
def test_views_have_the_columns_of_the_contract_in_order(schema: Store, view: str) -> None:
    found = {row[1]: row[2] for row in columns(schema) if row[0] == view}
    wanted = CONTRACT[view].split()
    assert list(found)[: len(wanted)] == wanted
    assert {name: kind for name, kind in found.items() if name in TYPES} == {
        name: TYPES[name] for name in found if name in TYPES
    }
    assert schema.rows("SELECT * FROM {view:Identifier}", {"view": view}) == []


def test_enums_of_the_contract(schema: Store) -> None:
    found = {(row[0], row[1]): re.findall(r"'(\w+)'", row[2]) for row in columns(schema) if row[2].startswith("Enum8")}
    assert found["jobs", "status"] == ["running", "stalled", "ended"]
    assert found["pairs", "kind"] == ["DP", "PP", "EP", "CP", "TP", "other"]
    assert found["groups", "kind"] == ["DP", "PP", "EP", "CP", "TP"]
    assert found["timeline", "phase"] == ["compute", "PP", "DP", "EP", "CP", "TP"]
    assert " ".join(found["diagnoses", "kind"]) == (
        "slow_step slow_group slow_switch slow_gpu slow_nic slow_link congestion stall hang restart imbalance telemetry"
    )
    assert " ".join(found["diagnoses", "subject_type"]) == "job group endpoint server switch link exporter"
    assert found["diagnoses", "status"] == ["open", "closed"]
    assert found["diagnoses", "severity"] == ["info", "warning", "critical"]
    assert found["windows", "status"] == ["worked", "failed"]


@pytest.mark.parametrize("view", ["diagnosed_steps", "losses", "tenant_summary"])
def test_views_on_top_answer_on_an_empty_database(schema: Store, view: str) -> None:
    assert schema.rows("SELECT * FROM {view:Identifier}", {"view": view}) == []
