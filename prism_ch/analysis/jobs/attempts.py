"""Attempts: components of recurring pairs, cut where a job was stopped and begun anew with other pairs.

A restart makes all communicators anew: every pair of a job falls silent for longer than it ever does within a step, and
where servers were lost, replaced or regained other pairs go on. A pause (checkpoint, evaluation, a late data loader)
silences all pairs as well, but the same ones come back.

1. Presences that share an endpoint at one time are a run.
2. In the order of time, a run goes on from the attempts last on its endpoints, or replaces them and is a new one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prism_ch.analysis.jobs.job_traffic import weighty_pairs
from prism_ch.analysis.jobs.presence import Presences, find_presences
from prism_ch.core import robust
from prism_ch.core.arrays import ROWS_AT_ONCE, blocks, order_by, run_starts
from prism_ch.core.graph import components
from prism_ch.core.intervals import hull
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.params import RecogniseParams
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Attempts:
    """Steady bursts and the attempt that each belongs to, `of_burst` int32[n], all numbers in use.

    `merged` bool[pairs] masks the pairs whose records run on over many steps: they show nothing of time.
    `follows` int32[attempts] is the attempt that each takes over endpoints from, -1 if it is none. `endpoint` int32[k]
    in `attempt` int32[k]: who is in which, sorted by (attempt, endpoint). `first_ns`, `last_ns` int64[attempts] are
    the start of the first and the end of the last burst.
    """

    traffic: Traffic
    merged: Bool
    of_burst: Int32
    follows: Int32
    attempt: Int32
    endpoint: Int32
    first_ns: Int64
    last_ns: Int64

    def __len__(self) -> int:
        return len(self.first_ns)

    def members(self, attempt: int) -> Int32:
        """Return the endpoints of an attempt, sorted."""
        return self.endpoint[slice(*np.searchsorted(self.attempt, [attempt, attempt + 1]))]

    def joined(self, label: Int32) -> Attempts:
        """Join the attempts of equal `label` int32[attempts], their new number.

        Where none joins another, nothing is asked of the bursts, and they stay in the same columns.
        """
        follows = np.full(int(label.max()) + 1, -1, dtype=np.int32)
        if np.array_equal(label, np.arange(len(self))):
            whole = replace(self, follows=follows)
        else:
            whole = _describe(self.traffic, self.merged, label[self.of_burst], follows)
        later = np.flatnonzero(self.follows >= 0)
        after, before = label[later], label[self.follows[later]]
        over = whole.last_ns[before] <= whole.first_ns[after]
        whole.follows[after[over]] = before[over]
        return whole


def find_attempts(traffic: Traffic, edge: Bool, merged: Bool, topology: Topology, params: RecogniseParams) -> Attempts:
    """Find the attempts in the components of recurring pairs.

    Parameters: `edge` bool[pairs], those that may carry the steady traffic of jobs; `merged` bool[pairs], those whose
    records run on over many steps and show training.
    """
    present = find_presences(traffic, edge, merged, topology, params)
    if not len(present):
        return _describe(present.traffic, present.merged, np.empty(0, np.int32), np.empty(0, np.int32))
    source, destination = np.split(present.blocks(), 2)
    run = components(int(max(source.max(), destination.max())) + 1, source, destination)[source]
    runs, meetings = _read_runs(present, run, topology, params), _read_meetings(traffic, topology, params)
    label, follows = _Stitching(runs, meetings, params).result()
    attempt = label[run]
    present = present.keep(attempt >= 0)
    return _describe(present.traffic, present.merged, attempt[attempt >= 0][present.of_burst], follows)


def _describe(traffic: Traffic, merged: Bool, of_burst: Int32, follows: Int32) -> Attempts:
    first, last = hull(of_burst, traffic.start_ns, traffic.end_ns, len(follows))
    attempt, pair = _distinct(of_burst, traffic.pair)
    ends = np.concatenate([traffic.pair_src[pair], traffic.pair_dst[pair]])
    return Attempts(traffic, merged, of_burst, follows, *_distinct(np.tile(attempt, 2), ends), first, last)


@dataclass(slots=True)
class _Run:
    """Presences that share endpoints at one time, or several such sets that are one attempt.

    `usual` are, of those of its `pairs` that recur in it, the quartiles of their bursts' payload. `one_way`: some
    server only sends or only receives. `follows` is the attempt that it takes over endpoints from, or -1.
    """

    first_ns: int
    last_ns: int
    endpoints: Int32
    pairs: set[int]
    usual: dict[int, tuple[float, float]]
    one_way: bool
    follows: int = -1

    def is_replaced_by(self, run: _Run, meetings: _Meetings, params: RecogniseParams) -> bool | None:
        """Judge whether a later run begins anew, or None if that is open.

        This was over, and all its endpoints met others before that began; or it has lost pairs that recurred while
        others have come; or pairs move other amounts. It is open while what has come does not yet recur.
        """
        if self.last_ns > run.first_ns:
            return False
        if meetings.are_made(self.last_ns, run.first_ns, run.endpoints, params):
            return bool(run.usual) or None
        gone, come = self.usual.keys() - run.pairs, run.pairs - self.pairs
        if gone and (come or not run.usual):
            return bool(come & run.usual.keys()) or None
        common = self.usual.keys() & run.usual.keys()
        changed = sum(_have_gap(self.usual[pair], run.usual[pair], params.other_work) for pair in common)
        return changed > params.little * len(common)

    def prepares(self, after: _Run) -> bool:
        """Check if this only hands out what the next run needs: training goes round."""
        return self.one_way and not after.one_way

    def take_in(self, other: _Run) -> None:
        self.last_ns = max(self.last_ns, other.last_ns)
        self.pairs |= other.pairs
        self.usual |= other.usual


@dataclass(frozen=True, slots=True)
class _Meetings:
    """What does not recur between endpoints of one tenant: when, int64[n], rising, and who with whom, int32[n]."""

    start_ns: Int64
    src: Int32
    dst: Int32

    def are_made(self, begin_ns: int, end_ns: int, endpoints: Int32, params: RecogniseParams) -> bool:
        """Check if most endpoints meet several others in a time, and far more than usually."""
        rows = slice(*np.searchsorted(self.start_ns, [begin_ns, end_ns]))
        met = _distinct(np.append(self.src[rows], self.dst[rows]), np.append(self.dst[rows], self.src[rows]))[0]
        others = np.searchsorted(met, endpoints, "right") - np.searchsorted(met, endpoints, "left")
        if np.median(others) < params.repeats:
            return False
        mine = np.isin(self.src, endpoints) | np.isin(self.dst, endpoints)
        usual = robust.usual_count(self.start_ns[mine], begin_ns, end_ns)
        return bool(np.count_nonzero(mine[rows]) > params.twice * usual)


def _read_runs(present: Presences, run: Int32, topology: Topology, params: RecogniseParams) -> list[_Run]:
    """Describe the runs; `run` int32[presences] is the number of each presence's."""
    runs = int(run.max()) + 1
    first, last = hull(run, present.first_ns, present.last_ns, runs)
    member_run, member = _distinct(np.tile(run, 2), present.ends)
    traffic, span = present.traffic, len(present.traffic.pair_src)
    key, place = np.unique(run.astype(np.int64) * span + present.pair, return_inverse=True)
    of_presence = np.bincount(present.of_burst, minlength=len(present))
    bursts = np.bincount(place, weights=of_presence, minlength=len(key))
    low, high = _quartiles(present, place.astype(np.int32), len(key))
    usual = list(zip(low.tolist(), high.tolist(), strict=True))
    owner, pair = np.divmod(key, span)
    src, dst = topology.server[traffic.pair_src[pair]], topology.server[traffic.pair_dst[pair]]
    often = bursts >= params.repeats
    member_edges, pair_edges = (np.searchsorted(rows, np.arange(runs + 1)).tolist() for rows in (member_run, owner))
    found = []
    for number in range(runs):
        mine = slice(*pair_edges[number : number + 2])
        recur = (np.flatnonzero(often[mine]) + mine.start).tolist()
        found.append(
            _Run(
                int(first[number]),
                int(last[number]),
                member[slice(*member_edges[number : number + 2])],
                set(pair[mine].tolist()),
                {int(pair[row]): usual[row] for row in recur},
                not np.array_equal(np.unique(src[mine]), np.unique(dst[mine])),
            )
        )
    return found


