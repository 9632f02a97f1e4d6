"""Array types, and the checks and groupings that every algorithm of this package starts with."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Bool = npt.NDArray[np.bool_]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]


def check_equal_length(**columns: npt.NDArray[Any]) -> int:
    """Return the common length of the named one-dimensional columns.

    Raises ValueError, naming the column, if one has another length or is not one-dimensional.
    """
    length: int | None = None
    for name, column in columns.items():
        if column.ndim != 1:
            raise ValueError(f"{name} must be one-dimensional, not {column.ndim}-dimensional")
        if length is not None and len(column) != length:
            raise ValueError(f"{name} has {len(column)} rows where the columns before it have {length}")
        length = len(column)
    return length or 0


def check_groups(group: npt.NDArray[Any], groups: int | None) -> int:
    """Return `groups` if it is given, else one more than the largest id in `group`.

    Parameters: `group`, integers [n]; `groups`, an upper bound of the ids.
    Raises ValueError if an id is negative or not below `groups`.
    """
    if len(group) == 0:
        return groups or 0
    lowest, highest = int(group.min()), int(group.max())
    if lowest < 0:
        raise ValueError(f"a group is numbered {lowest}; groups count from 0")
    if groups is not None and highest >= groups:
        raise ValueError(f"a group is numbered {highest}, but there are only {groups} groups")
    return highest + 1 if groups is None else groups


def run_starts(*keys: npt.NDArray[Any]) -> Int64:
    """Return the rows at which runs of equal keys, columns [n], begin, int64[runs]."""
    rows = len(keys[0])
    opens = np.ones(rows, dtype=np.bool_)
    if rows:
        opens[1:] = False
    for key in keys:
        opens[1:] |= key[1:] != key[:-1]
    return opens.nonzero()[0]


def run_numbers(*keys: npt.NDArray[Any]) -> Int64:
    """Return the number of each row's run of equal keys, columns [n], int64[n] from 0."""
    opens = np.zeros(len(keys[0]), dtype=np.int64)
    opens[run_starts(*keys)[1:]] = 1
    return np.cumsum(opens)


#: Rows looked at together: what is computed of them stays in the processor's cache, and is small beside a window.
ROWS_AT_ONCE = 1 << 18


