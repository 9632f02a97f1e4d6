"""Where the values of each group lie densest, against a null model of values anywhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.core.arrays import Float64, Int32, Int64, check_equal_length, ranges
from prism_ch.core.search import group_search

#: Windows within this many standard deviations of the fullest are as full.
_SAME_FILL = 3.0

#: Shifts of a window towards the mean of what it holds, after which it stays where it is.
_SHIFTS = 8


@dataclass(frozen=True, slots=True)
class Peaks:
    """Where the values of each group lie densest, one row a group.

    `mean` and `spread` float64[g] are the weighted mean and standard deviation of the values there, `inside` int64[g]
    their number (NaN, NaN and 0 if there are none); `log_ratio` float64[g] is their log likelihood ratio against the
    null model.
    """

    mean: Float64
    spread: Float64
    inside: Int64
    log_ratio: Float64


def densest(
    group: Int32,
    values: Int64,
    weights: Float64,
    widths: Int64,
    attainable: Float64,
    reach: Int64 | int,
    *,
    nearest: bool = True,
) -> Peaks:
    """Find the window that holds the most values of each group against the null model.

    Parameters: `group` int32[n], `values` int64[n], sorted by (group, value), of magnitude up to about `reach`, of all
    or int64[g]; `weights` float64[n], positive; `widths` int64[w, g], those tried for each group; `attainable`
    float64[g], the weight that the window holds if nothing is lost.
    The width is that of the greatest scan statistic. Of the windows that are as full, but for losses, the one nearest
    to 0 is taken: if values recur at a period nothing else distinguishes its multiples. If not the `nearest` is wanted
    it is the fullest.
    Source: Kulldorff, "A Spatial Scan Statistic", Communications in Statistics 26, 1997, the Poisson model.
    """
    check_equal_length(group=group, values=values, weights=weights)
    from prism_ch.core.fullest_windows import find_nearest, weigh_windows  # noqa: PLC0415 - loads a compiler

    groups = widths.shape[1]
    total = np.bincount(group, weights, groups)
    until = np.concatenate([[0.0], np.cumsum(weights)])
    edges = np.searchsorted(group, np.arange(groups + 1, dtype=group.dtype))
    held, fullest, row = np.empty(len(values)), np.empty(groups), np.empty(groups, dtype=np.int64)
    log_ratio, begin, width = np.zeros(groups), np.zeros(groups, dtype=np.int64), widths[0].copy()
    for tried in widths:
        weigh_windows(edges, values, until, tried, held, fullest)
        found = _scan_statistic(fullest, total * tried / (2 * reach))
        enough = fullest - (_SAME_FILL * _deviation(fullest, attainable) if nearest else 0.0) - 1e-6
        find_nearest(edges, values, held, enough, tried, row)
        better = found > log_ratio
        log_ratio[better], width[better], begin[better] = found[better], tried[better], values[row[better]]
    return _centred(group, values, weights, begin, width, log_ratio)


def _scan_statistic(held: Float64, expected: Float64) -> Float64:
    """Return the log likelihood ratio of what windows hold against what the null model expects."""
    more = (held > expected) & (expected > 0)
    ratio = np.divide(held, expected, out=np.ones(len(held)), where=more)
    return np.where(more, held * np.log(ratio) - (held - expected), 0.0)


def _deviation(held: Float64, attainable: Float64) -> Float64:
    """Return the standard deviation of what windows hold, some of it lost, some by coincidence."""
    lost = 1 - np.minimum(held / np.maximum(attainable, 1e-9), 1)
    return np.asarray(np.sqrt(held * lost + np.maximum(held - attainable, 0.0)))


def _centred(group: Int32, values: Int64, weights: Float64, begin: Int64, width: Int64, log_ratio: Float64) -> Peaks:
    """Move each group's window to the mean of what it holds, and describe that."""
    groups = np.arange(len(begin), dtype=np.int32)
    # As far as it moves.
    left, right = (group_search(group, values, groups, edge) for edge in (begin - 4 * width - 1, begin + 4 * width))
    near = ranges(left, right - left)
    group, weights = group[near], weights[near]
    distance = values[near] - begin[group]
    sums = [np.concatenate([[0.0], np.cumsum(weights * distance.astype(np.float64) ** power)]) for power in range(3)]

    def inside(low: Int64) -> tuple[Int64, list[Float64]]:
        """Count a window's values, and sum their weights, distances and squares of these."""
        left, right = (group_search(group, distance, groups, edge) for edge in (low - 1, low + width))
        held = right - left
        return held, [np.where(held > 0, total[right] - total[left], np.nan) for total in sums]

    low = np.zeros_like(begin)
    for _ in range(_SHIFTS):
        _, (weight, first, _) = inside(low)
        low = np.rint(np.nan_to_num(first / weight)).astype(np.int64) - width // 2
    held, (weight, first, second) = inside(low)
    variance = np.maximum(second / weight - (first / weight) ** 2, 0.0)
    return Peaks(begin + first / weight, np.sqrt(variance), held, log_ratio)
