"""Algebra of half-open integer intervals [start, end), for many groups of intervals at once.

Times are int64 (nanoseconds wherever this project calls it) of magnitude below 2**62. `group` numbers the line that an
interval lies on (an endpoint, a pair, ...); intervals of different groups never meet. Order of rows never matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.core.arrays import (
    Bool,
    Int32,
    Int64,
    check_equal_length,
    check_groups,
    order_by,
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
    from prism_ch.core.sweep import are_in_order, unite  # noqa: PLC0415 - loads a compiler

    _check_intervals(start, end, group=group)
    if gap_ns < 0:
        raise ValueError(f"gap_ns is {gap_ns}; it can't be negative")
    group, start, end = np.ascontiguousarray(group, dtype=np.int32), _whole(start), _whole(end)
    rows = len(start)
    order = np.arange(rows) if are_in_order(group, start, end) else order_by(group, start, end)
    line, owner = np.empty(rows, dtype=np.int32), np.empty(rows, dtype=np.int64)
    begin, finish, first = np.empty((3, rows), dtype=np.int64)
    kept = slice(unite(order, group, start, end, gap_ns, line, begin, finish, owner, first))
    return Merged(line[kept].copy(), begin[kept].copy(), finish[kept].copy(), owner, first[kept].copy())


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
    from prism_ch.core.sweep import fill_cuts  # noqa: PLC0415 - loads a compiler

    _check_intervals(start, end, group=group)
    _check_disjoint(span_group, span_start, span_end)
    first = group_search(span_group, span_end, group, start)  # the first span that ends after the start
    stop = group_search(span_group, span_start, group, end - 1)  # one past the last that starts before the end
    columns = [np.empty(int(np.maximum(stop - first, 0).sum()), dtype=np.int64) for _ in range(4)]
    parts = fill_cuts(first, stop, *map(_whole, (start, end, span_start, span_end)), *columns)
    return Cuts(*(column[:parts] for column in columns))


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
    2. Sort every edge by (group, time), packed into one number, as numbers sort many times faster than rows do; each
       stretch between two edges is uniform.
    3. For each label, edges opened less edges closed so far show whether it is active.
    4. Join equal neighbours.
    """
    from prism_ch.core.sweep import pack_edges, sweep_edges  # noqa: PLC0415 - loads a compiler

    _check_intervals(start, end, group=group, label=label)
    _check_intervals(span_start, span_end)
    check_groups(group, len(span_start))
    if min(strongest, default=0) < 0 or not np.isin(label, np.asarray(strongest, dtype=np.int32)).all():
        raise ValueError(f"an interval has a label that is not among {list(strongest)}, or is negative")
    code_bits = (2 * max(strongest, default=0) + 2).bit_length()
    low_bits = int((span_end - span_start).max(initial=0)).bit_length() + code_bits
    if len(span_start).bit_length() + low_bits > 63:  # ranks of times are smaller numbers
        times, place = np.unique(np.concatenate([span_start, span_end, start, end]), return_inverse=True)
        low, high, begin, finish = np.split(place, np.cumsum([len(span_start), len(span_end), len(start)]))
        ranked = tile(low, high, group, begin, finish, label, strongest=strongest, fill=fill)
        return replace(ranked, start=times[ranked.start], end=times[ranked.end])
    span_start, span_end = _whole(span_start), _whole(span_end)
    packed = np.empty(2 * (len(span_start) + len(start)), dtype=np.int64)
    group, label = (np.ascontiguousarray(column, dtype=np.int32) for column in (group, label))
    pack_edges(low_bits, code_bits, span_start, span_end, group, _whole(start), _whole(end), label, packed)
    packed.sort()
    line, shown = np.empty((2, len(packed)), dtype=np.int32)
    begin, finish = np.empty((2, len(packed)), dtype=np.int64)
    priority = np.array(strongest, dtype=np.int64)
    is_open = np.zeros(int(priority.max(initial=0)) + 1, dtype=np.int64)
    pieces = sweep_edges(
        packed, low_bits, code_bits, span_start, span_end, priority, fill, is_open, line, begin, finish, shown
    )
    return Pieces(line[:pieces].copy(), begin[:pieces].copy(), finish[:pieces].copy(), shown[:pieces].copy())


def _whole(column: Int64) -> Int64:
    return np.ascontiguousarray(column, dtype=np.int64)


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
