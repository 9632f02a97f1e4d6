"""Rows that are gone though a ledger has them: named, not analysed without, and put back by landing again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from prism_ch.errors import StoreError
from prism_ch.health.integrity import check_rows, mend_database
from prism_ch.ingest.files import land_files
from prism_ch.ingest.topology_file import load_topology
from prism_ch.settings import Settings
from prism_ch.store.client import Store
from prism_ch.worker import analyse
from tests.damage import nothing_lands
from tests.records import csv_text, records, write, write_parquet
from tests.sweeps import swept

SETTINGS = Settings()
TOPOLOGY = "endpoint,server,gpu,rail,leaf,pod,tenant\n10.0.0.1,a,0,0,,,\n10.0.0.2,b,0,0,,,\n"
SUMS = [
    {"table": "arrivals", "column": "records"},
    *(
        {"table": table, "column": "flows"}
        for table in ("flow_pair_1m", "flow_pair_1h", "switch_1s", "switch_1m", "switch_1h")
    ),
]


def wrong(store: Store) -> list[str]:
    return [f"{check.name}: {check.what}" for check in check_rows(store, SETTINGS) if check.state != "ok"]


def sums(store: Store) -> list[object]:
    counted = [store.rows("SELECT sum({column:Identifier}) FROM {table:Identifier}", names) for names in SUMS]
    return [store.scalar("SELECT count() FROM flows"), *counted]


def empty(store: Store, *tables: str) -> None:
    for table in tables:
        store.command("TRUNCATE TABLE {table:Identifier}", {"table": table})


@pytest.fixture(autouse=True)
def _without_waiting() -> Iterator[None]:
    with nothing_lands():
        yield


@pytest.fixture
def landed(store: Store, tmp_path: Path) -> Path:
    """Land a file, and load a topology."""
    load_topology(store, write(tmp_path / "topology.csv", TOPOLOGY))
    write_parquet(tmp_path / "a.parquet", records(300))
    land_files(store, [str(tmp_path / "a.parquet")])
    assert wrong(store) == []
    return tmp_path


def test_flows_that_are_gone_come_back_by_landing_again(store: Store, landed: Path) -> None:
    before = sums(store)
    empty(store, "flows_log")
    [line] = wrong(store)
    assert "rows of flows: flow records that have landed are gone in" in line
    assert f"1 files landed at that time: {landed}/a.parquet" in check_rows(store, SETTINGS)[0].mend
    for _ in range(2):
        report = land_files(store, [str(landed / "a.parquet")], again=True)
        assert (report.landed, report.skipped, report.failures) == (300, (), ())
        assert wrong(store) == []
        assert sums(store) == before
    assert len(land_files(store, [str(landed / "a.parquet")]).skipped) == 1


def test_repeats_that_are_folded_are_not_missed(store: Store, landed: Path) -> None:
    land_files(store, [str(write(landed / "repeats.csv", csv_text(records(300))))])
    assert store.scalar("SELECT sum(records) FROM arrivals") == 600
    store.command("OPTIMIZE TABLE flows_log FINAL")
    assert wrong(store) == []


def test_no_window_is_analysed_again_without_its_flows(store: Store, landed: Path) -> None:
    assert analyse(store, SETTINGS).windows
    worked = store.rows("SELECT * FROM windows ORDER BY ALL")
    empty(store, "flows_log")
    with pytest.raises(StoreError, match=r"are gone in .* results would be poorer .* --allow-missing"):
        analyse(store, SETTINGS, force=True)
    assert store.rows("SELECT * FROM windows ORDER BY ALL") == worked
    assert analyse(store, SETTINGS, force=True, allow_missing=True).windows
    land_files(store, [str(landed / "a.parquet")], again=True)
    assert analyse(store, SETTINGS, force=True).windows


def test_rows_of_the_topology_are_compared(store: Store, landed: Path) -> None:
    assert not load_topology(store, landed / "topology.csv").changed
    empty(store, "topology_log")
    assert wrong(store) == ["rows of the topology: of 2 rows of the topology that were loaded 0 are there"]
    with pytest.raises(StoreError, match="load it again: `prism-ch topology FILE`"):
        analyse(store, SETTINGS)
    assert load_topology(store, landed / "topology.csv").changed
    assert wrong(store) == []


@pytest.mark.parametrize("table", ["arrivals_log", "switch_1h_log", *swept("flow_pair_1m_log", "switch_1s_log")])
def test_sums_that_are_gone_are_made_again(store: Store, landed: Path, table: str) -> None:
    before = sums(store)
    empty(store, table)
    assert [line for line in wrong(store) if "gone" in line]
    assert mend_database(store, SETTINGS)
    assert wrong(store) == []
    assert sums(store) == before


@pytest.mark.parametrize("table", ["revisions", "exporters_log", *swept("jobs_log")])
def test_results_that_are_gone_are_named(store: Store, landed: Path, table: str) -> None:
    analyse(store, SETTINGS)
    written = store.scalar("SELECT sum(l.written[{table:String}]) FROM windows_log AS l", {"table": table})
    empty(store, table)
    lines = [line for line in wrong(store) if f"{table} has 0 of {written} rows" in line]
    assert len(lines) == bool(written)
    analyse(store, SETTINGS, force=True)
    assert wrong(store) == []


def test_ledgers_are_compared_with_each_other(store: Store, landed: Path) -> None:
    analyse(store, SETTINGS)
    empty(store, "landings_log", "revision_claims", "exporter_marks_log", "retention_log")
    assert {line.split()[3] for line in wrong(store)} == {
        "landings_log",
        "revision_claims",
        "exporter_marks_log",
        "retention_log",
    }
    mend_database(store, SETTINGS)
    land_files(store, [str(landed / "a.parquet")], again=True)
    assert {line.split()[3] for line in wrong(store)} == {"retention_log"}
    assert len(land_files(store, [str(landed / "a.parquet")]).skipped) == 1
