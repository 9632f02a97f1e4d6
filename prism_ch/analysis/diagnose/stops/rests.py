"""Finds the steps in which a job stood still, by their longest rests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from prism_ch.analysis.continuity.continuity import RebuiltAttempt
from prism_ch.analysis.diagnose.stops.habits import periodic_pauses
from prism_ch.analysis.diagnose.stops.hang_culprits import Sends, TrainingPairs, find_hang_culprits
from prism_ch.analysis.observe.holes import Hole, unseen
from prism_ch.core import robust
from prism_ch.core.arrays import is_among, order_by
from prism_ch.model.columns import Bool, Float64, Int32, Int64, UInt8, freeze
from prism_ch.model.flows_by_pair import FlowsByPair
from prism_ch.model.job import PairKinds
from prism_ch.model.params import StopParams
from prism_ch.model.result import DP, OTHER, PAIR_KINDS, Steps
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic
from prism_ch.model.window import Interval

#: Machines outside the job that evidence names.
_MACHINES = 3


@dataclass(frozen=True, slots=True)
class Rests:
    """The longest rest of each step, and `payload` int64[steps, kinds], its bytes by kind, see `_evened`.

    A rest, `start_ns` to `end_ns` int64[steps], lasts from the end of one burst to the end of the next, whichever pairs
    they are of: a flow that has begun and waits for somebody is at rest, too. Gradients wait for nobody once all ranks
    have begun: what they take from then on is no rest.
    """

    start_ns: Int64
    end_ns: Int64
    payload: Int64

    def __post_init__(self) -> None:
        """Check and freeze the columns."""
        freeze(self, start_ns=np.int64, end_ns=np.int64)
        self.payload.flags.writeable = False

    def __len__(self) -> int:
        """Count the steps."""
        return len(self.start_ns)

    @property
    def length_s(self) -> Float64:
        """Lengths in seconds, float64[steps]."""
        return (self.end_ns - self.start_ns) / 1e9

    def at(self, row: int) -> Interval:
        """Return one rest."""
        return Interval(int(self.start_ns[row]), int(self.end_ns[row]))

    def usual_s(self) -> float:
        """Return the median length, NaN without any."""
        return float(np.median(self.length_s)) if len(self) else float("nan")

    def too_long(self, step_s: float, params: StopParams) -> Bool:
        """Mask the rests that are stops of a job whose steps usually take `step_s`, bool[steps]."""
        mask: Bool = self.length_s > least_stop_s(self.usual_s(), step_s, params)
        return mask

    def move_more(self, params: StopParams) -> Bool:
        """Mask the steps that move more than usual, bool[steps]: what lengthens them is not training."""
        if not len(self):
            return np.zeros(0, dtype=bool)
        mask: Bool = (self.payload > (1 + params.other_work) * np.median(self.payload, axis=0)).any(axis=1)
        return mask


@dataclass(frozen=True, slots=True)
class StepsSeen:
    """The steps of an attempt in a window, those looked at again included.

    One row a step: `duration_s` float64[steps], NaN if its beginning or a part of it was not seen, `rests`, and
    `storage` bool[steps]: the job waited for storage in the rest.
    """

    attempt: RebuiltAttempt
    duration_s: Float64
    rests: Rests
    storage: Bool

    @classmethod
    def of(cls, one: RebuiltAttempt, around: FlowsByPair, holes: Sequence[Hole], params: StopParams) -> StepsSeen:
        """Measure the rests of an attempt's steps.

        Parameters: `around`, any flows of that time; `holes`, the spans of which the job's records are missing.
        """
        new, ends = one.rebuilt.steps, one.division.job_end_ns()
        published = one.division.steps - len(new)
        duration_s = np.diff(ends, prepend=ends[:1]) / 1e9
        duration_s[:1] = np.nan
        duration_s[published:] = np.where(new.complete == 1, new.duration_s, np.nan)
        duration_s[unseen(np.append(ends[:1], ends[:-1]), ends, holes)] = np.nan
        rests = find_rests(one.bursts, one.kinds, ends)
        rests = with_endpoint_rests(rests, duration_s, one.bursts, one.kinds, ends, params)
        storage = wait_for_storage(rests, duration_s, around, one.division.endpoints, params)
        return cls(one, duration_s, rests, storage)

    @property
    def number(self) -> Int64:
        """The number of each step, int64[steps]."""
        return self.attempt.first_step + np.arange(self.attempt.division.steps)

    @property
    def endpoints(self) -> Int32:
        """The members of the attempt, sorted."""
        return self.attempt.division.endpoints

    @property
    def step_s(self) -> float:
        """The usual duration of a step."""
        return float(robust.median(self.duration_s))

    def usual_payload(self) -> float:
        """Return the bytes that a member moves in a usual step."""
        return float(np.median(self.rests.payload.sum(axis=1))) / len(self.endpoints) if len(self.rests) else 0.0

    def usual_message(self) -> float:
        """Return the median bytes of a burst that trains."""
        return float(robust.median(self.attempt.bursts.payload[self.attempt.kinds.burst != OTHER].astype(np.float64)))

    def is_sending(self, row: int) -> bool:
        """Return whether somebody's send waits for others in a step's rest."""
        bursts, middle_ns = self.attempt.bursts, (self.rests.start_ns[row] + self.rests.end_ns[row]) // 2
        in_flight = (bursts.start_ns < middle_ns) & (bursts.end_ns > middle_ns)
        return bool((in_flight & (self.attempt.kinds.burst != OTHER)).any())

    def only_twos(self) -> bool:
        """Return whether endpoints only exchange gradients, each with one other."""
        kind = self.attempt.kinds.kind
        partners = np.bincount(np.searchsorted(self.endpoints, self.attempt.bursts.pair_src[kind == DP]))
        return not np.isin(kind, (DP, OTHER), invert=True).any() and int(partners.max(initial=0)) == 1

    def stopped(self, params: StopParams) -> Bool:
        """Mask the steps in which the job stood still, bool[steps].

        A job that rests too long in one step after the other is slow, and stops in none of them. So is one whose rest
        explains only a part of a step's excess, unless others go on until they wait for a straggler. With few known
        steps nothing is usual, and none is masked.
        """
        if len(self.rests) < params.enough:
            return np.zeros(len(self.rests), dtype=bool)
        long = (self.rests.too_long(self.step_s, params) | self.storage) & ~np.isnan(self.duration_s)
        single = long.copy()
        single[1:] &= ~long[:-1]
        single[:-1] &= ~long[1:]
        explained = self.rests.length_s >= params.nearly_all * (self.duration_s - self.step_s)
        for row in np.flatnonzero(single & ~explained & ~self.storage).tolist():
            single[row] = len(self.stragglers(row, params)) > 0
        return single

    def stragglers(self, row: int, params: StopParams) -> Int32:
        """Return the endpoints that the others waited for in a stop: sorted, none if unknown.

        They begin late in the step; where steps overlap, they are behind their peers in the middle of the rest.
        """
        limit = params.half * len(self.endpoints)
        lost_s = float(self.rests.length_s[row]) - self.rests.usual_s()
        late: Int32 = self.endpoints[self.attempt.lateness_s[:, row] >= params.half * lost_s]
        bursts, kind = self.attempt.bursts, self.attempt.kinds.kind
        typed = np.flatnonzero(kind != OTHER)
        pairs = TrainingPairs(bursts.pair_src[typed], bursts.pair_dst[typed], kind[typed])
        if 0 < len(late) <= limit and pairs.have_peers(late, params):
            return late
        if row < params.enough:
            return self.endpoints[:0]
        pair = np.full(len(kind), -1)
        pair[typed] = np.arange(len(typed))
        middle_ns = (self.rests.start_ns[row] + self.rests.end_ns[row]) // 2
        sends = Sends(pair[bursts.pair], bursts.start_ns).before(int(middle_ns))
        begin_ns = self.attempt.division.job_end_ns()[max(row - 1 - params.recent_steps, 0) : row]
        named = find_hang_culprits(sends, pairs, begin_ns, self.step_s, params).named
        return named if 0 < len(named) <= limit and pairs.have_peers(named, params) else named[:0]


def not_slow(seen: Sequence[StepsSeen], history: Steps, params: StopParams) -> Bool:
    """Mask the steps that are long for another reason than slowness, bool[n].

    They hold a stop, a periodic pause, or other traffic than training; what lasts from one step on is looked at.
    Parameters: `seen`, of the attempts that a window shows; `history`, the job's known steps.
    """
    mask = periodic_pauses(history, params)
    for attempt in seen:
        more = attempt.rests.move_more(params)
        run = np.cumsum(np.diff(more, prepend=False))
        lasting = more & (np.bincount(run, minlength=1)[run] >= params.enough)
        other = attempt.stopped(params) | (more & ~lasting)
        mask |= np.isin(history.step, attempt.number[other])
    return mask


def least_stop_s(usual_s: float, step_s: float, params: StopParams) -> float:
    """Return the length in seconds from which a rest is a stop."""
    return usual_s + max(params.half * step_s, params.min_excess_rests * usual_s)


def find_rests(traffic: Traffic, kinds: PairKinds, job_end_ns: Int64) -> Rests:
    """Find the longest rest of each step.

    Parameters: `traffic`, the bursts of a job; their `kinds`, `other` ones don't count; `job_end_ns` int64[steps],
    rising, the ends of the steps.
    """
    steps, training = len(job_end_ns), kinds.burst != OTHER
    traffic, kind = traffic.take(training), kinds.burst[training]
    step = np.searchsorted(job_end_ns, traffic.end_ns)
    inside = step < steps
    place = step[inside] * len(PAIR_KINDS) + kind[inside]
    payload = np.bincount(place, weights=traffic.payload[inside], minlength=steps * len(PAIR_KINDS))
    start_ns, end_ns = longest_rests(traffic.end_ns, job_end_ns, _waited_until(traffic, kind))
    return Rests(start_ns, end_ns, _evened(payload.reshape(steps, len(PAIR_KINDS)).astype(np.int64)))


def _evened(payload: Int64) -> Int64:
    """Give steps what neighbours move in place of them, int64[steps, kinds].

    While a straggler ends a step the others have begun the next one. Of the first step a part may not be seen.
    """
    if len(payload) < 3:
        return payload
    even, usual = payload.copy(), np.median(payload, axis=0).astype(np.int64)
    for more, less in ((slice(1, -1), slice(2, None)), (slice(2, None), slice(1, -1))):
        moved = np.clip(np.minimum(even[more] - usual, usual - even[less]), 0, None)
        even[more] -= moved
        even[less] += moved
    return even


def _waited_until(traffic: Traffic, kind: UInt8) -> Int64:
    """Return up to when each burst may have waited for somebody, int64[n].

    That is its end, but a reduction waits for whoever begins it last.
    """
    reduces = kind == DP
    begun_ns = np.sort(traffic.start_ns[reduces])
    last = np.searchsorted(begun_ns, traffic.end_ns[reduces]) - 1
    until_ns = traffic.end_ns.copy()
    until_ns[reduces] = begun_ns[np.maximum(last, 0)]
    return until_ns


def longest_rests(end_ns: Int64, job_end_ns: Int64, waited_ns: Int64 | None = None) -> tuple[Int64, Int64]:
    """Find the longest time in each step in which nothing ends.

    Parameters: `end_ns` int64[n], when something ended, in any order; `job_end_ns` int64[steps], rising; `waited_ns`
    int64[n], up to when each may have waited for somebody, by default its end: the rest lasts no longer.
    Returns its start and end, int64[steps] each; both are the step's end if nothing ends in it.
    """
    order = order_by(end_ns)
    end = end_ns[order]
    waited = np.maximum((end_ns if waited_ns is None else waited_ns)[order][1:], end[:-1])
    length, since, until = waited - end[:-1], job_end_ns.copy(), job_end_ns.copy()
    edges = [0, *np.searchsorted(end[1:], job_end_ns, side="right").tolist()]
    for step, (low, high) in enumerate(pairwise(edges)):
        if low < high:
            longest = low + np.argmax(length[low:high])
            since[step], until[step] = end[longest], waited[longest]
    return since, until


def with_endpoint_rests(
    rests: Rests, duration_s: Float64, traffic: Traffic, kinds: PairKinds, job_end_ns: Int64, params: StopParams
) -> Rests:
    """Replace the rests of long steps in which each endpoint rests in its turn.

    One replica may wait for data while others go on, and then wait for it: the straggler's rest comes first and
    replaces the step's. A slow GPU does not rest, but spreads its delay over its messages, so that its neighbours don't
    rest either. An endpoint without a rest is no evidence. Parameters: `duration_s` float64[steps], NaN where unknown.
    """
    step_s = float(robust.median(duration_s))
    long = duration_s > (1 + params.half) * step_s
    rows = np.flatnonzero(long & ~rests.too_long(step_s, params) & ~rests.move_more(params))
    if len(rests) < params.enough or not len(rows):
        return rests
    since, until = _endpoint_rests(traffic, kinds, job_end_ns)
    length_s = (until - since) / 1e9
    usual_s = np.median(length_s, axis=1)
    excess_s = np.maximum(params.half * step_s, params.min_excess_rests * usual_s)
    too_long, seen = length_s > (usual_s + excess_s)[:, None], length_s > 0
    start_ns, end_ns = rests.start_ns.copy(), rests.end_ns.copy()
    for row in rows.tolist():
        if seen[:, row].any() and too_long[seen[:, row], row].all():
            earliest = int(np.argmin(since[:, row]))
            start_ns[row], end_ns[row] = since[earliest, row], until[earliest, row]
    return Rests(start_ns, end_ns, rests.payload.copy())


def _endpoint_rests(traffic: Traffic, kinds: PairKinds, job_end_ns: Int64) -> tuple[Int64, Int64]:
    """Find each endpoint's longest rest in each step.

    A rest is of the step that most of it lies in: whoever waits for the others after its last message, as where
    gradients go inside servers, ends nothing before the next step. Returns start and end, int64[endpoints, steps] each.
    """
    steps, training = len(job_end_ns), kinds.burst != OTHER
    traffic, kind = traffic.take(training), kinds.burst[training]
    members, row = np.unique(np.concatenate([traffic.src, traffic.dst]), return_inverse=True)
    end_ns, waited_ns = (np.tile(each, 2) for each in (traffic.end_ns, _waited_until(traffic, kind)))
    order = np.lexsort((end_ns, row))
    row, end_ns, waited_ns = row[order], end_ns[order], waited_ns[order]
    same = np.flatnonzero(row[1:] == row[:-1]) + 1
    begins, ends = end_ns[same - 1], np.maximum(waited_ns[same], end_ns[same - 1])
    step = np.searchsorted(job_end_ns, begins + (ends - begins) // 2)
    inside = step < steps
    row, begins, ends, step = row[same][inside], begins[inside], ends[inside], step[inside]
    cell = row * steps + step
    longest = np.lexsort((begins - ends, cell))
    first = longest[np.flatnonzero(np.diff(cell[longest], prepend=-1))]
    place = (row[first], step[first])
    since, until = np.tile(job_end_ns, (len(members), 1)), np.tile(job_end_ns, (len(members), 1))
    since[place], until[place] = begins[first], ends[first]
    return since, until


def wait_for_storage(
    rests: Rests, duration_s: Float64, around: FlowsByPair, endpoints: Int32, params: StopParams
) -> Bool:
    """Mask the long rests in which more than usual goes to other machines, bool[steps].

    Where all computing is one rest, its length does not separate a short pause from a slow GPU: traffic to storage
    does. Parameters: `duration_s` float64[steps], NaN where unknown; `around`, any flows; `endpoints`, the members.
    """
    mask = np.zeros(len(rests), dtype=bool)
    if len(rests) < params.enough:
        return mask
    step_s = float(robust.median(duration_s))
    longer = rests.length_s > rests.usual_s() + params.notable * step_s
    saved = params.min_saved_share * float(np.median(rests.payload.sum(axis=1))) / len(endpoints)
    for row in np.flatnonzero(longer).tolist():
        mask[row] = _unusual_bytes(around, endpoints, rests.at(row), params).sum() > saved
    return mask


def unusual_background(
    around: FlowsByPair, endpoints: Int32, span: Interval, topology: Topology, params: StopParams
) -> dict[str, int]:
    """Return the bytes between members and others in a span, by machine.

    Returns the machines with the most first, and none if no more moved than usual: some jobs read their data from
    storage all the time. Parameters: `around`, any flows; `endpoints`, the members.
    """
    moved = _unusual_bytes(around, endpoints, span, params)
    most = np.argsort(-moved, kind="stable")[:_MACHINES]
    return {topology.endpoints[row]: int(moved[row]) for row in most.tolist() if moved[row] > 0}


def _unusual_bytes(around: FlowsByPair, endpoints: Int32, span: Interval, params: StopParams) -> Float64:
    """Return the background bytes in a span, by the other endpoint; empty if usual."""
    begin_ns = span.start_ns if around.earliest_ns is None else min(around.earliest_ns, span.start_ns)
    earlier = Interval(begin_ns, span.start_ns)
    usual, moved = (_background_bytes(around, endpoints, each) for each in (earlier, span))
    longest_ns = max(earlier.length_ns, span.length_ns)
    return moved[:0] if moved.sum() <= params.twice * usual.sum() * span.length_ns / longest_ns else moved


def _background_bytes(around: FlowsByPair, endpoints: Int32, span: Interval) -> Float64:
    flows, rows = around.flows, around.rows_across(endpoints)
    rows = rows[(flows.end_ns[rows] > span.start_ns) & (flows.start_ns[rows] < span.end_ns)]
    src, dst = flows.src[rows], flows.dst[rows]
    other = np.where(is_among(src, endpoints), dst, src)
    return np.bincount(other, weights=flows.bytes[rows]).astype(np.float64)
