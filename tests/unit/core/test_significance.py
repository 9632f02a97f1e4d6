"""Deviations among many that were looked at."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from prism_ch.core.robust import MAD_TO_SD
from prism_ch.core.significance import (
    MEDIAN_SPREAD,
    better_of_rows,
    corrected_score,
    expected_by_chance,
    mean_ranks,
    quickest_runs,
    rank_correlation,
    rank_correlations,
    spread_of,
    trailing_low_median,
)


def test_seen_once_a_deviate_is_what_it_is() -> None:
    assert corrected_score([0.5, 2.0, 8.0], 1) == pytest.approx([0.5, 2.0, 8.0])


def test_among_many_only_what_is_rare_counts() -> None:
    tail = stats.norm.sf(6.0) * 1e6
    assert corrected_score([6.0], 1e6) == pytest.approx(stats.norm.isf([tail]))
    assert corrected_score([4.0, -3.0], 1e6).tolist() == [0.0, 0.0]
    assert corrected_score([40.0], 1e9)[0] > 39


def test_fewer_than_one_comparison_is_refused() -> None:
    with pytest.raises(ValueError, match=r"comparisons is 0\.5"):
        corrected_score([1.0], 0.5)


def test_what_chance_brings_is_the_binomial_tail_of_all_trials() -> None:
    assert expected_by_chance(3, 3, 0.1, 50) == pytest.approx(50 * 0.1**3)
    assert expected_by_chance(2, 5, 0.3, 7) == pytest.approx(7 * stats.binom.sf(1, 5, 0.3))
    assert expected_by_chance(0, 4, 0.2, 9) == pytest.approx(9)


def test_a_single_stray_lifts_no_trailing_median() -> None:
    values = np.array([[0.0, 9.0, 0.0, 9.0, 9.0, np.nan, 9.0]])
    low = trailing_low_median(values, 2)
    assert low[0, 1:5].tolist() == [0.0, 0.0, 0.0, 9.0]
    assert trailing_low_median(values, 4)[0, -1] == 9.0


def test_too_few_known_values_have_no_median() -> None:
    values = np.array([[np.nan, np.nan, np.nan, 1.0]])
    assert np.isnan(trailing_low_median(values, 4)).all()
    assert np.isnan(trailing_low_median(values, 2)).all()
    assert trailing_low_median(values, 1)[0, -1] == 1.0


def test_the_spread_is_that_of_most_and_at_least_the_floor() -> None:
    chance = np.random.default_rng(0)
    values = np.append(chance.normal(0, 2, 10_000), [1e9, np.nan])
    assert spread_of(values, 0.1) == pytest.approx(2, rel=0.05)
    assert spread_of(np.zeros(4), 0.1) == 0.1
    assert spread_of(np.array([np.nan]), 0.1) == 0.1


@pytest.mark.parametrize("levels", [1, 3, 1_000])
def test_ranks_are_those_of_scipy_whatever_ties(levels: int) -> None:
    values = np.random.default_rng(levels).integers(0, levels, (4, 30)).astype(np.float64)
    assert (mean_ranks(values) + 1).tolist() == stats.rankdata(values, axis=1).tolist()
    assert mean_ranks(values[:, :1]).tolist() == [[0.0]] * 4
    assert mean_ranks(values[:, :0]).shape == (4, 0)


class TestQuickestRuns:
    """A few values in a row that are lower than usual beyond chance."""

    def test_few_quicker_values_are_found_among_many_others(self) -> None:
        values = np.random.default_rng(1).normal([[1.0] * 6 + [1.15] * 60, [1.15] * 66], 0.005)
        first = quickest_runs(values, np.array([1.15, 1.15]), 5, 0.02, 5.0)
        assert 0 <= first[0] < 4
        assert first[1] == -1

    def test_jitter_has_no_quicker_run(self) -> None:
        values = np.stack([np.random.default_rng(seed).normal(1, 0.05, 64) for seed in range(50)])
        assert (quickest_runs(values, np.ones(50), 5, 0.02, 5.0) == -1).all()

    def test_half_of_a_run_does_not_make_it_quick(self) -> None:
        values = np.array([[1.0] * 2 + [1.2] * 60]) + np.random.default_rng(1).normal(0, 0.002, 62)
        assert quickest_runs(values, np.array([1.2]), 4, 0.02, 5.0).tolist() == [-1]
        values[0, 2] = 1.0
        assert quickest_runs(values, np.array([1.2]), 4, 0.02, 5.0).tolist() == [0]

    def test_rows_without_low_values_change_no_other_row(self) -> None:
        chance = np.random.default_rng(3)
        values = chance.lognormal(0, 0.05, (60, 40)) * np.where(
            chance.uniform(size=(60, 1)) < 0.5, 1, chance.choice(2, (60, 40)) + 1
        )
        values[chance.uniform(size=values.shape) < 0.01] = np.nan
        usual = np.nanmedian(values, axis=1)
        runs = np.lib.stride_tricks.sliding_window_view(values, 4, axis=1)
        medians = np.where(np.isnan(runs).any(axis=2), np.inf, np.sort(runs, axis=2)[..., 2])
        spread = np.maximum(
            MAD_TO_SD * np.nanmedian(np.abs(np.diff(values, axis=1)), axis=1) / np.sqrt(2), 0.02 * usual
        )
        lower = usual - medians.min(axis=1) > 3.0 * MEDIAN_SPREAD * spread / 2
        assert 0 < lower.sum() < 60
        expected = np.where(lower, medians.argmin(axis=1), -1)
        assert quickest_runs(values, usual, 4, 0.02, 3.0).tolist() == expected.tolist()

    @pytest.mark.parametrize("values", [[], [1.0] * 5, [np.nan] * 9, [1.0] * 4 + [np.nan] * 4])
    def test_too_few_values_show_nothing(self, values: list[float]) -> None:
        assert quickest_runs(np.array([values]), np.array([2.0]), 5, 0.02, 5.0).tolist() == [-1]


def test_few_better_values_in_a_row_show_what_is_usual() -> None:
    values = np.random.default_rng(2).normal([[1.0] * 6 + [1.15] * 60, [1.0] * 60 + [1.15] * 6], 0.005)
    assert better_of_rows(values, 5, 0.02, 5.0) == pytest.approx([1.0, 1.0], abs=0.01)
    assert np.isnan(better_of_rows(np.full((1, 9), np.nan), 5, 0.02, 5.0)).all()


def test_rank_correlations_are_spearmans() -> None:
    series = np.random.default_rng(4).integers(0, 9, (5, 40)).astype(float)
    assert rank_correlations(series) == pytest.approx(stats.spearmanr(series, axis=1).statistic)
    assert rank_correlation(series[0], series[1]) == pytest.approx(stats.spearmanr(*series[:2]).statistic)


def test_constant_series_correlates_with_nothing() -> None:
    series = np.array([[3.0, 3.0, 3.0], [1.0, 2.0, 3.0]])
    assert rank_correlations(series) == pytest.approx(np.array([[0.0, 0.0], [0.0, 1.0]]))
