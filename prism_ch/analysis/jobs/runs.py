"""Runs: components of recurring pairs in time, and how one is told from the continuation of another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.analysis.jobs.edges import weighty_pairs
from prism_ch.analysis.jobs.presence import Presences
from prism_ch.core import robust
from prism_ch.core.arrays import order_by, run_starts
from prism_ch.core.graph import components
from prism_ch.core.robust import usual_count
from prism_ch.model.columns import Int32, Int64
from prism_ch.model.params import RecogniseParams
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic


@dataclass(slots=True)
class Run:
    """Presences that share endpoints at one time, or several such sets that are one life.

    `usual` are, of those of its `pairs` that recur in it, the quartiles of their bursts' payload. `one_way`: some
    server only sends or only receives.
    """

    first_ns: int
    last_ns: int
    endpoints: Int32
    pairs: set[int]
    usual: dict[int, tuple[float, float]]
    one_way: bool
    follows: int = -1

    def is_replaced_by(self, run: Run, meetings: Meetings, params: RecogniseParams) -> bool | None:
        """Say whether a later run is no continuation of this one; None where what has come does not yet recur.

        This was over, and all its endpoints met others before that began; or it has lost pairs that recurred while
        others have come; or pairs move other amounts.
        """
        if self.last_ns > run.first_ns:
            return False
        if meetings.are_made(self.last_ns, run.first_ns, run.endpoints, params):
            return bool(run.usual) or None
        gone, come = self.usual.keys() - run.pairs, run.pairs - self.pairs
        if gone and (come or not run.usual):
            return bool(come & run.usual.keys()) or None
        common = self.usual.keys() & run.usual.keys()
        changed = sum(_apart(self.usual[pair], run.usual[pair], params.other_work) for pair in common)
        return changed > params.little * len(common)

    def prepares(self, after: Run) -> bool:
        """Say whether this only hands out what the run after it needs: in training all data goes round."""
        return self.one_way and not after.one_way

    def take_in(self, other: Run) -> None:
        """Become one life with another run."""
        self.last_ns = max(self.last_ns, other.last_ns)
        self.pairs |= other.pairs
        self.usual |= other.usual


@dataclass(frozen=True, slots=True)
class Meetings:
    """What does not recur between endpoints of one tenant: when, int64[n], rising, and who with whom, int32[n]."""

    start_ns: Int64
    src: Int32
    dst: Int32

    def are_made(self, begin_ns: int, end_ns: int, endpoints: Int32, params: RecogniseParams) -> bool:
        """Say whether most of some endpoints meet several others in a span of time, and far more than usually do."""
        rows = slice(*np.searchsorted(self.start_ns, [begin_ns, end_ns]))
        met = distinct(np.append(self.src[rows], self.dst[rows]), np.append(self.dst[rows], self.src[rows]))[0]
        others = np.searchsorted(met, endpoints, "right") - np.searchsorted(met, endpoints, "left")
        if np.median(others) < params.repeats:
            return False
        mine = np.isin(self.src, endpoints) | np.isin(self.dst, endpoints)
        usual = usual_count(self.start_ns[mine], begin_ns, end_ns)
        return bool(np.count_nonzero(mine[rows]) > params.twice * usual)


def number_runs(present: Presences) -> Int32:
    """Join presences that share an endpoint at one time; return the number of each one's run, int32[k]."""
    source, destination = np.split(present.blocks().astype(np.int32), 2)
    return components(int(max(source.max(), destination.max())) + 1, source, destination)[source]


def read_runs(present: Presences, run: Int32, topology: Topology, params: RecogniseParams) -> list[Run]:
    """Describe the runs of presences."""
    runs = int(run.max()) + 1
    first, last = span_by(run, present.first_ns, present.last_ns, runs)
    member_run, member = distinct(np.tile(run, 2), present.ends)
    traffic, span = present.traffic, len(present.traffic.pair_src)
    key = run[present.of_burst].astype(np.int64) * span + traffic.pair
    key, place, bursts = np.unique(key, return_inverse=True, return_counts=True)
    low, high = (robust.quantile_by(place.astype(np.int32), traffic.payload, q) for q in (0.25, 0.75))
    owner, pair = np.divmod(key, span)
    src, dst = topology.server[traffic.pair_src[pair]], topology.server[traffic.pair_dst[pair]]
    often = bursts >= params.repeats
    member_edges, pair_edges = (np.searchsorted(rows, np.arange(runs + 1)) for rows in (member_run, owner))
    found = []
    for number in range(runs):
        mine = slice(int(pair_edges[number]), int(pair_edges[number + 1]))
        recur = np.flatnonzero(often[mine]) + mine.start
        found.append(
            Run(
                int(first[number]),
                int(last[number]),
                member[member_edges[number] : member_edges[number + 1]],
                set(pair[mine].tolist()),
                dict(
                    zip(pair[recur].tolist(), zip(low[recur].tolist(), high[recur].tolist(), strict=True), strict=True)
                ),
                not np.array_equal(np.unique(src[mine]), np.unique(dst[mine])),
            )
        )
    return found


def read_meetings(traffic: Traffic, topology: Topology, params: RecogniseParams) -> Meetings:
    """Read the bursts of pairs that carry no steady traffic."""
    src, dst = traffic.pair_src, traffic.pair_dst
    rare = ~weighty_pairs(traffic, topology, params) & (topology.tenant[src] == topology.tenant[dst])
    strays = traffic.keep_pairs(rare)
    order = np.argsort(strays.start_ns, kind="stable")
    return Meetings(strays.start_ns[order], strays.src[order], strays.dst[order])


def _apart(one: tuple[float, float], other: tuple[float, float], tolerance: float) -> bool:
    """Say whether two ranges have a gap between them."""
    return max(one[0], other[0]) > (1 + tolerance) * min(one[1], other[1])


def distinct(group: Int32, item: Int32) -> tuple[Int32, Int32]:
    """Return the distinct (group, item), sorted."""
    order = order_by(group, item)
    first = order[run_starts(group[order], item[order])]
    return group[first], item[first]


def span_by(group: Int32, first_ns: Int64, last_ns: Int64, groups: int) -> tuple[Int64, Int64]:
    """Return the earliest and the latest of each group's times, int64[groups] each."""
    first, last = np.full(groups, np.iinfo(np.int64).max), np.full(groups, np.iinfo(np.int64).min)
    np.minimum.at(first, group, first_ns)
    np.maximum.at(last, group, last_ns)
    return first, last
