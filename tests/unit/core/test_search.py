"""Values are found inside sorted groups of rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.core.search import group_search, segment_search


@pytest.mark.parametrize("rows", [10, 5_000])
@pytest.mark.parametrize("highest", [10, 2**61])
def test_group_search_finds_first_larger_value(rows: int, highest: int) -> None:
    chance = np.random.default_rng(rows)
    group = np.sort(chance.integers(0, 4, rows)).astype(np.int32)
    values = np.concatenate([np.sort(chance.integers(-highest, highest, np.sum(group == one))) for one in range(4)])
    wanted, queries = chance.integers(0, 6, rows).astype(np.int32), chance.integers(-highest, highest, rows)
    found = group_search(group, values, wanted, queries)
    assert [
        np.sum((group < one) | ((group == one) & (values <= query)))
        for one, query in zip(wanted[:200], queries[:200], strict=True)
    ] == found[:200].tolist()
    order = np.lexsort((queries, wanted))
    np.testing.assert_array_equal(group_search(group, values, wanted[order], queries[order]), found[order])


@given(st.lists(st.lists(st.integers(-5, 5), max_size=9), min_size=1, max_size=5), st.lists(st.integers(-6, 6)))
def test_segment_search_is_searchsorted_in_each_segment(segments: list[list[int]], queries: list[int]) -> None:
    segments = [sorted(segment) for segment in segments]
    offsets = np.cumsum([0] + [len(segment) for segment in segments], dtype=np.int64)
    values = np.array([value for segment in segments for value in segment], dtype=np.float64)
    which = np.arange(len(queries)) % len(segments)
    found = segment_search(values, offsets[which], offsets[which + 1], np.array(queries, dtype=np.float64))
    expected = [np.searchsorted(segments[i], query, side="right") for i, query in zip(which, queries, strict=True)]
    np.testing.assert_array_equal(found, expected)


def test_group_search_beside_groups_without_values() -> None:
    group, values = np.array([1, 1, 3], dtype=np.int32), np.array([5, 7, 6])
    group.setflags(write=False)
    wanted, queries = np.array([0, 1, 1, 1, 2, 3, 4], dtype=np.int32), np.array([9, 4, 5, 9, 9, 6, 0])
    assert group_search(group, values, wanted, queries).tolist() == [0, 0, 1, 2, 2, 3, 3]
    empty = np.empty(0, dtype=np.int64)
    assert group_search(empty.astype(np.int32), empty, wanted, queries).tolist() == [0] * 7
    assert group_search(group, values, empty.astype(np.int32), empty).tolist() == []
