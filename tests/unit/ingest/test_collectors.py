"""A collector is recognised by the names in its records, wherever they stand and whatever the file is called."""

import gzip
import json
from pathlib import Path

import pytest

from prism_ch.errors import InputError
from prism_ch.ingest.columns import FIELDS, find_fields, identify_collector, is_json
from tests.records import COLUMNS, csv_text, json_text, records

DATA = Path(__file__).parents[2] / "data" / "collectors"
FILES = sorted(path for path in DATA.glob("*/*") if path.suffix != ".bin")


@pytest.mark.parametrize("path", FILES, ids=[f"{path.parent.name}-{path.name}" for path in FILES])
def test_each_recorded_file_is_recognised(path: Path) -> None:
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    assert identify_collector(text[:5000]) == path.parent.name
    assert is_json(text) == (".json" in path.name)


@pytest.mark.parametrize(
    "text,expected",
    [
        (b"", None),
        (csv_text(records(3)).encode(), None),
        (json_text(records(3)).encode(), None),
        (json.dumps({"first": 1, "last": 2}).encode(), None),
        (b"rubbish\n\xff\x00\n" + json.dumps({"ip_src": "10.0.0.1", "ip_dst": "10.0.0.2"}).encode(), "pmacct"),
        (b"rubbish\nts,te,sa,da\n", None),
        (b'\n TS , te,"sa",da\n', "nfdump"),
        (b"firstSeen,lastSeen,srcAddr,dstAddr\n", "nfdump"),
        (b"TimeReceived,ExporterAddress\n", "akvorado"),
        (b"PEER_SRC_IP,SRC_IP,DST_IP,PACKETS\n", "pmacct"),
        (b'{"src_addr": "a\\"ip_src\\":", "ip_dst": 1}', None),
    ],
)
def test_names_tell(text: bytes, expected: str | None) -> None:
    assert identify_collector(text) == expected


def test_fields_are_found_by_either_name() -> None:
    places = dict(zip(FIELDS, find_fields(["DA", " sa", "pr", "ibyt", "x"], "nfdump", "flows.csv"), strict=True))
    assert {name: place for name, place in places.items() if place} == {
        "src_addr": 2,
        "dst_addr": 1,
        "proto": 3,
        "bytes": 4,
    }
    assert find_fields(["dstAddr", "srcAddr", "proto", "bytes"], "nfdump", "flows.csv")[4:6] == (2, 1)


@pytest.mark.parametrize("collector", ["nfdump", "pmacct", "akvorado", "goflow2"])
def test_a_header_of_others_is_refused(collector: str) -> None:
    with pytest.raises(InputError, match=rf"^flows.csv: .*{collector}"):
        find_fields(COLUMNS, collector, "flows.csv")
