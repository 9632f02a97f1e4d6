"""Changepoint detection: equal to the slow reference, a batch equal to its sequences alone, right where seen."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_ch.core import bocd
from prism_ch.core.arrays import Float64, Int64
from tests import naive

TOLERANCE = 1e-9

floats = st.floats(-1e6, 1e6, allow_subnormal=False)
sequences = st.lists(st.lists(floats, max_size=60), min_size=1, max_size=6)


def ragged(data: list[list[float]]) -> tuple[Float64, Int64]:
    values = np.array([x for one in data for x in one], dtype=np.float64)
    return values, np.cumsum([0] + [len(one) for one in data], dtype=np.int64)


def prior_of(mu0: float, kappa0: float, alpha0: float, beta0: float) -> bocd.Prior:
    return bocd.Prior(np.array([mu0]), np.array([beta0]), kappa0, alpha0)


def assert_equals_naive(
    data: list[float], prior: tuple[float, float, float, float], expected_run: float, max_run: int
) -> None:
    """Without dropping, and with as many older runs as there can be, all is exact."""
    values, offsets = ragged([data])
    found = bocd.detect(
        values,
        offsets,
        prior_of(*prior),
        expected_run=expected_run,
        max_run=max_run,
        old_runs=200,
        dropped_mass=0,
        tolerance=0,
    )
    assert not found.error_bound.any()
    for t, posterior in enumerate(naive.run_lengths(data, prior, expected_run)):
        assert found.new_run_mass[t] == pytest.approx(posterior[0], rel=TOLERANCE, abs=TOLERANCE)
        # Where two run lengths are equally probable but for rounding, either is right.
        assert posterior[int(found.map_run_length[t])] >= max(posterior.values()) - TOLERANCE


def two_regimes(seed: int) -> list[float]:
    noise = np.random.default_rng(seed)
    return [*noise.normal(0, 1, 40), *noise.normal(9, 0.3, 30), *noise.normal(9, 3, 30)]


@pytest.mark.parametrize(
    "data",
    [
        two_regimes(1),
        [0.0] * 50,
        [1e100] * 20 + [3e100] * 20,
        [1e-60, 2e-60, -1e-60] * 10,
        [0.0, 1e90, 0.0, 0.0, -1e90, 1.0],
        [5.0],
        [],
    ],
    ids=["random", "constant", "huge", "tiny", "jumps", "one", "none"],
)
@pytest.mark.parametrize("max_run", [200, 50, 32])
def test_equals_the_slow_reference(data: list[float], max_run: int) -> None:
    scale = max((abs(x) for x in data), default=1.0) or 1.0
    assert_equals_naive(data, (0.1 * scale, 0.3, 1.2, 0.5 * scale * scale), 20.0, max_run)


@settings(deadline=None, max_examples=60)
@given(
    data=st.lists(floats, max_size=80),
    mu0=floats,
    kappa0=st.floats(1e-3, 1e3),
    alpha0=st.floats(0.1, 100),
    beta0=st.floats(1e-6, 1e6),
    expected_run=st.floats(1.01, 1e6),
    max_run=st.integers(32, 60),
)
def test_equals_the_slow_reference_for_any_prior(
    data: list[float], mu0: float, kappa0: float, alpha0: float, beta0: float, expected_run: float, max_run: int
) -> None:
    assert_equals_naive(data, (mu0, kappa0, alpha0, beta0), expected_run, max_run)


@settings(deadline=None, max_examples=40)
@given(sequences, st.integers(32, 40), st.randoms(use_true_random=False))
def test_batch_equals_single_in_any_order(data: list[list[float]], max_run: int, random: st.DataObject) -> None:
    values, offsets = ragged(data)
    prior = replace(bocd.robust_prior(values, offsets), alpha0=1.5)
    together = bocd.detect(values, offsets, prior, max_run=max_run)
    for i, one in enumerate(data):
        alone = bocd.detect(
            *ragged([one]),
            prior_of(float(prior.mu0[i]), prior.kappa0, prior.alpha0, float(prior.beta0[i])),
            max_run=max_run,
        )
        rows_of_one = slice(offsets[i], offsets[i + 1])
        np.testing.assert_allclose(together.new_run_mass[rows_of_one], alone.new_run_mass, rtol=1e-9, atol=1e-12)


def test_sequences_do_not_affect_each_other() -> None:
    """Runs of the first are dropped early; the second needs all its rows, and those after it end sooner."""
    noise = np.random.default_rng(4)
    changing = np.tile([0.0] * 8 + [5.0], 40) + noise.normal(0, 0.03, 360)
    data = [changing, noise.normal(size=360), noise.normal(size=200), noise.normal(size=90), changing[:300]]
    together = bocd.detect(*ragged([list(one) for one in data]), prior_of(0, 0.1, 1, 1))
    alone = [bocd.detect(*ragged([list(one)]), prior_of(0, 0.1, 1, 1)) for one in data]
    np.testing.assert_allclose(
        together.new_run_mass, np.concatenate([one.new_run_mass for one in alone]), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_array_equal(together.map_run_length, np.concatenate([one.map_run_length for one in alone]))
    np.testing.assert_allclose(
        together.error_bound, np.concatenate([one.error_bound for one in alone]), rtol=1e-6, atol=1e-15
    )


@given(st.integers(0, 1000), st.floats(-1e3, 1e3), st.floats(0.01, 100))
@settings(deadline=None, max_examples=20)
def test_neither_shift_nor_scale_of_data_and_prior_matters(seed: int, shift: float, scale: float) -> None:
    values, offsets = ragged([two_regimes(seed)])
    plain = bocd.detect(values, offsets, prior_of(0, 0.1, 1, 1))
    moved = bocd.detect(values * scale + shift, offsets, prior_of(shift, 0.1, 1, scale**2))
    np.testing.assert_allclose(plain.new_run_mass, moved.new_run_mass, rtol=1e-5, atol=1e-9)


def test_huge_data_have_a_posterior_when_runs_merge() -> None:
    noise = np.random.default_rng(6)
    values = noise.normal(size=600)
    values[100::50] = 1e139
    found = bocd.detect(values, np.array([0, 600]), prior_of(0, 0.1, 1, 1))
    exact = bocd.detect(values, np.array([0, 600]), prior_of(0, 0.1, 1, 1), max_run=600)
    assert found.error_bound[-1] > 0
    np.testing.assert_allclose(found.new_run_mass, exact.new_run_mass, rtol=0, atol=1e-6)


def test_finds_changes_of_mean_and_of_variance() -> None:
    values, offsets = ragged([two_regimes(1)])
    found = bocd.detect(values, offsets, prior_of(0, 0.1, 1, 1), expected_run=50)
    assert found.new_run_mass[40] > 0.95
    assert found.map_run_length[39] == 39
    assert found.map_run_length[40] == 0
    assert found.map_run_length[69] == 29
    assert abs(int(found.map_run_length[99]) - 29) <= 3  # the change of variance takes some data to see
    assert np.delete(found.new_run_mass[:70], [0, 40]).max() < 0.95


def test_quiet_data_never_look_like_a_new_run() -> None:
    noise = np.random.default_rng(5)
    values = noise.normal(2.0, 0.05, 5000)
    offsets = np.array([0, 5000])
    found = bocd.detect(values, offsets, max_run=64)
    assert found.new_run_mass[0] == 1
    assert found.new_run_mass[3:].max() < 0.95
    assert np.mean(found.new_run_mass[3:]) < 0.01


def drawn_from_model(
    noise: np.random.Generator, sequences: int, length: int, prior: tuple[float, float, float], expected_run: float
) -> Float64:
    """Draw sequences as the model makes them, about 0; `prior` is kappa0, alpha0, beta0."""
    kappa0, alpha0, beta0 = prior
    begins = noise.random((sequences, length)) < 1 / expected_run
    begins[:, 0] = True
    run = np.cumsum(begins.ravel()) - 1
    precision = noise.gamma(alpha0, 1 / beta0, run[-1] + 1)
    mean = noise.normal(0, 1 / np.sqrt(kappa0 * precision))
    return np.asarray(mean[run] + noise.normal(size=len(run)) / np.sqrt(precision[run]))


@pytest.mark.parametrize(
    "limits",
    [(32, 2, 0.0, 0.0), (32, 6, 0.0, 0.0), (32, 300, 1e-3, 0.0), (40, 16, 1e-30, 1e-3), (64, 300, 1e-30, 1e-4)],
)
@pytest.mark.parametrize("prior", [(0.1, 1.0, 1.0), (1.0, 5.0, 2.0)])
def test_bound_holds_on_average_over_the_model(
    limits: tuple[int, int, float, float], prior: tuple[float, float, float]
) -> None:
    sequences, length, expected_run = 60, 260, 50.0
    values = drawn_from_model(np.random.default_rng(11), sequences, length, prior, expected_run)
    offsets = np.arange(sequences + 1) * length
    law = prior_of(0, *prior)
    exact = bocd.detect(values, offsets, law, expected_run=expected_run, max_run=max(length, 32))
    max_run, old_runs, dropped_mass, tolerance = limits
    found = bocd.detect(
        values,
        offsets,
        law,
        expected_run=expected_run,
        max_run=max_run,
        old_runs=old_runs,
        dropped_mass=dropped_mass,
        tolerance=tolerance,
    )
    error = np.abs(found.new_run_mass - exact.new_run_mass).reshape(sequences, length).mean(axis=0)
    bound = found.error_bound.reshape(sequences, length)
    assert (np.diff(bound, axis=1) >= 0).all()
    assert error.max() > 0
    assert (error <= 2 * bound.mean(axis=0) + TOLERANCE).all()
    assert not bound[:, :max_run].any()


shapes = st.sampled_from(["normal", "constant", "jumps", "strays", "drift", "whole"])


def shaped(shape: str, noise: np.random.Generator, length: int) -> Float64:
    """Draw data that the model makes, and data that it would not."""
    values = noise.normal(size=length)
    if shape == "constant":
        values[:] = 0.7
    elif shape == "jumps":
        values = np.repeat(noise.normal(0, 30, length // 20 + 1), 20)[:length] + 0.1 * values
    elif shape == "strays":
        values[noise.random(length) < 0.05] *= 100
    elif shape == "drift":
        values = np.cumsum(values)
    elif shape == "whole":
        values = np.round(values)
    return values


@settings(deadline=None, max_examples=60)
@given(
    shape=shapes,
    seed=st.integers(0, 10_000),
    length=st.integers(1, 220),
    kappa0=st.floats(0.01, 10),
    alpha0=st.floats(0.5, 10),
    beta0=st.floats(1e-2, 1e2),
    expected_run=st.floats(1.5, 1e3),
)
def test_merging_changes_little_on_any_data(
    shape: str, seed: int, length: int, kappa0: float, alpha0: float, beta0: float, expected_run: float
) -> None:
    """Nothing is proved of one sequence that the model need not make; the defaults are far from this tolerance."""
    values, offsets = ragged([list(shaped(shape, np.random.default_rng(seed), length))])
    prior = prior_of(0, kappa0, alpha0, beta0)
    exact = bocd.detect(values, offsets, prior, expected_run=expected_run, max_run=max(length, 32))
    found = bocd.detect(values, offsets, prior, expected_run=expected_run)
    np.testing.assert_allclose(found.new_run_mass, exact.new_run_mass, rtol=0, atol=1e-4)
    assert 0 <= found.error_bound[-1] < 0.1


def test_run_lengths_that_are_not_wanted_change_nothing_else() -> None:
    values, offsets = ragged([two_regimes(3), two_regimes(4)])
    whole, part = (bocd.detect(values, offsets, run_lengths=wanted) for wanted in (True, False))
    np.testing.assert_array_equal(part.new_run_mass, whole.new_run_mass)
    np.testing.assert_array_equal(part.error_bound, whole.error_bound)
    assert (len(part.map_run_length), len(whole.map_run_length)) == (0, len(values))


def test_robust_prior_has_the_width_of_most_data() -> None:
    values, offsets = ragged([[1.0, 2.0, 3.0, 4.0, 1e6], [7.0] * 5, [7.0] * 4 + [8.0], []])
    prior = bocd.robust_prior(values, offsets, floor=0.01)
    np.testing.assert_allclose(prior.mu0, [3, 7, 7, 0])
    np.testing.assert_allclose(prior.beta0, [1.4826022**2, 1e-4, (1.2533141 * 0.2) ** 2, 1e-4], rtol=1e-6)


def test_no_sequences_at_all() -> None:
    found = bocd.detect(np.empty(0), np.array([0]))
    assert len(found.new_run_mass) == len(found.map_run_length) == 0


def test_refuses_what_it_cannot_use() -> None:
    ends = np.array([0, 2])
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=r"value 1 is (nan|inf); .* finite"):
            bocd.detect(np.array([1.0, bad]), ends)
    for offsets in ([0, 1], [1, 2], [0, 3, 2], []):
        with pytest.raises(ValueError, match="offsets must rise from 0 to 2"):
            bocd.detect(np.zeros(2), np.array(offsets, dtype=np.int64))
    with pytest.raises(ValueError, match="expected_run is 1"):
        bocd.detect(np.zeros(2), ends, expected_run=1.0)
    with pytest.raises(ValueError, match=r"max_run is 31; .* at least 32"):
        bocd.detect(np.zeros(2), ends, max_run=31)
    with pytest.raises(ValueError, match="old_runs is 1"):
        bocd.detect(np.zeros(2), ends, old_runs=1)
    with pytest.raises(ValueError, match="dropped_mass is nan"):
        bocd.detect(np.zeros(2), ends, dropped_mass=float("nan"))
    with pytest.raises(ValueError, match="tolerance is -1"):
        bocd.detect(np.zeros(2), ends, tolerance=-1)
    with pytest.raises(ValueError, match="beta0 must be positive"):
        prior_of(0, 1, 1, 0)
    with pytest.raises(ValueError, match="mu0 must be finite"):
        prior_of(np.nan, 1, 1, 1)
    with pytest.raises(ValueError, match=r"1e\+140 deviations"):
        bocd.detect(np.array([1e200, 0]), ends, prior_of(0, 1, 1, 1))
    with pytest.raises(ValueError, match="one for each of the 1 sequences"):
        bocd.detect(np.zeros(2), ends, bocd.Prior(np.ones(2), np.ones(2)))
