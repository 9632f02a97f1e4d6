"""What one training step does, whichever way a job is parallel: flows, computing, and when the next step may begin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from prism_ch.model.columns import Bool, Float64, Int64
from prism_ch.model.result import DP
from prism_ch.simulate.collective import Collective, ring_edges
from prism_ch.simulate.link import Links
from prism_ch.simulate.pipeline import PipelineEngine, StepTimes
from prism_ch.simulate.ranks import RankGrid
from prism_ch.simulate.sync import GradientEngine
from prism_ch.simulate.transfers import PLAIN, REDUCES, FlowPlan
from prism_ch.simulate.workload import GradientSync, Job


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """One step, in seconds since the recording began.

    Flows, in the order of the engine's plan: `start_s`, `end_s` float64[flows], `payload_bytes` int64[flows].
    float64[stages, lanes]: `busy_s`, time spent computing; `next_s`, when the next step may begin; `hold_s`, when its
    parameters are complete. `finish_s`: the end of the last flow or operation.
    """

    start_s: Float64
    end_s: Float64
    payload_bytes: Int64
    busy_s: Float64
    next_s: Float64
    hold_s: Float64
    finish_s: float


class StepEngine(Protocol):
    """Works one life of a job, step by step; `keep` marks the rows of `plan` that are flows at all."""

    plan: FlowPlan
    keep: Bool

    def run(self, begin_s: Float64, hold_s: Float64, slow: Float64, rng: np.random.Generator) -> StepOutcome:
        """Work one step; parameters as for PipelineEngine.run."""


class PipelinedTraining:
    """A pipeline (of one stage or more), then gradient synchronisation."""

    def __init__(self, job: Job, grid: RankGrid, links: Links) -> None:
        self._pipeline = PipelineEngine(job, grid, links)
        self._gradients = GradientEngine(job.sync, job.compute, grid, links, self._pipeline.program)
        self.plan = FlowPlan.concatenate([self._pipeline.plan, self._gradients.plan])
        self.keep: Bool = np.concatenate([self._pipeline.keep, np.ones(len(self._gradients.plan), dtype=bool)])

    def run(self, begin_s: Float64, hold_s: Float64, slow: Float64, rng: np.random.Generator) -> StepOutcome:
        """Work one step."""
        times = self._pipeline.run(begin_s, hold_s, slow, rng)
        synced = self._gradients.run(times, rng)
        start, end, size = self._pipeline.flows(times)
        return StepOutcome(
            start_s=np.concatenate([start, synced.start_s]),
            end_s=np.concatenate([end, synced.end_s]),
            payload_bytes=np.concatenate([size, self._gradients.plan.payload_bytes]),
            busy_s=busy_seconds(self._pipeline, times, begin_s.shape),
            next_s=synced.next_s,
            hold_s=synced.hold_s,
            finish_s=max(float(times.op_end_s.max()), float(synced.end_s.max(initial=-np.inf))),
        )


def busy_seconds(pipeline: PipelineEngine, times: StepTimes, shape: tuple[int, ...]) -> Float64:
    """Sum each tensor group's operations, float64[stages, lanes]."""
    busy = np.zeros(shape)
    np.add.at(busy, pipeline.program.stage, times.op_end_s - times.op_start_s)
    return busy


class _Queue:
    """The collectives of one step, one after the other on every rank."""

    def __init__(self, ring: Collective, sync: GradientSync, tp: int, begin_s: Float64) -> None:
        self._ring, self._sync, self._tp = ring, sync, tp
        self._free = np.repeat(begin_s, tp)
        self._start: list[Float64] = []
        self._end: list[Float64] = []

    def run(self, ready_s: Float64, rng: np.random.Generator, *, gathers: bool) -> Float64:
        """Gather or scatter one layer, asked for at `ready_s`, float64[lanes]; return when each lane has it."""
        factor = 1.0 if gathers else 1.0 / self._sync.gather_ratio
        for size in self._sync.unit_bytes:
            ready = np.maximum(np.repeat(ready_s, self._tp), self._free)
            start, end, self._free = self._ring.run(factor * size, ready, rng)
            self._start.append(start)
            self._end.append(end)
        return np.asarray(self._free.reshape(-1, self._tp).max(axis=1))

    def flows(self) -> tuple[Float64, Float64]:
        """Return start and end of all flows so far."""
        return np.concatenate(self._start), np.concatenate(self._end)


