"""Ready-made scenarios: textbook jobs, and draws of jobs of a wanted step time."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from prism_ch.simulate.job import Attempt, Compute, Fault, GradientSync, Job, Layout, Pipeline, require
from prism_ch.simulate.network import Network
from prism_ch.simulate.scenario import Cluster, Observation, Scenario
from prism_ch.simulate.step import step_plan

#: Activation of one microbatch of 4,096 tokens at hidden size 8,192 in 2-byte numbers.
_ACTIVATION_BYTES = 4096 * 8192 * 2

Choice = TypeVar("Choice")
MIB = 1 << 20
#: Steps that a scenario records, about.
STEPS = 50


def textbook(  # noqa: PLR0913 - the flags of `prism-ch simulate`, one by one
    gpus: int = 64,
    tp: int = 4,
    pp: int = 4,
    dp: int = 4,
    *,
    microbatches: int = 8,
    step_s: float = 2.0,
    steps: int | None = None,
    duration_s: float | None = None,
    seed: int = 0,
    jobs: int = 1,
    queue_pairs: int = 1,
    overlap: bool = False,
    slow_gpu: tuple[int, float, int, int] | None = None,
    slow_link: tuple[int, int, float, float, float] | None = None,
) -> Scenario:
    """Describe tensor x pipeline x data parallel jobs in a rail-optimised cluster of 8-GPU servers.

    Parameters are the flags of `prism-ch simulate`; `steps` or `duration_s` may be given (default: 180 s). Jobs take
    the cluster's first GPUs, one after the other; their step times are 7 % apart. `overlap`: gradients in 4 buckets.
    `slow_gpu`: (rank in the first job, factor, first step, last step). `slow_link`: (rank, peer rank, factor, from s,
    to s), both of the first job. Raises UsageError if the parameters do not fit together, and for a link that the job
    does not use.
    """
    require(gpus % 8 == 0 and gpus > 0, f"the cluster has a multiple of 8 GPUs, not {gpus}")
    require(1 <= tp <= 8 and 8 % tp == 0, f"a tensor group is 1, 2, 4 or 8 GPUs of one server, not {tp}")
    each = tp * pp * dp
    require(jobs >= 1 and jobs * each <= gpus, f"{jobs} x {each} GPUs do not fit into a cluster of {gpus}")
    cluster = Cluster(servers=gpus // 8)
    require(steps is None or duration_s is None, "give the number of steps or a duration, not both")
    require(step_s > 0, f"a step takes more than 0 s, not {step_s}")
    if duration_s is None:
        duration_s = 180.0 if steps is None else (steps + 1) * step_s
    layout = Layout(tp=tp, pp=pp, dp=dp)
    described = [
        textbook_job(n, layout, n * each, step_s * 1.07**n, microbatches=microbatches, overlap=overlap)
        for n in range(jobs)
    ]
    made = Scenario(
        name="textbook",
        cluster=cluster,
        jobs=tuple(replace(job, queue_pairs=queue_pairs) for job in described),
        duration_s=duration_s,
        seed=seed,
        observation=Observation(path=True),
    )
    faults = []
    for rank in (fault[0] for fault in (slow_gpu, slow_link) if fault is not None):
        require(0 <= rank < each, f"the first job has no rank {rank}, only 0 to {each - 1}")
    if slow_gpu is not None:
        rank, factor, first_step, last_step = slow_gpu
        require(0 <= first_step <= last_step, f"steps {first_step} to {last_step} are no span")
        faults.append(Fault(kind="slow_gpu", gpu=rank, factor=factor, first_step=first_step, last_step=last_step))
    if slow_link is not None:
        rank, peer, factor, from_s, to_s = slow_link
        plan = step_plan(made.jobs[0], Network(made.cluster))
        peers = sorted({int(dst) for dst in plan.dst[plan.src == rank]})
        sends_to = ", ".join(map(str, peers)) or "nobody in another server"
        require(peer in peers, f"rank {rank} sends nothing to rank {peer} over the network; it sends to {sends_to}")
        faults.append(Fault(kind="slow_link", gpu=rank, peer=peer, factor=factor, start_s=from_s, end_s=to_s))
    return replace(made, faults=tuple(faults))


def textbook_job(
    number: int, layout: Layout, first_gpu: int, step_s: float, *, microbatches: int, overlap: bool
) -> Job:
    """Describe one job of a step time, with gradients worth 5 % of it."""
    slots = microbatches + layout.pp - 1
    gpus = tuple(range(first_gpu, first_gpu + layout.gpus))
    return Job(
        job_id=f"job-{number:02d}",
        tenant=f"tenant-{number:02d}",
        layout=layout,
        compute=Compute(forward_s=0.92 * step_s / slots / 3),
        attempts=(Attempt(gpus=gpus, start_s=-0.37 * step_s * (number + 1)),),
        pipeline=Pipeline(microbatches=microbatches, message_bytes=_ACTIVATION_BYTES // layout.tp),
        sync=GradientSync(
            buffer_bytes=round(0.05 * step_s * 400e9 / 8 / 2), buckets=4 if overlap else 1, overlap=overlap
        ),
    )


def recorded_s(step_s: float, steps: int = STEPS) -> float:
    """Return how long a scenario is recorded: about `steps` steps, and at least a minute."""
    return max(steps * step_s, 60.0)


class Draws:
    """The choices of one scenario: a function of its family's name and its seed."""

    def __init__(self, family: str, seed: int, servers: int = 8) -> None:
        self.family, self.seed, self.servers = family, seed, servers
        self._rng = np.random.default_rng([seed, zlib.crc32(family.encode())])

    def between(self, low: float, high: float) -> float:
        """Draw a number, uniform on a logarithmic scale."""
        return float(np.exp(self._rng.uniform(np.log(low), np.log(high))))

    def one_of(self, *choices: Choice) -> Choice:
        """Draw one of the choices."""
        return choices[int(self._rng.integers(0, len(choices)))]

    def shuffled(self, items: Sequence[int]) -> list[int]:
        """Return the items in random order."""
        return [int(item) for item in self._rng.permutation(list(items))]

    def pipeline(self, layout: Layout, microbatches: Sequence[int] = (4, 8, 12, 16)) -> Pipeline:
        """Draw a 1F1B pipeline; activations of 16 to 128 MiB are divided over tensor groups."""
        size = self.one_of(*microbatches), self.one_of(16, 32, 64, 128) * MIB // max(layout.tp, 4)
        return Pipeline(microbatches=size[0], message_bytes=size[1])

    def reduction(self, step_s: float) -> GradientSync:
        """Draw a fused all-reduce of 1 to 6 % of the step at 400 Gbit/s."""
        size = int(self.between(0.005, 0.03) * step_s * 50e9)
        return GradientSync(buffer_bytes=size, eager=bool(self.one_of(0, 1)))

    def job(
        self,
        number: int,
        layout: Layout,
        step_s: float,
        *,
        gpus: Sequence[int] | None = None,
        pipeline: Pipeline | None = None,
        sync: GradientSync | None = None,
    ) -> Job:
        """Describe job `number`, under way when the recording begins, whose step takes about `step_s`.

        Without `gpus` it has the cluster's first; `pipeline` and `sync` are drawn if they are not given.
        """
        pipeline = pipeline or self.pipeline(layout)
        idle = {"zero-bubble": 1 / 3, "interleaved": 1 / pipeline.chunks}.get(pipeline.schedule, 1.0)
        slots = pipeline.microbatches + (layout.pp - 1) * idle
        ratio = self.between(1.7, 2.3)
        compute = Compute(
            forward_s=0.9 * step_s / slots / (1 + ratio),
            backward_ratio=ratio,
            jitter=self.between(0.005, 0.03),
            rank_spread=self.one_of(0.0, 0.005),
            data_s=step_s * self.between(0.002, 0.01),
            optimizer_s=step_s * self.between(0.005, 0.03),
            hiccup_rate=self.one_of(0.0, 2e-5),
        )
        placed = tuple(range(layout.gpus) if gpus is None else gpus)
        attempt = Attempt(gpus=placed, start_s=-step_s * self.between(0.2, 5.0))
        return Job(
            job_id=f"job-{number:02d}",
            tenant=f"tenant-{number:02d}",
            layout=layout,
            compute=compute,
            attempts=(attempt,),
            pipeline=pipeline,
            sync=sync or self.reduction(step_s),
        )

    def scenario(
        self, jobs: Sequence[Job], step_s: float, *, cluster: Mapping[str, Any] | None = None, **others: Any
    ) -> Scenario:
        """Record jobs for about STEPS steps of `step_s` in a rail-optimised cluster of two pods.

        `cluster` and `others` are fields of Cluster and of Scenario that differ.
        """
        fields = {"duration_s": recorded_s(step_s), **others}
        made = Cluster(servers=self.servers, pod_servers=max(self.servers // 2, 1), **(cluster or {}))
        return Scenario(name=self.family, cluster=made, jobs=tuple(jobs), seed=self.seed, **fields)


#: Draws the scenario of a family.
Recipe = Callable[[Draws], Scenario]


def two_stages(servers: int) -> Layout:
    """Divide a job over whole servers: two stages if they are even in number."""
    return Layout(tp=8, pp=2, dp=servers // 2) if servers % 2 == 0 else Layout(tp=8, dp=servers)


def replicas(servers: int) -> Layout:
    """Divide a job over whole servers: tensor groups of 8, all else replicas."""
    return Layout(tp=8, dp=servers)


def four_stages(servers: int) -> Layout:
    """Divide a job into 4 stages of tensor groups of 4, and replicas."""
    return Layout(tp=4, pp=4, dp=max(servers // 2, 1))


@dataclass(frozen=True, slots=True)
class OneJob:
    """The recipe of a scenario of one job: what sets it apart.

    `step_s`: about how long a step takes, or from and to; `steps` of them are recorded. `sync`, `pipeline`: fields that
    differ from those drawn, or a function that draws all of them; `sync` is drawn first if it is given, and last
    otherwise. `changes`: fields of the job, drawn when it is described; `cluster`: fields of the cluster.
    """

    layout: Callable[[int], Layout] = two_stages
    step_s: tuple[float, float] | float = (1.0, 6.0)
    steps: int = STEPS
    sync: Mapping[str, Any] | Callable[[Draws, float], GradientSync] | None = None
    microbatches: Sequence[int] = (4, 8, 12, 16)
    pipeline: Mapping[str, Any] | Callable[[Draws, Layout], Pipeline] = field(default_factory=dict)
    changes: Callable[[Draws, float, Job], Mapping[str, Any]] = lambda *_: {}
    cluster: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, draws: Draws) -> Scenario:
        """Draw the scenario."""
        step_s = self.step_s if isinstance(self.step_s, float) else draws.between(*self.step_s)
        layout = self.layout(draws.servers)
        sync = self.sync(draws, step_s) if callable(self.sync) else None
        if isinstance(self.sync, Mapping):
            sync = replace(draws.reduction(step_s), **self.sync)
        if callable(self.pipeline):
            pipeline = self.pipeline(draws, layout)
        else:
            pipeline = replace(draws.pipeline(layout, self.microbatches), **self.pipeline)
        job = draws.job(0, layout, step_s, pipeline=pipeline, sync=sync)
        job = replace(job, **self.changes(draws, step_s, job))
        return draws.scenario([job], step_s, cluster=self.cluster, duration_s=recorded_s(step_s, self.steps))
