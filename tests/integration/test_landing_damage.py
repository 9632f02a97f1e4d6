"""Files that can't be used, or not to their end: one clear error each, and the other files land."""

import gzip
import os
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prism_ch.errors import InputError
from prism_ch.ingest import columnar, lines, sources
from prism_ch.ingest.files import land_files
from prism_ch.store.client import Store
from tests.records import COLUMNS, csv_text, json_text, record, records, table, write, write_parquet

PARQUET_END = b"PAR1"


def parquet_bytes() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table(records(5)), sink)
    return bytes(sink.getvalue())


def arrow_bytes() -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table(records(5)).schema) as writer:
        writer.write_table(table(records(5)))
    return bytes(sink.getvalue())


def csv_without(*names: str) -> str:
    return csv_text(records(2), [name for name in COLUMNS if name not in names])


#: Name and content of a file of which nothing can be used, and words of the error.
UNUSABLE: list[tuple[str, str | bytes, str]] = [
    ("text.parquet", "no Parquet", "can't be read as Parquet: .*not a parquet file"),
    ("cut.parquet", parquet_bytes()[:-50], "can't be read as Parquet: "),
    ("magic.parquet", PARQUET_END, "can't be read as Parquet: "),
    ("empty.parquet", "", "can't be read as Parquet: .*0 bytes"),
    ("magic.arrow", "ARROW1\0\0", "can't be read as Arrow IPC: "),
    ("cut.arrow", arrow_bytes()[:-50], "can't be read as Arrow IPC: "),
    ("stream.arrows", b"\xff\xff\xff\xff\x10\0\0\0", "can't be read as Arrow IPC: "),
    (
        "one.csv",
        csv_without("dst_addr"),
        "has no column dst_addr; expected are time_flow_start_ns, .*; found are 'time_",
    ),
    ("two.csv", csv_without("proto", "bytes"), "has no column proto, bytes; "),
    (
        "headless.csv",
        csv_text(records(2)).partition("\n")[2],
        "has none of the columns of .*; is the line with the names of the columns missing",
    ),
    ("twice.csv", csv_text(records(1), [*COLUMNS, "bytes"]), "has more than one column bytes"),
    ("utf16.csv", csv_text(records(1)).encode("utf-16"), "is UTF-16; convert it"),
    ("cut.csv.gz", gzip.compress(csv_text(records(9)).encode())[:25], "can't be read: damaged or cut off"),
    ("wrong.csv.gz", b"\x1f\x8b no gzip", "can't be read: damaged or cut off"),
    ("wrong.csv.zst", b"\x28\xb5\x2f\xfd no zstd", "can't be read: damaged or cut off"),
]


def test_files_of_which_nothing_can_be_used(store: Store, tmp_path: Path) -> None:
    errors = []
    for name, content, words in UNUSABLE:
        bad = write(tmp_path / name, content)
        with pytest.raises(InputError, match=f"^{bad}: {words}") as raised:
            land_files(store, [str(bad)])
        errors.append(str(raised.value))
        assert "\n" not in errors[-1]
    good = write(tmp_path / "good.jsonl", json_text(records(2)))
    report = land_files(store, [*(str(tmp_path / name) for name, _, _ in UNUSABLE), str(good)])
    assert (report.landed, report.sources) == (2, (str(good),))
    assert [each.error for each in report.failures] == errors
    with pytest.raises(InputError, match=r"one\.csv: .* \(and 1 more could not be read\)"):
        land_files(store, [str(tmp_path / "one.csv"), str(tmp_path / "two.csv")])


def test_a_column_that_is_neither_numbers_nor_text(store: Store, tmp_path: Path) -> None:
    rows = table(records(2)).drop(["bytes"]).append_column("bytes", pa.array([{"a": 1}, {"a": 2}]))
    pq.write_table(rows, tmp_path / "flows.parquet")
    with pytest.raises(InputError, match="column bytes is struct<a: int64>, which is neither numbers nor text"):
        land_files(store, [str(tmp_path)])


EMPTY = ["", "\n", csv_text([]), "\ufeff" + csv_text([]).strip(), "\r\n \n"]


def test_files_without_records_are_no_failures(store: Store, tmp_path: Path) -> None:
    for number, content in enumerate(EMPTY):
        write(tmp_path / f"{number}.csv", content)
    write_parquet(tmp_path / "flows.parquet", [])
    write(tmp_path / "flows.jsonl", "")
    for _ in range(2):
        report = land_files(store, [str(tmp_path)])
        assert (report.records, report.landed, report.failures) == (0, 0, ())


