"""Time per byte: how long a job's traffic takes for its bytes, by pair or, where all wait for the slowest, by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prism_ch.analysis.diagnose.network.exchanges import Exchanges, measure_exchanges
from prism_ch.analysis.diagnose.network.queue_pairs import WaysTaken
from prism_ch.analysis.diagnose.network.turns import find_turns
from prism_ch.core import robust
from prism_ch.core.arrays import order_by
from prism_ch.core.graph import components
from prism_ch.core.search import group_search
from prism_ch.core.significance import rank_correlations
from prism_ch.model.columns import Bool, Float64, Int32, Int64, UInt8
from prism_ch.model.job import Division, GroupSet, PairKinds
from prism_ch.model.params import TimePerByteParams
from prism_ch.model.result import DP, OTHER, PP
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic

#: Keeps quotients finite.
_NO_TIME_S = 1e-12


@dataclass(frozen=True, slots=True)
class TimePerByte:
    """What moves in each step: `seconds` and `payload` float64[n, k], else NaN and 0.

    A row is a directed pair of a pipeline, or a communicator, whose pairs are all as fast as its slowest link. `group`
    int32[n] is its group_id, -1 of a pair; `site` int32[n] is the same for groups of one kind and stage that share
    servers, which may be parts of one communicator, joined inside the servers. `like` int32[n] numbers those that move
    as much the same way; `steady` bool[n] are those of a kind whose volume does not depend on the data.
    What a row crosses are entries of `row`, `src`, `dst` and `way` int32[r], the last an index into `ways`, -1 where it
    is unknown: an entry for each way of a pair, or for each of its queue pairs. `blur_s` float64[n, k] is by how much
    times that are cut to ticks may make `seconds` too long or too short. `exchanges` are those inside operations.
    """

    seconds: Float64
    payload: Float64
    group: Int32
    site: Int32
    like: Int32
    steady: Bool
    row: Int32
    src: Int32
    dst: Int32
    blur_s: Float64
    exchanges: Exchanges
    way: Int32
    ways: tuple[tuple[str, ...], ...] = ()

    @property
    def log_s_per_byte(self) -> Float64:
        """Logarithms of seconds a byte, float64[n, k], NaN where nothing moved."""
        moved = (self.seconds > 0) & (self.payload > 0)
        s_per_byte = np.divide(self.seconds, self.payload, out=np.full(self.seconds.shape, np.nan), where=moved)
        return np.asarray(np.log(s_per_byte))

    def beyond(self, usual: Float64) -> Float64:
        """Return the least excess over usual times, in logarithms, float64[n, k].

        Parameters: `usual` float64[n, k], logarithms of seconds a byte. What is sent in a steady rhythm begins for a
        while at the same place between two ticks, so that all its messages seem too long, or too short.
        """
        seconds, blur_s = np.where(self.seconds > 0, self.seconds, np.nan), self.blur_s
        usual_s = np.exp(usual) * np.where(self.payload > 0, self.payload, np.nan)
        least = (seconds - blur_s) / (usual_s + blur_s)
        most = (seconds + blur_s) / np.maximum(usual_s - blur_s, _NO_TIME_S)
        times = np.where(seconds > usual_s, np.maximum(least, 1), np.minimum(most, 1))
        return np.asarray(np.log(times))


def measure_time_per_byte(
    traffic: Traffic,
    kinds: PairKinds,
    division: Division,
    groups: GroupSet,
    topology: Topology,
    params: TimePerByteParams,
    taken: WaysTaken | None = None,
) -> TimePerByte:
    """Measure the time per byte of all training traffic of an attempt in each step.

    Parameters: `taken`, the ways of the traffic's pairs, by default one unknown way each.

    A communicator moves data from when the last of its flows begins: one that has begun waits for a rank that is late,
    and takes long though the network is not slow. Its time is that of its fastest pair; a slow link delays all of them.

    1. Number the rows, and find the step that each burst belongs to.
    2. Leave out what is not about a usual step of its pair.
    3. Measure each pair, from when its data can move.
    4. Part the rows of groups with several communicators, and take the fastest pair of each row in each step.
    """
    row, number, site = _rows(traffic, kinds, groups, topology)
    steady = np.isin(kinds.kind, (DP, PP))
    site_of_pair = np.append(site, np.int32(-1))[row]
    step = _step_of_site(traffic, np.where(steady, site_of_pair, -1), division)
    kept = (row[traffic.pair] >= 0) & (kinds.burst == kinds.kind[traffic.pair]) & (step < division.steps)
    bursts, step = traffic.take(kept), step[kept]
    shape = (len(traffic.pair_src), division.steps)
    cell = bursts.pair.astype(np.int64) * division.steps + step

    def summed(weights: Float64 | Int64) -> Float64:
        return np.bincount(cell, weights=weights, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)

    payload = summed(bursts.payload)
    usual = _usual(payload)[:, None]
    # More than a usual step are several steps in one record, and less are messages of another kind.
    payload[~((payload < params.one_step * usual) & (payload > usual / params.one_step))] = 0
    usual = _usual(payload)
    amount = robust.size_classes(usual, params.size_spread)
    turns = find_turns(bursts, step, amount, site_of_pair, steady, params)
    seen = summed(turns.payload)
    # What is not seen takes as long for its bytes as what is, if that is more than a little.
    payload[seen <= params.half * payload] = 0
    times = np.divide(payload, seen, out=np.zeros(shape), where=seen > 0)
    seconds = times * summed((bursts.end_ns - turns.begun_ns) / 1e9 * (turns.payload > 0))
    blurs_s = times * summed(bursts.pair_tick_ns[bursts.pair] / 1e9 * (turns.payload > 0))
    row, number, site = _parted(_of_bulk(row, usual, params), number, site, amount, traffic)
    fastest = _fastest(row, seconds, payload, len(number))
    each = np.arange(division.steps)[None]
    site = communicators(site, seconds[fastest, each], payload[fastest, each], params)
    taken = WaysTaken.unknown(traffic) if taken is None else taken
    crossed = np.flatnonzero(row[taken.pair] >= 0)
    pairs = taken.pair[crossed]
    return TimePerByte(
        seconds[fastest, each],
        payload[fastest, each],
        number,
        site,
        _alike(row, usual, kinds.kind, traffic, topology, params),
        np.isin(np.arange(len(number)), row[steady]),
        row[pairs],
        traffic.pair_src[pairs],
        traffic.pair_dst[pairs],
        blurs_s[fastest, each],
        measure_exchanges(traffic, kinds, division, params),
        taken.way[crossed],
        taken.names,
    )


def _usual(payload: Float64) -> Float64:
    """Return a pair's median bytes in the steps with any, float64[pairs]."""
    return np.nan_to_num(robust.median(np.where(payload > 0, payload, np.nan), axis=1))


