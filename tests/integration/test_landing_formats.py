"""Every format, compression and way to name files lands the same records."""

import gzip
import io
import sys
from collections.abc import Callable
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

#: Writes records to a path.
Writer = Callable[[Path, list[dict[str, Any]]], object]


def write_arrow_file(path: Path, rows: list[dict[str, Any]]) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table(rows).schema) as writer:
        for batch in table(rows).to_batches(max_chunksize=3):
            writer.write_batch(batch)


def write_arrow_stream(path: Path, rows: list[dict[str, Any]]) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table(rows).schema) as writer:
        writer.write_table(table(rows), max_chunksize=3)


def write_quoted_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    columns = ["nothing", *reversed(COLUMNS)]
    text = [",".join(f'"{name}"' for name in columns)]
    values = [[str(row.get(name, 'a, ""quoted"" word')) for name in columns] for row in rows]
    text += [",".join(f' "{value}"' for value in line) for line in values]
    write(path, b"\xef\xbb\xbf" + "\r\n".join(text).encode())


def write_zstd_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    write(path, pa.compress(csv_text(rows).encode(), codec="zstd", asbytes=True))


def write_zstd_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(table(rows), sink)
    write(path, pa.compress(sink.getvalue(), codec="zstd", asbytes=True))


def write_gzip_members(path: Path, rows: list[dict[str, Any]]) -> None:
    text = json_text(rows).encode()
    write(path, gzip.compress(text[:100]) + gzip.compress(text[100:]))


def write_dictionaries(path: Path, rows: list[dict[str, Any]]) -> None:
    names = pa.dictionary(pa.int8(), pa.large_string())
    pq.write_table(table(rows, src_addr=names, dst_addr=names, proto=pa.int64(), bytes=pa.int32()), path)


WRITERS: list[tuple[str, Writer]] = [
    ("flows.parquet", write_parquet),
    ("flows.PARQUET", write_dictionaries),
    ("flows.parquet.zst", write_zstd_parquet),
    ("flows.arrow", write_arrow_file),
    ("flows.arrows", write_arrow_stream),
    ("flows.csv", lambda path, rows: write(path, csv_text(rows))),
    ("quoted.csv", write_quoted_csv),
    ("flows.csv.zst", write_zstd_csv),
    ("flows.jsonl", lambda path, rows: write(path, json_text(rows))),
    ("flows.json.gz", write_gzip_members),
    ("arrow without suffix", write_arrow_file),
    ("parquet without suffix", write_parquet),
    ("json without suffix", lambda path, rows: write(path, json_text(rows))),
    ("gzip without suffix", write_gzip_members),
    ("csv without suffix", lambda path, rows: write(path, csv_text(rows))),
]


def landed(store: Store) -> list[tuple[Any, ...]]:
    return store.rows(f"SELECT {', '.join(COLUMNS)} FROM flows ORDER BY time_flow_start_ns")  # noqa: S608


def expected(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in COLUMNS) for row in rows]


@pytest.mark.parametrize("name,writer", WRITERS, ids=[name for name, _ in WRITERS])
def test_every_format_lands_the_same_records(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, writer: Writer
) -> None:
    monkeypatch.setattr(columnar, "CHUNK_ROWS", 4)
    monkeypatch.setattr(lines, "CHUNK_BYTES", 500)
    monkeypatch.setattr(sources, "_HEAD_BYTES", 100)
    rows = records(10)
    writer(tmp_path / name, rows)
    reported: list[tuple[int, int]] = []
    report = land_files(store, [str(tmp_path / name)], progress=lambda done, total: reported.append((done, total)))
    assert (report.records, report.landed, report.rejected) == (10, 10, {})
    assert report.sources == (str(tmp_path / name),)
    assert landed(store) == expected(rows)
    size = (tmp_path / name).stat().st_size
    assert reported == sorted(reported)
    assert reported[-1] == (size, size)


