"""Algebra of half-open integer intervals [start, end), for many groups of intervals at once.

Times are int64 (nanoseconds wherever this project calls it) of magnitude below 2**62. `group` numbers the line that an
interval lies on (an endpoint, a pair, ...); intervals of different groups never meet. Order of rows never matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prism_ch.core.arrays import (
    Bool,
    Int32,
    Int64,
    check_equal_length,
    check_groups,
    last_rows,
    order_by,
    ranges,
    run_starts,
)
from prism_ch.core.search import group_search


@dataclass(frozen=True, slots=True)
class Merged:
    """Disjoint intervals, sorted by (group, start), and where the merged rows went.

    `group` int32[k], `start` and `end` int64[k] describe the merged intervals. `owner` int64[n] is the merged
    interval in which each input row fell (for np.bincount), `first_row` int64[k] the earliest input row of each
    merged interval in the order (group, start, end); on input in that order it serves np.add.reduceat.
    """

    group: Int32
    start: Int64
    end: Int64
    owner: Int64
    first_row: Int64


@dataclass(frozen=True, slots=True)
class Pieces:
    """Labelled intervals, sorted by (group, start): `group` and `label` int32[k], `start` and `end` int64[k]."""

    group: Int32
    start: Int64
    end: Int64
    label: Int32


@dataclass(frozen=True, slots=True)
class Cuts:
    """Parts of intervals, sorted by (row, start): the interval's `row` and the `span` that each lies in, int64[k]."""

    row: Int64
    span: Int64
    start: Int64
    end: Int64


def merge(group: Int32, start: Int64, end: Int64, gap_ns: int = 0) -> Merged:
    """Unite the intervals of each group that lie at most `gap_ns` apart.

    Parameters: `group` int32[n]; `start`, `end` int64[n]; `gap_ns` >= 0, in the unit of the times.
    An interval of no length is kept as a point: it joins what it lies in or near, else stands alone with no length.
    Raises ValueError on inverted intervals or a negative gap.
    """
    _check_intervals(start, end, group=group)
    if gap_ns < 0:
        raise ValueError(f"gap_ns is {gap_ns}; it can't be negative")
    order = _order_of(group, start, end)
    line, begin, finish = group[order], start[order], end[order]
    reach = _running_max(finish, run_starts(line))
    opens = np.ones(len(order), dtype=np.bool_)
    opens[1:] = (line[1:] != line[:-1]) | (begin[1:] - reach[:-1] > gap_ns)
    first = np.flatnonzero(opens)
    owner = np.empty(len(order), dtype=np.int64)
    owner[order] = np.cumsum(opens) - 1
    return Merged(line[first], begin[first], reach[last_rows(first, len(order))], owner, order[first])


def hull(group: Int32 | Int64, start: Int64, end: Int64, groups: int) -> tuple[Int64, Int64]:
    """Return the earliest start and the latest end of each group, int64[groups] each.

    Parameters: `group` int[n]; `start`, `end` int64[n]. A group without intervals has the largest and the smallest
    number of 64 bits.
    """
    first, last = np.full(groups, np.iinfo(np.int64).max), np.full(groups, np.iinfo(np.int64).min)
    np.minimum.at(first, group, start)
    np.maximum.at(last, group, end)
    return first, last


def union_length(group: Int32, start: Int64, end: Int64, groups: int | None = None) -> Int64:
    """Measure what each group's intervals cover, counting overlaps once.

    Parameters: `group` int32[n]; `start`, `end` int64[n]; `groups`, how many there are (default: up to the largest id).
    Returns int64[groups], 0 for a group without intervals. Raises ValueError on inverted intervals or an id out of
    range.
    """
    count = check_groups(group, groups)
    union = merge(group, start, end)
    covered = np.zeros(count, dtype=np.int64)
    np.add.at(covered, union.group, union.end - union.start)
    return covered


