"""Retention: every table has its time, counted from when rows were written, and what an operator sets stays."""

import re
import tomllib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from prism_ch.assets import asset
from prism_ch.errors import UsageError
from prism_ch.store import retention
from prism_ch.store.client import Store
from prism_ch.store.migrate import migrate
from prism_ch.store.retention import (
    ClassState,
    apply_retention,
    classes,
    parse_days,
    read_retention,
    set_retention,
)


def retention_file() -> dict[str, Any]:
    return tomllib.loads(asset("sql/retention.toml").read_text())


DAYS_OF_PARTITION = {"toYYYYMMDD": 1, "toYYYYMM": 31}


@pytest.fixture
def kept(store: Store) -> Store:
    """Return a database whose retention is the default; one handed on by another test has forgotten it."""
    apply_retention(store)
    return store


def stored_tables(store: Store) -> dict[str, str]:
    """Return the partition key of every table that stores rows."""
    asked = "SELECT name, partition_key FROM system.tables WHERE database = {d:String} AND engine LIKE '%MergeTree'"
    return dict(store.rows(asked, {"d": store.database}))


def write_steps(store: Store, days_ago: int, written_days_ago: int, rows: int = 3) -> None:
    """Write steps of a day, as if that had been done some days ago."""
    store.command(
        "INSERT INTO steps_log (job_id, step, start_time, written_at)"
        " SELECT 'one', number, now64(9) - toIntervalDay({days:UInt32}), now() - toIntervalDay({written:UInt32})"
        " FROM numbers({rows:UInt32})",
        {"days": days_ago, "written": written_days_ago, "rows": rows},
    )


def count(store: Store, table: str) -> int:
    found: int = store.scalar("SELECT count() FROM {table:Identifier}", {"table": table})
    return found


def merge(store: Store, table: str) -> None:
    store.command("OPTIMIZE TABLE {table:Identifier} FINAL", {"table": table})


def days(store: Store, name: str) -> tuple[int, bool]:
    [found] = [each for each in read_retention(store) if each.name == name]
    return found.kept_days, found.is_default


def test_every_table_that_stores_has_its_time(kept: Store) -> None:
    named = [table for item in classes().values() for table in item.tables] + list(retention_file()["for_ever"])
    assert sorted(named) == sorted(stored_tables(kept))


def test_partitions_are_short_enough_to_be_dropped_whole(kept: Store) -> None:
    partitions = stored_tables(kept)
    for item in classes().values():
        for table in item.tables:
            unit = DAYS_OF_PARTITION[partitions[table].partition("(")[0]]
            assert unit * 2 < item.kept_days, table


def test_tables_drop_whole_parts_by_the_named_column(kept: Store) -> None:
    for item in classes().values():
        for table, age in item.tables.items():
            text = kept.scalar("SHOW CREATE TABLE {table:Identifier}", {"table": table})
            assert re.search(rf"TTL toDateTime\({age}\) \+ toIntervalDay\(\D*{item.kept_days + 1}\b", text), table
            assert "ttl_only_drop_parts = 1" in text


def test_page_names_every_class_and_its_default() -> None:
    page = (Path(__file__).parents[2] / "docs/howto/retention.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `(\w+)` \| (\d+) (day|year)s \|", page, re.MULTILINE)
    wanted = {name: item.kept_days for name, item in classes().items()}
    assert {name: int(number) * {"day": 1, "year": 365}[unit] for name, number, unit in named} == wanted


def test_classes_say_why_and_name_classes_that_there_are() -> None:
    for item in classes().values():
        assert item.why
        assert set(item.not_longer_than) < set(classes())
    assert all(retention_file()["for_ever"].values())
    assert set(retention_file()) == {"class", "for_ever"}


def test_old_parts_go_and_fresh_ones_stay(kept: Store) -> None:
    write_steps(kept, days_ago=800, written_days_ago=800)
    write_steps(kept, days_ago=801, written_days_ago=700)
    write_steps(kept, days_ago=1, written_days_ago=0)
    merge(kept, "steps_log")
    assert count(kept, "steps_log") == 6


def test_fresh_rows_stay_beside_old_ones_of_the_same_day(kept: Store) -> None:
    write_steps(kept, days_ago=800, written_days_ago=700)
    write_steps(kept, days_ago=800, written_days_ago=0)
    merge(kept, "steps_log")
    set_retention(kept, {"results": 300})
    merge(kept, "steps_log")
    assert kept.scalar("SELECT count() FROM steps_log WHERE written_at > now() - INTERVAL 1 DAY") == 3


def test_records_of_last_year_are_kept_from_when_they_landed(kept: Store) -> None:
    last_year_ns = (int(datetime.now(UTC).timestamp()) - 400 * 86_400) * 10**9
    kept.command(
        "INSERT INTO flow_landing (source, received_at, time_flow_start_ns, time_flow_end_ns, src_addr, dst_addr,"
        " proto, bytes, packets, sampler_address) SELECT 'old', fromUnixTimestamp64Nano({t:Int64}), {t:Int64},"
        " {t:Int64} + 1000, '10.0.0.1', if(number = 0, '10.0.0.2', 'nonsense'), 17, 100, 1, 'leaf-1' FROM numbers(2)",
        {"t": last_year_ns},
    )
    for table in ("flows_log", "flows_rejected_log", "flow_pair_1m_log", "switch_1s_log", "arrivals_log"):
        merge(kept, table)
        assert count(kept, table) == 1, table


