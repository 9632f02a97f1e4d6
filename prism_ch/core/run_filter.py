"""The runs that may be alive at each datum of sequences, and their probabilities, in compiled loops.

All that is compiled stands in this one file: compiled code is kept on disk, and made anew when its file changes. A loop
over runs is written so that the compiler makes vector instructions of it, and short: the constants of a long one do not
fit into the processor's registers.
"""

from __future__ import annotations

import math

import numpy as np

from prism_ch.core import runs as kept
from prism_ch.core.arrays import Float64, Int64
from prism_ch.core.machine_code import bits_of, compiled, inlined, number_of
from prism_ch.core.runs import BLOCK, VOID, Law, Limits, Model, Newest, Older, Pairs, Results, Room, Tables

#: Older runs are dropped and merged after so many data: seldom, as that takes as long as several data do.
THINNED_EVERY = 32

#: Laws farther apart than this have no common one. Its cost is of second order in their distance, and
#: `tests/unit/core/test_run_filter.py` holds it against the exact one up to here.
FARTHEST_MERGED = 0.5

#: So little mass is added to a pair's, so that none is divided by 0.
LEAST_MASS = 1e-290

#: A sum of probabilities outside of these is formed again from its largest term.
_LEAST_TOTAL, _MOST_TOTAL = 1e-200, 1e200

#: Terms whose exponents lie beyond count as having this one: e to its power is a normal number.
_MOST_EXPONENT = 700.0

#: Added to an integer, it leaves that in the lowest bits of the sum.
_INTEGER_IN_BITS = 1.5 * 2.0**52

#: Larger than any score or logarithm.
_NO_SCORE = 1e308


@inlined
def _log(x: float) -> float:
    """Return the logarithm of a positive normal number, to 4e-14 or that part of itself.

    By 2 artanh((m-1) / (m+1)), where m is x without its power of 2 and lies between the roots of 1/2 and 2; the series
    is replaced by the polynomial that equals it at the Chebyshev nodes.
    """
    bits = bits_of(x)
    power = (bits - 0x3FE6A09E667F3BCD) >> 52
    m = number_of(bits - (power << 52))
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    y = z * z
    high = 0.3999999879733759 + z * 0.2857175453591449 + y * (0.22191400830308502 + z * 0.19362653714202008)
    return float(power) * 0.6931471805599453 + s * (2.0 + z * 0.6666666666737508 + y * high)


@inlined
def _exp(x: float) -> float:
    """Return exp(x) to 5e-12 of itself, as if x lay in -700..700.

    By a polynomial, as in `_log`, of what is left of x without a multiple of log 2.
    """
    x = min(max(x, -_MOST_EXPONENT), _MOST_EXPONENT)
    n = np.rint(x * 1.4426950408889634)
    r = x - n * 0.6931471805599453
    y = r * r
    high = 0.008333298483754886 + r * 0.001388885404961482 + y * (0.0001989927395864936 + r * 2.4859578222625295e-05)
    low = 0.5 + r * 0.16666666718997508 + y * (0.041666666718980845 + r * high)
    return number_of(bits_of(1.0 + r + y * low) + (bits_of(n + _INTEGER_IN_BITS) << 52))


@inlined
def _stirling(inverse: float) -> float:
    """Return the series of log Gamma, by the inverse of its argument.

    Source: Abramowitz & Stegun, "Handbook of Mathematical Functions", 1964, 6.1.41.
    """
    y = inverse * inverse
    return inverse * (1 / 12 + y * (-1 / 360 + y / 1260))


@inlined
def _observe_newest(runs: Newest, low: int, high: int, tables: Tables, x: float, unit: float) -> float:
    """Add a datum to runs, and return the sum of their weights.

    Parameters: the runs are the rows from `low` to before `high`, the last of them of no data yet, and rows before them
    that are void, to whole blocks; `unit`, the logarithm of a weight of 1.
    """
    begin = high - (high - low + BLOCK - 1) // BLOCK * BLOCK
    mean, double_beta = runs.mean[begin:high], runs.double_beta[begin:high]
    start, weight = runs.start[begin:high], runs.weight[begin:high]
    first = len(tables.gain) - len(mean)
    gain, alpha, constant = tables.gain[first:], tables.alpha[first:], tables.constant[first:]
    total = 0.0
    for i in range(len(mean)):
        off = x - mean[i]
        moved = off * gain[i]
        mean[i] += moved
        double_beta[i] += off * (off - moved)
    for i in range(len(mean)):
        weight[i] = start[i] + constant[i] - alpha[i] * _log(double_beta[i]) - unit
    for i in range(len(mean)):
        weight[i] = _exp(weight[i])
        total += weight[i]
    return total


