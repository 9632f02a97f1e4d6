"""Small files that unpack to much are named, and landing them stays within the memory of a small machine."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.e2e.commands import command_line, prism_ch_process
from tests.records import csv_text, json_text, record, records, table

#: The memory of a process that lands any of them, in KiB; a small machine has 4 GiB.
MEMORY_KIB_MAX = 3 << 20
#: Runs a command and prints its peak memory; a child of the test would begin with the peak of the test.
MEASURED = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
"""
HEADER = csv_text(records(1)).encode()


def _with_long_name(size: int, rows: int = 1) -> pa.Table:
    whole = table(records(1)).take(pa.array([0] * rows))
    names = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * size], pa.large_string()))
    return whole.set_column(whole.schema.get_field_index("sampler_address"), "sampler_address", names)


def _zstd(path: Path, begin: bytes, piece: bytes, times: int) -> None:
    with pa.CompressedOutputStream(str(path), "zstd") as stream:
        stream.write(begin)
        for _ in range(times):
            stream.write(piece)


def _gzip(path: Path, begin: bytes, piece: bytes, times: int) -> None:
    path.write_bytes(gzip.compress(begin) + gzip.compress(piece) * times)


def _parquet_string(path: Path, size: int) -> None:
    rows = table(records(1))
    # A dictionary of it, and its statistics, would take longer to make than all other bombs.
    whole = rows.set_column(
        rows.schema.get_field_index("sampler_address"), "sampler_address", pa.array(["x" * size], pa.large_string())
    )
    pq.write_table(whole, path, compression="zstd", use_dictionary=False, write_statistics=False)


def _parquet_names(path: Path, size: int, rows: int) -> None:
    pq.write_table(_with_long_name(size, rows), path, compression="zstd")


def _arrow(path: Path, size: int) -> None:
    rows = _with_long_name(size)
    with pa.ipc.new_file(str(path), rows.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(rows)


LONG_LINE = HEADER.split(b"\n")[1].replace(b"192.0.2.1", b"q" * (10 << 20)) + b"\n"
LONG_PATH = (json.dumps(record() | {"path": ["a"] * (3 << 20)}) + "\n").encode()

#: How each bomb is made, by the name of its file.
BOMBS: dict[str, Callable[[Path], None]] = {
    "string.parquet": lambda path: _parquet_string(path, 1 << 30),
    "names.parquet": lambda path: _parquet_names(path, 1 << 20, 100_000),
    "string.arrow": lambda path: _arrow(path, 1 << 30),
    "endless.csv.zst": lambda path: _zstd(path, HEADER, b"z" * (1 << 20), 4096),
    "endless.csv.gz": lambda path: _gzip(path, HEADER, b"z" * (16 << 20), 256),
    "long.csv.zst": lambda path: _zstd(path, HEADER, LONG_LINE, 100),
    "commas.csv.zst": lambda path: _zstd(path, HEADER, b"," * (15 << 20) + b"\n", 20),
    "blank.csv.zst": lambda path: _zstd(path, HEADER, b"\n" * (1 << 20), 1000),
    "deep.jsonl.zst": lambda path: _zstd(path, json_text(records(1)).encode(), b'{"a":' * (3 << 20) + b"\n", 20),
    "path.jsonl.zst": lambda path: _zstd(path, json_text(records(1)).encode(), LONG_PATH, 20),
    "copy.parquet.zst": lambda path: _zstd(path, b"PAR1", bytes(1 << 20), 4096),
}


@pytest.mark.sweep
def test_bombs_are_named_and_need_little_memory(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert prism_ch_process("migrate", folder=data).status == 0
    for name, make in BOMBS.items():
        make(tmp_path / name)
    command = command_line("ingest", *(tmp_path / name for name in BOMBS), folder=data)
    done = subprocess.run([sys.executable, "-c", MEASURED, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    told = done.stderr.splitlines()
    assert len(told) == len(BOMBS)
    for name, line in zip(BOMBS, told, strict=True):
        assert f"/{name}" in line
    assert int(done.stdout.split()[-1]) < MEMORY_KIB_MAX
