"""A simulated recording examined window by window, in memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from prism_ch.core.arrays import order_by
from prism_ch.model.columns import Int32
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import Params
from prism_ch.model.topology import Topology
from prism_ch.model.window import Window
from prism_ch.simulate import Simulation
from tests.unit.chain import Results, work_window

_PARAMS = Params()

#: Stands between the switches of a way.
_BETWEEN = "\n"


def windows(made: Simulation, window_s: float) -> Iterator[tuple[Window, Results, Topology]]:
    """Analyse a recording window by window; yield each with all that readers see then."""
    topology = read_topology(made.topology)
    flows = read_flows(made.flows, topology)
    results = Results()
    at_ns, last_ns = made.summary["window_start_ns"], made.summary["window_end_ns"]
    while at_ns < last_ns:
        window = Window(at_ns, min(at_ns + round(window_s * 1e9), last_ns))
        work_window(results, flows, topology, window, _PARAMS, is_whole=True)
        at_ns = window.end_ns
        yield window, results, topology


def read_flows(table: pa.Table, topology: Topology) -> FlowBatch:
    """Return the records between endpoints of a topology as the store does, without duplicates."""
    path = pc.binary_join(table["path"], _BETWEEN) if "path" in table.column_names else pa.array([""] * len(table))
    table = table.drop_columns([name for name in table.column_names if name == "path"]).append_column("path", path)
    table = table.group_by(table.column_names).aggregate([])
    rows = {name: _rows(table[name], topology) for name in ("src_addr", "dst_addr")}
    known = (rows["src_addr"] >= 0) & (rows["dst_addr"] >= 0)
    exporter = pc.cast(table["sampler_address"], pa.string()).combine_chunks().dictionary_encode()
    way = pc.cast(table["path"], pa.string()).combine_chunks().dictionary_encode()
    ways = [tuple(text.split(_BETWEEN)) if text else () for text in way.dictionary.to_pylist()]
    known_ways = [number for number, switches in enumerate(ways) if switches]
    place = np.full(len(ways), -1, dtype=np.int32)
    place[known_ways] = np.arange(len(known_ways))
    columns = {
        "start_ns": table["time_flow_start_ns"],
        "end_ns": table["time_flow_end_ns"],
        **{name: table[name] for name in ("src_port", "dst_port", "proto", "bytes", "packets")},
    }
    batch = FlowBatch(
        **{name: column.to_numpy()[known] for name, column in columns.items()},
        src=rows["src_addr"][known],
        dst=rows["dst_addr"][known],
        exporter=exporter.indices.to_numpy()[known],
        way=place[way.indices.to_numpy()][known],
        exporters=tuple(exporter.dictionary.to_pylist()),
        ways=tuple(ways[number] for number in known_ways),
    )
    return batch.take(order_by(batch.src, batch.dst, batch.start_ns, batch.end_ns, batch.src_port))


def read_topology(table: pa.Table) -> Topology:
    """Return the topology of a simulation as the store does."""
    table = table.sort_by("endpoint")
    (servers, server), (leaves, leaf), (pods, pod), (tenants, tenant) = (
        np.unique(table[name].to_pylist(), return_inverse=True) for name in ("server", "leaf", "pod", "tenant")
    )
    return Topology(
        endpoints=tuple(table["endpoint"].to_pylist()),
        server=server.astype(np.int32),
        gpu=table["gpu"].to_numpy().astype(np.uint8),
        rail=table["rail"].to_numpy(),
        leaf=leaf.astype(np.int32),
        pod=pod.astype(np.int32),
        tenant=tenant.astype(np.int32),
        server_names=tuple(servers.tolist()),
        leaf_names=tuple(leaves.tolist()),
        pod_names=tuple(pods.tolist()),
        tenant_names=tuple(tenants.tolist()),
    )


def _rows(addresses: pa.ChunkedArray, topology: Topology) -> Int32:
    """Return the rows of addresses in the topology, -1 for unknown ones."""
    found = pc.index_in(pc.cast(addresses, pa.string()), pa.array(topology.endpoints))
    return np.asarray(pc.fill_null(found, -1).to_numpy(), dtype=np.int32)