def _step_of_site(traffic: Traffic, site: Int32, division: Division) -> Int64:
    """Return the step of each burst, by when its site goes on, int64[n].

    What is compared with one another is of one step so, though some end it by an operation too soon or too late, or run
    its last one and the next together; what lasts longer than usual is of the step in which it would have ended.
    Parameters: `site` int32[pairs], -1 of pairs whose bursts are of the step that they end in, by the sender.
    """
    sender = division.rows_of(traffic.pair_src).clip(max=len(division.endpoints) - 1)
    sites = int(site.max(initial=-1)) + 1
    ends_ns = np.concatenate([_goes_on_ns(traffic, site, sender, division), division.end_ns])
    lines = Division(np.arange(len(ends_ns), dtype=np.int32), ends_ns, np.array(division.whole))
    line = np.where(site < 0, sites + sender, site)[traffic.pair]
    lasts_ns = traffic.end_ns - traffic.start_ns
    usual_ns = np.nan_to_num(robust.median_by(traffic.pair, lasts_ns.astype(np.float64), len(site)))
    middle_ns = traffic.start_ns + np.minimum(lasts_ns, usual_ns[traffic.pair].astype(np.int64)) // 2
    return lines.step_of(line, np.where(site[traffic.pair] < 0, traffic.end_ns - 1, middle_ns))


