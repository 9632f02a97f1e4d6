"""What to simulate, as frozen values: the cluster, its jobs, what surrounds them, and how the records are taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from prism_ch.simulate.workload import Fault, Job, require

#: 2026-09-01T00:00:00Z, the start of a whole minute.
EPOCH_NS = 1_788_220_800_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Servers of GPUs, their network, and the machines beside them.

    A rail-optimised network has one leaf per pod and rail (a rail is the NIC's index in its server); a plain one has
    one leaf per pod. Every leaf reaches every spine. `nics` may be half of `gpus`: then two neighbouring GPUs share
    one NIC and its endpoint. Storage nodes are in topology.csv unless `storage_listed` is false; monitors and clients
    of inference never are.
    """

    servers: int
    gpus: int = 8
    nics: int = 8
    pod_servers: int = 16
    spines: int = 4
    rail_optimised: bool = True
    link_gbps: float = 400.0
    nvlink_gbps: float = 3600.0
    storage_nodes: int = 0
    storage_listed: bool = True
    monitors: int = 0
    clients: int = 0

    def __post_init__(self) -> None:
        """Refuse a cluster that can't be built."""
        require(1 <= self.servers <= 16_000, f"a cluster has 1 to 16000 servers, not {self.servers}")
        require(self.gpus >= 1 and self.nics >= 1, "a server has at least one GPU and one NIC")
        require(self.gpus % self.nics == 0, f"{self.gpus} GPUs can't share {self.nics} NICs evenly")
        require(self.pod_servers >= 1 and 1 <= self.spines <= 200, "pods need servers, and leaves 1 to 200 spines")
        require(self.link_gbps > 0 and self.nvlink_gbps > 0, "links need a positive rate")
        require(min(self.storage_nodes, self.monitors, self.clients) >= 0, "machines are not fewer than none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Inference on GPU servers: clients' requests, prefill on some servers, decoding on others.

    `prefill`, `decode`: server numbers. A client's requests arrive as a Gamma renewal process of coefficient of
    variation `burstiness` (1: Poisson); all clients together ask `requests_s` times a second. A request's key-value
    cache, lognormal around `cache_bytes`, travels from every NIC of its prefill server to the same rail of its decode
    server.
    """

    tenant: str
    prefill: tuple[int, ...]
    decode: tuple[int, ...]
    requests_s: float = 2.0
    burstiness: float = 2.0
    cache_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        """Refuse inference without servers or requests."""
        require(len(self.prefill) > 0 and len(self.decode) > 0, "inference needs prefill and decode servers")
        require(not set(self.prefill) & set(self.decode), "a server either prefills or decodes")
        require(min(self.requests_s, self.burstiness, self.cache_bytes) > 0, "requests come and weigh something")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What else the network carries; a period of 0 s switches a part off.

    Every GPU server reads `read_bytes` of data from storage each `read_period_s`. Monitors ask every endpoint each
    `monitor_period_s`.
    `stray_s` small flows a second run between any two endpoints, whoever's they are.
    """

    read_period_s: float = 0.0
    read_bytes: int = 256 << 20
    monitor_period_s: float = 0.0
    stray_s: float = 0.0
    serving: tuple[Serving, ...] = ()

    def __post_init__(self) -> None:
        """Refuse negative rates."""
        require(min(self.read_period_s, self.monitor_period_s, self.stray_s) >= 0, "rates are not negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """How flows become records, and what goes wrong with them.

    `transport` roce: UDP to port 4791, `mtu_bytes` of payload a packet and 44 bytes of headers; tcp: 1448 and 52,
    segments of uneven size. `acks` adds the records of the reverse direction. `exporters`: each flow is seen by its
    first switch, or by every one on its way, with counters that differ by headers. `path` gives the switches of the
    way with each record. Cutting: flows of one 5-tuple closer than `idle_timeout_s` become one record (0: never),
    records longer than `active_timeout_s` several; a share `coarse_leaves` of the leaves, the last ones, use
    `coarse_idle_timeout_s` in place of `idle_timeout_s`. `sampling` counts one packet in so many. Times: each
    exporter's clock is off by up to `skew_s`, one by `bad_exporter_s`; times are cut to `tick_s`. Delivery: `loss` of
    the records are lost, in packets of `loss_packet` records of one exporter; `duplicates` come twice; `late` of them
    come later than they should, by `late_mean_s` on average. Records stand in the order of their arrival.
    """

    transport: Literal["roce", "tcp"] = "roce"
    mtu_bytes: int = 4096
    acks: bool = False
    exporters: Literal["first", "every"] = "first"
    path: bool = False
    idle_timeout_s: float = 0.0
    active_timeout_s: float = 0.0
    coarse_leaves: float = 0.0
    coarse_idle_timeout_s: float = 0.0
    sampling: int = 1
    skew_s: float = 0.0
    bad_exporter_s: float = 0.0
    tick_s: float = 0.0
    loss: float = 0.0
    loss_packet: int = 1
    duplicates: float = 0.0
    late: float = 0.0
    late_mean_s: float = 20.0

    def __post_init__(self) -> None:
        """Refuse packets without payload and fractions beyond one."""
        require(self.mtu_bytes >= 1 and self.sampling >= 1 and self.loss_packet >= 1, "counts are at least 1")
        timeouts = (self.idle_timeout_s, self.coarse_idle_timeout_s, self.active_timeout_s)
        require(min(*timeouts, self.skew_s, self.tick_s, self.late_mean_s) >= 0, "times are not negative")
        for fraction in (self.coarse_leaves, self.loss, self.duplicates, self.late):
            require(0 <= fraction <= 1, f"a fraction lies between 0 and 1, not at {fraction}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """All that a simulation depends on; the same scenario gives the same records, byte for byte."""

    name: str
    cluster: Cluster
    jobs: tuple[Job, ...]
    duration_s: float
    seed: int = 0
    faults: tuple[Fault, ...] = ()
    surroundings: Surroundings = field(default_factory=Surroundings)
    observation: Observation = field(default_factory=Observation)
    start_ns: int = EPOCH_NS
    phases: bool = True

    def __post_init__(self) -> None:
        """Refuse jobs and faults outside the cluster, and GPUs that two jobs claim at once."""
        require(self.duration_s > 0, "a recording lasts more than 0 s")
        require(len({job.job_id for job in self.jobs}) == len(self.jobs), "two jobs have the same id")
        gpus = self.cluster.servers * self.cluster.gpus
        spans: dict[int, list[tuple[float, float]]] = {}
        for job in self.jobs:
            for life in job.lives:
                for gpu in life.gpus:
                    require(0 <= gpu < gpus, f"{job.job_id} is placed on GPU {gpu} of a cluster of {gpus}")
                    taken = spans.setdefault(gpu, [])
                    free = all(life.start_s >= end or life.end_s <= start for start, end in taken)
                    require(free, f"GPU {gpu} is given to two lives at the same time")
                    taken.append((life.start_s, life.end_s))
        for fault in self.faults:
            require(max(fault.gpu, fault.peer) < gpus, f"{fault.kind} on a GPU that a cluster of {gpus} has not")
