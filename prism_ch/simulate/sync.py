"""Gradient synchronisation in time: rings over the replicas of a stage, bucket by bucket, then the optimizer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.model.columns import Float64, Int32, Int64
from prism_ch.simulate.collective import Edges, ring_edges
from prism_ch.simulate.link import EFFICIENCY_SPREAD, NETWORK_LATENCY_S, Links
from prism_ch.simulate.pipeline import StepTimes
from prism_ch.simulate.ranks import RankGrid
from prism_ch.simulate.scenario import Compute, GradientSync
from prism_ch.simulate.schedule import FORWARD, Program
from prism_ch.simulate.transfers import GATHERS, REDUCES

#: A ring's edges begin and end within this of one another, once all its members are there.
EDGE_SPREAD_S = 200e-6
#: Payload of a control all-reduce (gradient norm, overflow flag).
CONTROL_BYTES = 8


@dataclass(frozen=True, slots=True)
class SyncTimes:
    """What one step's synchronisation did, seconds since the recording's start.

    Flows float64[rounds, edges]: a round is a bucket's collective. `next_s`, float64[stages, lanes], is when the next
    step may begin; `hold_s` the same shape, when its parameters are complete.
    """

    start_s: Float64
    end_s: Float64
    next_s: Float64
    hold_s: Float64


class GradientEngine:
    """Works one job's synchronisation; holds rings, buckets and their sizes."""

    def __init__(self, sync: GradientSync, compute: Compute, grid: RankGrid, links: Links, program: Program) -> None:
        self._sync, self._compute, self._grid, self._links = sync, compute, grid, links
        members = grid.numbers().transpose(0, 2, 1).reshape(grid.stages * grid.tp, grid.lanes)
        self.edges: Edges = ring_edges(members, grid.server.astype(np.int64), sync.channels, sync.exit)
        self.src: Int32 = grid.endpoint[self.edges.src]
        self.dst: Int32 = grid.endpoint[self.edges.dst]
        self._groups = len(members)
        self._byte_s = self.edges.share * links.byte_s(self.src, self.dst, grid.share)
        self._inside_s = links.byte_s(np.zeros(1, dtype=int), np.zeros(1, dtype=int))[0]
        self._active = sync.mode != "none" and grid.lanes > 1
        self._sharded = sync.mode == "distributed_optimizer"
        self._bucket_op, self._bucket_fraction = _buckets(sync, program, grid.stages)
        self.round_bytes, self.round_role = self._rounds()

    def _rounds(self) -> tuple[Float64, Int64]:
        """Return, for each round, the bytes that go once round the ring (before `share`) and the role of its flows."""
        sync = self._sync
        if not self._active:
            return np.empty(0), np.empty(0, dtype=np.int64)
        bucket = np.full(sync.buckets, sync.buffer_bytes / sync.buckets)
        rounds = [(bucket if self._sharded else 2 * bucket, REDUCES)]
        if sync.grad_norm:
            rounds.append((np.array([float(CONTROL_BYTES)]), REDUCES))
        if self._sharded:
            rounds.append((bucket * sync.gather_ratio, GATHERS))
        sizes = np.concatenate([size for size, _ in rounds])
        return sizes, np.concatenate([np.full(len(size), role) for size, role in rounds])

    def edge_bytes(self) -> Int64:
        """Return the payload of every flow of a step, int64[rounds, edges]."""
        sizes = np.rint(self.round_bytes[:, None] * self.edges.share).astype(np.int64)
        return np.maximum(sizes, 1)

    def run(self, times: StepTimes, rng: np.random.Generator) -> SyncTimes:
        """Synchronise after (or, overlapped, during) a step's backward."""
        grid, sync = self._grid, self._sync
        starts, ends = (
            np.empty((len(self.round_bytes), len(self.edges))),
            np.empty((len(self.round_bytes), len(self.edges))),
        )
        optimizer_s = self._compute.optimizer_s * rng.uniform(0.97, 1.03)
        finished = self._ready(times, np.full(grid.stages, -1), 1.0)
        if not self._active:
            done = finished.max() if sync.grad_norm else finished
            following = np.broadcast_to(done + optimizer_s, finished.shape).copy()
            return SyncTimes(starts, ends, following, following)
        free = np.full(self._groups, -np.inf)
        for bucket in range(sync.buckets):
            ready = self._ready(times, self._bucket_op[:, bucket], float(self._bucket_fraction[bucket]))
            free = self._ring(bucket, ready, free, (starts, ends), rng)
        row = sync.buckets
        if sync.grad_norm:
            everyone = np.full_like(finished, free.max())
            free = self._ring(row, everyone, free, (starts, ends), rng)
            row += 1
        stepped = np.maximum(self._by_lane(free), finished) + optimizer_s
        if not self._sharded:
            return SyncTimes(starts, ends, stepped, stepped)
        gathered = np.full(self._groups, -np.inf)
        first = stepped
        for bucket in range(sync.buckets):
            gathered = self._ring(row + bucket, stepped, gathered, (starts, ends), rng)
            first = np.maximum(stepped, self._by_lane(gathered)) if bucket == 0 else first
        complete = np.maximum(stepped, self._by_lane(gathered))
        return SyncTimes(starts, ends, first if sync.overlap else complete, complete)

    def _ready(self, times: StepTimes, op: Int64, fraction: float) -> Float64:
        """Return when each tensor group has gone through `fraction` of an operation of its stage (-1: its last)."""
        operations = np.where(op < 0, self._bucket_op[:, -1], op)
        start, end = times.op_start_s[operations], times.op_end_s[operations]
        return np.asarray(start + fraction * (end - start), dtype=np.float64)

    def _by_lane(self, group_s: Float64) -> Float64:
        """Return, for each tensor group, when the last of its lanes' rings is done: float64[stages, lanes]."""
        stage_s = group_s.reshape(self._grid.stages, self._grid.tp).max(axis=1)
        return np.repeat(stage_s[:, None], self._grid.lanes, axis=1)

    def _ring(
        self, row: int, ready: Float64, free: Float64, out: tuple[Float64, Float64], rng: np.random.Generator
    ) -> Float64:
        """Send one round: write its flows' times into row `row` of `out` and return when each group is through."""
        size = self.round_bytes[row]
        begin = np.maximum(np.repeat(ready.max(axis=1), self._grid.tp), free)
        group = self.edges.group
        scatter = rng.uniform(1 - EFFICIENCY_SPREAD, 1 + EFFICIENCY_SPREAD, len(self.edges))
        edge_s = size * self._byte_s * scatter
        if not self._links.healthy:
            edge_s = edge_s * self._links.slowdown(self.src, self.dst, begin[group])
        longest = np.full(self._groups, size * self._inside_s)
        np.maximum.at(longest, group, edge_s)
        end = np.asarray(begin + NETWORK_LATENCY_S * self._grid.lanes + longest, dtype=np.float64)
        rank_ready = np.repeat(ready.reshape(-1), self._grid.tp)
        early, late = rng.uniform(0.0, 1.0, (2, len(self.edges)))
        both_there = np.maximum(rank_ready[self.edges.src], rank_ready[self.edges.dst])
        spread = np.minimum(EDGE_SPREAD_S, 0.02 * longest[group])
        out[0][row] = np.maximum(both_there, free[group]) + early * spread
        out[1][row] = end[group] - late * spread
        return end


