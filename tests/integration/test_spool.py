"""Files in the spool land once and are moved aside, wherever the process is killed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prism_ch.daemon.spool import Spool
from prism_ch.errors import PrismError, SettingsError
from prism_ch.ingest import files
from prism_ch.store.client import Store
from tests.integration.land_in_pieces import sums
from tests.records import csv_text, json_text

T0_NS = 1_790_000_000 * 10**9


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    made = Spool(tmp_path / "spool")
    yield made
    made.close()


def rows(number: int, count: int = 20) -> list[dict[str, Any]]:
    """Return records that differ from those of every other number."""
    start_ns = [T0_NS + (number * 1000 + each) * 10**6 for each in range(count)]
    return [
        {
            "time_flow_start_ns": start,
            "time_flow_end_ns": start + 500_000,
            "src_addr": "10.0.0.1",
            "dst_addr": "10.0.0.2",
            "src_port": 5000,
            "dst_port": 4791,
            "proto": 17,
            "bytes": 1000 + number,
            "packets": 1,
            "sampler_address": f"leaf-{number % 3}",
        }
        for start in start_ns
    ]


def drop(spool: Spool, number: int, suffix: str = ".parquet") -> Path:
    """Let a file appear in the spool."""
    path = spool.folder / f"{number:05}{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows(number)), path)
    elif suffix == ".csv":
        records = rows(number)
        path.write_text(csv_text(records, list(records[0])))
    else:
        path.write_text(json_text(rows(number)))
    return path


def never() -> bool:
    return False


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))


def landed(store: Store) -> dict[str, Any]:
    """What landing has written, without the names of files, in which folders stand."""
    return {name: found for name, found in sums(store).items() if name not in {"landings", "rejected"}}


def test_files_of_all_formats_land_and_are_moved_aside(spool: Spool, store: Store) -> None:
    for number, suffix in enumerate((".parquet", ".csv", ".jsonl", ".parquet")):
        drop(spool, number, suffix)
    assert spool.land(store, never) == 4
    assert names(spool.folder) == ["done", "failed"]
    assert names(spool.folder / "done") == ["00000.parquet", "00001.csv", "00002.jsonl", "00003.parquet"]
    assert store.scalar("SELECT count() FROM flows") == 80
    assert store.rows("SELECT status, count(), sum(landed) FROM landings GROUP BY status") == [("done", 4, 80)]
    assert spool.land(store, never) == 0


def test_unfinished_files_are_left_alone(spool: Spool, store: Store) -> None:
    path = drop(spool, 0)
    for name in (".hidden.parquet", "x.parquet.tmp", "x.parquet.part"):
        path.with_name(name).write_bytes(path.read_bytes())
    path.unlink()
    assert spool.land(store, never) == 0
    assert len(list(spool.folder.glob("x.parquet.*"))) == 2


def test_damaged_files_go_to_failed_and_the_others_land(spool: Spool, store: Store) -> None:
    drop(spool, 0)
    drop(spool, 1).write_bytes(b"PAR1 and nothing more")
    (spool.folder / "00002.csv").write_text("a,b\n1,2\n")
    drop(spool, 3)
    assert spool.land(store, never) == 4
    assert names(spool.folder / "done") == ["00000.parquet", "00003.parquet"]
    failed = spool.folder / "failed"
    assert names(failed) == ["00001.parquet", "00001.parquet.error", "00002.csv", "00002.csv.error"]
    assert "00001.parquet" in (failed / "00001.parquet.error").read_text()
    assert len([name for name in names(spool.folder / "failed") if not name.endswith(".error")]) == 2
    assert store.scalar("SELECT count() FROM flows") == 40


def test_what_is_no_regular_file_is_not_followed(spool: Spool, store: Store, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("password")
    (spool.folder / "link.csv").symlink_to(secret)
    os.mkfifo(spool.folder / "pipe.csv")
    (spool.folder / "folder").mkdir()
    assert spool.land(store, never) == 0
    assert names(spool.folder) == ["done", "failed", "folder"]
    assert "is no regular file" in (spool.folder / "failed" / "link.csv.error").read_text()
    assert store.scalar("SELECT count() FROM flows_rejected") == 0


def test_the_same_content_lands_once_also_within_one_statement(spool: Spool, store: Store) -> None:
    first = drop(spool, 0)
    for name in ("a.parquet", "b.parquet"):
        (spool.folder / name).write_bytes(first.read_bytes())
    assert spool.land(store, never) == 3
    once = landed(store)
    assert once["stored"] == [[20]]
    (spool.folder / "again.parquet").write_bytes((spool.folder / "done" / "00000.parquet").read_bytes())
    spool.land(store, never)
    assert landed(store) == once
    assert len(names(spool.folder / "done")) == 4


def test_names_that_are_taken_get_a_number(spool: Spool, store: Store) -> None:
    for number in (1, 2):
        drop(spool, number).rename(spool.folder / "flows.parquet")
        spool.land(store, never)
    assert names(spool.folder / "done") == ["flows.parquet", "flows.parquet.1"]


def test_it_stops_between_files_when_asked(spool: Spool, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "TOGETHER_FILES", 2)
    for number in range(6):
        drop(spool, number)
    answers = iter((False, False, True))
    assert spool.land(store, lambda: next(answers)) == 4
    assert len(spool.waiting()) == 2


def test_large_files_land_alone_and_those_that_unpack_to_much(
    spool: Spool, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop(spool, 0, ".csv")
    monkeypatch.setattr(files, "SMALL_BYTES", 10)
    spool.land(store, never)
    monkeypatch.setattr(files, "SMALL_BYTES", 1 << 20)
    monkeypatch.setattr(files, "_SMALL_BYTES_READ", 10)
    drop(spool, 1, ".csv")
    drop(spool, 2, ".csv")
    assert spool.land(store, never) == 2
    assert store.rows("SELECT status, sum(landed) FROM landings GROUP BY status") == [("done", 60)]


def test_two_processes_do_not_share_a_spool(spool: Spool) -> None:
    with pytest.raises(SettingsError, match="another process watches this spool"):
        Spool(spool.folder)


def test_a_folder_without_rights_is_named(spool: Spool, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(13, "Permission denied")

    drop(spool, 0)
    drop(spool, 1)
    spool.land(store, never)
    kept = landed(store)
    drop(spool, 0)
    rename = Path.rename
    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(PrismError, match=r"can't be .*: Permission denied; mend its rights"):
        spool.land(store, never)
    monkeypatch.setattr(Path, "rename", rename)
    spool.land(store, never)
    assert landed(store) == kept


def test_old_files_are_removed_from_done_only(spool: Spool, store: Store) -> None:
    drop(spool, 0)
    spool.land(store, never)
    assert spool.clean(keep_days=1.0) == 0
    drop(spool, 1)
    assert spool.clean(keep_days=-1.0) == 1
    assert names(spool.folder) == ["00001.parquet", "done", "failed"]


class Killed(BaseException):
    """Ends a landing as a kill does: nobody catches it."""


@pytest.mark.slow
def test_killed_before_any_statement_or_move_it_ends_the_same(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last statement that got through, or the last file that was moved, is each of them in turn."""
    left = [-1]

    def fused(act: Callable[..., Any]) -> Callable[..., Any]:
        def fuse(*arguments: Any, **options: Any) -> Any:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return act(*arguments, **options)

        return fuse

    for owner, name in ((Store, "insert"), (Store, "command"), (Path, "rename"), (Path, "unlink")):
        monkeypatch.setattr(owner, name, fused(getattr(owner, name)))
    found: list[tuple[bool, dict[str, Any]]] = []
    point = 0
    while not found or found[-1][0]:
        spool = Spool(tmp_path / f"spool{point}")
        for number in range(4):
            drop(spool, number, ".csv" if number % 2 else ".parquet")
        left[0] = point
        try:
            spool.land(store, never)
            killed = False
        except Killed:
            killed = True
        left[0] = -1
        spool.close()
        again = Spool(tmp_path / f"spool{point}")
        drop(again, 9)  # another file has come meanwhile
        again.land(store, never)
        again.close()
        assert names(again.folder) == ["done", "failed"]
        assert len(names(again.folder / "done")) == 5
        assert not (again.folder / ".together.json").exists()
        found.append((killed, landed(store)))
        for table in store.rows(
            "SELECT name FROM system.tables WHERE database = currentDatabase() AND name LIKE '%_log'"
        ):
            store.command("TRUNCATE TABLE {name:Identifier}", {"name": table[0]})
        point += 1
    assert point > 8
    assert all(each == found[-1][1] for _, each in found)
