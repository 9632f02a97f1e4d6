"""Stops that are over: stalls, in which a job stood still and went on, and restarts, after which it began anew.

Between two steps all ranks may pause together, to save or to evaluate; where the others wait for some, those are named.
A stall conserves the job's communicators; a restart makes them anew, and nearly every rank meets every other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prism_ch.analysis.continuity.continuity import RebuiltAttempt
from prism_ch.analysis.diagnose.findings import severity
from prism_ch.analysis.diagnose.stops.background import unusual_beside, with_storage
from prism_ch.analysis.diagnose.stops.hang_culprits import Sends, Ways, find_hang_culprits
from prism_ch.analysis.diagnose.stops.periodic_pauses import habitual
from prism_ch.analysis.diagnose.stops.rests import Rests, find_rests, rests_of_all
from prism_ch.analysis.diagnose.stops.stop_findings import Stop, listed, stop_finding, subject_of, traffic_beside
from prism_ch.core import robust
from prism_ch.core.graph import components
from prism_ch.core.robust import usual_count
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.finding import Finding
from prism_ch.model.flow import FlowBatch
from prism_ch.model.job import PairKinds
from prism_ch.model.params import Params, StopParams
from prism_ch.model.result import DP, OTHER, Steps
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class StepsSeen:
    """What a window shows of the steps of one life, those looked at again and the new ones from `first_new` on.

    A row a step: its `number`, `end_ns`, `duration_s` (NaN where its beginning was not seen) and `rests`; `storage`
    bool[steps] marks those in whose rest data went to or from other machines; `lateness_s` float64[endpoints, steps] of
    `endpoints`, see `lateness_s` in reconstruct. `traffic` and `kinds` are the bursts of the life.
    """

    number: Int64
    end_ns: Int64
    duration_s: Float64
    rests: Rests
    storage: Bool
    first_new: int
    endpoints: Int32
    lateness_s: Float64
    traffic: Traffic
    kinds: PairKinds

    @classmethod
    def of(cls, one: RebuiltAttempt, around: FlowBatch, params: StopParams) -> StepsSeen:
        """Measure the rests of an attempt's steps, those that were published before among them.

        Parameters: `around`, any flows of that time.
        """
        new, ends = one.rebuilt.steps, one.division.job_end_ns()
        published = one.division.steps - len(new)
        duration_s = np.diff(ends, prepend=ends[:1]) / 1e9
        duration_s[:1] = np.nan
        duration_s[published:] = np.where(new.complete == 1, new.duration_s, np.nan)
        rests = find_rests(one.bursts, one.kinds, ends)
        rests = rests_of_all(rests, duration_s, one.bursts, one.kinds, ends, params)
        return cls(
            one.first_step + np.arange(one.division.steps),
            ends,
            duration_s,
            rests,
            with_storage(rests, duration_s, around, one.division.endpoints, params),
            one.first_new,
            one.division.endpoints,
            one.lateness_s,
            one.bursts,
            one.kinds,
        )

    @property
    def step_s(self) -> float:
        """The usual duration of a step."""
        return float(robust.median(self.duration_s))

    @property
    def only_twos(self) -> bool:
        """Whether endpoints do no more than exchange gradients, each with one other."""
        kind, traffic = self.kinds.kind, self.traffic
        partners = np.bincount(np.searchsorted(self.endpoints, traffic.pair_src[kind == DP]))
        return not np.isin(kind, (DP, OTHER), invert=True).any() and int(partners.max(initial=0)) == 1

    def stopped(self, params: StopParams) -> Bool:
        """Mask the steps in which the job stood still, bool[n]; none where too few are known to say what is usual.

        A job that rests too long in one step after the other works slowly, and stops in none of them; so does one whose
        rest accounts for a part only of what its step takes longer, unless others work on until they wait for some.
        """
        if len(self.number) < params.enough:
            return np.zeros(len(self.number), dtype=bool)
        long = (self.rests.too_long(self.step_s, params) | self.storage) & ~np.isnan(self.duration_s)
        by_itself = long.copy()
        by_itself[1:] &= ~long[:-1]
        by_itself[:-1] &= ~long[1:]
        explained = self.rests.length_s >= params.nearly_all * (self.duration_s - self.step_s)
        for row in np.flatnonzero(by_itself & ~explained & ~self.storage).tolist():
            by_itself[row] = len(_straggler(self, row, params)) > 0
        return by_itself


def find_stops(
    job_id: str, seen: StepsSeen, history: Steps, around: FlowBatch, topology: Topology, params: Params
) -> tuple[Finding, ...]:
    """Find the stalls and restarts in the new steps of a life; what a step is, the one after it tells.

    Parameters: `history`, all that is known of the job's steps, in which habits show: what is one is not reported;
    `around`, flows with one end or both at members of the job.
    """
    usual = history.step[habitual(history, params.stops)]
    found = []
    for row in np.flatnonzero(seen.stopped(params.stops)[:-1] & (seen.number[1:] >= seen.first_new)).tolist():
        if _met_anew(seen, row, params.stops):
            found.append(_describe_restart(job_id, seen, row, params))
        elif seen.number[row] not in usual:
            found.append(_describe_stall(job_id, seen, row, around, topology, params))
    return tuple(found)


def not_slow(seen: Sequence[StepsSeen], history: Steps, params: StopParams) -> Bool:
    """Mask the steps of a job's history that are long for another reason than slowness, bool[n].

    They hold a stop, are long by habit, or hold other work; what is the work of all steps from one on is looked at.
    `seen`: of the lives that a window shows.
    """
    mask = habitual(history, params)
    for attempt in seen:
        more = attempt.rests.more_work(params)
        other = attempt.stopped(params) | (more & ~_lasting(more, params))
        mask |= np.isin(history.step, attempt.number[other])
    return mask


def _lasting(marked: Bool, params: StopParams) -> Bool:
    """Mask what is marked in so many steps in a row that it is no single evaluation, bool[n]."""
    run = np.cumsum(np.diff(marked, prepend=False))
    mask: Bool = marked & (np.bincount(run, minlength=1)[run] >= params.enough)
    return mask


def _met_anew(seen: StepsSeen, row: int, params: StopParams) -> bool:
    """Say whether nearly all endpoints met others, that they don't train with, while the job stood still."""
    span_ns = (int(seen.rests.start_ns[row]), int(seen.rests.end_ns[row]))
    others = seen.traffic.take(seen.kinds.burst == OTHER)
    met = others.take((others.end_ns > span_ns[0]) & (others.start_ns < span_ns[1]))
    if len(met) <= params.twice * usual_count(others.start_ns, *span_ns):
        return False
    partners = np.bincount(met.pair_src[met.moving()], minlength=int(seen.endpoints.max()) + 1)[seen.endpoints]
    return float(np.mean(partners >= 2)) >= params.half


