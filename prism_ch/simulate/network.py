"""The simulated network, the flows it carries, and where a job's ranks sit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from prism_ch.model.columns import Bool, Float64, Int32, Int64, UInt8, freeze
from prism_ch.model.result import CP, DP, EP, OTHER, PAIR_KINDS, PP, TP
from prism_ch.simulate.job import COMPUTE_FAULTS, HANG_FACTOR, Fault, Layout
from prism_ch.simulate.scenario import Cluster

Index = npt.NDArray[np.integer]

#: Kinds of traffic: first those of a result's pairs (same codes), then what is no training.
STORAGE, MONITOR, SERVING, STARTUP, STRAY = range(OTHER + 1, OTHER + 6)
TRAFFIC_NAMES = (*PAIR_KINDS, "storage", "monitor", "serving", "startup", "stray")

#: A flow's role in its step: none; of the reduction that closes it; of the gathering after that.
PLAIN, REDUCES, GATHERS = range(3)

#: One way through NIC, switches and NIC; a hop inside a server.
NETWORK_LATENCY_S = 8e-6
#: The share of its line rate that a healthy NIC makes of long messages: mean and half width of the scatter.
EFFICIENCY = 0.94
EFFICIENCY_SPREAD = 0.03
#: Ports of senders: the first of them, and how many are in use.
_FIRST_EPHEMERAL, _EPHEMERAL_PORTS = 49_152, 16_381
#: Machines other than GPU servers that share a leaf.
_SERVICE_LEAF_MACHINES = 32


class Rows:
    """Selection and concatenation for dataclasses of columns."""

    __slots__ = ()

    def __len__(self) -> int:
        """Count the rows."""
        return len(getattr(self, fields(self)[0].name))  # type: ignore[arg-type]

    def take(self, rows: Bool | Index) -> Self:
        """Return the rows of a mask or an index, in that order."""
        return type(self)(*(getattr(self, f.name)[rows] for f in fields(self)))  # type: ignore[arg-type]

    @classmethod
    def concatenate(cls, parts: Iterable[Self]) -> Self:
        """Return the rows of all parts, one after the other; without parts, none."""
        columns = [f.name for f in fields(cls)]  # type: ignore[arg-type]
        held = [[getattr(part, name) for name in columns] for part in parts]
        return cls(*map(np.concatenate, zip(*held, strict=True))) if held else cls(*(np.empty(0) for _ in columns))


@dataclass(frozen=True, slots=True)
class Flows(Rows):
    """One row a flow. Times are nanoseconds since the epoch, `src` and `dst` rows of the Network.

    `payload_bytes` excludes headers; `kind` is a traffic code, `role` one of PLAIN, REDUCES, GATHERS; `job` is a row
    of the scenario's jobs and `step` the job's step, -1 where there is none; `queue` numbers the queue pairs of a pair.
    The flows that every step of a job has are a plan: its times, job and step mean nothing yet.
    """

    start_ns: Int64
    end_ns: Int64
    src: Int32
    dst: Int32
    payload_bytes: Int64
    kind: UInt8
    role: UInt8
    job: Int32
    step: Int32
    queue: Int32

    def __post_init__(self) -> None:
        """Check and freeze the columns."""
        wide = dict.fromkeys(("start_ns", "end_ns", "payload_bytes"), np.int64)
        narrow = dict.fromkeys(("src", "dst", "job", "step", "queue"), np.int32)
        freeze(self, **wide, **narrow, kind=np.uint8, role=np.uint8)

    @classmethod
    def of(cls, src: Index, dst: Index, payload_bytes: npt.ArrayLike, **others: npt.ArrayLike) -> Flows:
        """Build flows of one shape, which is flattened; a number holds for all of them."""
        columns: dict[str, Any] = {"start_ns": 0, "end_ns": 0, "role": PLAIN, "job": -1, "step": -1, "queue": 0}
        columns |= {"src": src, "dst": dst, "payload_bytes": payload_bytes, **others}
        return cls(**{name: np.broadcast_to(column, src.shape).reshape(-1) for name, column in columns.items()})


@dataclass(slots=True)
class FlowTimes(Rows):
    """Start, end (seconds since the recording began) and bytes of a plan's flows."""

    start_s: Float64
    end_s: Float64
    payload_bytes: Int64

    def flat(self) -> FlowTimes:
        """Return columns of any shape as one-dimensional ones."""
        return FlowTimes(self.start_s.reshape(-1), self.end_s.reshape(-1), self.payload_bytes.reshape(-1))


