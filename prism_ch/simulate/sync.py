"""Gradient synchronisation in time: collectives over replicas, bucket by bucket, the optimizer, and what follows it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.model.columns import Float64, Int64
from prism_ch.model.result import DP, OTHER
from prism_ch.simulate.collective import Collective, ring_edges, tree_edges
from prism_ch.simulate.link import Links
from prism_ch.simulate.pipeline import StepTimes
from prism_ch.simulate.ranks import RankGrid
from prism_ch.simulate.schedule import FORWARD, Program
from prism_ch.simulate.transfers import GATHERS, PLAIN, REDUCES, FlowPlan
from prism_ch.simulate.workload import Compute, GradientSync

#: Payload of a control all-reduce (gradient norm, overflow flag).
CONTROL_BYTES = 8


@dataclass(frozen=True, slots=True)
class SyncTimes:
    """What one step's synchronisation did, seconds since the recording began.

    Flows float64[flows], in the order of the engine's plan. `next_s`, float64[stages, lanes], is when the next step
    may begin; `hold_s` the same shape, when its parameters are complete.
    """

    start_s: Float64
    end_s: Float64
    next_s: Float64
    hold_s: Float64


@dataclass(frozen=True, slots=True)
class _Round:
    """One collective of a step over `size` bytes.

    `op`, int64[stages], and `fraction` say how far the backward must be, for the reductions that wait for that.
    """

    collective: Collective
    size: float
    op: Int64
    fraction: float
    role: int
    kind: int = DP

    def plan(self) -> FlowPlan:
        edges = self.collective.edges
        return FlowPlan.of(
            self.collective.src,
            self.collective.dst,
            self.collective.payload(self.size),
            kind=self.kind,
            role=self.role,
            queue=edges.channel,
        )


class GradientEngine:
    """Works one job's synchronisation; holds collectives, buckets and their sizes."""

    def __init__(self, sync: GradientSync, compute: Compute, grid: RankGrid, links: Links, program: Program) -> None:
        self._sync, self._compute, self._grid = sync, compute, grid
        self._last = np.array([np.flatnonzero(program.stage == stage)[-1] for stage in range(grid.stages)])
        replicas = grid.communicators(DP)
        ring = Collective(
            replicas,
            ring_edges(replicas, grid.server, sync.channels, sync.exit, varied=sync.varied_rings),
            grid,
            links,
            eager=sync.eager,
        )
        trees = tree_edges(replicas, grid.server, sync.channels)
        tree = Collective(replicas, trees, grid, links, eager=sync.eager)
        active = sync.mode != "none" and grid.lanes > 1
        self._reductions = self._reduce_rounds(ring, tree, program) if active else []
        if active and sync.expert_bytes and grid.shape[0] > 1:
            twins = grid.expert_replicas()
            edges = ring_edges(twins, grid.server, sync.channels, sync.exit)
            rings = Collective(twins, edges, grid, links, eager=sync.eager)
            factor = 2 if sync.mode == "allreduce" else 1
            self._reductions.append(_Round(rings, factor * sync.expert_bytes, self._last, 1.0, REDUCES))
        self._closings: list[_Round] = []
        if sync.tied_bytes and grid.stages > 1:
            ends = grid.numbers()[[0, -1]].reshape(2, -1).T
            exchange = Collective(ends, ring_edges(ends, grid.server, 1, "rail"), grid, links, eager=sync.eager)
            self._closings.append(_Round(exchange, 2 * sync.tied_bytes, self._last, 1.0, PLAIN, OTHER))
        if active and sync.grad_norm:
            self._closings.append(_Round(ring, 2 * CONTROL_BYTES, self._last, 1.0, REDUCES))
        sharded = active and sync.mode in ("distributed_optimizer", "zero2")
        self._gathers = (
            [
                _Round(ring, share * sync.buffer_bytes * sync.gather_ratio, self._last, 1.0, GATHERS)
                for share in sync.shares()
            ]
            if sharded
            else []
        )
        rounds = [*self._reductions, *self._closings, *self._gathers]
        self.plan = FlowPlan.concatenate([part.plan() for part in rounds])

    def _reduce_rounds(self, ring: Collective, tree: Collective, program: Program) -> list[_Round]:
        """Return the reductions of a step in order: of its last backwards, or (ZeRO-2) of every microbatch's."""
        sync = self._sync
        if sync.mode == "zero2":
            stages = range(self._grid.stages)
            backwards = [np.flatnonzero((program.stage == stage) & (program.kind > FORWARD)) for stage in stages]
            waits = [
                (np.array([ops[number] for ops in backwards]), (bucket + 1) / sync.buckets, share)
                for number in range(len(backwards[0]))
                for bucket, share in enumerate(sync.shares())
            ]
        else:
            ops, fractions = last_producers(sync, program, self._grid.stages)
            waits = list(zip(ops.T, fractions.tolist(), sync.shares(), strict=True))
        rounds = []
        for op, fraction, share in waits:
            size = share * sync.buffer_bytes
            small = sync.algorithm == "auto" and size < sync.tree_below_bytes
            if sync.mode == "allreduce" and (small or sync.algorithm == "tree"):
                rounds.append(_Round(tree, size, op, fraction, REDUCES))
            else:
                factor = 2 if sync.mode == "allreduce" else 1
                rounds.append(_Round(ring, factor * size, op, fraction, REDUCES))
        return rounds

    def run(self, times: StepTimes, rng: np.random.Generator) -> SyncTimes:
        """Synchronise after (or, overlapped, during) a step's backward."""
        optimizer_s = self._compute.optimizer_s * rng.uniform(0.97, 1.03)
        finished = self._ranks(times.op_end_s[self._last])
        flows: list[tuple[Float64, Float64]] = []
        free = np.full(len(finished), -np.inf)
        for part in self._reductions:
            start, end = times.op_start_s[part.op], times.op_end_s[part.op]
            ready = np.maximum(self._ranks(start + part.fraction * (end - start)), free)
            free = self._work(part, ready, flows, rng)
        free = np.maximum(free, finished)
        for part in self._closings:
            if part.kind == DP:  # the norm is that of the whole model: nobody goes on before everybody is there
                free = np.full_like(free, free.max())
            free = self._work(part, free, flows, rng)
        stepped = free + optimizer_s
        gathered = first = stepped
        for number, part in enumerate(self._gathers):
            gathered = self._work(part, gathered, flows, rng)
            first = gathered if number == 0 else first
        complete = self._lanes(gathered)
        following = self._lanes(first) if self._sync.overlap else complete
        starts, ends = ([flow[side] for flow in flows] or [np.empty(0)] for side in (0, 1))
        return SyncTimes(np.concatenate(starts), np.concatenate(ends), following, complete)

    @staticmethod
    def _work(part: _Round, ready: Float64, flows: list[tuple[Float64, Float64]], rng: np.random.Generator) -> Float64:
        start, end, through = part.collective.run(part.size, ready, rng)
        flows.append((start, end))
        return through

    def _ranks(self, lane_s: Float64) -> Float64:
        """Repeat float64[stages, lanes] for each tensor lane: float64[ranks]."""
        return np.repeat(lane_s.reshape(-1), self._grid.tp)

    def _lanes(self, rank_s: Float64) -> Float64:
        """Return when the last tensor lane is there: float64[stages, lanes]."""
        return np.asarray(rank_s.reshape(self._grid.stages, self._grid.lanes, self._grid.tp).max(axis=2))


def last_producers(sync: GradientSync, program: Program, stages: int) -> tuple[Int64, Float64]:
    """Return the operation of each stage that yields each bucket, int64[stages, buckets], and how far in, float64.

    Without overlap all come with the stage's last operation. With it, buckets follow the last backward of each model
    chunk (of the weights where the backward is split), last chunk first.
    """
    last = np.array([np.flatnonzero(program.stage == stage)[-1] for stage in range(stages)])
    if not sync.overlap:
        return np.repeat(last[:, None], sync.buckets, axis=1), np.ones(sync.buckets)
    chunks = int(program.chunk.max()) + 1
    chunk_of = chunks - 1 - np.arange(sync.buckets) * chunks // sync.buckets
    producing = program.kind == program.kind.max()
    ops = np.empty((stages, sync.buckets), dtype=np.int64)
    fraction = np.empty(sync.buckets)
    for chunk in np.unique(chunk_of).tolist():
        rows = np.flatnonzero(chunk_of == chunk)
        fraction[rows] = np.arange(1, len(rows) + 1) / len(rows)
        for stage in range(stages):
            ops[stage, rows] = np.flatnonzero((program.stage == stage) & producing & (program.chunk == chunk))[-1]
    return ops, fraction
