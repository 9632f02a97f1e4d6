"""Statistics that stray values do not upset: medians, deviations from them, and one-dimensional classes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from prism_ch.core.arrays import Float64, Int32, Int64, check_equal_length, check_groups, order_by

#: The standard deviation of a normal law over its median absolute deviation, 1 / Phi^-1(3/4).
MAD_TO_SD = 1.482602218505602

#: The standard deviation of a normal law over its mean absolute deviation, sqrt(pi / 2).
MEAN_AD_TO_SD = 1.2533141373155001

#: Logarithms no farther apart are those of equal values, rounded differently.
EQUAL_LOGS = 1e-9

#: A class of a smaller share of the weight could vanish in rounding.
LEAST_SHARE = 1e-12

#: Groups of so many values, or more, are large: it takes no longer to call a function for each.
_LARGE = 32

#: Parts in which the time before is counted, and how many of the busiest are left out: events that come all at once, as
#: when ranks connect, do not show what is usual.
RATE_PARTS, BUSIEST_PARTS = 8, 2


def median(values: npt.ArrayLike, axis: int | None = None) -> Float64:
    """Return the median, float64, of what is not NaN along `axis` (None: of all).

    NaN if nothing is left. An infinite value takes part like any other.
    """
    column = np.asarray(values, dtype=np.float64)
    if axis is None or column.ndim == 1:
        return np.asarray(_middle_of(np.sort(column, axis=None)))
    length = column.shape[axis]
    if length == 0:
        return np.full(column.sum(axis=axis).shape, np.nan)
    ordered = np.sort(column, axis=axis)  # NaN sorts last
    if not np.isnan(ordered.take(-1, axis=axis)).any():
        upper = ordered.take(length // 2, axis=axis)
        if length % 2:
            return np.asarray(upper)
        lower = ordered.take(length // 2 - 1, axis=axis)
        return np.asarray(np.where(lower == upper, upper, lower / 2 + upper / 2))
    ordered = np.moveaxis(ordered, axis, -1)
    shape, ordered = ordered.shape[:-1], ordered.reshape(-1, length)
    row, present = np.arange(len(ordered)), length - np.isnan(ordered).sum(axis=1)
    upper, lower = ordered[row, present // 2], ordered[row, (present - 1) // 2]  # NaN where nothing is present
    return np.asarray(np.where(lower == upper, upper, lower / 2 + upper / 2).reshape(shape))


def known_or(values: Float64, instead: float = 0.0) -> Float64:
    """Return finite values, with another in place of NaN. This is np.nan_to_num, only faster."""
    return np.where(np.isnan(values), instead, values)


def _middle_of(ordered: Float64) -> float:
    """Return the median of sorted values, NaN last, that are not NaN."""
    present = len(ordered)
    if present and ordered[-1] != ordered[-1]:
        present = int(np.searchsorted(ordered, np.nan))
    if present == 0:
        return np.nan
    lower, upper = float(ordered[(present - 1) // 2]), float(ordered[present // 2])
    return upper if lower == upper else lower / 2 + upper / 2


def middle(values: Float64) -> float:
    """Return the median of finite values float64[n], n >= 1, faster than numpy. It is the same to the last digit."""
    half = len(values) // 2
    if len(values) % 2:
        return float(np.partition(values, half)[half])
    ordered = np.partition(values, (half - 1, half))
    return float((ordered[half - 1] + ordered[half]) / 2)


def mad(values: npt.ArrayLike, axis: int | None = None) -> Float64:
    """Return the median absolute deviation, scaled so that it estimates a normal law's standard deviation.

    Parameters: `values`, finite floats of any shape, where NaN means missing; `axis` as in `median`.
    Returns float64 without that axis; NaN where nothing is left.
    Source: Hampel, "The Influence Curve and Its Role in Robust Estimation", JASA 69, 1974; Rousseeuw & Croux,
    "Alternatives to the Median Absolute Deviation", JASA 88, 1993, section 1.
    """
    array = np.asarray(values, dtype=np.float64)
    centre = median(array, axis)
    deviation = np.abs(array - (centre if axis is None else np.expand_dims(centre, axis)))
    return np.asarray(MAD_TO_SD * median(deviation, axis))


def robust_z(values: npt.ArrayLike, axis: int | None = None, floor: float = 0.0) -> Float64:
    """Return how many robust standard deviations each value lies above the median.

    Parameters: `values`, finite floats of any shape, where NaN means missing; `axis`, along which values are compared
    (None: with all); `floor`, the least standard deviation believed in, in the unit of the values.
    Returns float64 of the shape of `values`; NaN where a value is missing.
    If more than half the values are equal the median deviation is 0, which is no scale: `floor` takes its place, and
    if that is 0 the mean absolute deviation. If all are equal, and `floor` is 0, every value scores 0.
    Source: Iglewicz & Hoaglin, "How to Detect and Handle Outliers", 1993, the modified z-score and its second form.
    """
    if floor < 0:
        raise ValueError(f"floor is {floor}; a standard deviation can't be negative")
    array = np.asarray(values, dtype=np.float64)
    centre, spread = median(array, axis), mad(array, axis)
    if axis is not None:
        centre, spread = np.expand_dims(centre, axis), np.expand_dims(spread, axis)
    deviation = np.abs(array - centre)
    present = np.maximum(np.sum(~np.isnan(array), axis=axis, keepdims=axis is not None), 1)
    mean_spread = MEAN_AD_TO_SD * np.nansum(deviation, axis=axis, keepdims=axis is not None) / present
    # A stray value lifts the mean deviation with it: one of n scores n / 1.25 at most, however far off it is.
    spread = np.where(spread > 0, np.maximum(spread, floor), floor or mean_spread)
    return np.asarray(np.where(spread > 0, array - centre, 0 * array) / np.where(spread > 0, spread, 1))


def quantile_by(group: Int32, values: npt.ArrayLike, q: float, groups: int | None = None) -> Float64:
    """Return the q-quantile of each group's values, by linear interpolation between order statistics.

    Parameters: `group` int32[n]; `values` float64[n], where NaN means missing; `q` in 0..1; `groups`, how many there
    are (default: up to the largest id).
    Returns float64[groups], NaN for a group without values. Raises ValueError on an id out of range or q outside 0..1.
    """
    return quantiles_by(group, values, (q,), groups)[0]


def quantiles_by(
    group: Int32, values: npt.ArrayLike, shares: Sequence[float], groups: int | None = None
) -> list[Float64]:
    """Return several quantiles of each group's values, sorted once. All else is as in `quantile_by`."""
    column = np.asarray(values, dtype=np.float64)
    check_equal_length(group=group, values=column)
    if any(not 0 <= q <= 1 for q in shares):
        raise ValueError(f"q is {', '.join(map(str, shares))}; a quantile lies in 0..1")
    count = check_groups(group, groups)
    missing = np.isnan(column)
    if missing.any():
        group, column = group[~missing], column[~missing]
    size = np.bincount(group, minlength=count)
    column = _sorted_by_group(group, column, size)
    known = size > 0
    first, last = (np.cumsum(size) - size)[known], size[known] - 1
    found = []
    for q in shares:
        position = q * last
        lower = np.floor(position).astype(np.int64)
        share = position - lower
        low, high = column[first + lower], column[first + np.minimum(lower + 1, last)]
        result = np.full(count, np.nan)
        result[known] = np.where(low == high, low, low * (1 - share) + high * share)
        found.append(result)
    return found