def _quartiles(present: Presences, place: Int32, places: int) -> tuple[Float64, Float64]:
    """Return the quartiles of the payload of each place's bursts, float64[places] each.

    Parameters: `place` int32[presences], the same for no two pairs.
    """
    low, high = np.full((2, places), np.nan)
    pairs, begins = run_starts(present.pair), run_starts(present.of_burst)
    stops, edges = np.append(pairs, len(present)), np.append(begins, len(present.of_burst))
    for first, last in blocks(begins[pairs], ROWS_AT_ONCE):
        mine = slice(stops[first], stops[last])
        rows = slice(edges[mine.start], edges[mine.stop])
        numbers, number = np.unique(place[mine], return_inverse=True)
        group = number.astype(np.int32)[present.of_burst[rows] - mine.start]
        payload = present.traffic.payload[rows]
        low[numbers], high[numbers] = robust.quantiles_by(group, payload, (0.25, 0.75), len(numbers))
    return low, high


def _read_meetings(traffic: Traffic, topology: Topology, params: RecogniseParams) -> _Meetings:
    src, dst = traffic.pair_src, traffic.pair_dst
    rare = ~weighty_pairs(traffic, topology, params) & (topology.tenant[src] == topology.tenant[dst])
    strays = traffic.keep_pairs(rare)
    order = np.argsort(strays.start_ns, kind="stable")
    return _Meetings(strays.start_ns[order], strays.src[order], strays.dst[order])


