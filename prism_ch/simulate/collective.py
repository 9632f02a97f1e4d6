"""Collectives over groups of ranks: who sends what share of a buffer to whom, and how long that takes.

Sources: rings and double binary trees as NCCL builds them (Sanders et al. 2009, "Two-tree algorithms for full
bandwidth broadcast, reduction and scan", for the trees).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from prism_ch.model.columns import Float64, Int32, Int64
from prism_ch.simulate.link import EFFICIENCY_SPREAD, NETWORK_LATENCY_S, Links
from prism_ch.simulate.ranks import RankGrid
from prism_ch.simulate.workload import RingExit

#: A collective's edges begin and end within this of one another, once all its members are there.
EDGE_SPREAD_S = 200e-6

_Edge = tuple[int, int, float, int]


@dataclass(frozen=True, slots=True)
class Edges:
    """Directed edges between ranks that leave a server.

    `share` is the part of a member's buffer that crosses the edge: (d - 1) / d over the channels for one way round a
    ring (a reduce-scatter or an all-gather; an all-reduce goes round twice), half over the channels for an all-reduce
    up and down a pair of trees. `channel` numbers ring or tree. A collective takes `passes` times as long as its
    longest edge.
    """

    src: Int64
    dst: Int64
    group: Int64
    share: Float64
    channel: Int64
    passes: float

    def __len__(self) -> int:
        """Count the edges."""
        return len(self.src)


def ring_edges(groups: Int64, server: Int32, channels: int, leave: RingExit, *, varied: bool = False) -> Edges:
    """Build the rings of every group.

    Parameters: `groups`, int64[groups, members], ranks; `server`, int32[ranks]; `channels`, rings a group, raised to
    the largest number of members in one server, so that each member's NIC has its part, as NCCL does; `leave`, see
    GradientSync; `varied` gives each channel its own order of servers. A ring runs server by server; hops inside a
    server are not listed.
    """
    return _edges(groups, lambda members: _rings(members, server, channels, leave, varied=varied), passes=1.0)


def tree_edges(groups: Int64, server: Int32, channels: int) -> Edges:
    """Build a pair of binary trees a channel over the servers of every group; parameters as for `ring_edges`.

    Each tree reduces half the buffer upwards and spreads it downwards; a server that is inside one tree is a leaf of
    the other.
    """
    return _edges(groups, lambda members: _trees(members, server, channels), passes=3.0)


def _edges(groups: Int64, build: Callable[[list[int]], Iterator[_Edge]], passes: float) -> Edges:
    rows = [(*edge, number) for number, members in enumerate(groups.tolist()) for edge in build(members)]
    columns = np.array(rows, dtype=np.float64).reshape(-1, 5).T
    src, dst, channel, group = (columns[i].astype(np.int64) for i in (0, 1, 3, 4))
    return Edges(src, dst, group, columns[2].copy(), channel, passes)


def _by_server(members: list[int], server: Int32) -> list[list[int]]:
    stops: dict[int, list[int]] = {}
    for rank in members:
        stops.setdefault(int(server[rank]), []).append(rank)
    return list(stops.values())


def _rings(members: list[int], server: Int32, channels: int, leave: RingExit, *, varied: bool) -> Iterator[_Edge]:
    """Yield (src, dst, share, channel) of one group's rings."""
    stops = _by_server(members, server)
    if len(stops) < 2:
        return
    rings = max(channels, *(len(stop) for stop in stops))
    share = (len(members) - 1) / len(members) / rings
    strides = [s for s in range(1, len(stops)) if np.gcd(s, len(stops)) == 1] if varied else [1]
    for channel in range(rings):
        stride = strides[channel % len(strides)]
        order = [stops[i * stride % len(stops)] for i in range(len(stops))]
        for here, there in zip(order, order[1:] + order[:1], strict=True):
            exit_index = channel if leave == "rail" else channel - 1
            yield here[exit_index % len(here)], there[channel % len(there)], share, channel


def _trees(members: list[int], server: Int32, channels: int) -> Iterator[_Edge]:
    """Yield (src, dst, share, channel) of one group's trees, both directions of every branch."""
    stops = _by_server(members, server)
    if len(stops) < 2:
        return
    count = max(channels, *(len(stop) for stop in stops))
    for channel in range(count):
        for shift in (0, 1):
            for child, parent in _branches(0, len(stops) - 1, None):
                a, b = (stops[(i + shift) % len(stops)] for i in (child, parent))
                low, high = a[channel % len(a)], b[channel % len(b)]
                yield low, high, 0.5 / count, 2 * channel + shift
                yield high, low, 0.5 / count, 2 * channel + shift


def _branches(low: int, high: int, parent: int | None) -> Iterator[tuple[int, int]]:
    """Yield (child, parent) of the balanced in-order tree over low..high: every second place is a leaf."""
    if low > high:
        return
    root = (low + high) // 2
    if parent is not None:
        yield root, parent
    yield from _branches(low, root - 1, root)
    yield from _branches(root + 1, high, root)


class Collective:
    """Groups of ranks with their edges, in time; every rank of the groups is in exactly one.

    Where it is `eager`, a flow begins as soon as both ends of its edge are there and lasts until the whole group is
    through; otherwise it begins when the whole group is there.
    """

    def __init__(self, groups: Int64, edges: Edges, grid: RankGrid, links: Links, *, eager: bool = True) -> None:
        self.edges, self._eager = edges, eager
        self.src: Int32 = grid.endpoint[edges.src]
        self.dst: Int32 = grid.endpoint[edges.dst]
        self._groups, self._links = groups, links
        self._byte_s = edges.share * links.byte_s(self.src, self.dst, grid.share) * edges.passes
        self._inside_s = links.inside_byte_s

    def payload(self, size: float) -> Int64:
        """Return what each edge carries of buffers of `size` bytes, int64[edges], at least a byte."""
        return np.maximum(np.rint(size * self.edges.share), 1).astype(np.int64)

    def run(self, size: float, ready_s: Float64, rng: np.random.Generator) -> tuple[Float64, Float64, Float64]:
        """Run once over buffers of `size` bytes: a group begins when its last member is ready.

        `ready_s`: float64[ranks]. Returns start and end of each edge's flow, float64[edges], and when each rank is
        through, float64[ranks] (`ready_s` where it is in no group).
        """
        edges = self.edges
        begin = ready_s[self._groups].max(axis=1)
        scatter = rng.uniform(1 - EFFICIENCY_SPREAD, 1 + EFFICIENCY_SPREAD, len(edges))
        edge_s = size * self._byte_s * scatter
        if not self._links.healthy:
            edge_s = edge_s * self._links.slowdown(self.src, self.dst, begin[edges.group])
        longest = np.full(len(self._groups), size * self._inside_s)
        np.maximum.at(longest, edges.group, edge_s)
        end = begin + NETWORK_LATENCY_S * self._groups.shape[1] + longest
        early, late = rng.uniform(0.0, 1.0, (2, len(edges)))
        spread = np.minimum(EDGE_SPREAD_S, 0.02 * longest[edges.group])
        there = np.maximum(ready_s[edges.src], ready_s[edges.dst]) if self._eager else begin[edges.group]
        through = ready_s.copy()
        through[self._groups] = end[:, None]
        return there + early * spread, end[edges.group] - late * spread, through
