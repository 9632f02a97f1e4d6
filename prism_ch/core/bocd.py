"""Bayesian online changepoint detection of normal data, over many sequences at once.

The model (Adams & MacKay, "Bayesian Online Changepoint Detection", arXiv 0710.3742, sections 2 and 3): a sequence
consists of runs; a run ends before each datum with the constant probability h = 1 / expected_run, its hazard; the
data of a run are normal with a mean and variance of their own, drawn from a Normal-Inverse-Gamma prior. Given a run's
data the next follows a Student t law (Murphy, "Conjugate Bayesian analysis of the Gaussian distribution", 2007,
section 3).

Where this departs from Adams & MacKay: they let x_t still belong to the run that ends at t, so that P(r_t = 0 | x_1..t)
is h whatever the data. Here the datum itself opens the new run and is scored under the prior,

    P(r_t = 0,     x_1..t) = h       * p(x_t | prior)           * P(x_1..t-1)
    P(r_t = r + 1, x_1..t) = (1 - h) * p(x_t | its run's r + 1 data before) * P(r_t-1 = r, x_1..t-1)

and the normalised mass of r_t = 0 is the probability, on seeing x_t, that a run begins with it. r_t counts the
earlier data of the run that x_t belongs to. The first datum of a sequence begins a run for certain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from prism_ch.core.arrays import Float64, Int32, Int64
from prism_ch.core.robust import MEAN_AD_TO_SD, mad_by, median_by

#: Runs times sequences that one block holds in each of its arrays: what the second-level cache keeps.
BLOCK_CELLS = 16_384

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
    most probable number of earlier data in the datum's run.
    """

    new_run_mass: Float64
    map_run_length: Int32


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
    sequence = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    centre = median_by(sequence, values, len(lengths))
    spread = mad_by(sequence, values, len(lengths))
    deviation = np.abs(values - centre[sequence])
    mean_deviation = np.bincount(sequence, deviation, len(lengths)) / np.maximum(lengths, 1)
    spread = np.maximum(np.where(spread > 0, spread, MEAN_AD_TO_SD * mean_deviation), floor)
    return Prior(np.where(lengths > 0, centre, 0.0), ALPHA0 * spread**2)


