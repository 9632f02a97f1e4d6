"""Significance: how surprising a deviation is among all those that were looked at."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view
from scipy import special

from prism_ch.core import robust
from prism_ch.core.arrays import Float64, Int64

#: The standard deviation of a median over that of a mean, of normal data: sqrt(pi / 2).
MEDIAN_SPREAD = robust.MEAN_AD_TO_SD


def corrected_score(deviates: npt.ArrayLike, comparisons: float) -> Float64:
    """Correct normal deviates for the number of comparisons made.

    Parameters: `deviates`, normal deviates of any shape, NaN for none; `comparisons` >= 1.
    Returns float64 of that shape, 0 or more: the deviate that is as surprising if seen once. The tail probability
    beyond the deviate times the number of comparisons (Bonferroni's inequality) is turned back into a deviate.
    Source: Dunn, "Multiple Comparisons among Means", JASA 56, 1961.
    """
    if comparisons < 1:
        raise ValueError(f"comparisons is {comparisons}; a deviation was looked at once at the least")
    column = np.asarray(deviates, dtype=np.float64)
    log_tail = special.log_ndtr(-column) + np.log(comparisons)
    return np.asarray(-special.ndtri_exp(np.minimum(log_tail, np.log(0.5))))


def expected_by_chance(times: int, count: int, share: float, trials: int) -> float:
    """Return how many of some trials reach a count by chance.

    It is the binomial tail, that of `count` draws, each with probability `share`, `times` or more hit, for each trial.
    """
    return float(special.bdtrc(times - 1, count, share)) * trials


def low_median(values: Float64) -> Float64:
    """Return the lower median along the last axis, without it.

    NaN if fewer than half of them are known, or one of several. Half of the values have to be high for it to be high:
    a single stray does not lift it, of two neither alone.
    """
    width = values.shape[-1]
    ordered = np.sort(values, axis=-1)  # NaN last
    known = np.sum(~np.isnan(ordered), axis=-1, keepdims=True)
    low = np.take_along_axis(ordered, np.maximum(known - 1, 0) // 2, axis=-1)
    return np.asarray(np.where(known >= max((width + 1) // 2, min(width, 2)), low, np.nan)[..., 0])


def trailing_low_median(values: Float64, width: int) -> Float64:
    """Return the lower median of `width` values up to each, along the last axis."""
    if width == 1:
        return values
    count = values.shape[-1]
    trailing = np.full((*values.shape, width), np.nan)
    for back in range(min(width, count)):
        trailing[..., back:, back] = values[..., : count - back]
    if np.isnan(values).any():
        return low_median(trailing)
    trailing.sort(axis=-1)  # NaN last
    known = np.minimum(np.arange(1, count + 1), width)
    low = trailing[..., np.arange(count), (known - 1) // 2]
    low[..., known < max((width + 1) // 2, min(width, 2))] = np.nan
    return low


def quickest_runs(values: Float64, usual: Float64, width: int, floor: float, min_score: float) -> Int64:
    """Find in each row a run that is lower than usual beyond chance.

    A run is of `width` values that follow one another, all known. The spread is that of neighbours, which is no wider
    where values lie on two levels.
    Parameters: `values` float64[m, n], above 0, NaN if unknown; `usual` float64[m], what those of a row are taken to
    be; `floor`, the least spread believed in, as a share of that; `min_score`, the deviations from which it is no
    chance.
    Returns where the lowest of such runs begins, int64[m], -1 where there is none.
    """
    first = np.full(len(values), -1)
    if values.shape[1] <= width:
        return first

    def beyond_chance(spread: Float64) -> Float64:
        return np.asarray(min_score * MEDIAN_SPREAD * spread / np.sqrt(width))

    # No run is lower than its lowest value, nor the spread less than its floor: most rows are not looked at.
    rows = np.flatnonzero(usual - np.fmin.reduce(values, axis=1) > beyond_chance(floor * usual))
    if not len(rows):
        return first
    values, usual = values[rows], usual[rows]
    # The upper one of an even number: of as many on two levels half and half show none. NaN comes last.
    runs = np.sort(sliding_window_view(values, width, axis=1), axis=2)
    medians = np.where(np.isnan(runs[..., -1]), np.inf, runs[..., width // 2])
    changes = np.abs(np.diff(values, axis=1)) / np.sqrt(2)
    spread = np.maximum(robust.MAD_TO_SD * robust.median(changes, axis=1), floor * usual)
    lower = usual - medians.min(axis=1) > beyond_chance(spread)
    first[rows[lower]] = medians[lower].argmin(axis=1)
    return first


def better_of_rows(values: Float64, width: int, floor: float, min_score: float) -> Float64:
    """Return what each row is in its better, lower, values, float64[m].

    That is the lower quartile. Where fewer of the values are better, as of a young job that has got slow, some in a row
    show it. Parameters: see `quickest_runs`; a row without values gives NaN.
    """
    usual = robust.quantile_of_rows(values, 0.25)
    first = quickest_runs(values, usual, width, floor, min_score)
    rows = np.flatnonzero(first >= 0)
    if not len(rows):
        return usual
    quicker = first[rows, None] + np.arange(width)
    usual[rows] = robust.median(values[rows[:, None], quicker], axis=1)
    return usual


def mean_ranks(values: Float64) -> Float64:
    """Rank values along the last axis, from 0; equal ones share their mean rank.

    Parameters: `values` float64[..., n], without NaN. Returns the same shape. scipy.stats ranks as well, but takes half
    a second to import, which every command that analyses would wait for.
    """
    order = np.argsort(values, axis=-1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=-1)
    place = np.broadcast_to(np.arange(values.shape[-1]), values.shape)
    rises = ordered[..., 1:] > ordered[..., :-1]
    first, last = place.copy(), place.copy()
    first[..., 1:][~rises] = 0
    last[..., :-1][~rises] = values.shape[-1]
    first = np.maximum.accumulate(first, axis=-1)
    last = np.minimum.accumulate(last[..., ::-1], axis=-1)[..., ::-1]
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, (first + last) / 2, axis=-1)
    return ranks


def rank_correlation(one: npt.ArrayLike, other: npt.ArrayLike) -> float:
    """Return the rank correlation of two series (Spearman), -1 to 1. It is 0 where one of them is constant.

    Parameters: float64[n] each, without NaN. Where nothing connects them, its standard deviation is 1 / sqrt(n - 1).
    """
    return float(rank_correlations(np.stack([one, other]))[0, 1])


def rank_correlations(series: Float64) -> Float64:
    """Return the rank correlation of each two of several series, float64[m, m], as `rank_correlation` does.

    Parameters: `series` float64[m, n], without NaN. A constant one has 0 with all, itself included.
    """
    ranks = mean_ranks(series)
    from_mean = ranks - ranks.mean(axis=1, keepdims=True)
    size = np.sqrt((from_mean**2).sum(axis=1, keepdims=True))
    direction = from_mean / np.where(size > 0, size, 1.0)
    return np.asarray(np.clip(direction @ direction.T, -1.0, 1.0))


def spread_of(values: Float64, floor: float) -> float:
    """Estimate the standard deviation of values about 0 robustly, at least `floor`.

    It is that of the nearer half: of as many values that stray together as do not, the former show no spread.
    """
    known = np.sort(np.abs(values[~np.isnan(values)]))
    return max(float(robust.MAD_TO_SD * known[(len(known) - 1) // 2]), floor) if len(known) else floor


def carried_back(score: Float64, values: Float64, smooth: Float64, width: int) -> Float64:
    """Carry the scores of trailing medians back to the values that are high themselves.

    Parameters, float64[..., k] each: `score` of `smooth`, 0 if it does not count, and `smooth`, the trailing median of
    `width` of the `values`. Returns the same shape: the highest score among the medians that a value, being at least
    half of the median, takes part in.
    """
    best = np.zeros_like(score)
    if not score.any():
        return best
    for back in range(min(width, score.shape[-1])):
        earlier = (..., slice(None, score.shape[-1] - back))
        is_high = values[earlier] >= smooth[..., back:] / 2
        best[earlier] = np.maximum(best[earlier], np.where(is_high, score[..., back:], 0))
    return best