class Network:
    """Endpoints of a cluster and its switches.

    Endpoints are NICs server by server, then other machines; switches are leaves, then spines. Columns of the
    endpoints: `addresses` (NICs 10.16 + rail, storage 10.250, monitors 10.251, clients 10.252); `server`, `gpu` (the
    first of the NIC), `rail`, `leaf`, `pod`, int32; `listed`, in topology.csv. `storage`, `monitors`, `clients`: rows
    of those machines; each is a server of its own.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        nics = cluster.servers * cluster.nics
        counts = {"storage": cluster.storage_nodes, "monitor": cluster.monitors, "client": cluster.clients}
        machine = np.arange(sum(counts.values()))
        nic_server, nic_rail = np.divmod(np.arange(nics), cluster.nics)
        addresses = [f"10.{16 + r}.{_host(s)}" for s, r in zip(nic_server.tolist(), nic_rail.tolist(), strict=True)]
        names = [f"server-{number:05d}" for number in range(cluster.servers)]
        for net, (kind, count) in enumerate(counts.items(), start=250):
            addresses += [f"10.{net}.{_host(number)}" for number in range(count)]
            names += [f"{kind}-{number:05d}" for number in range(count)]
        self.addresses, self.server_names = np.array(addresses), np.array(names)
        self.server: Int32 = np.concatenate([nic_server, cluster.servers + machine]).astype(np.int32)
        self.rail: Int32 = np.concatenate([nic_rail, np.zeros_like(machine)]).astype(np.int32)
        self.gpu = self.rail * np.int32(cluster.gpus // cluster.nics)
        pods = -(-cluster.servers // cluster.pod_servers)
        self.pod = self.server // np.int32(cluster.pod_servers)
        self.pod[nics:] = pods
        self.leaf = self.pod * np.int32(cluster.nics) + self.rail if cluster.rail_optimised else self.pod.copy()
        self.leaf[nics:] += (machine // _SERVICE_LEAF_MACHINES).astype(np.int32)
        self.leaves = int(self.leaf.max()) + 1
        leaves = [f"172.16.{_host(number)}" for number in range(self.leaves)]
        self.switches = np.array(leaves + [f"172.31.0.{number + 1}" for number in range(cluster.spines)])
        self.storage, self.monitors, self.clients = np.split(nics + machine, np.cumsum(list(counts.values()))[:2])
        self.listed = np.arange(nics + len(machine)) < nics
        self.listed[self.storage] = cluster.storage_listed

    def endpoint_of_gpu(self, gpus: Index) -> Int32:
        """Return the endpoint of each GPU number (server x GPUs a server + GPU)."""
        gpus_a_nic = self.cluster.gpus // self.cluster.nics
        server, index = np.divmod(gpus, self.cluster.gpus)
        return np.asarray(server * self.cluster.nics + index // gpus_a_nic, dtype=np.int32)

    def ends(self, fault: Fault) -> tuple[int, int]:
        """Return the endpoints of a fault's GPU and of its peer, if any."""
        first, second = self.endpoint_of_gpu(np.array([fault.gpu, max(fault.peer, 0)])).tolist()
        return first, second

    def crosses(self, src: Index, dst: Index) -> Bool:
        """Mark the flows that leave a server."""
        return np.asarray(self.server[src] != self.server[dst], dtype=np.bool_)

    def ports(self, src: Index, dst: Index, queue: Index | int, once: Int64 | int = 0) -> Int64:
        """Return the source port of each flow, int64[n]. A queue pair keeps its own, unless `once` draws another."""
        mixed = src.astype(np.int64) * 2_654_435_761 + dst.astype(np.int64) * 40_503
        entropy = mixed % _EPHEMERAL_PORTS + np.asarray(queue, dtype=np.int64) * 613 + once
        return np.asarray(_FIRST_EPHEMERAL + entropy % _EPHEMERAL_PORTS, dtype=np.int64)

    def route(self, src: Int32, dst: Int32, entropy: Int64) -> Int32:
        """Return the switches each flow crosses in order, int32[n, 3], -1 where there is none.

        Endpoints of one leaf meet there; all others meet at the spine that `entropy`, a hash of the flow's ports, picks
        (ECMP).
        """
        path = np.full((len(src), 3), -1, dtype=np.int32)
        path[:, 0] = self.leaf[src]
        far = self.leaf[src] != self.leaf[dst]
        path[far, 1] = self.leaves + self.spine(entropy[far])
        path[far, 2] = self.leaf[dst][far]
        return path

    def spine(self, entropy: Int64) -> Int64:
        """Return the number of the spine that flows between two leaves cross, by their ports."""
        return entropy % self.cluster.spines

    def slowed_by(self, fault: Fault, src: Index, dst: Index, queue: Index | int) -> Bool:
        """Mark the flows that cross the place of a fault, by queue pair."""
        first, second = self.ends(fault)
        if fault.kind in ("slow_spine", "slow_uplink"):
            through = self.spine(self.ports(src, dst, queue)) == fault.spine
            through &= self.leaf[src] != self.leaf[dst]
            return np.asarray(through & ((self.leaf[src] == self.leaf[first]) | (fault.kind == "slow_spine")))
        if fault.kind == "slow_switch":
            return np.asarray((self.leaf[src] == self.leaf[first]) | (self.leaf[dst] == self.leaf[first]))
        if fault.kind == "slow_link":
            return np.asarray((src == first) & (dst == second))
        return np.asarray((src == first) | (dst == first))


