"""Robust statistics: equal to Python's own, blind to order, and unmoved by strays."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from prism_ch.core import robust
from prism_ch.core.arrays import Float64
from tests import naive

numbers = st.floats(-1e6, 1e6, allow_subnormal=False)
positive = st.floats(1e-3, 1e6)


@given(st.lists(numbers, min_size=1, max_size=15), st.integers(0, 4))
def test_median_and_mad_equal_the_slow_versions(values: list[float], missing: int) -> None:
    holed = values + [math.nan] * missing
    assert robust.median(holed) == pytest.approx(statistics.median(values))
    assert robust.mad(holed) == pytest.approx(naive.mad(values))
    np.testing.assert_allclose(robust.median([holed, holed[::-1]], axis=1), statistics.median(values))
    np.testing.assert_allclose(robust.mad(np.array([holed, holed[::-1]]).T, axis=0), naive.mad(values))


@given(st.lists(numbers, min_size=1, max_size=15))
def test_the_middle_is_the_median_of_numpy_to_the_last_digit(values: list[float]) -> None:
    assert robust.middle(np.array(values)) == float(np.median(values))


def test_nothing_has_no_median() -> None:
    assert np.isnan(robust.median([]))
    assert np.isnan(robust.mad([math.nan]))
    assert np.isnan(robust.median(np.empty((2, 0)), axis=1)).tolist() == [True, True]


def test_mad_estimates_the_standard_deviation_in_spite_of_strays() -> None:
    values = np.random.default_rng(1).normal(5, 2, 20_000)
    values[:2000] = 1e9
    assert robust.mad(values) == pytest.approx(2, rel=0.2)
    assert robust.mad(values[2000:]) == pytest.approx(2, rel=0.03)


@given(st.lists(numbers, min_size=1, max_size=15), st.floats(0.5, 100), numbers)
def test_z_follows_neither_unit_nor_origin(values: list[float], unit: float, origin: float) -> None:
    assume(np.ptp(values) == 0 or np.min(np.abs(np.diff(np.unique(values)))) > 1)
    plain = robust.robust_z(values)
    np.testing.assert_allclose(robust.robust_z(np.array(values) * unit + origin), plain, rtol=1e-3, atol=1e-3)


def test_z_counts_deviations_from_the_median_along_an_axis() -> None:
    values = np.array([[1.0, 2.0, 3.0, 4.0, 100.0], [7.0, 7.0, 7.0, 7.0, 8.0], [5.0, 5.0, 5.0, 5.0, math.nan]])
    z = robust.robust_z(values, axis=1)
    np.testing.assert_allclose(z[0], np.array([-2, -1, 0, 1, 97]) / 1.482602218505602)
    np.testing.assert_allclose(z[1], [0, 0, 0, 0, 1 / (1.2533141373155 * 0.2)])
    np.testing.assert_array_equal(z[2], [0, 0, 0, 0, math.nan])
    np.testing.assert_allclose(robust.robust_z(values.T, axis=0), z.T)


def test_z_believes_in_no_less_than_the_floor() -> None:
    np.testing.assert_allclose(robust.robust_z([7.0, 7.0, 7.0, 8.0], floor=2.0), [0, 0, 0, 0.5])
    np.testing.assert_allclose(robust.robust_z([1.0, 1.0], floor=2.0), [0, 0])
    # Where most are equal the floor is all there is to go by: one that is far off stands out among few.
    np.testing.assert_allclose(robust.robust_z([1.0, 1.0, 1.0, 3.0], floor=0.05), [0, 0, 0, 40])
    with pytest.raises(ValueError, match="floor is -1"):
        robust.robust_z([1.0], floor=-1.0)


@given(st.lists(st.tuples(st.integers(0, 3), numbers), max_size=20), st.floats(0, 1), st.randoms())
def test_grouped_statistics_equal_the_slow_versions(
    rows: list[tuple[int, float]], q: float, random: st.DataObject
) -> None:
    group = np.array([g for g, _ in rows], dtype=np.int32)
    values = np.array([value for _, value in rows], dtype=np.float64)
    of_group = [[value for g, value in rows if g == wanted] for wanted in range(4)]
    np.testing.assert_allclose(
        robust.quantile_by(group, values, q, 4),
        [naive.quantile(each, q) if each else math.nan for each in of_group],
        rtol=1e-9,
        atol=1e-6,
    )
    np.testing.assert_allclose(
        robust.mad_by(group, values, 4), [naive.mad(each) if each else math.nan for each in of_group], atol=1e-6
    )
    several = robust.quantiles_by(group, values, (0.25, q), 4)
    np.testing.assert_array_equal(several, [robust.quantile_by(group, values, one, 4) for one in (0.25, q)])
    order = np.argsort(values)
    np.testing.assert_array_equal(robust.median_by(group[order], values[order]), robust.median_by(group, values))


def test_grouped_statistics_skip_missing_and_refuse_nonsense() -> None:
    group = np.array([0, 0, 2, 2], dtype=np.int32)
    np.testing.assert_array_equal(robust.median_by(group, [1, 3, math.nan, 5]), [2, math.nan, 5])
    assert len(robust.median_by(group[:0], [])) == 0
    with pytest.raises(ValueError, match=r"q is 1\.5"):
        robust.quantile_by(group, [1, 2, 3, 4], 1.5)
    with pytest.raises(ValueError, match="only 2 groups"):
        robust.median_by(group, [1, 2, 3, 4], 2)


@given(st.lists(positive, min_size=3, max_size=20), st.sampled_from([0.0, 0.01, 0.2]))
def test_split_equals_the_slow_version(values: list[float], min_share: float) -> None:
    logs = np.sort(np.log(values))
    assume(((np.diff(logs) == 0) | (np.diff(logs) > 1e-3)).all())  # cuts equally good but for rounding prove nothing
    threshold, separation = robust.two_class_split(values, min_share=min_share)
    assert 0 <= separation <= 1
    expected = naive.two_class_threshold(values, min_share)
    if threshold != pytest.approx(expected):
        assert naive_cost(values, threshold) == pytest.approx(naive_cost(values, expected), abs=1e-6)


def naive_cost(values: list[float], threshold: float) -> float:
    """Evaluate the criterion of a cut, to let equally good cuts pass."""
    sides = [[math.log(v) for v in values if (v > threshold) == above] for above in (False, True)]
    squares = sum((v - statistics.fmean(side)) ** 2 for side in sides for v in side)
    entropy = -sum(len(side) / len(values) * math.log(len(side) / len(values)) for side in sides)
    return math.log(squares / len(values)) / 2 + entropy


@pytest.mark.parametrize("share", [0.5, 0.1, 0.02])
def test_split_finds_two_classes_of_any_share(share: float) -> None:
    noise = np.random.default_rng(2)
    low, high = noise.normal(0, 1, 1000), noise.normal(9, 1, round(1000 * share))
    threshold, separation = robust.two_class_split(np.exp(np.concatenate((low, high))))
    assert low.max() < math.log(threshold) < high.min()
    assert separation > 0.7


def one_class(kind: str) -> Float64:
    noise = np.random.default_rng(3)
    logs = {"normal": noise.normal(size=2000), "uniform": noise.uniform(size=2000), "equal": np.zeros(2000)}[kind]
    values: Float64 = np.exp(logs)
    return values


@pytest.mark.parametrize("kind", ["normal", "uniform", "equal"])
def test_split_sees_no_two_classes_in_one(kind: str) -> None:
    assert robust.two_class_split(one_class(kind))[1] < 0.1


def test_split_counts_weights_and_ignores_strays() -> None:
    values = np.array([1.0, 1.1, 1.2, 50.0, 55.0, 60.0])
    repeated = robust.two_class_split(np.repeat(values, [1, 2, 3, 3, 2, 1]))
    assert robust.two_class_split(values, weights=[1, 2, 3, 3, 2, 1]) == pytest.approx(repeated)
    stray = np.append(np.full(199, 2.0), 1e9)
    assert robust.two_class_split(stray) == (1e9, 0.0)
    assert robust.two_class_split(stray, min_share=0)[0] == pytest.approx(math.sqrt(2e9))
    assert robust.two_class_split([1.0, 100.0])[1] == 0
    assert robust.two_class_split([1.0, 1.0, 100.0], weights=[1, 1, 1e-20], min_share=0) == (100.0, 0.0)


def test_split_does_not_part_equal_values_rounded_differently() -> None:
    assert robust.two_class_split([0.001, 0.001, np.nextafter(0.001, 1)])[1] == 0


def test_split_refuses_what_has_no_logarithm() -> None:
    for values in ([], [0.0, 1.0], [1.0, math.inf], [math.nan]):
        with pytest.raises(ValueError, match="values must be positive and finite"):
            robust.two_class_split(values)
    with pytest.raises(ValueError, match="weights must be positive"):
        robust.two_class_split([1.0, 2.0], weights=[1.0, 0.0])


@given(st.lists(st.integers(0, 60).map(float), max_size=20), st.floats(0, 0.5))
def test_size_classes_equal_the_slow_version(values: list[float], tolerance: float) -> None:
    assert robust.size_classes(values, tolerance).tolist() == naive.size_classes(values, tolerance)


def test_size_classes_keep_groups_apart() -> None:
    group = np.array([1, 0, 1, 0], dtype=np.int32)
    assert robust.size_classes([100, 100, 101, 300], 0.02, group).tolist() == [2, 0, 2, 1]


def test_size_classes_take_in_sizes_within_their_slack() -> None:
    slack = np.array([0.0, 20.0, 20.0])
    assert robust.size_classes([100, 120, 150], 0.1, slack=slack).tolist() == [0, 0, 1]


def test_size_classes_refuse_nonsense() -> None:
    with pytest.raises(ValueError, match="sizes must be finite"):
        robust.size_classes([-1.0], 0.1)
    with pytest.raises(ValueError, match="relative_tolerance is -1"):
        robust.size_classes([1.0], -1.0)


def test_what_comes_evenly_is_expected_to_go_on() -> None:
    at_ns = np.arange(0, 1000, 10)
    assert robust.usual_count(at_ns, 800, 1000) == pytest.approx(20)


def test_events_all_at_once_are_not_usual() -> None:
    at_ns = np.concatenate([np.full(500, 3), np.arange(0, 800, 10)])
    assert robust.usual_count(at_ns, 800, 900) == pytest.approx(10)


def test_nothing_before_is_usual_of_nothing() -> None:
    assert robust.usual_count(np.array([900, 950]), 800, 1000) == 0.0
    assert robust.usual_count(np.array([], dtype=np.int64), 800, 1000) == 0.0


def test_times_of_today_lose_nothing() -> None:
    begin_ns = 1_800_000_000 * 10**9
    at_ns = begin_ns + np.arange(0, 80, 1) * 10**9
    assert robust.usual_count(at_ns, begin_ns + 80 * 10**9, begin_ns + 100 * 10**9) == pytest.approx(20)


def test_who_came_just_before_is_no_division_by_nothing() -> None:
    begin_ns = 1_800_000_000 * 10**9
    assert robust.usual_count(np.array([begin_ns - 1]), begin_ns, begin_ns + 10**9) == 0.0
