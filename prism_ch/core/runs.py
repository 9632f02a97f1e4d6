"""What is kept of the runs that may be alive: their laws, what depends on their length, and room for it all.

The joint log probability of a run of m data is in closed form (Murphy, "Conjugate Bayesian analysis of the Gaussian
distribution", 2007, section 3, the marginal likelihood)

    start + (m-1) log(1-h) + log Gamma(alpha_m) - log Gamma(alpha_0) + log(kappa_0 / kappa_m) / 2 - m/2 log 2 pi
    + alpha_0 log beta_0 - alpha_m log beta_m,     with alpha_m = alpha_0 + m/2 and kappa_m = kappa_0 + m,

where start = log h + log P(all data before the run). Of the newest runs, each of another length, what depends on
that is tabulated. Older runs have kappa and alpha of their own; what each datum adds to all alike is left out of
their starts, and log Gamma(alpha) - alpha log beta is written as a function of beta / alpha (Stirling). A merged
run has the start that gives it the mass of both.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import gammaln

from prism_ch.core.arrays import Float64, Int32, Int64

#: Runs are worked in blocks of so many, which is what the compiler makes of a loop; void rows fill them up.
BLOCK = 8

#: Older runs have at least so many data: the series for their Gamma function is then exact to 1e-12.
LEAST_MAX_RUN = 32

#: The start of a void row: no run is as improbable.
VOID = -1e300


#: The law of a run: mean, twice beta, kappa, alpha.
Law: TypeAlias = tuple[float, float, float, float]


class Model(NamedTuple):
    """What is known before the data: the prior, in units that make its beta its alpha, and the hazard h."""

    kappa0: float
    alpha0: float
    log_hazard: float
    log_survival: float


class Limits(NamedTuple):
    """How many runs are kept: all of up to `max_run` data, and at most `old_runs` older ones.

    Older ones of less than `dropped_mass` are dropped, and two whose score is less than `tolerance` become one.
    """

    max_run: int
    old_runs: int
    dropped_mass: float
    tolerance: float


class Results(NamedTuple):
    """Where the results at each datum are written; `run_length` is empty where it is not wanted."""

    new_run_mass: Float64
    run_length: Int32
    error_bound: Float64


class Newest(NamedTuple):
    """Runs of at most `max_run` data, float64 each, oldest first. `weight` is their probability in a unit of its own.

    `mean` and `double_beta` are of their laws; `start` is log h + log P(all data before the run).
    """

    mean: Float64
    double_beta: Float64
    start: Float64
    weight: Float64


class Tables(NamedTuple):
    """What depends on a run's length alone, the longest first: 1 / kappa, alpha, log constant.

    float64[max_run + BLOCK] each: void rows have a length too.
    """

    gain: Float64
    alpha: Float64
    constant: Float64


class Older(NamedTuple):
    """Runs of more than `max_run` data, or those that were merged, float64 each but for `began`, oldest first.

    `inverse` is 1 / (kappa alpha), formed at each datum. `lead` is the share that the heaviest of those merged had,
    `began` its first datum.
    """

    mean: Float64
    double_beta: Float64
    start: Float64
    weight: Float64
    kappa: Float64
    alpha: Float64
    inverse: Float64
    lead: Float64
    began: Int64


class Pairs(NamedTuple):
    """What each older run and the next would be, were they one, float64 each; `cost` and `score` of `merge`."""

    mean: Float64
    double_beta: Float64
    start: Float64
    kappa: Float64
    alpha: Float64
    cost: Float64
    score: Float64


#: Room for the runs of one sequence.
Room: TypeAlias = tuple[Newest, Older, Pairs]


def tabulate(model: Model, max_run: int) -> Tables:
    """Tabulate what depends on the length of a run, up to `max_run` data."""
    length = np.arange(max_run + BLOCK, 0, -1.0)
    alpha = model.alpha0 + length / 2
    gammas = gammaln(alpha) - gammaln(model.alpha0) + model.alpha0 * np.log(2 * model.alpha0)  # beta_0 = alpha_0
    roots = np.log(model.kappa0 / (model.kappa0 + length)) / 2 - length / 2 * np.log(np.pi)
    return Tables(1 / (model.kappa0 + length), alpha, gammas + roots + (length - 1) * model.log_survival)


def make_room(longest: int, limits: Limits, thinned_every: int) -> Room:
    """Make room for the runs of a sequence of `longest` data.

    The newest are moved to its front where it ends.
    """
    kept = min(longest, limits.max_run)
    rows = min(longest - kept, limits.old_runs + thinned_every) + BLOCK
    newest = Newest(*np.zeros((4, BLOCK + kept + min(longest - kept, max(kept, 256)))))
    newest.start[:BLOCK], newest.double_beta[:BLOCK] = VOID, 1
    mean, double_beta, start, weight, kappa, alpha, inverse, lead = np.empty((8, rows))
    older = Older(mean, double_beta, start, weight, kappa, alpha, inverse, lead, np.empty(rows, dtype=np.int64))
    return newest, older, Pairs(*np.empty((7, rows)))
