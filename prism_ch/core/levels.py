"""Levels that measured differences between them add up to, wrong ones among the differences being overruled."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array, diags_array
from scipy.sparse.linalg import spsolve

from prism_ch.core.arrays import Float64, Int32, check_equal_length

#: Rounds of reweighting, within which the weights settle.
_ROUNDS = 40

#: A residual of less than this share of the largest difference is none.
_NO_RESIDUAL = 1e-6

#: Holds a set of joined levels, which is free to move as one, near 0; next to the weight of a difference it is nothing.
_HOLD = 1e-12


def levels(first: Int32, second: Int32, difference: Float64, weight: Float64, count: int) -> Float64:
    """Find the levels for which the sum of weighted absolute deviations from measured differences is least.

    Parameters: `first`, `second` int32[m], levels, and `difference` float64[m] of the second's over the first's;
    `weight` float64[m], positive; `count`, how many levels there are.
    Returns float64[count]; levels that no chain of differences joins are at no particular distance from one another.
    Least squares would spread a wrong difference over all levels; this leaves it to those that nothing else says.
    Source: iteratively reweighted least squares, Holland & Welsch, Communications in Statistics 6, 1977.
    """
    check_equal_length(first=first, second=second, difference=difference, weight=weight)
    level = np.zeros(count)
    least = _NO_RESIDUAL * float(np.abs(difference).max(initial=0.0))
    if least == 0:
        return level
    residual = np.full(len(difference), least)
    for _ in range(_ROUNDS):
        pull = weight * least / np.maximum(np.abs(residual), least)
        one_way = coo_array((pull, (first, second)), shape=(count, count))
        joined = (one_way + one_way.T).tocsc()
        held = np.asarray(joined.sum(axis=0)).ravel()
        push = np.bincount(second, pull * difference, count) - np.bincount(first, pull * difference, count)
        level = spsolve((diags_array(held + _HOLD * weight.max()) - joined).tocsc(), push)
        residual = level[second] - level[first] - difference
    return level
