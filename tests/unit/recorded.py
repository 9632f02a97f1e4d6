"""The recorded training runs as the store would hand them over, and what is true of them."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from prism_ch.core.arrays import order_by
from prism_ch.model.columns import Int64
from prism_ch.model.flow import FlowBatch
from prism_ch.model.topology import Topology

_FOLDER = Path(__file__).parents[1] / "data" / "real_training"

Pairs = frozenset[frozenset[str]]


@dataclass(frozen=True)
class Run:
    """One run: its flows, and its groups, pairs (by kind, either way) and ends of steps as the training loop knows."""

    topology: Topology
    flows: FlowBatch
    dp_groups: frozenset[frozenset[str]]
    pp_chains: frozenset[tuple[str, ...]]
    pairs: dict[str, Pairs]
    step_end_ns: Int64


@cache
def recorded(name: str) -> Run:
    """Read one of the runs."""
    folder = _FOLDER / name
    truth = json.loads((folder / "truth.json").read_text())["jobs"][0]
    steps = pq.read_table(folder / "truth_steps.parquet", columns=["step", "end_ns"])
    number, end_ns = (steps[column].to_numpy() for column in ("step", "end_ns"))
    latest = np.zeros(int(number.max()) + 1, np.int64)
    np.maximum.at(latest, number, end_ns)
    topology = _topology(folder / "topology.csv")
    return Run(
        topology=topology,
        flows=_flows(folder / "flows.parquet", topology),
        dp_groups=frozenset(frozenset(group) for group in truth["dp_groups"]),
        pp_chains=frozenset(tuple(chain) for chain in truth["pp_groups"]),
        pairs={
            kind: frozenset(frozenset((pair["a"], pair["b"])) for pair in truth["pairs"] if pair["kind"] == kind)
            for kind in ("DP", "PP")
        },
        step_end_ns=latest,
    )


def _topology(path: Path) -> Topology:
    """Read a topology.csv without any tolerance."""
    rows = sorted(csv.DictReader(path.read_text().splitlines()), key=lambda row: row["endpoint"])

    def named(column: str) -> tuple[Any, tuple[str, ...]]:
        """Number a column's values in order."""
        names = tuple(sorted({row[column] for row in rows}))
        return np.array([names.index(row[column]) for row in rows], np.int32), names

    (server, servers), (leaf, leaves), (pod, pods), (tenant, tenants) = map(named, ("server", "leaf", "pod", "tenant"))
    gpu, rail = (np.array([int(row[column]) for row in rows]) for column in ("gpu", "rail"))
    return Topology(
        tuple(row["endpoint"] for row in rows),
        server,
        gpu.astype(np.uint8),
        rail.astype(np.int32),
        leaf,
        pod,
        tenant,
        servers,
        leaves,
        pods,
        tenants,
    )


def _flows(path: Path, topology: Topology) -> FlowBatch:
    """Read flows.parquet, all of whose endpoints are known and whose records differ."""
    table = pq.read_table(path)
    column = {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}
    src, dst = (np.array([topology.index[address] for address in column[end]]) for end in ("src_addr", "dst_addr"))
    exporters, exporter = np.unique(column["sampler_address"].astype(str), return_inverse=True)
    batch = FlowBatch(
        start_ns=column["time_flow_start_ns"],
        end_ns=column["time_flow_end_ns"],
        src=src,
        dst=dst,
        src_port=column["src_port"],
        dst_port=column["dst_port"],
        proto=column["proto"],
        bytes=column["bytes"],
        packets=column["packets"],
        exporter=exporter.astype(np.int32),
        way=np.full(len(src), -1, dtype=np.int32),
        exporters=tuple(exporters.tolist()),
    )
    return batch.take(order_by(batch.src, batch.dst, batch.start_ns, batch.end_ns, batch.src_port))
