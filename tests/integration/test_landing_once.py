"""A content lands once: given again, under another name, in other company, or after the landing was killed."""

import gzip
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from prism_ch.errors import StoreError
from prism_ch.ingest import columnar, files, landing, lines
from prism_ch.ingest.files import land_files
from prism_ch.ingest.landing import land_content
from prism_ch.ingest.lines import Block, LineReader
from prism_ch.ingest.sources import Chunk, Content, Format
from prism_ch.store.client import Store, connect
from tests.integration import land_in_pieces
from tests.integration.land_in_pieces import sums
from tests.records import csv_text, json_text, record, records, write, write_parquet

BAD = {"bytes": 0, "dst_addr": "nowhere"}


def test_the_same_file_again_changes_nothing(store: Store, tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", [*records(5), record(6, bytes=0)])
    write(tmp_path / "b.csv", csv_text([record(7), record(8, **BAD)]))
    write(tmp_path / "c.jsonl.gz", gzip.compress(json_text([record(9), record(10, **BAD)]).encode()))
    first = land_files(store, [str(tmp_path)])
    assert (first.records, first.landed) == (10, 7)
    before = sums(store)
    again = land_files(store, [str(tmp_path / name) for name in ("c.jsonl.gz", "b.csv", "a.parquet")])
    assert (again.records, again.landed, again.rejected, again.sources) == (0, 0, {}, ())
    assert [(each.landed, each.rejected) for each in again.skipped] == [
        (1, {"bad_dst_addr": 1}),
        (1, {"bad_dst_addr": 1}),
        (5, {"zero_bytes": 1}),
    ]
    assert sums(store) == before


def test_the_same_content_under_another_name_is_known(store: Store, tmp_path: Path) -> None:
    first = write(tmp_path / "first.csv", csv_text(records(3)))
    second = write(tmp_path / "second.txt", csv_text(records(3)))
    land_files(store, [str(first)])
    before = sums(store)
    [repeat] = land_files(store, [str(second)]).skipped
    assert (repeat.source, repeat.repeat_of, repeat.landed) == (str(second), str(first), 3)
    assert sums(store) == before


def test_another_format_makes_it_another_content(store: Store, tmp_path: Path) -> None:
    file = write(tmp_path / "flows", json_text(records(3)))
    assert land_files(store, [str(file)]).landed == 3
    assert land_files(store, [str(file)], "jsonl").skipped
    other = write(tmp_path / "other.jsonl", csv_text(records(3)))
    assert land_files(store, [str(other)]).rejected == {"not_json": 4}
    assert land_files(store, [str(other)], "csv").landed == 3


def test_content_is_read_two_chunks_ahead_of_what_has_landed(store: Store) -> None:
    landed, ahead = 0, []

    def chunks() -> Iterator[Chunk]:
        reader = LineReader("flows.jsonl", is_csv=False)
        for number in range(1, 21):
            ahead.append(number - 1 - landed)
            yield Chunk(reader.table, reader.rows(Block(json_text([record(number)]).encode(), number)), number)

    def note(read: int) -> None:
        nonlocal landed
        landed = read

    outcome = land_content(store, Content("flows.jsonl", Format.JSONL, "digest", 20, chunks()), note)
    assert outcome.landed == landed == len(ahead) == 20
    assert max(ahead) == 2


def test_no_file_is_read_where_there_is_no_database_yet(
    engine_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "flows.jsonl", json_text(records(3)))
    read: list[object] = []
    monkeypatch.setattr(landing, "read_contents", read.append)
    with connect(f"chdb://{engine_folder}?database=never_made") as nowhere, pytest.raises(StoreError, match="migrate"):
        files.land_files(nowhere, [str(file)])
    assert not read


def test_a_landing_that_was_cut_short_is_completed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columnar, "CHUNK_ROWS", 3)
    monkeypatch.setattr(lines, "CHUNK_BYTES", 300)
    write_parquet(tmp_path / "a.parquet", [record(n, bytes=n % 4) for n in range(20)])
    insert = Store.insert
    sent = count(1)

    def cut_short(self: Store, *given: object, **named: object) -> None:
        number = next(sent)
        insert(self, *given, **named)  # type: ignore[arg-type]
        if number == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(Store, "insert", cut_short)
    with pytest.raises(KeyboardInterrupt):
        land_files(store, [str(tmp_path)])
    assert store.rows("SELECT status FROM landings") == [("started",)]
    monkeypatch.setattr(Store, "insert", insert)
    report = land_files(store, [str(tmp_path)])
    assert (report.records, report.landed) == (20, 15)
    assert store.rows("SELECT status, records, landed FROM landings") == [("done", 20, 15)]
    assert store.scalar("SELECT count() FROM flows_log") == store.scalar("SELECT sum(records) FROM arrivals") == 15
    assert store.scalar("SELECT count() FROM flows_rejected_log") == 5


TARGETS = ("flows_log", "flows_rejected_log", "flow_pair_1m_log", "switch_1m_log", "arrivals_log", "landing_counts_log")


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_statement_killed_between_two_tables_is_completed(store: Store, tmp_path: Path, form: str) -> None:
    rows = [record(n, **(BAD if n == 3 else {})) for n in range(6)]
    file = tmp_path / f"flows.{form}"
    if form == "parquet":
        write_parquet(file, rows)
    else:
        write(file, csv_text(rows))
    land_files(store, [str(file)])
    before = sums(store)
    for missing in TARGETS:
        # As if the process had been killed before it wrote this table, and after it wrote the others.
        store.command("TRUNCATE TABLE {name:Identifier}", {"name": missing})
        store.command("TRUNCATE TABLE landings_log")
        land_files(store, [str(file)])
        assert sums(store) == before, missing


def start(folder: Path, files: list[str]) -> subprocess.Popen[str]:
    """Start landing in another process, and return it when it has begun."""
    command = [sys.executable, "-m", land_in_pieces.__name__, f"chdb://{folder}", *files]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
def test_killed_at_any_moment_and_run_again_results_are_equal(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [record(n, **(BAD if n % 7 == 3 else {})) for n in range(1600)]
    write_parquet(tmp_path / "flows.parquet", rows[:800])
    write(tmp_path / "flows.jsonl", json_text(rows[800:1200]))
    write(tmp_path / "flows.csv", csv_text(rows[1200:]))
    files = [str(tmp_path / f"flows.{suffix}") for suffix in ("parquet", "jsonl", "csv")]
    moments = random.Random(7)  # noqa: S311 (moments to kill at, nothing secret)
    for chunks in (1, 9):
        process = start(tmp_path / "killed", files)
        for _ in range(chunks):
            assert process.stdout is not None
            process.stdout.readline()
        time.sleep(moments.uniform(0, 0.15))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL, "it was killed in the middle"
    output, _ = start(tmp_path / "killed", files).communicate(timeout=120)
    monkeypatch.setattr(columnar, "CHUNK_ROWS", land_in_pieces.CHUNK_ROWS)
    monkeypatch.setattr(lines, "CHUNK_BYTES", land_in_pieces.CHUNK_BYTES)
    land_files(store, files)
    assert json.loads(output.splitlines()[-1]) == sums(store)
