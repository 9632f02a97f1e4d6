"""The simulated network: addresses, servers, leaves and spines, and the switches between two endpoints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism_ch.model.columns import Int32, Int64
from prism_ch.simulate.scenario import Cluster


@dataclass(frozen=True, slots=True)
class Network:
    """Endpoints (rows, one a NIC, server by server) and switches (leaves first, then spines) of a cluster."""

    cluster: Cluster
    addresses: tuple[str, ...]
    server: Int32
    gpu: Int32
    rail: Int32
    leaf: Int32
    pod: Int32
    switches: tuple[str, ...]
    leaves: int

    def server_name(self, server: int) -> str:
        """Name a server."""
        return f"server-{server:05d}"

    def endpoint_of_gpu(self, gpus: npt.NDArray[np.integer]) -> Int32:
        """Return the endpoint of each GPU number (server x GPUs a server + GPU)."""
        a_nic = self.cluster.gpus // self.cluster.nics
        server, index = np.divmod(gpus, self.cluster.gpus)
        return np.asarray(server * self.cluster.nics + index // a_nic, dtype=np.int32)

    def route(self, src: Int32, dst: Int32, entropy: Int64) -> Int32:
        """Return the switches each flow crosses in order, int32[n, 3], -1 where there is none.

        Endpoints of one leaf meet there; all others meet at the spine that `entropy`, a hash of the flow's ports,
        picks (ECMP).
        """
        path = np.full((len(src), 3), -1, dtype=np.int32)
        path[:, 0] = self.leaf[src]
        far = self.leaf[src] != self.leaf[dst]
        path[far, 1] = self.leaves + entropy[far] % self.cluster.spines
        path[far, 2] = self.leaf[dst][far]
        return path


def build_network(cluster: Cluster) -> Network:
    """Lay out addresses and leaves: 10.(16+rail).x.y for NICs, 172.16.x.y for leaves, 172.31.0.y for spines."""
    server = np.repeat(np.arange(cluster.servers), cluster.nics)
    rail = np.tile(np.arange(cluster.nics), cluster.servers)
    pod = server // cluster.pod_servers
    leaf = pod * cluster.nics + rail if cluster.rail_optimised else pod
    leaves = int(leaf.max()) + 1
    addresses = tuple(
        f"10.{16 + r}.{s // 250}.{s % 250 + 1}" for s, r in zip(server.tolist(), rail.tolist(), strict=True)
    )
    leaf_names = tuple(f"172.16.{n // 250}.{n % 250 + 1}" for n in range(leaves))
    spine_names = tuple(f"172.31.0.{n + 1}" for n in range(cluster.spines))
    return Network(
        cluster=cluster,
        addresses=addresses,
        server=server.astype(np.int32),
        gpu=(rail * (cluster.gpus // cluster.nics)).astype(np.int32),
        rail=rail.astype(np.int32),
        leaf=leaf.astype(np.int32),
        pod=pod.astype(np.int32),
        switches=leaf_names + spine_names,
        leaves=leaves,
    )
