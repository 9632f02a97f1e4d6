"""One training step in time: operations and messages of the pipeline, then gradient synchronisation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from prism_ch.model.columns import Bool, Float64, Int64
from prism_ch.model.result import CP, DP, EP, OTHER, PP, TP
from prism_ch.simulate.communication import Collective, Exchange, ring_edges, tree_edges
from prism_ch.simulate.job import GradientSync, Job
from prism_ch.simulate.network import (
    EFFICIENCY_SPREAD,
    GATHERS,
    NETWORK_LATENCY_S,
    PLAIN,
    REDUCES,
    Flows,
    FlowTimes,
    Links,
    Network,
    RankGrid,
)
from prism_ch.simulate.rounds import Round, RoundRuns, plan_rounds
from prism_ch.simulate.schedule import FORWARD, WEIGHT, Program, compile_program
from prism_ch.simulate.waits import Waits

#: How far the lanes of a tensor group are apart when they send.
LANE_SPREAD_S = 30e-6

#: Payload of a control all-reduce (gradient norm, overflow flag).
CONTROL_BYTES = 8


@dataclass(frozen=True, slots=True)
class PipelineTimes:
    """One step, in seconds since the recording began: operations are float64[operations, lanes].

    X
    """

    op_start_s: Float64
    op_end_s: Float64
    messages: FlowTimes
    exchanges: tuple[FlowTimes, ...]
    free_s: Float64


class PipelineEngine:
    """Runs a job's pipeline; `plan` holds the flows of a step, messages first."""

    def __init__(self, job: Job, grid: RankGrid, links: Links, *, forward_only: bool = False) -> None:
        self._compute, self._pipeline, self._grid, self._links = job.compute, job.pipeline, grid, links
        program = self.program = compile_program(job.pipeline, grid.stages, forward_only=forward_only)
        ranks = grid.numbers()
        self.message_src = grid.endpoint[ranks[program.stage[program.sender]]]
        self.message_dst = grid.endpoint[ranks[program.stage[program.receiver]]]
        size = job.pipeline.message_bytes
        self._message_s = size * links.byte_s(self.message_src, self.message_dst, grid.share)
        self._is_first = np.zeros(len(program.stage), dtype=bool)
        self._is_first[np.unique(program.stage, return_index=True)[1]] = True
        # zero-bubble halves the backward between input and weights
        backward = job.compute.backward_ratio * (0.5 if (program.kind == WEIGHT).any() else 1.0)
        by_kind = np.where(program.kind == FORWARD, 1.0, backward)
        weights = np.array(job.compute.stage_weights or (1.0,) * grid.stages)
        self._nominal_s: Float64 = job.compute.forward_s / job.pipeline.chunks * by_kind * weights[program.stage]
        # kinds of traffic inside operations, in the order they take place
        inner = ((CP, job.context, grid.shape[2]), (TP, job.tensor, grid.tp), (EP, job.experts, grid.shape[1]))
        self._exchanges = [
            Exchange(kind, traffic, grid, links, program)
            for kind, traffic, members in inner
            if traffic is not None and members > 1
        ]
        messages = Flows.of(self.message_src, self.message_dst, size, kind=PP)
        self.plan = Flows.concatenate([messages, *(exchange.plan() for exchange in self._exchanges)])

    def flows(self, times: PipelineTimes) -> FlowTimes:
        """Return when the flows of the plan begin and end."""
        exchanged = zip(self._exchanges, times.exchanges, strict=True)
        return FlowTimes.concatenate([times.messages.flat(), *(exchange.flows(part) for exchange, part in exchanged)])

    def run(self, begin_s: Float64, hold_s: Float64, slow: Float64, rng: np.random.Generator) -> PipelineTimes:
        """Run one step.

        An operation starts when its stage is free and its input has arrived. Levels are run one by one: operations,
        the exchanges inside them, then the messages they send.

        Parameters, all float64[stages, lanes]: `begin_s`, when each tensor group may start; `hold_s`, before which its
        first operation can't end (parameters still being gathered); `slow`, how many times longer it computes.
        """
        program = self.program
        durations_s = self._durations(slow, rng)
        scatter = rng.uniform(1 - EFFICIENCY_SPREAD, 1 + EFFICIENCY_SPREAD, self._message_s.shape)
        message_s = NETWORK_LATENCY_S + self._message_s * scatter
        offset_s = rng.uniform(0.0, LANE_SPREAD_S, self._message_s.shape)
        exchanges = tuple(exchange.draw(rng) for exchange in self._exchanges)
        free_s = begin_s.copy()
        nic_free_s = np.full((*begin_s.shape, self._grid.tp), -np.inf)
        arrival_s = np.full((len(program.sender) + 1, self._grid.lanes), -np.inf)  # the last row: no input needed
        op_start_s, op_end_s = np.empty_like(durations_s), np.empty_like(durations_s)
        start_s, end_s = np.empty_like(message_s), np.empty_like(message_s)
        was_free_s = np.empty_like(durations_s)
        for level, sends in zip(program.levels, program.sends, strict=True):
            rows, sent = np.arange(*level), slice(*sends)
            stage = program.stage[rows]
            was_free_s[rows] = free_s[stage]
            start = np.maximum(free_s[stage], arrival_s[program.incoming[rows]])
            end = self._compute_level(rows, start, durations_s[rows], exchanges, rng)
            first = self._is_first[rows]
            end[first] = np.maximum(end[first], hold_s[stage[first]])
            op_start_s[rows], op_end_s[rows], free_s[stage] = start, end, end
            sender = program.sender[sent]
            source = program.stage[sender]
            start_s[sent] = np.maximum(op_end_s[sender][:, :, None] + offset_s[sent], nic_free_s[source])
            slowdown = self._links.slowdown(self.message_src[sent], self.message_dst[sent], start_s[sent])
            end_s[sent] = start_s[sent] + message_s[sent] * slowdown
            nic_free_s[source] = end_s[sent]
            arrival_s[sent] = end_s[sent].max(axis=2)
        messages = FlowTimes(start_s, end_s, np.full(start_s.shape, self._pipeline.message_bytes))
        return PipelineTimes(op_start_s, op_end_s, messages, exchanges, was_free_s)

    def _compute_level(
        self,
        rows: Int64,
        start_s: Float64,
        durations_s: Float64,
        exchanges: tuple[FlowTimes, ...],
        rng: np.random.Generator,
    ) -> Float64:
        """Return when each operation of a level ends, the exchanges inside it included: float64[operations, lanes].

        An operation is computed in as many pieces as there are bursts of its most frequent exchange; the bursts of each
        kind follow the pieces they fall on.
        """
        pieces = max((exchange.traffic.bursts for exchange in self._exchanges), default=1)
        talks = np.flatnonzero(self.program.kind[rows] != WEIGHT)
        now = start_s
        for piece in range(pieces):
            begun, now = now, now + durations_s / pieces
            for exchange, times in zip(self._exchanges, exchanges, strict=True):
                bursts = exchange.traffic.bursts
                burst = piece * bursts // pieces
                if len(talks) and (piece == 0 or burst != (piece - 1) * bursts // pieces):
                    ready = begun[talks] if exchange.traffic.overlapped else now[talks]
                    now[talks] = np.maximum(now[talks], exchange.run(rows[talks], burst, ready, times, rng))
        return now

    def _durations(self, slow: Float64, rng: np.random.Generator) -> Float64:
        """Draw how long each operation takes on each tensor group, float64[operations, lanes]."""
        program, compute = self.program, self._compute
        shape = (len(program.stage), self._grid.lanes)
        jitter = np.maximum(1 + compute.jitter * rng.standard_normal(shape), 0.5)
        durations_s = self._nominal_s[:, None] * jitter * slow[program.stage]
        if compute.sequence_spread:
            data, expert, context = self._grid.shape
            lengths = rng.lognormal(0.0, compute.sequence_spread, (self._pipeline.microbatches, data * expert))
            durations_s *= np.repeat(lengths, context, axis=1)[program.microbatch]
        if compute.hiccup_rate:
            delayed = rng.random(shape) < compute.hiccup_rate
            durations_s += np.where(delayed, rng.exponential(compute.hiccup_s, shape), 0.0)
        return durations_s


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


def _ring(groups: Int64, grid: RankGrid, links: Links, sync: GradientSync, *, varied: bool = False) -> Collective:
    edges = ring_edges(groups, grid.server, sync.channels, sync.exit, varied=varied)
    return Collective(groups, edges, grid, links, eager=sync.eager)


class SyncTimes(NamedTuple):
    """One step's gradient synchronisation; fields as in StepTimes."""

    flows: FlowTimes
    next_s: Float64
    hold_s: Float64
    waits: Waits


class GradientEngine:
    """Runs one job's gradient synchronisation: reductions, closing rounds, the optimizer, gatherings of parameters.

    A reduction waits for its operation on each stage (see `_waits`), closing rounds for all reductions.
    """

    def __init__(self, job: Job, grid: RankGrid, links: Links, program: Program) -> None:
        sync = self._sync = job.sync
        self._optimizer_s, self._grid = job.compute.optimizer_s, grid
        self._last = _last_operations(program, grid.stages, program.kind >= FORWARD)
        self._reductions: list[tuple[Round, Int64, float]] = []
        self._closings: list[Round] = []
        self._gathers: list[Round] = []
        active = sync.mode != "none" and grid.lanes > 1
        replicas, passes = grid.communicators(DP), 2 if sync.mode == "allreduce" else 1
        ring = _ring(replicas, grid, links, sync, varied=sync.varied_rings)
        if active:
            trees = tree_edges(replicas, grid.server, sync.channels)
            tree = Collective(
                replicas, trees, grid, links, eager=sync.eager, passes=3.0
            )  # a tree is slower than a ring
            for operation, done, share in _waits(sync, program, grid.stages):
                size = share * sync.buffer_bytes
                small = sync.algorithm == "auto" and size < sync.tree_below_bytes
                takes_tree = sync.mode == "allreduce" and (small or sync.algorithm == "tree")
                part = Round(tree, size, REDUCES) if takes_tree else Round(ring, passes * size, REDUCES)
                self._reductions.append((part, operation, done))
        if active and sync.expert_bytes and grid.shape[0] > 1:
            rings = _ring(grid.expert_replicas(), grid, links, sync)
            self._reductions.append((Round(rings, passes * sync.expert_bytes, REDUCES), self._last, 1.0))
        if sync.tied_bytes and grid.stages > 1:
            ends = grid.numbers()[[0, -1]].reshape(2, -1).T
            tied = Collective(ends, ring_edges(ends, grid.server, 1, "rail"), grid, links, eager=sync.eager)
            self._closings.append(Round(tied, 2 * sync.tied_bytes, PLAIN, OTHER))
        if active and sync.grad_norm:
            self._closings.append(Round(ring, 2 * CONTROL_BYTES, REDUCES))
        if active and sync.mode in ("distributed_optimizer", "zero2"):
            sizes = [share * sync.buffer_bytes * sync.gather_ratio for share in sync.shares()]
            self._gathers = [Round(ring, size, GATHERS) for size in sizes]
        self.plan = plan_rounds([*(part for part, _, _ in self._reductions), *self._closings, *self._gathers])

    def run(self, times: PipelineTimes, rng: np.random.Generator) -> SyncTimes:
        """Synchronise after (or, overlapped, during) a step's backward."""
        optimizer_s = self._optimizer_s * rng.uniform(0.97, 1.03)
        grid, rounds = self._grid, RoundRuns(rng)
        finished = grid.to_ranks(times.op_end_s[self._last])
        free = np.full(len(finished), -np.inf)
        for part, operation, done in self._reductions:
            start, end = times.op_start_s[operation], times.op_end_s[operation]
            free = rounds.run(part, np.maximum(grid.to_ranks(start + done * (end - start)), free), finished)
        free = np.maximum(free, finished)
        for part in self._closings:
            if part.kind == DP:  # the norm is that of the whole model: nobody goes on before everybody is there
                rounds.waits.append(Waits.of(free, np.full_like(free, free.max())))
                free = np.full_like(free, free.max())
            free = rounds.run(part, free, free)
        through = [free + optimizer_s]
        for part in self._gathers:
            through.append(rounds.run(part, through[-1], through[-1]))
        first, complete = grid.to_lanes(through[min(1, len(self._gathers))]), grid.to_lanes(through[-1])
        flows = FlowTimes.concatenate(rounds.flows)
        following = first if self._sync.overlap else complete
        last = through[min(1, len(self._gathers))] if self._sync.overlap else through[-1]
        rounds.waits.append(Waits.of(last, grid.to_ranks(following)))
        return SyncTimes(flows, following, complete, Waits.concatenate(rounds.waits))


def _operations(program: Program, stages: int, among: Bool) -> list[Int64]:
    return [np.flatnonzero((program.stage == stage) & among) for stage in range(stages)]


def _last_operations(program: Program, stages: int, among: Bool) -> Int64:
    return np.array([operations[-1] for operations in _operations(program, stages, among)])


def _waits(sync: GradientSync, program: Program, stages: int) -> Iterator[tuple[Int64, float, float]]:
    """Yield what each reduction waits for, and its share of the gradients.

    That is an operation of each stage, int64[stages], and how far in its gradients are there. ZeRO-2 reduces after
    every backward. Without overlap all buckets come with the stage's last operation. With it, they follow the last
    backward of each model chunk (of the weights if the backward is split), last chunk first.
    """
    chunks = int(program.chunk.max()) + 1
    chunk_of = chunks - 1 - np.arange(sync.buckets) * chunks // sync.buckets
    if sync.mode == "zero2":
        for operation in np.array(_operations(program, stages, program.kind > FORWARD)).T:
            for bucket, share in enumerate(sync.shares()):
                yield operation, (bucket + 1) / sync.buckets, share
        return
    for bucket, share in enumerate(sync.shares()):
        if sync.overlap:
            mates = chunk_of == chunk_of[bucket]
            producing = (program.kind == program.kind.max()) & (program.chunk == chunk_of[bucket])
            yield _last_operations(program, stages, producing), mates[: bucket + 1].sum() / mates.sum(), share
        else:
            yield _last_operations(program, stages, program.kind >= FORWARD), 1.0, share


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
        ring = _ring(grid.communicators(DP), grid, links, sync, varied=sync.varied_rings)
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
