"""The canonical columns of a flow record, and where a file has them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from prism_ch.errors import InputError

#: Names of the columns in the order in which the database's tables for text take their places.
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
    "path",
)
#: Columns that a file may leave out, because there is a value that means unknown.
OPTIONAL = ("src_port", "dst_port", "sampler_address", "sampling_rate", "path")
REQUIRED = tuple(name for name in COLUMNS if name not in OPTIONAL)


def find_columns(names: Sequence[str], source: str) -> dict[str, int]:
    """Return where the canonical columns are among a file's columns, from 0; those that are not there are left out.

    Parameters: `names`, as the file has them, in any order, case and number; `source`, the file's name.
    Raises InputError where a required column is missing, or a canonical one is there twice.
    """
    seen = [name.strip().lower() for name in names]
    missing = [name for name in REQUIRED if name not in seen]
    if missing:
        shown = ", ".join(repr(name[:40]) for name in names[:20]) + (", ..." if len(names) > 20 else "")
        nothing = len(missing) == len(REQUIRED)
        lack = "none of the columns of a flow record" if nothing else f"no column {', '.join(missing)}"
        hint = "; is the line with the names of the columns missing?" if nothing else ""
        raise InputError(
            f"{source}: has {lack}; expected are {', '.join(REQUIRED)}"
            f" and, where known, {', '.join(OPTIONAL)}; found are {shown}{hint}"
        )
    twice = [name for name in COLUMNS if seen.count(name) > 1]
    if twice:
        raise InputError(f"{source}: has more than one column {', '.join(twice)}; leave one of each")
    return {name: seen.index(name) for name in COLUMNS if name in seen}


def constant(text: str, rows: int) -> pa.DictionaryArray:
    """Return a column of one repeated text."""
    return pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), [text])