@inlined
def _observe_older(runs: Older, rows: int, x: float, unit: float) -> float:
    """Add a datum to the first runs, and return the sum of their weights.

    Parameters: rows after the first `rows` are void, to whole blocks; `unit`, the logarithm of a weight of 1, without
    what all starts have in common.
    """
    mean, double_beta, start, weight = runs.mean, runs.double_beta, runs.start, runs.weight
    kappas, alphas, inverses = runs.kappa, runs.alpha, runs.inverse
    until = (rows + BLOCK - 1) // BLOCK * BLOCK
    total = 0.0
    for i in range(until):
        kappa, alpha = kappas[i] + 1.0, alphas[i] + 0.5
        kappas[i], alphas[i] = kappa, alpha
        inverse = 1.0 / (kappa * alpha)
        inverses[i] = inverse
        off = x - mean[i]
        moved = off * (inverse * alpha)
        mean[i] += moved
        double_beta[i] += off * (off - moved)
        weight[i] = double_beta[i] * (inverse * kappa)
    for i in range(until):
        weight[i] = start[i] + _stirling(inverses[i] * kappas[i]) - alphas[i] * _log(weight[i])
    for i in range(until):
        weight[i] = _exp(weight[i] - unit) * math.sqrt(inverses[i])
        total += weight[i]
    return total


@compiled
def _reweigh(
    newest: Newest, low: int, high: int, tables: Tables, older: Older, old: int, step: float
) -> tuple[float, float]:
    """Measure all weights by the largest, in logarithms, and return its logarithm and their sum."""
    top = -_NO_SCORE
    first = low + len(tables.gain) - high
    for i in range(low, high):
        k = first + i - low
        newest.weight[i] = newest.start[i] + tables.constant[k] - tables.alpha[k] * math.log(newest.double_beta[i])
        top = max(top, newest.weight[i])
    for i in range(old):
        kappa, alpha = older.kappa[i], older.alpha[i]
        spread = _stirling(1 / alpha) - alpha * math.log(older.double_beta[i] / alpha) - math.log(kappa * alpha) / 2
        older.weight[i] = older.start[i] + step + spread
        top = max(top, older.weight[i])
    total = 0.0
    for i in range(low, high):
        newest.weight[i] = math.exp(newest.weight[i] - top)
        total += newest.weight[i]
    for i in range(old):
        older.weight[i] = math.exp(older.weight[i] - top)
        total += older.weight[i]
    return top, total


@inlined
def merge(one: Law, other: Law, share: float) -> tuple[float, float, float, float, float, float]:
    """Return one law for two runs, its cost, and an estimate of that squared.

    Parameters: the laws, as mean, 2 beta, kappa, alpha; `share`, in 0..1, the part of their mass that `one` has.
    What a run predicts is its Normal-Inverse-Gamma law of a mean and a precision. The law of both has the same average
    precision, mean weighed by precision, and variances of the two (the reduction of a mixture by its moments: Runnalls,
    "Kullback-Leibler approach to Gaussian mixture reduction", 2007, section 3).
    The cost, for a mass of 1, bounds the total variation between all that the two runs (older ones, of some data each)
    predict and all that their common law does: half the product of the shares and the squared Fisher distance of the
    laws, to second order more than half the root of the chi-squared divergence from the best of all laws. It is 1 where
    they are too far apart to have a common law. The estimate is of what moments leave: that mean and precision go
    together, that the shares are unequal, that one run is longer. It proves nothing, and tells better which to merge.
    """
    rest = 1 - share
    precision, other_precision = 2 * one[3] / one[1], 2 * other[3] / other[1]
    average = share * precision + rest * other_precision
    inverse = 1 / average
    weight = share * precision * inverse
    offset = one[0] - other[0]
    product = share * rest
    apart = offset * offset * average
    steep = (precision - other_precision) * inverse
    steeper = steep * steep
    kappas, alphas = one[2] * other[2], one[3] * other[3]
    kappa = kappas / (share * other[2] + rest * one[2] + kappas * weight * (1 - weight) * apart)
    alpha = alphas / (share * other[3] + rest * one[3] + alphas * product * steeper)
    longer = (one[2] - other[2]) / kappa

    of_mean, of_precision = apart * kappa, steeper * alpha
    distance = of_mean + of_precision
    skew = (share - rest) * (share - rest) * distance * distance * distance / 6
    flat = (1 - 6 * product) * distance * distance
    estimate = product * product * (of_mean * of_precision + skew + flat * flat / 24 + distance * longer * longer) / 4
    distance += longer * longer
    near = distance <= FARTHEST_MERGED
    cost = product * distance / 2 if near else 1.0
    lighter = min(share, rest)
    estimate = min(estimate, lighter * lighter) if near else lighter * lighter
    return other[0] + weight * offset, 2 * alpha * inverse, kappa, alpha, cost, estimate


