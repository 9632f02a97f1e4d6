"""Reads and replaces the topology: which endpoint sits where."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from prism_ch.model.columns import Int32
from prism_ch.model.topology import Topology
from prism_ch.store.client import Store
from prism_ch.store.statements import statement

_RAIL_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class EndpointRow:
    """One endpoint of a topology and the span [valid_from_ns, valid_to_ns) in which this holds; None is without bound.

    `endpoint` is canonical text; times are nanoseconds since the epoch.
    """

    endpoint: str
    valid_from_ns: int | None
    valid_to_ns: int | None
    server: str
    gpu: int
    rail: str
    leaf: str
    pod: str
    tenant: str

    @property
    def starts_ns(self) -> int:
        """From when this holds, as a number where there is no bound too."""
        return -(2**63) if self.valid_from_ns is None else self.valid_from_ns

    @property
    def ends_ns(self) -> int:
        """Until when this holds, as a number where there is no bound too."""
        return 2**63 - 1 if self.valid_to_ns is None else self.valid_to_ns


def read_topology(store: Store, at_ns: int | None = None) -> Topology:
    """Return the endpoints of the latest load that hold at a time, nanoseconds since the epoch; None is now.

    Rails that are no numbers get the number of their place among the rails' sorted names; an unknown rail is -1.
    """
    table = store.arrow(statement("read_topology"), {"at_ns": time.time_ns() if at_ns is None else at_ns})
    server, server_names = _coded(table["server"])
    leaf, leaf_names = _coded(table["leaf"])
    pod, pod_names = _coded(table["pod"])
    tenant, tenant_names = _coded(table["tenant"])
    rail, rail_names = _coded(table["rail"])
    return Topology(
        endpoints=tuple(table["endpoint"].to_pylist()),
        server=server,
        gpu=table["gpu"].to_numpy(),
        rail=_rail_numbers(rail_names)[rail],
        leaf=leaf,
        pod=pod,
        tenant=tenant,
        server_names=server_names,
        leaf_names=leaf_names,
        pod_names=pod_names,
        tenant_names=tenant_names,
    )


def topology_digest(store: Store) -> int:
    """Return 64 bits that differ between topologies that differ; 0 where none was ever loaded."""
    [(_, digest, _, _)] = store.rows(statement("latest_topology_load"))
    return int(digest[:16] or "0", 16)


def write_topology(store: Store, rows: Sequence[EndpointRow], source: str) -> bool:
    """Replace the whole topology, for readers in one instant; return whether it differs from what was there.

    Parameters: `rows`, no two of which give the same endpoint at the same time; `source`, the file they came from.
    """
    ordered = sorted(rows, key=lambda row: (row.endpoint, row.starts_ns))
    digest = blake2b("\n".join(map(repr, ordered)).encode(), digest_size=16).hexdigest()
    [(_, present, _, highest)] = store.rows(statement("latest_topology_load"))
    if present == digest:
        return False
    load = highest + 1
    names = ("endpoint", "server", "rail", "leaf", "pod", "tenant")
    columns = {name: pa.array([getattr(row, name) for row in ordered], pa.string()) for name in names}
    columns["load"] = pa.array(np.full(len(ordered), load, dtype=np.uint64))
    columns["gpu"] = pa.array([row.gpu for row in ordered], pa.uint8())
    columns["valid_from"] = pa.array([row.valid_from_ns for row in ordered], pa.timestamp("ns", "UTC"))
    columns["valid_to"] = pa.array([row.valid_to_ns for row in ordered], pa.timestamp("ns", "UTC"))
    store.insert("topology_log", pa.table(columns))
    key = {"load": load, "source": source, "digest": digest, "endpoints": len(ordered)}
    store.command(statement("finish_topology_load"), key)
    return True


def _coded(column: pa.ChunkedArray) -> tuple[Int32, tuple[str, ...]]:
    """Return a column of names as indices, int32[n], into its sorted distinct names."""
    names, codes = np.unique(np.array(column.to_pylist(), dtype=object).astype(str), return_inverse=True)
    return codes.astype(np.int32), tuple(names.tolist())


def _rail_numbers(names: Sequence[str]) -> Int32:
    """Return the number of each rail, int32[n]."""
    known = [name for name in names if name]
    are_numbers = all(_RAIL_NUMBER.fullmatch(name) for name in known)
    numbers = {name: int(name) if are_numbers else place for place, name in enumerate(known)}
    return np.array([numbers.get(name, -1) for name in names], dtype=np.int32)
