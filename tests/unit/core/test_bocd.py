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
sequences = st.lists(st.lists(floats, max_size=25), min_size=1, max_size=6)


def ragged(data: list[list[float]]) -> tuple[Float64, Int64]:
    values = np.array([x for one in data for x in one], dtype=np.float64)
    return values, np.cumsum([0] + [len(one) for one in data], dtype=np.int64)


def prior_of(mu0: float, kappa0: float, alpha0: float, beta0: float) -> bocd.Prior:
    return bocd.Prior(np.array([mu0]), np.array([beta0]), kappa0, alpha0)


def assert_equals_naive(
    data: list[float], prior: tuple[float, float, float, float], expected_run: float, max_run: int
) -> None:
    values, offsets = ragged([data])
    found = bocd.detect(values, offsets, prior_of(*prior), expected_run=expected_run, max_run=max_run)
    for t, posterior in enumerate(naive.run_lengths(data, prior, expected_run, max_run)):
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
@pytest.mark.parametrize("max_run", [200, 20, 3, 1])
def test_equals_the_slow_reference(data: list[float], max_run: int) -> None:
    scale = max((abs(x) for x in data), default=1.0) or 1.0
    assert_equals_naive(data, (0.1 * scale, 0.3, 1.2, 0.5 * scale * scale), 20.0, max_run)


@settings(deadline=None, max_examples=60)
@given(
    data=st.lists(floats, max_size=30),
    mu0=floats,
    kappa0=st.floats(1e-3, 1e3),
    alpha0=st.floats(0.1, 100),
    beta0=st.floats(1e-6, 1e6),
    expected_run=st.floats(1.01, 1e6),
    max_run=st.integers(1, 40),
)
def test_equals_the_slow_reference_for_any_prior(
    data: list[float], mu0: float, kappa0: float, alpha0: float, beta0: float, expected_run: float, max_run: int
) -> None:
    assert_equals_naive(data, (mu0, kappa0, alpha0, beta0), expected_run, max_run)


@settings(deadline=None, max_examples=40)
@given(sequences, st.integers(1, 30), st.randoms(use_true_random=False))
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


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = np.random.default_rng(3)
    lengths = noise.integers(0, 60, 50)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    values = noise.normal(size=int(offsets[-1]))
    whole = bocd.detect(values, offsets, max_run=16)
    monkeypatch.setattr(bocd, "BLOCK_CELLS", 40)
    parts = bocd.detect(values, offsets, max_run=16)
    np.testing.assert_array_equal(whole.new_run_mass, parts.new_run_mass)
    np.testing.assert_array_equal(whole.map_run_length, parts.map_run_length)


@given(st.integers(0, 1000), st.floats(-1e3, 1e3), st.floats(0.01, 100))
@settings(deadline=None, max_examples=20)
def test_neither_shift_nor_scale_of_data_and_prior_matters(seed: int, shift: float, scale: float) -> None:
    values, offsets = ragged([two_regimes(seed)])
    plain = bocd.detect(values, offsets, prior_of(0, 0.1, 1, 1))
    moved = bocd.detect(values * scale + shift, offsets, prior_of(shift, 0.1, 1, scale**2))
    np.testing.assert_allclose(plain.new_run_mass, moved.new_run_mass, rtol=1e-5, atol=1e-9)


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


def test_folding_old_runs_costs_little() -> None:
    """The figures of the docstring."""
    sequences, length = 40, 800
    values = np.random.default_rng(7).normal(2.0, 0.05, sequences * length)
    offsets = np.arange(sequences + 1) * length
    exact = bocd.detect(values, offsets, max_run=length)
    folded = bocd.detect(values, offsets, max_run=64)
    error = np.abs(exact.new_run_mass - folded.new_run_mass)
    assert error.mean() < 1.5e-4
    assert np.mean(error > 0.01) < 1e-3


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
    with pytest.raises(ValueError, match="max_run is 0"):
        bocd.detect(np.zeros(2), ends, max_run=0)
    with pytest.raises(ValueError, match="beta0 must be positive"):
        prior_of(0, 1, 1, 0)
    with pytest.raises(ValueError, match="mu0 must be finite"):
        prior_of(np.nan, 1, 1, 1)
    with pytest.raises(ValueError, match=r"1e\+140 deviations"):
        bocd.detect(np.array([1e200, 0]), ends, prior_of(0, 1, 1, 1))
    with pytest.raises(ValueError, match="one for each of the 1 sequences"):
        bocd.detect(np.zeros(2), ends, bocd.Prior(np.ones(2), np.ones(2)))
