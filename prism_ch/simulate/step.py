"""One training step in time: operations and messages of the pipeline, then gradient synchronisation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.model.columns import Float64
from prism_ch.model.result import DP
from prism_ch.simulate.gradients import GradientEngine, ring_of
from prism_ch.simulate.job import Job
from prism_ch.simulate.network import PLAIN, REDUCES, Flows, FlowTimes, Links, Network, RankGrid
from prism_ch.simulate.pipeline import PipelineEngine
from prism_ch.simulate.rounds import Round, RoundRuns, plan_rounds
from prism_ch.simulate.waits import Waits


@dataclass(frozen=True, slots=True)
class StepTimes:
    """One step, in seconds since the recording began.

    `flows` are in the order of the engine's plan. float64[stages, lanes]: `busy_s`, time spent computing; `next_s`,
    when the next step may begin; `hold_s`, when its parameters are complete. `finish_s`: the end of the last flow or
    operation. `waits` are those of ranks that neither compute nor may go on.
    """

    flows: FlowTimes
    busy_s: Float64
    next_s: Float64
    hold_s: Float64
    finish_s: float
    waits: Waits


class PipelinedStep:
    """A pipeline (of one stage or more), then gradient synchronisation."""

    def __init__(self, job: Job, grid: RankGrid, links: Links) -> None:
        self._grid = grid
        self._pipeline = PipelineEngine(job, grid, links)
        self._gradients = GradientEngine(job, grid, links, self._pipeline.program)
        flows = Flows.concatenate([self._pipeline.plan, self._gradients.plan])
        self._crosses = links.network.crosses(flows.src, flows.dst)
        self.plan = flows.take(self._crosses)

    def run(self, begin_s: Float64, hold_s: Float64, slow: Float64, rng: np.random.Generator) -> StepTimes:
        """Run one step; parameters as for PipelineEngine.run."""
        times = self._pipeline.run(begin_s, hold_s, slow, rng)
        synced = self._gradients.run(times, rng)
        flows = FlowTimes.concatenate([self._pipeline.flows(times), synced.flows]).take(self._crosses)
        busy_s = np.zeros_like(begin_s)
        np.add.at(busy_s, self._pipeline.program.stage, times.op_end_s - times.op_start_s)
        finish_s = max(times.op_end_s.max(), synced.flows.end_s.max(initial=-np.inf))
        grid, stage = self._grid, self._pipeline.program.stage
        rank = grid.numbers()[stage]
        start_s, end_s = (np.repeat(each[:, :, None], grid.tp, axis=2) for each in (times.free_s, times.op_start_s))
        late = end_s > start_s
        waits = Waits.concatenate([Waits(rank[late], start_s[late], end_s[late]), synced.waits])
        return StepTimes(flows, busy_s, synced.next_s, synced.hold_s, finish_s, waits)


class ShardedStep:
    """Fully sharded data parallelism (ZeRO-3, FSDP): parameters are gathered and gradients scattered layer by layer.

    The next layer is gathered while one computes; in the backward all layers but the last are gathered again, and each
    layer's gradients are reduce-scattered when it is done. One queue a rank carries the collectives in order. Source:
    Zhao et al. 2023, "PyTorch FSDP", sections 3.3 and 4.
    """

    def __init__(self, job: Job, grid: RankGrid, links: Links) -> None:
        self._job, self._grid, sync = job, grid, job.sync
        ring = ring_of(grid.communicators(DP), grid, links, sync, varied=sync.varied_rings)
        self._gather = [Round(ring, size, PLAIN) for size in sync.unit_bytes]
        self._scatter = [Round(ring, 1.0 / sync.gather_ratio * size, REDUCES) for size in sync.unit_bytes]
        backward = [*self._gather, *self._scatter] * (sync.layers - 1) + self._scatter
        self.plan = plan_rounds([*self._gather * sync.layers, *backward] * job.pipeline.microbatches)

    def run(self, begin_s: Float64, hold_s: Float64, slow: Float64, rng: np.random.Generator) -> StepTimes:
        """Run one step, which no rank begins before its parameters' owner has updated them (`hold_s`)."""
        free = scattered = np.maximum(begin_s, hold_s)
        compute, layers, microbatches = self._job.compute, self._job.sync.layers, self._job.pipeline.microbatches
        shape = (microbatches, layers, self._grid.lanes)
        length = rng.lognormal(0.0, compute.sequence_spread, (microbatches, 1, self._grid.lanes))
        layer_s = compute.forward_s / layers * length * slow
        forward_s = layer_s * np.maximum(1 + compute.jitter * rng.standard_normal(shape), 0.5)
        backward_s = compute.backward_ratio * layer_s * np.maximum(1 + compute.jitter * rng.standard_normal(shape), 0.5)
        rounds, waits = RoundRuns(rng), list[Waits]()
        queue_s = self._grid.to_ranks(free)

        def transfer(parts: list[Round], ready_s: Float64) -> Float64:
            nonlocal queue_s
            for part in parts:
                queue_s = rounds.run(part, np.maximum(self._grid.to_ranks(ready_s), queue_s))
            return self._grid.to_lanes(queue_s)

        for microbatch in range(microbatches):
            gathered = transfer(self._gather, free)
            for layer in range(layers):
                start = np.maximum(free, gathered)
                waits.append(Waits.of(self._grid.to_ranks(free), self._grid.to_ranks(start)))
                if layer < layers - 1:
                    gathered = transfer(self._gather, start)
                free = start + forward_s[microbatch, layer]
            for layer in reversed(range(layers)):
                start = np.maximum(free, gathered)
                waits.append(Waits.of(self._grid.to_ranks(free), self._grid.to_ranks(start)))
                if layer > 0:
                    gathered = transfer(self._gather, start)
                free = start + backward_s[microbatch, layer]
                scattered = transfer(self._scatter, free)
        done = np.maximum(free, scattered)
        waits.append(Waits.of(self._grid.to_ranks(free), self._grid.to_ranks(done)))
        following = done + compute.optimizer_s * rng.uniform(0.97, 1.03)
        busy_s = (forward_s + backward_s).sum(axis=(0, 1))[None, :]
        flows, waited = FlowTimes.concatenate(rounds.flows), Waits.concatenate(waits)
        return StepTimes(flows, busy_s, following, following, done.max(), waited)


def step_engine(job: Job, grid: RankGrid, links: Links) -> PipelinedStep | ShardedStep:
    """Return what runs steps; its `plan` holds the flows of each that leave a server."""
    return ShardedStep(job, grid, links) if job.sync.mode == "zero3" else PipelinedStep(job, grid, links)


def step_plan(job: Job, network: Network) -> Flows:
    """Return the flows of every step of a job's first attempt that leave a server."""
    return step_engine(job, RankGrid(job.layout, job.attempts[0].gpus, network), Links(network)).plan
