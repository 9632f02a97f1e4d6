"""Draws of jobs of a wanted step time, with usual sizes and noise."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from prism_ch.simulate.job import Attempt, Compute, GradientSync, Job, Layout, Pipeline
from prism_ch.simulate.scenario import Cluster, Scenario

Choice = TypeVar("Choice")

MIB = 1 << 20
#: Steps that a scenario records, about.
STEPS = 50


def recorded_s(step_s: float, steps: int = STEPS) -> float:
    """Return how long a scenario is recorded: about `steps` steps, and at least a minute."""
    return max(steps * step_s, 60.0)


class Chances:
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
Recipe = Callable[[Chances], Scenario]


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
    sync: Mapping[str, Any] | Callable[[Chances, float], GradientSync] | None = None
    microbatches: Sequence[int] = (4, 8, 12, 16)
    pipeline: Mapping[str, Any] | Callable[[Chances, Layout], Pipeline] = field(default_factory=dict)
    changes: Callable[[Chances, float, Job], Mapping[str, Any]] = lambda *_: {}
    cluster: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, chances: Chances) -> Scenario:
        """Draw the scenario."""
        step_s = self.step_s if isinstance(self.step_s, float) else chances.between(*self.step_s)
        layout = self.layout(chances.servers)
        sync = self.sync(chances, step_s) if callable(self.sync) else None
        if isinstance(self.sync, Mapping):
            sync = replace(chances.reduction(step_s), **self.sync)
        if callable(self.pipeline):
            pipeline = self.pipeline(chances, layout)
        else:
            pipeline = replace(chances.pipeline(layout, self.microbatches), **self.pipeline)
        job = chances.job(0, layout, step_s, pipeline=pipeline, sync=sync)
        job = replace(job, **self.changes(chances, step_s, job))
        return chances.scenario([job], step_s, cluster=self.cluster, duration_s=recorded_s(step_s, self.steps))
