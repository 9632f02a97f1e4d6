"""Flow records of known endpoints, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from prism_ch.core.arrays import order_by
from prism_ch.model.columns import Bool, Int32, Int64, UInt8, UInt16, freeze

#: What a batch is sorted by, the most significant first.
_SORTED_BY = ("src", "dst", "start_ns", "end_ns", "src_port")

#: Times looked at for their common divisor: chance gives that away within a few.
_TICK_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class FlowBatch:
    """Flow observations, one a row, without exact repeats, sorted by (src, dst, start_ns, end_ns, src_port).

    Times are nanoseconds since the epoch. `src` and `dst` are rows of the Topology the batch was read with.
    `exporter` is an index into `exporters`. `bytes` and `packets` already count the sampling rate.
    """

    start_ns: Int64
    end_ns: Int64
    src: Int32
    dst: Int32
    src_port: UInt16
    dst_port: UInt16
    proto: UInt8
    bytes: Int64
    packets: Int64
    exporter: Int32
    exporters: tuple[str, ...] = ("",)

    def __post_init__(self) -> None:
        """Check and freeze the columns."""
        freeze(
            self,
            start_ns=np.int64,
            end_ns=np.int64,
            src=np.int32,
            dst=np.int32,
            src_port=np.uint16,
            dst_port=np.uint16,
            proto=np.uint8,
            bytes=np.int64,
            packets=np.int64,
            exporter=np.int32,
        )

    def __len__(self) -> int:
        """Count the observations."""
        return len(self.start_ns)

    def take(self, rows: Bool | Int64) -> FlowBatch:
        """Return the rows of a mask or an index, in that order."""
        if rows.dtype == np.bool_:
            if rows.all():
                return self
            rows = np.flatnonzero(rows)
        columns = {f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name != "exporters"}
        return FlowBatch(**columns, exporters=self.exporters)

    def moved(self, by_ns: Int64) -> FlowBatch:
        """Return the batch with every observation so much later, int64[n], sorted anew."""
        later = replace(self, start_ns=self.start_ns + by_ns, end_ns=self.end_ns + by_ns)
        return later.take(order_by(*(getattr(later, key) for key in _SORTED_BY)))

    def five_tuples(self) -> Int64:
        """Return the number of each observation's 5-tuple, int64[n], from 0."""
        ports = (self.src_port.astype(np.int64) << 24) | (self.dst_port.astype(np.int64) << 8) | self.proto
        _, port = np.unique(ports, return_inverse=True)
        _, ids = np.unique(self._pairs() * (int(port.max(initial=0)) + 1) + port, return_inverse=True)
        return ids.astype(np.int64)

    def shared(self) -> Bool:
        """Mask the observations of 5-tuples that several exporters saw, bool[n]."""
        shared = of_several(self._pairs(), self.exporter)
        if shared.any():  # 5-tuples cost a sort, and where exporters share no pair they share none of these
            some = self.take(shared)
            shared[shared] = of_several(some.five_tuples(), some.exporter)
        return shared

    def ticks_ns(self) -> Int64:
        """Return what all times of each exporter are multiples of, int64[exporters], up to a second."""
        tick = np.full(len(self.exporters), 10**9)
        some = slice(None, None, 1 + len(self) // _TICK_ROWS)
        for times in (self.start_ns, self.end_ns):
            np.gcd.at(tick, self.exporter[some], times[some])
        return tick

    def _pairs(self) -> Int64:
        """Return the number of each observation's directed pair, int64[n], from 0."""
        change = np.zeros(len(self), dtype=bool)
        change[1:] = (self.src[1:] != self.src[:-1]) | (self.dst[1:] != self.dst[:-1])
        return np.cumsum(change)

    @classmethod
    def concat(cls, batches: Sequence[FlowBatch]) -> FlowBatch:
        """Join batches that share no observation and name exporters differently, sorted as a batch is."""
        exporters = tuple(sorted({name for batch in batches for name in batch.exporters}))
        columns = {
            f.name: np.concatenate([getattr(b, f.name) for b in batches]) for f in fields(cls) if f.name != "exporters"
        }
        columns["exporter"] = np.concatenate(
            [np.array([exporters.index(name) for name in b.exporters], dtype=np.int32)[b.exporter] for b in batches]
        )
        if len(batches) > 1:
            order = order_by(*(columns[key] for key in _SORTED_BY))
            columns = {key: column[order] for key, column in columns.items()}
        return cls(**columns, exporters=exporters)

    @classmethod
    def empty(cls) -> FlowBatch:
        """Return a batch without rows."""
        nothing = np.empty(0, dtype=np.int64)
        return cls(*([nothing] * 10))  # type: ignore[arg-type]


def of_several(group: Int64, exporter: Int32) -> Bool:
    """Mask the rows of groups that hold more than one exporter, bool[n]."""
    any_one = np.empty(int(group.max(initial=-1)) + 1, dtype=np.int32)
    any_one[group] = exporter
    several = np.zeros(len(any_one), dtype=bool)
    several[group[any_one[group] != exporter]] = True
    mask: Bool = several[group]
    return mask
