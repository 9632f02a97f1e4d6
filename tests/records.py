"""Flow records for tests, as text fields, and the files that hold them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

#: 2025-10-09T08:53:20Z, in the past whenever the tests run.
T0_NS = 1_760_000_000_000_000_000

COLUMNS = (
    "time_flow_start_ns",
    "time_flow_end_ns",
    "src_addr",
    "dst_addr",
    "src_port",
    "dst_port",
    "proto",
    "bytes",
    "packets",
    "sampler_address",
    "sampling_rate",
)

TYPES = {
    "time_flow_start_ns": pa.int64(),
    "time_flow_end_ns": pa.int64(),
    "src_port": pa.uint16(),
    "dst_port": pa.uint16(),
    "proto": pa.uint8(),
    "bytes": pa.uint64(),
    "packets": pa.uint64(),
    "sampling_rate": pa.uint32(),
}


def record(number: int = 0, **changes: Any) -> dict[str, Any]:
    """Return a valid record; each number gives another one."""
    start_ns = T0_NS + number * 1_000_000
    return {
        "time_flow_start_ns": start_ns,
        "time_flow_end_ns": start_ns + 500_000,
        "src_addr": f"10.0.0.{number % 4 + 1}",
        "dst_addr": f"10.0.1.{number % 4 + 1}",
        "src_port": 50_000 + number % 1000,
        "dst_port": 4791,
        "proto": 17,
        "bytes": 4096 * (number + 1),
        "packets": number + 1,
        "sampler_address": "192.0.2.1",
        "sampling_rate": 1,
    } | changes


def records(count: int) -> list[dict[str, Any]]:
    """Return different valid records."""
    return [record(number) for number in range(count)]


def csv_text(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = COLUMNS) -> str:
    """Write records as CSV; values are not quoted."""
    lines = [",".join(columns), *(",".join(str(row.get(name, "")) for name in columns) for row in rows)]
    return "".join(line + "\n" for line in lines)


def json_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Write records as JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def table(rows: Sequence[Mapping[str, Any]], **types: pa.DataType) -> pa.Table:
    """Return records as a table; its types are the contract's, or those given."""
    wanted = {name: pa.string() for name in COLUMNS} | TYPES | types
    return pa.table({name: pa.array([row[name] for row in rows], wanted[name]) for name in COLUMNS})


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]], **types: pa.DataType) -> Path:
    """Write records as Parquet."""
    pq.write_table(table(rows, **types), path)
    return path


def write(path: Path, text: str | bytes) -> Path:
    """Write a file."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path
