"""What scenarios of all families share: jobs of a wanted step time, with sizes and noise drawn from what is usual."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from prism_ch.simulate.scenario import Cluster, Observation, Scenario, Surroundings
from prism_ch.simulate.workload import Compute, GradientSync, Job, Layout, Life, Pipeline

Choice = TypeVar("Choice")

MIB = 1 << 20
#: Steps that a scenario records, about.
STEPS = 50


class Chances:
    """The choices of one scenario: a function of its family's name and its seed."""

    def __init__(self, family: str, seed: int) -> None:
        self.family, self.seed = family, seed
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


def pipeline(chances: Chances, layout: Layout, *, microbatches: Sequence[int] = (4, 8, 12, 16)) -> Pipeline:
    """Draw a 1F1B pipeline; the activation is of 4 to 64 MiB, divided over the tensor group."""
    return Pipeline(
        microbatches=chances.one_of(*microbatches),
        message_bytes=chances.one_of(16, 32, 64, 128) * MIB // max(layout.tp, 4),
    )


def reduction(chances: Chances, step_s: float) -> GradientSync:
    """Draw a fused all-reduce; over a 400 Gbit/s link it takes 1 to 6 % of the step."""
    size = int(chances.between(0.005, 0.03) * step_s * 50e9)
    return GradientSync(buffer_bytes=size, eager=bool(chances.one_of(0, 1)))


def training_job(
    chances: Chances,
    number: int,
    layout: Layout,
    step_s: float,
    *,
    gpus: Sequence[int] | None = None,
    pipes: Pipeline | None = None,
    sync: GradientSync | None = None,
) -> Job:
    """Describe job `number` of a scenario, whose step takes about `step_s`; it was under way when the recording began.

    Without `gpus` it has the cluster's first; `pipes` and `sync` are drawn where they are not given.
    """
    pipes = pipes or pipeline(chances, layout)
    idle = {"zero-bubble": 1 / 3, "interleaved": 1 / pipes.chunks}.get(pipes.schedule, 1.0)
    slots = pipes.microbatches + (layout.pp - 1) * idle
    ratio = chances.between(1.7, 2.3)
    return Job(
        job_id=f"job-{number:02d}",
        tenant=f"tenant-{number:02d}",
        layout=layout,
        compute=Compute(
            forward_s=0.9 * step_s / slots / (1 + ratio),
            backward_ratio=ratio,
            jitter=chances.between(0.005, 0.03),
            rank_spread=chances.one_of(0.0, 0.005),
            data_s=step_s * chances.between(0.002, 0.01),
            optimizer_s=step_s * chances.between(0.005, 0.03),
            hiccup_rate=chances.one_of(0.0, 2e-5),
        ),
        lives=(
            Life(
                gpus=tuple(range(layout.gpus) if gpus is None else gpus),
                start_s=-step_s * chances.between(0.2, 5.0),
            ),
        ),
        pipeline=pipes,
        sync=sync or reduction(chances, step_s),
    )


def scenario(
    chances: Chances,
    jobs: Sequence[Job],
    cluster: Cluster,
    step_s: float,
    *,
    surroundings: Surroundings | None = None,
) -> Scenario:
    """Record about STEPS steps of `step_s` of some jobs, and at least a minute."""
    return Scenario(
        name=chances.family,
        cluster=cluster,
        jobs=tuple(jobs),
        duration_s=max(STEPS * step_s, 60.0),
        seed=chances.seed,
        surroundings=surroundings or Surroundings(),
        observation=Observation(),
    )


def cluster_of(servers: int, **changes: float | bool) -> Cluster:
    """Describe a rail-optimised cluster of two pods."""
    return Cluster(servers=servers, pod_servers=max(servers // 2, 1), **changes)  # type: ignore[arg-type]
