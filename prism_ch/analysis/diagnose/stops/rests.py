"""Rests: the longest time in each step in which nothing of a job comes to an end, and what the step moves."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from prism_ch.core import robust
from prism_ch.model.columns import Bool, Float64, Int64, freeze
from prism_ch.model.job import PairKinds
from prism_ch.model.params import StopParams
from prism_ch.model.result import OTHER, PAIR_KINDS
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Rests:
    """The longest rest of each step, one row a step, and `payload` int64[steps, kinds], the step's bytes by kind.

    A rest lasts from the end of one burst to the end of the next, whichever pairs they are of: a flow that has begun
    and waits for somebody is at rest, too.
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
        """Lengths in seconds, float64[n]."""
        return (self.end_ns - self.start_ns) / 1e9

    def usual_s(self) -> float:
        """Return the length that half of the rests do not exceed, NaN without any."""
        return float(np.median(self.length_s)) if len(self) else float("nan")

    def too_long(self, step_s: float, params: StopParams) -> Bool:
        """Mask the rests that are stops, of a job whose steps usually take `step_s`, bool[n]."""
        mask: Bool = self.length_s > least_stop_s(self.usual_s(), step_s, params)
        return mask

    def more_work(self, params: StopParams) -> Bool:
        """Mask the steps that move more than usual, bool[n]: what takes them longer is other work beside training."""
        if not len(self):
            return np.zeros(0, dtype=bool)
        mask: Bool = (self.payload > (1 + params.other_work) * np.median(self.payload, axis=0)).any(axis=1)
        return mask


def least_stop_s(usual_s: float, step_s: float, params: StopParams) -> float:
    """Return from which length on a rest is a stop; `usual_s`, the usual one, and `step_s`, a step, in seconds."""
    return usual_s + max(params.half * step_s, params.min_excess_rests * usual_s)


def find_rests(traffic: Traffic, kinds: PairKinds, job_end_ns: Int64) -> Rests:
    """Find the longest rest of each step.

    Parameters: `traffic`, the bursts of a job, and their `kinds`, of which `other` doesn't count; `job_end_ns`
    int64[steps], rising, the ends of the steps.
    """
    steps, training = len(job_end_ns), kinds.burst != OTHER
    traffic, kind = traffic.take(training), kinds.burst[training]
    step = np.searchsorted(job_end_ns, traffic.end_ns)
    inside = step < steps
    place = step[inside] * len(PAIR_KINDS) + kind[inside]
    payload = np.bincount(place, weights=traffic.payload[inside], minlength=steps * len(PAIR_KINDS))
    start_ns, end_ns = longest_rests(traffic.end_ns, job_end_ns)
    return Rests(start_ns, end_ns, payload.reshape(steps, len(PAIR_KINDS)).astype(np.int64))


def rests_of_all(
    rests: Rests, duration_s: Float64, traffic: Traffic, kinds: PairKinds, job_end_ns: Int64, params: StopParams
) -> Rests:
    """Return the rests with those of steps in which every endpoint rests too long, if not all at once: the first one's.

    One replica may wait for data while others work on, and then wait for it: each stands still once, and the one to
    blame first. A GPU that is slow does not rest, but spreads its delay over its messages, so that its neighbours don't
    rest either, however many others there are that wait for them. An endpoint of which no rest is seen tells nothing.
    Parameters: `duration_s` float64[steps], NaN where unknown; the others as of `find_rests`.
    """
    step_s = float(robust.median(duration_s))
    long = duration_s > (1 + params.half) * step_s
    rows = np.flatnonzero(long & ~rests.too_long(step_s, params) & ~rests.more_work(params))
    if len(rests) < params.enough or not len(rows):
        return rests
    since, until = _own_rests(traffic, kinds, job_end_ns)
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


def _own_rests(traffic: Traffic, kinds: PairKinds, job_end_ns: Int64) -> tuple[Int64, Int64]:
    """Return the longest time of each endpoint and step in which nothing ends there: since when, and until when.

    int64[endpoints, steps] each, of all endpoints. A time is of the step that most of it lies in: whoever waits for the
    others after its last message, as where gradients go inside servers, ends nothing before the next step.
    """
    steps, training = len(job_end_ns), kinds.burst != OTHER
    members, row = np.unique(np.concatenate([traffic.src[training], traffic.dst[training]]), return_inverse=True)
    end_ns = np.tile(traffic.end_ns[training], 2)
    order = np.lexsort((end_ns, row))
    row, end_ns = row[order], end_ns[order]
    same = np.flatnonzero(row[1:] == row[:-1]) + 1
    step = np.searchsorted(job_end_ns, end_ns[same - 1] + (end_ns[same] - end_ns[same - 1]) // 2)
    same, step = same[step < steps], step[step < steps]
    cell = row[same] * steps + step
    longest = np.lexsort((end_ns[same - 1] - end_ns[same], cell))
    first = longest[np.flatnonzero(np.diff(cell[longest], prepend=-1))]
    chosen, place = same[first], (row[same[first]], step[first])
    since, until = np.tile(job_end_ns, (len(members), 1)), np.tile(job_end_ns, (len(members), 1))
    since[place], until[place] = end_ns[chosen - 1], end_ns[chosen]
    return since, until


def longest_rests(end_ns: Int64, job_end_ns: Int64) -> tuple[Int64, Int64]:
    """Return the longest time of each step in which nothing ends, int64[steps] each: since when, and until when.

    Parameters: `end_ns` int64[n], when something ended, in any order; `job_end_ns`, as of `find_rests`. Of a step in
    which nothing ends, both are its end.
    """
    end = np.sort(end_ns)
    length, since, until = np.diff(end), job_end_ns.copy(), job_end_ns.copy()
    edges = [0, *np.searchsorted(end[1:], job_end_ns, side="right").tolist()]
    for step, (low, high) in enumerate(pairwise(edges)):
        if low < high:
            longest = low + np.argmax(length[low:high])
            since[step], until[step] = end[longest], end[longest + 1]
    return since, until
