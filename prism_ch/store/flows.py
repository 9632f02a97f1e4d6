"""Reads flow records as sorted columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from prism_ch.core.arrays import order_by
from prism_ch.model.columns import Bool, Int32
from prism_ch.model.flow import FlowBatch
from prism_ch.model.topology import Topology
from prism_ch.store.client import Store
from prism_ch.store.pull import PLANS, PullPlan

#: Stands between the switches of a way, see read_flows.sql.
_BETWEEN = "\n"
#: What tells a record from another, in the order that records are read in; merges fold those that are alike in it.
_RECORD = (
    "src", "dst", "start_ns", "end_ns", "src_port", "dst_port", "proto", "bytes", "packets", "exporter",
)  # fmt: skip
#: Flows of more senders are read some senders at a time: an answer, and what the engine sorts, take several times as
#: much memory as the flows that are made of it. Of 1,024 GPUs it is 0.3 GiB a minute, and a statement takes a
#: millisecond.
_MAX_SENDERS = 1024
#: Comes after every address, of which none has a tilde.
_AFTER_ALL = "~"
#: Of more packets in a record than fit into four bytes, so many are counted.
_MAX_PACKETS = np.uint64(np.iinfo(np.uint32).max)
#: More addresses are not sent as a parameter, of which a server takes 128 KiB.
_MAX_ADDRESSES = 2000


def read_flows(
    store: Store,
    topology: Topology,
    from_ns: int,
    to_ns: int,
    *,
    endpoints: npt.NDArray[np.integer[Any]] | None = None,
    crossing: bool = False,
    plan: PullPlan = PLANS[0],
) -> FlowBatch:
    """Read the flows that end in [from_ns, to_ns) between endpoints of a topology.

    Exact repeats are dropped.

    Parameters: `topology`, read from this store; `endpoints`, rows of it: only flows between two of these, or if
    `crossing`, between one of these and one that is not; `plan`, who orders and folds them.
    Returns the batch sorted by (src, dst, start_ns, end_ns, src_port, dst_port, proto, bytes, packets, exporter).
    """
    wanted = np.arange(len(topology)) if endpoints is None else np.unique(endpoints)
    if not len(wanted):
        return FlowBatch.empty()
    few = endpoints is not None and len(wanted) <= _MAX_ADDRESSES
    pull = _Pull(store, topology, from_ns, to_ns, wanted, crossing, few, plan)
    if len(wanted) <= _MAX_SENDERS:
        return pull.read("", _AFTER_ALL)
    senders = np.arange(len(topology)) if crossing else wanted
    edges = [senders[first : first + _MAX_SENDERS][[0, -1]] for first in range(0, len(senders), _MAX_SENDERS)]
    return FlowBatch.in_order(pull.read(topology.endpoints[first], topology.endpoints[last]) for first, last in edges)


@dataclass(frozen=True, slots=True)
class _Pull:
    """Which flows are read, see read_flows; `few`: the engine is told the `wanted` endpoints, rows of the topology."""

    store: Store
    topology: Topology
    from_ns: int
    to_ns: int
    wanted: npt.NDArray[np.integer[Any]]
    crossing: bool
    few: bool
    plan: PullPlan

    def read(self, first: str, last: str) -> FlowBatch:
        """Read the flows of the senders whose addresses are between two, these included."""
        names, wanted = self.topology.endpoints, self.wanted
        parameters = {
            "from_ns": self.from_ns,
            "to_ns": self.to_ns,
            "first": first,
            "last": last,
            "addresses": [names[row] for row in wanted] if self.few else [],
            "ends": 1 if self.crossing else 2,
        }
        table = self.store.arrow(self.plan.statement, parameters).unify_dictionaries()
        if not table.num_rows:
            return FlowBatch.empty()
        rows = {names[row]: int(row) for row in (range(len(names)) if self.crossing else wanted)}
        exporter, exporters = _codes_in_order(table["sampler_address"])
        way, ways = _ways(table["way"])
        batch = FlowBatch(
            start_ns=table["time_flow_start_ns"].to_numpy(),
            end_ns=table["time_flow_end_ns"].to_numpy(),
            src=_rows(table["src_addr"], rows),
            dst=_rows(table["dst_addr"], rows),
            src_port=table["src_port"].to_numpy(),
            dst_port=table["dst_port"].to_numpy(),
            proto=table["proto"].to_numpy(),
            # Landing admits no more than an Int64 holds.
            bytes=table["bytes"].to_numpy().view(np.int64),
            packets=np.minimum(table["packets"].to_numpy(), _MAX_PACKETS).astype(np.uint32),
            exporter=exporter,
            exporters=exporters,
            way=way,
            ways=ways,
        )
        if not self.plan.orders:
            batch = batch.take(order_by(*(getattr(batch, name) for name in _RECORD), batch.way))
        usable = (batch.src >= 0) & (batch.dst >= 0)
        if not self.plan.folds:
            usable &= _is_new(batch)
        if self.crossing:
            usable &= np.isin(batch.src, wanted) != np.isin(batch.dst, wanted)
        # The engine's dictionaries may name what no row has, differently each time.
        return (batch if usable.all() else batch.take(usable)).with_used_names()


def _codes(column: pa.ChunkedArray) -> tuple[Int32, tuple[str, ...]]:
    merged = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return merged.indices.to_numpy().astype(np.int32), tuple(merged.dictionary.to_pylist())


def _codes_in_order(column: pa.ChunkedArray) -> tuple[Int32, tuple[str, ...]]:
    """Return the number of each row's text, int32[n], and the texts, in their order."""
    codes, texts = _codes(column)
    order = sorted(range(len(texts)), key=texts.__getitem__)
    number = np.empty(len(texts), dtype=np.int32)
    number[order] = np.arange(len(texts), dtype=np.int32)
    return number[codes], tuple(texts[row] for row in order)


def _ways(column: pa.ChunkedArray) -> tuple[Int32, tuple[tuple[str, ...], ...]]:
    """Return each flow's way, int32[n], -1 if unknown, and each way's switches."""
    codes, texts = _codes_in_order(column)
    known = [number for number, text in enumerate(texts) if text]
    place = np.full(len(texts), -1, dtype=np.int32)
    place[known] = np.arange(len(known), dtype=np.int32)
    return place[codes], tuple(tuple(texts[number].split(_BETWEEN)) for number in known)


def _rows(column: pa.ChunkedArray, rows: dict[str, int]) -> Int32:
    """Map addresses, a dictionary column, to rows of the topology, int32[n], -1 for unknown ones."""
    codes, addresses = _codes(column)
    return np.array([rows.get(address, -1) for address in addresses], dtype=np.int32)[codes]


def _is_new(batch: FlowBatch) -> Bool:
    """Mask the rows of a sorted batch that differ from the row before them, bool[n]."""
    differs = np.ones(len(batch), dtype=bool)
    columns = [getattr(batch, name) for name in _RECORD]
    differs[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return differs
