"""Traffic inside an operation: experts' all-to-all, context-parallel rings, tensor groups that span servers.

Sources: expert parallelism as in GShard (Lepikhin et al. 2021, section 3.2: dispatch and combine in forward and
backward); ring attention (Liu et al. 2023, section 3: blocks travel while attention is computed); tensor parallelism
as in Megatron-LM (Shoeybi et al. 2019, section 3: one all-reduce a block and direction).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.model.columns import Bool, Float64, Int64
from prism_ch.model.result import CP, EP, TP
from prism_ch.simulate.link import NETWORK_LATENCY_S, Links
from prism_ch.simulate.ranks import RankGrid
from prism_ch.simulate.schedule import BACKWARD, WEIGHT, Program
from prism_ch.simulate.transfers import PLAIN, FlowPlan
from prism_ch.simulate.workload import InnerTraffic

#: Flows of one exchange begin within this of one another.
_START_SPREAD_S = 60e-6


@dataclass(slots=True)
class ExchangeTimes:
    """What one kind of exchange did in a step: seconds float64[operations, bursts, pairs], and as many bytes."""

    start_s: Float64
    end_s: Float64
    payload_bytes: Int64


class Exchange:
    """One kind of traffic inside operations, over groups of the ranks of one stage.

    A pair is an ordered pair of ranks of one group; its traffic may be carried by the pair of NICs that its rail allows
    (`InnerTraffic.rail_aligned`), together with that of other pairs: then the first of those stands for all.
    """

    def __init__(self, kind: int, traffic: InnerTraffic, grid: RankGrid, links: Links, program: Program) -> None:
        self.kind, self._traffic, self._links = kind, traffic, links
        groups = grid.communicators(kind)
        a_stage = groups[: len(groups) // grid.stages]
        a_server = int((grid.server[a_stage[0]] == grid.server[a_stage[0, 0]]).sum()) if kind == TP else 1
        self._pairs = _all_pairs(a_stage) if kind == EP else _ring_pairs(a_stage, a_server)
        stage_ranks = grid.lanes * grid.tp
        self._group_of = np.zeros(stage_ranks, dtype=np.int64)
        self._group_of[a_stage] = np.arange(len(a_stage))[:, None]
        self._members = a_stage
        self._lane_of = np.arange(stage_ranks) // grid.tp
        self._tp = grid.tp
        offset = np.arange(grid.stages)[:, None] * stage_ranks
        src, dst = self._pairs[:, 0] + offset, self._pairs[:, 1] + offset
        self._src_endpoint, self._dst_endpoint = grid.endpoint[src], grid.endpoint[dst]
        self._byte_s = links.byte_s(self._src_endpoint, self._dst_endpoint, grid.share)
        carrier = _carriers(src, dst, grid) if kind == EP and traffic.rail_aligned else dst
        self._leader = _leaders(src, carrier)
        self._carrier_endpoint = grid.endpoint[carrier]
        self._outgoing, self._inbound = (_incidence(self._pairs[:, side], stage_ranks) for side in (0, 1))
        self._nominal = _pair_bytes(kind, traffic, a_stage.shape[1], a_server) * np.ones(len(self._pairs))
        self._program = program
        self._key = _microbatch_keys(program)
        self._reverse = _reversed_pairs(self._pairs) if kind == EP else np.arange(len(self._pairs))
        self.keep: Bool = self._kept()

    def plan(self) -> FlowPlan:
        """Return the flows of a step; bytes are those of each step's own draw."""
        shape = (len(self._program.stage), self._traffic.bursts, len(self._pairs))
        stage = self._program.stage
        src = np.broadcast_to(self._src_endpoint[stage][:, None, :], shape)
        dst = np.broadcast_to(self._carrier_endpoint[stage][:, None, :], shape)
        nothing = np.zeros(shape, dtype=np.int64)
        return FlowPlan.of(src, dst, nothing, kind=self.kind, role=PLAIN, queue=np.zeros(1, dtype=np.int64))

    def draw(self, rng: np.random.Generator) -> ExchangeTimes:
        """Draw what a step routes where: alike in a microbatch's forward and backward, transposed on the way back."""
        bursts, pairs = self._traffic.bursts, len(self._pairs)
        shape = (int(self._key.max()) + 1, -(-bursts // 2), pairs)
        there = np.ones(shape)
        if self._traffic.spread:
            there = rng.lognormal(-0.5 * self._traffic.spread**2, self._traffic.spread, shape)
        both = np.stack([there, there[:, :, self._reverse]], axis=2).reshape(shape[0], -1, pairs)[:, :bursts]
        factor = np.where(self._program.kind == BACKWARD, self._traffic.backward_ratio, 1.0)
        payload = np.rint(both[self._key] * self._nominal * factor[:, None, None]).astype(np.int64)
        return ExchangeTimes(np.full(payload.shape, np.nan), np.full(payload.shape, np.nan), np.maximum(payload, 1))

    def run(self, rows: Int64, burst: int, ready_s: Float64, times: ExchangeTimes, rng: np.random.Generator) -> Float64:
        """Exchange once in each of some operations, at most one of a stage; return when each lane is through.

        Parameters: `rows`, int64[k], operations; `ready_s`, float64[k, lanes]; flows are written into `times`.
        """
        stage = self._program.stage[rows]
        rank_ready = ready_s[:, self._lane_of]
        begin = rank_ready[:, self._members].max(axis=2)
        pair_s = times.payload_bytes[rows, burst] * self._byte_s[stage]
        if not self._links.healthy:
            start = begin[:, self._group_of[self._pairs[:, 0]]]
            pair_s = pair_s * self._links.slowdown(self._src_endpoint[stage], self._dst_endpoint[stage], start)
        rank_s = np.maximum(pair_s @ self._outgoing, pair_s @ self._inbound)
        took = NETWORK_LATENCY_S + rank_s[:, self._members].max(axis=2)
        end = begin + took
        group = self._group_of[self._pairs[:, 0]]
        early, late = rng.uniform(0.0, 1.0, (2, len(rows), len(group)))
        spread = np.minimum(_START_SPREAD_S, 0.1 * took[:, group])
        both_there = np.maximum(rank_ready[:, self._pairs[:, 0]], rank_ready[:, self._pairs[:, 1]])
        times.start_s[rows, burst] = both_there + early * spread
        slack = (0.3 if self.kind == EP else 0.02) * took[:, group]
        times.end_s[rows, burst] = end[:, group] - late * slack
        through = end[:, self._group_of].reshape(len(rows), -1, self._tp).max(axis=2)
        return np.asarray(through, dtype=np.float64)

    def merged_bytes(self, times: ExchangeTimes) -> Int64:
        """Return each flow's bytes, those of the pairs it carries for others included."""
        merged = np.zeros_like(times.payload_bytes)
        leader = self._leader[self._program.stage]
        for burst in range(self._traffic.bursts):
            rows = np.arange(len(leader))[:, None]
            np.add.at(merged[:, burst], (rows, leader), times.payload_bytes[:, burst])
        return merged

    def _kept(self) -> Bool:
        """Mark the rows of the plan that are flows: those of operations that exchange, each carried pair once."""
        talks = self._program.kind != WEIGHT
        leads = (self._leader == np.arange(len(self._pairs)))[self._program.stage]
        kept = np.broadcast_to((leads & talks[:, None])[:, None, :], (len(talks), self._traffic.bursts, leads.shape[1]))
        return np.ascontiguousarray(kept).reshape(-1)


def _pair_bytes(kind: int, traffic: InnerTraffic, members: int, a_server: int) -> float:
    """Return what a rank sends another: a share of its tokens, all foreign blocks, or its part of an all-reduce."""
    if kind == EP:
        return traffic.payload_bytes / members
    if kind == CP:
        return traffic.payload_bytes * (members - 1.0)
    return traffic.payload_bytes * 2.0 * (members - 1) / members / a_server


def _all_pairs(groups: Int64) -> Int64:
    members = groups.shape[1]
    a, b = np.nonzero(~np.eye(members, dtype=bool))
    return np.stack([groups[:, a].reshape(-1), groups[:, b].reshape(-1)], axis=1)


def _ring_pairs(groups: Int64, a_server: int) -> Int64:
    """Return the ring of each group: over its members or, where a server has several, one a rail over servers."""
    step = a_server if groups.shape[1] % a_server == 0 else 1
    return np.stack([groups.reshape(-1), np.roll(groups, -step, axis=1).reshape(-1)], axis=1)


def _reversed_pairs(pairs: Int64) -> Int64:
    """Return, for each pair, the row of the pair the other way round."""
    row = {(src, dst): number for number, (src, dst) in enumerate(pairs.tolist())}
    return np.array([row[dst, src] for src, dst in pairs.tolist()], dtype=np.int64)


def _incidence(side: Int64, ranks: int) -> Float64:
    """Return float64[pairs, ranks], 1 where the rank is this side of the pair."""
    matrix = np.zeros((len(side), ranks))
    matrix[np.arange(len(side)), side] = 1.0
    return matrix


def _carriers(src: Int64, dst: Int64, grid: RankGrid) -> Int64:
    """Return who receives for `dst` in its server: the job's rank on the sender's rail, `dst` itself without one."""
    rank_of = np.full(int(grid.gpu.max()) + grid.server_gpus, -1)
    rank_of[grid.gpu] = np.arange(len(grid.gpu))
    carrier = rank_of[grid.server[dst] * grid.server_gpus + grid.gpu[src] % grid.server_gpus]
    return np.where(carrier < 0, dst, carrier)


def _leaders(src: Int64, carrier: Int64) -> Int64:
    """Return, stage by stage, the first pair with the same sender and carrier."""
    leader = np.empty_like(src)
    for stage in range(len(src)):
        key = src[stage] * (carrier.max() + 1) + carrier[stage]
        _, first, which = np.unique(key, return_index=True, return_inverse=True)
        leader[stage] = first[which]
    return leader


def _microbatch_keys(program: Program) -> Int64:
    """Return a number for what a forward and its backward have in common: stage, microbatch and chunk."""
    shape = tuple(int(column.max()) + 1 for column in (program.stage, program.microbatch, program.chunk))
    return np.asarray(np.ravel_multi_index((program.stage, program.microbatch, program.chunk), shape), dtype=np.int64)


#: Kinds of traffic inside operations, in the order they take place.
INNER_KINDS = (CP, TP, EP)
