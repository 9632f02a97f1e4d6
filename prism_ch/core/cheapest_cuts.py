"""The recursion behind step_volume, compiled: import it where it is called, as numba takes long to import."""

from __future__ import annotations

import math

from prism_ch.core.arrays import Float64, Int64
from prism_ch.core.machine_code import (
    FLOAT64,
    FLOAT64_COLUMN,
    INT64,
    NEW_FLOAT64_COLUMN,
    NEW_INT64_COLUMN,
    compiled_for,
)

#: The most that a segment costs which carries too little, in squared tolerances: a burst may be lost altogether.
_DEVIATION_CAP = 16.0

#: The most that a segment costs which carries too much: nothing arrives that was not sent, so two segments in one are
#: worse than one that lacks some.
_EXCESS_CAP = 32.0


@compiled_for(FLOAT64_COLUMN, FLOAT64_COLUMN, FLOAT64, INT64, NEW_FLOAT64_COLUMN, NEW_INT64_COLUMN, exact=True)
def find_cuts(
    total: Float64, preference: Float64, tolerance: float, longest: int, best: Float64, came_from: Int64
) -> None:
    """Find the cheapest cuts of a sequence up to each item.

    Parameters: `total` float64[n + 1], what is carried up to each item, in step volumes; `preference` float64[n], for a
    segment's end after each; `longest`, the most items of a segment; `best` float64[n + 1], the costs, and `came_from`
    int64[n + 1], where last segments begin, which are filled.
    """
    best[0] = 0.0
    for stop in range(1, len(total)):
        first = max(stop - longest, 0)
        least, chosen = math.inf, first
        for begin in range(first, stop):
            carried = total[stop] - total[begin]
            deviation = (carried - 1.0) / tolerance
            cap = _EXCESS_CAP if carried > 1.0 else _DEVIATION_CAP
            cost = min(deviation * deviation, cap)
            if begin == 0 and carried < 1.0:  # the sequence may begin inside a segment
                cost = 0.0
            if best[begin] + cost < least:
                least, chosen = best[begin] + cost, begin
        best[stop], came_from[stop] = least - preference[stop - 1], chosen
