"""Interval algebra: equal to its slow versions, group by group, in any order and anywhere on the line of time."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.core import intervals
from prism_ch.core.arrays import Int32, Int64
from tests import naive

GROUPS = 3
NOW_NS = 1_700_000_000_000_000_000
Row = tuple[int, int, int]  # group, start, end

times = st.integers(-20, 20)
rows_strategy = st.lists(
    st.tuples(st.integers(0, GROUPS - 1), times, st.integers(0, 9)).map(lambda row: (row[0], row[1], row[1] + row[2])),
    max_size=15,
)


def columns(rows: Sequence[Row]) -> tuple[Int32, Int64, Int64]:
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return table[:, 0].astype(np.int32), table[:, 1].copy(), table[:, 2].copy()


def of_group(rows: Sequence[Row], group: int) -> list[tuple[int, int]]:
    return [(start, end) for g, start, end in rows if g == group]


def naive_merge(rows: Sequence[Row], gap: int = 0) -> list[Row]:
    return [(g, start, end) for g in range(GROUPS) for start, end in naive.merge(of_group(rows, g), gap)]


def disjoint(rows: Sequence[Row]) -> list[Row]:
    return [row for row in naive_merge(rows) if row[2] > row[1]]


def merged_rows(merged: intervals.Merged) -> list[Row]:
    return list(zip(merged.group.tolist(), merged.start.tolist(), merged.end.tolist(), strict=True))


@given(rows_strategy, st.integers(0, 5))
def test_merge_equals_the_slow_version(rows: list[Row], gap: int) -> None:
    merged = intervals.merge(*columns(rows), gap_ns=gap)
    assert merged_rows(merged) == naive_merge(rows, gap)
    for (group, start, end), owner in zip(rows, merged.owner.tolist(), strict=True):
        assert merged.group[owner] == group
        assert merged.start[owner] <= start
        assert end <= merged.end[owner]
    assert sorted(set(merged.owner.tolist())) == list(range(len(merged.start)))


@given(rows_strategy)
def test_first_rows_serve_reduceat_on_sorted_input(rows: list[Row]) -> None:
    group, start, end = columns(sorted(rows))
    merged = intervals.merge(group, start, end)
    if len(rows):
        by_reduceat = np.add.reduceat(end - start, merged.first_row)
        np.testing.assert_array_equal(by_reduceat, np.bincount(merged.owner, weights=end - start))


@given(rows_strategy.flatmap(lambda rows: st.tuples(st.just(rows), st.permutations(rows))), st.integers(0, 5))
def test_merge_ignores_the_order_of_rows(both: tuple[list[Row], list[Row]], gap: int) -> None:
    one, other = (merged_rows(intervals.merge(*columns(rows), gap_ns=gap)) for rows in both)
    assert one == other


@given(rows_strategy, st.sampled_from([1, NOW_NS, -NOW_NS]))
def test_shifting_time_shifts_the_result(rows: list[Row], shift: int) -> None:
    group, start, end = columns(rows)
    here = intervals.merge(group, start, end)
    there = intervals.merge(group, start + shift, end + shift)
    np.testing.assert_array_equal(here.start + shift, there.start)
    np.testing.assert_array_equal(here.end + shift, there.end)


def test_merge_of_groups_too_far_apart_for_one_line() -> None:
    """Lifting each of these groups above the other would overflow 64 bits."""
    far = 2**61
    rows = [(g, base + start, base + end) for g in range(9) for base in (-far, far) for start, end in ((0, 5), (3, 9))]
    merged = intervals.merge(*columns(rows))
    assert merged_rows(merged) == [(g, base, base + 9) for g in range(9) for base in (-far, far)]


@given(rows_strategy)
def test_union_length_equals_the_slow_version(rows: list[Row]) -> None:
    union = intervals.union_length(*columns(rows), groups=GROUPS)
    assert union.tolist() == [sum(e - s for s, e in naive.merge(of_group(rows, g))) for g in range(GROUPS)]


@given(rows_strategy, rows_strategy, st.integers(0, 5))
def test_what_meets_overlaps_or_comes_nearer_than_the_reach(rows: list[Row], others: list[Row], reach: int) -> None:
    cover = disjoint(others)
    met = intervals.meets(*columns(rows), intervals.merge(*columns(cover)), reach)
    near = [[start < e + reach and end > s - reach for start, end in of_group(cover, g)] for g, s, e in rows]
    assert met.tolist() == [any(each) for each in near]


@given(rows_strategy, rows_strategy)
def test_cut_equals_the_slow_version(rows: list[Row], others: list[Row]) -> None:
    spans = disjoint(others)
    cuts = intervals.cut(*columns(rows), *columns(spans))
    expected = [
        (i, j, start, end)
        for i, (group, *interval) in enumerate(rows)
        for j, start, end in naive.cut((interval[0], interval[1]), [s[1:] if s[0] == group else (0, 0) for s in spans])
    ]
    found = zip(cuts.row.tolist(), cuts.span.tolist(), cuts.start.tolist(), cuts.end.tolist(), strict=True)
    assert list(found) == expected


@given(rows_strategy, st.lists(st.tuples(times, st.integers(0, 15)), min_size=GROUPS, max_size=GROUPS), st.data())
def test_tile_equals_the_slow_version_and_leaves_no_gap(
    rows: list[Row], span_rows: list[tuple[int, int]], data: st.DataObject
) -> None:
    spans = [(start, start + length) for start, length in span_rows]
    labels = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    strongest = data.draw(st.permutations([0, 1, 2]))
    span_start, span_end = (np.array(column, dtype=np.int64) for column in zip(*spans, strict=True))
    pieces = intervals.tile(
        span_start, span_end, *columns(rows), np.array(labels, dtype=np.int32), strongest=strongest, fill=9
    )
    found = zip(*(c.tolist() for c in (pieces.group, pieces.start, pieces.end, pieces.label)), strict=True)
    labelled = [(row, label) for row, label in zip(rows, labels, strict=True)]
    expected = [
        (g, *piece)
        for g, span in enumerate(spans)
        for piece in naive.tile(span, [(r[1], r[2], label) for r, label in labelled if r[0] == g], strongest, 9)
    ]
    assert list(found) == expected
    np.testing.assert_array_equal(
        np.bincount(pieces.group, weights=pieces.end - pieces.start, minlength=GROUPS), span_end - span_start
    )


def test_a_point_is_kept_and_joins_what_it_lies_in() -> None:
    merged = intervals.merge(*columns([(0, 5, 5), (0, 1, 6), (1, 3, 3)]))
    assert merged_rows(merged) == [(0, 1, 6), (1, 3, 3)]
    assert merged.owner.tolist() == [0, 0, 1]
    assert merged.first_row.tolist() == [1, 2]


def test_clip_keeps_no_length_outside() -> None:
    start, end = intervals.clip(np.array([-5, 2, 20]), np.array([3, 4, 30]), 0, 10)
    assert start.tolist() == [0, 2, 10]
    assert end.tolist() == [3, 4, 10]


def test_tile_of_spans_too_long_for_one_number() -> None:
    """Group, time and label of these do not fit into 63 bits together."""
    low, high = np.full(9, -(2**60)), np.full(9, 2**60)
    group, start, end = columns([(8, -5, 5), (8, 0, 9)])
    pieces = intervals.tile(low, high, group, start, end, np.array([0, 1], dtype=np.int32), strongest=(1, 0), fill=2)
    assert pieces.group.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8]
    assert pieces.start.tolist()[8:] == [-(2**60), -5, 0, 9]
    assert pieces.label.tolist()[8:] == [2, 0, 1, 2]
    assert (pieces.end[8:-1] == pieces.start[9:]).all()


def test_nothing_gives_nothing() -> None:
    none = columns([])
    assert len(intervals.merge(*none).start) == 0
    assert len(intervals.union_length(*none)) == 0
    assert len(intervals.meets(*none, intervals.merge(*none))) == 0
    assert len(intervals.cut(*none, *none).row) == 0
    tiled = intervals.tile(none[1], none[2], *none, none[0], strongest=(0,), fill=1)
    assert len(tiled.start) == 0


def test_refuses_what_is_no_interval_or_not_in_order() -> None:
    one = columns([(0, 1, 4)])
    inverted = columns([(0, 1, 4), (0, 5, 4)])
    with pytest.raises(ValueError, match="interval 1 ends at 4, before its start 5"):
        intervals.merge(*inverted)
    with pytest.raises(ValueError, match="gap_ns is -1"):
        intervals.merge(*one, gap_ns=-1)
    for rows in ([(0, 1, 4), (0, 3, 5)], [(1, 1, 4), (0, 5, 6)]):
        with pytest.raises(ValueError, match="interval 1 is not after"):
            intervals.meets(*one, intervals.Merged(*columns(rows), np.arange(2), np.arange(2)))
        with pytest.raises(ValueError, match="interval 1 is not after"):
            intervals.cut(*one, *columns(rows))
    with pytest.raises(ValueError, match="only 1 groups"):
        intervals.tile(one[1], one[2], *columns([(1, 0, 1)]), one[0], strongest=(0,), fill=1)
    for strongest in ((3,), (0, -1)):
        with pytest.raises(ValueError, match=r"a label that is not among \[.*\], or is negative"):
            intervals.tile(one[1], one[2], *one, one[0], strongest=strongest, fill=1)
