"""What the batches of an Arrow file unpack to is read from their messages, without unpacking them."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.errors import InputError
from prism_ch.ingest import columnar
from prism_ch.ingest.arrow_sizes import largest_batch_bytes
from prism_ch.ingest.columnar import read_arrow
from tests.records import records, table

ROWS = 10_000


def stream(rows: pa.Table, codec: str | None) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(rows)
    return sink.getvalue()


@pytest.mark.parametrize("codec", [None, "zstd", "lz4"])
def test_memory_of_batches_is_read_before_they_are_unpacked(codec: str | None) -> None:
    plain = pa.table({"number": pa.array(range(ROWS)), "text": pa.array(["x" * 50] * ROWS)})
    for rows in (plain, plain.append_column("name", pa.array(["y" * 90] * ROWS).dictionary_encode())):
        found = largest_batch_bytes(pa.BufferReader(stream(rows, codec)))
        # Offsets and numbers take 12 bytes, codes of names 4; alignment adds a little.
        assert 62 * ROWS <= found <= 67 * ROWS


@given(st.integers(0, 2**32 - 1), st.binary(min_size=1, max_size=8))
def test_a_damaged_message_is_no_other_error(place: int, noise: bytes) -> None:
    whole = bytearray(stream(table(records(5)), "zstd"))
    whole[place % len(whole) : place % len(whole) + len(noise)] = noise
    try:
        found = largest_batch_bytes(pa.BufferReader(bytes(whole)))
    except (ValueError, OSError, pa.ArrowException):
        return
    assert found >= 0


def test_a_batch_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = table(records(200))
    (tmp_path / "a.arrows").write_bytes(stream(rows, "zstd"))
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), rows.schema) as writer:
        writer.write_table(rows)
    for name in ("a.arrow", "a.arrows"):
        assert sum(part.num_rows for part, _ in read_arrow(tmp_path / name, name)) == 200
    monkeypatch.setattr(columnar, "_BATCH_BYTES_MAX", 1 << 10)
    for name in ("a.arrow", "a.arrows"):
        with pytest.raises(InputError, match=f"{name}: has a record batch of more than"):
            list(read_arrow(tmp_path / name, name))