def _host(number: int) -> str:
    return f"{number // 250}.{number % 250 + 1}"


class Links:
    """How long messages take over a network, and how much longer under faults.

    A large message is divided over `queue_pairs` of its pair, which the fabric carries by different ways.
    """

    def __init__(self, network: Network, faults: tuple[Fault, ...] = (), queue_pairs: int = 1) -> None:
        self.network, self.faults, self._queue_pairs = network, faults, queue_pairs
        self.inside_byte_s = 8e-9 / network.cluster.nvlink_gbps
        self._byte_s = 8e-9 / (network.cluster.link_gbps * EFFICIENCY)
        self._faults = [fault for fault in faults if fault.kind not in COMPUTE_FAULTS]

    def byte_s(self, src: Index, dst: Index, share: float = 1.0) -> Float64:
        """Return the seconds a byte takes, with `share` of a NIC's rate or over NVLink."""
        return np.where(self.network.crosses(src, dst), self._byte_s / share, self.inside_byte_s)

    def slowdown(self, src: Index, dst: Index, time_s: Float64, channel: Index | int = 0) -> Float64 | float:
        """Return how many times longer messages take that start at `time_s`, of any leading axes.

        A message is there when the last of its queue pairs is.
        """
        if not self._faults:
            return 1.0
        first = np.asarray(channel) * self._queue_pairs
        parts = [self.queue_slowdown(src, dst, time_s, first + part) for part in range(self._queue_pairs)]
        return np.asarray(np.maximum.reduce(parts))

    def queue_slowdown(self, src: Index, dst: Index, time_s: Float64, queue: Index | int) -> Float64:
        """Return how many times longer the parts of messages take that queue pairs carry."""
        factor = np.ones(np.shape(time_s))
        for fault in self._faults:
            during = (time_s >= fault.start_s) & (time_s < fault.end_s)
            slow = self.network.slowed_by(fault, src, dst, queue)
            factor = factor * np.where(slow & during, 1.0 / fault.factor, 1.0)
        return np.minimum(factor, HANG_FACTOR)


class RankGrid:
    """The ranks of a job by stage, data, expert, context and tensor coordinate.

    A rank's flat number is `(stage x lanes + lane) x tp + tensor`, where lane is `(data x ep + expert) x cp + context`.
    `gpu`, `endpoint`, `server`: int32[ranks]; a server has `server_gpus`. `share` is the fraction of its NIC that a
    rank has (1/2 where two GPUs share one).
    """

    def __init__(self, layout: Layout, gpus: tuple[int, ...], network: Network) -> None:
        self.stages, self.tp = layout.pp, layout.tp
        self.shape = (layout.dp // layout.ep, layout.ep, layout.cp)
        self.gpu: Int32 = np.asarray(gpus, dtype=np.int32)
        self.endpoint = network.endpoint_of_gpu(self.gpu)
        self.server: Int32 = network.server[self.endpoint]
        self.server_gpus = network.cluster.gpus
        self.share = network.cluster.nics / network.cluster.gpus

    @property
    def lanes(self) -> int:
        """Count the tensor groups of one stage: data x expert x context coordinates."""
        return self.shape[0] * self.shape[1] * self.shape[2]

    def numbers(self) -> Int64:
        """Return the flat rank numbers as int64[stages, lanes, tp]."""
        return np.arange(len(self.endpoint)).reshape(self.stages, self.lanes, self.tp)

    def communicators(self, kind: int) -> Int64:
        """Return the ranks of every communicator of a kind (a pair's code), int64[groups, members].

        DP: all replicas of a stage and tensor lane, with their context ranks; PP: in stage order; EP, CP, TP: inside
        one stage.
        """
        return self._groups_along({DP: (1, 2, 3), PP: (0,), EP: (2,), CP: (3,), TP: (4,)}[kind])

    def expert_replicas(self) -> Int64:
        """Return the ranks that hold the same experts, int64[groups, data]."""
        return self._groups_along((1,))

    def _groups_along(self, axes: tuple[int, ...]) -> Int64:
        """Group the ranks that differ in some axes of (stage, data, expert, context, tensor) only."""
        ranks = self.numbers().reshape(self.stages, *self.shape, self.tp)
        others = [axis for axis in range(5) if axis not in axes]
        return ranks.transpose(*others, *axes).reshape(-1, int(np.prod([ranks.shape[axis] for axis in axes])))

    def to_ranks(self, lane_values: Float64) -> Float64:
        """Repeat float64[stages, lanes] for each tensor rank: float64[ranks]."""
        return np.repeat(lane_values.reshape(-1), self.tp)

    def to_lanes(self, rank_values: Float64) -> Float64:
        """Take the largest of each tensor group of float64[ranks]: float64[stages, lanes]."""
        return np.asarray(rank_values.reshape(self.stages, self.lanes, self.tp).max(axis=2))
