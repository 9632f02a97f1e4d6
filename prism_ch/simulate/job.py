"""A training job as frozen values: parallelism, computing, traffic, attempts, pauses and faults."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from prism_ch.errors import UsageError

Count = Annotated[int, Field(ge=1)]
Size = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]

Schedule = Literal["1f1b", "gpipe", "interleaved", "zero-bubble"]
SyncMode = Literal["none", "allreduce", "distributed_optimizer", "zero2", "zero3"]
RingExit = Literal["rail", "rotate"]
FaultKind = Literal[
    "slow_gpu", "slow_drift", "slow_stage", "hang", "slow_nic", "slow_link", "slow_switch", "slow_spine", "slow_uplink"
]

#: Faults of computing; the others are of the network.
COMPUTE_FAULTS = ("slow_gpu", "slow_drift", "slow_stage", "hang")
#: Faults whose span may be given in steps of their job.
_IN_STEPS = ("slow_gpu", "slow_stage")
#: How many times longer a GPU that hangs computes: longer than any recording. No faults together are slower.
HANG_FACTOR = 1e6
#: How all parts of a scenario are checked.
STRICT = ConfigDict(extra="forbid")


def require(holds: bool, message: str) -> None:  # noqa: FBT001 - reads as the sentence it is
    """Raise UsageError with `message` unless `holds`."""
    if not holds:
        raise UsageError(message)


@dataclass(frozen=True, kw_only=True, slots=True, config=STRICT)
class Layout:
    """Tensor, context, expert, data and pipeline parallel sizes.

    `dp` counts the replicas of the dense part; `ep` divides them into expert groups. Neighbouring ranks differ in their
    tensor coordinate, then in context, expert, data and stage.
    """

    tp: Count = 1
    cp: Count = 1
    ep: Count = 1
    dp: Count = 1
    pp: Count = 1

    def __post_init__(self) -> None:
        require(self.dp % self.ep == 0, f"expert groups of {self.ep} do not divide {self.dp} replicas")

    @property
    def gpus(self) -> int:
        """Count the GPUs that the layout takes."""
        return self.tp * self.cp * self.dp * self.pp


@dataclass(frozen=True, kw_only=True, slots=True, config=STRICT)
class Compute:
    """Time that GPUs spend computing.

    `forward_s` is one microbatch through one stage, all its model chunks together; the backward takes
    `backward_ratio` times as long. `stage_weights` multiply stages (empty: all alike). `data_s` passes before a step's
    first operation and `optimizer_s` after its reduction. An operation is delayed with probability `hiccup_rate`, by an
    exponential time of mean `hiccup_s`.

    Relative standard deviations: `jitter` of one operation; `sequence_spread` of a microbatch on one replica (its
    sequence lengths); `step_spread` of a step; `rank_spread` of a GPU over all steps.
    """

    forward_s: Positive
    backward_ratio: Positive = 2.0
    jitter: Annotated[float, Field(ge=0, lt=0.2)] = 0.015
    sequence_spread: NotNegative = 0.0
    step_spread: NotNegative = 0.0
    rank_spread: NotNegative = 0.0
    stage_weights: tuple[float, ...] = ()
    data_s: NotNegative = 0.005
    optimizer_s: NotNegative = 0.02
    hiccup_rate: float = 0.0
    hiccup_s: float = 0.15


@dataclass(frozen=True, kw_only=True, slots=True, config=STRICT)
class Pipeline:
    """The pipeline's schedule; with one stage, gradient accumulation over `microbatches`.

    `message_bytes` is the activation (or its gradient) of one microbatch as one GPU sends it; `chunks` the model
    chunks of a stage when interleaved.
    """

    schedule: Schedule = "1f1b"
    microbatches: Annotated[int, Field(ge=1, le=10_000)] = 8
    chunks: Count = 1
    message_bytes: Count = 64 << 20

    def __post_init__(self) -> None:
        several = self.chunks > 1 and self.schedule != "interleaved"
        require(not several, "only the interleaved schedule has several chunks a stage")


@dataclass(frozen=True, kw_only=True, slots=True, config=STRICT)
class InnerTraffic:
    """Traffic inside operations: of experts (EP), context rings (CP), or tensor groups over servers (TP).

    `bursts` exchanges take place in an operation; layers whose traffic follows at once count as one. `payload_bytes`:
    of EP, what one GPU dispatches in one exchange; of CP, the block it passes on; of TP, the buffer reduced. The
    backward moves `backward_ratio` times as many. `spread` is the relative scatter of what one rank routes to another
    (EP). `rail_aligned`: traffic to another server arrives on the sender's own rail and is handed on inside.
    `overlapped`: computing goes on meanwhile.
    """

    payload_bytes: Count
    bursts: Count = 2
    backward_ratio: Positive = 1.0
    spread: NotNegative = 0.0
    rail_aligned: bool = False
    overlapped: bool = False


@dataclass(frozen=True, kw_only=True, slots=True, config=STRICT)
class GradientSync:
    """How replicas agree on their gradients.

    `mode`: `allreduce` sums gradients; `distributed_optimizer` reduce-scatters them, then gathers `gather_ratio` times
    as many bytes of parameters; `zero2` does so after every microbatch; `zero3`: see ShardedStep, with `layers` of
    units of `unit_bytes` each.
    Sizes: `buffer_bytes` are the gradients of one GPU, `expert_bytes` those of its experts besides, reduced over the
    replicas of the same experts only. `bucket_shares` divide them (empty: `buckets` equal ones). `overlap`: buckets
    are reduced as the last backward produces them, and gathered during the next forward. `algorithm` auto takes trees
    for buckets below `tree_below_bytes`; only an all-reduce can be a tree.
    Rings (or pairs of trees) have `channels`, each carrying an equal share; a ring leaves a server by the NIC it came
    in (`exit` rail) or by that of the server's member before it (rotate); `varied_rings` gives channels orders of their
    own. An `eager` flow begins as soon as both its ends are there; any other when all members of the group are.
    `grad_norm` makes all stages wait for one another before the optimizer and leaves messages of 8 bytes on the rings.
    `tied_bytes` of embedding gradients are exchanged between first and last stage.
    """

    mode: SyncMode = "allreduce"
    buffer_bytes: Count = 1 << 30
    expert_bytes: Size = 0
    buckets: Count = 1
    bucket_shares: tuple[float, ...] = ()
    overlap: bool = False
    channels: Annotated[int, Field(ge=1, le=32)] = 1
    exit: RingExit = "rail"
    varied_rings: bool = False
    eager: bool = True
    algorithm: Literal["ring", "tree", "auto"] = "ring"
    tree_below_bytes: int = 1 << 20
    gather_ratio: Positive = 0.5
    grad_norm: bool = False
    tied_bytes: Size = 0
    layers: Count = 8
    unit_bytes: Annotated[tuple[Count, ...], Field(min_length=1)] = (128 << 20,)

    def __post_init__(self) -> None:
        shares = len(self.bucket_shares)
        require(shares in (0, self.buckets), f"{shares} shares, {self.buckets} buckets")

    def shares(self) -> tuple[float, ...]:
        """Return the part of the gradients that each bucket holds."""
        return self.bucket_shares or (1.0 / self.buckets,) * self.buckets


@dataclass(frozen=True, kw_only=True, slots=True, config=STRICT)
class Pause:
    """A pause between two steps, before step `at_step` or before every `every_steps`-th.

    `checkpoint`: all ranks stop and write `payload_bytes` each to storage. `evaluation`: the pipeline runs forward
    only, `rounds` times, then `duration_s` pass. `stall`: the data loader of replica `replica` delivers `duration_s`
    late, and the others wait.
    """

    kind: Literal["checkpoint", "evaluation", "stall"]
    duration_s: NotNegative
    every_steps: int = 0
    at_step: int = -1
    payload_bytes: Size = 0
    rounds: Size = 2
    replica: Size = 0

    def __post_init__(self) -> None:
        require(self.every_steps > 0 or self.at_step >= 0, f"a {self.kind} needs to know before which steps it comes")

    def due(self, step: int) -> bool:
        """Return whether the pause comes before this step."""
        return step == self.at_step or (self.every_steps > 0 and step > 0 and step % self.every_steps == 0)


@dataclass(frozen=True, kw_only=True, slots=True, config=STRICT)
class BatchChange:
    """From step `from_step` on, microbatches of `factor` times as many samples.

    Computing takes `factor` times as long, and activations are as many times larger; gradients stay as they are.
    """

    from_step: Size
    factor: Positive


@dataclass(frozen=True, kw_only=True, slots=True, config=STRICT)
class Attempt:
    """One uninterrupted run of a job.

    `gpus` are numbers in rank order (server x GPUs a server + GPU). Starting before 0 means that the job was under way
    when the recording began. `dp` other than 0 takes the place of the layout's: a job that goes on with fewer or more
    replicas. `startup_s` is how long the ranks connect to one another first, nearly each with each.
    """

    gpus: tuple[int, ...]
    start_s: float = 0.0
    end_s: float = float("inf")
    dp: Size = 0
    startup_s: NotNegative = 0.0

    def __post_init__(self) -> None:
        require(self.end_s > self.start_s, f"a job can't end at {self.end_s} s, having started at {self.start_s} s")
        require(len(set(self.gpus)) == len(self.gpus), "a job names a GPU twice")


@dataclass(frozen=True, kw_only=True, slots=True, config=STRICT)
class Job:
    """A training job; every attempt after the first is a restart."""

    job_id: str
    tenant: str
    layout: Layout
    compute: Compute
    attempts: Annotated[tuple[Attempt, ...], Field(min_length=1)]
    pipeline: Pipeline = field(default_factory=Pipeline)
    sync: GradientSync = field(default_factory=GradientSync)
    experts: InnerTraffic | None = None
    context: InnerTraffic | None = None
    tensor: InnerTraffic | None = None
    pauses: tuple[Pause, ...] = ()
    batch_changes: tuple[BatchChange, ...] = ()
    queue_pairs: Annotated[int, Field(ge=1, le=64)] = 1

    def __post_init__(self) -> None:
        for attempt in self.attempts:
            needed, given = self.layout_of(attempt).gpus, len(attempt.gpus)
            require(given == needed, f"{self.job_id} needs {needed} GPUs but is placed on {given}")
        require(self.sync.mode != "zero3" or self.layout.pp == 1, "a fully sharded job has no pipeline")
        require(self.pipeline.chunks == 1 or self.layout.pp > 1, "only a pipeline has several chunks a stage")
        weights = len(self.compute.stage_weights)
        require(weights in (0, self.layout.pp), f"{weights} stage weights for {self.layout.pp} stages")

    def layout_of(self, attempt: Attempt) -> Layout:
        """Return the layout of one attempt."""
        return replace(self.layout, dp=attempt.dp) if attempt.dp else self.layout

    def with_batch(self, factor: float) -> Job:
        """Return the job with `factor` times as many samples in a microbatch."""

        def larger(traffic: InnerTraffic | None) -> InnerTraffic | None:
            return traffic and replace(traffic, payload_bytes=round(factor * traffic.payload_bytes))

        return replace(
            self,
            compute=replace(self.compute, forward_s=factor * self.compute.forward_s),
            pipeline=replace(self.pipeline, message_bytes=round(factor * self.pipeline.message_bytes)),
            experts=larger(self.experts),
            context=larger(self.context),
            tensor=larger(self.tensor),
        )


@dataclass(frozen=True, kw_only=True, slots=True, config=STRICT)
class Fault:
    """Something slow for a span of time, at a GPU number of the cluster.

    `slow_gpu`: computing takes `factor` times as long (> 1). `slow_drift`: the same, but it gets there evenly over
    the span, and stays. `slow_stage`: all GPUs of that GPU's pipeline stage do so. `hang`: the GPU never finishes
    the step that it begins next, and those that need it wait for ever; `factor` is left out. The others leave
    `factor` (< 1) of the bandwidth: `slow_nic` both directions of the GPU's NIC, `slow_link` the direction `gpu` ->
    `peer` alone, `slow_switch` all ports of the NIC's leaf, `slow_spine` all ports of spine number `spine` (`gpu`
    means nothing), `slow_uplink` the direction from the NIC's leaf to that spine. For a slow GPU or stage, a span
    in steps of its job may take the place of seconds.
    """

    kind: FaultKind
    gpu: int
    factor: Positive = HANG_FACTOR
    peer: int = -1
    spine: int = -1
    start_s: float = 0.0
    end_s: float = float("inf")
    first_step: int = -1
    last_step: int = -1

    def __post_init__(self) -> None:
        slower = self.factor >= 1 if self.kind in COMPUTE_FAULTS else self.factor <= 1
        require(slower, f"{self.kind} with factor {self.factor} would be faster, not slower")
        bearable = 1 / HANG_FACTOR <= self.factor <= HANG_FACTOR
        require(bearable, f"{self.kind} with factor {self.factor} is more than {HANG_FACTOR:,.0f} times slower")
        require(self.kind != "slow_link" or self.peer >= 0, "a slow link needs both its ends")
        through_spine = self.kind in ("slow_spine", "slow_uplink")
        require(not through_spine or self.spine >= 0, f"a {self.kind} needs the number of its spine")
        require((self.first_step < 0) == (self.last_step < 0), "a span in steps has both a first and a last one")
        require(self.kind != "slow_drift" or self.end_s < float("inf"), "a drift needs to know when it gets there")
        require(self.first_step < 0 or self.kind in _IN_STEPS, f"the span of a {self.kind} is given in seconds")
        require(self.last_step >= self.first_step and self.end_s > self.start_s, "a fault ends after it starts")
