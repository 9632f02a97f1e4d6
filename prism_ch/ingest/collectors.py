"""How collectors name what a flow record has, and by which names a file is known as theirs.

Names of JSON objects are mapped in the database (sql/migrations/0031 to 0034), those in the header of a CSV file here.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence

from prism_ch.errors import InputError

#: Fields in the order in which the database takes those of a collector's CSV (collected_csv_mv).
FIELDS = (
    "first_seen",
    "last_seen",
    "duration",
    "arrived",
    "src_addr",
    "dst_addr",
    "src_port",
    "dst_port",
    "proto",
    "bytes",
    "packets",
    "reverse_bytes",
    "reverse_packets",
    "sampler_address",
    "sampling_rate",
)
#: Without these a record says nothing; that a collector left out times is for each record to be told.
_NEEDED = ("src_addr", "dst_addr", "proto", "bytes")

#: For each collector that writes CSV, the names of its columns, in lower case, in the order of FIELDS. nfdump has the
#: short ones up to version 1.7.1, the long ones since; both where its user chose the columns.
_HEADERS = {
    "nfdump": (
        {"ts", "firstseen"},
        {"te", "lastseen"},
        {"td", "duration"},
        {"tr", "received"},
        {"sa", "srcaddr"},
        {"da", "dstaddr"},
        {"sp", "srcport"},
        {"dp", "dstport"},
        {"pr", "proto"},
        {"ibyt", "byt", "bytes", "inbytes"},
        {"ipkt", "pkt", "packets", "inpackets"},
        {"obyt", "outbytes"},
        {"opkt", "outpackets"},
        {"ra", "routerip"},
        set(),
    ),
    "pmacct": (
        {"timestamp_start"},
        {"timestamp_end"},
        set(),
        {"timestamp_arrival"},
        {"src_ip"},
        {"dst_ip"},
        {"src_port"},
        {"dst_port"},
        {"protocol"},
        {"bytes"},
        {"packets"},
        set(),
        set(),
        {"peer_src_ip"},
        {"sampling_rate"},
    ),
    "akvorado": (
        set(),
        set(),
        set(),
        {"timereceived"},
        {"srcaddr"},
        {"dstaddr"},
        {"srcport"},
        {"dstport"},
        {"proto"},
        {"bytes"},
        {"packets"},
        set(),
        set(),
        {"exporteraddress"},
        {"samplingrate"},
    ),
}

#: Names that stand together in a collector's records, in lower case, and nowhere else.
_MARKS = (
    ("goflow2", {"time_flow_start_ns", "time_received_ns"}),
    ("goflow2", {"time_flow_start_ns", "sequence_num"}),
    ("pmacct", {"ip_src", "ip_dst"}),
    ("pmacct", {"src_ip", "dst_ip", "packets"}),
    ("nfdump", {"first", "last", "src4_addr"}),
    ("nfdump", {"first", "last", "src6_addr"}),
    ("nfdump", {"ts", "te", "sa", "da"}),
    ("nfdump", {"firstseen", "lastseen", "srcaddr", "dstaddr"}),
    ("akvorado", {"timereceived", "exporteraddress"}),
)
_JSON_NAME = re.compile(rb'"(\w{1,40})"[ \t]*:')


def is_json(text: bytes) -> bool:
    """Tell whether a text begins as JSON does, or holds the JSON of a collector after lines that are none."""
    return text.lstrip().startswith((b"{", b"[")) or _tell_by_json(text) is not None


def tell_collector(text: bytes) -> str | None:
    """Return the collector by whose names the beginning of a text goes; None where it is nobody's.

    Names of JSON are looked for in all of it, since the first lines may be rubbish; a header is the first line.
    """
    header = next((line for line in text.splitlines() if line.strip()), b"")
    return _tell_by_json(text) or _tell(name.strip().lower() for name in split_names(header.decode("utf-8", "replace")))


def find_fields(names: Sequence[str], collector: str, source: str) -> tuple[int, ...]:
    """Return where each of FIELDS is among the columns of a collector's CSV file, from 1; 0 where it is not there.

    Raises InputError where the collector writes no CSV, or the columns are not its own.
    """
    if collector not in _HEADERS:
        raise InputError(f"{source}: is not what {collector} writes; is --format right?")
    seen = [name.strip().lower() for name in names]
    places = tuple(
        min((seen.index(name) + 1 for name in known if name in seen), default=0) for known in _HEADERS[collector]
    )
    missing = [name for name, place in zip(FIELDS, places, strict=True) if name in _NEEDED and not place]
    if missing:
        shown = ", ".join(repr(name[:40]) for name in names[:20]) + (", ..." if len(names) > 20 else "")
        raise InputError(
            f"{source}: its first line does not name the columns of {collector}: no {', '.join(missing)};"
            f" found are {shown}; let {collector} write the line with the names, or give another --format"
        )
    return places


def split_names(line: str) -> list[str]:
    """Return the names in a header line."""
    try:
        return next(csv.reader([line], skipinitialspace=True), [])
    except csv.Error:
        return line.split(",")


def _tell_by_json(text: bytes) -> str | None:
    """Return the collector whose names a text holds as JSON writes names."""
    return _tell(name.decode().lower() for name in set(_JSON_NAME.findall(text)))


def _tell(names: Iterable[str]) -> str | None:
    """Return the collector that some names are of, if any."""
    known = set(names)
    return next((collector for collector, marks in _MARKS if marks <= known), None)
