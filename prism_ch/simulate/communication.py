"""Communication between ranks, in time: collectives over groups, and traffic inside operations.

Sources: rings and double binary trees as NCCL builds them (Sanders et al. 2009, "Two-tree algorithms for full
bandwidth broadcast, reduction and scan", for the trees); expert parallelism as in GShard (Lepikhin et al. 2021, section
3.2: dispatch and combine in forward and backward); ring attention (Liu et al. 2023, section 3: blocks travel while
attention is computed); tensor parallelism as in Megatron-LM (Shoeybi et al. 2019, section 3: one all-reduce a block
and direction).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from prism_ch.model.columns import Float64, Int32, Int64
from prism_ch.model.result import CP, EP, TP
from prism_ch.simulate.job import InnerTraffic, RingExit
from prism_ch.simulate.network import EFFICIENCY_SPREAD, NETWORK_LATENCY_S, Flows, FlowTimes, Links, RankGrid, Rows
from prism_ch.simulate.schedule import BACKWARD, WEIGHT, Program

#: A collective's edges begin and end within this of one another, once all its members are there.
EDGE_SPREAD_S = 200e-6
#: Flows of one exchange begin within this of one another.
_START_SPREAD_S = 60e-6

#: Source, destination, share, channel.
_Edge = tuple[int, int, float, int]
_Build = Callable[[list[list[int]], int], Iterator[_Edge]]


@dataclass(frozen=True, slots=True)
class Edges(Rows):
    """Directed edges between ranks that leave a server.

    `share` is the part of a member's buffer that crosses the edge: (d - 1) / d over the channels for one way round a
    ring (a reduce-scatter or an all-gather; an all-reduce goes round twice), half over the channels for an all-reduce
    up and down a pair of trees. `channel` numbers ring or tree.
    """

    src: Int64
    dst: Int64
    share: Float64
    channel: Int64
    group: Int64


def ring_edges(groups: Int64, server: Int32, channels: int, leave: RingExit, *, varied: bool = False) -> Edges:
    """Build the rings of every group, server by server.

    Hops inside a server are not listed. Parameters: `groups`, int64[groups, members], ranks; `server`, int32[ranks];
    `channels`, rings a group, raised to the largest number of members in one server, so that each member's NIC has its
    part, as NCCL does; `leave`, see GradientSync; `varied` gives each channel its own order of servers.
    """

    def rings(servers: list[list[int]], count: int) -> Iterator[_Edge]:
        members = sum(map(len, servers))
        strides = [s for s in range(1, len(servers)) if np.gcd(s, len(servers)) == 1] if varied else [1]
        for channel in range(count):
            stride = strides[channel % len(strides)]
            order = [servers[i * stride % len(servers)] for i in range(len(servers))]
            for here, there in zip(order, order[1:] + order[:1], strict=True):
                leaving = here[(channel if leave == "rail" else channel - 1) % len(here)]
                yield leaving, there[channel % len(there)], (members - 1) / members / count, channel

    return _edges(groups, server, channels, rings)


def tree_edges(groups: Int64, server: Int32, channels: int) -> Edges:
    """Build a pair of binary trees a channel over the servers of every group.

    Parameters as for `ring_edges`. Each tree reduces half the buffer upwards and spreads it downwards; a server that is
    inside one tree is a leaf of the other.
    """

    def trees(servers: list[list[int]], count: int) -> Iterator[_Edge]:
        branches = list(_branches(0, len(servers) - 1, None))
        for tree in range(2 * count):
            channel, shift = divmod(tree, 2)
            for branch in branches:
                ends = (servers[(place + shift) % len(servers)] for place in branch)
                child, parent = (members[channel % len(members)] for members in ends)
                yield child, parent, 0.5 / count, tree
                yield parent, child, 0.5 / count, tree

    return _edges(groups, server, channels, trees)


def _branches(low: int, high: int, parent: int | None) -> Iterator[tuple[int, int]]:
    """Yield (child, parent) of the balanced in-order tree over low..high."""
    if low > high:
        return
    root = (low + high) // 2
    if parent is not None:
        yield root, parent
    yield from _branches(low, root - 1, root)
    yield from _branches(root + 1, high, root)


def _edges(groups: Int64, server: Int32, channels: int, build: _Build) -> Edges:
    """Collect the edges of all groups; `build` takes ranks by server, and channels."""
    rows: list[tuple[int, int, float, int, int]] = []
    for number, members in enumerate(groups.tolist()):
        by_server: dict[int, list[int]] = {}
        for rank in members:
            by_server.setdefault(int(server[rank]), []).append(rank)
        if len(by_server) > 1:
            count = max(channels, *map(len, by_server.values()))
            rows += [(*edge, number) for edge in build(list(by_server.values()), count)]
    columns = np.array(rows, dtype=np.float64).reshape(-1, 5).T
    src, dst, channel, group = (columns[place].astype(np.int64) for place in (0, 1, 3, 4))
    return Edges(src, dst, columns[2].copy(), channel, group)


class Collective:
    """Groups of ranks with their edges, in time.

    Every rank of the groups is in exactly one. An `eager` flow begins as soon as both ends of its edge are there and
    lasts until the whole group is through; any other begins when the whole group is there. A collective takes `passes`
    times as long as its longest edge.
    """

    def __init__(
        self, groups: Int64, edges: Edges, grid: RankGrid, links: Links, *, eager: bool = True, passes: float = 1.0
    ) -> None:
        self.edges, self._eager = edges, eager
        self._src, self._dst = grid.endpoint[edges.src], grid.endpoint[edges.dst]
        self._groups, self._links = groups, links
        self._byte_s = edges.share * links.byte_s(self._src, self._dst, grid.share) * passes

    def plan(self, kind: int, role: int) -> Flows:
        """Return the flows of one run; bytes are those of the run."""
        return Flows.of(self._src, self._dst, 0, kind=kind, role=role, queue=self.edges.channel)

    def begins(self, ready_s: Float64) -> Float64:
        """Return when each rank's group begins, float64[ranks]; `ready_s` for ranks in no group."""
        begin = ready_s.copy()
        begin[self._groups] = ready_s[self._groups].max(axis=1)[:, None]
        return begin

    def run(self, size: float, ready_s: Float64, rng: np.random.Generator) -> tuple[FlowTimes, Float64]:
        """Run once over buffers of `size` bytes.

        A group begins when its last member is ready; `ready_s`: float64[ranks]. Returns the edges' flows, each of at
        least a byte, and when each rank is through, float64[ranks] (`ready_s` for ranks in no group).
        """
        edges = self.edges
        begin = ready_s[self._groups].max(axis=1)
        scatter = rng.uniform(1 - EFFICIENCY_SPREAD, 1 + EFFICIENCY_SPREAD, len(edges))
        edge_s = (
            size
            * self._byte_s
            * scatter
            * self._links.slowdown(self._src, self._dst, begin[edges.group], edges.channel)
        )
        longest = np.full(len(self._groups), size * self._links.inside_byte_s)
        np.maximum.at(longest, edges.group, edge_s)
        end = begin + NETWORK_LATENCY_S * self._groups.shape[1] + longest
        early, late = rng.uniform(0.0, 1.0, (2, len(edges)))
        spread = np.minimum(EDGE_SPREAD_S, 0.02 * longest[edges.group])
        there = np.maximum(ready_s[edges.src], ready_s[edges.dst]) if self._eager else begin[edges.group]
        through = ready_s.copy()
        through[self._groups] = end[:, None]
        payload = np.maximum(np.rint(size * edges.share), 1).astype(np.int64)
        return FlowTimes(there + early * spread, end[edges.group] - late * spread, payload), through