def _goes_on_ns(traffic: Traffic, site: Int32, sender: Int64, division: Division) -> Int64:
    """Return the moments between two steps on each site, int64[sites, steps].

    Parameters: `site` int32[pairs], see `_step_of_site`, and `sender` int64[pairs], rows of the division. Half of a
    site's senders have ended a step, and half begin the next one half of their usual pause later: whatever a slow rail
    still moves before that, the others wait for.
    """
    sites = int(site.max(initial=-1)) + 1
    joint = np.flatnonzero(site >= 0)
    member, number = np.unique(site[joint] * np.int64(len(division.endpoints)) + sender[joint], return_inverse=True)
    of_pair = np.full(len(site), -1, dtype=np.int32)
    of_pair[joint] = number
    rows = np.flatnonzero(of_pair[traffic.pair] >= 0)
    rows = rows[order_by(of_pair[traffic.pair[rows]], traffic.start_ns[rows])]
    begins, start_ns = of_pair[traffic.pair[rows]], traffic.start_ns[rows]
    until_ns = np.tile(division.end_ns[:1], (sites, 1))
    for one in range(sites):
        mine = np.flatnonzero(member // len(division.endpoints) == one)
        if len(mine) == 0:
            continue
        middle = (len(mine) - 1) // 2
        ended_ns = np.sort(division.end_ns[member[mine] % len(division.endpoints)], axis=0)[middle]
        asked = np.repeat(mine.astype(np.int32), len(ended_ns))
        after = group_search(begins, start_ns, asked, np.tile(ended_ns - 1, len(mine)))
        seen = (after < len(begins)) & (begins[np.minimum(after, len(begins) - 1)] == asked)
        begins_ns = np.where(seen, start_ns[np.minimum(after, len(begins) - 1)], np.iinfo(np.int64).max)
        next_ns = np.sort(begins_ns.reshape(len(mine), -1), axis=0)[middle]
        known = next_ns < np.iinfo(np.int64).max
        pause_ns = int(np.median(next_ns[known] - ended_ns[known])) if known.any() else 0
        until_ns[one] = np.where(known, np.maximum(ended_ns, next_ns - pause_ns // 2), ended_ns)
    return until_ns


def _rows(traffic: Traffic, kinds: PairKinds, groups: GroupSet, topology: Topology) -> tuple[Int32, Int32, Int32]:
    """Give pairs a row, int32[pairs], and rows a group_id and site, -1 for none."""
    row = np.full(len(traffic.pair_src), -1, dtype=np.int32)
    number: list[int] = []
    places: list[tuple[int, int, tuple[int, ...]]] = []
    for group in groups.groups:
        if group.kind in {PP, OTHER}:
            continue
        mine = (kinds.kind == group.kind) & np.isin(traffic.pair_src, group.members)
        # Whether one pair of a communicator is slow, or waits for the others, only these show. They may be of another
        # kind: a ring of context may run on pairs that carry gradients, too.
        if np.count_nonzero(mine) <= 1:
            continue
        row[mine] = len(number)
        number.append(group.group_id)
        servers = np.unique(topology.server[list(group.members)]).tolist()
        places.append((group.kind, group.pp_stage, tuple(servers)))
    pipeline = np.flatnonzero(kinds.kind == PP)
    row[pipeline] = len(number) + np.arange(len(pipeline))
    nothing = np.full(len(pipeline), -1, dtype=np.int32)
    return row, np.append(np.array(number, dtype=np.int32), nothing), np.append(_sites(places), nothing)


def _sites(places: Sequence[tuple[int, int, tuple[int, ...]]]) -> Int32:
    """Return the site of each group, int32[groups]; `places` are kinds, stages and servers.

    Each channel of a ring may visit the servers in an order of its own, so that the parts of a data-parallel
    communicator have some servers in common and not all. In others, all ranks of a server belong to one.
    """
    sites: dict[tuple[object, ...], int] = {}
    first, second = [], []
    for number, (kind, stage, servers) in enumerate(places):
        for key in [(kind, stage, one) for one in servers] if kind == DP else [(kind, stage, *servers)]:
            first.append(number)
            second.append(len(places) + sites.setdefault(key, len(sites)))
    joined = (np.array(each, dtype=np.int32) for each in (first, second))
    return components(len(places) + len(sites), *joined)[: len(places)]


def communicators(site: Int32, seconds: Float64, payload: Float64, params: TimePerByteParams) -> Int32:
    """Part sites into communicators, by which rows vary together from step to step.

    All parts of a communicator are as fast as its slowest link of a step; those of another vary by themselves.
    Rows that vary like no other show nothing: their site stays one, as does one of few steps.
    Parameters: `site` int32[n], see TimePerByte; `seconds` and `payload` float64[n, k]. Returns the sites, int32[n].
    """
    parted, sites = site.copy(), int(site.max(initial=-1)) + 1
    for one in range(sites):
        rows = np.flatnonzero(site == one)
        moved = (seconds[rows] > 0) & (payload[rows] > 0)
        steps = np.flatnonzero(moved.all(axis=0))
        if len(rows) < params.enough or len(steps) <= params.recent_steps:
            continue
        # A place that becomes slow for several of them is one change of many: ranks give it no weight.
        change = np.diff(np.log(seconds[rows][:, steps] / payload[rows][:, steps]), axis=1)
        alike = rank_correlations(change) >= params.half
        first, second = np.nonzero(alike)
        part = components(len(rows), first.astype(np.int32), second.astype(np.int32))
        if part.max() > 0 and np.bincount(part).min() > 1:
            parted[rows[part > 0]] = sites + part[part > 0] - 1
            sites += int(part.max())
    return parted


def _of_bulk(row: Int32, usual: Float64, params: TimePerByteParams) -> Int32:
    """Return the rows of pairs, -1 for those that move little, int32[pairs].

    Parameters: `usual` float64[pairs], the bytes that each moves in a step.
    Short messages, such as those of a tree beside a ring, take a round trip and wait for the last rank, however fast
    the network is.
    """
    most = np.zeros(int(row.max(initial=-1)) + 1)
    np.maximum.at(most, row[row >= 0], usual[row >= 0])
    bulk = row.copy()
    bulk[row >= 0] = np.where(usual[row >= 0] >= params.little * most[row[row >= 0]], row[row >= 0], -1)
    return bulk


def _parted(row: Int32, number: Int32, site: Int32, amount: Int32, traffic: Traffic) -> tuple[Int32, Int32, Int32]:
    """Give each communicator inside a group its own row, returned as by `_rows`.

    Gradients of experts go round among those members that hold the same experts, in other amounts than what goes round
    among all, and may be slow by themselves. Parameters: `amount` int32[pairs] numbers pairs by what they move.
    """
    pairs = np.flatnonzero(row >= 0)
    pairs = pairs[number[row[pairs]] >= 0]
    what = row[pairs].astype(np.int64) * (amount.max(initial=0) + 1) + amount[pairs]
    ends = np.concatenate([traffic.pair_src[pairs], traffic.pair_dst[pairs]]).astype(np.int64)
    _, node = np.unique(np.tile(what, 2) * (ends.max(initial=0) + 1) + ends, return_inverse=True)
    src, dst = np.split(node.astype(np.int32), 2)
    nodes = int(node.max(initial=-1)) + 1
    part = components(nodes, src, dst)
    open_ended = np.bincount(src, minlength=nodes) != np.bincount(dst, minlength=nodes)
    goes_round = np.bincount(part, weights=open_ended) == 0
    members = np.unique(np.stack([np.tile(row[pairs], 2), ends]), axis=1)[0]
    own = goes_round[part[src]] & (np.bincount(part)[part[src]] < np.bincount(members)[row[pairs]])
    parted = row.copy()
    parted[pairs[own]] = len(number) + part[src[own]]
    stands_for, place = np.unique(parted[parted >= 0], return_inverse=True)
    parted[parted >= 0] = place
    first = np.zeros(len(stands_for), dtype=np.int64)
    first[parted[row >= 0]] = row[row >= 0]
    return parted, number[first], site[first]


def _fastest(row: Int32, seconds: Float64, payload: Float64, rows: int) -> Int64:
    """Return the pair of each row that is the fastest in each step, int64[rows, k]."""
    moved = (seconds > 0) & (payload > 0)
    s_per_byte = np.divide(seconds, payload, out=np.full(seconds.shape, np.inf), where=moved)
    best = np.zeros((rows, seconds.shape[1]), dtype=np.int64)
    least = np.full((rows, seconds.shape[1]), np.inf)
    order = np.flatnonzero(row >= 0)
    np.minimum.at(least, row[order], s_per_byte[order])
    for pair in order[::-1].tolist():
        mine = s_per_byte[pair] <= least[row[pair]]
        best[row[pair], mine] = pair
    return best


def _alike(
    row: Int32, usual: Float64, kind: UInt8, traffic: Traffic, topology: Topology, params: TimePerByteParams
) -> Int32:
    """Return a class of rows by kind, bytes, pair count and leaving a leaf.

    In how many messages the bytes of a step come does not count: those of a slow row run into one another.
    """
    pairs = np.flatnonzero(row >= 0)
    rows = int(row.max(initial=-1)) + 1
    first = np.zeros(rows, dtype=np.int64)
    first[row[pairs[::-1]]] = pairs[::-1]
    many = np.bincount(row[pairs], minlength=rows)
    stays = np.ones(rows, dtype=bool)
    away = topology.leaf[traffic.pair_src[pairs]] != topology.leaf[traffic.pair_dst[pairs]]
    stays[row[pairs[away]]] = False
    way = (kind[first].astype(np.int64) * (many.max(initial=0) + 1) + many) * 2 + stays
    _, way = np.unique(way, return_inverse=True)
    classes: Int32 = robust.size_classes(usual[first], params.size_spread, way.astype(np.int32))
    return classes