def _sorted_by_group(group: Int32, values: Float64, size: Int64) -> Float64:
    """Sort values by group, and within each, float64[n]; `size` int64[groups] is how many each has.

    Large groups are sorted one by one. Of many small ones, group and rank among all are packed into one number: numbers
    sort many times faster than rows do by two keys.
    """
    if _LARGE * len(size) > len(values):
        order = np.argsort(values)
        return np.asarray(values[order[order_by(group[order])]])
    ordered = values[order_by(group)]
    for low, high in pairwise([0, *np.cumsum(size).tolist()]):
        ordered[low:high].sort()
    return ordered


def quantile_of_rows(values: Float64, q: float) -> Float64:
    """Return the q-quantile of each row of values float64[n, k], float64[n], as `quantile_by`."""
    return quantiles_of_rows(values, (q,))[0]


def quantiles_of_rows(values: Float64, shares: Sequence[float]) -> list[Float64]:
    """Return several quantiles of each row of values float64[n, k], float64[n] each, sorted once."""
    if values.shape[1] == 0:
        return [np.full(len(values), np.nan) for _ in shares]
    ordered = np.sort(values, axis=1)  # NaN last
    row, last = np.arange(len(values)), values.shape[1] - 1 - np.isnan(values).sum(axis=1)
    found = []
    for q in shares:
        position = q * last
        lower = np.floor(position).astype(np.int64)
        share = position - lower
        low, high = ordered[row, lower], ordered[row, np.minimum(lower + 1, last)]  # NaN where nothing is known
        found.append(np.asarray(np.where(low == high, low, low * (1 - share) + high * share)))
    return found