def blocks(first: Int64, rows: int) -> list[tuple[int, int]]:
    """Divide runs of rows into blocks of whole runs, each of about as many rows.

    Parameters: `first` int64[runs], the row at which each begins. Returns the first run of each block, and the one
    after its last.
    """
    if not len(first):
        return []
    edges = [0, *(np.flatnonzero(np.diff(first // rows)) + 1).tolist(), len(first)]
    return list(pairwise(edges))


class Growing:
    """Columns that grow where they are: the system moves pages of large ones, not bytes.

    Parts that are put together at the end are there twice for a moment, and leave holes in memory that little fits.
    """

    def __init__(self, **columns: npt.NDArray[Any]) -> None:
        """Begin with some columns, whose dtypes stay."""
        self._columns = {name: column.copy() for name, column in columns.items()}

    def append(self, **columns: npt.NDArray[Any]) -> None:
        """Add rows, to every column as many."""
        check_equal_length(**columns)
        for name, column in self._columns.items():
            filled = len(column)
            column.resize(filled + len(columns[name]), refcheck=False)
            column[filled:] = columns[name]

    def end(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns, which grow no more."""
        columns, self._columns = self._columns, {}
        return columns


def run_lengths(starts: Int64, rows: int) -> Int64:
    """Return how many of `rows` each run has, int64[runs], by the first row of each."""
    return np.diff(starts, append=rows)


def run_places(starts: Int64, rows: int) -> Int64:
    """Return each row's place in its run, int64[rows] from 0, by the runs' first rows."""
    return np.arange(rows) - np.repeat(starts, run_lengths(starts, rows))


def last_rows(starts: Int64, rows: int) -> Int64:
    """Return the last row of each run, int64[runs], of `rows` in all, by their first."""
    return np.append(starts[1:], rows)[: len(starts)] - 1


def ranges(first: Int64, count: Int64) -> Int64:
    """Count up from each first number, all ranges end to end.

    From 5 and 0, of which there are 2 and 3, come 5, 6, 0, 1, 2.
    Parameters: `first`, `count` int64[n], counts >= 0. Returns int64[sum of the counts].
    """
    return np.repeat(first - (np.cumsum(count) - count), count) + np.arange(int(count.sum()))


def rows_among(column: npt.NDArray[Any], values: npt.NDArray[Any]) -> Int64:
    """Return the rows of a rising column that hold some rising values, int64[k]."""
    wanted = values.astype(column.dtype, copy=False)  # of two types, numpy would make a copy of the column
    first, stop = (np.searchsorted(column, wanted, side) for side in ("left", "right"))
    return ranges(first, stop - first)


def fold_at(
    fold: np.ufunc, table: npt.NDArray[Any], cell: tuple[npt.NDArray[Any], ...], values: npt.NDArray[Any]
) -> None:
    """Fold values into cells of a contiguous table.

    This is `fold.at`, which takes several times longer for several indices.
    Parameters: `cell`, an index [n] for each dimension, not negative; `values` [n].
    """
    flat = table.reshape(-1, copy=False)
    fold.at(flat, np.ravel_multi_index(cell, table.shape), values.astype(table.dtype, copy=False))


def fold_rows(fold: np.ufunc, table: npt.NDArray[Any], row: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
    """Fold rows of values into rows of a table.

    This is `fold.at`, which takes several times longer for rows than for single values.
    Parameters: `fold`, to which the order of values is nothing; `row` [n], of `table` [m, k]; `values` [n, k].
    """
    order = np.argsort(row, kind="stable")
    first = run_starts(row[order])
    if len(first):
        folded = row[order[first]]
        table[folded] = fold(table[folded], fold.reduceat(values[order], first, axis=0))


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the numbers among integers, sorted, each once. np.unique hashes, which is far slower for many."""
    ordered = np.sort(values, axis=None)
    return ordered[run_starts(ordered)]


def is_among(values: npt.NDArray[Any], members: npt.NDArray[Any]) -> Bool:
    """Mask the numbers, not negative, that are some of others, bool[n].

    np.isin does the same, but looks for the range of both and takes several times longer.
    """
    table = np.zeros(int(members.max(initial=-1)) + 2, dtype=np.bool_)
    table[members] = True
    return np.asarray(table[np.minimum(values, len(table) - 1)])


#: So few rows are sorted by several keys before they are packed.
_FEW = 512
#: Rows in sorted runs of so many, on average, are merged several times faster than sorted anew.
_RUN = 8


def order_by(*keys: npt.NDArray[Any]) -> Int64:
    """Sort rows stably by columns, the most significant first; return their order, int64[n].

    Parameters: `keys`, columns [n] of integers of magnitude below 2**62, of truth values or of floats.

    1. Pack as many columns as fit into 63 bits into one number: numbers sort many times faster than rows do by several
       keys.
    2. Sort by that number, and then, by the other columns, only the rows that it does not tell apart.
    """
    rows = len(keys[0])
    if rows < _FEW or any(key.dtype.kind == "f" for key in keys):
        return np.lexsort(keys[::-1])
    number, span, packed = _packed(keys)
    order = _order_of(number, span)
    if packed == len(keys):
        return order
    first = number[order]
    same = first[1:] == first[:-1]
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if len(tied):
        left = order[tied]
        others = [run_numbers(first[tied]), *(key[left] for key in keys[packed:])]
        number, span, packed = _packed(others)
        order[tied] = left[_order_of(number, span) if packed == len(others) else np.lexsort(others[::-1])]
    return order


def _packed(keys: Sequence[npt.NDArray[Any]]) -> tuple[Int64, int, int]:
    """Pack the first columns of integers into a number that sorts as they do.

    Returns the number, int64[n] of 0 to below another, that one, and how many columns are in it, at least one.
    """
    number, span = np.zeros(0, dtype=np.int64), 1
    for place, key in enumerate(keys):
        lowest = int(key.min())
        width = int(key.max()) - lowest + 1
        if place and span * width >= 2**63:
            return number, span, place
        digit = key.astype(np.int64)
        digit -= lowest
        if place:
            number *= width
            number += digit
        else:
            number = digit
        span *= width
    return number, span, len(keys)


def _order_of(number: Int64, span: int) -> Int64:
    """Sort rows stably by a number of 0 to below `span`; return their order, int64[n].

    Numbers sort several times faster by value than with their rows: a row's own number is made their last digits, of
    the number itself if there is room, else of its rank.
    """
    rows = np.arange(len(number))
    descents = np.count_nonzero(number[1:] < number[:-1])
    if descents == 0:
        return rows
    bits = len(number).bit_length()
    if span << bits >= 2**63:
        if descents < len(rows) / _RUN:  # sorted runs are merged
            return np.argsort(number, kind="stable")
        order = np.argsort(number)
        number = run_numbers(number[order])
        if number[-1] == rows[-1]:
            return order
        rows = order
    placed = (number << bits) | rows
    placed.sort()
    placed &= (1 << bits) - 1
    return placed
