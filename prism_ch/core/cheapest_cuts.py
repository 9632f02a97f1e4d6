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
    inlined,
)

#: The most that a segment costs which carries too little, in squared tolerances: a burst may be lost altogether.
_DEVIATION_CAP = 16.0

#: The most that a segment costs which carries too much: nothing arrives that was not sent, so two segments in one are
#: worse than one that lacks some.
_EXCESS_CAP = 32.0


#: Keeps a segment that would cost just less than the cap among those that are compared, whatever rounding does.
_BEYOND = 1.0 + 1e-9


@inlined
def _appended(queue: Int64, head: int, tail: int, best: Float64, cap: float, begin: int) -> int:
    """Append a begin to a queue, and return where the queue ends.

    It holds those that no later one undercuts.
    """
    while tail > head and best[queue[tail - 1]] + cap > best[begin] + cap:
        tail -= 1
    queue[tail] = begin
    return tail + 1


@inlined
def _without(queue: Int64, head: int, tail: int, first: int) -> int:
    """Return where a queue begins without the begins before the first that counts."""
    while head < tail and queue[head] < first:
        head += 1
    return head


@inlined
def _first_lighter(total: Float64, stop: int, begin: int, carried: float) -> int:
    """Return the first begin, from one on, that leaves no more than a volume."""
    while begin < stop and total[stop] - total[begin] > carried:
        begin += 1
    return begin


@compiled_for(
    FLOAT64_COLUMN,
    FLOAT64_COLUMN,
    FLOAT64,
    INT64,
    NEW_FLOAT64_COLUMN,
    NEW_INT64_COLUMN,
    NEW_INT64_COLUMN,
    NEW_INT64_COLUMN,
    exact=True,
)
def find_cuts(
    total: Float64,
    preference: Float64,
    tolerance: float,
    longest: int,
    best: Float64,
    came_from: Int64,
    heavy: Int64,
    light: Int64,
) -> None:
    """Find the cheapest cuts of a sequence up to each item.

    Parameters: `total` float64[n + 1], what is carried up to each item, in step volumes; `preference` float64[n], for a
    segment's end after each; `longest`, the most items of a segment; `best` float64[n + 1], the costs, and `came_from`
    int64[n + 1], where last segments begin, which are filled; `heavy` and `light` int64[n + 1], room for queues.

    Segments that carry so much, or so little, that they cost the cap differ only in where they begin, and the cheapest
    such begin of each kind is the first of a queue. Only those in between are compared one by one.
    Source: Lemire, "Streaming Maximum-Minimum Filter Using No More than Three Comparisons per Element", 2006.
    """
    too_much = 1.0 + math.sqrt(_EXCESS_CAP) * tolerance * _BEYOND
    too_little = 1.0 - math.sqrt(_DEVIATION_CAP) * tolerance * _BEYOND
    best[0] = 0.0
    heavy_head, heavy_tail, light_head, light_tail = 0, 0, 0, 0
    begun, until = 0, 0
    for stop in range(1, len(total)):
        first = max(stop - longest, 0)
        begun_before, begun = begun, _first_lighter(total, stop, begun, too_much)
        for begin in range(begun_before, begun):
            heavy_tail = _appended(heavy, heavy_head, heavy_tail, best, _EXCESS_CAP, begin)
        heavy_head = _without(heavy, heavy_head, heavy_tail, first)
        until = _first_lighter(total, stop, until, too_little)
        light_tail = _appended(light, light_head, light_tail, best, _DEVIATION_CAP, stop - 1)
        light_head = _without(light, light_head, light_tail, max(first, until))
        least, chosen = math.inf, first
        if first == 0 and total[stop] - total[0] < 1.0:  # the sequence may begin inside a segment
            least = best[0]
        if heavy_head < heavy_tail and best[heavy[heavy_head]] + _EXCESS_CAP < least:
            least, chosen = best[heavy[heavy_head]] + _EXCESS_CAP, heavy[heavy_head]
        for begin in range(max(first, begun), until):
            if best[begin] < least:
                carried = total[stop] - total[begin]
                deviation = (carried - 1.0) / tolerance
                cost = best[begin] + min(deviation * deviation, _EXCESS_CAP if carried > 1.0 else _DEVIATION_CAP)
                if cost < least:
                    least, chosen = cost, begin
        if light_head < light_tail and best[light[light_head]] + _DEVIATION_CAP < least:
            least, chosen = best[light[light_head]] + _DEVIATION_CAP, light[light_head]
        best[stop], came_from[stop] = least - preference[stop - 1], chosen
