"""The checks and groupings that the algorithms share."""

from collections.abc import Iterator
from itertools import groupby
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.core import arrays
from prism_ch.core.arrays import (
    Growing,
    blocks,
    check_equal_length,
    check_groups,
    distinct,
    fold_at,
    fold_rows,
    order_by,
    ranges,
    run_lengths,
    run_places,
    run_starts,
)


def test_equal_lengths_are_demanded_by_name() -> None:
    assert check_equal_length() == 0
    assert check_equal_length(a=np.zeros(3), b=np.ones(3)) == 3
    with pytest.raises(ValueError, match="b has 2 rows where the columns before it have 3"):
        check_equal_length(a=np.zeros(3), b=np.ones(2))
    with pytest.raises(ValueError, match="a must be one-dimensional, not 2-dimensional"):
        check_equal_length(a=np.zeros((3, 1)))


def test_groups_are_counted_and_checked() -> None:
    assert check_groups(np.array([0, 4, 2]), None) == 5
    assert check_groups(np.array([0, 4, 2]), 7) == 7
    assert check_groups(np.empty(0, dtype=np.int32), None) == 0
    assert check_groups(np.empty(0, dtype=np.int32), 3) == 3
    with pytest.raises(ValueError, match="numbered -1"):
        check_groups(np.array([0, -1]), None)
    with pytest.raises(ValueError, match="numbered 3, but there are only 3 groups"):
        check_groups(np.array([3]), 3)


def test_runs_begin_where_any_key_changes() -> None:
    np.testing.assert_array_equal(run_starts(np.array([1, 1, 1, 2]), np.array([0, 5, 5, 5])), [0, 1, 3])
    assert len(run_starts(np.empty(0))) == 0


@given(key=st.lists(st.integers(0, 2), max_size=12))
def test_each_run_counts_its_rows_from_nought(key: list[int]) -> None:
    starts = run_starts(np.array(key, dtype=np.int64))
    lengths, places = run_lengths(starts, len(key)), run_places(starts, len(key))
    runs = [len(list(rows)) for _, rows in groupby(key)]
    assert lengths.tolist() == runs
    assert places.tolist() == [place for length in runs for place in range(length)]


@pytest.fixture(scope="module")
def few_are_packed() -> Iterator[None]:
    """Sort few rows as many are sorted."""
    with patch.object(arrays, "_FEW", 1):
        yield


_KEYS = st.tuples(st.integers(0, 3), st.booleans(), st.integers(-(2**61), 2**61), st.integers(-2, 2))


@pytest.mark.usefixtures("few_are_packed")
@given(st.lists(_KEYS, max_size=30), st.sampled_from([(0, 1, 3), (3, 0, 2), (2, 0), (2, 2, 3), (1,), (2,)]))
def test_order_is_that_of_lexsort_however_wide_the_keys(rows: list[tuple[int, ...]], chosen: tuple[int, ...]) -> None:
    dtypes = (np.uint16, np.bool_, np.int64, np.int32)
    columns = [np.array([row[key] for row in rows], dtype=dtypes[key]) for key in chosen]
    np.testing.assert_array_equal(order_by(*columns), np.lexsort(columns[::-1]))
    fractions = np.array([row[3] / 2 for row in rows])
    np.testing.assert_array_equal(
        order_by(*columns, fractions, *columns), np.lexsort([*columns[::-1], fractions, *columns[::-1]])
    )


@pytest.mark.usefixtures("few_are_packed")
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(-(2**61), 2**61)), max_size=20))
def test_rows_that_many_tie_with_are_ordered_by_the_rest(rows: list[tuple[int, ...]]) -> None:
    columns = [np.array([row[key] for row in rows], dtype=np.int64) for key in range(3)]
    wide = columns[0] * 2**60  # leaves no room for a row's number
    for keys in ([wide], [wide, columns[2]], [wide, columns[1], columns[2]], [columns[1], wide, columns[2]]):
        np.testing.assert_array_equal(order_by(*keys), np.lexsort(keys[::-1]))


@pytest.mark.parametrize("runs", [1, 3, 400])
@pytest.mark.parametrize("highest", [5, 2**61])
def test_sorted_runs_are_merged_stably(runs: int, highest: int) -> None:
    chance = np.random.default_rng(runs)
    first = np.sort(chance.integers(-highest, highest, (runs, 1200 // runs)), axis=1).ravel()
    second = chance.integers(0, 2, len(first))
    for keys in ([first], [first, second], [first, second, first[::-1]]):
        np.testing.assert_array_equal(order_by(*keys), np.lexsort(keys[::-1]))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint16])
def test_distinct_numbers_are_those_of_unique(dtype: type[np.integer]) -> None:
    values = np.random.default_rng(1).integers(0, 50, (4, 30)).astype(dtype)
    for some in (values, values[:0], values[0]):
        np.testing.assert_array_equal(distinct(some), np.unique(some), strict=True)


def test_ranges_are_counted_up_end_to_end() -> None:
    assert ranges(np.array([5, 7, 0]), np.array([2, 0, 3])).tolist() == [5, 6, 0, 1, 2]
    assert ranges(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)).tolist() == []


@given(st.lists(st.integers(1, 9), max_size=20), st.integers(1, 12))
def test_blocks_hold_all_runs_and_few_rows(lengths: list[int], rows: int) -> None:
    first = np.cumsum([0, *lengths], dtype=np.int64)[:-1]
    found = blocks(first, rows)
    assert [run for low, high in found for run in range(low, high)] == list(range(len(lengths)))
    assert all(high > low and sum(lengths[low : high - 1]) <= rows for low, high in found)


@given(st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=6))
def test_what_grows_is_its_parts_end_to_end(parts: list[list[int]]) -> None:
    growing = Growing(a=np.empty(0, dtype=np.int32), b=np.empty(0, dtype=np.int64))
    for part in parts:
        growing.append(a=np.array(part, dtype=np.int32), b=2 * np.array(part, dtype=np.int64))
    columns = growing.end()
    assert columns["a"].tolist() == [one for part in parts for one in part]
    assert columns["b"].tolist() == (2 * columns["a"]).tolist()
    assert [columns[name].itemsize for name in "ab"] == [4, 8]


def test_columns_grow_together() -> None:
    growing = Growing(a=np.empty(0), b=np.empty(0))
    with pytest.raises(ValueError, match="b has 1 rows"):
        growing.append(a=np.zeros(2), b=np.zeros(1))


def test_values_fold_into_the_cells_of_a_table() -> None:
    chance = np.random.default_rng(2)
    cell, values = (chance.integers(0, 3, 40), chance.integers(0, 4, 40)), chance.integers(-9, 9, 40)
    for fold, start in ((np.fmax, np.nan), (np.minimum, np.inf), (np.add, 0.0)):
        found, expected = np.full((3, 4), start), np.full((3, 4), start)
        fold_at(fold, found, cell, values)
        fold.at(expected, cell, values)
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="copy"):
        fold_at(np.add, np.zeros((4, 3)).T, cell, values)


def test_rows_fold_into_the_rows_of_a_table() -> None:
    chance = np.random.default_rng(3)
    for rows in (0, 1, 40):
        row, values = chance.integers(0, 5, rows), chance.choice([-1.0, 0.0, 2.5, np.nan], (rows, 4))
        for fold, start in ((np.fmin, np.nan), (np.minimum, np.inf), (np.maximum, -np.inf)):
            found, expected = np.full((6, 4), start), np.full((6, 4), start)
            fold_rows(fold, found, row, values)
            fold.at(expected, row, values)
            np.testing.assert_array_equal(found, expected)
