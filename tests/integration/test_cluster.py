"""The schema of a cluster: the same files by one substitution, every statement parsed by the real engine."""

import re

import pytest

from prism_ch.store.client import Store
from prism_ch.store.migrate import migrations
from prism_ch.store.statements import LOCAL_SUFFIX, SHARDING_KEYS, for_cluster

CLUSTER = "gpu-net"


def statements() -> list[str]:
    return [text for migration in migrations() for text in migration.statements]


def on_cluster() -> list[str]:
    return [one for text in statements() for one in for_cluster(text, CLUSTER)]


def named(kind: str, name: str) -> str:
    """Return the one statement that creates a table or view of this name."""
    (found,) = [text for text in on_cluster() if re.match(rf"CREATE {kind} IF NOT EXISTS {name} ON CLUSTER", text)]
    return found


def test_a_server_that_stands_alone_gets_the_files_as_they_are() -> None:
    for text in statements():
        assert for_cluster(text, "") == (text,)


def test_the_engine_reads_every_statement_of_a_cluster(store: Store) -> None:
    read = [text for text in on_cluster() if text.startswith(("CREATE", "ALTER"))]
    assert len(read) > len(statements())
    for text in read:
        assert b"CreateQuery" in (tree := store.raw(f"EXPLAIN AST {text}", fmt="TSV")) or b"AlterQuery" in tree
        assert f"ON CLUSTER '{CLUSTER}'" in text


def test_a_statement_that_the_engine_does_not_read_is_noticed(store: Store) -> None:
    with pytest.raises(Exception, match="Syntax error"):
        store.raw("EXPLAIN AST CREATE TABLE t ON CLUSTER (a UInt8) ENGINE = Null", fmt="TSV")


def test_every_table_that_stores_is_replicated() -> None:
    for text in on_cluster():
        for engine in re.findall(r"ENGINE = (\w*MergeTree)\b", text):
            assert engine.startswith("Replicated"), text[:80]
        assert "non_replicated_deduplication_window" not in text


@pytest.mark.parametrize("name", SHARDING_KEYS)
def test_rows_of_sharded_tables_are_where_the_key_places_them(name: str) -> None:
    local = named("TABLE", name + LOCAL_SUFFIX)
    assert f"'/clickhouse/tables/{{shard}}/{{database}}/{name}', '{{replica}}'" in local
    spread = named("TABLE", name)
    assert f"AS {name}{LOCAL_SUFFIX}" in spread
    assert f"Distributed('{CLUSTER}', currentDatabase(), '{name}{LOCAL_SUFFIX}', {SHARDING_KEYS[name]})" in spread


def test_both_directions_of_a_pair_lie_together(store: Store) -> None:
    key = SHARDING_KEYS["flows_log"]
    ask = f"WITH {{a:String}} AS src_addr, {{b:String}} AS dst_addr SELECT {key}"
    there = store.scalar(ask, {"a": "10.0.0.1", "b": "10.0.0.2"})
    assert there == store.scalar(ask, {"a": "10.0.0.2", "b": "10.0.0.1"})
    assert there != store.scalar(ask, {"a": "10.0.0.1", "b": "10.0.0.3"})


def test_results_lie_whole_on_every_node() -> None:
    steps = named("TABLE", "steps_log")
    assert "ReplicatedMergeTree('/clickhouse/tables/{database}/steps_log', '{shard}-{replica}')" in steps


def test_arguments_of_an_engine_are_kept() -> None:
    assert (
        "ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/windows_log', '{shard}-{replica}', revision)"
        in (named("TABLE", "windows_log"))
    )


def test_empty_parentheses_of_an_engine_take_the_place_alone() -> None:
    (text,) = for_cluster("CREATE TABLE t (a UInt8) ENGINE = MergeTree() ORDER BY a", "c")
    assert "ENGINE = ReplicatedMergeTree('/clickhouse/tables/{database}/t', '{shard}-{replica}') ORDER BY a" in text


def test_columns_are_added_to_both_tables_of_a_sharded_one() -> None:
    add = "ALTER TABLE flows_log ADD COLUMN IF NOT EXISTS vlan UInt16"
    assert for_cluster(add, "c") == (
        "ALTER TABLE flows_log_local ON CLUSTER 'c' ADD COLUMN IF NOT EXISTS vlan UInt16",
        "ALTER TABLE flows_log ON CLUSTER 'c' ADD COLUMN IF NOT EXISTS vlan UInt16",
    )


def test_the_database_is_made_on_every_node() -> None:
    assert for_cluster("CREATE DATABASE IF NOT EXISTS {name:Identifier}", "c") == (
        "CREATE DATABASE IF NOT EXISTS {name:Identifier} ON CLUSTER 'c'",
    )


def test_rows_are_inserted_as_on_one_server() -> None:
    insert = "INSERT INTO flows_log SELECT * FROM flows_log"
    assert for_cluster(insert, "c") == (insert,)
