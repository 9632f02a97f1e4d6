"""Gradient synchronisation in time: reductions, closing rounds, the optimizer, gatherings of parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from prism_ch.model.columns import Bool, Float64, Int64
from prism_ch.model.result import DP, OTHER
from prism_ch.simulate.communication import Collective, ring_edges, tree_edges
from prism_ch.simulate.job import GradientSync, Job
from prism_ch.simulate.network import GATHERS, PLAIN, REDUCES, FlowTimes, Links, RankGrid
from prism_ch.simulate.pipeline import PipelineTimes
from prism_ch.simulate.rounds import Round, RoundRuns, plan_rounds
from prism_ch.simulate.schedule import FORWARD, Program
from prism_ch.simulate.waits import Waits

#: Payload of a control all-reduce (gradient norm, overflow flag).
CONTROL_BYTES = 8


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
        self._reductions: list[_Reduction] = []
        self._closings: list[Round] = []
        self._gathers: list[Round] = []
        active = sync.mode != "none" and grid.lanes > 1
        ring = ring_of(grid.communicators(DP), grid, links, sync, varied=sync.varied_rings)
        if active:
            self._reductions = list(_reductions(sync, grid, links, program, ring))
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


#: What a reduction does, the operation of each stage that it waits for, int64[stages], and how far in its gradients are
#: there.
_Reduction: TypeAlias = tuple[Round, Int64, float]


def _reductions(
    sync: GradientSync, grid: RankGrid, links: Links, program: Program, ring: Collective
) -> Iterator[_Reduction]:
    """Yield the reductions of a step in their order. Experts' gradients follow the last bucket of all others."""
    replicas, passes = grid.communicators(DP), 2 if sync.mode == "allreduce" else 1
    trees = tree_edges(replicas, grid.server, sync.channels)
    tree = Collective(replicas, trees, grid, links, eager=sync.eager, passes=3.0)  # slower than a ring
    experts: Round | None = None
    if sync.expert_bytes and grid.shape[0] > 1:
        experts = Round(ring_of(grid.expert_replicas(), grid, links, sync), passes * sync.expert_bytes, REDUCES)
    shares = sync.shares()
    for operation, done, bucket in _waits(sync, program, grid.stages):
        size = shares[bucket] * sync.buffer_bytes
        small = sync.algorithm == "auto" and size < sync.tree_below_bytes
        takes_tree = sync.mode == "allreduce" and (small or sync.algorithm == "tree")
        yield Round(tree, size, REDUCES) if takes_tree else Round(ring, passes * size, REDUCES), operation, done
        if experts is not None and bucket == sync.buckets - 1:
            yield experts, operation, done


def _waits(sync: GradientSync, program: Program, stages: int) -> Iterator[tuple[Int64, float, int]]:
    """Yield what the reduction of each bucket waits for, and the bucket.

    That is an operation of each stage, int64[stages], and how far in its gradients are there. Buckets are filled by the
    backwards of all chunks (of the weights if the backward is split), last chunk first: each waits for the last of what
    it holds. ZeRO-2 reduces them for every microbatch. Without overlap all come with the stage's last operation. With
    it, they follow the last backward that fills them.
    """
    chunks = int(program.chunk.max()) + 1
    fills = program.kind == program.kind.max()
    filled_by = chunks + -(np.arange(1, sync.buckets + 1) * chunks) // sync.buckets
    if sync.mode == "zero2":
        for operation in np.array(_operations(program, stages, fills)).T:
            filled = np.flatnonzero(filled_by == program.chunk[operation[0]]).tolist()
            for number, bucket in enumerate(filled, start=1):
                yield operation, number / len(filled), bucket
        return
    for bucket in range(sync.buckets):
        if sync.overlap:
            mates = filled_by == filled_by[bucket]
            last = _last_operations(program, stages, fills & (program.chunk == filled_by[bucket]))
            yield last, mates[: bucket + 1].sum() / mates.sum(), bucket
        else:
            yield _last_operations(program, stages, program.kind >= FORWARD), 1.0, bucket


def ring_of(groups: Int64, grid: RankGrid, links: Links, sync: GradientSync, *, varied: bool = False) -> Collective:
    """Return the collective over rings through the members of groups, int64[groups, members]."""
    edges = ring_edges(groups, grid.server, sync.channels, sync.exit, varied=varied)
    return Collective(groups, edges, grid, links, eager=sync.eager)
