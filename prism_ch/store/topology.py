"""Reads and replaces the topology: the place of each endpoint."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

from prism_ch.errors import StoreError
from prism_ch.model.columns import Int32
from prism_ch.model.topology import Topology
from prism_ch.store.client import Store
from prism_ch.store.statements import statement

_RAIL_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class EndpointRow:
    """The place of an endpoint in the time [valid_from_ns, valid_to_ns); None is no bound.

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
        """`valid_from_ns`, the earliest time if there is no bound."""
        return -(2**63) if self.valid_from_ns is None else self.valid_from_ns

    @property
    def ends_ns(self) -> int:
        """`valid_to_ns`, the latest time if there is no bound."""
        return 2**63 - 1 if self.valid_to_ns is None else self.valid_to_ns


def read_topology(store: Store, at_ns: int | None = None) -> Topology:
    """Read the latest topology at a time, nanoseconds since the epoch, by default now.

    If any rail is no number, rails are numbered by their sorted names. An unknown rail is -1.
    """
    table = store.arrow(statement("read_topology"), {"at_ns": time.time_ns() if at_ns is None else at_ns})
    codes = {name: _coded(table[name]) for name in ("server", "leaf", "pod", "tenant")}
    rail, rail_names = _coded(table["rail"])
    columns: dict[str, Any] = {name: code for name, (code, _) in codes.items()}
    names: dict[str, Any] = {f"{name}_names": texts for name, (_, texts) in codes.items()}
    return Topology(
        endpoints=tuple(table["endpoint"].to_pylist()),
        gpu=table["gpu"].to_numpy(),
        rail=_rail_numbers(rail_names)[rail],
        **columns,
        **names,
    )


def read_topology_rows(store: Store) -> list[EndpointRow]:
    """Read all rows of the latest topology, whenever they hold."""
    return [EndpointRow(*row) for row in store.rows(statement("topology_rows"))]


@dataclass(frozen=True, slots=True)
class TopologyLoad:
    """The latest finished load.

    `highest` is the number of any, `present` how many of its rows are there, `bounded` how many of these do not hold at
    all times; `digest` is text, empty if none was ever loaded.
    """

    load: int
    digest: str
    endpoints: int
    highest: int
    present: int
    bounded: int

    @property
    def number(self) -> int:
        """Its digest in 64 bits, 0 if none was ever loaded."""
        return int(self.digest[:16] or "0", 16)

    @property
    def lost(self) -> str:
        """What it lacks, in words; empty if all is there."""
        if self.present != self.endpoints:
            return f"of {self.endpoints:,} rows of the topology that were loaded {self.present:,} are there"
        return "the note of the latest topology is gone" if self.highest and not self.load else ""

    def require_whole(self) -> None:
        """Raise StoreError, with the remedy, if rows of it are gone."""
        if self.lost:
            raise StoreError(
                f"{self.lost}, and results would be poorer than they are; load it again: `prism-ch topology FILE`"
            )


def latest_load(store: Store) -> TopologyLoad:
    """Read the note of the latest topology, and whether its rows are there."""
    [row] = store.rows(statement("latest_topology_load"))
    return TopologyLoad(*row)


def write_topology(store: Store, rows: Sequence[EndpointRow], source: str) -> bool:
    """Replace the whole topology at once, and return whether it has changed.

    Parameters: `rows`, at most one for an endpoint at a time; `source`, the file they came from.
    """
    ordered = sorted(rows, key=_order)
    digest = blake2b("\n".join(map(repr, ordered)).encode(), digest_size=16).hexdigest()
    latest = latest_load(store)
    # The digest is that of the file: rows of it may be gone since.
    if latest.digest == digest and sorted(read_topology_rows(store), key=_order) == ordered:
        return False
    load = latest.highest + 1
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


def _order(row: EndpointRow) -> tuple[str, int]:
    return row.endpoint, row.starts_ns


def _coded(column: pa.ChunkedArray) -> tuple[Int32, tuple[str, ...]]:
    """Encode a column of names as indices, int32[n], into its sorted distinct names."""
    names, codes = np.unique(np.array(column.to_pylist(), dtype=object).astype(str), return_inverse=True)
    return codes.astype(np.int32), tuple(names.tolist())


def _rail_numbers(names: Sequence[str]) -> Int32:
    known = [name for name in names if name]
    are_numbers = all(_RAIL_NUMBER.fullmatch(name) for name in known)
    numbers = {name: int(name) if are_numbers else place for place, name in enumerate(known)}
    return np.array([numbers.get(name, -1) for name in names], dtype=np.int32)
