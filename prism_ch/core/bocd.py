"""Bayesian online changepoint detection of normal data, over many sequences at once.

The model (Adams & MacKay, "Bayesian Online Changepoint Detection", arXiv 0710.3742, sections 2 and 3): a sequence
consists of runs; a run ends before each datum with the constant probability h = 1 / expected_run, its hazard; the
data of a run are normal with a mean and variance of their own, drawn from a Normal-Inverse-Gamma prior. Given a run's
data the next follows a Student t law (Murphy, "Conjugate Bayesian analysis of the Gaussian distribution", 2007,
section 3).

Of the runs that may be alive, old ones that are too light are dropped, and neighbours that predict nearly the same
merged. What that is proved to change, and what it is measured to, stands with `Changepoints.error_bound` and `detect`.

Where this departs from Adams & MacKay: they let x_t still belong to the run that ends at t, so that P(r_t = 0 | x_1..t)
is h whatever the data. Here the datum itself opens the new run and is scored under the prior,

    P(r_t = 0,     x_1..t) = h       * p(x_t | prior)           * P(x_1..t-1)
    P(r_t = r + 1, x_1..t) = (1 - h) * p(x_t | its run's r + 1 data before) * P(r_t-1 = r, x_1..t-1)

and the normalised mass of r_t = 0 is the probability, on seeing x_t, that a run begins with it. r_t counts the
earlier data of the run that x_t belongs to. The first datum of a sequence begins a run for certain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from prism_ch.core.arrays import Float64, Int32, Int64
from prism_ch.core.robust import MAD_TO_SD, MEAN_AD_TO_SD, quantile_of_rows
from prism_ch.core.runs import LEAST_MAX_RUN, Limits, Model

#: A prior is worth a tenth of a datum for the mean, and two for the variance: the data soon outweigh it.
KAPPA0, ALPHA0 = 0.1, 1.0

#: A datum farther from the prior mean, in prior deviations, could overflow when squared and summed.
FARTHEST = 1e140


@dataclass(frozen=True, slots=True)
class Prior:
    """A Normal-Inverse-Gamma law for each of k sequences: `mu0`, `beta0` float64[k], or float64[1] for all alike.

    A run's variance is Inverse-Gamma(alpha0, beta0), its mean normal about `mu0` with that variance over `kappa0`.
    `kappa0` and 2 `alpha0` are how many data the prior is worth in knowing the mean and the variance. `mu0` has the
    unit of the data and `beta0` its square.
    Raises ValueError if `kappa0`, `alpha0` or `beta0` is not positive, or anything is not finite.
    """

    mu0: Float64
    beta0: Float64
    kappa0: float = KAPPA0
    alpha0: float = ALPHA0

    def __post_init__(self) -> None:
        if not np.isfinite(self.mu0).all():
            raise ValueError("mu0 must be finite")
        for name in ("kappa0", "alpha0", "beta0"):
            column = np.asarray(getattr(self, name))
            if not (np.isfinite(column) & (column > 0)).all():
                raise ValueError(f"{name} must be positive and finite")


@dataclass(frozen=True, slots=True)
class Changepoints:
    """What is known at each datum from it and those before it.

    `new_run_mass` float64[n], in 0..1: the posterior mass that a run began at the datum. `map_run_length` int32[n]: the
    most probable number of earlier data in the datum's run; of runs merged into one, that of the heaviest.

    `error_bound` float64[n], >= 0: what dropping and merging runs has cost until then in the datum's sequence, each in
    total variation; 0 where all is exact. What it proves: a run's future depends on its law alone, so that to drop one
    of mass m changes the law of all that follows by at most m, and to merge two by at most the mass of both times the
    cost of `run_filter.merge`. Added up (each step compared with the same filter that from there on is exact), the law
    by which this filter predicts a sequence and the model's own differ by at most the mean of `error_bound`; and
    `new_run_mass` is off by at most twice that on average over sequences as the model makes them. It says nothing of
    one sequence alone, nor of data that the model would not make: the posterior of a run that was merged while light
    may be off by more if unlikely data then favour it. What is measured is smaller by orders of magnitude.
    """

    new_run_mass: Float64
    map_run_length: Int32
    error_bound: Float64


def robust_prior(values: Float64, offsets: Int64, floor: float = 1e-3) -> Prior:
    """Return a prior as wide as each sequence is, whatever its strays.

    Parameters: `values` float64[n] and `offsets` int64[k+1] as in `detect`; `floor`, the least standard deviation of
    a run believed in, in the unit of the values (on logarithms 1e-3 is a jitter of 0.1 %).
    `mu0` is the median, and `beta0 / alpha0` the square of the scaled median absolute deviation; if more than half
    the values are equal, of the mean absolute deviation in its place; of `floor` if either is less. An empty sequence
    has `mu0` 0.
    The prior is worth a tenth of a datum for the mean, so that the law of a run's first datum is 3.3 times as wide as
    that of its other data, with the heavy tails of 2 degrees of freedom.
    Raises ValueError on what `detect` refuses.
    """
    lengths = _check_sequences(values, offsets)
    centre, spread, mean_deviation = np.zeros((3, len(lengths)))
    for length in np.unique(lengths[lengths > 0]).tolist():  # sorting rows is far faster than sorting by sequence
        alike = np.flatnonzero(lengths == length)
        rows = values[offsets[alike][:, None] + np.arange(length)]
        centre[alike] = quantile_of_rows(rows, 0.5)
        deviation = np.abs(rows - centre[alike][:, None])
        spread[alike] = MAD_TO_SD * quantile_of_rows(deviation, 0.5)
        mean_deviation[alike] = deviation.mean(axis=1)
    spread = np.maximum(np.where(spread > 0, spread, MEAN_AD_TO_SD * mean_deviation), floor)
    return Prior(centre, ALPHA0 * spread**2)


def detect(  # noqa: PLR0913 - each has a default that is right
    values: Float64,
    offsets: Int64,
    prior: Prior | None = None,
    *,
    expected_run: float = 100.0,
    max_run: int = 96,
    old_runs: int = 512,
    dropped_mass: float = 1e-30,
    tolerance: float = 1.3e-7,
    run_lengths: bool = True,
) -> Changepoints:
    """Return the new-run mass and the most probable run length at every datum.

    Parameters: `values` float64[n], finite, all sequences end to end; `offsets` int64[k+1], sequence i is
    values[offsets[i]:offsets[i+1]] and may be empty; `prior`, by default `robust_prior(values, offsets)`, which has
    seen the whole sequence; `expected_run` > 1, the mean number of data in a run, 1 / h; `max_run` >= 32, `old_runs` >=
    2, `dropped_mass` and `tolerance` in 0..1, below; `run_lengths`, whether these are wanted: without, `map_run_length`
    is empty.
    Raises ValueError on NaN or infinite values, on offsets that do not divide the values, or on a datum absurdly far
    (1e140 deviations) from its prior.

    1. Keep every run of up to `max_run` data, so that all is exact until a sequence has more.
    2. Every few data drop those of the older runs whose mass is less than `dropped_mass`. Strays under a vague prior
       can favour a light run again; a run that begins with them then has a mass of its own, so that what is dropped by
       default would not be seen.
    3. Merge two neighbours whose score is less than `tolerance` (`run_filter.merge`): an estimate of how far off what
       they predict would be, times a power of their mass.
    4. While more than `old_runs` are left, go on so with a larger tolerance.

    Neighbouring old runs predict all but the same, so that merging them keeps far more of the posterior than leaving
    out the oldest does. How far new_run_mass is from the exact one, with these limits and with others, is printed by
    `python -m bench.bocd`. The results of a sequence do not depend on the others.

    Time and memory: O(n (max_run + old_runs)) at the most, and O(n). Loops over runs are compiled at the first call, in
    some seconds; later processes load what was compiled.
    """
    from prism_ch.core.run_filter import filter_runs  # noqa: PLC0415 - loads a compiler

    lengths = _check_sequences(values, offsets)
    if not expected_run > 1 or not np.isfinite(expected_run):
        raise ValueError(f"expected_run is {expected_run}; a run must be expected to last more than 1 datum")
    if max_run < LEAST_MAX_RUN:
        raise ValueError(f"max_run is {max_run}; runs of at least {LEAST_MAX_RUN} data must be kept")
    if old_runs < 2:
        raise ValueError(f"old_runs is {old_runs}; at least 2 older runs must be kept")
    if not 0 <= dropped_mass < 1:
        raise ValueError(f"dropped_mass is {dropped_mass}; a mass that is dropped lies in 0..1")
    if not 0 <= tolerance < 1:
        raise ValueError(f"tolerance is {tolerance}; what two runs may differ by lies in 0..1")
    law = robust_prior(values, offsets) if prior is None else prior
    standard = _standardise(values, lengths, law)

    model = Model(law.kappa0, law.alpha0, -math.log(expected_run), math.log1p(-1 / expected_run))
    limits = Limits(max_run, old_runs, dropped_mass, tolerance)
    return Changepoints(*filter_runs(standard, offsets, model, limits, run_lengths=run_lengths))


def _check_sequences(values: Float64, offsets: Int64) -> Int64:
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(values) or (np.diff(offsets) < 0).any():
        raise ValueError(f"offsets must rise from 0 to {len(values)}, the number of values")
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise ValueError(f"value {row} is {values[row]}; changepoint detection takes finite numbers only")
    return np.diff(offsets)


def _standardise(values: Float64, lengths: Int64, prior: Prior) -> Float64:
    """Measure data from mu0 in units of sqrt(beta0 / alpha0), which makes beta0 alpha0."""
    if any(len(column) not in (1, len(lengths)) for column in (prior.mu0, prior.beta0)):
        raise ValueError(f"the prior must have 1 entry or one for each of the {len(lengths)} sequences")
    centre, beta0 = (
        np.repeat(column, lengths) if len(column) == len(lengths) else column for column in (prior.mu0, prior.beta0)
    )
    with np.errstate(over="ignore"):  # refused below
        standard: Float64 = values - centre
        standard /= np.sqrt(beta0 / prior.alpha0)
    if len(values) and not -FARTHEST < standard.min() <= standard.max() < FARTHEST:
        raise ValueError(f"a value lies more than {FARTHEST:g} deviations from its prior mean; widen the prior")
    return standard
