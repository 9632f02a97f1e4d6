"""From flows to records: headers, ports, switches, and the order in which they are exported."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from prism_ch.model.columns import Int32, Int64
from prism_ch.simulate.cluster import Network
from prism_ch.simulate.scenario import Observation, Scenario
from prism_ch.simulate.transfers import Transfers

ROCE_PORT = 4791
UDP = 17
_FIRST_EPHEMERAL = 49152


def counted_bytes(payload_bytes: Int64, observation: Observation) -> tuple[Int64, Int64]:
    """Return what an exporter counts for each flow: bytes with headers, and packets."""
    packets = np.maximum(-(-payload_bytes // observation.mtu_bytes), 1)
    return payload_bytes + packets * observation.header_bytes, packets


def source_ports(transfers: Transfers) -> Int64:
    """Return the UDP source port of each flow: fixed for a pair and queue, different for a pair's first queues."""
    mixed = transfers.src.astype(np.int64) * 2_654_435_761 + transfers.dst.astype(np.int64) * 40_503
    return _FIRST_EPHEMERAL + (mixed % 16_381 + transfers.queue.astype(np.int64) * 613) % 16_381


def observe(transfers: Transfers, scenario: Scenario, network: Network) -> pa.Table:
    """Return the records that the first switch of each flow exports, in order of their ends."""
    observation = scenario.observation
    port = source_ports(transfers)
    order = np.lexsort((port, transfers.dst, transfers.src, transfers.start_ns, transfers.end_ns))
    flows, port = transfers.take(order), port[order]
    counted, packets = counted_bytes(flows.payload_bytes, observation)
    route = network.route(flows.src, flows.dst, port)
    columns = {
        "time_flow_start_ns": flows.start_ns,
        "time_flow_end_ns": flows.end_ns,
        "src_addr": _texts(flows.src, network.addresses),
        "dst_addr": _texts(flows.dst, network.addresses),
        "src_port": port.astype(np.uint16),
        "dst_port": np.full(len(flows), ROCE_PORT, dtype=np.uint16),
        "proto": np.full(len(flows), UDP, dtype=np.uint8),
        "bytes": counted.astype(np.uint64),
        "packets": packets.astype(np.uint64),
        "sampler_address": _texts(route[:, 0], network.switches),
        "sampling_rate": np.ones(len(flows), dtype=np.uint32),
    }
    if observation.path:
        columns["path"] = _paths(route, network)
    return pa.table(columns)


def _texts(index: Int32, values: tuple[str, ...]) -> pa.Array:
    """Return the texts that an index names, as plain strings."""
    return pa.DictionaryArray.from_arrays(pa.array(index, pa.int32()), pa.array(values, pa.string())).cast(pa.string())


def _paths(route: Int32, network: Network) -> pa.Array:
    """Return each route's switches as a list of texts."""
    held = route >= 0
    offsets = np.concatenate([[0], np.cumsum(held.sum(axis=1))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), _texts(route[held], network.switches))