class Exchange:
    """One kind of traffic inside operations, over groups of the ranks of one stage.

    A pair is an ordered pair of ranks of one group. Its traffic may be carried by the pair of NICs that its rail allows
    (`InnerTraffic.rail_aligned`), together with that of other pairs: the first of those stands for all.
    """

    def __init__(self, kind: int, traffic: InnerTraffic, grid: RankGrid, links: Links, program: Program) -> None:
        self.kind, self.traffic, self._grid, self._links, self._program = kind, traffic, grid, links, program
        groups = grid.communicators(kind)
        self._groups = groups[: len(groups) // grid.stages]
        members = self._groups.shape[1]
        in_a_server = int((grid.server[self._groups[0]] == grid.server[groups[0, 0]]).sum()) if kind == TP else 1
        if kind == EP:  # every member with every other
            a, b = np.nonzero(~np.eye(members, dtype=bool))
        else:  # a ring over members or, if a server has several, one a rail over servers
            a = np.arange(members)
            b = np.roll(a, -in_a_server if members % in_a_server == 0 else -1)
        self._src, self._dst = self._groups[:, a].reshape(-1), self._groups[:, b].reshape(-1)
        self._way_back = _reversed(self._src, self._dst) if kind == EP else np.arange(len(self._src))
        self._pair_bytes = {
            EP: traffic.payload_bytes / members,  # a share of its tokens
            CP: traffic.payload_bytes * (members - 1.0),  # all foreign blocks
            TP: traffic.payload_bytes * 2.0 * (members - 1) / members / in_a_server,  # its part of an all-reduce
        }[kind]
        ranks = grid.lanes * grid.tp
        self._group_of = np.zeros(ranks, dtype=np.int64)
        self._group_of[self._groups] = np.arange(len(self._groups))[:, None]
        first = np.arange(grid.stages)[:, None] * ranks
        src, dst = self._src + first, self._dst + first
        carrier = _carriers(src, dst, grid) if kind == EP and traffic.rail_aligned else dst
        self._leader = _leaders(src, carrier)
        self._src_endpoint, self._dst_endpoint, self._carrier_endpoint = grid.endpoint[np.stack([src, dst, carrier])]
        self._byte_s = links.byte_s(self._src_endpoint, self._dst_endpoint, grid.share)
        self._sends, self._receives = ((side[:, None] == np.arange(ranks)) * 1.0 for side in (self._src, self._dst))

    def plan(self) -> Flows:
        """Return the flows of a step; bytes are those of each step's own draw.

        Operations that exchange nothing, and pairs whose traffic another carries, have flows that go nowhere: from an
        endpoint to itself.
        """
        stage = self._program.stage
        leads = (self._leader == np.arange(len(self._src)))[stage] & (self._program.kind != WEIGHT)[:, None]
        src = self._src_endpoint[stage]
        dst = np.where(leads, self._carrier_endpoint[stage], src)
        src, dst = (np.repeat(side[:, None, :], self.traffic.bursts, axis=1) for side in (src, dst))
        return Flows.of(src, dst, 0, kind=self.kind)

    def draw(self, rng: np.random.Generator) -> FlowTimes:
        """Draw what a step routes where; columns are [operations, bursts, pairs], times not known yet.

        A microbatch's forward and backward route alike, transposed on the way back.
        """
        program, bursts, pairs, spread = self._program, self.traffic.bursts, len(self._src), self.traffic.spread
        operation = (program.stage, program.microbatch, program.chunk)
        sizes = [int(column.max()) + 1 for column in operation]
        shape = (int(np.prod(sizes)), -(-bursts // 2), pairs)
        there = rng.lognormal(-0.5 * spread**2, spread, shape) if spread else np.ones(shape)
        both = np.stack([there, there[:, :, self._way_back]], axis=2).reshape(shape[0], -1, pairs)[:, :bursts]
        factor = np.where(program.kind == BACKWARD, self.traffic.backward_ratio, 1.0)
        routed = both[np.ravel_multi_index(operation, sizes)]
        payload = np.maximum(np.rint(routed * self._pair_bytes * factor[:, None, None]), 1).astype(np.int64)
        return FlowTimes(np.full(payload.shape, np.nan), np.full(payload.shape, np.nan), payload)

    def run(self, rows: Int64, burst: int, ready_s: Float64, times: FlowTimes, rng: np.random.Generator) -> Float64:
        """Exchange once in each of some operations; return when each lane is through.

        Parameters: `rows`, int64[k], operations, at most one of a stage; `ready_s`, float64[k, lanes]; flows are
        written into `times`.
        """
        stage, group = self._program.stage[rows], self._group_of[self._src]
        rank_ready = np.repeat(ready_s, self._grid.tp, axis=1)
        begin = rank_ready[:, self._groups].max(axis=2)
        slowdown = self._links.slowdown(self._src_endpoint[stage], self._dst_endpoint[stage], begin[:, group])
        pair_s = times.payload_bytes[rows, burst] * self._byte_s[stage] * slowdown
        rank_s = np.maximum(pair_s @ self._sends, pair_s @ self._receives)
        took = NETWORK_LATENCY_S + rank_s[:, self._groups].max(axis=2)
        end = begin + took
        early, late = rng.uniform(0.0, 1.0, (2, len(rows), len(group)))
        spread = np.minimum(_START_SPREAD_S, 0.1 * took[:, group])
        both_ready = np.maximum(rank_ready[:, self._src], rank_ready[:, self._dst])
        times.start_s[rows, burst] = both_ready + early * spread
        slack = (0.3 if self.kind == EP else 0.02) * took[:, group]
        times.end_s[rows, burst] = end[:, group] - late * slack
        return np.asarray(end[:, self._group_of].reshape(*ready_s.shape, self._grid.tp).max(axis=2))

    def flows(self, times: FlowTimes) -> FlowTimes:
        """Return the plan's flows; a pair's bytes go to the one that carries it."""
        carried = np.zeros_like(times.payload_bytes)
        operation, burst = (np.arange(count) for count in carried.shape[:2])
        flow = (operation[:, None, None], burst[:, None], self._leader[self._program.stage][:, None, :])
        np.add.at(carried, flow, times.payload_bytes)
        return FlowTimes(times.start_s, times.end_s, carried).flat()


def _reversed(src: Int64, dst: Int64) -> Int64:
    """Return, for each pair, the row of the pair the other way round."""
    row = np.empty(len(src), dtype=np.int64)
    row[np.lexsort((src, dst))] = np.lexsort((dst, src))
    return row


def _carriers(src: Int64, dst: Int64, grid: RankGrid) -> Int64:
    """Return the rank on the sender's rail in the receiver's server, or the receiver."""
    rank_of = np.full(int(grid.gpu.max()) + grid.server_gpus, -1)
    rank_of[grid.gpu] = np.arange(len(grid.gpu))
    carrier = rank_of[grid.server[dst] * grid.server_gpus + grid.gpu[src] % grid.server_gpus]
    return np.where(carrier < 0, dst, carrier)


def _leaders(src: Int64, carrier: Int64) -> Int64:
    """Return, stage by stage, the first pair with the same sender and carrier."""
    leader = np.empty_like(src)
    for stage, key in enumerate(src * (carrier.max() + 1) + carrier):
        _, first, which = np.unique(key, return_index=True, return_inverse=True)
        leader[stage] = first[which]
    return leader