def meets(group: Int32, start: Int64, end: Int64, cover: Merged, reach: Int64 | int = 0) -> Bool:
    """Mask the intervals that a cover overlaps, or comes nearer to than `reach`, bool[n].

    Parameters: `group` int32[n], `start`, `end` int64[n], in any order and free to overlap; `reach` int64, one for all
    or one a row. An interval of no length counts as a point.
    Raises ValueError on inverted intervals or a cover that is not sorted and disjoint.
    """
    _check_intervals(start, end, group=group)
    _check_disjoint(cover.group, cover.start, cover.end)
    ended = group_search(cover.group, cover.end, group, start - reach)
    begun = group_search(cover.group, cover.start, group, end + reach - 1)
    return np.asarray(begun > ended)


def clip(start: Int64, end: Int64, low: Int64 | int, high: Int64 | int) -> tuple[Int64, Int64]:
    """Cut intervals to the span [low, high), row by row.

    Parameters: `start`, `end` int64[n]; `low`, `high` int64, one for all or one a row. Returns (start, end) int64[n];
    an interval outside keeps no length, at the span's edge.
    """
    return np.clip(start, low, high), np.clip(end, low, high)


def cut(group: Int32, start: Int64, end: Int64, span_group: Int32, span_start: Int64, span_end: Int64) -> Cuts:
    """Cut intervals at the edges of disjoint spans, group by group.

    Parameters: `group` int32[n], `start`, `end` int64[n], in any order; `span_group` int32[m], `span_start`, `span_end`
    int64[m], sorted by (group, start) and disjoint within a group.
    Returns the parts that have a length; an interval over several spans gives one part for each, one outside all
    gives none.
    Raises ValueError on inverted intervals or spans that are not sorted and disjoint.
    """
    _check_intervals(start, end, group=group)
    _check_disjoint(span_group, span_start, span_end)
    first = group_search(span_group, span_end, group, start)  # the first span that ends after the start
    stop = group_search(span_group, span_start, group, end - 1)  # one past the last that starts before the end
    count = np.maximum(stop - first, 0)
    row = np.repeat(np.arange(len(start), dtype=np.int64), count)
    span = ranges(first, count)
    begin, finish = clip(start[row], end[row], span_start[span], span_end[span])
    kept = finish > begin
    return Cuts(row[kept], span[kept], begin[kept], finish[kept])


def tile(
    span_start: Int64,
    span_end: Int64,
    group: Int32,
    start: Int64,
    end: Int64,
    label: Int32,
    *,
    strongest: Sequence[int],
    fill: int,
) -> Pieces:
    """Divide each group's span into labelled pieces without gap or overlap.

    Parameters: `span_start`, `span_end` int64[k], the span of each group 0..k-1; `group` and `label` int32[n],
    `start`, `end` int64[n], the labelled intervals, free to overlap and to reach out of their span; `strongest`, the
    labels in falling order of priority: where intervals overlap, the earliest in it wins; `fill`, the label of what
    none covers. Returns pieces none of which is without length; neighbours in a group differ in label. A span of no
    length has none. Raises ValueError on inverted intervals or spans, a group without a span, a negative label or one
    not in `strongest`.

    1. Cut the intervals to their spans.
    2. Sort every edge by (group, time); each stretch between two edges is uniform.
    3. For each label, a running count of edges opened less edges closed shows where it is active.
    4. Join equal neighbours.
    """
    _check_intervals(start, end, group=group, label=label)
    _check_intervals(span_start, span_end)
    check_groups(group, len(span_start))
    if min(strongest, default=0) < 0 or not np.isin(label, np.asarray(strongest, dtype=np.int32)).all():
        raise ValueError(f"an interval has a label that is not among {list(strongest)}, or is negative")
    begin, finish = clip(start, end, span_start[group], span_end[group])
    line, edge, change = _sorted_edges(span_start, span_end, group, begin, finish, label)

    shown = np.full(len(line), fill, dtype=np.int32)
    seen = np.bincount(change)
    for name in reversed(strongest):
        opening = 2 * name + 1
        if not seen[opening:].any():
            continue
        # Every interval closes within its own group, so the count needs no reset between groups.
        opened, closed = change == opening, change == opening + 1
        active = np.cumsum(opened.view(np.int8) - closed.view(np.int8), dtype=np.int32)
        shown[active > 0] = name

    has_length = np.zeros(len(line), dtype=np.bool_)
    has_length[:-1] = (edge[1:] > edge[:-1]) & (line[1:] == line[:-1])
    line, edge, shown = line[has_length], edge[has_length], shown[has_length]
    first = run_starts(line, shown)
    closing = span_end[line[first]]
    same_group = line[first[1:]] == line[first[:-1]]
    closing[:-1][same_group] = edge[first[1:]][same_group]
    return Pieces(line[first], edge[first], closing, shown[first])