def test_what_is_set_reaches_old_parts_and_outlasts_a_migration(kept: Store) -> None:
    write_steps(kept, days_ago=300, written_days_ago=300)
    set_retention(kept, {"results": 200})
    merge(kept, "steps_log")
    assert count(kept, "steps_log") == 0
    migrate(kept)
    assert days(kept, "results") == (200, False)


def test_kept_longer_from_now_on_old_parts_stay(kept: Store) -> None:
    set_retention(kept, {"timeline": 30, "results": 60})
    write_steps(kept, days_ago=50, written_days_ago=50)
    set_retention(kept, {"results": 90})
    write_steps(kept, days_ago=80, written_days_ago=80)
    merge(kept, "steps_log")
    assert count(kept, "steps_log") == 6


def test_setting_the_same_again_changes_nothing(kept: Store) -> None:
    set_retention(kept, {"raw": 10})
    before = kept.rows("SELECT * FROM retention_log ORDER BY ALL")
    set_retention(kept, {"raw": 10})
    apply_retention(kept)
    assert kept.rows("SELECT * FROM retention_log ORDER BY ALL") == before


def test_a_default_that_is_asked_for_is_no_default_any_more(kept: Store) -> None:
    set_retention(kept, {"raw": classes()["raw"].kept_days})
    assert days(kept, "raw") == (classes()["raw"].kept_days, False)


def test_new_default_applies_unless_operator_has_set_days(kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    set_retention(kept, {"raw": 10, "results": 100, "timeline": 100})
    changed = {name: replace(classes()[name], kept_days=77) for name in ("raw", "telemetry", "results")}
    monkeypatch.setattr(retention, "classes", lambda: {**classes(), **changed})
    migrate(kept)
    assert [days(kept, name) for name in ("raw", "results", "telemetry")] == [(10, False), (100, False), (77, True)]


def test_default_is_lowered_to_what_operator_keeps_of_its_needs(kept: Store) -> None:
    kept.command("TRUNCATE TABLE retention_log")
    kept.command("INSERT INTO retention_log (class, kept_days, is_default) VALUES ('results', 100, 0)")
    apply_retention(kept)
    assert days(kept, "timeline") == (100, True)


@pytest.mark.parametrize(
    "wanted, refused",
    [
        ({"raw": 800}, r"raw can't be kept for 800 days when results, which it needs, is kept for 730; set both"),
        ({"results": 20}, "raw can't be kept for 30 days when results"),
        ({"results": 2000}, "results can't be kept for 2000 days when ledger"),
        ({"timeline": 731}, "timeline can't be kept for 731 days"),
        ({"rollup_1m": 731}, "rollup_1m can't be kept for 731 days when rollup_1h"),
        ({"raw": 5, "flows": 5}, "there is no class flows of tables; there are raw, rollup_1s"),
    ],
)
def test_impossible_retention_is_refused_and_changes_nothing(kept: Store, wanted: dict[str, int], refused: str) -> None:
    before = read_retention(kept), stored_tables(kept)
    with pytest.raises(UsageError, match=refused):
        set_retention(kept, wanted)
    assert (read_retention(kept), stored_tables(kept)) == before


def test_broken_off_in_the_middle_it_completes(kept: Store) -> None:
    kept.command("ALTER TABLE steps_log REMOVE TTL")
    kept.command("ALTER TABLE jobs_log MODIFY TTL toDateTime(written_at) + toIntervalDay(3)")
    apply_retention(kept)
    for table in ("steps_log", "jobs_log"):
        assert re.search(r"toIntervalDay\(\D*731\b", kept.scalar(f"SHOW CREATE TABLE {table}"))


def test_how_it_stands_is_told_by_class(kept: Store) -> None:
    write_steps(kept, days_ago=3, written_days_ago=2)
    kept.command("INSERT INTO jobs_log (job_id, revision) VALUES ('one', 1)")
    found = {each.name: each for each in read_retention(kept)}
    assert list(found) == list(classes())
    results = found["results"]
    assert results.rows == 5
    assert results.size_bytes > 0
    assert results.oldest_at is not None
    assert (datetime.now(UTC).replace(tzinfo=None) - results.oldest_at).days == 2
    assert found["timeline"] == ClassState("timeline", 180, is_default=True, rows=0, size_bytes=0, oldest_at=None)


@pytest.mark.parametrize("text, wanted", [("30d", 30), ("6w", 42), ("2y", 730), ("1d", 1), ("100y", 36_500)])
def test_lengths_of_time(text: str, wanted: int) -> None:
    assert parse_days(text) == wanted


@pytest.mark.parametrize("text", ["", "d", "30", "30 d", "0d", "1.5y", "-1d", "101y", "12m", "9999999d", "\u0663d"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no time to keep rows for; write 30d, 6w or 2y"):
        parse_days(text)
