"""Brings the columns of Parquet and Arrow files into the types of the landing table, a batch at a time.

A batch whose numbers are numbers and fit is landed as it is. One that holds anything else (text or floating-point
numbers where whole numbers belong, numbers out of range, unknown ones) is landed as text, so that the database can say
of each record what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from prism_ch.errors import InputError
from prism_ch.ingest.columns import OPTIONAL, find_columns

#: Records sent in one statement.
CHUNK_ROWS = 1 << 19

_NUMBERS = {
    "time_flow_start_ns": pa.int64(),
    "time_flow_end_ns": pa.int64(),
    "src_port": pa.uint16(),
    "dst_port": pa.uint16(),
    "proto": pa.uint8(),
    "bytes": pa.uint64(),
    "packets": pa.uint64(),
    "sampling_rate": pa.uint32(),
}
#: How an Arrow IPC file begins; a stream does not.
ARROW_MAGIC = b"ARROW1"
_ADDRESSES = ("src_addr", "dst_addr", "sampler_address")


def read_parquet(path: Path, source: str) -> Iterator[tuple[pa.Table, float]]:
    """Yield the canonical columns of a Parquet file, CHUNK_ROWS rows at a time, and the share of it read.

    Raises InputError where the file is no Parquet, lacks a column, or is damaged.
    """
    with _damage(source, "Parquet"), pa.OSFile(str(path)) as file:
        # Read as a stream, memory does not grow with the size of the row groups.
        options = {"pre_buffer": False, "buffer_size": 1 << 20}
        schema = pq.ParquetFile(file, **options).schema_arrow
        chosen = {name: schema.names[place] for name, place in find_columns(schema.names, source).items()}
        text = [chosen[name] for name in _ADDRESSES if name in chosen and _is_text(schema.field(chosen[name]).type)]
        parquet = pq.ParquetFile(file, read_dictionary=text, **options)
        rows_read = 0
        for batch in parquet.iter_batches(batch_size=CHUNK_ROWS, columns=list(chosen.values())):
            rows_read += batch.num_rows
            columns = {name: batch.column(batch.schema.names.index(given)) for name, given in chosen.items()}
            yield pa.table(columns), rows_read / parquet.metadata.num_rows


def read_arrow(path: Path, source: str) -> Iterator[tuple[pa.Table, float]]:
    """Yield the canonical columns of an Arrow IPC file or stream, as read_parquet does."""
    size = path.stat().st_size
    with _damage(source, "Arrow IPC"), pa.OSFile(str(path)) as file:
        is_file = file.read(len(ARROW_MAGIC)) == ARROW_MAGIC
        file.seek(0)
        reader = pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)
        places = find_columns(reader.schema.names, source)
        batches = (reader.get_batch(i) for i in range(reader.num_record_batches)) if is_file else iter(reader)
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(pa.RecordBatch.from_arrays([batch.column(place) for place in places.values()], list(places)))
            if sum(part.num_rows for part in held) >= CHUNK_ROWS:
                yield from ((table, file.tell() / size) for table in _chunks(held))
                held = []
        yield from ((table, 1.0) for table in _chunks(held))


def landing_rows(table: pa.Table, source: str) -> tuple[str, pa.Table]:
    """Return the name of the table that a chunk of canonical columns lands in, and its rows for it.

    Raises InputError where a column holds neither numbers nor text.
    """
    typed = _typed(table)
    if typed is not None:
        return "flow_landing", typed
    return "flow_fields", pa.table({name: _as_text(table[name], name, source) for name in table.column_names})


def _typed(table: pa.Table) -> pa.Table | None:
    """Return the columns in the types of the landing table, or None where a value does not fit them."""
    columns: dict[str, pa.ChunkedArray] = {}
    for name in table.column_names:
        column = table[name]
        if name == "path":
            fitted, given = _typed_path(column), name
        elif name in _ADDRESSES:
            fitted, given = (_known_text(column), name) if _is_text(column.type) else (None, name)
        elif name == "proto" and _is_text(column.type):
            # An empty name would be taken for a number that is given elsewhere.
            fitted, given = (None if column.null_count or _has_empty(column) else column), "proto_name"
        else:
            fitted, given = _typed_number(column, name), name
        if fitted is None:
            return None
        columns[given] = fitted
    return pa.table(columns)


def _typed_number(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray | None:
    """Return whole numbers in the landing table's type; None where they are none, don't fit, or needed but unknown."""
    if not pa.types.is_integer(column.type) or (column.null_count and name not in OPTIONAL):
        return None
    try:
        column = column.cast(_NUMBERS[name])
    except pa.ArrowInvalid:
        return None
    return column.fill_null(0) if column.null_count else column


def _typed_path(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return lists of names, an unknown list or name as an empty one; None where they are no lists of text."""
    if not _is_list(column.type) or not _is_text(column.type.value_type):
        return None
    lists = column.combine_chunks()
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    offsets = np.concatenate([[0], np.cumsum(lengths.to_numpy(zero_copy_only=False))]).astype(np.int32)
    names = pc.fill_null(pc.list_flatten(lists).cast(pa.string()), "")
    return pa.chunked_array([pa.ListArray.from_arrays(offsets, names)])


def _as_text(column: pa.ChunkedArray, name: str, source: str) -> pa.ChunkedArray:
    """Return any column as text, unknown values as empty ones."""
    try:
        if _is_list(column.type):
            return pc.binary_join(column.cast(pa.list_(pa.string())), "|").fill_null("")
        if pa.types.is_floating(column.type):
            column = _plain(column)
        return column.cast(pa.string()).fill_null("")
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise InputError(f"{source}: column {name} is {column.type}, which is neither numbers nor text") from error


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return floating-point numbers as text, whole ones without point and exponent."""
    whole = pc.and_(pc.equal(pc.floor(column), column), pc.less(pc.abs(column), float(2**63)))
    numbers = pc.if_else(whole, column, 0.0).cast(pa.int64())
    return pc.if_else(whole, numbers.cast(pa.string()), column.cast(pa.string()))


def _known_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of text, unknown ones as empty ones."""
    return column.cast(pa.string()).fill_null("") if column.null_count else column


def _has_empty(column: pa.ChunkedArray) -> bool:
    """Tell whether a column of text holds an empty one."""
    return bool(pc.any(pc.equal(column.cast(pa.string()), "")).as_py())


def _is_text(kind: pa.DataType) -> bool:
    """Tell whether a type is text, plain or as a dictionary."""
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value) or pa.types.is_string_view(value))


def _is_list(kind: pa.DataType) -> bool:
    """Tell whether a type is a list of any length."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _chunks(batches: list[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield batches as tables of CHUNK_ROWS rows each; the last may have fewer."""
    if not batches:
        return
    whole = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    for start in range(0, whole.num_rows, CHUNK_ROWS):
        yield whole.slice(start, CHUNK_ROWS)


@contextmanager
def _damage(source: str, what: str) -> Iterator[None]:
    """Turn what Arrow says of a file it can't read into InputError."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"{source}: can't be read as {what}: {reason[:300]}") from error