def _buckets(sync: GradientSync, program: Program, stages: int) -> tuple[Int64, Float64]:
    """Return the operation of each stage that yields each bucket, int64[stages, buckets], and how far in, float64.

    Without overlap all come with the stage's last operation. With it, buckets follow the last backward of each model
    chunk (of the weights where the backward is split), last chunk first.
    """
    last = np.array([np.flatnonzero(program.stage == stage)[-1] for stage in range(stages)])
    if not sync.overlap:
        return np.repeat(last[:, None], sync.buckets, axis=1), np.ones(sync.buckets)
    chunks = int(program.chunk.max()) + 1
    chunk_of = chunks - 1 - np.arange(sync.buckets) * chunks // sync.buckets
    ops = np.empty((stages, sync.buckets), dtype=np.int64)
    producing = (
        program.kind == program.kind.max() if program.kind.max() > FORWARD else np.ones_like(program.kind, dtype=bool)
    )
    for stage in range(stages):
        for bucket, chunk in enumerate(chunk_of.tolist()):
            ops[stage, bucket] = np.flatnonzero((program.stage == stage) & producing & (program.chunk == chunk))[-1]
    fraction = np.empty(sync.buckets)
    for chunk in np.unique(chunk_of):
        rows = np.flatnonzero(chunk_of == chunk)
        fraction[rows] = np.arange(1, len(rows) + 1) / len(rows)
    return ops, fraction
