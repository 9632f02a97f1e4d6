"""A training job as frozen values: how it is parallel, what it computes and sends, where and when, what ails it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from prism_ch.errors import UsageError

Schedule = Literal["1f1b", "gpipe", "interleaved", "zero-bubble"]
SyncMode = Literal["none", "allreduce", "distributed_optimizer", "zero2", "zero3"]
RingExit = Literal["rail", "rotate"]
PauseKind = Literal["checkpoint", "evaluation", "stall"]
FaultKind = Literal["slow_gpu", "slow_drift", "hang", "slow_nic", "slow_link", "slow_switch"]

#: Faults of computing; the others are of the network.
COMPUTE_FAULTS = ("slow_gpu", "slow_drift", "hang")
#: What a GPU that hangs takes for its work, in terms of a healthy one: longer than anyone looks.
NEVER = 1e6


def require(holds: bool, message: str) -> None:  # noqa: FBT001 - reads as the sentence it is
    """Raise UsageError with `message` unless `holds`."""
    if not holds:
        raise UsageError(message)


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
    one replica (its sequence lengths), `step_spread` of a whole step, `rank_spread` of a GPU for good.
    `stage_weights` multiply stages (empty: all alike).
    `data_s` passes before a step's first operation and `optimizer_s` after its reduction. An operation is held up with
    probability `hiccup_rate`, for an exponential time of mean `hiccup_s`.
    """

    forward_s: float
    backward_ratio: float = 2.0
    jitter: float = 0.015
    sequence_spread: float = 0.0
    step_spread: float = 0.0
    rank_spread: float = 0.0
    stage_weights: tuple[float, ...] = ()
    data_s: float = 0.005
    optimizer_s: float = 0.02
    hiccup_rate: float = 0.0
    hiccup_s: float = 0.15

    def __post_init__(self) -> None:
        """Refuse times and spreads that make no sense."""
        require(self.forward_s > 0 and self.backward_ratio > 0, "computing takes a positive time")
        require(0 <= self.jitter < 0.2, f"jitter is a fraction below 0.2, not {self.jitter}")
        require(
            min(self.data_s, self.optimizer_s, self.sequence_spread, self.step_spread, self.rank_spread) >= 0,
            "times are not negative",
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
class InnerTraffic:
    """Traffic inside the operations of a stage: of experts (EP), context rings (CP) or tensor groups over servers (TP).

    `bursts` exchanges take place in an operation; layers whose traffic follows at once count as one. `payload_bytes`:
    of EP, what one GPU dispatches in one exchange; of CP, the block it passes on; of TP, the buffer reduced. The
    backward moves `backward_ratio` times as many. `spread` is the relative scatter of what one rank routes to another
    (EP). `rail_aligned`: traffic to another server arrives on the sender's own rail and is handed on inside.
    `overlapped`: computing goes on meanwhile.
    """

    payload_bytes: int
    bursts: int = 2
    backward_ratio: float = 1.0
    spread: float = 0.0
    rail_aligned: bool = False
    overlapped: bool = False

    def __post_init__(self) -> None:
        """Refuse sizes below one."""
        require(self.payload_bytes >= 1 and self.bursts >= 1, "an exchange moves at least one byte")
        require(self.backward_ratio > 0 and self.spread >= 0, "ratios are positive and spreads not negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientSync:
    """How replicas agree on their gradients.

    `buffer_bytes` are the gradients of one GPU, `expert_bytes` those of its experts besides, reduced over the
    replicas of the same experts only. `bucket_shares` divide them (empty: `buckets` equal ones). Rings (or pairs of
    trees) have `channels`, each carrying an equal share; `exit` says whether a ring leaves a server by the NIC it
    came in (`rail`) or by that of the server's member before it (`rotate`); `varied_rings` gives channels orders of
    their own. Where they are `eager`, a flow begins as soon as both its ends are there and waits for the others;
    otherwise it begins when all members are.
    `algorithm` auto takes trees for buckets below `tree_below_bytes`; only an all-reduce can be a tree.

    `allreduce`: gradients are summed. `distributed_optimizer`: reduce-scattered, then `gather_ratio` times as many
    bytes of parameters gathered. `zero2`: the same, but reduced after every microbatch. `zero3`: see ShardedTraining;
    `layers` units of `unit_bytes` each.
    `overlap`: buckets are reduced as the last backward produces them, and gathered during the next forward.
    `grad_norm` makes all stages wait for one another before the optimizer and leaves messages of 8 bytes on the rings.
    `tied_bytes` of embedding gradients are exchanged between first and last stage.
    """

    mode: SyncMode = "allreduce"
    buffer_bytes: int = 1 << 30
    expert_bytes: int = 0
    buckets: int = 1
    bucket_shares: tuple[float, ...] = ()
    overlap: bool = False
    channels: int = 1
    exit: RingExit = "rail"
    varied_rings: bool = False
    eager: bool = True
    algorithm: Literal["ring", "tree", "auto"] = "ring"
    tree_below_bytes: int = 1 << 20
    gather_ratio: float = 0.5
    grad_norm: bool = False
    tied_bytes: int = 0
    layers: int = 8
    unit_bytes: tuple[int, ...] = (128 << 20,)

    def __post_init__(self) -> None:
        """Refuse sizes below one."""
        require(self.buffer_bytes >= 1 and self.buckets >= 1, "gradients have at least one byte and one bucket")
        require(1 <= self.channels <= 32, f"a ring has 1 to 32 channels, not {self.channels}")
        require(self.gather_ratio > 0 and min(self.expert_bytes, self.tied_bytes) >= 0, "sizes are not negative")
        require(
            len(self.bucket_shares) in (0, self.buckets), f"{len(self.bucket_shares)} shares, {self.buckets} buckets"
        )
        require(self.layers >= 1 and min(self.unit_bytes, default=0) >= 1, "a sharded model has layers of some bytes")

    def shares(self) -> tuple[float, ...]:
        """Return the part of the gradients that each bucket holds."""
        return self.bucket_shares or (1.0 / self.buckets,) * self.buckets


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Something that happens between two steps, before step `at_step` or before every `every_steps`-th.

    `checkpoint`: all ranks stop and write `payload_bytes` each to storage. `evaluation`: the pipeline runs forward
    only, `rounds` times, then `duration_s` pass. `stall`: the data loader of replica `replica` delivers `duration_s`
    late, and the others wait.
    """

    kind: PauseKind
    duration_s: float
    every_steps: int = 0
    at_step: int = -1
    payload_bytes: int = 0
    rounds: int = 2
    replica: int = 0

    def __post_init__(self) -> None:
        """Refuse a pause that never comes."""
        require(self.duration_s >= 0, "a pause is not shorter than 0 s")
        require(self.every_steps > 0 or self.at_step >= 0, f"a {self.kind} needs to know before which steps it comes")
        require(self.payload_bytes >= 0 and self.rounds >= 0 and self.replica >= 0, "sizes are not negative")

    def due(self, step: int) -> bool:
        """Whether it comes before this step."""
        return step == self.at_step or (self.every_steps > 0 and step > 0 and step % self.every_steps == 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchChange:
    """From step `from_step` on a microbatch holds `factor` times as many samples as the job's description says.

    Computing takes so many times as long, and activations are so many times as large; gradients stay as they are.
    """

    from_step: int
    factor: float

    def __post_init__(self) -> None:
        """Refuse a batch without samples."""
        require(self.from_step >= 0 and self.factor > 0, "a batch changes at a step, to a positive size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One uninterrupted run of a job: where (GPU numbers in rank order, server x GPUs a server + GPU) and when.

    Starting before 0 means that the job was under way when the recording began. `dp` other than 0 takes the place of
    the layout's: a job that goes on with fewer or more replicas. `startup_s` is how long the ranks connect to one
    another first, nearly each with each.
    """

    gpus: tuple[int, ...]
    start_s: float = 0.0
    end_s: float = float("inf")
    dp: int = 0
    startup_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse an inverted life and a GPU named twice."""
        require(self.dp >= 0 and self.startup_s >= 0, "a life has no negative size or time")
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
    experts: InnerTraffic | None = None
    context: InnerTraffic | None = None
    tensor: InnerTraffic | None = None
    pauses: tuple[Pause, ...] = ()
    batch_changes: tuple[BatchChange, ...] = ()
    queue_pairs: int = 1

    def __post_init__(self) -> None:
        """Refuse a job whose parts do not fit together."""
        require(len(self.lives) >= 1, f"{self.job_id} has no life")
        for life in self.lives:
            needed = self.layout_of(life).gpus
            require(len(life.gpus) == needed, f"{self.job_id} needs {needed} GPUs but is placed on {len(life.gpus)}")
        sharded = self.sync.mode == "zero3"
        require(not sharded or self.layout.pp == 1, "a fully sharded job has no pipeline")
        require(self.pipeline.chunks == 1 or self.layout.pp > 1, "only a pipeline has several chunks a stage")
        require(1 <= self.queue_pairs <= 64, f"a pair has 1 to 64 queue pairs, not {self.queue_pairs}")
        weights = self.compute.stage_weights
        require(len(weights) in (0, self.layout.pp), f"{len(weights)} stage weights for {self.layout.pp} stages")

    def with_batch(self, factor: float) -> Job:
        """Return the job with so many times as many samples in a microbatch."""

        def larger(traffic: InnerTraffic | None) -> InnerTraffic | None:
            """Return the traffic of so many times as many samples."""
            return traffic and replace(traffic, payload_bytes=round(factor * traffic.payload_bytes))

        return replace(
            self,
            compute=replace(self.compute, forward_s=factor * self.compute.forward_s),
            pipeline=replace(self.pipeline, message_bytes=round(factor * self.pipeline.message_bytes)),
            experts=larger(self.experts),
            context=larger(self.context),
            tensor=larger(self.tensor),
        )

    def layout_of(self, life: Life) -> Layout:
        """Return the layout of one life."""
        return replace(self.layout, dp=life.dp) if life.dp else self.layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something slow, as a GPU number of the cluster (`gpu`, and `peer` for a link), for a span of time.

    `slow_gpu`: computing takes `factor` times as long (> 1). `slow_drift`: the same, but it gets there evenly over the
    span, and stays. `hang`: the GPU never finishes the step that it begins next, and those that need it wait for ever;
    `factor` is left out. The others leave `factor` (< 1) of the bandwidth: `slow_nic` both directions of the GPU's NIC,
    `slow_link` the direction gpu -> peer alone, `slow_switch` all ports of the NIC's leaf. For a slow GPU, a span in
    steps of its job may take the place of seconds.
    """

    kind: FaultKind
    gpu: int
    factor: float = NEVER
    peer: int = -1
    start_s: float = 0.0
    end_s: float = float("inf")
    first_step: int = -1
    last_step: int = -1

    def __post_init__(self) -> None:
        """Refuse a factor on the wrong side of one and an unfinished span."""
        require(self.factor > 0, f"a fault's factor is positive, not {self.factor}")
        slower = self.factor >= 1 if self.kind in COMPUTE_FAULTS else self.factor <= 1
        require(slower, f"{self.kind} with factor {self.factor} would be faster, not slower")
        require(self.kind != "slow_link" or self.peer >= 0, "a slow link needs both its ends")
        require((self.first_step < 0) == (self.last_step < 0), "a span in steps has both a first and a last one")
        require(self.kind != "slow_drift" or self.end_s < float("inf"), "a drift needs to know when it gets there")
        require(self.first_step < 0 or self.kind == "slow_gpu", f"the span of a {self.kind} is given in seconds")
        require(self.last_step >= self.first_step and self.end_s > self.start_s, "a fault ends after it starts")
