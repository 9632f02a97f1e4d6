"""Finds values inside sorted groups of rows."""

from __future__ import annotations

import numpy as np

from prism_ch.core.arrays import Float64, Int32, Int64


def group_search(value_group: Int32, values: Int64, query_group: Int32, queries: Int64) -> Int64:
    """Find the first larger value of each query's group, as np.searchsorted on the right.

    Parameters: `value_group` int32[n], `values` int64[n], sorted by (group, value); `query_group` int32[m], `queries`
    int64[m], in any order. Returns int64[m], in 0..n; past the group's last value if none is larger.
    """
    from prism_ch.core.bisection import bisect_groups  # noqa: PLC0415 - loads a compiler

    groups = int(value_group[-1]) + 1 if len(value_group) else 0
    offsets = np.searchsorted(value_group, np.arange(groups + 1, dtype=value_group.dtype))
    found = np.empty(len(queries), dtype=np.int64)
    bisect_groups(
        offsets,
        np.ascontiguousarray(values, dtype=np.int64),
        np.ascontiguousarray(query_group, dtype=np.int32),
        np.ascontiguousarray(queries, dtype=np.int64),
        found,
    )
    return found


def segment_search(values: Float64, low: Int64, high: Int64, queries: Float64) -> Int64:
    """Count the values up to each query inside its own sorted segment.

    Parameters: `values` float64[n], sorted within each segment; `low`, `high` int64[m], the segment values[low:high] of
    each query; `queries` float64[m]. Returns int64[m], in 0..high-low.
    """
    from prism_ch.core.bisection import bisect_segments  # noqa: PLC0415 - loads a compiler

    found = np.empty(len(queries), dtype=np.int64)
    low, high = np.ascontiguousarray(low, dtype=np.int64), np.ascontiguousarray(high, dtype=np.int64)
    bisect_segments(np.ascontiguousarray(values), low, high, np.ascontiguousarray(queries), found)
    return found