class ShardedTraining:
    """Fully sharded data parallelism (ZeRO-3, FSDP): parameters are gathered and gradients scattered layer by layer.

    The next layer is gathered while one computes; in the backward all layers but the last are gathered again, and
    each layer's gradients are reduce-scattered when it is done. One queue a rank carries the collectives in the order
    they are asked for. Source: Zhao et al. 2023, "PyTorch FSDP", sections 3.3 and 4.
    """

    def __init__(self, job: Job, grid: RankGrid, links: Links) -> None:
        self._sync, self._compute, self._grid = job.sync, job.compute, grid
        self._microbatches = job.pipeline.microbatches
        replicas = grid.communicators(DP)
        edges = ring_edges(replicas, grid.server, job.sync.channels, job.sync.exit, varied=job.sync.varied_rings)
        self._ring = Collective(replicas, edges, grid, links, eager=job.sync.eager)
        self._order = self._schedule()
        self.plan = FlowPlan.concatenate(
            FlowPlan.of(
                self._ring.src,
                self._ring.dst,
                self._ring.payload(size * (1.0 if gathers else 1.0 / job.sync.gather_ratio)),
                kind=DP,
                role=PLAIN if gathers else REDUCES,
                queue=edges.channel,
            )
            for gathers in self._order
            for size in job.sync.unit_bytes
        )
        self.keep: Bool = np.ones(len(self.plan), dtype=bool)

    def _schedule(self) -> list[bool]:
        """Return the collectives of a step in order, one a unit: True gathers, False scatters."""
        layers = self._sync.layers
        forward = [True] * layers
        backward = [
            gathers for layer in range(layers) for gathers in ((True, False) if layer < layers - 1 else (False,))
        ]
        return (forward + backward) * self._microbatches

    def run(self, begin_s: Float64, hold_s: Float64, slow: Float64, rng: np.random.Generator) -> StepOutcome:
        """Work one step, which no rank begins before its parameters' owner has updated them (`hold_s`)."""
        begin_s = np.maximum(begin_s, hold_s)
        layers, compute, lanes = self._sync.layers, self._compute, self._grid.lanes
        queue = _Queue(self._ring, self._sync, self._grid.tp, begin_s[0])
        shape = (self._microbatches, layers, lanes)
        length = rng.lognormal(0.0, compute.sequence_spread, (self._microbatches, 1, lanes))
        layer_s = compute.forward_s / layers * length * slow
        forward_s = layer_s * np.maximum(1 + compute.jitter * rng.standard_normal(shape), 0.5)
        backward_s = compute.backward_ratio * layer_s * np.maximum(1 + compute.jitter * rng.standard_normal(shape), 0.5)
        free = scattered = begin_s[0]
        for microbatch in range(self._microbatches):
            gathered = queue.run(free, rng, gathers=True)
            for layer in range(layers):
                start = np.maximum(free, gathered)
                if layer < layers - 1:
                    gathered = queue.run(start, rng, gathers=True)
                free = start + forward_s[microbatch, layer]
            for layer in reversed(range(layers)):
                start = np.maximum(free, gathered)
                if layer > 0:
                    gathered = queue.run(start, rng, gathers=True)
                free = start + backward_s[microbatch, layer]
                scattered = queue.run(free, rng, gathers=False)
        done = np.maximum(free, scattered)[None, :]
        following = done + compute.optimizer_s * rng.uniform(0.97, 1.03)
        start_s, end_s = queue.flows()
        return StepOutcome(
            start_s=start_s,
            end_s=end_s,
            payload_bytes=self.plan.payload_bytes,
            busy_s=(forward_s + backward_s).sum(axis=(0, 1))[None, :],
            next_s=following,
            hold_s=following,
            finish_s=float(done.max()),
        )


def step_engine(job: Job, grid: RankGrid, links: Links) -> StepEngine:
    """Return the engine of a job's kind of parallelism."""
    return ShardedTraining(job, grid, links) if job.sync.mode == "zero3" else PipelinedTraining(job, grid, links)
