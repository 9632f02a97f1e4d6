"""Flow records of known endpoints, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from prism_ch.model.columns import Bool, Int32, Int64, UInt8, UInt16, freeze


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
        columns = {f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name != "exporters"}
        return FlowBatch(**columns, exporters=self.exporters)

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
        order = np.lexsort([columns[key] for key in ("src_port", "end_ns", "start_ns", "dst", "src")])
        return cls(**{key: column[order] for key, column in columns.items()}, exporters=exporters)

    @classmethod
    def empty(cls) -> FlowBatch:
        """Return a batch without rows."""
        nothing = np.empty(0, dtype=np.int64)
        return cls(*([nothing] * 10))  # type: ignore[arg-type]
