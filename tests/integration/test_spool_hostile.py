"""Whatever lies in the spool, the good files behind it land, and what is wrong is named."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from prism_ch.daemon import spool as spools
from prism_ch.daemon.spool import Spool, fitting_name
from prism_ch.errors import StoreError
from prism_ch.health.checks import check_machine
from prism_ch.ingest import files, landing
from prism_ch.settings import ServeSettings, Settings
from prism_ch.store.client import Store
from tests.integration.test_spool import drop, landed, names, never, spool
from tests.mutations import MUTATIONS, originals

__all__ = ["spool"]


def settle(spool: Spool, store: Store) -> None:
    while spool.waiting():
        spool.land(store, never)


@pytest.mark.parametrize("mutate", MUTATIONS.values(), ids=list(MUTATIONS))
def test_good_files_land_behind_any_mutated_one(
    spool: Spool, store: Store, tmp_path: Path, mutate: Callable[[bytes, random.Random], bytes]
) -> None:
    chance = random.Random(7)  # noqa: S311 - a repeatable one
    whole = originals(tmp_path)
    for number in range(8):
        suffix, content = chance.choice(whole)
        (spool.folder / f"{number}bad{suffix}").write_bytes(mutate(content, chance))
        drop(spool, 1000 + number)
    settle(spool, store)
    moved = names(spool.folder / "done")
    assert [name for name in moved if name.startswith("01")] == [f"{1000 + number:05}.parquet" for number in range(8)]
    failed = [name for name in names(spool.folder / "failed") if not name.endswith(".error")]
    assert all((spool.folder / "failed" / f"{name}.error").read_text().strip() for name in failed)


@pytest.mark.parametrize(
    "name", [b"\xff\xfe.parquet", b"a" * 250 + b".csv", b"line\nbreak\x1b[31m.csv", "ä".encode() * 127]
)
def test_a_file_of_any_name_is_settled(spool: Spool, store: Store, name: bytes) -> None:
    drop(spool, 1).rename(spool.folder / os.fsdecode(name))
    (spool.folder / os.fsdecode(b"bad" + name[3:])).write_bytes(b"PAR1 and nothing more")
    drop(spool, 2)
    settle(spool, store)
    assert len(names(spool.folder / "done")) == 2
    assert len(names(spool.folder / "failed")) == 2
    assert store.scalar("SELECT count() FROM flows") == 40


@given(st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=255))
@example("\ud800")
def test_fitting_names_are_valid_and_short(name: str) -> None:
    fitted = fitting_name(name)
    assert len(fitted.encode()) <= 200
    assert fitted.isprintable()
    assert fitting_name(fitted) == fitted


HOSTILE_NAMES = ["../secret.csv", "/etc/hostname", ".lock", "", "a\0", "\udc00\ud800", 1, None, ["a"], "a" * 256]
HOSTILE_JOURNALS = [
    '["/etc/hostname"]',
    "[",
    "null",
    "",
    "[[" * 99_999,
    *(json.dumps({"files": [name], "attempts": 1}) for name in HOSTILE_NAMES),
    *(json.dumps({"files": found, "attempts": 1}) for found in ("", "a", None, 7)),
    *(json.dumps({"files": ["a"], "attempts": attempts}) for attempts in (-1, True, "1", 1e9, None)),
]


@pytest.mark.parametrize("text", HOSTILE_JOURNALS, ids=range(len(HOSTILE_JOURNALS)))
def test_a_journal_that_is_none_is_set_aside(spool: Spool, store: Store, tmp_path: Path, text: str) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("password")
    (spool.folder / ".together.json").write_text(text)
    drop(spool, 1)
    settle(spool, store)
    assert secret.read_text() == "password"
    assert names(spool.folder / "failed") == ["journal.json", "journal.json.error"]
    assert store.scalar("SELECT count() FROM flows") == 20
    [check] = [
        each for each in check_machine(Settings(serve=ServeSettings(spool=spool.folder))) if each.name == "spool"
    ]
    assert check.state == "warn"
    assert "journal.json" in check.what
    assert "is no journal" in check.what


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_a_journal_of_any_bytes_orders_nothing(spool: Spool, store: Store, content: bytes) -> None:
    (spool.folder / ".together.json").write_bytes(content)
    spool.land(store, never)
    assert not (spool.folder / ".together.json").exists()


def test_a_journal_names_links_in_vain(spool: Spool, store: Store, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("password")
    (spool.folder / "link.csv").symlink_to(secret)
    (spool.folder / ".together.json").write_text('{"files": ["link.csv", "gone.csv", "done"], "attempts": 1}')
    spool.land(store, never)
    assert names(spool.folder) == ["done", "failed"]
    assert "no regular file" in (spool.folder / "failed" / "link.csv.error").read_text()
    assert store.scalar("SELECT count() FROM flows_rejected") == 0


def test_folders_that_went_away_are_made_again(spool: Spool, store: Store, tmp_path: Path) -> None:
    (spool.folder / "done").rmdir()
    (spool.folder / "failed").rmdir()
    (spool.folder / "done").symlink_to(tmp_path)
    drop(spool, 1)
    (spool.folder / "2.csv").write_text("a,b\n1,2\n")
    settle(spool, store)
    assert names(spool.folder / "done") == ["00001.parquet"]
    assert names(spool.folder / "failed") == ["2.csv", "2.csv.error", "done", "done.error"]


def test_links_planted_where_reasons_are_written(spool: Spool, store: Store, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (spool.folder / "failed" / "2.csv.error").symlink_to(tmp_path / "precious")
    (spool.folder / "2.csv").write_text("a,b\n1,2\n")
    settle(spool, store)
    assert (tmp_path / "precious").read_text() == "kept"
    assert (spool.folder / "failed" / "2.csv.1.error").is_file()


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> dict[int, StoreError]:
    """Errors that the database raises for rows with that number of bytes."""
    errors: dict[int, StoreError] = {}
    insert = landing.insert_rows

    def refuse(store: Store, table: str, content: pa.Table, options: dict[str, object]) -> None:
        is_csv = "line" in content.column_names
        lines = content["line"].to_pylist() if is_csv else []
        for found in [int(line.split(b",")[7]) for line in lines] if is_csv else content["bytes"].unique().to_pylist():
            if found in errors:
                raise errors[found]
        insert(store, table, content, options)

    monkeypatch.setattr(landing, "insert_rows", refuse)
    monkeypatch.setattr(files, "insert_rows", refuse)
    return errors


def test_a_batch_that_is_refused_lands_one_by_one(spool: Spool, store: Store, refusing: dict[int, StoreError]) -> None:
    for number in range(5):
        drop(spool, number)
    refusing[1002] = StoreError("can't be parsed", code=117)
    assert spool.land(store, never) == 5
    assert len(names(spool.folder / "done")) == 4
    assert "can't be parsed" in (spool.folder / "failed" / "00002.parquet.error").read_text()
    assert landed(store)["stored"] == [[80]]
    refusing.clear()
    (spool.folder / "failed" / "00002.parquet").rename(spool.folder / "00002.parquet")
    spool.land(store, never)
    assert landed(store)["stored"] == [[100]]


#: Files of two kinds, which land by one statement each, and the bytes of their records.
_KINDS = {".parquet": 1001, ".csv": 1003}


def drop_both_kinds(spool: Spool) -> None:
    for number, suffix in enumerate((".parquet", ".parquet", ".csv", ".csv"), start=1):
        drop(spool, number, suffix)


@pytest.mark.parametrize("suffix", _KINDS)
def test_a_batch_of_two_kinds_loses_only_what_is_refused(
    spool: Spool, store: Store, refusing: dict[int, StoreError], suffix: str
) -> None:
    drop_both_kinds(spool)
    refusing[_KINDS[suffix]] = StoreError("corrupted", code=117)
    assert spool.land(store, never) == 4
    [failed] = [name for name in names(spool.folder / "failed") if name.endswith(".error")]
    assert failed.endswith(f"{suffix}.error")
    assert len(names(spool.folder / "done")) == 3
    assert landed(store)["stored"] == [[60]]
    refusing.clear()
    name = failed.removesuffix(".error")
    (spool.folder / "failed" / name).rename(spool.folder / name)
    spool.land(store, never)
    assert landed(store)["stored"] == [[80]]


@pytest.mark.parametrize("suffix", _KINDS)
def test_a_batch_that_lacked_memory_is_complete_later(
    spool: Spool,
    store: Store,
    refusing: dict[int, StoreError],
    suffix: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(spools, "_RETRY_S", 0.0)
    drop_both_kinds(spool)
    refusing[_KINDS[suffix]] = StoreError("memory limit exceeded", code=241)
    for _ in range(3):
        spool.land(store, never)
        # What came since lies between them.
        drop(spool, 90, ".csv")
    refusing.clear()
    settle(spool, store)
    assert not names(spool.folder / "failed")
    assert len(names(spool.folder / "done")) == 7
    assert landed(store)["stored"] == [[100]]


def test_an_outage_fails_no_file(spool: Spool, store: Store, refusing: dict[int, StoreError]) -> None:
    for number in range(3):
        drop(spool, number)
    for code in (210, 243, 252):
        refusing[1002] = StoreError("no space left", code=code)
        with pytest.raises(StoreError, match="no space left"):
            spool.land(store, never)
        assert len(spool.waiting()) == 3
    refusing.clear()
    settle(spool, store)
    assert len(names(spool.folder / "done")) == 3


def test_a_file_without_memory_is_tried_again_then_fails(
    spool: Spool, store: Store, refusing: dict[int, StoreError], monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing[1001] = StoreError("memory limit exceeded", code=241)
    drop(spool, 1)
    drop(spool, 2)
    spool.land(store, never)
    assert names(spool.folder / "done") == ["00002.parquet"]
    assert "memory limit exceeded" in spool.kept_back()["00001.parquet"]
    monkeypatch.setattr(spools, "_RETRY_S", 0.0)
    monkeypatch.setattr(spools, "_GIVE_UP_S", 0.0)
    spool._kept_back["00001.parquet"].rests_until_s = 0.0
    spool.land(store, never)
    assert "memory limit" in (spool.folder / "failed" / "00001.parquet.error").read_text()
    assert not spool.kept_back()


def test_a_file_at_which_processes_end_is_given_up(spool: Spool, store: Store) -> None:
    drop(spool, 1)
    drop(spool, 2)
    (spool.folder / ".together.json").write_text('{"files": ["00001.parquet"], "attempts": 5}')
    settle(spool, store)
    assert "ended 5 times" in (spool.folder / "failed" / "00001.parquet.error").read_text()
    assert names(spool.folder / "done") == ["00002.parquet"]


def test_a_journal_lands_no_file_that_is_still_written(spool: Spool, store: Store) -> None:
    drop(spool, 1).rename(spool.folder / "00001.parquet.part")
    (spool.folder / ".together.json").write_text('{"files": ["00001.parquet.part"], "attempts": 1}')
    spool.land(store, never)
    assert names(spool.folder) == ["00001.parquet.part", "done", "failed"]
    assert not (spool.folder / ".together.json").exists()