def _describe_stall(
    job_id: str,
    seen: StepsSeen,
    row: int,
    around: FlowBatch,
    topology: Topology,
    params: Params,
) -> Finding:
    """Put a stall into words and numbers."""
    stop, stops = _stop(seen, row, params), params.stops
    straggler = _straggler(seen, row, stops)
    beside = unusual_beside(around, seen.endpoints, (stop.start_ns, stop.end_ns), topology, stops)
    longest_s = max(stops.long_pause_steps * seen.step_s, stops.saving_hang_s if beside else stops.silence_s)
    is_pause = (len(straggler) == 0 and stop.length_s < longest_s) or stop.lost_s < stops.min_lost_s
    if len(straggler):
        why = f"the others waited for {listed(straggler, topology)}: look at what feeds these GPUs with data."
    elif beside:
        why = f"all paused together, and {traffic_beside(beside)}: look at that storage."
    elif seen.only_twos:
        why = (
            "of two that only exchange gradients with one another neither begins alone, so nobody can be told to be "
            "late: look at checkpoints, evaluations and what feeds either with data."
        )
    else:
        why = "all paused together: look at checkpoints, evaluations and what else they wait for at once."
    return stop_finding(
        "stall",
        job_id,
        stop,
        subject_of(straggler, job_id, topology),
        "info" if is_pause else severity(stop.slowdown, params.diagnose),
        f"The job stood still for {stop.length_s:.3g} s in step {stop.step}; {why}",
        {"waited_for": [topology.endpoints[endpoint] for endpoint in straggler.tolist()], "beside_bytes": beside},
    )


