"""Lands Parquet files that the embedded engine can read by itself, sparing it the way through Arrow.

The engine converts what it finds into the types it is asked for: a number too large wraps, an unknown one is 0. So a
file is read like that only where its own statistics show that each value fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from prism_ch.errors import StoreError
from prism_ch.ingest.batches import read_parquet
from prism_ch.ingest.columns import COLUMNS, REQUIRED
from prism_ch.store.client import Store
from prism_ch.store.statements import statement

#: Types in which the engine is to read the columns.
_TYPES = {
    "time_flow_start_ns": "Int64",
    "time_flow_end_ns": "Int64",
    "src_addr": "LowCardinality(String)",
    "dst_addr": "LowCardinality(String)",
    "src_port": "UInt16",
    "dst_port": "UInt16",
    "proto": "LowCardinality(String)",
    "bytes": "UInt64",
    "packets": "UInt64",
    "sampler_address": "LowCardinality(String)",
    "sampling_rate": "UInt32",
}
_STRUCTURE = ", ".join(f"{name} {kind}" for name, kind in _TYPES.items())
#: Highest value of each whole number, the lowest being 0 but for times.
_HIGHEST = {
    "Int64": 2**63 - 1,
    "UInt16": 2**16 - 1,
    "UInt32": 2**32 - 1,
    "UInt64": 2**64 - 1,
    "LowCardinality(String)": 255,
}

#: Rows in a block: each costs the engine a look at every address in it.
_BLOCK_ROWS = 1 << 20

#: Blocks of the same rows whenever the file is read, and little of the file in memory.
_SETTINGS = {
    "input_format_parquet_preserve_order": 1,
    "input_format_parquet_allow_missing_columns": 1,
    "input_format_parquet_memory_high_watermark": 256 << 20,
    "input_format_parquet_max_block_size": _BLOCK_ROWS,
    "input_format_parquet_prefer_block_bytes": 256 << 20,
    "min_insert_block_size_rows": _BLOCK_ROWS,
    "min_insert_block_size_bytes": 0,
}


def fits(path: Path) -> bool:
    """Tell whether the engine may read a Parquet file by itself: its columns and all values are as they should be."""
    try:
        with pa.OSFile(str(path)) as file:
            parquet = pq.ParquetFile(file)
            schema, metadata = parquet.schema_arrow, parquet.metadata
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError):
        # Whoever reads it otherwise will say what is wrong with it.
        return False
    names = [name for name in schema.names if name.strip().lower() in COLUMNS]
    if not metadata.num_rows or len(set(names)) != len(names) or not set(REQUIRED) <= set(names) <= set(_TYPES):
        return False
    places = [place for place in range(metadata.num_columns) if metadata.schema.column(place).path in names]
    return len(places) == len(names) and all(
        _column_fits(metadata.row_group(group).column(place), schema)
        for group in range(metadata.num_row_groups)
        for place in places
    )


def land_directly(store: Store, path: Path, landing: str, source: str, settings: Mapping[str, Any]) -> None:
    """Land a file that `fits`, under its identity and name; may be repeated until it succeeds.

    Raises InputError where the file is damaged, StoreError where the database fails.
    """
    parameters = {"landing": landing, "source": source, "path": str(path.resolve()), "structure": _STRUCTURE}
    token = {"insert_deduplication_token": f"{landing}-direct"}
    try:
        store.command(statement("land_parquet"), parameters, settings={**settings, **_SETTINGS, **token})
    except StoreError:
        # If the file is to blame, reading it otherwise says why.
        for _ in read_parquet(path, source):
            pass
        raise


def _column_fits(column: pq.ColumnChunkMetaData, schema: pa.Schema) -> bool:
    """Tell from its statistics whether the values of a column in a row group fit; not where there are none."""
    name = column.path_in_schema
    kind, statistics = schema.field(name).type, column.statistics
    if statistics is None or not statistics.has_null_count or statistics.null_count or not statistics.has_min_max:
        return False
    if name == "proto" and pa.types.is_string(kind):
        return bool(statistics.min)
    if _TYPES[name].startswith("LowCardinality") and name != "proto":
        return bool(pa.types.is_string(kind))
    lowest = -(2**63) if _TYPES[name] == "Int64" else 0
    return bool(pa.types.is_integer(kind)) and lowest <= statistics.min and statistics.max <= _HIGHEST[_TYPES[name]]
