"""Merging two runs: what it costs is no less than the distance that numerical integration finds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_ch.core.arrays import Float64
from prism_ch.core.run_merging import FARTHEST_MERGED, PARTS, Laws, merge_pairs


def law(mean: float, double_beta: float, length: float) -> Laws:
    return Laws(np.array([mean]), np.array([double_beta]), np.array([length]))


def density(one: Laws, mean: Float64, precision: Float64, kappa0: float, alpha0: float) -> Float64:
    """Return the Normal-Inverse-Gamma density in textbook form, by mean and precision."""
    kappa, alpha, beta = kappa0 + one.length[0], alpha0 + one.length[0] / 2, one.double_beta[0] / 2
    log_gamma = alpha * math.log(beta) - math.lgamma(alpha) + (alpha - 1) * np.log(precision) - beta * precision
    log_normal = np.log(kappa * precision / (2 * math.pi)) / 2 - kappa * precision * (mean - one.mean[0]) ** 2 / 2
    return np.asarray(np.exp(log_gamma + log_normal))


def variation(one: Laws, other: Laws, merged: Laws, share: float, kappa0: float, alpha0: float) -> float:
    """Integrate half the absolute difference of the mixture and the merged law over a grid."""
    kappa, alpha = kappa0 + merged.length[0], alpha0 + merged.length[0] / 2
    centre = alpha / (merged.double_beta[0] / 2)
    # In the logarithm of the precision, and the mean in its deviations given the precision, all is near to normal.
    log_precision = math.log(centre) + np.linspace(-12, 9, 700) / math.sqrt(alpha)
    deviation = np.linspace(-10, 10, 500)
    precision = np.exp(log_precision)[:, None]
    scale = 1 / np.sqrt(kappa * precision)
    mean = merged.mean[0] + deviation * scale
    mixture = share * density(one, mean, precision, kappa0, alpha0)
    mixture += (1 - share) * density(other, mean, precision, kappa0, alpha0)
    difference = np.abs(mixture - density(merged, mean, precision, kappa0, alpha0)) * scale * precision
    return float(difference.sum() * np.diff(log_precision)[0] * np.diff(deviation)[0] / 2)


@settings(deadline=None, max_examples=150)
@given(
    length=st.integers(1, 400),
    fewer=st.floats(0, 1),
    moved=st.floats(-0.7, 0.7),
    steeper=st.floats(-0.7, 0.7),
    log_odds=st.floats(-6, 6),
    kappa0=st.floats(0.05, 5),
    alpha0=st.floats(1, 10),
)
def test_cost_is_no_less_than_the_distance(
    length: int, fewer: float, moved: float, steeper: float, log_odds: float, kappa0: float, alpha0: float
) -> None:
    share = 1 / (1 + math.exp(-log_odds))
    shorter = max(1.0, math.floor(PARTS * (length - fewer * math.sqrt(length))) / PARTS)
    one = law(0.0, 2 * alpha0 + length, length)
    other = law(
        moved / math.sqrt(kappa0 + shorter),
        (2 * alpha0 + shorter) * math.exp(steeper / math.sqrt(alpha0 + shorter / 2)),
        shorter,
    )
    merged, cost = merge_pairs(one, other, np.array([share]), kappa0, alpha0)
    if np.isfinite(cost[0]):
        assert variation(one, other, merged, share, kappa0, alpha0) <= 1.05 * cost[0] + 1e-6


def test_equal_runs_merge_for_nothing() -> None:
    one = law(1.5, 30.0, 20)
    merged, cost = merge_pairs(one, one, np.array([0.3]), 0.1, 1.0)
    assert merged.mean[0] == pytest.approx(1.5)
    assert merged.double_beta[0] == pytest.approx(30)
    assert merged.length[0] == 20
    assert cost[0] == pytest.approx(0, abs=1e-12)


def test_order_of_the_two_does_not_matter() -> None:
    one, other = law(0.0, 40.0, 40), law(0.02, 38.0, 37)
    merged, cost = merge_pairs(one, other, np.array([0.2]), 0.1, 1.0)
    swapped, same_cost = merge_pairs(other, one, np.array([0.8]), 0.1, 1.0)
    assert cost[0] == pytest.approx(same_cost[0])
    for name in ("mean", "double_beta", "length"):
        assert getattr(merged, name)[0] == pytest.approx(getattr(swapped, name)[0])


def test_runs_far_apart_have_no_common_law() -> None:
    far = math.sqrt(1.1 * FARTHEST_MERGED / 40)
    _, cost = merge_pairs(law(0.0, 42.0, 40), law(far, 42.0, 40), np.array([0.5]), 0.1, 1.0)
    assert np.isinf(cost[0])
