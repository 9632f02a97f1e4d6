"""Places in rising rows: as by comparing each value with every number of its row."""

from __future__ import annotations

import numpy as np
import pytest

from prism_ch.core.rising_rows import count_below, count_up_to, nearest_place


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("near", [0.0, 0.5, 2.7])
def test_places_equal_those_by_comparing_all(seed: int, near: float) -> None:
    chance = np.random.default_rng(seed)
    rows = np.sort(chance.integers(0, 30, (5, 1 + seed % 8)), axis=1).astype(np.float64)
    row, value = chance.integers(0, 5, 200), chance.integers(-5, 40, 200) + near
    assert count_below(rows, row, value).tolist() == (rows[row] < value[:, None]).sum(axis=1).tolist()
    assert count_up_to(rows, row, value).tolist() == (rows[row] <= value[:, None]).sum(axis=1).tolist()
    assert nearest_place(rows, row, value).tolist() == np.abs(rows[row] - value[:, None]).argmin(axis=1).tolist()


def test_a_row_of_nan_holds_nothing() -> None:
    rows = np.array([[np.nan, np.nan], [1.0, 2.0]])
    assert count_below(rows, np.array([0, 1]), np.array([9, 9])).tolist() == [0, 2]
    assert count_up_to(rows, np.array([0, 1]), np.array([1, 1])).tolist() == [0, 1]
