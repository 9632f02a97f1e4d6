"""Stage order: which pipeline stage comes first, and the groups of a job.

A step begins with activations on their way from the first stage to the last; gradients come back later. So on every
link the first message of a step points forward.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np

from prism_ch.core.arrays import distinct, is_among, order_by, run_lengths, run_places, run_starts
from prism_ch.core.graph import components, distance_from_end, levels
from prism_ch.core.pairs import PairIndex, links_of
from prism_ch.core.search import group_search
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.job import Division, GroupSet, PairKinds
from prism_ch.model.result import DP, INNER, PP, Group
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic

#: Links between numbered groups: where each comes from and leads, int32[links], and its votes, float64[links].
_Links: TypeAlias = tuple[Int32, Int32, Float64]


def order(traffic: Traffic, kinds: PairKinds, division: Division, topology: Topology) -> GroupSet:
    """Give the endpoints of a job their pipeline stages and list its groups.

    Parameters: `traffic`, the job's bursts; `kinds`, of its pairs; `division`, its steps on every member; `topology`,
    whose rows the endpoints are.
    Without a step to look at, or without pipeline traffic, all endpoints are of stage 0.
    """
    # Numbered among themselves: of a large cluster a job has few endpoints.
    endpoints = distinct(np.concatenate([division.endpoints, traffic.pair_src, traffic.pair_dst]))
    src, dst, members = (_places(side, endpoints) for side in (traffic.pair_src, traffic.pair_dst, division.endpoints))
    traffic, division = replace(traffic, pair_src=src, pair_dst=dst), replace(division, endpoints=members)
    size = len(endpoints)
    inner = (kind for kind in INNER if (kinds.burst == kind).any())
    typed = {kind: kinds.of_kind(traffic, kind) for kind in (DP, PP, *inner)}
    labels = {kind: components(size, bursts.pair_src, bursts.pair_dst) for kind, bursts in typed.items()}
    stage = np.zeros(size, dtype=np.int32)
    pipeline = typed[PP].take(~_exchanged(typed[PP]))
    if len(pipeline):
        stage = _stages(*_first_messages(pipeline, division), labels[DP], endpoints, topology)
    return _groups(members, stage, labels, endpoints)


def _places(endpoint: Int32, among: Int32) -> Int32:
    return np.searchsorted(among, endpoint).astype(np.int32)


def number_after(groups: GroupSet, earlier: tuple[Group, ...]) -> GroupSet:
    """Give an attempt's groups numbers after those of earlier attempts.

    Parameters: `earlier`, numbered from 0 without a gap. A group that there was before keeps its number.
    """
    number = {(group.kind, group.members): group.group_id for group in earlier}
    count = len(earlier)
    renumbered = []
    for group in groups.groups:
        known = number.get((group.kind, group.members))
        renumbered.append(replace(group, group_id=count if known is None else known))
        count += known is None
    alone = count + np.arange(len(groups.endpoints))
    new = np.concatenate([[group.group_id for group in renumbered], alone]).astype(np.int32)
    return replace(groups, dp_group=new[groups.dp_group], groups=tuple(renumbered))


def add_groups(earlier: tuple[Group, ...], groups: GroupSet) -> tuple[Group, ...]:
    """Append the groups that the next attempt adds to those of earlier ones."""
    return (*earlier, *(group for group in groups.groups if group.group_id >= len(earlier)))


def _exchanged(pipeline: Traffic) -> Bool:
    """Mask the bursts that cross one of the opposite direction, bool[n].

    No gradient has been answered before it is sent. First and last stage exchange the gradients of tied embeddings so,
    after a step's other messages. What the mask takes of activations and gradients that happen to cross is never the
    first of a step.
    """
    src, dst = pipeline.pair_src, pipeline.pair_dst
    opposite = PairIndex.of(src, dst).rows_of(dst, src)[pipeline.pair].astype(np.int32)
    last = group_search(pipeline.pair, pipeline.start_ns, np.maximum(opposite, 0), pipeline.end_ns) - 1
    meets = (last >= 0) & (pipeline.pair[last] == opposite) & (pipeline.end_ns[last] >= pipeline.start_ns)
    return np.asarray(meets, dtype=np.bool_)


def _stages(pipeline: Traffic, step: Int64, dp_label: Int32, endpoints: Int32, topology: Topology) -> Int32:
    """Return each endpoint's pipeline stage, int32[n].

    A forward link leads from one stage to the next. So stages are levels that differ by one along each, the least of
    them 0 among all that links join: some stages have no link but to the next one, where the others are in a server.
    Where servers hold several stages each, the levels are of servers.
    """
    links = _forward_links(pipeline, step, dp_label)
    inside = _stages_inside(links, dp_label, endpoints, topology)
    if inside is None:
        return _levels(pipeline, step, links, dp_label)
    server, stage, stages = inside
    src, dst, votes = links
    of_group = np.empty(int(dp_label.max()) + 1, dtype=np.int32)
    of_group[dp_label] = server
    return stages * _levels(pipeline, step, (of_group[src], of_group[dst], votes), server) + stage


def _stages_inside(
    links: _Links, dp_label: Int32, endpoints: Int32, topology: Topology
) -> tuple[Int32, Int32, int] | None:
    """Return each endpoint's server, its stage in there, and how many stages servers hold.

    Of a server with several stages the network shows what the last one sends and the first receives: those are its
    last and first endpoints. Returns int32[n] twice, or None where stages and servers are laid out otherwise.
    """
    sends, receives = is_among(dp_label, links[0]), is_among(dp_label, links[1])
    if (np.bincount(dp_label)[dp_label[sends | receives]] > 1).any():
        return None  # what has replicas in other servers fills its own
    servers, server = np.unique(topology.server[endpoints], return_inverse=True)
    slots = np.flatnonzero(is_among(topology.server, servers))
    slots = slots[order_by(topology.server[slots], topology.gpu[slots])]
    starts = run_starts(topology.server[slots])
    size = distinct(run_lengths(starts, len(slots)))
    slot = np.empty(len(topology), dtype=np.int32)
    slot[slots] = run_places(starts, len(slots))
    slot = slot[endpoints]
    width = int(slot[receives].max()) + 1
    if len(size) > 1 or size[0] % width or slot[sends].min() < size[0] - width or width == size[0]:
        return None
    return server.astype(np.int32), slot // width, int(size[0]) // width


def _levels(pipeline: Traffic, step: Int64, links: _Links, label: Int32) -> Int32:
    """Return the level of each endpoint, int32[n], from 0 in what is joined.

    Parameters: `links` between labels; `label` int32[n] of endpoints.
    """
    src, dst, votes = links
    nodes = int(label.max()) + 1
    part = components(nodes, src, dst)
    entered = np.bincount(dst, minlength=nodes) > 0
    is_ring = np.bincount(part, ~entered) == 0  # an interleaved pipeline wraps from the last stage to the first
    if is_ring.any():
        wraps = is_ring[part[dst]] & np.isin(dst, _opening_sender(pipeline, step, label))
        src, dst, votes = src[~wraps], dst[~wraps], votes[~wraps]
    level = levels(src, dst, np.ones(len(src)), votes, nodes)
    least = np.full(int(part.max()) + 1, np.inf)
    np.minimum.at(least, part, level)
    of_endpoint: Int32 = np.rint(level - least[part]).astype(np.int32)[label]
    return of_endpoint


def _first_messages(pipeline: Traffic, division: Division) -> tuple[Traffic, Int64]:
    """Return the first burst of every pair in every step, and the sender's step."""
    step = np.ones(len(pipeline), dtype=np.int64)
    if division.steps:
        # The message that begins when a step ends is of the next; but by a coarse clock one that closes it ends then.
        moment_ns = np.minimum(pipeline.start_ns + 1, pipeline.end_ns)
        step = division.step_of(division.rows_of(pipeline.src), moment_ns)
    first = run_starts(pipeline.pair, step)
    return pipeline.take(first), step[first]


