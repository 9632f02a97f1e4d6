"""What windows over sorted values hold, compiled: import it where it is called, as numba takes long to import."""

from __future__ import annotations

from prism_ch.core.arrays import Float64, Int64
from prism_ch.core.machine_code import (
    FLOAT64_COLUMN,
    INT64_COLUMN,
    NEW_FLOAT64_COLUMN,
    NEW_INT64_COLUMN,
    compiled_for,
)


@compiled_for(INT64_COLUMN, INT64_COLUMN, FLOAT64_COLUMN, INT64_COLUMN, NEW_FLOAT64_COLUMN, NEW_FLOAT64_COLUMN)
def weigh_windows(edges: Int64, values: Int64, until: Float64, width: Int64, held: Float64, fullest: Float64) -> None:
    """Weigh what the windows hold that begin at each value.

    Parameters: `edges` int64[g + 1], where groups begin in `values` int64[n], sorted within each; `until`
    float64[n + 1], the sum of the weights before each; `width` int64[g]; filled are `held` float64[n] and
    `fullest` float64[g], what the fullest window of each group holds, 0 without values.
    """
    for group in range(len(fullest)):
        end = edges[group]
        most = 0.0
        for row in range(edges[group], edges[group + 1]):
            last = values[row] + width[group]
            while end < edges[group + 1] and values[end] <= last:
                end += 1
            held[row] = until[end] - until[row]
            most = max(most, held[row])
        fullest[group] = most


@compiled_for(INT64_COLUMN, INT64_COLUMN, FLOAT64_COLUMN, FLOAT64_COLUMN, INT64_COLUMN, NEW_INT64_COLUMN)
def find_nearest(edges: Int64, values: Int64, held: Float64, enough: Float64, width: Int64, nearest: Int64) -> None:
    """Find each group's window nearest to 0 among those that hold enough.

    Its middle is the nearest to 0; of two it is the lower one.
    Parameters: as for weigh_windows; `enough` float64[g]; `nearest` int64[g] is filled with the row of the value at
    which it begins, -1 where there is none.
    """
    for group in range(len(nearest)):
        nearest[group], least = -1, 0
        for row in range(edges[group], edges[group + 1]):
            if held[row] >= enough[group]:
                distance = abs(values[row] + width[group] // 2)
                if nearest[group] < 0 or distance < least:
                    nearest[group], least = row, distance
