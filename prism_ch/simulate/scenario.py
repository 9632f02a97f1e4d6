"""What to simulate, as frozen values: the cluster, its jobs, their faults, and how the records are taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from prism_ch.errors import UsageError

Schedule = Literal["1f1b", "gpipe", "interleaved", "zero-bubble"]
SyncMode = Literal["none", "allreduce", "distributed_optimizer"]
RingExit = Literal["rail", "rotate"]
FaultKind = Literal["slow_gpu", "slow_nic", "slow_link"]

#: 2026-09-01T00:00:00Z, the start of a whole minute.
EPOCH_NS = 1_788_220_800_000_000_000


def require(holds: bool, message: str) -> None:  # noqa: FBT001 - reads as the sentence it is
    """Raise UsageError with `message` unless `holds`."""
    if not holds:
        raise UsageError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Servers of GPUs and their network.

    A rail-optimised network has one leaf per pod and rail (a rail is the NIC's index in its server); a plain one has
    one leaf per pod. Every leaf reaches every spine. `nics` may be half of `gpus`: then two neighbouring GPUs share
    one NIC and its endpoint.
    """

    servers: int
    gpus: int = 8
    nics: int = 8
    pod_servers: int = 16
    spines: int = 4
    rail_optimised: bool = True
    link_gbps: float = 400.0
    nvlink_gbps: float = 3600.0

    def __post_init__(self) -> None:
        """Refuse a cluster that can't be built."""
        require(1 <= self.servers <= 16_000, f"a cluster has 1 to 16000 servers, not {self.servers}")
        require(self.gpus >= 1 and self.nics >= 1, "a server has at least one GPU and one NIC")
        require(self.gpus % self.nics == 0, f"{self.gpus} GPUs can't share {self.nics} NICs evenly")
        require(self.pod_servers >= 1 and 1 <= self.spines <= 200, "pods need servers, and leaves 1 to 200 spines")
        require(self.link_gbps > 0 and self.nvlink_gbps > 0, "links need a positive rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a model is divided over GPUs: tensor, context, expert, data and pipeline parallel sizes.

    `dp` counts the replicas of the dense part; `ep` divides them into expert groups. `order` names the axes from the
    one whose neighbours sit next to each other outwards; `dp` there stands for expert and data axes together, experts
    innermost.
    """

    tp: int = 1
    cp: int = 1
    ep: int = 1
    dp: int = 1
    pp: int = 1
    order: Literal["tp-cp-dp-pp", "tp-cp-pp-dp"] = "tp-cp-dp-pp"

    def __post_init__(self) -> None:
        """Refuse sizes below one and expert groups that do not divide the replicas."""
        sizes = (self.tp, self.cp, self.ep, self.dp, self.pp)
        require(min(sizes) >= 1, f"parallel sizes are at least 1, not {min(sizes)}")
        require(self.dp % self.ep == 0, f"expert groups of {self.ep} do not divide {self.dp} replicas")

    @property
    def gpus(self) -> int:
        """GPUs the layout takes."""
        return self.tp * self.cp * self.dp * self.pp


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """Time that GPUs spend computing.

    `forward_s` is one microbatch through one stage, all its model chunks together; the backward takes
    `backward_ratio` times as long.
    `jitter` is the relative standard deviation of one operation; `sequence_spread` the same of a whole microbatch on
    one replica (its sequence lengths), `rank_spread` of a GPU for good. `stage_weights` multiply stages (empty: all
    alike).
    `data_s` passes before a step's first operation and `optimizer_s` after its reduction.
    """

    forward_s: float
    backward_ratio: float = 2.0
    jitter: float = 0.015
    sequence_spread: float = 0.0
    rank_spread: float = 0.0
    stage_weights: tuple[float, ...] = ()
    data_s: float = 0.005
    optimizer_s: float = 0.02

    def __post_init__(self) -> None:
        """Refuse times and spreads that make no sense."""
        require(self.forward_s > 0 and self.backward_ratio > 0, "computing takes a positive time")
        require(0 <= self.jitter < 0.2, f"jitter is a fraction below 0.2, not {self.jitter}")
        require(
            min(self.data_s, self.optimizer_s, self.sequence_spread, self.rank_spread) >= 0, "times are not negative"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The pipeline's schedule; with one stage, gradient accumulation over `microbatches`.

    `message_bytes` is the activation (or its gradient) of one microbatch as one GPU sends it; `chunks` the model
    chunks of a stage when interleaved.
    """

    schedule: Schedule = "1f1b"
    microbatches: int = 8
    chunks: int = 1
    message_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        """Refuse sizes below one and chunks outside the interleaved schedule."""
        require(self.microbatches >= 1 and self.chunks >= 1, "a step has at least one microbatch and a stage one chunk")
        require(self.message_bytes >= 1, "an activation has at least one byte")
        require(
            self.chunks == 1 or self.schedule == "interleaved",
            "only the interleaved schedule has several chunks a stage",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientSync:
    """How replicas agree on their gradients.

    `buffer_bytes` are the gradients of one GPU. Rings have `channels`, each carrying an equal share; `exit` says
    whether a ring leaves a server by the NIC it came in (`rail`) or by that of the server's last member before it
    (`rotate`). The distributed optimizer reduce-scatters `buffer_bytes` and gathers `gather_ratio` times as many;
    overlapped, buckets are reduced as the last backward produces them, and gathered during the next forward.
    `grad_norm` makes all stages wait for one another before the optimizer and leaves messages of 8 bytes on the
    rings.
    """

    mode: SyncMode = "allreduce"
    buffer_bytes: int = 1 << 30
    buckets: int = 1
    overlap: bool = False
    channels: int = 1
    exit: RingExit = "rail"
    gather_ratio: float = 0.5
    grad_norm: bool = False

    def __post_init__(self) -> None:
        """Refuse sizes below one."""
        require(self.buffer_bytes >= 1 and self.buckets >= 1, "gradients have at least one byte and one bucket")
        require(1 <= self.channels <= 32, f"a ring has 1 to 32 channels, not {self.channels}")
        require(self.gather_ratio > 0, "the all-gather has a positive size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One uninterrupted run of a job: where (GPU numbers in rank order, server x GPUs a server + GPU) and when.

    Starting before 0 means that the job was under way when the recording began.
    """

    gpus: tuple[int, ...]
    start_s: float = 0.0
    end_s: float = float("inf")

    def __post_init__(self) -> None:
        """Refuse an inverted life and a GPU named twice."""
        require(self.end_s > self.start_s, f"a job can't end at {self.end_s} s, having started at {self.start_s} s")
        require(len(set(self.gpus)) == len(self.gpus), "a job names a GPU twice")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A training job; every life after the first is a restart."""

    job_id: str
    tenant: str
    layout: Layout
    compute: Compute
    lives: tuple[Life, ...]
    pipeline: Pipeline = field(default_factory=Pipeline)
    sync: GradientSync = field(default_factory=GradientSync)
    queue_pairs: int = 1

    def __post_init__(self) -> None:
        """Refuse a job whose parts do not fit together."""
        require(len(self.lives) >= 1, f"{self.job_id} has no life")
        for life in self.lives:
            require(
                len(life.gpus) == self.layout.gpus,
                f"{self.job_id} is laid out over {self.layout.gpus} GPUs but placed on {len(life.gpus)}",
            )
        require(1 <= self.queue_pairs <= 64, f"a pair has 1 to 64 queue pairs, not {self.queue_pairs}")
        weights = self.compute.stage_weights
        require(len(weights) in (0, self.layout.pp), f"{len(weights)} stage weights for {self.layout.pp} stages")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something slow, as a GPU number of the cluster (`gpu`, and `peer` for a link), for a span of time.

    `slow_gpu`: computing takes `factor` times as long (> 1). `slow_nic`: both directions of the NIC have `factor` (<
    1) of their bandwidth. `slow_link`: the direction gpu -> peer alone has. For a slow GPU, a span in steps of its
    job may take the place of seconds.
    """

    kind: FaultKind
    gpu: int
    factor: float
    peer: int = -1
    start_s: float = 0.0
    end_s: float = float("inf")
    first_step: int = -1
    last_step: int = -1

    def __post_init__(self) -> None:
        """Refuse a factor on the wrong side of one and an unfinished span."""
        require(self.factor > 0, f"a fault's factor is positive, not {self.factor}")
        slower = self.factor >= 1 if self.kind == "slow_gpu" else self.factor <= 1
        require(slower, f"{self.kind} with factor {self.factor} would be faster, not slower")
        require(self.kind != "slow_link" or self.peer >= 0, "a slow link needs both its ends")
        require((self.first_step < 0) == (self.last_step < 0), "a span in steps has both a first and a last one")
        require(self.first_step < 0 or self.kind == "slow_gpu", f"the span of a {self.kind} is given in seconds")
        require(self.last_step >= self.first_step and self.end_s > self.start_s, "a fault ends after it starts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """How flows become records: payload a packet, header bytes counted with it, and by which switches they are seen."""

    mtu_bytes: int = 4096
    header_bytes: int = 44
    path: bool = False

    def __post_init__(self) -> None:
        """Refuse packets without payload."""
        require(self.mtu_bytes >= 1 and self.header_bytes >= 0, "a packet carries at least one byte")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """All that a simulation depends on; the same scenario gives the same records, byte for byte."""

    name: str
    cluster: Cluster
    jobs: tuple[Job, ...]
    duration_s: float
    seed: int = 0
    faults: tuple[Fault, ...] = ()
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