def median_by(group: Int32, values: npt.ArrayLike, groups: int | None = None) -> Float64:
    """Return the median of each group's values, float64[groups]; all else as in `quantile_by`."""
    return quantile_by(group, values, 0.5, groups)


def mad_by(group: Int32, values: npt.ArrayLike, groups: int | None = None) -> Float64:
    """Return each group's `mad`, float64[groups]; all else as in `quantile_by`."""
    column = np.asarray(values, dtype=np.float64)
    centre = median_by(group, column, groups)
    return MAD_TO_SD * median_by(group, np.abs(column - centre[group]), len(centre))


def two_class_split(
    values: npt.ArrayLike, weights: npt.ArrayLike | None = None, min_share: float = 0.01
) -> tuple[float, float]:
    """Split positive values into a lower and an upper class on the logarithmic scale.

    Parameters: `values` float64[n], positive and finite, n >= 1; `weights` float64[n], positive (default: 1 each; a
    weight of 2 counts as the value twice); `min_share`, the least share of the weight that makes a class, so that
    stray values do not.
    Returns (threshold, separation). Values above `threshold` are the upper class; it is the geometric mean of the
    classes' nearest members. `separation` is in 0..1: with d the distance of the class means and s the pooled
    deviation inside the classes, both of logarithms, e = (d/2)^2 / ((d/2)^2 + s^2) is the share of the variance of
    two equal classes that lies between them; one uniform law cut in half has e = 3/4 and a normal law less, so
    separation = max(0, 4 e - 3).
    It is 0 if two classes describe the values no better than one, and for fewer than 3 values. If all values are
    equal, or no cut leaves both classes their share, `threshold` is the largest value and `separation` 0.
    Raises ValueError if there are no values or one is not positive and finite.

    Of all cuts of the sorted values the one chosen has the largest classification likelihood of two normal laws of
    equal variance. Otsu's criterion (1979), the same without the classes' shares, would cut through a class of 98 %
    rather than part it from one of 2 %.
    Source: Symons, "Clustering Criteria and Multivariate Normal Mixtures", Biometrics 37, 1981.
    """
    column = np.asarray(values, dtype=np.float64)
    weight = np.ones(len(column)) if weights is None else np.asarray(weights, dtype=np.float64)
    check_equal_length(values=column, weights=weight)
    for name, numbers in (("values", column), ("weights", weight)):
        if len(numbers) == 0 or not (np.isfinite(numbers) & (numbers > 0)).all():
            raise ValueError(f"{name} must be positive and finite, at least one of them")
    order = np.argsort(column, kind="stable")
    ordered, weight = column[order], weight[order]
    logs = np.log(ordered)
    logs -= np.average(logs, weights=weight)  # small numbers keep the sums of squares exact

    total = weight.sum()
    cumulative = np.cumsum(weight)
    both = np.minimum(cumulative, total - cumulative)[:-1] >= max(min_share, LEAST_SHARE) * total
    last_low = np.flatnonzero(both & (np.diff(logs) > EQUAL_LOGS))
    if len(last_low) == 0:
        return float(ordered[-1]), 0.0
    share = cumulative[last_low] / total
    low_mean = np.cumsum(weight * logs)[last_low] / (share * total)
    high_mean = -low_mean * share / (1 - share)
    variance = float(np.sum(weight * logs**2) / total)
    between = share * (1 - share) * (high_mean - low_mean) ** 2
    within = np.maximum(variance - between, variance * 1e-12)
    cost = np.log(within / variance) / 2 - share * np.log(share) - (1 - share) * np.log1p(-share)
    best = int(np.argmin(cost))
    cut = last_low[best]
    threshold = float(ordered[cut] * np.sqrt(ordered[cut + 1] / ordered[cut]))
    if cost[best] >= 0 or total <= 2:
        return threshold, 0.0
    half = (high_mean[best] - low_mean[best]) ** 2 / 4
    pooled = within[best] * total / (total - 2)
    return threshold, max(0.0, 4 * float(half / (half + pooled)) - 3)


