"""Flow records of known endpoints, as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import compress, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_ch.core.arrays import ROWS_AT_ONCE, Growing, blocks, distinct, order_by, run_numbers, run_starts
from prism_ch.core.pairs import rows_between
from prism_ch.model.columns import Bool, Columns, Int32, Int64, UInt8, UInt16, UInt32

#: What a batch has beside its columns.
_NAMES = ("exporters", "ways")

#: What a batch is sorted by, the most significant first.
_SORTED_BY = ("src", "dst", "start_ns", "end_ns", "src_port")

#: Times looked at for their common divisor, which a few of them show already.
_TICK_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class FlowBatch(Columns):
    """Flow observations, one a row, without exact repeats, sorted by (src, dst, start_ns, end_ns, src_port).

    Times are nanoseconds since the epoch. `src` and `dst` are rows of the Topology the batch was read with.
    `exporter` is an index into `exporters`. `bytes` and `packets` already count the sampling rate; more packets than a
    uint32 holds, of 17 TB at 4 KiB each, are as many as it holds. `way` is an index into `ways`, the switches that the
    flow crossed, in order; -1 where they are unknown.
    """

    start_ns: Int64
    end_ns: Int64
    src: Int32
    dst: Int32
    src_port: UInt16
    dst_port: UInt16
    proto: UInt8
    bytes: Int64
    packets: UInt32
    exporter: Int32
    way: Int32
    exporters: tuple[str, ...] = ("",)
    ways: tuple[tuple[str, ...], ...] = ()

    def moved(self, by_ns: Callable[[slice], Int64]) -> FlowBatch:
        """Return the batch with observations at other times, sorted anew.

        Parameters: `by_ns` gives how much later some are, int64[k], by the slice that they are in: it is asked for some
        pairs at a time. Columns that stay as they were are not copied.
        """
        columns = {name: np.empty_like(getattr(self, name)) for name in ("start_ns", "end_ns")}
        first = run_starts(self.src, self.dst)
        edges = np.append(first, len(self))
        turned, sources = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        for low, high in blocks(first, ROWS_AT_ONCE):
            rows = slice(int(edges[low]), int(edges[high]))
            later_ns = by_ns(rows)
            for name, column in columns.items():
                np.add(getattr(self, name)[rows], later_ns, out=column[rows])
            order = rows.start + order_by(*(columns.get(key, getattr(self, key))[rows] for key in _SORTED_BY))
            moved = np.flatnonzero(order != np.arange(rows.start, rows.stop))
            turned.append(rows.start + moved)
            sources.append(order[moved])
        return _turned(replace(self, **columns), np.concatenate(turned), np.concatenate(sources))

    def rows_between(self, endpoints: Int32) -> Int64:
        """Return the rows whose two ends are both among some endpoints, int64[k], rising.

        The order of a batch shows where the flows of each sender are, so that those of others cost nothing.
        """
        return rows_between(self.src, self.dst, endpoints)

    def five_tuples(self) -> Int64:
        """Return the number of each observation's 5-tuple, int64[n], from 0."""
        ports = (self.src_port.astype(np.int64) << 24) | (self.dst_port.astype(np.int64) << 8) | self.proto
        _, port = np.unique(ports, return_inverse=True)
        _, ids = np.unique(run_numbers(self.src, self.dst) * (int(port.max(initial=0)) + 1) + port, return_inverse=True)
        return ids.astype(np.int64)

    def shared(self) -> Bool:
        """Mask the observations of 5-tuples that several exporters saw, bool[n]."""
        shared = of_several(run_numbers(self.src, self.dst), self.exporter)
        if shared.any():  # 5-tuples cost a sort, and where exporters share no pair they share none of these
            some = self.take(shared)
            shared[shared] = of_several(some.five_tuples(), some.exporter)
        return shared

    def ticks_ns(self, rows: Int64 | None = None) -> Int64:
        """Return the greatest common divisor of each exporter's times, up to a second, int64[exporters].

        Parameters: `rows`, of which observations; by default of all.
        """
        tick = np.full(len(self.exporters), 10**9)
        every = 1 + (len(self) if rows is None else len(rows)) // _TICK_ROWS
        some = np.arange(0, len(self), every) if rows is None else rows[::every]
        for times in (self.start_ns, self.end_ns):
            np.gcd.at(tick, self.exporter[some], times[some])
        return tick

    def with_used_names(self) -> FlowBatch:
        """Return the batch with the exporters and ways that its observations have, in order."""
        exporters, ways = _named(self.exporter, self.exporters), _named(self.way, self.ways)
        return self.numbered_by(tuple(sorted(exporters)), tuple(sorted(ways)))

    def numbered_by(self, exporters: tuple[str, ...], ways: tuple[tuple[str, ...], ...]) -> FlowBatch:
        """Return the batch with these exporters and ways, which hold all that its observations have."""
        if (exporters, ways) == (self.exporters, self.ways):
            return self
        exporter = _renumbered(self.exporters, exporters)[self.exporter]
        way = _renumbered(self.ways, ways)[self.way]
        return replace(self, exporter=exporter, way=way, exporters=exporters, ways=ways)

    @classmethod
    def concat(cls, batches: Iterable[FlowBatch]) -> FlowBatch:
        """Join batches that share no observation, sorted as a batch is.

        They may number exporters and ways differently; those without an observation are left out. One alone is not
        copied. Of what nobody else holds, each column goes once it is joined.
        """
        held = [batch for batch in batches if len(batch)]
        if not held:
            return cls.empty()
        if len(held) == 1:
            return held.pop().with_used_names()
        exporters = tuple(sorted({name for batch in held for name in _named(batch.exporter, batch.exporters)}))
        ways = tuple(sorted({way for batch in held for way in _named(batch.way, batch.ways)}))
        parts = [_columns_of(batch.numbered_by(exporters, ways)) for batch in held]
        held.clear()
        order = _joint_order(parts)
        joined = {name: np.concatenate([part.pop(name) for part in parts])[order] for name in tuple(parts[0])}
        return cls(**joined, exporters=exporters, ways=ways)

    @classmethod
    def in_order(cls, parts: Iterable[FlowBatch]) -> FlowBatch:
        """Join batches each of whose senders come after those before it.

        Each is let go of before the next.
        """
        whole = Growing(**_columns_of(cls.empty()))
        exporters: dict[str, int] = {}
        ways: dict[tuple[str, ...], int] = {}
        for part in parts:
            exporter = _numbered(part.exporters, exporters)[part.exporter]
            way = _numbered(part.ways, ways)[part.way]
            whole.append(**_columns_of(part) | {"exporter": exporter, "way": way})
        return cls(**whole.end(), exporters=tuple(exporters), ways=tuple(ways)).with_used_names()


