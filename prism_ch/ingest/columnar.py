"""Reads Parquet and Arrow files in chunks, in the types of the landing table, or has the engine read them.

A chunk whose numbers are numbers and fit is landed as it is. A chunk that holds anything else (text or floating-point
numbers instead of whole numbers, numbers out of range, unknown ones) is landed as text, so that the database can reject
single records with a reason.

The embedded engine reads Parquet faster by itself, but converts what it finds: a number too large wraps, an unknown one
becomes 0. So it reads only files whose own statistics show that each value fits.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from prism_ch.errors import InputError, StoreError
from prism_ch.ingest.arrow_sizes import largest_batch_bytes
from prism_ch.ingest.columns import COLUMNS, OPTIONAL, REQUIRED, find_columns
from prism_ch.store.client import Store
from prism_ch.store.statements import statement

#: Records sent in one statement.
CHUNK_ROWS = 1 << 19
#: A text of an address or a name has no more bytes.
_TEXT_BYTES_MAX = 1 << 16
#: A column of a row group takes no more memory than this, in bytes, and so much more for each of its values.
_COLUMN_BYTES_MAX, _VALUE_BYTES_MAX = 64 << 20, 256
#: The beginning of an Arrow IPC file; a stream has none.
ARROW_MAGIC = b"ARROW1"
#: Where the first message of such a file begins, in bytes.
_ARROW_FILE_HEAD_BYTES = 8
#: A record batch is held in memory as a whole; it takes no more than this, in bytes.
_BATCH_BYTES_MAX = 1 << 30

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
_ADDRESSES = ("src_addr", "dst_addr", "sampler_address")

#: The columns, and the types in which the engine reads them.
_ENGINE_TYPES = {
    **{name: str(kind).replace("uint", "UInt").replace("int", "Int") for name, kind in _NUMBERS.items()},
    **dict.fromkeys((*_ADDRESSES, "proto"), "LowCardinality(String)"),
    "path": "Array(LowCardinality(String))",
}
#: The engine reads no file whose flows cross more switches than this on average: it holds a block of them at once.
_HOPS_MAX = 64
#: Rows in a block of the engine: each block costs it a look at every address in it.
_BLOCK_ROWS = 1 << 20
#: These give blocks of the same rows whenever the file is read, and keep little of the file in memory.
_ENGINE_SETTINGS = {
    "input_format_parquet_preserve_order": 1,
    "input_format_parquet_allow_missing_columns": 1,
    "input_format_parquet_memory_high_watermark": 256 << 20,
    "input_format_parquet_max_block_size": _BLOCK_ROWS,
    "input_format_parquet_prefer_block_bytes": 256 << 20,
    "min_insert_block_size_rows": _BLOCK_ROWS,
    "min_insert_block_size_bytes": 0,
}


_Rows = TypeVar("_Rows", pa.Table, pa.RecordBatch)


def read_parquet(path: Path, source: str) -> Iterator[tuple[pa.Table, float]]:
    """Yield the canonical columns of a Parquet file in chunks, and the share read.

    Raises InputError if the file is no Parquet, lacks a column, or is damaged.
    """
    with _readable(source, "Parquet"), pa.OSFile(os.fsencode(path)) as file:
        # Read through a small buffer, so that memory does not grow with the size of the row groups.
        options = {"pre_buffer": False, "buffer_size": 1 << 20}
        schema = pq.ParquetFile(file, **options).schema_arrow
        chosen = {name: schema.names[place] for name, place in find_columns(schema.names, source).items()}
        text = [chosen[name] for name in _ADDRESSES if name in chosen and _is_text(schema.field(chosen[name]).type)]
        parquet = pq.ParquetFile(file, read_dictionary=text, **options)
        if not _has_plain_sizes(parquet.metadata, list(chosen.values())):
            raise InputError(f"{source}: has values far longer than those of flows")
        rows_read = 0
        for batch in parquet.iter_batches(batch_size=CHUNK_ROWS, columns=list(chosen.values())):
            rows_read += batch.num_rows
            columns = {name: batch.column(batch.schema.names.index(given)) for name, given in chosen.items()}
            yield _short(pa.table(columns), source), rows_read / parquet.metadata.num_rows


def read_arrow(path: Path, source: str) -> Iterator[tuple[pa.Table, float]]:
    """Yield the canonical columns of an Arrow IPC file or stream, as read_parquet does."""
    size = path.stat().st_size
    with _readable(source, "Arrow IPC"), pa.OSFile(os.fsencode(path)) as file:
        is_file = file.read(len(ARROW_MAGIC)) == ARROW_MAGIC
        file.seek(0)
        given = find_columns((pa.ipc.open_file if is_file else pa.ipc.open_stream)(file).schema.names, source)
        # A file is a stream between its beginning and its footer. Read as one, no other batch than these is unpacked.
        first = _ARROW_FILE_HEAD_BYTES if is_file else 0
        file.seek(first)
        if largest_batch_bytes(file) > _BATCH_BYTES_MAX:
            raise InputError(
                f"{source}: has a record batch of more than {_BATCH_BYTES_MAX >> 30} GiB; write smaller ones"
            )
        file.seek(first)
        reader = pa.ipc.open_stream(file, options=pa.ipc.IpcReadOptions(included_fields=sorted(given.values())))
        places = find_columns(reader.schema.names, source)
        held: list[pa.RecordBatch] = []
        for batch in reader:
            chosen = pa.RecordBatch.from_arrays([batch.column(place) for place in places.values()], list(places))
            for column in chosen.columns:
                _check_offsets(column)
            held.append(_short(chosen, source))
            if sum(part.num_rows for part in held) >= CHUNK_ROWS:
                yield from ((table, file.tell() / size) for table in _chunks(held))
                held = []
        yield from ((table, 1.0) for table in _chunks(held))


def _check_offsets(column: pa.Array) -> None:
    """Raise ArrowInvalid where a column points behind its own end.

    A file of Arrow is memory as it is, and what is computed from it trusts it. Texts may hold bytes that are no UTF-8:
    the database rejects the records that it can't use.
    """
    column.validate()
    kind = column.type
    if pa.types.is_dictionary(kind):
        _check_offsets(column.dictionary)
        pa.DictionaryArray.from_arrays(column.indices, pa.nulls(len(column.dictionary)), safe=True)
    elif _is_list(kind):
        _check_offsets(column.values)
        lists = pa.large_list(pa.null()) if pa.types.is_large_list(kind) else pa.list_(pa.null())
        children = [pa.nulls(len(column.values))]
        buffers = column.buffers()[:2]
        pa.Array.from_buffers(lists, len(column), buffers, offset=column.offset, children=children).validate(full=True)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column.view(pa.large_binary() if pa.types.is_large_string(kind) else pa.binary()).validate(full=True)
    else:
        column.validate(full=True)


def _short(rows: _Rows, source: str) -> _Rows:
    """Return rows unchanged. Raises InputError if a text in them is too long."""
    for name in rows.schema.names:
        column = rows.column(name)
        kind = column.type
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            texts = chunk.dictionary if pa.types.is_dictionary(kind) else chunk
            texts = texts.flatten() if _is_list(texts.type) else texts
            is_text = pa.types.is_binary(texts.type) or pa.types.is_large_binary(texts.type) or _is_text(texts.type)
            if is_text and len(texts) and (pc.max(pc.binary_length(texts)).as_py() or 0) > _TEXT_BYTES_MAX:
                raise InputError(f"{source}: column {name} has a text of more than {_TEXT_BYTES_MAX >> 10} KiB")
    return rows


def _has_plain_sizes(metadata: pq.FileMetaData, names: Sequence[str]) -> bool:
    """Return whether columns declare no more memory than those of flows take."""
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    columns = [group.column(place) for group in groups for place in range(group.num_columns)]
    return all(
        column.total_uncompressed_size <= _COLUMN_BYTES_MAX + _VALUE_BYTES_MAX * column.num_values
        for column in columns
        if column.path_in_schema.partition(".")[0] in names
    )


def landing_rows(table: pa.Table, source: str) -> tuple[str, pa.Table]:
    """Convert a chunk of canonical columns; return the table it lands in, and its rows.

    Raises InputError if a column holds neither numbers nor text.
    """
    typed = _typed(table)
    if typed is not None:
        return "flow_landing", typed
    return "flow_fields", pa.table({name: _as_text(table[name], name, source) for name in table.column_names})


def engine_can_read(path: Path) -> bool:
    """Return whether the statistics of a Parquet file show that all its values fit."""
    try:
        with pa.OSFile(os.fsencode(path)) as file:
            parquet = pq.ParquetFile(file)
            schema, metadata = parquet.schema_arrow, parquet.metadata
        str(path).encode()  # the engine takes names that are UTF-8
    except (pa.ArrowException, OSError, UnicodeError):
        # read_parquet() explains what is wrong with it.
        return False
    names = [name for name in schema.names if name.strip().lower() in COLUMNS]
    if not metadata.num_rows or len(set(names)) != len(names) or not set(REQUIRED) <= set(names) <= set(_ENGINE_TYPES):
        return False
    paths = [metadata.schema.column(place).path for place in range(metadata.num_columns)]
    places = [place for place, path in enumerate(paths) if path.partition(".")[0] in names]
    return (
        len(places) == len(names)
        and _has_plain_sizes(metadata, names)
        and all(
            _column_fits(group.column(place), group.num_rows, schema)
            for group in (metadata.row_group(number) for number in range(metadata.num_row_groups))
            for place in places
        )
    )


def land_by_engine(store: Store, path: Path, landing: str, source: str, settings: Mapping[str, Any]) -> None:
    """Have the engine land a Parquet file, for which engine_can_read() holds.

    It may be repeated until it succeeds. Raises InputError if the file is damaged, StoreError if the database fails.
    """
    structure = ", ".join(f"{name} {kind}" for name, kind in _ENGINE_TYPES.items())
    parameters = {
        "landing": landing,
        "source": source,
        "path": str(path.resolve()),
        "structure": structure,
        "text_bytes_max": _TEXT_BYTES_MAX,
    }
    token = {"insert_deduplication_token": f"{landing}-direct"}
    try:
        store.command(statement("land_parquet"), parameters, settings={**settings, **_ENGINE_SETTINGS, **token})
    except StoreError:
        # If the file is damaged, reading it otherwise raises InputError.
        for _ in read_parquet(path, source):
            pass
        raise


def _typed(table: pa.Table) -> pa.Table | None:
    """Convert columns to the types of the landing table. None if a value does not fit."""
    columns: dict[str, pa.ChunkedArray] = {}
    for name in table.column_names:
        column = table[name]
        if name == "path":
            fitted, given = _typed_path(column), name
        elif name in _ADDRESSES:
            fitted, given = (_known_text(column), name) if _is_text(column.type) else (None, name)
        elif name == "proto" and _is_text(column.type):
            # The database takes an empty name for a protocol that is given as a number elsewhere.
            fitted, given = (None if column.null_count or _has_empty(column) else column), "proto_name"
        else:
            fitted, given = _typed_number(column, name), name
        if fitted is None:
            return None
        columns[given] = fitted
    return pa.table(columns)


def _typed_number(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray | None:
    """Convert whole numbers. None if one is not whole, does not fit, or is unknown but needed."""
    if not pa.types.is_integer(column.type) or (column.null_count and name not in OPTIONAL):
        return None
    try:
        column = column.cast(_NUMBERS[name])
    except pa.ArrowInvalid:
        return None
    return column.fill_null(0) if column.null_count else column


def _typed_path(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Convert lists of names, unknown ones to empty ones. None if they are no lists of text in UTF-8."""
    if not _is_list(column.type) or not _is_text(column.type.value_type):
        return None
    lists = column.combine_chunks()
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    offsets = np.concatenate([[0], np.cumsum(lengths.to_numpy(zero_copy_only=False))]).astype(np.int32)
    names = pc.fill_null(pc.list_flatten(lists).cast(pa.string()), "")
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return pa.chunked_array([pa.ListArray.from_arrays(offsets, names)])


