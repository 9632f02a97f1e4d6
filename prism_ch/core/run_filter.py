"""The runs that may be alive at each datum of many sequences, and their probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from prism_ch.core.arrays import Bool, Float64, Int64
from prism_ch.core.run_merging import PARTS, Laws, merge_pairs

#: Older runs are dropped and merged after so many data: seldom, as that takes as long as several data do.
THINNED_EVERY = 16

#: A lighter run than this counts as this when it is merged, as there is no logarithm of 0.
LEAST_MASS = 1e-300


@dataclass(frozen=True, slots=True)
class Limits:
    """How many runs are kept: all of up to `max_run` data, and the `old_runs` that matter most of older ones.

    Of the older ones those of less than `dropped_mass` are dropped first.
    """

    max_run: int
    old_runs: int
    dropped_mass: float

    @property
    def thinned_every(self) -> int:
        """Return after how many data older runs are dropped and merged.

        At most half of them come new until then, so that there are pairs enough to merge.
        """
        return min(THINNED_EVERY, self.old_runs // 2)


class RunFilter:
    """The runs that may be alive in each sequence of a block: their sufficient statistics and joint log probabilities.

    Data are measured from the prior mean so that the prior's beta is its alpha. A row of the arrays is a run, oldest
    first; a column is a sequence. The newest `max_run` rows are the runs that began with the newest data, alike in all
    columns: what depends on their length is tabulated, longest first. The rows above are older runs, each of a length
    of its own. The joint log probability of a run of m data is in closed form (Murphy, "Conjugate Bayesian analysis of
    the Gaussian distribution", 2007, section 3, the marginal likelihood)

        start + (m-1) log(1-h) + log Gamma(alpha_m) - log Gamma(alpha_0) + log(kappa_0 / kappa_m) / 2 - m/2 log 2 pi
        + alpha_0 log beta_0 - alpha_m log beta_m,     with alpha_m = alpha_0 + m/2 and kappa_m = kappa_0 + m,

    where start = log h + log P(all data before the run). A merged run has the start that gives it the mass of both.
    Sequences do not affect each other: what has no part in one, while others need the row, starts at -inf.
    """

    def __init__(self, width: int, kappa0: float, alpha0: float, hazard: float, longest: int, limits: Limits) -> None:
        self.kappa0, self.alpha0, self.limits = kappa0, alpha0, limits
        self.log_hazard, self.log_survival = float(np.log(hazard)), float(np.log1p(-hazard))
        length = np.arange(min(longest, limits.max_run), 0, -1.0)[:, None]
        self.gain, self.alpha, self.constant = 1 / (kappa0 + length), alpha0 + length / 2, self._constant(length)
        most_older = min(max(0, longest - limits.max_run), limits.old_runs + limits.thinned_every)
        height = len(length) + most_older
        self.older = _Older(most_older, width, kappa0, alpha0)
        self.older_constant = self._constant(np.arange(PARTS * longest + 1 if most_older else 0) / PARTS)
        self.mean, self.double_beta, self.start, self.log_joint, self.mass = np.empty((5, height, width))
        self.began = np.empty((height, width), dtype=np.int32)  # of a merged run: the heaviest's first datum
        self.row = np.arange(height, dtype=np.min_scalar_type(height))[:, None]
        self.rows, self.time = 0, 0
        self.log_evidence = np.full(width, -self.log_hazard)  # so that the first datum begins a run for certain
        self.new_run_mass, self.top, self.total = np.empty((3, width))
        self.error_bound = np.zeros(width)

    def observe(self, x: Float64) -> None:
        """Take the next datum, standardised, of the first len(x) sequences; the others have ended."""
        alive, past = len(x), self.time - self.limits.max_run
        if past > 0 and past % self.limits.thinned_every == 0:
            self._thin(alive)
        self._begin_runs(alive)

        older, table = self._older_rows(), slice(-min(self.rows, self.limits.max_run), None)
        mean, double_beta, start, joint, work = (
            column[: self.rows, :alive]
            for column in (self.mean, self.double_beta, self.start, self.log_joint, self.mass)
        )
        np.subtract(x, mean, out=joint)
        np.multiply(joint[older:], self.gain[table], out=work[older:])
        if older:
            np.divide(joint[:older], self.older.kappa[:older, :alive], out=work[:older])
        mean += work
        np.subtract(joint, work, out=work)
        work *= joint
        double_beta += work
        np.log(double_beta, out=work)
        work[older:] *= self.alpha[table]
        np.add(start[older:], self.constant[table], out=joint[older:])
        if older:
            work[:older] *= self.older.alpha[:older, :alive]
            self.older_constant.take(self.older.parts[:older, :alive], out=joint[:older], mode="clip")
            joint[:older] += start[:older]
        joint -= work
        self._normalise(joint, work)

    def map_run_length(self) -> Int64:
        """Return how many earlier data the run of the newest datum has, most probably."""
        alive, older = len(self.top), self._older_rows()
        row = ((self.log_joint[older : self.rows, :alive] == self.top) * self.row[older : self.rows]).max(axis=0)
        if older:
            heaviest = self.older.heaviest[:older, :alive] == self.top
            np.maximum(row, (heaviest * self.row[:older]).max(axis=0), out=row)
        return np.asarray(self.time - 1 - self.began[row, np.arange(alive)])

    def _older_rows(self) -> int:
        return max(0, self.rows - self.limits.max_run)

    def _constant(self, length: Float64) -> Float64:
        """Return what of the joint log probability depends on the length alone.

        That is, where twice beta stands in place of beta.
        """
        kappa0, alpha0 = self.kappa0, self.alpha0
        gammas = gammaln(alpha0 + length / 2) - gammaln(alpha0) + alpha0 * np.log(2 * alpha0)  # beta_0 = alpha_0
        roots = np.log(kappa0 / (kappa0 + length)) / 2 - length / 2 * np.log(np.pi)
        return np.asarray(gammas + roots + (length - 1) * self.log_survival)

    def _begin_runs(self, alive: int) -> None:
        new = self.rows
        self.mean[new, :alive] = 0
        self.double_beta[new, :alive] = 2 * self.alpha0
        self.start[new, :alive] = self.log_hazard + self.log_evidence[:alive]
        self.began[new] = self.time
        self.rows += 1
        self.time += 1
        if older := self._older_rows():
            self.older.admit(older, alive, self.limits.max_run)

    def _normalise(self, joint: Float64, mass: Float64) -> None:
        """Sum the joint probabilities over the runs, in logarithms, and take the new run's share."""
        older, alive = self._older_rows(), joint.shape[1]
        self.top = joint[older:].max(axis=0)
        if older:
            lead, heaviest = self.older.lead[:older, :alive], self.older.heaviest[:older, :alive]
            np.maximum(self.top, np.add(joint[:older], lead, out=heaviest).max(axis=0), out=self.top)
        np.subtract(joint, self.top, out=mass)
        np.exp(mass, out=mass)
        self.total = mass.sum(axis=0)
        self.log_evidence = self.top + np.log(self.total)
        self.new_run_mass = mass[-1] / self.total

    def _thin(self, alive: int) -> None:
        """Drop the older runs that are too light, and merge where too many are left."""
        older = self._older_rows()
        mass = self.mass[:older, :alive] / self.total[:alive]
        present = self.start[:older, :alive] > -np.inf
        kept = present & (mass >= self.limits.dropped_mass)
        self.error_bound[:alive] += np.where(kept, 0, mass).sum(axis=0)
        too_many = np.maximum(kept.sum(axis=0) - self.limits.old_runs, 0)
        if too_many.any():
            self._merge(mass, kept, too_many)
        self._compact(kept)

    def _merge(self, mass: Float64, kept: Bool, too_many: Int64) -> None:
        """Make one run of each pair of neighbours that costs least.

        The other is taken out of `kept`. Either the lighter is dropped or they are merged, whichever costs less. Pairs
        are counted from the newest of the older runs, or from the one before it, by turns.
        """
        older, alive = mass.shape
        spared = (self.time - self.limits.max_run) // self.limits.thinned_every % 2
        first, second = (slice((older - spared) % 2 + i, older - spared, 2) for i in (0, 1))
        one, other = (
            Laws(self.mean[rows, :alive], self.double_beta[rows, :alive], self.older.parts[rows, :alive] / PARTS)
            for rows in (first, second)
        )
        both = mass[first] + mass[second] + LEAST_MASS
        law, merging = merge_pairs(one, other, mass[first] / both, self.kappa0, self.alpha0)
        merging *= both
        dropping = np.minimum(mass[first], mass[second])
        cost = np.where(kept[first] & kept[second], np.minimum(merging, dropping), np.inf)
        chosen = cost <= np.sort(cost, axis=0)[too_many - 1, np.arange(alive)]
        chosen &= too_many > 0
        self.error_bound[:alive] += np.where(chosen, cost, 0).sum(axis=0)
        merged = chosen & (merging < dropping)
        lighter = mass[first] < mass[second]
        kept[first] &= merged | ~(chosen & lighter)
        kept[second] &= ~chosen | (lighter & ~merged)

        log_joint = np.log(both) + self.log_evidence[:alive]
        parts = np.rint(PARTS * law.length).astype(np.int64)
        start = np.log(law.double_beta)
        start *= self.alpha0 + law.length / 2
        start += log_joint - self.older_constant.take(parts)
        heaviest, other_heaviest = self.older.heaviest[first, :alive], self.older.heaviest[second, :alive]
        np.copyto(self.began[first, :alive], self.began[second, :alive], where=merged & (other_heaviest > heaviest))
        for column, values in (
            (self.mean, law.mean),
            (self.double_beta, law.double_beta),
            (self.start, start),
            (self.older.parts, parts),
            (self.older.lead, np.maximum(heaviest, other_heaviest) - log_joint),
        ):
            np.copyto(column[first, :alive], values, where=merged)

    def _columns(self) -> tuple[npt.NDArray[Any], ...]:
        """Return what is kept of each run; the last two, of older runs only."""
        return self.mean, self.double_beta, self.start, self.began, self.older.parts, self.older.lead

    def _compact(self, kept: Bool) -> None:
        """Move the kept older runs of each sequence down, and drop rows that none needs."""
        older, alive = kept.shape
        count = kept.sum(axis=0)
        height = int(count.max())
        flat = np.flatnonzero(np.ascontiguousarray(kept.T))  # sequence after sequence
        slot = np.arange(height)[:, None] - (height - count)
        sequence = np.arange(alive)
        row = flat.take(np.maximum(slot, 0) + (np.cumsum(count) - count), mode="clip") - older * sequence
        place = np.where(slot < 0, 0, row) * self.mean.shape[1] + sequence
        for column in self._columns():
            column[:height, :alive] = column.reshape(-1).take(place)
        self.start[:height, :alive][slot < 0] = -np.inf
        self.older.measure(height, alive)
        for column in (self.mean, self.double_beta, self.start, self.began):
            column[height : self.rows - older + height] = column[older : self.rows]
        self.rows -= older - height


class _Older:
    """What is kept besides of older runs, float64[older, sequence] each.

    `kappa` and `alpha` of their laws; `parts`, int64, their length times PARTS; `lead`, the log share that the heaviest
    of those merged had; `heaviest`, its joint log probability.
    """

    def __init__(self, height: int, width: int, kappa0: float, alpha0: float) -> None:
        self.kappa0, self.alpha0 = kappa0, alpha0
        self.kappa, self.alpha, self.lead, self.heaviest = np.empty((4, height, width))
        self.parts = np.empty((height, width), dtype=np.int64)

    def admit(self, older: int, alive: int, length: int) -> None:
        """Take the run that is old now as the last, and lengthen all."""
        self.kappa[older - 1], self.alpha[older - 1] = self.kappa0 + length, self.alpha0 + length / 2
        self.parts[older - 1], self.lead[older - 1] = PARTS * length, 0
        self.kappa[:older, :alive] += 1
        self.alpha[:older, :alive] += 0.5
        self.parts[:older, :alive] += PARTS

    def measure(self, older: int, alive: int) -> None:
        """Set kappa and alpha from the lengths."""
        length = self.parts[:older, :alive] / PARTS
        np.add(length, self.kappa0, out=self.kappa[:older, :alive])
        np.add(length / 2, self.alpha0, out=self.alpha[:older, :alive])
