"""Places of numbers among the rising numbers of a row, for many rows at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from prism_ch.core.arrays import Float64, Int64
from prism_ch.core.search import segment_search


def count_below(rows: Float64, row: Int64, value: npt.NDArray[Any]) -> Int64:
    """Count the numbers of its row that are below each value, int64[n].

    Parameters: `rows` float64[k, m], m >= 1, each rising, or NaN throughout: then none is; `row` int64[n], which of
    them; `value` [n].
    """
    low = row * rows.shape[1]
    high = np.where(np.isnan(rows[:, 0])[row], low, low + rows.shape[1])
    return segment_search(rows.ravel(), low, high, np.nextafter(value.astype(np.float64), -np.inf))


def count_up_to(rows: Float64, row: Int64, value: npt.NDArray[Any]) -> Int64:
    """Count the numbers of its row that are not above each value, int64[n]. Parameters: see `count_below`."""
    return count_below(rows, row, np.nextafter(value.astype(np.float64), np.inf))


def nearest_place(rows: Float64, row: Int64, value: npt.NDArray[Any]) -> Int64:
    """Find the number of its row that is nearest to each value, int64[n].

    Parameters: see `count_below`. Returns the first place of several as near.
    """
    after = count_below(rows, row, value)
    before, after = np.maximum(after - 1, 0), np.minimum(after, rows.shape[1] - 1)
    lower, upper = rows[row, before], rows[row, after]
    return count_below(rows, row, np.where(np.abs(lower - value) <= np.abs(upper - value), lower, upper))