class _Stitching:
    """Runs joined into attempts, in the order of time.

    A run goes on from the attempts that were last on its endpoints and that it does not replace. One that replaces all
    of them follows that with most of its endpoints. While that can't be judged yet, and if it was but the preparation
    of what came after it, a run has no attempt, -1.
    """

    def __init__(self, runs: list[_Run], meetings: _Meetings, params: RecogniseParams) -> None:
        self._meetings, self._params = meetings, params
        self._attempts: list[_Run] = []
        self._of_run = np.full(len(runs), -1, dtype=np.int32)
        self._latest = np.full(max(int(run.endpoints.max()) for run in runs) + 1, -1, dtype=np.int32)
        for number in np.argsort([run.first_ns for run in runs], kind="stable").tolist():
            attempt = self._find(runs[number])
            self._of_run[number] = attempt
            if attempt >= 0:
                self._latest[runs[number].endpoints] = attempt

    def result(self) -> tuple[Int32, Int32]:
        """Return the attempt of each run and what each attempt follows, -1 if none."""
        left = np.unique(self._of_run[self._of_run >= 0])
        number = np.full(len(self._attempts) + 1, -1, dtype=np.int32)  # of each attempt, and of none, -1
        number[left] = np.arange(len(left))
        return number[self._of_run], number[[self._attempts[attempt].follows for attempt in left]]

    def _find(self, run: _Run) -> int:
        """Return the attempt that a run belongs to, a new one if it replaces others."""
        before = self._before(run)
        replaced = {one: self._attempts[one].is_replaced_by(run, self._meetings, self._params) for one in before}
        same = [attempt for attempt in before if replaced[attempt] is False]
        if same:
            self._attempts[same[0]].take_in(run)
            for other in same[1:]:
                self._join(same[0], other)
            return same[0]
        if None in replaced.values():
            return -1
        prepared = [attempt for attempt in before if self._attempts[attempt].prepares(run)]
        self._of_run[np.isin(self._of_run, prepared)] = -1
        others = [attempt for attempt in before if attempt not in prepared]
        others += [self._attempts[attempt].follows for attempt in prepared]
        run.follows = others[0] if others else -1
        self._attempts.append(run)
        return len(self._attempts) - 1

    def _before(self, run: _Run) -> list[int]:
        """Return the newest attempts on a run's endpoints, the largest first."""
        shared = np.bincount(self._latest[run.endpoints] + 1)[1:]
        there = np.argsort(-shared, kind="stable")[: np.count_nonzero(shared)].tolist()
        followed = {self._attempts[attempt].follows for attempt in there}
        return [attempt for attempt in there if attempt not in followed]

    def _join(self, attempt: int, other: int) -> None:
        self._attempts[attempt].take_in(self._attempts[other])
        for numbers in (self._of_run, self._latest):
            numbers[numbers == other] = attempt
        for one in self._attempts:
            if one.follows == other:
                one.follows = attempt


def _have_gap(one: tuple[float, float], other: tuple[float, float], tolerance: float) -> bool:
    return max(one[0], other[0]) > (1 + tolerance) * min(one[1], other[1])


def _distinct(group: Int32, item: Int32) -> tuple[Int32, Int32]:
    """Return the distinct (group, item), sorted."""
    # Bursts of a pair stand side by side: few rows are left to sort.
    first = run_starts(group, item)
    group, item = group[first], item[first]
    order = order_by(group, item)
    first = order[run_starts(group[order], item[order])]
    return group[first], item[first]
