"""What to simulate, as frozen values: cluster, jobs, faults, other traffic, records."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field
from pydantic.dataclasses import dataclass

from prism_ch.model.columns import Float64, Int64
from prism_ch.simulate.job import STRICT, Count, Fault, Job, NotNegative, Positive, Size, require

Fraction = Annotated[float, Field(ge=0, le=1)]

#: 2026-09-01T00:00:00Z, the start of a whole minute.
EPOCH_NS = 1_788_220_800_000_000_000


@dataclass(frozen=True, kw_only=True, slots=True, config=STRICT)
class Cluster:
    """Servers of GPUs, their network, and other machines.

    A rail-optimised network has one leaf per pod and rail (a rail is the NIC's index in its server); a plain one has
    one leaf per pod. Every leaf reaches every spine. `nics` may be half of `gpus`: then two neighbouring GPUs share
    one NIC and its endpoint. Storage nodes are in topology.csv unless `storage_listed` is false; monitors and clients
    of inference never are.
    """

    servers: Annotated[int, Field(ge=1, le=16_000)]
    gpus: Count = 8
    nics: Count = 8
    pod_servers: Count = 16
    spines: Annotated[int, Field(ge=1, le=200)] = 4
    rail_optimised: bool = True
    link_gbps: Positive = 400.0
    nvlink_gbps: Positive = 3600.0
    storage_nodes: Size = 0
    storage_listed: bool = True
    monitors: Size = 0
    clients: Size = 0

    def __post_init__(self) -> None:
        require(self.gpus % self.nics == 0, f"{self.gpus} GPUs can't share {self.nics} NICs evenly")


@dataclass(frozen=True, kw_only=True, slots=True, config=STRICT)
class Serving:
    """Inference on GPU servers: clients' requests, prefill on some servers, decoding on others.

    `prefill`, `decode`: server numbers. A client's requests arrive as a Gamma renewal process of coefficient of
    variation `burstiness` (1: Poisson); all clients together send `requests_s` a second. A request's key-value cache,
    lognormal around `cache_bytes`, travels from every NIC of its prefill server to the same rail of its decode server.
    """

    tenant: str
    prefill: Annotated[tuple[int, ...], Field(min_length=1)]
    decode: Annotated[tuple[int, ...], Field(min_length=1)]
    requests_s: Positive = 2.0
    burstiness: Positive = 2.0
    cache_bytes: Count = 1 << 30

    def __post_init__(self) -> None:
        require(not set(self.prefill) & set(self.decode), "a server either prefills or decodes")


@dataclass(frozen=True, kw_only=True, slots=True, config=STRICT)
class Surroundings:
    """Traffic that belongs to no training job.

    A period of 0 s switches a part off. Every GPU server reads `read_bytes` of data from storage each `read_period_s`.
    Monitors query every endpoint each `monitor_period_s`. `stray_s` small flows a second run between any two endpoints,
    whoever's they are.
    """

    read_period_s: NotNegative = 0.0
    read_bytes: int = 256 << 20
    monitor_period_s: NotNegative = 0.0
    stray_s: NotNegative = 0.0
    serving: tuple[Serving, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True, config=STRICT)
class Silence:
    """Exporters from which no record of flows that end in a span arrives, in seconds of the recording.

    `exporters`: addresses of switches; empty for all.
    """

    exporters: tuple[str, ...] = ()
    from_s: NotNegative
    to_s: Positive

    def __post_init__(self) -> None:
        require(self.to_s > self.from_s, "a silence ends after it begins")


@dataclass(frozen=True, kw_only=True, slots=True, config=STRICT)
class Observation:
    """How flows become records, and what goes wrong with them.

    `transport` roce: UDP to port 4791, `mtu_bytes` of payload a packet and 44 bytes of headers; tcp: 1448 and 52,
    segments of uneven size. `acks` adds the records of the reverse direction. `exporters`: each flow is seen by its
    first switch, or by every one on its way, with counters that differ by headers. `path` gives the switches of the
    way with each record. Cutting: flows of one 5-tuple closer than `idle_timeout_s` become one record (0: never),
    records longer than `active_timeout_s` several; a share `coarse_leaves` of the leaves, the last ones, use
    `coarse_idle_timeout_s` in place of `idle_timeout_s`. `sampling` counts one packet in this many. Times: each
    exporter's clock is off by up to `skew_s`, one by `bad_exporter_s`; times are cut to `tick_s`. Delivery: `loss` of
    the records are lost, in packets of `loss_packet` records of one exporter; `duplicates` come twice; `late` of them
    come later than they should, by `late_mean_s` on average. Records stand in the order of their arrival. Of the spans
    in `silences` nothing arrives, of some exporters or all.
    """

    transport: Literal["roce", "tcp"] = "roce"
    mtu_bytes: Count = 4096
    acks: bool = False
    exporters: Literal["first", "every"] = "first"
    path: bool = False
    idle_timeout_s: NotNegative = 0.0
    active_timeout_s: NotNegative = 0.0
    coarse_leaves: Fraction = 0.0
    coarse_idle_timeout_s: NotNegative = 0.0
    sampling: Count = 1
    skew_s: NotNegative = 0.0
    bad_exporter_s: float = 0.0
    tick_s: NotNegative = 0.0
    loss: Fraction = 0.0
    loss_packet: Count = 1
    duplicates: Fraction = 0.0
    late: Fraction = 0.0
    late_mean_s: NotNegative = 20.0
    silences: tuple[Silence, ...] = ()


#: How records may be taken; any of them goes with any family.
CONDITIONS: dict[str, Observation] = {
    "clean": Observation(),
    "loss-0.5%": Observation(loss=0.005),
    "loss-2%": Observation(loss=0.02),
    "loss-2%-in-packets": Observation(loss=0.02, loss_packet=24),
    "duplicates": Observation(duplicates=0.05),
    "disorder": Observation(late=0.1, late_mean_s=20.0),
    "skew-2ms": Observation(skew_s=0.002),
    "bad-exporter-200ms": Observation(skew_s=0.002, bad_exporter_s=0.2, exporters="every", path=True),
    "1ms-times": Observation(tick_s=0.001),
    "sampling-1:100": Observation(sampling=100),
    "active-timeout": Observation(active_timeout_s=0.005),
    "idle-timeout-5ms": Observation(idle_timeout_s=0.005),
    "idle-timeout-1s": Observation(idle_timeout_s=1.0, active_timeout_s=60.0),
    "idle-timeout-15s": Observation(idle_timeout_s=15.0, active_timeout_s=60.0),
    "every-switch": Observation(exporters="every", path=True),
    "acknowledgements": Observation(acks=True),
    "tcp": Observation(transport="tcp", acks=True, idle_timeout_s=0.005),
    "all": Observation(
        acks=True,
        exporters="every",
        loss=0.02,
        duplicates=0.01,
        late=0.02,
        skew_s=0.002,
        bad_exporter_s=0.2,
        tick_s=0.001,
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True, config=STRICT)
class Scenario:
    """All that a simulation depends on."""

    name: str
    cluster: Cluster
    jobs: tuple[Job, ...]
    duration_s: Positive
    seed: int = 0
    faults: tuple[Fault, ...] = ()
    surroundings: Surroundings = field(default_factory=Surroundings)
    observation: Observation = field(default_factory=Observation)
    start_ns: int = EPOCH_NS
    phases: bool = True

    def __post_init__(self) -> None:
        require(len({job.job_id for job in self.jobs}) == len(self.jobs), "two jobs have the same id")
        gpus = self.cluster.servers * self.cluster.gpus
        spans: dict[int, list[tuple[float, float]]] = {}
        for name, attempt in ((job.job_id, attempt) for job in self.jobs for attempt in job.attempts):
            for gpu in attempt.gpus:
                require(0 <= gpu < gpus, f"{name} is placed on GPU {gpu} of a cluster of {gpus}")
                taken = spans.setdefault(gpu, [])
                free = all(attempt.start_s >= end or attempt.end_s <= start for start, end in taken)
                require(free, f"GPU {gpu} is given to two attempts at the same time")
                taken.append((attempt.start_s, attempt.end_s))
        for silence in self.observation.silences:
            require(silence.from_s < self.duration_s, f"no record from {silence.from_s} s on, where none would be made")
        for fault in self.faults:
            require(max(fault.gpu, fault.peer) < gpus, f"{fault.kind} on a GPU that a cluster of {gpus} has not")
            spines = self.cluster.spines
            require(fault.spine < spines, f"{fault.kind} at a spine that a cluster with {spines} of them has not")

    def ns(self, seconds: npt.ArrayLike) -> Int64:
        """Turn seconds of the recording into nanoseconds since the epoch."""
        return np.rint(np.asarray(seconds) * 1e9).astype(np.int64) + self.start_ns

    def span(self, start_s: Float64, duration_s: Float64 | float) -> dict[str, Int64]:
        """Return the times of flows as columns of Flows."""
        return {"start_ns": self.ns(start_s), "end_ns": self.ns(start_s + duration_s)}

    @property
    def end_ns(self) -> int:
        """Return the first nanosecond after the recording."""
        return int(self.ns(self.duration_s))
