"""Two runs of changepoint detection made one, at a stated cost.

What a run predicts is its Normal-Inverse-Gamma law of a mean and a variance. Two neighbouring old runs differ by a few
of many data, so that one law can stand for both (the reduction of a mixture by its moments: Runnalls,
"Kullback-Leibler approach to Gaussian mixture reduction", 2007, section 3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.core.arrays import Float64

#: The lengths of merged runs are multiples of one part in so many, so that what depends on them can be tabulated.
PARTS = 2

#: Laws farther apart than this have no common one. Its cost is of second order in their distance, and
#: `tests/unit/core/test_run_merging.py` holds it against the exact one up to here.
FARTHEST_MERGED = 0.5


@dataclass(frozen=True, slots=True)
class Laws:
    """Normal-Inverse-Gamma laws of runs: `mean`, `double_beta` and `length`, float64 of one shape.

    A law's kappa is kappa0 + `length`, its alpha alpha0 + `length` / 2 and its beta `double_beta` / 2.
    """

    mean: Float64
    double_beta: Float64
    length: Float64


def merge_pairs(one: Laws, other: Laws, share: Float64, kappa0: float, alpha0: float) -> tuple[Laws, Float64]:
    """Return one law for each pair of runs, and what it costs.

    Parameters: `share`, in 0..1, the part of their mass that `one` has; `kappa0` and `alpha0` of the prior.
    The cost, for a mass of 1, bounds the total variation between all that the two runs predict and all that their
    common law does; it is infinite where they are too far apart to have one. It has two terms: half the product of the
    shares and the squared Fisher distance of the laws, to second order more than half the root of the chi-squared
    divergence from the best of all laws; and half the Fisher distance from there to the law returned.

    1. Average the precision, and the mean as precisions weigh it.
    2. Find kappa and alpha with which mean and precision are as uncertain as those of the two together.
    3. Choose the length between those that the two ask for.
    """
    rest = 1 - share
    alpha, other_alpha = alpha0 + one.length / 2, alpha0 + other.length / 2
    precision, other_precision = 2 * alpha / one.double_beta, 2 * other_alpha / other.double_beta
    average = share * precision + rest * other_precision
    weight = share * precision / average
    offset = one.mean - other.mean
    mean = other.mean + weight * offset

    product = share * rest
    apart = offset**2 * average
    steeper = ((precision - other_precision) / average) ** 2
    ideal_kappa = 1 / (share / (kappa0 + one.length) + rest / (kappa0 + other.length) + weight * (1 - weight) * apart)
    ideal_alpha = 1 / (share / alpha + rest / other_alpha + product * steeper)
    length = np.rint(((ideal_kappa - kappa0) / 2 + ideal_alpha - alpha0) * PARTS) / PARTS
    length = np.clip(length, 1 / PARTS, np.maximum(one.length, other.length))
    kappa, alpha = kappa0 + length, alpha0 + length / 2

    longer = ((one.length - other.length) / kappa) ** 2
    distance = apart * kappa + steeper * alpha + longer
    missed = (ideal_kappa / kappa - 1) ** 2 + (ideal_alpha / alpha - 1) ** 2
    cost = product * distance / 2 + np.sqrt(missed / 8)
    return Laws(mean, 2 * alpha / average, length), np.where(distance > FARTHEST_MERGED, np.inf, cost)
