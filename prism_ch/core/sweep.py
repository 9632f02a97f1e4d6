"""Passes over sorted intervals and edges, compiled: import it where it is called, as numba takes long to import."""

from __future__ import annotations

from prism_ch.core.arrays import Int32, Int64
from prism_ch.core.machine_code import (
    INT32_COLUMN,
    INT64,
    INT64_COLUMN,
    NEW_INT32_COLUMN,
    NEW_INT64_COLUMN,
    compiled_for,
)

_INTERVALS = (INT64_COLUMN, INT64_COLUMN)
_SPANS = (INT64_COLUMN, INT64_COLUMN)


@compiled_for(INT32_COLUMN, *_INTERVALS)
def are_in_order(group: Int32, start: Int64, end: Int64) -> bool:
    """Check whether intervals are sorted by (group, start, end)."""
    for row in range(1, len(group)):
        if group[row] != group[row - 1]:
            if group[row] < group[row - 1]:
                return False
        elif start[row] != start[row - 1]:
            if start[row] < start[row - 1]:
                return False
        elif end[row] < end[row - 1]:
            return False
    return True


@compiled_for(
    INT64_COLUMN,
    INT32_COLUMN,
    *_INTERVALS,
    INT64,
    NEW_INT32_COLUMN,
    *[NEW_INT64_COLUMN] * 4,
)
def unite(  # noqa: PLR0913, PLR0917 - a column each
    order: Int64,
    group: Int32,
    start: Int64,
    end: Int64,
    gap: int,
    line: Int32,
    begin: Int64,
    finish: Int64,
    owner: Int64,
    first_row: Int64,
) -> int:
    """Unite intervals that lie at most `gap` apart, and return how many are left.

    Parameters: `order` int64[n], rows by (group, start, end); the last five, [n], are filled, see intervals.Merged.
    """
    last = -1
    for row in order:
        if last < 0 or group[row] != line[last] or start[row] - finish[last] > gap:
            last += 1
            line[last], begin[last], finish[last], first_row[last] = group[row], start[row], end[row], row
        elif end[row] > finish[last]:
            finish[last] = end[row]
        owner[row] = last
    return last + 1


@compiled_for(INT64_COLUMN, INT64_COLUMN, *_INTERVALS, *_SPANS, *[NEW_INT64_COLUMN] * 4)
def fill_cuts(  # noqa: PLR0913, PLR0917 - a column each
    first: Int64,
    stop: Int64,
    start: Int64,
    end: Int64,
    span_start: Int64,
    span_end: Int64,
    row: Int64,
    span: Int64,
    begin: Int64,
    finish: Int64,
) -> int:
    """Cut intervals at the edges of their spans, and count the parts with a length.

    Parameters: `first`, `stop` int64[n], the spans that each interval may meet; the last four, int64[m], are filled,
    see intervals.Cuts.
    """
    parts = 0
    for number in range(len(start)):
        for each in range(first[number], stop[number]):
            low, high = max(start[number], span_start[each]), min(end[number], span_end[each])
            if high > low:
                row[parts], span[parts], begin[parts], finish[parts] = number, each, low, high
                parts += 1
    return parts


@compiled_for(INT64, INT64, *_SPANS, INT32_COLUMN, *_INTERVALS, INT32_COLUMN, NEW_INT64_COLUMN)
def pack_edges(  # noqa: PLR0913, PLR0917 - a column each
    low_bits: int,
    code_bits: int,
    span_start: Int64,
    span_end: Int64,
    group: Int32,
    start: Int64,
    end: Int64,
    label: Int32,
    packed: Int64,
) -> None:
    """Pack each edge into one number: group, time since its span began, and code.

    Numbers sort as edges do. Intervals are cut to their spans. The code is 0 for a span's edge, 2 label + 1 where an
    interval begins and one more where it ends.
    Parameters: `low_bits` hold time and code, `code_bits` the code alone; `packed` int64[2 spans + 2 intervals].
    """
    at = 0
    for each in range(len(span_start)):
        line = each << low_bits
        packed[at], packed[at + 1] = line, line | ((span_end[each] - span_start[each]) << code_bits)
        at += 2
    for each in range(len(start)):
        one = group[each]
        low, high = span_start[one], span_end[one]
        line, code = one << low_bits, 2 * label[each] + 1
        packed[at] = line | ((min(max(start[each], low), high) - low) << code_bits) | code
        packed[at + 1] = line | ((min(max(end[each], low), high) - low) << code_bits) | (code + 1)
        at += 2


@compiled_for(
    INT64_COLUMN,
    INT64,
    INT64,
    *_SPANS,
    INT64_COLUMN,
    INT64,
    NEW_INT64_COLUMN,
    NEW_INT32_COLUMN,
    NEW_INT64_COLUMN,
    NEW_INT64_COLUMN,
    NEW_INT32_COLUMN,
)
def sweep_edges(  # noqa: PLR0913, PLR0917 - a column each
    packed: Int64,
    low_bits: int,
    code_bits: int,
    span_start: Int64,
    span_end: Int64,
    strongest: Int64,
    fill: int,
    open_now: Int64,
    line: Int32,
    begin: Int64,
    finish: Int64,
    shown: Int32,
) -> int:
    """Divide spans by the strongest label that is open, and count the pieces.

    Parameters: `packed` int64[n], see pack_edges, sorted; `strongest`, labels in falling order of priority; `fill`, the
    label of what is in none; `open_now` int64[labels], zeros; the last four, [n], are filled, see intervals.Pieces.
    """
    pieces, edges = 0, len(packed)
    for at in range(edges):
        code = packed[at] & ((1 << code_bits) - 1)
        if code > 0:
            open_now[(code - 1) >> 1] += 1 if code & 1 else -1
        if at + 1 == edges or packed[at + 1] >> code_bits == packed[at] >> code_bits:
            continue
        one = packed[at] >> low_bits
        if packed[at + 1] >> low_bits != one:
            continue
        label = fill
        for each in strongest:
            if open_now[each] > 0:
                label = each
                break
        same_line = pieces > 0 and line[pieces - 1] == one
        if same_line and shown[pieces - 1] == label:
            continue
        time = span_start[one] + ((packed[at] & ((1 << low_bits) - 1)) >> code_bits)
        if same_line:
            finish[pieces - 1] = time
        line[pieces], begin[pieces], finish[pieces], shown[pieces] = one, time, span_end[one], label
        pieces += 1
    return pieces
