"""Real files of every format, and the ways in which fuzzing damages them."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.records import csv_text, json_text, records, table

COLLECTORS = Path(__file__).parent / "data" / "collectors"

Mutation = Callable[[bytes, random.Random], bytes]


def originals(folder: Path) -> list[tuple[str, bytes]]:
    """Return real files as suffix and content, made in a folder or shipped with the tests."""
    rows = records(20)
    found = [(".csv", csv_text(rows).encode()), (".jsonl", json_text(rows).encode())]
    found.append((".csv.gz", gzip.compress(csv_text(rows).encode())))
    found.append((".jsonl.zst", bytes(pa.compress(json_text(rows).encode(), "zstd", asbytes=True))))
    path = folder / "original"
    for codec in ("none", "snappy", "zstd"):
        pq.write_table(table(rows), path, compression=codec)
        found.append((".parquet", path.read_bytes()))
    for suffix, opened in ((".arrow", pa.ipc.new_file), (".arrows", pa.ipc.new_stream)):
        with opened(str(path), table(rows).schema) as writer:
            writer.write_table(table(rows))
        found.append((suffix, path.read_bytes()))
    shipped = sorted(each for each in COLLECTORS.rglob("*") if each.is_file() and 0 < each.stat().st_size < 1 << 16)
    return found + [("".join(each.suffixes[-2:]) or ".json", each.read_bytes()) for each in shipped[:20]]


def _flip_bits(content: bytes, chance: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 3, 50))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def _flip_in_footer(content: bytes, chance: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(chance.choice((1, 2, 5))):
        data[-chance.randrange(1, min(len(data), 1500) + 1)] ^= 1 << chance.randrange(8)
    return bytes(data)


def _cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))]


def _drop_middle(content: bytes, chance: random.Random) -> bytes:
    begin = chance.randrange(len(content))
    return content[:begin] + content[begin + chance.randrange(1, 64) :]


def _repeat_piece(content: bytes, chance: random.Random) -> bytes:
    begin = chance.randrange(len(content))
    return (
        content[:begin] + content[begin : begin + chance.randrange(1, 200)] * chance.randrange(2, 300) + content[begin:]
    )


def _extreme_bytes(content: bytes, chance: random.Random) -> bytes:
    begin = chance.randrange(len(content))
    filler = chance.choice(
        (b"\xff" * 8, b"\x00" * 8, b"\x7f\xff\xff\xff", b"9" * 30, b"[" * 5000, b'"', b"," * 70_000, b"\n")
    )
    return content[:begin] + filler + content[begin + chance.choice((0, len(filler))) :]


def _noise(content: bytes, chance: random.Random) -> bytes:
    return content[:8] + chance.randbytes(chance.randrange(2000))


#: Ways to damage a file, by name.
MUTATIONS: Mapping[str, Mutation] = {
    "flip bits": _flip_bits,
    "flip in footer": _flip_in_footer,
    "cut": _cut,
    "drop middle": _drop_middle,
    "repeat piece": _repeat_piece,
    "extreme bytes": _extreme_bytes,
    "noise": _noise,
}
