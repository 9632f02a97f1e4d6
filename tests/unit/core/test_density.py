"""Density: the window that holds most against the null model, and of periods the one nearest to 0."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.core.density import Peaks, densest
from prism_ch.core.fullest_windows import find_nearest, weigh_windows

REACH = 10**9
WIDTHS = (10**5, 10**6, 10**7)


def peaks(
    *groups: list[int], widths: tuple[int, ...] = WIDTHS, attainable: float | None = None, nearest: bool = True
) -> Peaks:
    """Look at groups of values of weight 1."""
    values = [np.sort(np.array(group, np.int64)) for group in groups]
    number = np.repeat(np.arange(len(groups), dtype=np.int32), [len(group) for group in values])
    most = [attainable if attainable is not None else len(group) for group in values]
    wide = np.repeat(np.array(widths)[:, None], len(groups), axis=1)
    together = np.concatenate([np.empty(0, np.int64), *values])
    return densest(number, together, np.ones(len(together)), wide, np.array(most, np.float64), REACH, nearest=nearest)


def scattered(count: int, seed: int = 1) -> list[int]:
    """Values anywhere."""
    found: list[int] = np.random.default_rng(seed).integers(-REACH, REACH, count).tolist()
    return found


def test_a_peak_among_scattered_values_is_found() -> None:
    found = peaks([200_000_000 + n for n in range(50)] + scattered(5000))
    assert found.mean[0] == pytest.approx(200_000_024.5, abs=2000)
    assert found.inside[0] >= 50
    assert found.log_ratio[0] > 100


def test_groups_have_peaks_of_their_own() -> None:
    found = peaks([5] * 20, [-7_000_000] * 30, [])
    assert found.mean[:2].tolist() == [5, -7_000_000]
    assert found.inside.tolist() == [20, 30, 0]
    assert np.isnan(found.mean[2])
    assert found.log_ratio[2] == 0


@given(st.lists(st.lists(st.integers(-(10**8), 10**8) | st.integers(-(2**61), 2**61), max_size=12), max_size=4))
def test_groups_do_not_change_one_another(groups: list[list[int]]) -> None:
    found = peaks(*groups)
    for number, group in enumerate(groups):
        alone = peaks(group)
        for together, by_itself in ((found.inside, alone.inside), (found.log_ratio, alone.log_ratio)):
            assert together[number] == pytest.approx(by_itself[0], rel=1e-6)


def test_scattered_values_are_no_evidence() -> None:
    assert peaks(scattered(2000)).log_ratio[0] < 15


def test_the_width_is_that_of_what_lies_together() -> None:
    rng = np.random.default_rng(3)
    spread = (300_000_000 + rng.normal(0, 1_500_000, 300)).astype(int).tolist()
    found = peaks(spread + scattered(300))
    assert found.mean[0] == pytest.approx(300_000_000, abs=400_000)
    assert 1_000_000 < found.spread[0] < 3_000_000


def test_multiple_of_period_nearest_to_0_counts() -> None:
    assert peaks([n * 100_000_000 + 30_000_000 for n in range(-9, 9) for _ in range(20)]).mean[0] == 30_000_000


def test_fullest_multiple_counts_when_asked_for() -> None:
    multiples = [n * 100_000_000 for n in range(-9, 9) for _ in range(20 - abs(n - 3))]
    assert peaks(multiples, attainable=30).mean[0] == 0
    assert peaks(multiples, attainable=30, nearest=False).mean[0] == 300_000_000


def test_losses_do_not_decide_between_periods() -> None:
    found = peaks([0] * 95 + [100_000_000] * 97, attainable=100)
    assert found.mean[0] == 0


def test_far_window_counts_when_fuller_than_losses_explain() -> None:
    found = peaks([0] * 60 + [100_000_000] * 97, attainable=100)
    assert found.mean[0] == 100_000_000


@given(
    st.lists(st.lists(st.tuples(st.integers(-40, 40), st.sampled_from([0.25, 1.0])), max_size=20), max_size=4),
    st.integers(1, 30),
    st.floats(0, 8),
)
def test_windows_equal_those_weighed_one_by_one(
    groups: list[list[tuple[int, float]]], wide: int, enough: float
) -> None:
    rows = [(number, *row) for number, group in enumerate(groups) for row in sorted(group)]
    edges = np.cumsum([0, *map(len, groups)])
    values = np.array([value for _, value, _ in rows], dtype=np.int64)
    until = np.cumsum([0.0, *(weight for *_, weight in rows)])
    width, least = np.full(len(groups), wide), np.full(len(groups), enough)
    held, fullest, nearest = np.empty(len(rows)), np.empty(len(groups)), np.empty(len(groups), dtype=np.int64)
    weigh_windows(edges, values, until, width, held, fullest)
    find_nearest(edges, values, held, least, width, nearest)
    weighed = [
        sum(weight for other, value, weight in rows[row:] if other == number and value <= begin + wide)
        for row, (number, begin, _) in enumerate(rows)
    ]
    assert held.tolist() == weighed
    for number in range(len(groups)):
        own = range(edges[number], edges[number + 1])
        assert fullest[number] == max((weighed[row] for row in own), default=0)
        distance = {row: abs(rows[row][1] + wide // 2) for row in own if weighed[row] >= enough}
        assert nearest[number] == min(distance, key=lambda row: distance[row], default=-1)


def test_nothing() -> None:
    found = peaks()
    assert len(found.mean) == 0


@given(st.lists(st.integers(-REACH, REACH), min_size=1, max_size=30), st.integers(-REACH // 2, REACH // 2))
def test_peak_holds_the_values_counted_in_it(values: list[int], place: int) -> None:
    column = np.array([*values, *[place] * 40])
    found = peaks(column.tolist())
    near = column[np.abs(column - found.mean[0]) <= max(WIDTHS) / 2 + 1]
    assert 40 <= found.inside[0] <= len(near)
    assert found.mean[0] == pytest.approx(place, abs=max(WIDTHS) / 2)
