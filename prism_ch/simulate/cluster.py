"""The simulated network: addresses, servers, leaves and spines, and the switches between two endpoints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism_ch.model.columns import Bool, Int32, Int64
from prism_ch.simulate.scenario import Cluster

#: Machines beside the GPU servers that share a leaf.
_SERVICE_LEAF_MACHINES = 32


@dataclass(frozen=True, slots=True)
class Network:
    """Endpoints of a cluster (NICs server by server, then other machines) and its switches (leaves, then spines).

    `storage`, `monitors`, `clients`: rows of those machines, each of which is a server of its own. `listed`: in
    topology.csv.
    """

    cluster: Cluster
    addresses: tuple[str, ...]
    server_names: tuple[str, ...]
    server: Int32
    gpu: Int32
    rail: Int32
    leaf: Int32
    pod: Int32
    listed: Bool
    storage: Int64
    monitors: Int64
    clients: Int64
    switches: tuple[str, ...]
    leaves: int

    def endpoint_of_gpu(self, gpus: npt.NDArray[np.integer]) -> Int32:
        """Return the endpoint of each GPU number (server x GPUs a server + GPU)."""
        a_nic = self.cluster.gpus // self.cluster.nics
        server, index = np.divmod(gpus, self.cluster.gpus)
        return np.asarray(server * self.cluster.nics + index // a_nic, dtype=np.int32)

    def route(self, src: Int32, dst: Int32, entropy: Int64) -> Int32:
        """Return the switches each flow crosses in order, int32[n, 3], -1 where there is none.

        Endpoints of one leaf meet there; all others meet at the spine that `entropy`, a hash of the flow's ports, picks
        (ECMP).
        """
        path = np.full((len(src), 3), -1, dtype=np.int32)
        path[:, 0] = self.leaf[src]
        far = self.leaf[src] != self.leaf[dst]
        path[far, 1] = self.leaves + entropy[far] % self.cluster.spines
        path[far, 2] = self.leaf[dst][far]
        return path


def build_network(cluster: Cluster) -> Network:
    """Lay out addresses: NICs 10.16 + rail, storage 10.250, monitors 10.251, clients 10.252, switches 172."""
    nics = cluster.servers * cluster.nics
    counts = (cluster.storage_nodes, cluster.monitors, cluster.clients)
    machines = sum(counts)
    server = np.concatenate(
        [np.repeat(np.arange(cluster.servers), cluster.nics), cluster.servers + np.arange(machines)]
    )
    rail = np.concatenate([np.tile(np.arange(cluster.nics), cluster.servers), np.zeros(machines, dtype=int)])
    pods = -(-cluster.servers // cluster.pod_servers)
    pod = np.where(server < cluster.servers, server // cluster.pod_servers, pods)
    leaf = pod * cluster.nics + rail if cluster.rail_optimised else pod.copy()
    leaf[nics:] += np.arange(machines) // _SERVICE_LEAF_MACHINES
    leaves = int(leaf.max()) + 1
    addresses = [f"10.{16 + r}.{_pair(s)}" for s, r in zip(server[:nics].tolist(), rail[:nics].tolist(), strict=True)]
    names = [f"server-{number:05d}" for number in range(cluster.servers)]
    for net, (kind, count) in enumerate(zip(("storage", "monitor", "client"), counts, strict=True)):
        addresses += [f"10.{250 + net}.{_pair(number)}" for number in range(count)]
        names += [f"{kind}-{number:05d}" for number in range(count)]
    storage, monitors, clients = np.split(nics + np.arange(machines), np.cumsum(counts)[:2])
    listed = np.arange(nics + machines) < nics
    listed[storage] = cluster.storage_listed
    return Network(
        cluster=cluster,
        addresses=tuple(addresses),
        server_names=tuple(names),
        server=server.astype(np.int32),
        gpu=(rail * (cluster.gpus // cluster.nics)).astype(np.int32),
        rail=rail.astype(np.int32),
        leaf=leaf.astype(np.int32),
        pod=pod.astype(np.int32),
        listed=listed,
        storage=storage,
        monitors=monitors,
        clients=clients,
        switches=tuple(f"172.16.{_pair(n)}" for n in range(leaves))
        + tuple(f"172.31.0.{n + 1}" for n in range(cluster.spines)),
        leaves=leaves,
    )


def _pair(number: int) -> str:
    """Return the last two parts of an address."""
    return f"{number // 250}.{number % 250 + 1}"
