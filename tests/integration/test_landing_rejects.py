"""What can't be used is kept with its reason and its original text; the rest of its file lands."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from prism_ch.ingest.files import land_files
from prism_ch.store.client import Store
from tests.records import COLUMNS, T0_NS, csv_text, json_text, record, write, write_parquet

DAY_NS = 86_400 * 10**9

#: What is wrong with a record, and the reason it is rejected with; None where it is not.
CHANGES: list[tuple[dict[str, Any], str | None]] = [
    ({}, None),
    ({"src_addr": "10.0.0.256"}, "bad_src_addr"),
    ({"src_addr": "host-1"}, "bad_src_addr"),
    ({"src_addr": ""}, "bad_src_addr"),
    ({"dst_addr": "10.0.0.1/32"}, "bad_dst_addr"),
    ({"dst_addr": "fe80::1%eth0"}, "bad_dst_addr"),
    ({"dst_addr": "010.0.0.1"}, "bad_dst_addr"),
    ({"dst_addr": "10.0.0.1"}, "same_endpoint"),
    ({"dst_addr": "::ffff:10.0.0.1"}, "same_endpoint"),
    ({"time_flow_start_ns": T0_NS + 10**9}, "negative_duration"),
    ({"time_flow_start_ns": T0_NS - 8 * DAY_NS}, "implausible_duration"),
    ({"time_flow_start_ns": T0_NS - 6 * DAY_NS}, None),
    ({"time_flow_start_ns": 0, "time_flow_end_ns": 1}, "implausible_time"),
    ({"time_flow_start_ns": -5}, "implausible_time"),
    ({"time_flow_end_ns": 0}, "implausible_time"),
    ({"time_flow_start_ns": 2**63 - 2, "time_flow_end_ns": 2**63 - 1}, "implausible_time"),
    ({"time_flow_start_ns": -(2**63), "time_flow_end_ns": 2**63 - 1}, "implausible_time"),
    ({"bytes": 0}, "zero_bytes"),
    ({"bytes": 0, "packets": 0}, "zero_bytes"),
    ({"packets": 0}, None),
    ({"bytes": 2**63 - 1}, None),
    ({"bytes": 2**63}, "bad_bytes"),
    ({"packets": 2**63}, "bad_packets"),
    ({"src_port": 65535}, None),
    ({"proto": 255}, None),
    ({"sampler_address": "leaf-1"}, None),
    ({"sampler_address": "x" * 256}, "bad_sampler_address"),
]

#: The same of text, where numbers may be anything.
TEXT_CHANGES: list[tuple[dict[str, Any], str | None]] = [
    ({"time_flow_start_ns": ""}, "bad_time"),
    ({"time_flow_start_ns": "2025-10-09T08:53:20Z"}, "bad_time"),
    ({"time_flow_end_ns": "1.76e18"}, "bad_time"),
    ({"time_flow_end_ns": str(2**63)}, "bad_time"),
    ({"bytes": "many"}, "bad_bytes"),
    ({"bytes": "12 345"}, "bad_bytes"),
    ({"bytes": " 12345 "}, None),
    ({"bytes": "+5"}, None),
    ({"bytes": "-5"}, "bad_bytes"),
    ({"bytes": "1.5"}, "bad_bytes"),
    ({"bytes": "0x10"}, "bad_bytes"),
    ({"bytes": str(2**64)}, "bad_bytes"),
    ({"packets": "NaN"}, "bad_packets"),
    ({"packets": ""}, "bad_packets"),
    ({"src_port": "65536"}, "bad_port"),
    ({"dst_port": "-1"}, "bad_port"),
    ({"dst_port": "http"}, "bad_port"),
    ({"proto": "CARRIER-PIGEON"}, "bad_proto"),
    ({"proto": "256"}, "bad_proto"),
    ({"proto": "-1"}, "bad_proto"),
    ({"proto": ""}, "bad_proto"),
    ({"sampling_rate": "often"}, "bad_sampling_rate"),
    ({"sampling_rate": str(2**32)}, "bad_sampling_rate"),
    ({"sampling_rate": " "}, None),
    ({"bytes": "5\x00"}, "bad_bytes"),
    ({"src_addr": "10.0.0.1\x00"}, "bad_src_addr"),
]


def rows_of(changes: list[tuple[dict[str, Any], str | None]]) -> list[dict[str, Any]]:
    return [record(0, src_port=number) | change for number, (change, _) in enumerate(changes)]


def rejected(store: Store) -> list[tuple[int, str]]:
    return [(number, reason) for number, reason, _ in rejects(store)]


def rejects(store: Store) -> list[tuple[int, str, str]]:
    found = store.rows("SELECT position, reason, record FROM flows_rejected ORDER BY position")
    return [(int(number), reason, text) for number, reason, text in found]


def expected(changes: list[tuple[dict[str, Any], str | None]], first: int) -> list[tuple[int, str]]:
    return [(number, reason) for number, (_, reason) in enumerate(changes, start=first) if reason]


def check(store: Store, file: Path, changes: list[tuple[dict[str, Any], str | None]], first: int) -> None:
    """Land a file and compare what became of each of its records; `first` is the number of its first one."""
    report = land_files(store, [str(file)])
    wanted = expected(changes, first)
    assert rejected(store) == wanted
    reasons = [reason for _, reason in wanted]
    assert report.rejected == {reason: reasons.count(reason) for reason in reasons}
    assert (report.records, report.landed) == (len(changes), len(changes) - len(wanted))
    assert store.scalar("SELECT count() FROM flows") == report.landed


def test_lines_of_csv(store: Store, tmp_path: Path) -> None:
    changes = CHANGES + TEXT_CHANGES
    file = write(tmp_path / "flows.csv", csv_text(rows_of(changes)))
    check(store, file, changes, first=2)
    lines = file.read_text().split("\n")
    assert all(text == lines[number - 1] for number, _, text in rejects(store))
    assert store.rows("SELECT DISTINCT source FROM flows_rejected") == [(str(file),)]


def test_lines_of_json(store: Store, tmp_path: Path) -> None:
    # As JSON, a number with a zero fraction or an exponent is the whole number that it is.
    more: list[tuple[dict[str, Any], str | None]] = [
        ({"bytes": 15.0}, None),
        ({"bytes": 1e3}, None),
        ({"bytes": 1.5}, "bad_bytes"),
        ({"bytes": None}, "bad_bytes"),
        ({"bytes": True}, "bad_bytes"),
        ({"bytes": [1, {"x": 2}]}, "bad_bytes"),
        ({"src_addr": {"a": [[[]]]}}, "bad_src_addr"),
        ({"path": "[1"}, "bad_path"),
        ({"extra": {"deep": [{"er": None}]}}, None),
    ]
    changes = CHANGES + TEXT_CHANGES + more
    file = write(tmp_path / "flows.jsonl", json_text(rows_of(changes)))
    check(store, file, changes, first=1)
    lines = file.read_text().split("\n")
    assert all(text == lines[number - 1] for number, _, text in rejects(store))


def test_typed_columns(store: Store, tmp_path: Path) -> None:
    changes = [(change, reason) for change, reason in CHANGES]
    check(store, write_parquet(tmp_path / "flows.parquet", rows_of(changes)), changes, first=1)
    first = json.loads(rejects(store)[0][2])
    assert first["src_addr"] == "10.0.0.256"
    assert first["bytes"] == 4096


def test_columns_of_text(store: Store, tmp_path: Path) -> None:
    changes = CHANGES + TEXT_CHANGES
    rows = [{name: str(value) for name, value in row.items()} for row in rows_of(changes)]
    file = write_parquet(tmp_path / "flows.parquet", rows, **dict.fromkeys(COLUMNS, pa.string()))
    check(store, file, changes, first=1)
    records = {number: json.loads(text) for number, _, text in rejects(store)}
    assert all(records[number][name] == rows[number - 1][name] for number in records for name in COLUMNS)


NUMBERS: list[tuple[dict[str, Any], str | None]] = [
    ({}, None),
    ({"bytes": -5}, "bad_bytes"),
    ({"bytes": None}, "bad_bytes"),
    ({"packets": -1}, "bad_packets"),
    ({"src_port": 70_000}, "bad_port"),
    ({"src_port": None}, None),
    ({"proto": 256}, "bad_proto"),
    ({"proto": None}, "bad_proto"),
    ({"time_flow_end_ns": None}, "bad_time"),
    ({"sampling_rate": -1}, "bad_sampling_rate"),
    ({"dst_addr": None}, "bad_dst_addr"),
]


def test_numbers_that_do_not_fit_their_columns(store: Store, tmp_path: Path) -> None:
    wide = {name: pa.int64() for name in ("bytes", "packets", "src_port", "proto", "sampling_rate")}
    rows = [record(number) | change for number, (change, _) in enumerate(NUMBERS)]
    check(store, write_parquet(tmp_path / "flows.parquet", rows, **wide), NUMBERS, first=1)


FRACTIONS: list[tuple[dict[str, Any], str | None]] = [
    ({"bytes": 1500.0}, None),
    ({"bytes": 2.0**50}, None),
    ({"bytes": 1500.5}, "bad_bytes"),
    ({"bytes": 1e30}, "bad_bytes"),
    ({"bytes": float("nan")}, "bad_bytes"),
    ({"bytes": float("inf")}, "bad_bytes"),
    ({"bytes": -1.0}, "bad_bytes"),
    ({"bytes": None}, "bad_bytes"),
]


def test_whole_numbers_in_columns_of_fractions(store: Store, tmp_path: Path) -> None:
    times = ("time_flow_start_ns", "time_flow_end_ns")
    good = [record(number) for number in range(len(FRACTIONS))]
    rows = [
        row | {name: float(row[name]) for name in times} | change
        for row, (change, _) in zip(good, FRACTIONS, strict=True)
    ]
    wide = dict.fromkeys((*times, "bytes"), pa.float64())
    check(store, write_parquet(tmp_path / "flows.parquet", rows, **wide), FRACTIONS, first=1)
    assert store.rows("SELECT bytes FROM flows ORDER BY bytes") == [(1500,), (2**50,)]


LINES: list[tuple[str | bytes, str]] = [
    ("1,2", "truncated"),
    (csv_text([record(1)]).split("\n")[1] + ",more", "too_many_fields"),
    (csv_text([record(1)]).split("\n")[1].replace("10.0.0.2", '"10.0.0.2'), "bad_quoting"),
    (csv_text([record(1)]).split("\n")[1].replace("10.0.0.2", '10.0"."0.2'), "bad_quoting"),
    (",".join("x" * 100_000 for _ in COLUMNS), "bad_time"),
    (b"\x00\xff\xfe", "truncated"),
    (b",".join([b"\xff"] * len(COLUMNS)), "bad_time"),
    (csv_text([record(1, sampler_address="@")]).split("\n")[1].encode().replace(b"@", b"\xff"), "bad_sampler_address"),
    ("Summary: total flows: 272", "truncated"),
]


def test_lines_that_are_no_records(store: Store, tmp_path: Path) -> None:
    header, good = csv_text([record(0)]).encode().strip().split(b"\n")
    bad = [line.encode() if isinstance(line, str) else line for line, _ in LINES]
    file = write(tmp_path / "flows.csv", b"\r\n".join([header, good, b"", b"   ", *bad, good]))
    report = land_files(store, [str(file)])
    assert (report.records, report.landed) == (len(LINES) + 2, 2)
    raw = store.raw("SELECT position, reason, hex(record) FROM flows_rejected ORDER BY position", fmt="TSV").split()
    wanted = [
        (number, reason, line) for number, ((_, reason), line) in enumerate(zip(LINES, bad, strict=True), start=5)
    ]
    assert raw == [
        word for n, reason, line in wanted for word in (str(n).encode(), reason.encode(), line.hex().upper().encode())
    ]


JSON_LINES = {
    "not_json": ["nonsense", "}", "[", '{"a": 1} {"b": 2}', "\x00", "[" * 3000, '{"a":' * 3000 + "1" + "}" * 3000],
    "truncated": ['{"time_flow_start_ns": 17600', json_text([record(1)])[:100]],
    "not_an_object": ["[1, 2, 3, 4, 5, 6, 7, 8, 9]", "null", "5", '"text"', "true", "[]"],
    "bad_time": ["{}", '{"nothing": {"of": ["use"]}}', '{"a": "' + "z" * 1_000_000 + '"}'],
}


def test_lines_that_are_no_json(store: Store, tmp_path: Path) -> None:
    bad = [(line, reason) for reason, lines in JSON_LINES.items() for line in lines]
    file = write(tmp_path / "flows.jsonl", "\n".join([*(line for line, _ in bad), "", json_text([record(0)])]))
    report = land_files(store, [str(file)])
    assert (report.records, report.landed) == (len(bad) + 1, 1)
    found = store.rows("SELECT record, reason FROM flows_rejected ORDER BY position")
    assert found == bad


def test_a_name_given_twice_in_json_is_one_record(store: Store, tmp_path: Path) -> None:
    line = json_text([record(0)]).strip()
    write(tmp_path / "flows.jsonl", line[:-1] + ', "bytes": "other"}\n')
    report = land_files(store, [str(tmp_path)])
    assert (report.records, report.landed) == (1, 1)


def test_equal_bad_lines_are_kept_each(store: Store, tmp_path: Path) -> None:
    file = write(tmp_path / "flows.csv", csv_text([record(0, bytes="x")] * 3))
    assert land_files(store, [str(file)]).rejected == {"bad_bytes": 3}
    assert rejected(store) == [(2, "bad_bytes"), (3, "bad_bytes"), (4, "bad_bytes")]
    write(file, csv_text([record(0, bytes="x")] * 3 + [record(1)]))
    assert land_files(store, [str(file)]).rejected == {"bad_bytes": 3}
    assert len(rejected(store)) == 3, "the file has grown, and its bad lines are still the same three"