def _columns_of(batch: FlowBatch) -> dict[str, npt.NDArray[Any]]:
    return {one.name: getattr(batch, one.name) for one in fields(FlowBatch) if one.name not in _NAMES}


def _named(column: Int32, names: Sequence[Any]) -> Iterator[Any]:
    """Yield the names whose place is in a column, int32[n], in which -1 names nothing."""
    return compress(names, np.bincount(column + 1, minlength=len(names) + 1)[1:])


def _numbered(names: Sequence[Any], among: dict[Any, int]) -> Int32:
    """Return the place of each name among others, to which new ones are added.

    It is int32[names + 1], the last of which is -1, for what has none.
    """
    return np.array([*(among.setdefault(name, len(among)) for name in names), -1], dtype=np.int32)


def _renumbered(names: Sequence[Any], among: Sequence[Any]) -> Int32:
    """Return the place of each name among others, int32[names + 1].

    It is -1 of those that are not there, and the last is -1.
    """
    place = {name: number for number, name in enumerate(among)}
    return np.array([*(place.get(name, -1) for name in names), -1], dtype=np.int32)


def _turned(batch: FlowBatch, rows: Int64, sources: Int64) -> FlowBatch:
    """Return a batch with some rows taken from others.

    Columns in which these are alike are not copied.
    """
    columns: dict[str, Any] = {}
    for name, column in _columns_of(batch).items():
        taken = column[sources]
        if not np.array_equal(column[rows], taken):
            columns[name] = column.copy()
            columns[name][rows] = taken
    return replace(batch, **columns)


def _joint_order(parts: Sequence[Mapping[str, npt.NDArray[Any]]]) -> Int64:
    """Sort the rows of sorted batches put end to end; return their order, int64[n].

    Some senders are sorted at a time: keys of all rows would take more memory than the rows.
    """
    begins = np.cumsum([0, *(len(part["src"]) for part in parts)])
    order = np.empty(begins[-1], dtype=np.int64)
    every = max(len(order) // ROWS_AT_ONCE, 1)
    largest = max(parts, key=lambda part: len(part["src"]))["src"]
    senders = distinct(largest[:: max(len(largest) // every, 1)])
    cuts = np.array([np.searchsorted(part["src"], senders) for part in parts])
    cuts[:, 0] = 0
    edges = np.column_stack([cuts, np.diff(begins)]).tolist()
    filled = 0
    for block in zip(*(pairwise(edge) for edge in edges), strict=True):
        spans = list(zip(parts, begins[:-1].tolist(), block, strict=True))
        rows = np.concatenate([np.arange(begin + low, begin + high) for _, begin, (low, high) in spans])
        keys = (np.concatenate([part[key][low:high] for part, _, (low, high) in spans]) for key in _SORTED_BY)
        order[filled : filled + len(rows)] = rows[order_by(*keys)]
        filled += len(rows)
    return order


def of_several(group: Int64 | Int32, exporter: Int32) -> Bool:
    """Mask the rows of groups that hold more than one exporter, bool[n]."""
    any_one = np.empty(int(group.max(initial=-1)) + 1, dtype=np.int32)
    any_one[group] = exporter
    several = np.zeros(len(any_one), dtype=bool)
    several[group[any_one[group] != exporter]] = True
    mask: Bool = several[group]
    return mask
