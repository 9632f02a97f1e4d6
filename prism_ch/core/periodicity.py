"""The period at which events or symbols repeat, by autocorrelation, and places within it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism_ch.core.arrays import Float64, Int64
from prism_ch.core.robust import quantiles_of_rows

#: An octave of periods is searched in bins of a 16th to a 32nd of the period: fine enough to tell neighbouring periods
#: apart, coarse enough that steps whose length varies by a few per cent still fall on one another.
LAGS_LOW, LAGS_HIGH = 16, 32

#: A shorter lag is preferred to a longer one where it correlates at least this well, relatively: multiples of a period
#: correlate as well as the period itself.
FUNDAMENTAL_SHARE = 0.8

#: Shares of equal symbols that differ by fewer standard errors than this are as good as equal.
EQUAL_ERRORS = 3.0

#: Bins as wide as one independent observation, after smoothing by (1 2 1)/4: (sum of weights)^2 / sum of squares.
SMOOTHED_BINS = 16 / 6

#: The longest series of bins made of events: a quarter of a gigabyte.
MAX_BINS = 1 << 25

#: A symbol more or less than the period has costs as much as this many that merely differ: two in a row are noise now
#: and then, while all that follows a place once lost differs.
JUMP_COST = 2.5

#: Values that are multiplied at once; OpenBLAS uses several threads from 10,000 on.
DOT_BLOCK = 1 << 13


class Period(NamedTuple):
    """A period in seconds and how surely the series repeats with it, in 0..1; (nan, 0) for none."""

    period_s: float
    strength: float


def dominant_period(
    values: npt.ArrayLike, bin_s: float, *, min_period_s: float | None = None, max_period_s: float | None = None
) -> Period:
    """Return the fundamental period of a series of equal bins.

    Parameters: `values` float64[n], finite, the activity in each bin; `bin_s`, the width of a bin in seconds;
    `min_period_s`, the shortest period looked for (default, and at least: 16 bins); `max_period_s`, the longest
    (default, and at most: half the series, so that every period is seen twice).
    Returns the period and its strength: the correlation of the series with itself one period later, less two of its
    standard errors, so that few repetitions count for little. (nan, 0) where the series is too short or constant, or
    nothing repeats.
    Raises ValueError on NaN or infinite values or a bin of no width.

    1. For each octave of periods, sum bins until the period is 16 to 32 of them, smooth by (1 2 1)/4, and correlate the
       head of the series with its tail, lag by lag (Pearson, so that long lags are not held back by their overlap).
    2. Judge a lag by the lower bound of its correlation (Fisher's z). Take the strongest and descend from it to a 2nd,
       3rd, 5th or 7th of it for as long as that is nearly as strong in the same bins: multiples of a period look as
       good as the period.
    3. Place the peak between bins by a parabola through the three highest correlations.
    """
    series = np.asarray(values, dtype=np.float64)
    if not bin_s > 0:
        raise ValueError(f"bin_s is {bin_s}; a bin must have a width")
    if not np.isfinite(series).all():
        raise ValueError("values must be finite")
    shortest = max(LAGS_LOW, (min_period_s or 0) / bin_s)
    longest = min(len(series) / 2, np.inf if max_period_s is None else max_period_s / bin_s)
    octaves = _octaves(series, longest)
    candidates = [
        peak
        for octave in octaves
        for lag in range(LAGS_LOW, LAGS_HIGH + 1)
        if shortest <= (peak := octave.peak(lag)).lag <= longest
    ]
    strongest = max(candidates, key=lambda peak: peak.strength, default=_Peak(0.0, 0.0))
    if strongest.strength <= 0:
        return Period(np.nan, 0.0)
    found = _fundamental(strongest, octaves, shortest)
    return Period(found.lag * bin_s, found.strength)


def event_period(
    events_ns: Int64,
    *,
    weights: npt.ArrayLike | None = None,
    min_period_s: float = 0.1,
    max_period_s: float | None = None,
) -> Period:
    """Return the fundamental period of events.

    Parameters: `events_ns` int64[n], nanoseconds, in any order; `weights` float64[n], how much each counts (default:
    1); `min_period_s` > 0, the shortest period looked for; `max_period_s`, the longest (default, and at most: half
    the time from the first event to the last). Returns as `dominant_period`, which it uses on bins of a 16th of
    `min_period_s`; missing and stray events weaken a period in proportion and do not move it. Raises ValueError where
    `min_period_s` is not positive, or so short that the events span more than 2**25 bins.
    """
    if not min_period_s > 0:
        raise ValueError(f"min_period_s is {min_period_s}; it must be positive")
    if len(events_ns) == 0:
        return Period(np.nan, 0.0)
    bin_s = min_period_s / LAGS_LOW
    bins = ((events_ns - events_ns.min()) / (bin_s * 1e9)).astype(np.int64)
    if bins.max() >= MAX_BINS:
        raise ValueError(
            f"events over {bins.max() * bin_s:.0f} s are too long for min_period_s {min_period_s}; raise it"
        )
    series = np.bincount(bins, None if weights is None else np.asarray(weights, dtype=np.float64))
    return dominant_period(series, bin_s, min_period_s=min_period_s, max_period_s=max_period_s)


def sequence_period(symbols: Int64, longest: int = 4096) -> tuple[int, float]:
    """Return the smallest lag with which a sequence repeats itself best, and its strength.

    Parameters: `symbols` int64[n], any integers (sizes, classes); `longest`, the largest lag tried (and at most n/2).
    Returns (period, strength). With m(p) the share of symbols that equal the one p later and c the share that would in
    random order (the sum of squared frequencies), the strength is (m(p) - c) / (1 - c), in 0..1. The period is the
    smallest lag whose strength is at least 0.8 of the best and whose m is at most three standard errors below that of
    the best: multiples of a period repeat as well as the period, by accident better, while runs of equal symbols, or
    parts of a period that are nearly alike, repeat a little worse.
    (0, 0.0) if none beats a random order, or n < 2; (1, 1.0) for a constant sequence.
    A missing or extra symbol spoils one period's comparisons, not those after it.
    """
    kinds, code = np.unique(symbols, return_inverse=True)
    lags = min(len(symbols) // 2, longest)
    if lags < 1:
        return 0, 0.0
    if len(kinds) == 1:
        return 1, 1.0
    at_random = float(np.sum((np.bincount(code) / len(code)) ** 2))
    compared = len(code) - np.arange(1, lags + 1)
    equal = _matches(code.astype(np.min_scalar_type(-len(kinds))), lags) / compared  # small numbers compare faster
    strength = (equal - at_random) / (1 - at_random)
    best = int(np.argmax(strength))
    if strength[best] <= 0:
        return 0, 0.0
    # As if two more had been compared and one of them were equal: a share of 1 is not known for certain either.
    likely = (equal[best] * compared[best] + 1) / (compared[best] + 2)
    doubt = EQUAL_ERRORS * np.sqrt(likely * (1 - likely) / (compared[best] + 2))
    as_good = (strength >= FUNDAMENTAL_SHARE * strength[best]) & (equal >= equal[best] - doubt)
    period = int(np.argmax(as_good))
    return period + 1, float(strength[period])


def places_in_period(symbols: Int64, period: int) -> Int64:
    """Place each symbol of a repeating sequence in its period, int64[n] in 0..period - 1.

    Parameters: `symbols` int64[n], any integers; `period`, 1..n (see `sequence_period`). Which symbol has place 0 is
    arbitrary. Raises ValueError on a period out of range.

    1. The pattern is the stretch of one period that agrees best with what comes one period earlier and later.
    2. Of all walks round and round the pattern, one place a symbol, the one with the fewest disagreements is taken. A
       missing or an extra symbol is a jump, which costs JUMP_COST.
    Source: Viterbi, "Error Bounds for Convolutional Codes", IEEE Transactions on Information Theory 13, 1967.
    """
    if not 1 <= period <= len(symbols):
        raise ValueError(f"a period of {period} does not fit {len(symbols)} symbols")
    pattern = _clearest_period(symbols, period)
    from prism_ch.core.period_walk import walk_round  # noqa: PLC0415 - loads a compiler

    kinds, code = np.unique(symbols, return_inverse=True)
    jumped, costs = np.empty((len(symbols), period), dtype=np.bool_), np.empty((2, period))
    cheapest, places = np.empty((2, len(symbols)), dtype=np.int64)
    disagrees = (kinds[:, None] != pattern).astype(np.float64)
    walk_round(code, disagrees, JUMP_COST, costs, jumped, cheapest, places)
    return places


def _clearest_period(symbols: Int64, period: int) -> Int64:
    agrees = np.zeros(len(symbols), dtype=np.int64)
    agrees[period:] += symbols[period:] == symbols[:-period]
    agrees[:-period] += symbols[:-period] == symbols[period:]
    total = np.concatenate([[0], np.cumsum(agrees)])
    first = int(np.argmax(total[period:] - total[:-period]))
    return symbols[first : first + period]


def long_turn(values: Float64, lengths: range, factor: float, least: int) -> tuple[int, int] | None:
    """Find a turn of values that are always longer than the others of their round.

    Parameters: `values` float64[n]; `lengths`, how many of them a round may have, 2 at the least; `factor`, by which
    they are longer, by quartiles; `least`, the fewest rounds. Returns its place in the shortest such round, and how
    many values that has.
    """
    for length in lengths:
        if length * least > len(values):
            break
        by_turn = np.pad(values, (0, -len(values) % length), constant_values=np.nan).reshape(-1, length).T
        lower, upper = quantiles_of_rows(by_turn, (0.25, 0.75))
        turn = int(np.argmax(lower))
        if lower[turn] > factor * np.delete(upper, turn).max():
            return turn, length
    return None


class _Peak(NamedTuple):
    """A lag, in bins of the series as given, and the strength of the correlation there."""

    lag: float
    strength: float


class _Octave:
    """The series in bins `scale` times as wide, smoothed: periods of 16 to 32 of them are looked for here."""

    def __init__(self, series: Float64, scale: int) -> None:
        smooth = series.copy()
        smooth[1:] += series[:-1] / 2
        smooth[:-1] += series[1:] / 2
        self.series = smooth - smooth.mean()
        self.scale = scale
        self.sums = np.concatenate(([0.0], np.cumsum(self.series)))
        self.squares = np.concatenate(([0.0], np.cumsum(self.series**2)))
        self.known: dict[int, float] = {}

    def correlation(self, lag: int) -> float:
        if lag not in self.known:
            self.known[lag] = self._correlation(lag)
        return self.known[lag]

    def peak(self, lag: int) -> _Peak:
        """Return the peak between the bins around `lag`, of strength 0 if there is none."""
        left, middle, right = (self.correlation(lag + step) for step in (-1, 0, 1))
        curvature = left - 2 * middle + right
        if middle < max(left, right) or curvature >= 0:
            return _Peak(float(lag * self.scale), 0.0)
        shift = (left - right) / (2 * curvature)
        height = min(middle - (left - right) * shift / 4, 1 - 1e-12)
        pairs = max((len(self.series) - lag) / SMOOTHED_BINS - 3, 1)
        return _Peak((lag + shift) * self.scale, float(np.tanh(np.arctanh(height) - 2 / np.sqrt(pairs))))

    def peak_near(self, lag: float) -> _Peak:
        """Return the best peak at most one bin from a lag of the unscaled series."""
        centre = round(lag / self.scale)
        return max((self.peak(centre + step) for step in (-1, 0, 1)), key=lambda peak: peak.strength)

    def _correlation(self, lag: int) -> float:
        shared = len(self.series) - lag
        if lag < 1 or shared < LAGS_LOW:
            return 0.0
        head, tail = self.sums[shared], self.sums[-1] - self.sums[lag]
        head_square = self.squares[shared] - head**2 / shared
        tail_square = self.squares[-1] - self.squares[lag] - tail**2 / shared
        # What rounding leaves of a constant part is no signal.
        if min(head_square, tail_square) <= 1e-12 * self.squares[-1]:
            return 0.0
        product = _dot(self.series[:shared], self.series[lag:]) - head * tail / shared
        return float(product / np.sqrt(head_square * tail_square))


def _dot(one: Float64, other: Float64) -> float:
    """Multiply two series, in blocks of one length.

    BLAS shares longer ones out among the cores: their number would show in the last digits, and a core that others keep
    busy would be waited for.
    """
    blocks = range(0, len(one), DOT_BLOCK)
    return sum(float(np.dot(one[at : at + DOT_BLOCK], other[at : at + DOT_BLOCK])) for at in blocks)


def _octaves(series: Float64, longest: float) -> list[_Octave]:
    """Return the series at each scale 1, 2, 4, ... whose 16 bins reach no farther than the longest period."""
    octaves: list[_Octave] = []
    scale = 1
    while scale * LAGS_LOW <= longest:
        octaves.append(_Octave(series, scale))
        series = series[: len(series) // 2 * 2].reshape(-1, 2).sum(axis=1)
        scale *= 2
    return octaves


def _fundamental(start: _Peak, octaves: list[_Octave], shortest: float) -> _Peak:
    """Descend from a peak to the shortest period that it is a multiple of.

    Both are judged in the same bins, about those of the longer one: in narrower bins jitter would blur it away, while
    what repeats quickly inside it stands. Only for a 5th and a 7th are the bins halved, lest too few be left of the
    shorter.
    """
    for part, scale in ((2, 1), (3, 1), (5, 2), (7, 2)):
        octave = octaves[_octave_of(start.lag / scale)]
        smaller, longer = octave.peak_near(start.lag / part), octave.peak_near(start.lag)
        if smaller.lag >= shortest and smaller.strength >= FUNDAMENTAL_SHARE * longer.strength > 0:
            finer = octaves[_octave_of(smaller.lag)].peak_near(smaller.lag)
            return _fundamental(finer if finer.strength > 0 else smaller, octaves, shortest)
    return start


def _octave_of(lag: float) -> int:
    return max(0, int(np.floor(np.log2(lag / LAGS_LOW))))


def _matches(code: npt.NDArray[np.signedinteger[Any]], lags: int) -> Int64:
    """Count the symbols that equal the one `lag` later, for lag = 1..lags, int64[lags]."""
    return np.array([np.count_nonzero(code[lag:] == code[:-lag]) for lag in range(1, lags + 1)])
