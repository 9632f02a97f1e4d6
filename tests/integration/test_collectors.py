"""What collectors write lands as the flows it is about, and what they got wrong is mended or named."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from prism_ch.cli.analysis import print_landing
from prism_ch.errors import InputError
from prism_ch.ingest import lines
from prism_ch.ingest.files import land_files
from prism_ch.store.client import Store
from tests.records import csv_text, write

DATA = Path(__file__).parents[1] / "data" / "collectors"

#: How many records of each file land, and why the others don't.
FILES: list[tuple[str, int, dict[str, int]]] = [
    ("goflow2/fine.jsonl.gz", 272, {}),
    ("goflow2/fine.protobuf_delimited.bin", 272, {}),
    ("goflow2/enc_nf5.jsonl.gz", 16, {}),
    ("goflow2/enc_nf9.jsonl.gz", 16, {}),
    ("goflow2/enc_ipfix_sec.jsonl.gz", 16, {}),
    ("goflow2/enc_ipfix_milli.jsonl.gz", 16, {}),
    ("goflow2/enc_ipfix_micro.jsonl.gz", 16, {}),
    ("goflow2/enc_ipfix_nano.jsonl.gz", 16, {}),
    ("goflow2/enc_ipfix_s10.jsonl.gz", 16, {}),
    ("goflow2/enc_ipfix_bidir.jsonl.gz", 8, {"zero_bytes": 8}),
    ("goflow2/sflow_roce_bth.jsonl.gz", 301, {}),
    ("pmacct/fine_nfacctd.jsonl.gz", 272, {}),
    ("pmacct/fine_nfacctd_60.csv.gz", 59, {}),
    ("pmacct/enc_nf5.jsonl.gz", 16, {}),
    ("pmacct/enc_nf9.jsonl.gz", 16, {}),
    ("pmacct/enc_micro.jsonl.gz", 0, {"no_time": 16}),
    ("pmacct/enc_nano.jsonl.gz", 0, {"no_time": 16}),
    ("pmacct/enc_s10.jsonl.gz", 16, {}),
    ("pmacct/enc_s10_renorm.jsonl.gz", 16, {}),
    ("pmacct/enc_bidir.jsonl.gz", 8, {"zero_bytes": 8}),
    ("nfdump/fine.json.gz", 272, {}),
    ("nfdump/fine_with_summary.csv.gz", 272, {"summary_line": 3}),
    ("nfdump/enc_nf5.json.gz", 16, {}),
    ("nfdump/enc_nf9.json.gz", 16, {}),
    ("nfdump/enc_ipfix_sec.json.gz", 0, {"no_time": 16}),
    ("nfdump/enc_ipfix_milli.json.gz", 16, {}),
    ("nfdump/enc_ipfix_micro.json.gz", 0, {"no_time": 16}),
    ("nfdump/enc_ipfix_nano.json.gz", 0, {"no_time": 16}),
    ("nfdump/enc_ipfix_s10.json.gz", 16, {}),
    ("nfdump/enc_ipfix_bidir.json.gz", 16, {}),
    ("akvorado/flows.jsonl", 0, {"no_time": 6}),
]

FLOW = "src_addr, dst_addr, src_port, dst_port, proto, bytes, packets, sampler_address"
TIMED = f"time_flow_start_ns, time_flow_end_ns, {FLOW}"


def text_of(name: str) -> str:
    content = (DATA / name).read_bytes()
    return (gzip.decompress(content) if name.endswith(".gz") else content).decode()


def flows(store: Store, columns: str = TIMED) -> list[tuple[Any, ...]]:
    return store.rows(f"SELECT {columns} FROM flows ORDER BY ALL")  # noqa: S608


def flows_of(store: Store, name: str, columns: str = TIMED) -> list[tuple[Any, ...]]:
    """Land one file in an empty table, and return its flows."""
    for table in ("flows_log", "landings_log", "landing_counts_log"):
        store.command("TRUNCATE TABLE {name:Identifier}", {"name": table})
    land_files(store, [str(DATA / name)])
    return flows(store, columns)


@pytest.mark.parametrize("name,landed,rejected", FILES, ids=[name for name, _, _ in FILES])
@pytest.mark.parametrize("is_given", [False, True], ids=["recognised", "printed"])
def test_each_file_lands(
    store: Store, tmp_path: Path, name: str, landed: int, rejected: dict[str, int], *, is_given: bool
) -> None:
    misnamed = write(tmp_path / "flows.csv", (DATA / name).read_bytes())
    report = land_files(store, [str(misnamed)], name.partition("/")[0] if is_given else "auto")
    assert (report.landed, report.rejected, report.failures) == (landed, rejected, ())
    assert len(flows(store)) == landed
    assert store.scalar("SELECT countIf(record = '') FROM flows_rejected") == 0


def test_three_collectors_give_the_same_flows(store: Store) -> None:
    by_goflow2 = flows_of(store, "goflow2/fine.jsonl.gz")
    assert len(by_goflow2) == 272
    assert len({flow[:-1] for flow in by_goflow2}) == 136
    assert by_goflow2 == flows_of(store, "pmacct/fine_nfacctd.jsonl.gz") == flows_of(store, "nfdump/fine.json.gz")
    assert by_goflow2 == flows_of(store, "goflow2/fine.protobuf_delimited.bin")
    # The same record through three collectors is one observation.
    land_files(store, [str(DATA / "goflow2" / "fine.jsonl.gz")])
    assert flows(store) == by_goflow2


def test_whole_seconds_keep_the_second_and_the_duration(store: Store) -> None:
    measures = (
        f"intDiv(time_flow_start_ns, 1000000000), intDiv(time_flow_end_ns, 1000000000),"
        f" time_flow_end_ns - time_flow_start_ns, {FLOW}"
    )
    exact = flows_of(store, "nfdump/fine.json.gz", measures)
    assert flows_of(store, "nfdump/fine_with_summary.csv.gz", measures) == exact


@pytest.mark.parametrize("name", ["goflow2/enc_nf9.jsonl.gz", "nfdump/enc_nf9.json.gz"])
def test_an_uptime_that_wrapped_is_mended(store: Store, name: str) -> None:
    exact = flows_of(store, "goflow2/enc_ipfix_milli.jsonl.gz", f"{FLOW}, time_flow_start_ns, time_flow_end_ns")
    mended = flows_of(store, name, f"{FLOW}, time_flow_start_ns, time_flow_end_ns")
    assert [flow[:-2] for flow in mended] == [flow[:-2] for flow in exact]
    # NetFlow v9 tells the exporter's time in whole seconds.
    off_ns = [
        [ours - true for ours, true in zip(*pair, strict=True)]
        for pair in zip((f[-2:] for f in mended), (f[-2:] for f in exact), strict=True)
    ]
    assert max(abs(ns) for pair in off_ns for ns in pair) < 10**9


@pytest.mark.parametrize(
    "wrap_ms,expected", [(2**32, None), (2**32 + 2 * 3_600_000, "implausible_time"), (2**33, "implausible_time")]
)
def test_only_a_certain_wrap_is_mended(store: Store, tmp_path: Path, wrap_ms: int, expected: str | None) -> None:
    record = json.loads(text_of("goflow2/fine.jsonl.gz").splitlines()[0])
    start_ns, end_ns = record["time_flow_start_ns"], record["time_flow_end_ns"]
    # A flow during which the counter wrapped has one shifted time only.
    record["time_flow_start_ns"] += wrap_ms * 10**6
    report = land_files(store, [str(write(tmp_path / "flows.jsonl", json.dumps(record)))])
    assert report.rejected == ({expected: 1} if expected else {})
    assert flows(store, "time_flow_start_ns, time_flow_end_ns") == ([] if expected else [(start_ns, end_ns)])


def test_counts_are_those_before_sampling(store: Store) -> None:
    renormalised = flows_of(store, "pmacct/enc_s10_renorm.jsonl.gz")
    assert flows_of(store, "pmacct/enc_s10.jsonl.gz", f"{TIMED}, sampling_rate") == [
        (*flow, 10) for flow in renormalised
    ]
    # GoFlow2 and nfdump did not learn the rate: what they count is all there is.
    unscaled = [(*flow[:-3], flow[-3] // 10, flow[-2] // 10, flow[-1]) for flow in renormalised]
    assert (
        flows_of(store, "goflow2/enc_ipfix_s10.jsonl.gz") == flows_of(store, "nfdump/enc_ipfix_s10.json.gz") == unscaled
    )


def test_each_sample_counts_also_where_samples_are_alike(store: Store) -> None:
    given = [json.loads(line) for line in text_of("goflow2/sflow_roce_bth.jsonl.gz").splitlines()]
    got = flows_of(store, "goflow2/sflow_roce_bth.jsonl.gz", "bytes, packets, sampling_rate")
    assert sorted(got) == sorted((each["bytes"] * 50, 50, 50) for each in given)
    assert len(set(flows(store))) < len(got)
    # Delivered once more, under another name and in another order, they are no more.
    land_files(store, [str(DATA / "goflow2" / "sflow_roce_bth.jsonl.gz")])
    assert len(flows(store)) == len(got)


def test_a_rate_of_nought_is_unknown(store: Store) -> None:
    assert set(flows_of(store, "pmacct/enc_nf5.jsonl.gz", "sampling_rate")) == {(1,)}
    assert set(flows_of(store, "goflow2/enc_nf5.jsonl.gz", "sampling_rate")) == {(1,)}


def test_reverse_counters_become_a_flow_of_their_own(store: Store) -> None:
    one_way = flows_of(store, "nfdump/enc_ipfix_milli.json.gz")
    assert flows_of(store, "nfdump/enc_ipfix_bidir.json.gz") == one_way
    record = json.loads(text_of("nfdump/enc_ipfix_bidir.json.gz"))[0] | {"in_bytes": 5, "in_packets": 1}
    both = {(record["src4_addr"], 5), (record["dst4_addr"], record["out_bytes"])}
    store.command("TRUNCATE TABLE flows_log")
    store.insert("nfdump_lines", {"line": [json.dumps(record)]})
    assert set(flows(store, "src_addr, bytes")) == both


@pytest.mark.parametrize(
    "name,field", [("akvorado/flows.jsonl", "Bytes"), ("nfdump/enc_ipfix_sec.json.gz", "in_bytes")]
)
def test_records_without_times_count_as_volume_only(store: Store, name: str, field: str) -> None:
    assert flows_of(store, name) == []
    expected = sum(int(given) for given in re.findall(rf'"{field}" ?: ?"?([0-9]+)', text_of(name)))
    assert store.scalar("SELECT sum(bytes) FROM flow_pair_1m") == expected
    assert store.scalar("SELECT sum(bytes) FROM switch_1m") == expected
    assert store.scalar("SELECT count() FROM arrivals") == 0


def test_without_arrival_a_record_without_times_counts_nowhere(store: Store) -> None:
    record = {"SrcAddr": "10.0.0.1", "DstAddr": "10.0.0.2", "Proto": 17, "Bytes": 5, "Packets": 1}
    store.insert("akvorado_lines", {"line": [json.dumps(record)]})
    assert store.rows("SELECT reason FROM flows_rejected") == [("no_time",)]
    assert store.scalar("SELECT count() FROM flow_pair_1m") == 0


@pytest.mark.parametrize("name", ["goflow2/fine.jsonl.gz", "pmacct/fine_nfacctd.jsonl.gz", "nfdump/fine.json.gz"])
def test_lag_is_from_end_of_flow_to_arrival_at_collector(store: Store, name: str) -> None:
    land_files(store, [str(DATA / name)])
    assert [round(lag_s) for (lag_s,) in store.rows("SELECT lag_s FROM exporters")] == [2, 2]


def test_an_arrival_that_can_not_be_is_not_believed(store: Store) -> None:
    line = text_of("goflow2/fine.jsonl.gz").splitlines()[0]
    record = json.loads(line) | {"time_received_ns": 10**18 * 9}
    store.insert("goflow2_lines", {"line": [json.dumps(record)]})
    assert store.scalar("SELECT count() FROM flows WHERE received_at > now() - 600 AND received_at <= now64(3)") == 1


#: The times of pmacct in its three ways of writing them.
NOTATIONS = [
    ("2026-11-21 07:17:05.758000", "2026-11-21 07:17:05.783"),
    ("1795245425.758000", "1795245425.783"),
    ("2026-11-21T07:17:05.758000Z", "2026-11-21T08:17:05.783+01:00"),
]


@pytest.mark.parametrize("first,last", NOTATIONS)
def test_times_in_each_notation(store: Store, first: str, last: str) -> None:
    record = json.loads(text_of("pmacct/fine_nfacctd.jsonl.gz").splitlines()[0])
    record |= {"timestamp_start": first, "timestamp_end": last}
    store.insert("pmacct_lines", {"line": [json.dumps(record)]})
    expected = (1_795_245_425_758_000_000, 1_795_245_425_783_000_000)
    assert flows(store, "time_flow_start_ns, time_flow_end_ns") == [expected]


def test_nfdump_since_1_7_2(store: Store, tmp_path: Path) -> None:
    fast = {
        "cnt": 1, "af": 2, "firstSeen": 1795245425758, "lastSeen": 1795245425783, "proto": 17, "srcAddr": "10.1.0.11",
        "srcPort": 49328, "dstAddr": "10.2.0.11", "dstPort": 4791, "srcAS": 0, "dstAS": 0, "input": 201, "output": 201,
        "flags": "........", "srcTos": 104, "packets": 60, "bytes": 64080,
    }  # fmt: skip
    chosen = {
        "firstSeen": "1795245425.758", "lastSeen": "1795245425.783", "duration": "00:00:00.025",
        "received": "1795245427.741", "srcAddr": "10.1.0.11", "dstAddr": "10.2.0.11", "srcPort": 49328, "dstPort": 4791,
        "proto": "UDP", "inPackets": 60, "inBytes": 64080, "outPackets": 0, "outBytes": 0, "routerIP": "10.99.2.1",
    }  # fmt: skip
    write(tmp_path / "fast.csv", csv_text([fast], list(fast)))
    write(tmp_path / "chosen.csv", csv_text([chosen], list(chosen)))
    land_files(store, [str(tmp_path)])
    flow = (1_795_245_425_758_000_000, 1_795_245_425_783_000_000, "10.1.0.11", "10.2.0.11", 49328, 4791, 17, 64080, 60)
    assert flows(store) == [(*flow, ""), (*flow, "10.99.2.1")]


def test_nfdump_json_is_cut_at_its_objects(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "CHUNK_BYTES", 50_000)
    whole = text_of("nfdump/fine.json.gz")
    expected = flows_of(store, "nfdump/fine.json.gz")
    written = {
        "quiet.json": whole.removeprefix("[\n"),
        "lines.json": "".join(json.dumps(each) + ",\n" for each in json.loads(whole)),
        "broken.json": whole.replace("},\n", "},\nno JSON\n", 1).removesuffix('"label" : "<none>"\n}]\n'),
    }
    landed = [len(expected), len(expected), len(expected) - 1]
    for (name, text), count in zip(written.items(), landed, strict=True):
        store.command("TRUNCATE TABLE flows_log")
        report = land_files(store, [str(write(tmp_path / name, text))])
        assert (len(flows(store)), set(flows(store)) <= set(expected)) == (count, True), name
        assert report.rejected == ({} if name != "broken.json" else {"not_json": 1, "truncated": 1})


@pytest.mark.parametrize(
    "fmt,text,message",
    [
        ("nfdump", "2026-11-21 07:17:05,2026-11-21 07:17:05,0.025\n", "does not name the columns of nfdump"),
        ("pmacct", "ts,te,sa,da\n", "let pmacct write the line with the names"),
        ("goflow2", "ts,te,sa,da\n", "is not what goflow2 writes"),
    ],
)
def test_a_file_that_is_not_the_collectors_is_refused(
    store: Store, tmp_path: Path, fmt: str, text: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        land_files(store, [str(write(tmp_path / "flows", text))], fmt)


def test_damaged_messages_lose_only_themselves(store: Store, tmp_path: Path) -> None:
    content = (DATA / "goflow2" / "fine.protobuf_delimited.bin").read_bytes()
    # An address of 30 bytes and the largest number there is are whole; a field that is only added here is not.
    odd = [
        b"\x08\x04\x32\x1e" + b"x" * 30,
        b"\x08\x04\xa2\xea\x30\x03abc",
        b"\x08\x04\x48" + b"\xff" * 9 + b"\x01",
        b"\x08",
    ]
    report = land_files(store, [str(write(tmp_path / "flows", b"".join(bytes([len(m)]) + m for m in odd) + content))])
    assert report.landed == 272
    assert report.rejected == {"not_protobuf": 2, "bad_src_addr": 2}
    damaged = "SELECT record, position FROM flows_rejected WHERE reason = 'not_protobuf' ORDER BY position"
    assert store.rows(damaged) == [(odd[1].hex(), 2), ("08", 4)]
    assert store.scalar("SELECT uniq(source) FROM flows_rejected") == 1


def test_landing_messages_writes_nothing_where_it_is_run(store: Store) -> None:
    land_files(store, [str(DATA / "goflow2" / "fine.protobuf_delimited.bin")])
    assert not Path("__cache__").exists()  # the engine's folder for schemas that are given as text


def test_reasons_say_how_to_mend(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    status = print_landing(land_files(store, [str(DATA / "akvorado" / "flows.jsonl")]))
    printed = capsys.readouterr().out
    assert status == 1
    assert "rejected 6: 6 no_time; see the table flows_rejected\n  no_time: the collector gives no start" in printed