def _as_text(column: pa.ChunkedArray, name: str, source: str) -> pa.ChunkedArray:
    try:
        if _is_list(column.type):
            return pc.binary_join(column.cast(pa.list_(pa.string())), "|").fill_null("")
        if pa.types.is_floating(column.type):
            column = _float_text(column)
        return column.cast(pa.string()).fill_null("")
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise InputError(f"{source}: column {name} is {column.type}, which is neither numbers nor text") from error


def _float_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    whole = pc.and_(pc.equal(pc.floor(column), column), pc.less(pc.abs(column), float(2**63)))
    numbers = pc.if_else(whole, column, 0.0).cast(pa.int64())
    return pc.if_else(whole, numbers.cast(pa.string()), column.cast(pa.string()))


def _known_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string()).fill_null("") if column.null_count else column


def _has_empty(column: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.equal(column.cast(pa.string()), "")).as_py())


def _is_text(kind: pa.DataType) -> bool:
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value) or pa.types.is_string_view(value))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _chunks(batches: list[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join batches and yield them as tables of CHUNK_ROWS rows; the last may have fewer."""
    if not batches:
        return
    whole = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    for start in range(0, whole.num_rows, CHUNK_ROWS):
        yield whole.slice(start, CHUNK_ROWS)


@contextmanager
def _readable(source: str, what: str) -> Iterator[None]:
    try:
        yield
    except pa.ArrowMemoryError:  # the machine's fault
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"{source}: can't be read as {what}: {reason[:300]}") from error


def _column_fits(column: pq.ColumnChunkMetaData, rows: int, schema: pa.Schema) -> bool:
    """Return whether a column's values fit in a row group, as statistics show."""
    name = column.path_in_schema.partition(".")[0]
    kind, statistics = schema.field(name).type, column.statistics
    if name == "path":
        return _is_list(kind) and _is_text(kind.value_type) and column.num_values <= _HOPS_MAX * rows
    if statistics is None or not statistics.has_null_count or statistics.null_count or not statistics.has_min_max:
        return False
    if name in _ADDRESSES:
        return bool(pa.types.is_string(kind))
    if name == "proto" and pa.types.is_string(kind):
        return bool(statistics.min)
    width, is_signed = _NUMBERS[name].bit_width, pa.types.is_signed_integer(_NUMBERS[name])
    lowest, highest = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if is_signed else (0, 2**width - 1)
    return bool(pa.types.is_integer(kind)) and lowest <= statistics.min and statistics.max <= highest