def test_a_folder_without_flow_files(store: Store, tmp_path: Path) -> None:
    write(tmp_path / "notes.txt", "nothing")
    with pytest.raises(InputError, match="is a folder without flow files"):
        land_files(store, [str(tmp_path)])


def test_compressed_file_lands_up_to_where_it_is_cut_off(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "CHUNK_BYTES", 500)
    monkeypatch.setattr(sources, "_HEAD_BYTES", 100)
    # Members of 20 records each, the last of which is not whole.
    text = [
        csv_text(records(20)),
        *(csv_text([record(20 * n + i) for i in range(20)]).partition("\n")[2] for n in (1, 2)),
    ]
    whole = b"".join(gzip.compress(part.encode()) for part in text)
    file = write(tmp_path / "flows.csv.gz", whole[:-30])
    report = land_files(store, [str(file)])
    [failure] = report.failures
    assert "can't be read: damaged or cut off: Truncated compressed stream" in failure.error
    assert 20 <= report.landed < 60
    assert report.landed == store.scalar("SELECT count() FROM flows")
    assert store.rows("SELECT status, landed FROM landings") == [("failed", report.landed)]

    again = land_files(store, [str(file)])
    assert again.landed == report.landed, "trying again changes nothing"
    assert store.scalar("SELECT sum(records) FROM arrivals") == report.landed


def test_damaged_parquet_lands_row_groups_before_the_damage(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columnar, "CHUNK_ROWS", 10)
    file = tmp_path / "flows.parquet"
    pq.write_table(table(records(100)), file, row_group_size=10, compression="zstd")
    start = pq.ParquetFile(file).metadata.row_group(5).column(0).data_page_offset
    damaged = bytearray(file.read_bytes())
    damaged[start : start + 60] = bytes(60)
    write(file, bytes(damaged))
    report = land_files(store, [str(file)])
    assert report.landed == 50
    assert "can't be read as Parquet" in report.failures[0].error


def test_a_line_without_end_is_no_text(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", 1 << 20)
    file = write(tmp_path / "flows.csv", csv_text(records(2)).encode() + b"\0" * (3 << 20))
    report = land_files(store, [str(file)])
    assert "line 4 does not end within 1 MiB; is the file no text?" in report.failures[0].error


def test_a_file_that_is_written_to_meanwhile(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "flows.csv", csv_text(records(3)))
    rows = lines.LineReader.rows

    def write_more(reader: lines.LineReader, block: lines.Block) -> Any:
        with file.open("a") as more:
            more.write(csv_text([record(3)]).partition("\n")[2])
        return rows(reader, block)

    monkeypatch.setattr(lines.LineReader, "rows", write_more)
    [failure] = land_files(store, [str(file)]).failures
    assert "was written to while it was read; land it again when it is complete" in failure.error
    monkeypatch.undo()
    assert land_files(store, [str(file)]).landed == 4
    assert store.scalar("SELECT count() FROM flows") == 4


def test_a_named_pipe_is_a_stream(store: Store, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    feeder = threading.Thread(target=write, args=(pipe, csv_text(records(5))))
    feeder.start()
    report = land_files(store, [str(pipe)])
    feeder.join()
    assert (report.landed, report.sources) == (5, (str(pipe),))


def test_a_name_that_is_too_long_is_one_clear_error(store: Store, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read: File name too long"):
        land_files(store, [str(tmp_path / ("n" * 300))])


def test_good_files_land_beside_one_of_many_columns(store: Store, tmp_path: Path) -> None:
    good = write(tmp_path / "good.csv", csv_text(records(3)))
    wide = write(tmp_path / "wide.csv", csv_text(records(1), [*COLUMNS, *(f"c{n}" for n in range(70_000))]))
    report = land_files(store, [str(wide), str(good)])
    assert report.landed == 3
    assert [each.source for each in report.failures] == [str(wide)]


def test_a_parquet_name_that_is_no_text_fails_alone(store: Store, tmp_path: Path) -> None:
    content = parquet_bytes()
    bad = write(tmp_path / "bad.parquet", content.replace(b"sampler_address", b"sampler_addres\xf3"))
    good = write_parquet(tmp_path / "good.parquet", records(7))
    report = land_files(store, [str(bad), str(good)])
    assert report.landed == 7
    assert [each.source for each in report.failures] == [str(bad)]
