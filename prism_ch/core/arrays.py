"""Array types, and the checks and groupings that every algorithm of this package starts with."""

from typing import Any

import numpy as np
import numpy.typing as npt

Bool = npt.NDArray[np.bool_]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]


def check_equal_length(**columns: npt.NDArray[Any]) -> int:
    """Return the common length of the named one-dimensional columns.

    Raises ValueError, naming the column, where one has another length or is not one-dimensional.
    """
    length: int | None = None
    for name, column in columns.items():
        if column.ndim != 1:
            raise ValueError(f"{name} must be one-dimensional, not {column.ndim}-dimensional")
        if length is not None and len(column) != length:
            raise ValueError(f"{name} has {len(column)} rows where the columns before it have {length}")
        length = len(column)
    return length or 0


def check_groups(group: npt.NDArray[Any], groups: int | None) -> int:
    """Return the number of groups: `groups`, or where it is None one more than the largest id in `group`.

    Parameters: `group`, integers [n]; `groups`, an upper bound of the ids.
    Raises ValueError where an id is negative or not below `groups`.
    """
    if len(group) == 0:
        return groups or 0
    lowest, highest = int(group.min()), int(group.max())
    if lowest < 0:
        raise ValueError(f"a group is numbered {lowest}; groups count from 0")
    if groups is not None and highest >= groups:
        raise ValueError(f"a group is numbered {highest}, but there are only {groups} groups")
    return highest + 1 if groups is None else groups


def run_starts(*keys: npt.NDArray[Any]) -> Int64:
    """Return the rows at which a run of equal keys begins, int64[runs]; the keys are columns [n] sorted together."""
    rows = len(keys[0])
    opens = np.ones(rows, dtype=np.bool_)
    if rows:
        opens[1:] = False
    for key in keys:
        opens[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(opens)


def segment_search(values: npt.NDArray[Any], low: Int64, high: Int64, queries: npt.NDArray[Any]) -> Int64:
    """Count, for each query, the values <= it inside its own sorted segment; all queries are bisected at once.

    Parameters: `values` [n], sorted within each segment; `low`, `high` int64[m], the segment values[low:high] of each
    query; `queries` [m].
    Returns int64[m], in 0..high-low. Unlike numpy's searchsorted on a combined key, no sum of times can overflow.
    """
    first, last = low.copy(), high.copy()
    span = int((high - low).max()) if len(low) else 0
    for _ in range(span.bit_length()):
        middle = (first + last) >> 1
        unsettled = first < last
        below = unsettled.copy()
        below[unsettled] = values[middle[unsettled]] <= queries[unsettled]
        first = np.where(below, middle + 1, first)
        last = np.where(unsettled & ~below, middle, last)
    return first - low
