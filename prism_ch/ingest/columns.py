"""The columns of a flow record: canonical names, names that collectors use, and their places in a file.

Names in the JSON of collectors are mapped in the database, by the views over their landing tables; names in the header
of a CSV file are mapped here.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from prism_ch.errors import InputError

#: The canonical columns, in the order of the `places` of the database's tables for text.
COLUMNS = (
    "time_flow_start_ns", "time_flow_end_ns", "src_addr", "dst_addr", "src_port", "dst_port", "proto", "bytes",
    "packets", "sampler_address", "sampling_rate", "path",
)  # fmt: skip
#: Columns that a file may leave out, because they have a value that means unknown.
OPTIONAL = ("src_port", "dst_port", "sampler_address", "sampling_rate", "path")
REQUIRED = tuple(name for name in COLUMNS if name not in OPTIONAL)

_CSV_COLLECTORS = ("nfdump", "pmacct", "akvorado")
#: For each field of a collector's CSV, in the order in which the database takes them (collected_csv_mv), the names of
#: its column in the header, in lower case, by collector. nfdump has the short names up to version 1.7.1 and the long
#: ones since; both if its user chose the columns.
_CSV_NAMES = {
    "first_seen": ("ts firstseen", "timestamp_start", ""),
    "last_seen": ("te lastseen", "timestamp_end", ""),
    "duration": ("td duration", "", ""),
    "arrived": ("tr received", "timestamp_arrival", "timereceived"),
    "src_addr": ("sa srcaddr", "src_ip", "srcaddr"),
    "dst_addr": ("da dstaddr", "dst_ip", "dstaddr"),
    "src_port": ("sp srcport", "src_port", "srcport"),
    "dst_port": ("dp dstport", "dst_port", "dstport"),
    "proto": ("pr proto", "protocol", "proto"),
    "bytes": ("ibyt byt bytes inbytes", "bytes", "bytes"),
    "packets": ("ipkt pkt packets inpackets", "packets", "packets"),
    "reverse_bytes": ("obyt outbytes", "", ""),
    "reverse_packets": ("opkt outpackets", "", ""),
    "sampler_address": ("ra routerip", "peer_src_ip", "exporteraddress"),
    "sampling_rate": ("", "sampling_rate", "samplingrate"),
}
FIELDS = tuple(_CSV_NAMES)
#: A header without one of these is not a collector's. Times are optional: each record without them is rejected.
_CSV_REQUIRED = ("src_addr", "dst_addr", "proto", "bytes")

#: Sets of names, in lower case, that occur together in the records of one collector only.
_SIGNATURES = (
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


def find_columns(names: Sequence[str], source: str) -> dict[str, int]:
    """Return the places of the canonical columns in a file, from 0. Missing ones are left out.

    Parameters: `names` of the file's columns, in any order, case and number; `source`, the file's name.
    Raises InputError if a required column is missing, or a canonical one is there twice.
    """
    seen = [name.strip().lower() for name in names]
    missing = [name for name in REQUIRED if name not in seen]
    if missing:
        nothing = len(missing) == len(REQUIRED)
        lack = "none of the columns of a flow record" if nothing else f"no column {', '.join(missing)}"
        hint = "; is the line with the names of the columns missing?" if nothing else ""
        raise InputError(
            f"{source}: has {lack}; expected are {', '.join(REQUIRED)}"
            f" and, where known, {', '.join(OPTIONAL)}; found are {_first_names(names)}{hint}"
        )
    twice = [name for name in COLUMNS if seen.count(name) > 1]
    if twice:
        raise InputError(f"{source}: has more than one column {', '.join(twice)}; leave one of each")
    return {name: seen.index(name) for name in COLUMNS if name in seen}


def find_fields(names: Sequence[str], collector: str, source: str) -> tuple[int, ...]:
    """Return the places of FIELDS in a collector's CSV file, from 1. A missing one is 0.

    Raises InputError if the collector writes no CSV, or the columns are not its own.
    """
    if collector not in _CSV_COLLECTORS:
        raise InputError(f"{source}: is not what {collector} writes; is --format right?")
    seen = [name.strip().lower() for name in names]
    known = {
        field: by_collector[_CSV_COLLECTORS.index(collector)].split() for field, by_collector in _CSV_NAMES.items()
    }
    places = {
        field: min((seen.index(name) + 1 for name in known[field] if name in seen), default=0) for field in FIELDS
    }
    missing = [field for field in _CSV_REQUIRED if not places[field]]
    if missing:
        raise InputError(
            f"{source}: its first line does not name the columns of {collector}: no {', '.join(missing)};"
            f" found are {_first_names(names)}; let {collector} write the line with the names, or give another --format"
        )
    return tuple(places.values())


def identify_collector(text: bytes) -> str | None:
    """Return the collector whose names the beginning of a text holds, if any.

    Names of JSON are looked for in all of the text, since its first lines may be damaged; a header is the first line.
    """
    header = next((line for line in text.splitlines() if line.strip()), b"")
    names = split_names(header.decode("utf-8", "replace"))
    return _identify_by_json(text) or _identify(name.strip().lower() for name in names)


def is_json(text: bytes) -> bool:
    """Return whether a text is JSON, perhaps after damaged lines of a collector."""
    return text.lstrip().startswith((b"{", b"[")) or _identify_by_json(text) is not None


def split_names(line: str) -> list[str]:
    """Split a header line into names."""
    try:
        return next(csv.reader([line], skipinitialspace=True), [])
    except csv.Error:
        return line.split(",")


def constant(text: str, rows: int) -> pa.DictionaryArray:
    """Return a column of one repeated text."""
    return pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), [text])


def _identify_by_json(text: bytes) -> str | None:
    return _identify(name.decode().lower() for name in set(_JSON_NAME.findall(text)))


def _identify(names: Iterable[str]) -> str | None:
    known = set(names)
    return next((collector for collector, signature in _SIGNATURES if signature <= known), None)


def _first_names(names: Sequence[str]) -> str:
    return ", ".join(repr(name[:40]) for name in names[:20]) + (", ..." if len(names) > 20 else "")
