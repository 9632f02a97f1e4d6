"""Lives: components of recurring pairs, cut where a job was stopped and begun anew with other pairs.

A restart makes all communicators anew: every pair of a job falls silent for longer than it ever does within a step, and
where servers were lost, replaced or regained other pairs go on. A pause (checkpoint, evaluation, a late data loader)
silences all pairs as well, but the same ones come back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.analysis.jobs.presence import find_presences
from prism_ch.analysis.jobs.runs import Meetings, Run, distinct, number_runs, read_meetings, read_runs, span_by
from prism_ch.model.columns import Bool, Int32, Int64
from prism_ch.model.params import RecogniseParams
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Attempts:
    """Steady bursts and the life that each belongs to, `of_burst` int32[n], all numbers in use.

    `merged` bool[pairs] masks the pairs whose records run on over many steps: they tell nothing of time.
    `follows` int32[lives] is the life that each takes over endpoints from, -1 where it is none. `endpoint` int32[k] in
    `life` int32[k]: who is in which, sorted by (life, endpoint). `first_ns`, `last_ns` int64[lives] are the start of
    the first and the end of the last burst.
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
        """Count the lives."""
        return len(self.first_ns)

    def members(self, attempt: int) -> Int32:
        """Return the endpoints of a life, sorted."""
        return self.endpoint[slice(*np.searchsorted(self.attempt, [attempt, attempt + 1]))]

    def joined(self, label: Int32) -> Attempts:
        """Return the lives that these are parts of; `label` int32[lives] is the new number of each."""
        whole = _describe(
            self.traffic, self.merged, label[self.of_burst], np.full(int(label.max()) + 1, -1, dtype=np.int32)
        )
        later = np.flatnonzero(self.follows >= 0)
        after, before = label[later], label[self.follows[later]]
        over = whole.last_ns[before] <= whole.first_ns[after]
        whole.follows[after[over]] = before[over]
        return whole


def find_attempts(traffic: Traffic, edge: Bool, merged: Bool, topology: Topology, params: RecogniseParams) -> Attempts:
    """Find the components of recurring pairs, and their lives; parameters as of `recognise`."""
    present = find_presences(traffic, edge, merged, topology, params)
    if not len(present):
        return _describe(present.traffic, present.merged, np.empty(0, np.int32), np.empty(0, np.int32))
    run = number_runs(present)
    runs, meetings = read_runs(present, run, topology, params), read_meetings(traffic, topology, params)
    label, follows = _Stitching(runs, meetings, params).result()
    attempts = present.keep(label[run] >= 0)
    return _describe(attempts.traffic, attempts.merged, label[run][label[run] >= 0][attempts.of_burst], follows)


class _Stitching:
    """Runs joined into lives, in the order of time.

    A run goes on from the lives that were last on its endpoints and that it does not replace. One that replaces all of
    them follows that with most of its endpoints. Where that can't be said yet, and where it was but the preparation of
    what came after it, a run has no life, -1.
    """

    def __init__(self, runs: list[Run], meetings: Meetings, params: RecogniseParams) -> None:
        self._meetings, self._params = meetings, params
        self._lives: list[Run] = []
        self._life_of_run = np.full(len(runs), -1, dtype=np.int32)
        self._latest = np.full(max(int(run.endpoints.max()) for run in runs) + 1, -1, dtype=np.int32)
        for number in np.argsort([run.first_ns for run in runs], kind="stable").tolist():
            attempt = self._find(runs[number])
            self._life_of_run[number] = attempt
            if attempt >= 0:
                self._latest[runs[number].endpoints] = attempt

    def result(self) -> tuple[Int32, Int32]:
        """Return the life of each run, int32[runs], and what each life follows, int32[lives], -1 where it is none."""
        left = np.unique(self._life_of_run[self._life_of_run >= 0])
        number = np.full(len(self._lives) + 1, -1, dtype=np.int32)  # of each life, and of none, -1
        number[left] = np.arange(len(left))
        return number[self._life_of_run], number[[self._lives[attempt].follows for attempt in left]]

    def _find(self, run: Run) -> int:
        """Return the life that a run belongs to, a new one where it replaces others."""
        before = self._before(run)
        replaced = {
            attempt: self._lives[attempt].is_replaced_by(run, self._meetings, self._params) for attempt in before
        }
        same = [attempt for attempt in before if replaced[attempt] is False]
        if same:
            self._lives[same[0]].take_in(run)
            for other in same[1:]:
                self._join(same[0], other)
            return same[0]
        if None in replaced.values():
            return -1
        prepared = [attempt for attempt in before if self._lives[attempt].prepares(run)]
        for attempt in prepared:
            self._life_of_run[self._life_of_run == attempt] = -1
        others = [attempt for attempt in before if attempt not in prepared] + [
            self._lives[attempt].follows for attempt in prepared
        ]
        run.follows = others[0] if others else -1
        self._lives.append(run)
        return len(self._lives) - 1

    def _before(self, run: Run) -> list[int]:
        """Return the lives that were last on a run's endpoints, not followed by another of them, the largest first."""
        shared = np.bincount(self._latest[run.endpoints] + 1)[1:]
        there = np.argsort(-shared, kind="stable")[: np.count_nonzero(shared)].tolist()
        followed = {self._lives[attempt].follows for attempt in there}
        return [attempt for attempt in there if attempt not in followed]

    def _join(self, attempt: int, other: int) -> None:
        """Make one life of two."""
        self._lives[attempt].take_in(self._lives[other])
        for numbers in (self._life_of_run, self._latest):
            numbers[numbers == other] = attempt
        for one in self._lives:
            if one.follows == other:
                one.follows = attempt


def _describe(traffic: Traffic, merged: Bool, of_burst: Int32, follows: Int32) -> Attempts:
    """Say who is in which life, and since and until when."""
    first, last = span_by(of_burst, traffic.start_ns, traffic.end_ns, len(follows))
    pair_life, pair = distinct(of_burst, traffic.pair)
    ends = np.concatenate([traffic.pair_src[pair], traffic.pair_dst[pair]])
    return Attempts(traffic, merged, of_burst, follows, *distinct(np.tile(pair_life, 2), ends), first, last)
