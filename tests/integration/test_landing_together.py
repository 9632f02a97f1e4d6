"""Small files land together as they would alone, and exactly once, wherever their landing is cut short."""

import json
from pathlib import Path
from typing import Any

import pytest

from prism_ch.errors import StoreError
from prism_ch.ingest import files
from prism_ch.ingest.files import land_files
from prism_ch.ingest.landing import insert_rows
from prism_ch.store.client import Store
from tests.records import csv_text, json_text, record, records, write, write_parquet


def state(store: Store) -> list[list[tuple[Any, ...]]]:
    """Return what landing leaves behind, but for when."""
    return [
        store.rows("SELECT * EXCEPT received_at FROM flows ORDER BY ALL"),
        store.rows("SELECT * EXCEPT last_received_at FROM flow_pair_1m ORDER BY ALL"),
        store.rows("SELECT second, records, fingerprint FROM arrivals ORDER BY ALL"),
        store.rows("SELECT source, position, reason, record FROM flows_rejected ORDER BY ALL"),
        store.rows("SELECT landing, source, status, records, landed FROM landings ORDER BY ALL"),
    ]


def empty(store: Store) -> None:
    for name in ("flows", "flow_pair_1m", "switch_1m", "arrivals", "flows_rejected", "landing_counts", "landings"):
        store.command("TRUNCATE TABLE {name:Identifier}", {"name": f"{name}_log"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Small files of several kinds, a bad record in each of two."""
    write(tmp_path / "a.csv", csv_text([record(0), record(1, src_addr="?")]))
    write(tmp_path / "b.jsonl", json_text([record(2)]) + "rubbish\n")
    write_parquet(tmp_path / "c.parquet", [record(3), record(4)])
    write(tmp_path / "d.jsonl", json.dumps(record(5) | {"time_received_ns": record(5)["time_flow_end_ns"]}))
    write(tmp_path / "e.csv", csv_text([record(6)]))
    return tmp_path


def test_together_as_alone(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SMALL_BYTES", -1)
    alone = land_files(store, [str(folder)])
    expected = state(store)
    empty(store)
    monkeypatch.undo()
    reported: list[tuple[int, int]] = []
    report = land_files(store, [str(folder)], progress=lambda done, total: reported.append((done, total)))
    assert report == alone
    assert report.rejected == {"bad_src_addr": 1, "not_json": 1}
    assert state(store) == expected
    assert reported[-1] == (sum(path.stat().st_size for path in folder.iterdir()),) * 2
    again = land_files(store, [str(folder)])
    assert [(each.source, each.repeat_of, each.records) for each in again.skipped] == [
        (each.source, each.source, each.records) for each in report.landings
    ]
    assert state(store) == expected


def test_the_same_content_twice_lands_once(store: Store, folder: Path) -> None:
    write(folder / "z.csv", (folder / "e.csv").read_bytes())
    report = land_files(store, [str(folder), str(folder / "a.csv")])
    assert [(Path(each.source).name, Path(str(each.repeat_of)).name) for each in report.skipped] == [
        ("z.csv", "e.csv"),
        ("a.csv", "a.csv"),
    ]
    assert store.scalar("SELECT sum(flows) FROM flow_pair_1m") == 6


@pytest.mark.slow
@pytest.mark.parametrize("cut", [0, 1, 2, 3])
def test_cut_short_and_repeated_it_is_complete(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    land_files(store, [str(folder)])
    expected = state(store)
    empty(store)
    cut_short(store, folder, monkeypatch, cut)
    land_files(store, [str(path) for path in sorted(folder.iterdir(), reverse=True)])
    assert state(store) == expected


def test_a_part_of_what_was_cut_short_waits_for_the_rest(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    land_files(store, [str(folder)])
    expected = state(store)
    empty(store)
    cut_short(store, folder, monkeypatch, 1)
    others = write(folder.parent / "others.csv", csv_text(records(9)[7:]))
    report = land_files(store, [str(folder / "a.csv"), str(folder / "e.csv"), str(others)])
    assert [Path(each.source).name for each in report.landings] == ["others.csv"]
    assert len(report.failures) == 2
    assert "its landing together with 4 others was cut short; land them again together: " in report.failures[0].error
    alone = land_files(store, [str(others), str(folder / "a.csv")])
    assert len(alone.failures) == 1
    land_files(store, [str(folder)])
    store.command("DELETE FROM landings_log WHERE endsWith(source, 'others.csv')")
    assert state(store)[3:] == expected[3:]
    assert store.scalar("SELECT sum(flows) FROM flow_pair_1m") == 6 + 2


def test_a_damaged_file_spoils_only_itself(store: Store, folder: Path) -> None:
    write(folder / "x.parquet", b"PAR1 and no more")
    report = land_files(store, [str(folder)])
    assert (report.landed, len(report.failures), len(report.landings)) == (6, 1, 5)


def test_hundreds_of_files_are_each_known(store: Store, tmp_path: Path) -> None:
    for number in range(300):
        write(tmp_path / f"{number:03}.csv", csv_text([record(number), record(number, src_addr="?")]))
    report = land_files(store, [str(tmp_path)])
    assert [(each.landed, each.rejected) for each in report.landings] == [(1, {"bad_src_addr": 1})] * 300
    assert store.scalar("SELECT uniqExact(source) FROM flows_rejected") == 300
    assert store.scalar("SELECT count() FROM landings WHERE status = 'done'") == 300


def cut_short(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch, cut: int) -> None:
    """Land a folder until the database fails in the middle of a statement, whose records stay in some of the tables."""
    sent = iter(range(cut))

    def fail(*statement: Any) -> None:
        if next(sent, None) is None:
            raise StoreError("the power went out", code=210)
        insert_rows(*statement)

    with monkeypatch.context() as patch:
        patch.setattr(files, "insert_rows", fail)
        with pytest.raises(StoreError):
            land_files(store, [str(folder)])