def _forward_links(pipeline: Traffic, step: Int64, dp_label: Int32) -> _Links:
    """Return where each link between two groups leads in most steps, and its votes.

    Parallel replicas vote together: links between the same two data-parallel groups are one.
    """
    src, dst = dp_label[pipeline.src], dp_label[pipeline.dst]
    links = links_of(src, dst)
    replica = np.where(src < dst, pipeline.src, pipeline.dst)
    opening = _first_of_each(pipeline.start_ns, links.of_pair, replica, step)
    opening = opening[step[opening] > 0]  # what precedes the first boundary may be cut
    upward = np.where(src[opening] < dst[opening], 1, -1)
    vote = np.bincount(links.of_pair[opening], weights=upward, minlength=len(links.low)).astype(np.float64)
    first = run_starts(pipeline.pair)  # of each pair
    vote = _along_chains(*_nodes_of(links.of_pair[first], pipeline.src[first], pipeline.dst[first], dp_label), vote)
    src, dst = np.where(vote >= 0, (links.low, links.high), (links.high, links.low))
    return src, dst, np.maximum(np.abs(vote), 1)


def _nodes_of(link: Int64, src: Int32, dst: Int32, group: Int32) -> tuple[Int32, Int32]:
    """Return the nodes that each link between two groups joins, int32[links] each.

    Parameters: `link` int64[pairs], of directed pairs of endpoints `src`, `dst` int32[pairs]; `group` int32[endpoints].

    Links meet in a group only where a member has both. Of a group that talks mostly inside servers the network shows
    parts, all linked with the same neighbour, which passes nothing from one part to another.
    """
    is_upward = group[src] < group[dst]
    low, high = np.where(is_upward, src, dst), np.where(is_upward, dst, src)
    first, count = len(group), int(link.max()) + 1
    side = first + link
    node = components(first + 2 * count, np.concatenate([low, high]), np.concatenate([side, side + count]))[first:]
    return node[:count], node[count:]


