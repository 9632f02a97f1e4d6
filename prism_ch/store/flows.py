"""Reads flow records as sorted columns, and counts those whose endpoints nobody knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from prism_ch.model.columns import Bool, Int32
from prism_ch.model.flow import FlowBatch
from prism_ch.model.topology import Topology
from prism_ch.store.client import Store
from prism_ch.store.statements import statement

#: So many addresses go to the database as a parameter: a server takes 128 KiB of text in one.
_ADDRESSES_IN_PARAMETER = 2000

_EARLIEST_NS, _LATEST_NS = 0, 2**63 - 1


@dataclass(frozen=True, slots=True)
class UnknownEndpoints:
    """Traffic of addresses that the topology does not know: in no job, but counted.

    `flows` counts records as delivered, `busiest` names the addresses with the most of them, most first.
    """

    flows: int
    addresses: int
    busiest: tuple[tuple[str, int], ...]


def read_flows(
    store: Store,
    topology: Topology,
    from_ns: int,
    to_ns: int,
    *,
    endpoints: npt.NDArray[np.integer[Any]] | None = None,
    beside: bool = False,
) -> FlowBatch:
    """Return the flows that end in [from_ns, to_ns) between endpoints of a topology, sorted, exact repeats folded.

    Parameters: `topology`, read from this store; `endpoints`, rows of it: only flows between two of these, or where
    those `beside` them are asked for, between one of these and one that is not.
    Returns the batch sorted by (src, dst, start_ns, end_ns, src_port, dst_port, proto, bytes, packets, exporter).
    """
    wanted = np.arange(len(topology)) if endpoints is None else np.unique(endpoints)
    few = endpoints is not None and len(wanted) <= _ADDRESSES_IN_PARAMETER
    if not len(wanted):
        return FlowBatch.empty()
    parameters = {
        "from_ns": from_ns,
        "to_ns": to_ns,
        "addresses": [topology.endpoints[row] for row in wanted] if few else [],
        "ends": 1 if beside else 2,
    }
    table = store.arrow(statement("read_flows"), parameters).unify_dictionaries().combine_chunks()
    if not table.num_rows:
        return FlowBatch.empty()
    rows = {topology.endpoints[row]: int(row) for row in (range(len(topology)) if beside else wanted)}
    exporter, exporters = _codes(table["sampler_address"])
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
        packets=table["packets"].to_numpy().view(np.int64),
        exporter=exporter,
        exporters=exporters,
    )
    usable = (batch.src >= 0) & (batch.dst >= 0) & _is_new(batch)
    if beside:
        usable &= np.isin(batch.src, wanted) != np.isin(batch.dst, wanted)
    return batch if usable.all() else batch.take(usable)


def count_unknown(
    store: Store, from_ns: int = _EARLIEST_NS, to_ns: int = _LATEST_NS, *, most: int = 5
) -> UnknownEndpoints:
    """Count the flow records in [from_ns, to_ns), to the minute, that touch an address the topology does not know.

    Parameters: `most`, how many of those addresses are named.
    """
    span = {"from_ns": from_ns, "to_ns": to_ns, "most": most}
    [(flows, addresses, busiest)] = store.rows(statement("unknown_endpoints"), span)
    return UnknownEndpoints(flows, addresses, tuple((address, count) for address, count in busiest))


def _codes(column: pa.ChunkedArray) -> tuple[Int32, tuple[str, ...]]:
    """Return a dictionary column's codes, int32[n], and its values."""
    merged = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return merged.indices.to_numpy().astype(np.int32), tuple(merged.dictionary.to_pylist())


def _rows(column: pa.ChunkedArray, rows: dict[str, int]) -> Int32:
    """Map a dictionary column of addresses to rows of the topology, int32[n]; -1 where it has none."""
    codes, addresses = _codes(column)
    return np.array([rows.get(address, -1) for address in addresses], dtype=np.int32)[codes]


def _is_new(batch: FlowBatch) -> Bool:
    """Tell which rows of a sorted batch differ from the row before them, bool[n]."""
    differs = np.zeros(len(batch), dtype=bool)
    differs[0] = True
    for column in (
        batch.start_ns,
        batch.end_ns,
        batch.src,
        batch.dst,
        batch.src_port,
        batch.dst_port,
        batch.proto,
        batch.bytes,
        batch.packets,
        batch.exporter,
    ):
        differs[1:] |= column[1:] != column[:-1]
    return differs