def _sorted_edges(
    span_start: Int64, span_end: Int64, group: Int32, begin: Int64, finish: Int64, label: Int32
) -> tuple[Int32, Int64, Int64]:
    """Sort every edge of spans and intervals; return its group, time and code.

    The code is 0 for a span's edge, 2 label + 1 where an interval begins and one more where it ends. Group, time since
    the span began and code are packed into one number if they fit into 63 bits: numbers sort many times faster than
    rows do by several keys.
    """
    spans = np.arange(len(span_start), dtype=np.int32)
    line = np.concatenate((spans, spans, group, group)).astype(np.int32, copy=False)
    edge = np.concatenate((span_start, span_end, begin, finish))
    opening = 2 * label.astype(np.int64) + 1
    code = np.concatenate((np.zeros(2 * len(spans), dtype=np.int64), opening, opening + 1))
    code_bits = int(code.max(initial=0)).bit_length()
    low_bits = int((span_end - span_start).max(initial=0)).bit_length() + code_bits
    if len(spans).bit_length() + low_bits > 63:
        order = np.lexsort((edge, line))
        return line[order], edge[order], code[order]
    packed = line.astype(np.int64) << low_bits
    packed |= (edge - span_start[line]) << code_bits
    packed |= code
    packed.sort()
    line = (packed >> low_bits).astype(np.int32)
    code = packed & ((1 << code_bits) - 1)
    return line, ((packed >> code_bits) & ((1 << (low_bits - code_bits)) - 1)) + span_start[line], code


def _order_of(group: Int32, start: Int64, end: Int64) -> Int64:
    """Order intervals by (group, start, end); flows mostly come so, and nothing is sorted."""
    before, after = slice(None, -1), slice(1, None)
    same_start = (group[after] == group[before]) & (start[after] == start[before])
    out_of_order = (group[after] < group[before]) | ((group[after] == group[before]) & (start[after] < start[before]))
    if (out_of_order | (same_start & (end[after] < end[before]))).any():
        return order_by(group, start, end)
    return np.arange(len(start), dtype=np.int64)


def _check_intervals(start: Int64, end: Int64, **others: Int32) -> None:
    check_equal_length(start=start, end=end, **others)
    inverted = np.flatnonzero(end < start)
    if len(inverted):
        row = int(inverted[0])
        raise ValueError(f"interval {row} ends at {end[row]}, before its start {start[row]}")


def _check_disjoint(group: Int32, start: Int64, end: Int64) -> None:
    _check_intervals(start, end, group=group)
    wrong = (group[1:] < group[:-1]) | ((group[1:] == group[:-1]) & (start[1:] < end[:-1]))
    if wrong.any():
        raise ValueError(f"interval {int(np.argmax(wrong)) + 1} is not after, and apart from, the one before it")


def _running_max(values: Int64, first: Int64) -> Int64:
    """Return the largest value so far within each run of rows, int64[n].

    Parameters: `first` int64[runs], the row at which each run begins. Each run is lifted above all values of the run
    before it, so that one cumulative maximum serves them all.
    """
    if len(values) == 0:
        return values
    lowest = int(values.min())
    span = int(values.max()) - lowest + 1
    if span * len(first) >= 2**63:
        levels, rank = np.unique(values, return_inverse=True)
        return levels[_running_max(rank, first)]
    run = np.zeros(len(values), dtype=np.int64)
    run[first[1:]] = span
    lift = np.cumsum(run) - lowest
    return np.maximum.accumulate(values + lift) - lift