def _straggler(seen: StepsSeen, row: int, params: StopParams) -> Int32:
    """Return the endpoints that the others waited for in a stop: sorted, none where that can't be told.

    They begin late in the step; where steps overlap, they are behind their peers while nothing comes to an end.
    """
    rests, limit = seen.rests, params.half * len(seen.endpoints)
    lost_s = float(rests.length_s[row]) - rests.usual_s()
    late: Int32 = seen.endpoints[seen.lateness_s[:, row] >= params.half * lost_s]
    if 0 < len(late) <= limit and _have_peers(late, seen, params):
        return late
    if row < params.enough:
        return seen.endpoints[:0]
    typed = np.flatnonzero(seen.kinds.kind != OTHER)
    number = np.full(len(seen.kinds.kind), -1)
    number[typed] = np.arange(len(typed))
    ways = Ways(seen.traffic.pair_src[typed], seen.traffic.pair_dst[typed], seen.kinds.kind[typed])
    half_ns = (rests.start_ns[row] + rests.end_ns[row]) // 2
    sends = Sends(number[seen.traffic.pair], seen.traffic.start_ns).before(int(half_ns))
    begin_ns = seen.end_ns[max(row - 1 - params.recent_steps, 0) : row]
    named = find_hang_culprits(sends, ways, begin_ns, seen.step_s, params).named
    return named if 0 < len(named) <= limit and _have_peers(named, seen, params) else named[:0]


def _have_peers(late: Int32, seen: StepsSeen, params: StopParams) -> bool:
    """Say whether others of the same roles are not late: a whole stage is, where an evaluation is only forward."""
    gradients = np.flatnonzero(seen.kinds.kind == DP)
    if not len(gradients):
        return True
    src, dst = (
        np.searchsorted(seen.endpoints, part[gradients]) for part in (seen.traffic.pair_src, seen.traffic.pair_dst)
    )
    group = components(len(seen.endpoints), src.astype(np.int32), dst.astype(np.int32))
    members = np.bincount(group)
    of_late = np.bincount(group[np.searchsorted(seen.endpoints, late)], minlength=len(members))
    return bool((of_late <= params.half * members)[of_late > 0].mean() >= params.half)


def _describe_restart(job_id: str, seen: StepsSeen, row: int, params: Params) -> Finding:
    """Put a restart on the same endpoints into words and numbers."""
    stop, members = _stop(seen, row, params), len(seen.endpoints)
    return stop_finding(
        "restart",
        job_id,
        stop,
        ("job", job_id),
        "warning",
        f"The job was interrupted for {stop.length_s:.3g} s in step {stop.step} and began anew on the same {members} "
        "endpoints: look for why it died.",
        {"gap_s": round(stop.length_s, 6), "members_before": members, "members_after": members},
    )


def _stop(seen: StepsSeen, row: int, params: Params) -> Stop:
    """Measure the stop in one step."""
    rests = seen.rests
    rest_s, usual_s = float(rests.length_s[row]), rests.usual_s()
    return Stop(
        int(seen.number[row]),
        int(rests.start_ns[row]),
        int(rests.end_ns[row]),
        usual_s,
        rest_s - usual_s,
        (rest_s - usual_s) / max(params.diagnose.severity_steps * seen.step_s, rest_s),
    )
