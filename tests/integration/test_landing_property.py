"""Nothing is lost: of any file, whatever is in it, each record lands or is rejected, as the rules say one by one."""

import csv
import io
import ipaddress
import json
import re
import time
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prism_ch.ingest.files import land_files
from prism_ch.store.client import Store
from tests.records import COLUMNS, T0_NS, record, write, write_parquet

DAY_NS = 86_400 * 10**9
NAMES = {"udp": 17, "tcp": 6, "icmp": 1}

_files = count()

times = st.one_of(
    st.integers(T0_NS, T0_NS + 10**12),
    st.sampled_from([0, -1, 10**18, T0_NS - 7 * DAY_NS, T0_NS - 7 * DAY_NS - 10**12, 2**63 - 1, 2**63, -(2**63)]),
    st.sampled_from(["", "x", "1e18", "1760000000", " 1760000000000000000"]),
)
addresses = st.one_of(
    st.sampled_from(["10.0.0.1", "10.0.0.2", "2001:db8::1", "2001:DB8::1", "::ffff:10.0.0.1"]),
    st.sampled_from(["", "10.0.0", "10.0.0.1.2", "1:2", "x", "é", "10.0.0.1,", '"10.0.0.1"', "a b", "-"]),
)
numbers = st.one_of(
    st.integers(1, 10**9), st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64, -1, "", "1.5", "1e3", "one", " 7 "])
)
ports = st.one_of(st.integers(0, 65535), st.sampled_from([65536, -1, "", "http", "4791 "]))
odd_records = st.fixed_dictionaries(
    {
        "time_flow_start_ns": times,
        "time_flow_end_ns": times,
        "src_addr": addresses,
        "dst_addr": addresses,
        "src_port": ports,
        "dst_port": ports,
        "proto": st.one_of(st.integers(0, 255), st.sampled_from(["UDP", "tcp", " Icmp", 256, -1, "", "none"])),
        "bytes": numbers,
        "packets": numbers,
        "sampler_address": st.sampled_from(["192.0.2.1", "leaf 1", "", "é", 'a "b", c', "x" * 256]),
        "sampling_rate": st.one_of(st.integers(0, 1000), st.sampled_from(["", 2**32, "often"])),
    }
)
# Most fields of most records are good, so that each rule is reached.
flow_records = st.builds(
    lambda number, odd, fields: record(number) | {name: odd[name] for name in fields},
    st.integers(0, 50),
    odd_records,
    st.sets(st.sampled_from(COLUMNS), max_size=2),
)


def whole(value: Any, lowest: int, beyond: int) -> int | None:
    """Read a whole number within bounds."""
    text = str(value).strip()
    return int(text) if re.fullmatch(r"[+-]?[0-9]+", text) and lowest <= int(text) < beyond else None


def address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(text.strip())
    except ValueError:
        return None
    mapped = getattr(found, "ipv4_mapped", None)
    return mapped or found


def judge(row: dict[str, Any]) -> str:  # noqa: C901, PLR0911, PLR0912 (one rule after the other, as they are written)
    """Say why a record can't be used, or nothing where it can: the slow, obvious version."""
    start_ns, end_ns = (whole(row[name], -(2**63), 2**63) for name in COLUMNS[:2])
    if start_ns is None or end_ns is None:
        return "bad_time"
    name = str(row["proto"]).strip().lower()
    if not name:
        return "bad_proto"
    if any(str(row[port]).strip() and whole(row[port], 0, 2**16) is None for port in ("src_port", "dst_port")):
        return "bad_port"
    volume, packets = (whole(row[name], 0, 2**64) for name in ("bytes", "packets"))
    if volume is None:
        return "bad_bytes"
    if packets is None:
        return "bad_packets"
    if str(row["sampling_rate"]).strip() and whole(row["sampling_rate"], 0, 2**32) is None:
        return "bad_sampling_rate"
    src, dst = address(row["src_addr"]), address(row["dst_addr"])
    if src is None:
        return "bad_src_addr"
    if dst is None:
        return "bad_dst_addr"
    if NAMES.get(name, whole(name, 0, 256)) is None:
        return "bad_proto"
    if len(row["sampler_address"].encode()) > 255:
        return "bad_sampler_address"
    if volume >= 2**63:
        return "bad_bytes"
    if packets >= 2**63:
        return "bad_packets"
    if min(start_ns, end_ns) < 946_684_800 * 10**9 or max(start_ns, end_ns) > time.time_ns() + DAY_NS:
        return "implausible_time"
    if end_ns < start_ns:
        return "negative_duration"
    if end_ns - start_ns > 7 * DAY_NS:
        return "implausible_duration"
    if volume == 0:
        return "zero_bytes"
    return "same_endpoint" if src == dst else ""


def quoted(rows: list[dict[str, Any]], quoting: Any) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, quoting=quoting, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


@settings(max_examples=settings().max_examples // 8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(flow_records, min_size=1, max_size=30))
def test_every_record_lands_or_is_rejected_by_the_rules(
    store: Store, tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp(f"example{next(_files)}")
    files = [
        write(folder / "1.csv", quoted(rows, csv.QUOTE_MINIMAL)),
        write(folder / "2.csv", quoted(rows, csv.QUOTE_ALL)),
        write(folder / "3.jsonl", "".join(json.dumps(row) + "\n" for row in rows)),
        write_text_parquet(folder / "4.parquet", rows),
    ]
    report = land_files(store, [str(folder)])
    reasons = [judge(row) for row in rows]
    for file, first in zip(files, (2, 2, 1, 1), strict=True):
        wanted = [(number, reason) for number, reason in enumerate(reasons, start=first) if reason]
        seen = "SELECT position, reason FROM flows_rejected WHERE source = {source:String} ORDER BY position"
        if str(file) in report.sources:
            assert store.rows(seen, {"source": str(file)}) == wanted, file.name
    assert report.records == len(report.sources) * len(rows)
    assert report.landed == len(report.sources) * reasons.count("")


def write_text_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    text = [{name: str(value) for name, value in row.items()} for row in rows]
    return write_parquet(path, text, **dict.fromkeys(COLUMNS, pa.string()))


@settings(max_examples=settings().max_examples // 4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.lists(st.binary(max_size=40), max_size=8), is_json=st.booleans())
def test_of_any_bytes_each_line_is_accounted_for(
    store: Store, tmp_path_factory: pytest.TempPathFactory, noise: list[bytes], is_json: bool
) -> None:
    folder = tmp_path_factory.mktemp(f"example{next(_files)}")
    lines = [line for each in noise for line in each.split(b"\n") if line.strip(b" \r")]
    # A blank first line keeps the noise from being taken for a compression or an encoding.
    header = b"\n" if is_json else ",".join(COLUMNS).encode() + b"\n"
    file = write(folder / ("noise.jsonl" if is_json else "noise.csv"), header + b"\n".join(noise))
    report = land_files(store, [str(file)])
    known = sum(each.records for each in report.skipped)
    assert report.records + known == len(lines)