@compiled
def _pair(runs: Older, rows: int, pairs: Pairs, total: float, evidence: float) -> None:
    """Form of each run and the next what they would be as one.

    The score is the square of an estimate of the harm: the error of what they predict, times their mass to the power of
    5/8, as what is light may become heavy, over the root of kappa, as short runs have a say where data are unusual.
    """
    unit = 1 / total
    for i in range(rows - 1):
        j = i + 1
        mass = (runs.weight[i] + runs.weight[j]) * unit + LEAST_MASS
        mean, double_beta, kappa, alpha, cost, estimate = merge(
            (runs.mean[i], runs.double_beta[i], runs.kappa[i], runs.alpha[i]),
            (runs.mean[j], runs.double_beta[j], runs.kappa[j], runs.alpha[j]),
            runs.weight[i] * unit / mass,
        )
        pairs.mean[i], pairs.double_beta[i], pairs.kappa[i], pairs.alpha[i] = mean, double_beta, kappa, alpha
        pairs.cost[i] = cost * mass
        pairs.score[i] = estimate * mass * math.sqrt(math.sqrt(mass)) / kappa
        inverse = 1.0 / alpha
        spread = _stirling(inverse) - alpha * _log(double_beta * inverse) - _log(kappa * alpha) / 2
        pairs.start[i] = _log(mass) + evidence - spread