def _along_chains(low: Int32, high: Int32, vote: Float64) -> Float64:
    """Let the links of each chain vote together, float64[links].

    Parameters: `vote` float64[links], above 0 for `low` to `high`. All that is passed along a chain goes one way. What
    forks or closes to a ring votes link by link.
    """
    nodes = int(max(low.max(initial=-1), high.max(initial=-1))) + 1
    label, distance = components(nodes, low, high), distance_from_end(nodes, low, high)
    forks = np.bincount(np.concatenate([low, high]), minlength=nodes) > 2
    upward = np.where(distance[low] < distance[high], 1, -1)
    chains = len(np.unique(label))
    members, links = np.bincount(label, minlength=chains), np.bincount(label[low], minlength=chains)
    is_chain = (links == members - 1) & (np.bincount(label, forks, minlength=chains) == 0)
    together = np.bincount(label[low], upward * vote, minlength=chains)
    return np.where(is_chain[label[low]], upward * together[label[low]], vote)


def _opening_sender(pipeline: Traffic, step: Int64, dp_label: Int32) -> Int64:
    """Return each ring's group that most often opens a step, int64[rings]."""
    nodes = int(dp_label.max()) + 1
    src = dp_label[pipeline.src]
    ring = components(nodes, dp_label[pipeline.pair_src], dp_label[pipeline.pair_dst])
    opening = _first_of_each(pipeline.start_ns, ring[src], step)
    votes = np.bincount(src[opening], minlength=nodes)
    top = _first_of_each(-votes, ring)
    return top[votes[top] > 0]


def _first_of_each(value: Int64, *keys: Int32 | Int64) -> Int64:
    rank = order_by(*keys, value)
    return rank[run_starts(*(key[rank] for key in keys))]


def _groups(members: Int32, stage: Int32, labels: dict[int, Int32], endpoints: Int32) -> GroupSet:
    """List the groups that `labels` join by kind, in the order of (kind, stage, members).

    Parameters: `members`, rows of `endpoints`.
    """
    found: list[tuple[int, int, tuple[int, ...]]] = []
    for kind, label in labels.items():
        ranked = members[np.lexsort((members, stage[members], label[members]))]
        for part in np.split(ranked, np.flatnonzero(np.diff(label[ranked])) + 1):
            if len(part) > 1:
                inside = part if kind == PP else np.sort(part)
                found.append((kind, int(stage[part].min()), tuple(inside.tolist())))
    found.sort()
    number = np.full(len(stage), -1, dtype=np.int32)
    groups = []
    for group_id, (kind, at, places) in enumerate(found):
        groups.append(Group(group_id, kind, at, tuple(endpoints[list(places)].tolist())))
        if kind == DP:
            number[list(places)] = group_id
    alone = members[number[members] < 0]
    number[alone] = len(groups) + np.arange(len(alone))
    return GroupSet(endpoints[members], number[members], stage[members], tuple(groups))
