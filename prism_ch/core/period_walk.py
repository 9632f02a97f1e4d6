"""The walk behind places_in_period, compiled: import it where it is called, as numba takes long to import."""

from __future__ import annotations

from prism_ch.core.arrays import Bool, Float64, Int64
from prism_ch.core.machine_code import (
    FLOAT64,
    FLOAT64_TABLE,
    INT64_COLUMN,
    NEW_BOOL_TABLE,
    NEW_FLOAT64_TABLE,
    NEW_INT64_COLUMN,
    compiled_for,
)


@compiled_for(
    INT64_COLUMN,
    FLOAT64_TABLE,
    FLOAT64,
    NEW_FLOAT64_TABLE,
    NEW_BOOL_TABLE,
    NEW_INT64_COLUMN,
    NEW_INT64_COLUMN,
    exact=True,
)
def walk_round(
    code: Int64,
    disagrees: Float64,
    jump_cost: float,
    costs: Float64,
    jumped: Bool,
    cheapest: Int64,
    places: Int64,
) -> None:
    """Find the walk round a pattern, a place a symbol, with the fewest disagreements.

    Parameters: `code` int64[n], the kind of each symbol; `disagrees` float64[kinds, period], 1 with places of the
    pattern that are of another kind, else 0; `jump_cost`, of a step that does not go to the next place. Filled are
    `costs` float64[2, period] of walks up to now and before, `jumped` bool[n, period], `cheapest` int64[n], from where
    jumps are made, and the `places` int64[n].
    """
    rows, period = jumped.shape
    for place in range(period):
        costs[0, place] = disagrees[code[0], place]
    for row in range(1, rows):
        before, now = (row - 1) % 2, row % 2
        least = 0
        for place in range(1, period):
            if costs[before, place] < costs[before, least]:
                least = place
        cheapest[row] = least
        jump = costs[before, least] + jump_cost
        for place in range(period):
            going_on = costs[before, place - 1 if place else period - 1]
            jumped[row, place] = jump < going_on
            costs[now, place] = min(jump, going_on) + disagrees[code[row], place]
    last = (rows - 1) % 2
    places[rows - 1] = 0
    for place in range(1, period):
        if costs[last, place] < costs[last, places[rows - 1]]:
            places[rows - 1] = place
    for row in range(rows - 1, 0, -1):
        place = places[row]
        places[row - 1] = cheapest[row] if jumped[row, place] else (place - 1 if place else period - 1)