def test_paths_folders_and_globs_name_files(store: Store, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    names = ["a/2.csv", "a/1.jsonl.gz", "a/b/3.parquet", "odd [name].csv"]
    write(tmp_path / names[0], csv_text([record(0)]))
    write_gzip_members(tmp_path / names[1], [record(1)])
    write_parquet(tmp_path / names[2], [record(2)])
    write(tmp_path / names[3], csv_text([record(3)]))
    write(tmp_path / "a" / "README.md", "no flows")
    write(tmp_path / "a" / "topology.txt", "none either")
    patterns = [str(tmp_path / "a"), str(tmp_path / "odd [name].csv"), str(tmp_path / "*" / "2.c?v")]
    report = land_files(store, patterns)
    assert report.sources == tuple(
        str(tmp_path / name) for name in ("a/1.jsonl.gz", "a/2.csv", "a/b/3.parquet", names[3])
    )
    assert [(each.source, each.repeat_of) for each in report.skipped] == [(str(tmp_path / "a/2.csv"),) * 2]
    assert landed(store) == expected(records(4))


@pytest.mark.parametrize(
    "pattern,message", [("none.csv", "no such file"), ("*.nope", "no file matches"), ("", "folder")]
)
def test_a_pattern_that_means_nothing_lands_nothing(store: Store, tmp_path: Path, pattern: str, message: str) -> None:
    good = write(tmp_path / "good.txt", csv_text(records(1)))
    with pytest.raises(InputError, match=message):
        land_files(store, [str(good), str(tmp_path / pattern)])
    assert landed(store) == []


@pytest.mark.parametrize("name,writer", [WRITERS[place] for place in (0, 2, 3, 4, 6, 9, 14)])
def test_standard_input(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, writer: Writer
) -> None:
    monkeypatch.setattr(lines, "CHUNK_BYTES", 500)
    monkeypatch.setattr(sources, "_HEAD_BYTES", 100)
    rows = records(10)
    writer(tmp_path / "content", rows)
    content = (tmp_path / "content").read_bytes()
    for attempt in range(2):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        report = land_files(store, ["-"])
        assert report.records == (10, 0)[attempt]
        assert sum(each.records for each in report.skipped) == (0, 10)[attempt]
        assert landed(store) == expected(rows)
        assert not sys.stdin.buffer.closed


def test_the_format_can_be_given(store: Store, tmp_path: Path) -> None:
    file = write(tmp_path / "flows.csv", json_text(records(2)))
    with pytest.raises(InputError, match=r"flows\.csv: has none of the columns of a flow record"):
        land_files(store, [str(file)])
    assert land_files(store, [str(file)], "jsonl").landed == 2


def test_unknown_values_may_be_left_out(store: Store, tmp_path: Path) -> None:
    unknown = ("src_port", "dst_port", "sampler_address", "sampling_rate")
    needed = [name for name in COLUMNS if name not in unknown]
    write(tmp_path / "a.csv", csv_text([record(0)], needed))
    write(tmp_path / "b.jsonl", json_text([{name: record(1)[name] for name in needed} | dict.fromkeys(unknown)]))
    pq.write_table(table([record(2)]).select(needed), tmp_path / "c.parquet")
    write_parquet(tmp_path / "d.parquet", [record(3) | dict.fromkeys(unknown)])
    write(tmp_path / "e.csv", csv_text([record(4, sampling_rate=0) | dict.fromkeys(unknown[:3], "")]))
    assert land_files(store, [str(tmp_path)]).landed == 5
    rows = [record(n, src_port=0, dst_port=0, sampler_address="", sampling_rate=1) for n in range(5)]
    assert landed(store) == expected(rows)


ADDRESSES = {
    "10.0.0.9": "10.0.0.9",
    " 10.0.1.9 ": "10.0.1.9",
    "::ffff:10.0.2.9": "10.0.2.9",
    "::FFFF:0a00:0309": "10.0.3.9",
    "2001:DB8:0:0:0:0:0:9": "2001:db8::9",
    "::1": "::1",
}


def test_addresses_land_in_canonical_text(store: Store, tmp_path: Path) -> None:
    rows = [record(number, src_addr=given, dst_addr="::2") for number, given in enumerate(ADDRESSES)]
    write(tmp_path / "a.csv", csv_text(rows))
    write_parquet(tmp_path / "b.parquet", rows)
    write(tmp_path / "c.jsonl", json_text(rows))
    assert land_files(store, [str(tmp_path)]).landed == 3 * len(rows)
    seen = store.rows("SELECT src_addr, dst_addr FROM flows ORDER BY time_flow_start_ns")
    assert seen == [(address, "::2") for address in ADDRESSES.values()]


PROTOCOLS = {"UDP": 17, "udp": 17, " Tcp ": 6, "ICMP": 1, "IPv6-ICMP": 58, "132": 132}


def test_protocols_may_be_names(store: Store, tmp_path: Path) -> None:
    rows = [record(number, proto=given) for number, given in enumerate(PROTOCOLS)]
    write(tmp_path / "a.csv", csv_text(rows))
    write_parquet(tmp_path / "b.parquet", rows, proto=pa.string())
    write_parquet(tmp_path / "c.parquet", rows, proto=pa.dictionary(pa.int8(), pa.string()))
    write(tmp_path / "d.jsonl", json_text(rows))
    assert land_files(store, [str(tmp_path)]).landed == 4 * len(rows)
    seen = store.rows("SELECT proto FROM flows ORDER BY time_flow_start_ns")
    assert seen == [(number,) for number in PROTOCOLS.values()]


def test_paths_land_from_every_format(store: Store, tmp_path: Path) -> None:
    paths = [["a", "b"], [], ["only"], ["", "x"]]
    rows = [record(number, path=path) for number, path in enumerate(paths)]
    given = [row["path"] or None for row in rows]
    for name, kind in {"a": pa.list_(pa.string()), "b": pa.large_list(pa.large_string())}.items():
        pq.write_table(table(rows).append_column("path", pa.array(given, kind)), tmp_path / f"{name}.parquet")
    write(tmp_path / "c.jsonl", json_text(rows))
    write(tmp_path / "d.csv", csv_text([row | {"path": f'"{row["path"]}"'} for row in rows], [*COLUMNS, "path"]))
    for file in sorted(tmp_path.iterdir()):
        assert land_files(store, [str(file)]).landed == len(paths), file.name
        seen = store.rows("SELECT path FROM flows ORDER BY time_flow_start_ns")
        assert seen == [(path,) for path in paths], file.name


def test_a_path_may_be_names_parted_by_bars(store: Store, tmp_path: Path) -> None:
    write(tmp_path / "a.csv", csv_text([record(0, path="a|b"), record(1, path="")], [*COLUMNS, "path"]))
    assert land_files(store, [str(tmp_path)]).landed == 2
    assert store.rows("SELECT path FROM flows ORDER BY time_flow_start_ns") == [(["a", "b"],), ([],)]


def test_exact_repeats_count_once_and_other_exporters_count_too(store: Store, tmp_path: Path) -> None:
    write(tmp_path / "a.csv", csv_text([record(0), record(0), record(0, sampler_address="192.0.2.2")]))
    write_parquet(tmp_path / "b.parquet", [record(0), record(1)])
    assert land_files(store, [str(tmp_path)]).landed == 5
    assert store.rows("SELECT count(), uniqExact(sampler_address) FROM flows") == [(3, 2)]
    assert store.rows("SELECT sum(flows), sum(bytes) FROM flow_pair_1m") == [(5, 4 * 4096 + 2 * 4096)]
    assert store.rows("SELECT sampler_address, sum(flows) FROM switch_1m GROUP BY ALL ORDER BY ALL") == [
        ("192.0.2.1", 4),
        ("192.0.2.2", 1),
    ]
    assert store.rows("SELECT count(), sum(records) FROM arrivals") == [(1, 5)]