def detect(
    values: Float64, offsets: Int64, prior: Prior | None = None, *, expected_run: float = 100.0, max_run: int = 256
) -> Changepoints:
    """Return the new-run mass and the most probable run length at every datum.

    Parameters: `values` float64[n], finite, all sequences end to end; `offsets` int64[k+1], sequence i is
    values[offsets[i]:offsets[i+1]] and may be empty; `prior`, by default `robust_prior(values, offsets)`, which has
    seen the whole sequence; `expected_run` > 1, the mean number of data in a run, 1 / h; `max_run` >= 1.
    Raises ValueError on NaN or infinite values, on offsets that do not divide the values, or on a datum absurdly far
    (1e140 deviations) from its prior.

    Exact for the first `max_run` data of a sequence. From then on the runs of more than `max_run` data are kept as one:
    their masses are added, the statistics (and the length) are those of the heaviest of them. So what is replaced is
    the prediction of old and less probable runs, by that of another with the same newest `max_run` data. On stationary
    normal data and with `max_run` 64 that moves new_run_mass by 1e-4 on average and by more than 0.01 at one datum in
    a thousand or fewer, at strays of about four deviations.

    Time and memory: O(n max_run) and O(n + block). Sequences of like length are advanced together, so that Python loops
    over the time index of each block and never over data.
    """
    lengths = _check_sequences(values, offsets)
    if not expected_run > 1 or not np.isfinite(expected_run):
        raise ValueError(f"expected_run is {expected_run}; a run must be expected to last more than 1 datum")
    if max_run < 1:
        raise ValueError(f"max_run is {max_run}; at least 1 datum of a run must be remembered")
    law = robust_prior(values, offsets) if prior is None else prior
    standard = _standardise(values, lengths, law)

    mass = np.empty(len(values))
    run_length = np.empty(len(values), dtype=np.int32)
    by_length = np.argsort(-lengths, kind="stable")
    done = 0
    while done < len(lengths):
        longest = int(lengths[by_length[done]])
        size = max(1, BLOCK_CELLS // max(1, min(longest, max_run)))
        block = by_length[done : done + size]
        runs = _Runs(len(block), law, 1 / expected_run, min(max_run, max(longest, 1)))
        for rows in _advance(offsets[block], lengths[block]):
            runs.observe(standard[rows])
            mass[rows] = runs.new_run_mass
            run_length[rows] = runs.map_run_length()
        done += size
    return Changepoints(mass, run_length)


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
    centre, beta0 = (np.repeat(np.broadcast_to(column, len(lengths)), lengths) for column in (prior.mu0, prior.beta0))
    with np.errstate(over="ignore"):  # refused below
        standard: Float64 = (values - centre) / np.sqrt(beta0 / prior.alpha0)
    if not (np.abs(standard) < FARTHEST).all():
        raise ValueError(f"a value lies more than {FARTHEST:g} deviations from its prior mean; widen the prior")
    return standard


def _advance(first: Int64, lengths: Int64) -> Iterator[Int64]:
    """Yield the rows of the t-th data of all sequences; lengths fall along the block."""
    alive = len(lengths)
    for t in range(int(lengths[0])):
        while lengths[alive - 1] <= t:
            alive -= 1
        yield first[:alive] + t


class _Runs:
    """The runs that may be alive in each sequence of a block: their sufficient statistics and joint log probabilities.

    A row of the arrays is a run, by its first datum, oldest first; a column is a sequence. So nothing moves as runs
    grow: what depends on a run's length is tabulated, longest first, and laid beside the newest rows. The joint log
    probability of a run of m data is in closed form (Murphy, section 3, the marginal likelihood)

        start + (m-1) log(1-h) + log Gamma(alpha_m) - log Gamma(alpha_0) + log(kappa_0 / kappa_m) / 2 - m/2 log 2 pi
        + alpha_0 log beta_0 - alpha_m log beta_m,     with alpha_m = alpha_0 + m/2 and kappa_m = kappa_0 + m,

    where start = log h + log P(all data before the run). The buffers are twice as high as needed; rows slide back,
    all at once, when they reach the end.
    """

    def __init__(self, width: int, prior: Prior, hazard: float, max_run: int) -> None:
        self.kappa0, self.alpha0, self.max_run = prior.kappa0, prior.alpha0, max_run
        self.log_hazard, self.log_survival = float(np.log(hazard)), float(np.log1p(-hazard))
        length = np.arange(max_run, 0, -1.0)[:, None]  # data in the run, the newest counted
        self.gain = 1 / (self.kappa0 + length)
        self.half_kappa = (self.kappa0 + length - 1) / 2
        self.shape = self.alpha0 + length / 2
        self.constant = self._constant(length)
        self.mean, self.beta, self.start, self.log_joint, self.work = np.empty((5, 2 * max_run, width))
        self.oldest, self.next = 0, 0
        self.old: Float64 | None = None  # mean, beta, start, length and log joint probability, float64[5, alive]
        self.log_evidence = np.full(width, -self.log_hazard)  # so that the first datum begins a run for certain
        self.new_run_mass = np.empty(width)

    def observe(self, x: Float64) -> None:
        """Take the next datum, standardised, of the first len(x) sequences; the others have ended."""
        alive = len(x)
        if self.next - self.oldest == self.max_run:
            self._fold_oldest(alive)
        if self.next == len(self.mean):
            self._slide_back()
        self._begin_runs(alive)

        rows, table = self._rows(), slice(self.oldest - self.next, None)
        mean, beta = self.mean[rows, :alive], self.beta[rows, :alive]
        joint, work = self.log_joint[rows, :alive], self.work[rows, :alive]
        np.subtract(x, mean, out=joint)
        np.multiply(joint, self.gain[table], out=work)
        mean += work
        work *= joint
        work *= self.half_kappa[table]
        beta += work
        np.log(beta, out=work)
        work *= self.shape[table]
        np.add(self.start[rows, :alive], self.constant[table], out=joint)
        joint -= work
        self._observe_old(x)
        self._normalise(alive)

    def map_run_length(self) -> Int64:
        alive = len(self.new_run_mass)
        joint = self.log_joint[self._rows(), :alive]
        row = np.argmax(joint, axis=0)
        length: Int64 = len(joint) - 1 - row
        if self.old is not None:
            older = self.old[4] > joint[row, np.arange(alive)]
            length[older] = self.old[3, older] - 1
        return length

    def _rows(self) -> slice:
        return slice(self.oldest, self.next)

    def _constant(self, length: Float64) -> Float64:
        kappa0, alpha0 = self.kappa0, self.alpha0
        gammas = gammaln(alpha0 + length / 2) - gammaln(alpha0) + alpha0 * np.log(alpha0)  # beta_0 = alpha_0
        roots = np.log(kappa0 / (kappa0 + length)) / 2 - length / 2 * np.log(2 * np.pi)
        return np.asarray(gammas + roots + (length - 1) * self.log_survival)

    def _begin_runs(self, alive: int) -> None:
        self.mean[self.next, :alive] = 0
        self.beta[self.next, :alive] = self.alpha0
        self.start[self.next, :alive] = self.log_hazard + self.log_evidence[:alive]
        self.next += 1

    def _slide_back(self) -> None:
        """Move the rows to the front of their buffers, at most half in use."""
        for column in (self.mean, self.beta, self.start):
            column[: self.next - self.oldest] = column[self._rows()]
        self.next -= self.oldest
        self.oldest = 0

    def _fold_oldest(self, alive: int) -> None:
        """Add the oldest run to the old runs; the heavier lends its statistics."""
        run = np.empty((5, alive))
        for entry, column in zip((0, 1, 2, 4), (self.mean, self.beta, self.start, self.log_joint), strict=True):
            run[entry] = column[self.oldest, :alive]
        run[3] = self.max_run
        if self.old is None:
            self.old = run
        else:
            old = self.old[:, :alive]
            both = np.logaddexp(old[4], run[4])
            self.old = np.where(old[4] > run[4], old, run)
            self.old[2] += both - self.old[4]
        self.oldest += 1

    def _observe_old(self, x: Float64) -> None:
        if self.old is None:
            return
        mean, beta, start, length, joint = self.old
        distance = x - mean
        kappa = self.kappa0 + length
        gained = distance / (kappa + 1)
        mean += gained
        beta += distance * gained * kappa / 2
        length += 1
        joint[:] = start + self._constant(length) - (self.alpha0 + length / 2) * np.log(beta)

    def _normalise(self, alive: int) -> None:
        """Sum the joint probabilities over the runs, in logarithms, and take the new run's share."""
        joint, work = self.log_joint[self._rows(), :alive], self.work[self._rows(), :alive]
        top = joint.max(axis=0)
        if self.old is not None:
            np.maximum(top, self.old[4], out=top)
        np.subtract(joint, top, out=work)
        np.exp(work, out=work)
        total = work.sum(axis=0)
        if self.old is not None:
            total += np.exp(self.old[4] - top)
        self.log_evidence = top + np.log(total)
        self.new_run_mass = work[-1] / total
