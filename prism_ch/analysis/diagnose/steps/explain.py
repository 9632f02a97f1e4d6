"""Explanations of slow steps: a straggler that the others wait for, or a lasting change that nobody causes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from prism_ch.core import bocd, robust
from prism_ch.core.significance import expected_by_chance, rank_correlation, trailing_low_median
from prism_ch.model.columns import Bool, Float64, Int32, Int64, Ragged, freeze, ragged
from prism_ch.model.finding import SubjectType
from prism_ch.model.params import DiagnoseParams
from prism_ch.model.result import OTHER, PP, Steps
from prism_ch.model.topology import Topology


@dataclass(frozen=True, slots=True)
class Straggler:
    """An endpoint, or a `server` >= 0, waited for in `times` of `count` slow steps.

    `members` are the endpoints of a server that can't be told apart.
    """

    endpoint: int
    server: int
    times: int
    count: int
    members: tuple[int, ...] = ()

    @property
    def subject_type(self) -> SubjectType:
        """The type of the place."""
        return "endpoint" if self.server < 0 else "server"

    def name(self, topology: Topology) -> str:
        """Return the endpoint's address, or the server's name."""
        return topology.endpoints[self.endpoint] if self.server < 0 else topology.server_names[self.server]

    def sentence(self, topology: Topology) -> str:
        """Return a sentence that names the straggler, and what to do."""
        if self.server < 0:
            place = f"{topology.server_names[topology.server[self.endpoint]]}, GPU {topology.gpu[self.endpoint]}"
            who, check = f"{self.name(topology)} ({place}), last to be ready", "check that GPU and its host"
        else:
            who, check = f"{self.name(topology)}, whose GPUs were last to be ready", "check its GPUs and the host"
        return f"the others waited for {who} in {self.times} of {self.count} slow steps: {check}."


def find_straggler(
    last_ready: Ragged, before: Ragged, servers: int, topology: Topology, params: DiagnoseParams
) -> Straggler | None:
    """Find whom the others waited for, None if the null model explains it.

    Parameters: `last_ready`, the last endpoints to be ready in each of n slow steps that can't be told apart, and
    `before`, in the healthy steps before; `servers`, how many the job is on. The GPUs of a server that wait for one
    another inside it are late together, and any of them is the last: then it is their server that stands out, if it did
    not before, since some server of few is always last more often than the others.
    """
    endpoint, times = most_frequent(_only(last_ready))
    if stands_out(times, len(last_ready), _usual_share(_only(before), endpoint), servers, params):
        return Straggler(endpoint, -1, times, len(last_ready))
    now, usually = (
        _only(ragged(np.unique(topology.server[list(row)]).tolist() for row in one)) for one in (last_ready, before)
    )
    server, of_server = most_frequent(now)
    if stands_out(of_server, len(last_ready), _usual_share(usually, server), servers, params):
        members = {one for row in last_ready for one in row if topology.server[one] == server}
        return Straggler(endpoint, server, of_server, len(last_ready), tuple(sorted(members)))
    return None


def late_by_excess(
    last_ready: Ragged, late_s: Float64, excess_s: Float64, topology: Topology, params: DiagnoseParams
) -> Straggler | None:
    """Name whom slow steps waited for about as long as they lost. None if not always the same.

    Parameters: the last endpoints to be ready in each of n slow steps, the seconds by which they were late, and those
    by which the steps are longer, float64[n]. How often somebody is last says nothing of a single step; that somebody
    was late by what it lost is no chance.
    """
    rows = [
        set(row) for row, late, excess in zip(last_ready, late_s, excess_s, strict=True) if late >= params.half * excess
    ]
    if len(rows) < params.min_culprit_share * len(last_ready) or not (common := set.intersection(*rows)):
        return None
    members = tuple(sorted(common))
    alone = len(members) == 1
    server = -1 if alone else int(topology.server[members[0]])
    return Straggler(members[0], server, len(rows), len(last_ready), () if alone else members)


def stands_out(times: int, count: int, share: float, servers: int, params: DiagnoseParams) -> bool:
    """Whether somebody is last more often than the null model explains.

    The null model draws who is last with probability `share`.
    """
    expected = expected_by_chance(times, count, share, servers)
    return times >= params.min_culprit_share * count and expected <= params.max_false_culprits


def _usual_share(before: Int32, one: int) -> float:
    """Estimate how often somebody is last in healthy steps, by Jeffreys' prior."""
    return (np.count_nonzero(before == one) + 1 / 2) / (len(before) + 1)


def _only(rows: Ragged) -> Int32:
    """Return the only number of each row, int32[n], -1 where there are none or several."""
    return np.array([row[0] if len(row) == 1 else -1 for row in rows], dtype=np.int32)