@inlined
def _clear_block(runs: Older, row: int) -> None:
    """Make a row and what follows of its block void."""
    for i in range(row, (row + BLOCK - 1) // BLOCK * BLOCK):
        runs.mean[i], runs.double_beta[i], runs.start[i] = 0.0, 1.0, VOID
        runs.kappa[i], runs.alpha[i] = 1e3, 1e3


@inlined
def _move(runs: Older, source: int, target: int) -> None:
    runs.mean[target], runs.double_beta[target] = runs.mean[source], runs.double_beta[source]
    runs.kappa[target], runs.alpha[target] = runs.kappa[source], runs.alpha[source]
    runs.start[target], runs.weight[target] = runs.start[source], runs.weight[source]
    runs.lead[target], runs.began[target] = runs.lead[source], runs.began[source]


@inlined
def _unite(runs: Older, i: int, pairs: Pairs, total: float) -> float:
    """Make one of a run and the next, and return what that costs.

    It is in the row of the next. Either the lighter is dropped or they are merged, whichever costs less.
    """
    j = i + 1
    weight, other_weight = runs.weight[i], runs.weight[j]
    dropped = min(weight, other_weight) / total
    if not pairs.cost[i] < dropped:
        if weight > other_weight:
            _move(runs, i, j)
        return float(dropped)
    heaviest, other = weight * runs.lead[i], other_weight * runs.lead[j]
    if heaviest > other:
        runs.began[j] = runs.began[i]
    runs.weight[j] = weight + other_weight
    runs.lead[j] = max(heaviest, other) / runs.weight[j]
    runs.mean[j], runs.double_beta[j] = pairs.mean[i], pairs.double_beta[i]
    runs.kappa[j], runs.alpha[j], runs.start[j] = pairs.kappa[i], pairs.alpha[i], pairs.start[i]
    return float(pairs.cost[i])


@compiled
def _thin(runs: Older, rows: int, pairs: Pairs, total: float, evidence: float, limits: Limits) -> tuple[int, float]:
    """Drop runs that are too light and merge what is alike. Returns how many are left, and what it costs.

    `evidence` is the logarithm of the probability of all data, without what all starts have in common.

    1. Drop what is lighter than `limits.dropped_mass`.
    2. Merge each pair of neighbours whose score is below the tolerance and the lowest of those that share a run.
    3. If more than `limits.old_runs` are left, do so again with twice the tolerance.
    """
    kept, cost = 0, 0.0
    least = limits.dropped_mass * total
    for i in range(rows):
        if runs.weight[i] < least:
            cost += runs.weight[i] / total
            continue
        if kept != i:
            _move(runs, i, kept)
        kept += 1
    tolerance = limits.tolerance
    while kept > 1:
        _pair(runs, kept, pairs, total, evidence)
        pairs.score[kept - 1] = _NO_SCORE
        before, rows, kept = _NO_SCORE, kept, 0
        for i in range(rows):
            score = pairs.score[i]
            if score < tolerance * tolerance and score < before and score <= pairs.score[i + 1]:
                cost += _unite(runs, i, pairs, total)
            else:
                if kept != i:
                    _move(runs, i, kept)
                kept += 1
            before = score
        if kept <= limits.old_runs:
            break
        tolerance = 2 * max(tolerance, 1e-12)
    _clear_block(runs, kept)
    return kept, cost


@inlined
def _most_probable(newest: Newest, low: int, high: int, older: Older, old: int, time: int) -> int:
    """Return how many earlier data the run of the newest datum has, most probably.

    The bits of positive numbers are in their order, and integers have a vector instruction for their largest.
    """
    best, best_older = 0, 0
    weight = newest.weight[low:high]
    for i in range(len(weight)):
        best = max(best, bits_of(weight[i]))
    for i in range(old):
        best_older = max(best_older, bits_of(older.weight[i] * older.lead[i]))
    if best_older > best:
        row = 0
        while bits_of(older.weight[row] * older.lead[row]) < best_older:
            row += 1
        return int(time - older.began[row])
    row = 0
    while bits_of(weight[row]) < best:
        row += 1
    return len(weight) - 1 - row


@compiled
def _filter(values: Float64, model: Model, limits: Limits, tables: Tables, runs: Room, results: Results) -> None:
    """Filter one sequence, standardised."""
    newest, older, pairs = runs
    max_run = limits.max_run
    every = min(THINNED_EVERY, limits.old_runs // 2)
    alpha, kappa = model.alpha0 + max_run / 2, model.kappa0 + max_run
    carried = tables.constant[BLOCK] + math.log(kappa * alpha) / 2 + alpha * -math.log(alpha) - _stirling(1 / alpha)
    step = model.log_survival - (1 + math.log(math.pi)) / 2  # what each datum adds to the joint of all older runs
    evidence, total, bound = -model.log_hazard, 1.0, 0.0
    unit = evidence
    low, high, old = BLOCK, BLOCK, 0
    for time in range(len(values)):
        x = values[time]
        if high - low == max_run:
            older.mean[old], older.double_beta[old] = newest.mean[low], newest.double_beta[low]
            older.kappa[old], older.alpha[old] = kappa, alpha
            older.start[old] = newest.start[low] + carried - step * (time - 1)
            older.weight[old], older.lead[old], older.began[old] = newest.weight[low], 1.0, time - max_run
            newest.start[low] = VOID
            low, old = low + 1, old + 1
            _clear_block(older, old)
            if (time - max_run) % every == 0 and time > max_run:
                old, cost = _thin(older, old, pairs, total, evidence - step * (time - 1), limits)
                bound += cost
        if high == len(newest.mean):
            for i in range(high - low):
                j, k = BLOCK + i, low + i
                newest.mean[j], newest.double_beta[j] = newest.mean[k], newest.double_beta[k]
                newest.start[j], newest.weight[j] = newest.start[k], newest.weight[k]
            low, high = BLOCK, BLOCK + high - low
        newest.mean[high], newest.double_beta[high] = 0.0, 2 * model.alpha0
        newest.start[high] = model.log_hazard + evidence
        high += 1
        total = _observe_newest(newest, low, high, tables, x, unit)
        total += _observe_older(older, old, x, unit - step * time)
        if not _LEAST_TOTAL < total < _MOST_TOTAL:
            unit, total = _reweigh(newest, low, high, tables, older, old, step * time)
        unit, evidence = evidence, unit + _log(total)  # the next unit does not wait for this logarithm
        results.new_run_mass[time] = newest.weight[high - 1] / total
        results.error_bound[time] = bound
        if len(results.run_length):
            results.run_length[time] = _most_probable(newest, low, high, older, old, time)


@compiled
def _filter_all(
    values: Float64, offsets: Int64, model: Model, limits: Limits, tables: Tables, runs: Room, results: Results
) -> None:
    for i in range(len(offsets) - 1):
        rows = slice(offsets[i], offsets[i + 1])
        one = Results(results.new_run_mass[rows], results.run_length[rows], results.error_bound[rows])
        _filter(values[rows], model, limits, tables, runs, one)


def filter_runs(values: Float64, offsets: Int64, model: Model, limits: Limits, *, run_lengths: bool) -> Results:
    """Follow the runs of each sequence, and return what is known at each datum.

    Parameters: `values` float64[n], standardised; `offsets` int64[k+1], sequence i is values[offsets[i]:offsets[i+1]];
    `limits.max_run` >= `runs.LEAST_MAX_RUN`; `run_lengths`, whether these are wanted.
    """
    room = kept.make_room(int(np.diff(offsets).max(initial=0)), limits, THINNED_EVERY)
    results = Results(
        np.empty(len(values)), np.empty(len(values) if run_lengths else 0, dtype=np.int32), np.empty(len(values))
    )
    _filter_all(values, offsets, model, limits, kept.tabulate(model, limits.max_run), room, results)
    return results
