"""Finds values inside sorted groups of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from prism_ch.core.arrays import Int32, Int64
from prism_ch.core.machine_code import INT32_COLUMN, INT64_COLUMN, NEW_INT64_COLUMN, compiled_for


def group_search(value_group: Int32, values: Int64, query_group: Int32, queries: Int64) -> Int64:
    """Find the first larger value of each query's group, as np.searchsorted on the right.

    Parameters: `value_group` int32[n], `values` int64[n], sorted by (group, value); `query_group` int32[m], `queries`
    int64[m], in any order. Returns int64[m], in 0..n; past the group's last value if none is larger.
    """
    groups = int(value_group[-1]) + 1 if len(value_group) else 0
    offsets = np.searchsorted(value_group, np.arange(groups + 1, dtype=value_group.dtype))
    found = np.empty(len(queries), dtype=np.int64)
    _search(
        offsets,
        np.ascontiguousarray(values, dtype=np.int64),
        np.ascontiguousarray(query_group, dtype=np.int32),
        np.ascontiguousarray(queries, dtype=np.int64),
        found,
    )
    return found


@compiled_for(INT64_COLUMN, INT64_COLUMN, INT32_COLUMN, INT64_COLUMN, NEW_INT64_COLUMN)
def _search(offsets: Int64, values: Int64, query_group: Int32, queries: Int64, found: Int64) -> None:
    """Bisect the group of each query.

    One that follows a lesser one of its group is sought from there, in steps that double.
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
        while low < high:
            middle = (low + high) >> 1
            if values[middle] <= query:
                low = middle + 1
            else:
                high = middle
        found[row] = low
        before, lesser, at = group, query, low


def segment_search(values: npt.NDArray[Any], low: Int64, high: Int64, queries: npt.NDArray[Any]) -> Int64:
    """Count the values up to each query inside its own sorted segment.

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