def most_frequent(numbers: Int32) -> tuple[int, int]:
    """Return the most frequent number and its count; -1 does not count."""
    times = np.bincount(numbers[numbers >= 0], minlength=1)
    return int(np.argmax(times)), int(times.max())


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes that steps moved: `payload` float64[steps, kinds] of the steps `number`, NaN where a part was not seen.

    `shows_late`: ranks are seen to be ready one after the other, so that one that keeps others waiting would be, too.
    `latest` int32[steps] is the endpoint that was ready last, by however little, and `latest_s` float64[steps] by how
    much later than most; both are empty where that is not known. `late_s` float64[steps] is by how much whoever kept
    the others waiting computes longer than usual, NaN where nobody is seen to.
    """

    number: Int64
    payload: Float64
    shows_late: bool = False
    latest: Int32 = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    latest_s: Float64 = field(default_factory=lambda: np.empty(0))
    late_s: Float64 = field(default_factory=lambda: np.empty(0))

    def last_ready(self, step: Int64) -> Ragged:
        """Return who was ready last in each of some steps, Ragged[n], nobody if unknown."""
        known = dict(zip(self.number.tolist(), self.latest.tolist(), strict=False))
        return ragged([known[one]] if known.get(one, -1) >= 0 else [] for one in step.tolist())

    def lateness_s(self, step: Int64) -> Float64:
        """Return how late the last to be ready was in steps, float64[n]. NaN is unknown."""
        return self._in_steps(self.late_s, step)

    def keeps_waiting(self, slow: Int64, before: Int64, excess_s: float, share: float) -> bool:
        """Return whether the last to be ready may explain slow steps.

        Parameters: `excess_s`, by how much the steps `slow` are longer than those `before`.

        Where ranks are seen to be ready one after the other, whoever keeps them waiting is late by about as much. Where
        they are not, somebody is always last by little; whoever keeps them waiting is so by more than that.
        """
        if not len(self.latest_s):
            return not self.shows_late
        late_s, usual_s = (
            float(np.nan_to_num(robust.median(self.latest_s[np.isin(self.number, steps)]))) for steps in (slow, before)
        )
        return bool(late_s - usual_s >= (share * excess_s if self.shows_late else usual_s))

    def shows_whose_fault(self, steps: Steps, among: Bool, params: DiagnoseParams) -> bool:
        """Whether a rank that keeps the others waiting would be seen to be late.

        Parameters: `steps`, and `among` which of them to look, bool[n]. Between the messages of a pipeline computing
        shows itself. Elsewhere a step ends the later, the later its last rank is ready, unless a barrier hides who that
        is.
        """
        if not self.shows_late or steps.pp_s.any():
            return self.shows_late
        late_s = self._in_steps(self.latest_s, steps.step)
        rows = among & ~np.isnan(late_s)
        if (known := np.count_nonzero(rows)) < params.recent_steps:
            return False
        together = rank_correlation(late_s[rows], steps.duration_s[rows])
        return together * math.sqrt(known - 1) >= params.min_connection

    def _in_steps(self, values: Float64, step: Int64) -> Float64:
        """Return a column's values in some steps, float64[n]. NaN is unknown."""
        known = dict(zip(self.number.tolist(), values.tolist(), strict=False))
        return np.array([known.get(one, np.nan) for one in step.tolist()], dtype=np.float64)

    def __post_init__(self) -> None:
        """Freeze the columns."""
        freeze(self, number=np.int64)
        self.payload.flags.writeable = False

    @classmethod
    def unknown(cls) -> Moved:
        """Return that nothing is known."""
        return cls(np.empty(0, dtype=np.int64), np.empty((0, 1)))

    def changed(self, first_step: int, last_step: int, usual: Int64, share: float) -> bool:
        """Whether steps move other bytes than the `usual` ones, by more than a share."""
        whole = ~np.isnan(self.payload).any(axis=1)
        known = whole & np.isin(self.number, usual)
        during = whole & (self.number >= first_step) & (self.number <= last_step)
        if not known.any() or not during.any():
            return False
        usually, now = (np.median(self.payload[rows], axis=0) for rows in (known, during))
        return bool((np.abs(now - usually) > share * np.maximum(usually, 1)).any())

    def carry_activations(self, first_step: int, last_step: int) -> bool:
        """Whether steps move other data than gradients between members: it grows with the batch."""
        during = (self.number >= first_step) & (self.number <= last_step)
        return bool((self.payload[during, PP:OTHER] > 0).any())


def newest_run(duration_s: Float64, params: DiagnoseParams) -> int:
    """Return the row since which steps last as long as now, by BOCD.

    Parameters: `duration_s` float64[n], n >= 1. On logarithms of medians of three, which a single slow step does not
    lift, so that the row may be one too late; the spread within a run is that of neighbours, which a change in between
    does not widen.
    """
    smooth = trailing_low_median(duration_s, 3)
    logs = np.log(np.where(np.isnan(smooth), duration_s, smooth))
    neighbours = np.diff(logs) / np.sqrt(2)
    spread = max(float(robust.mad(neighbours)) if len(neighbours) else 0.0, params.compute_jitter)
    prior = bocd.Prior(np.array([float(np.median(logs))]), np.array([spread**2]))
    offsets = np.array([0, len(logs)], dtype=np.int64)
    found = bocd.detect(logs, offsets, prior, expected_run=float(params.settled_steps))
    return len(logs) - 1 - int(found.map_run_length[-1])


def grows(duration_s: Float64, params: DiagnoseParams) -> bool:
    """Whether steps become longer one after the other.

    Those of a GPU do that fails bit by bit; another amount of work makes all of them longer at once. Parameters:
    `duration_s` float64[n], in order. By the rank correlation with their order (Spearman), which among so many is not
    as high by chance.
    """
    enough = len(duration_s) >= params.recent_steps
    return enough and rank_correlation(np.arange(len(duration_s)), duration_s) >= params.half


def computes_longer(seen: Steps, rows: list[int], usual: Bool) -> bool:
    """Whether most of the excess of some rows is compute time.

    Parameters: `usual` bool[n], the rows that they exceed.
    """
    if not usual.any():
        return False
    excess_s = [
        float(np.median(column[rows]) - np.median(column[usual])) for column in (seen.compute_s, seen.duration_s)
    ]
    return excess_s[0] > excess_s[1] / 2