def size_classes(
    values: npt.ArrayLike, relative_tolerance: float, group: Int32 | None = None, slack: Float64 | None = None
) -> Int32:
    """Put sizes into classes that end where the next size is farther than a tolerance.

    Parameters: `values` float64[n], not negative; `relative_tolerance` >= 0, as a share of the smaller of two
    neighbours; `group` int32[n], optional: sizes of different groups are never in one class; `slack` float64[n],
    optional: by how much each may be larger than the one before it in any case.
    Returns int32[n], class ids in the order (group, size), equal for equal sizes whatever their order. Neighbours
    chain: a class may be wider than the tolerance where sizes lie close all the way. A size of 0 is a class of its
    own.
    Raises ValueError on negative or not finite sizes, or a negative tolerance.
    """
    column = np.asarray(values, dtype=np.float64)
    line = np.zeros(len(column), dtype=np.int32) if group is None else group
    check_equal_length(values=column, group=line)
    if not (np.isfinite(column) & (column >= 0)).all():
        raise ValueError("sizes must be finite and not negative")
    if relative_tolerance < 0:
        raise ValueError(f"relative_tolerance is {relative_tolerance}; it can't be negative")
    order = np.lexsort((column, line))
    ordered, lines = column[order], line[order]
    opens = np.zeros(len(column), dtype=np.int32)
    allowed = relative_tolerance * ordered[:-1]
    if slack is not None:
        check_equal_length(values=column, slack=slack)
        allowed = np.maximum(allowed, slack[order][1:])
    opens[1:] = (lines[1:] != lines[:-1]) | (np.diff(ordered) > allowed)
    classes = np.empty(len(column), dtype=np.int32)
    classes[order] = np.cumsum(opens)
    return classes


def usual_count(at_ns: Int64, begin_ns: int, end_ns: int) -> float:
    """Expect a number of events in [begin_ns, end_ns) by the rate of those before it.

    Parameters: `at_ns` int64[n], times of events, in any order; later ones may be among them. Returns the rate in the
    quieter parts of the time since the first event, times the length of the span; 0 if nothing came before.
    """
    before = at_ns[at_ns < begin_ns]
    if len(before) == 0:
        return 0.0
    first_ns = int(before.min())  # times since then are exact as floats, those since the epoch are not
    edges = np.linspace(0, begin_ns - first_ns, RATE_PARTS + 1)
    counts = np.sort(np.histogram(before - first_ns, edges)[0])[:-BUSIEST_PARTS]
    return float(counts.mean() * (end_ns - begin_ns) / (edges[1] - edges[0]))
