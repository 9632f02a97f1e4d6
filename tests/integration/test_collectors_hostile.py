"""Rubbish among a collector's records is kept as rubbish, and never costs a good record."""

import gzip
import json
import re
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prism_ch.ingest.files import land_files
from prism_ch.store.client import Store
from tests.records import write

DATA = Path(__file__).parents[1] / "data" / "collectors"

_files = count()


def pieces(name: str, of: int = 6) -> list[bytes]:
    """Return a file's first records, each with what ends it."""
    text = gzip.decompress((DATA / name).read_bytes())
    if not name.endswith(".json.gz"):
        return text.splitlines(keepends=True)[:of]
    return [each + b"\n},\n" for each in re.split(rb"\n\},?\n", text.removeprefix(b"[\n"))][:of]


#: Files whose records are different ones, and how many lines come before the first of them.
FILES = {
    "goflow2/fine.jsonl.gz": 0,
    "pmacct/fine_nfacctd.jsonl.gz": 0,
    "pmacct/fine_nfacctd_60.csv.gz": 1,
    "nfdump/fine.json.gz": 0,
    "nfdump/fine_with_summary.csv.gz": 1,
}


@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
@settings(max_examples=settings().max_examples // 12, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rubbish_among_good_records(store: Store, tmp_path: Path, name: str, data: st.DataObject) -> None:
    good, header = pieces(name), FILES[name]
    rubbish = st.one_of(
        st.binary(min_size=1, max_size=30).map(lambda noise: noise.replace(b"\n", b"")),
        st.sampled_from([b"{", b"}", b"[", b"]", b"{}", b"},", b"null", b'"', b"{{}", b",,,", good[header][:40]]),
    )
    content = good[: header + 1]
    for record in good[header + 1 :]:
        content += [each + b"\n" for each in data.draw(st.lists(rubbish, max_size=3))] + [record]
    store.command("TRUNCATE TABLE flows_log")
    report = land_files(store, [str(write(tmp_path / f"{next(_files)}", b"".join(content)))])
    landed = store.scalar(
        "SELECT uniqExact(src_addr, dst_addr, src_port, time_flow_start_ns, sampler_address) FROM flows"
    )
    assert landed == report.landed == len(good) - header
    assert store.scalar("SELECT count() FROM flows_rejected WHERE record = ''") == 0


def changed(**changes: object) -> bytes:
    return json.dumps(json.loads(pieces("goflow2/fine.jsonl.gz")[0]) | changes).encode()


#: Records that are meant to hurt, and what becomes of them.
HOSTILE: list[tuple[bytes, str]] = [
    (changed(src_addr="10.0.0.1\x00"), "bad_src_addr"),
    (changed(note="x" * (1 << 20)), ""),
    (changed(src_addr="x" * (1 << 20)), "bad_src_addr"),
    (changed(note={"deeper": [{"src_addr": "10.0.0.1"}] * 5}), ""),
    (changed(src_addr={"deeper": 1}), "bad_src_addr"),
    (changed()[:-1] + b', "note": ' + b"[" * 5000 + b"]" * 5000 + b"}", "not_json"),
    (changed()[:-1] + b', "note": "\xff\xfe"}', "not_json"),
    (changed(bytes=10**30), "bad_bytes"),
    (changed(bytes=2**64 - 1), "bad_bytes"),
    (changed(bytes=2**62, sampling_rate=4), "bad_bytes"),
    (changed(bytes=-1), "bad_bytes"),
    (changed(bytes=1.5), "bad_bytes"),
    (changed(packets=-1), "bad_packets"),
    (changed(sampling_rate=-1), "bad_sampling_rate"),
    (changed(sampling_rate=2**32), "bad_sampling_rate"),
    (changed(time_flow_start_ns=-1), "bad_time"),
    (changed(time_flow_end_ns=2**63), "bad_time"),
    (changed(time_flow_end_ns="soon"), "bad_time"),
    (changed(time_flow_end_ns="9999-12-31T00:00:00Z"), "bad_time"),
    (changed(time_flow_end_ns=None), "no_time"),
    (changed(time_received_ns="-", time_flow_end_ns=0), "no_time"),
    (changed(src_port=-1), "bad_port"),
    (changed(proto=""), "bad_proto"),
    (b"{}", "bad_src_addr"),
    (b"[]", "not_an_object"),
    (b"17", "not_an_object"),
    (b"\x00", "not_json"),
]


def test_hostile_records(store: Store, tmp_path: Path) -> None:
    content = b"\n".join(record for record, _ in HOSTILE) + b"\n"
    report = land_files(store, [str(write(tmp_path / "flows.jsonl", content))])
    got = dict(store.rows("SELECT position, reason FROM flows_rejected"))
    assert got == {number: reason for number, (_, reason) in enumerate(HOSTILE, start=1) if reason}
    assert report.landed == sum(not reason for _, reason in HOSTILE)
