"""Moments along the edges of a graph, compiled: import it where it is called, as numba takes long to import."""

from __future__ import annotations

from prism_ch.core.arrays import Float64, Int64
from prism_ch.core.machine_code import FLOAT64_TABLE, INT64_COLUMN, NEW_FLOAT64_TABLE, compiled_for


@compiled_for(INT64_COLUMN, INT64_COLUMN, FLOAT64_TABLE, NEW_FLOAT64_TABLE, exact=True)
def follow_edges(source: Int64, target: Int64, lag: Float64, at: Float64) -> None:
    """Set each target to the latest of its sources, each and its lag.

    Parameters: `source`, `target` int64[e], all edges of a target together, and after those of its sources; `lag`
    float64[e, k]; `at` float64[nodes, k], which is changed.
    """
    before = -1
    for edge in range(len(source)):
        origin, node = source[edge], target[edge]
        if node != before:
            for step in range(at.shape[1]):
                at[node, step] = at[origin, step] + lag[edge, step]
        else:
            for step in range(at.shape[1]):
                moment = at[origin, step] + lag[edge, step]
                at[node, step] = max(at[node, step], moment)
        before = node
