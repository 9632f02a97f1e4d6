"""Compares observations two by two, compiled: import it where it is called, as numba takes long to import."""

from __future__ import annotations

from prism_ch.core.machine_code import (
    FLOAT64,
    INT64_COLUMN,
    NEW_FLOAT64_COLUMN,
    NEW_INT64_COLUMN,
    UINT32_COLUMN,
    compiled_for,
    inlined,
)
from prism_ch.model.columns import Float64, Int64, UInt32


@inlined
def _are_alike(mine: int, theirs: int, same_count: float) -> bool:
    """Check whether two counts differ by a share at most. They may be unsigned: nothing below 0 is computed."""
    most = max(mine, theirs)
    return most - min(mine, theirs) <= same_count * most


@compiled_for(*[INT64_COLUMN] * 7, UINT32_COLUMN, FLOAT64, FLOAT64, NEW_INT64_COLUMN, NEW_FLOAT64_COLUMN, exact=True)
def compare_times(  # noqa: PLR0913, PLR0917 - a column each
    row: Int64,
    before: Int64,
    begin: Int64,
    count: Int64,
    start_ns: Int64,
    end_ns: Int64,
    octets: Int64,
    packets: UInt32,
    same_count: float,
    unlike_weight: float,
    apart_ns: Int64,
    weight: Float64,
) -> None:
    """Compare the times of observations with those of others, and weigh each comparison.

    It gives how much later the others started and ended, and weighs 1 where their bytes or packets differ by a share of
    at most `same_count`, else `unlike_weight`.
    Parameters: `row` int64[n], the observations, rows of the four columns after `count`; `before` int64[k], of these,
    and for each the `count` int64[k] others from `begin` int64[k] on; `apart_ns` int64[2m], `weight` float64[2m] are
    filled, with all starts first.
    """
    half, at = len(apart_ns) // 2, 0
    for number in range(len(before)):
        one = row[before[number]]
        for place in range(begin[number], begin[number] + count[number]):
            other = row[place]
            apart_ns[at], apart_ns[half + at] = start_ns[other] - start_ns[one], end_ns[other] - end_ns[one]
            alike = _are_alike(octets[one], octets[other], same_count)
            alike |= _are_alike(packets[one], packets[other], same_count)
            weight[at] = weight[half + at] = 1.0 if alike else unlike_weight
            at += 1
