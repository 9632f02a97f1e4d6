"""What the compiled loops over runs are made of: a logarithm, an exponential, and merging at a bounded cost."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_ch.core import run_filter
from prism_ch.core.arrays import Float64
from prism_ch.core.machine_code import compiled
from prism_ch.core.run_filter import FARTHEST_MERGED
from prism_ch.core.runs import LEAST_MAX_RUN

Law = tuple[float, float, float, float]


@compiled
def log_and_exp(numbers: Float64, log: Float64, exp: Float64) -> None:
    for i in range(len(numbers)):
        log[i], exp[i] = run_filter._log(abs(numbers[i]) + 1e-300), run_filter._exp(numbers[i])


@compiled
def merge(one: Law, other: Law, share: float) -> tuple[float, float, float, float, float, float]:
    return run_filter.merge(one, other, share)


def law(mean: float, double_beta: float, kappa: float, alpha: float) -> Law:
    return mean, double_beta, kappa, alpha


def test_log_and_exp_equal_numpy() -> None:
    noise = np.random.default_rng(1)
    numbers = np.concatenate([noise.normal(0, 200, 20_000), noise.normal(0, 1, 20_000), [0.0, 1e300, 1.0, 700, -700]])
    log, exp = np.empty((2, len(numbers)))
    log_and_exp(numbers, log, exp)
    np.testing.assert_allclose(log, np.log(np.abs(numbers) + 1e-300), rtol=4e-14, atol=4e-14)
    np.testing.assert_allclose(exp, np.exp(np.clip(numbers, -700, 700)), rtol=5e-12)


def density(one: Law, mean: Float64, precision: Float64) -> Float64:
    """Return the Normal-Inverse-Gamma density in textbook form, by mean and precision."""
    centre, double_beta, kappa, alpha = one
    beta = double_beta / 2
    log_gamma = alpha * math.log(beta) - math.lgamma(alpha) + (alpha - 1) * np.log(precision) - beta * precision
    log_normal = np.log(kappa * precision / (2 * math.pi)) / 2 - kappa * precision * (mean - centre) ** 2 / 2
    return np.asarray(np.exp(log_gamma + log_normal))


def variation(one: Law, other: Law, merged: Law, share: float) -> float:
    """Integrate half the absolute difference of the mixture and the merged law over a grid."""
    centre, double_beta, kappa, alpha = merged
    # In the logarithm of the precision, and the mean in its deviations given the precision, all is near to normal.
    log_precision = math.log(2 * alpha / double_beta) + np.linspace(-12, 9, 700) / math.sqrt(alpha)
    deviation = np.linspace(-10, 10, 500)
    precision = np.exp(log_precision)[:, None]
    scale = 1 / np.sqrt(kappa * precision)
    mean = centre + deviation * scale
    mixture = share * density(one, mean, precision) + (1 - share) * density(other, mean, precision)
    difference = np.abs(mixture - density(merged, mean, precision)) * scale * precision
    return float(difference.sum() * np.diff(log_precision)[0] * np.diff(deviation)[0] / 2)


@settings(deadline=None, max_examples=150)
@given(
    length=st.integers(LEAST_MAX_RUN, 400),
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
    shorter = max(float(LEAST_MAX_RUN), length - fewer * math.sqrt(length))
    one = law(0.0, 2 * alpha0 + length, kappa0 + length, alpha0 + length / 2)
    kappa, alpha = kappa0 + shorter, alpha0 + shorter / 2
    other = law(moved / math.sqrt(kappa), 2 * alpha * math.exp(steeper / math.sqrt(alpha)), kappa, alpha)
    *merged, cost, _ = merge(one, other, share)
    if cost < 1:
        assert variation(one, other, law(*merged), share) <= cost + 1e-6


def test_moments_of_the_merged_law_are_those_of_both() -> None:
    """Averages over many draws of each run's mean and precision, beside those of the one law."""
    noise = np.random.default_rng(2)
    one, other, share = law(0.0, 42.0, 40.1, 21.0), law(0.05, 39.0, 37.1, 19.5), 0.3

    def draws(of: Law, count: int) -> Float64:
        precision = noise.gamma(of[3], 2 / of[1], count)
        return np.stack([of[0] + noise.normal(size=count) / np.sqrt(of[2] * precision), precision])

    *merged, _, _ = merge(one, other, share)
    both = np.concatenate([draws(one, 600_000), draws(other, 1_400_000)], axis=1)
    single = draws(law(*merged), 2_000_000)

    def moments(drawn: Float64) -> tuple[float, ...]:
        mean, precision = drawn
        centred = precision * (mean - merged[0])
        return precision.mean(), precision.var(), centred.mean(), (centred * (mean - merged[0])).mean()

    assert moments(single) == pytest.approx(moments(both), rel=0.01, abs=0.001)


def test_equal_runs_merge_for_nothing() -> None:
    one = law(1.5, 30.0, 20.1, 11.0)
    *merged, cost, estimate = merge(one, one, 0.3)
    assert merged == pytest.approx(one)
    assert (cost, estimate) == pytest.approx((0, 0), abs=1e-12)


def test_order_of_the_two_does_not_matter() -> None:
    one, other = law(0.0, 40.0, 40.1, 21.0), law(0.02, 38.0, 37.1, 19.5)
    assert merge(one, other, 0.2) == pytest.approx(merge(other, one, 0.8))


def test_runs_far_apart_have_no_common_law() -> None:
    far = math.sqrt(1.5 * FARTHEST_MERGED / 40)
    assert merge(law(0.0, 42.0, 40.1, 21.0), law(far, 42.0, 40.1, 21.0), 0.5)[4:] == (1, 0.25)
