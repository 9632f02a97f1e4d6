"""Which place of its period each symbol of a repeating sequence holds, in spite of missing and extra symbols."""

from __future__ import annotations

import numpy as np

from prism_ch.core.arrays import Int64

#: A symbol more or less than the period has costs as much as so many that merely differ: two in a row are noise now
#: and then, while all that follows a place once lost differs.
JUMP_COST = 2.5


def places_in_period(symbols: Int64, period: int) -> Int64:
    """Return the place in the period that each symbol of a repeating sequence holds, int64[n] in 0..period - 1.

    Parameters: `symbols` int64[n], any integers; `period`, 1..n (see `periodicity.sequence_period`).
    Which symbol has place 0 is arbitrary. Raises ValueError on a period out of range.

    1. The pattern is the stretch of one period that agrees best with what comes one period earlier and later.
    2. Of all walks round and round the pattern, one place a symbol, the one with the fewest disagreements is taken. A
       missing or an extra symbol is a jump, which costs JUMP_COST.
    Source: Viterbi, "Error Bounds for Convolutional Codes", IEEE Transactions on Information Theory 13, 1967.
    """
    if not 1 <= period <= len(symbols):
        raise ValueError(f"a period of {period} does not fit {len(symbols)} symbols")
    pattern = _clearest_period(symbols, period)
    rows = len(symbols)
    jumped = np.zeros((rows, period), dtype=np.bool_)
    cheapest = np.zeros(rows, dtype=np.int64)
    cost = (pattern != symbols[0]).astype(np.float64)
    for row in range(1, rows):
        cheapest[row] = np.argmin(cost)
        jump = cost[cheapest[row]] + JUMP_COST
        going_on = np.roll(cost, 1)
        jumped[row] = jump < going_on
        cost = np.minimum(going_on, jump) + (pattern != symbols[row])
    places = np.empty(rows, dtype=np.int64)
    places[-1] = np.argmin(cost)
    for row in range(rows - 1, 0, -1):
        places[row - 1] = cheapest[row] if jumped[row, places[row]] else (places[row] - 1) % period
    return places


def _clearest_period(symbols: Int64, period: int) -> Int64:
    """Return the stretch of one period whose symbols agree most often with those one period earlier and later."""
    agrees = np.zeros(len(symbols), dtype=np.int64)
    agrees[period:] += symbols[period:] == symbols[:-period]
    agrees[:-period] += symbols[:-period] == symbols[period:]
    total = np.concatenate([[0], np.cumsum(agrees)])
    first = int(np.argmax(total[period:] - total[:-period]))
    return symbols[first : first + period]
