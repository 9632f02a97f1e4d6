"""Bisection of sorted groups of rows, compiled: import it where it is called, as numba takes long to import."""

from __future__ import annotations

from prism_ch.core.arrays import Float64, Int32, Int64
from prism_ch.core.machine_code import (
    FLOAT64_COLUMN,
    INT32_COLUMN,
    INT64_COLUMN,
    NEW_INT64_COLUMN,
    compiled_for,
    inlined,
)


@inlined
def _first_larger(values: Int64 | Float64, low: int, high: int, query: float) -> int:
    """Find the first row of values[low:high], sorted, that is larger than a query."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] <= query:
            low = middle + 1
        else:
            high = middle
    return low


@compiled_for(INT64_COLUMN, INT64_COLUMN, INT32_COLUMN, INT64_COLUMN, NEW_INT64_COLUMN)
def bisect_groups(offsets: Int64, values: Int64, query_group: Int32, queries: Int64, found: Int64) -> None:
    """Find the first larger value of each query's group, as search.group_search() does.

    A query that follows a lesser one of its group is sought from there, in steps that double.
    Parameters: `offsets` int64[groups + 1], where the values of each group begin; `found` int64[m], which is filled.
    Source: Bentley & Yao, "An Almost Optimal Algorithm for Unbounded Searching", Inf. Process. Lett. 5, 1976.
    """
    groups = len(offsets) - 1
    before, lesser, at = -1, 0, 0
    for row in range(len(queries)):
        group, query = query_group[row], queries[row]
        if not 0 <= group < groups:
            found[row] = 0 if group < 0 else offsets[groups]
            continue
        low, high = offsets[group], offsets[group + 1]
        if group == before and query >= lesser:
            low, bound = at, 1
            while low + bound <= high:
                if values[low + bound - 1] > query:
                    high = low + bound - 1
                    break
                low += bound
                bound *= 2
        low = _first_larger(values, low, high, query)
        found[row] = low
        before, lesser, at = group, query, low


@compiled_for(FLOAT64_COLUMN, INT64_COLUMN, INT64_COLUMN, FLOAT64_COLUMN, NEW_INT64_COLUMN, exact=True)
def bisect_segments(values: Float64, low: Int64, high: Int64, queries: Float64, found: Int64) -> None:
    """Count the values up to each query in its segment, as search.segment_search() does.

    Parameters: `found` int64[m], which is filled.
    """
    for row in range(len(queries)):
        found[row] = _first_larger(values, low[row], high[row], queries[row]) - low[row]
