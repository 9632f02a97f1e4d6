"""Lockstep: parts of one job that nothing joins in the network, found by their steps.

A pipeline that passes on to its next stage inside a server, and only then to another server, shows as links that never
meet, each busy at other moments of a step. What they have in common is when steps end: the ends of jobs that have
nothing to do with one another drift apart, a little more with every step.

A straggler's part may show no steps of its own: it never rests. But the other parts rest until it is done, so they
begin each step at a steady distance after one of its bursts, which is its end of the step before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np

from prism_ch.core import robust
from prism_ch.core.arrays import distinct
from prism_ch.core.graph import components, overlaps
from prism_ch.model.columns import Bool, Int64
from prism_ch.model.job import FOREVER_NS, RecognisedJob
from prism_ch.model.memory import JobMemory
from prism_ch.model.params import RecogniseParams
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic

#: Two distances between ends, and two durations, are the least that vary.
_LEAST_STEPS = 3

#: Steps in which a distance changes for good: a part gets slow in one, and is well again in another.
_LEFT_OUT = 2

#: Where a distance may change: near enough to anywhere for a median.
_CUTS = 8

#: Moments at which the null model is measured: enough for several between any two bursts that matter.
_MOMENTS = 4096


def join_lockstep(
    attempts: Sequence[RecognisedJob],
    end_ns: Sequence[Int64],
    known: Sequence[JobMemory],
    topology: Topology,
    params: RecogniseParams,
    bursts: Mapping[int, Traffic] | None = None,
) -> tuple[list[RecognisedJob], list[list[int]]]:
    """Join the attempts that are parts of one.

    Parameters: `end_ns`, the ends of each attempt's steps, int64[steps]; `known`, the jobs of earlier windows;
    `bursts`, what attempts that may be one move in their steps, by row.
    What was apart for long stays apart, and what was one is harder to part: what slows one part moves its ends. Parts
    that follow those of one job, too, are joined after a few steps.
    Returns all attempts, and the rows of `attempts` that each of them consists of.
    """
    left, right = may_be_one(attempts, known, topology, params)
    if not len(left):
        return list(attempts), [[row] for row in range(len(attempts))]
    were_one = _were_one(attempts, left, right, known)
    share = np.where(were_one, 1 / params.half, 1) * params.little
    listed = list(zip(left.tolist(), right.tolist(), strict=True))
    measured = [_drift(end_ns[one], end_ns[other], params) for one, other in listed]
    if bursts:
        rest = _Rest(end_ns, bursts, params)
        measured = [min(pair, rest.wait(*rows), key=itemgetter(1)) for pair, rows in zip(measured, listed, strict=True)]
    steps, strays = np.array([each[0] for each in measured]), np.array([each[1] for each in measured])
    in_step = strays < share
    # The nearer to steady a distance is, the fewer steps show it.
    with np.errstate(divide="ignore"):
        nearer = np.log(np.where(in_step, strays, params.little)) / np.log(params.little)
    least = np.maximum(params.lockstep_steps / nearer, params.judged_steps)
    alike = in_step & (steps >= np.where(were_one, params.repeats, least))
    label = components(len(attempts), left[alike], right[alike])
    # Parts that took over endpoints from the same job are that job begun anew, maybe.
    number = {one.job_id: int(label[row]) for row, one in enumerate(attempts)}
    follows = np.array([number.get(one.follows, -1) for one in attempts], dtype=np.int32)
    follow_one = (follows[left] == follows[right]) & (follows[left] >= 0)
    alike |= in_step & (steps >= params.repeats) & follow_one
    label = components(len(attempts), left[alike], right[alike])
    of_parts = [np.flatnonzero(label == number).tolist() for number in dict.fromkeys(label.tolist())]
    wholes = [_as_one([attempts[row] for row in rows], known) for rows in of_parts]
    name = {attempts[row].job_id: whole.job_id for whole, rows in zip(wholes, of_parts, strict=True) for row in rows}
    return [replace(whole, follows=name.get(whole.follows, whole.follows)) for whole in wholes], of_parts


def _drift(one_ns: Int64, other_ns: Int64, params: RecogniseParams) -> tuple[int, float]:
    """Return how many steps two series have in common, and how much their distance varies.

    Parameters: `one_ns` int64[n] and `other_ns` int64[m], rising, ends of steps. The variance is a share of that of
    the null model, infinite if nothing shows that: durations that have nothing to do with one another add up to a
    random walk, whose variance about its mean over n steps is n / 6 of that of a step. Two steps in which the distance
    changes more than by chance are left out of both: where a part gets slow, the other waits for it from there on,
    until it is well again.
    """
    if not len(one_ns) or not len(other_ns):
        return 0, np.inf
    begin, end = max(one_ns[0], other_ns[0]), min(one_ns[-1], other_ns[-1])
    one, other = (part[(part >= begin) & (part <= end)] for part in (one_ns, other_ns))
    steps = min(len(one), len(other))
    if steps < _LEAST_STEPS:
        return steps, np.inf
    # A step of the one ends nearest to that of the other which it is, or to the one after it.
    apart = [other[1:steps] - one[: steps - 1], other[:steps] - one[:steps], other[: steps - 1] - one[1:steps]]
    changes = [np.diff(each) for each in apart]
    kept = [_is_usual(each, params) for each in changes]
    varies = [np.var(np.append(0, np.cumsum(each * usual))) for each, usual in zip(changes, kept, strict=True)]
    walk = sum(float(np.var(np.diff(each[:steps])[kept[1]])) for each in (one, other)) * steps / 6
    return steps, float(min(varies) / walk) if walk else np.inf


def _is_usual(changes: Int64, params: RecogniseParams) -> Bool:
    """Mask changes of a distance, bool[n], but for the largest two if no chance."""
    usual = np.ones(len(changes), dtype=bool)
    if len(changes) >= params.judged_steps:
        largest = np.argsort(-np.abs(changes), kind="stable")[:_LEFT_OUT]
        spread = robust.MAD_TO_SD * float(robust.median(np.abs(changes)))
        usual[largest] = np.abs(changes[largest]) <= params.min_score * spread
    return usual


@dataclass(frozen=True, slots=True)
class _Rest:
    """Parts that rest while they wait for another: see `join_lockstep`."""

    end_ns: Sequence[Int64]
    bursts: Mapping[int, Traffic]
    params: RecogniseParams

    def wait(self, one: int, other: int) -> tuple[int, float]:
        """Return how many steps one part waits for another, and how that varies.

        The one that has far fewer steps rests in each of them, and the other within steps if at all; of parts with as
        many steps either may wait.
        """
        counts = [len(self.end_ns[row]) for row in (one, other)]
        ways = [(one, other), (other, one)] if counts[0] <= counts[1] else [(other, one), (one, other)]
        if max(counts) >= self.params.one_step * min(counts):
            ways = ways[:1]
        return min((self._wait_of(*way) for way in ways), key=itemgetter(1))

    def _wait_of(self, waiting: int, busy: int) -> tuple[int, float]:
        """Return how many steps a part waits for a busy one, and how that varies.

        Distances are from the last burst of the busy part to the first of the waiting part in its next step. Their
        deviation, squared, is a share of that of the null model, which is the lesser of two: of a moment at random
        between two bursts, and as in `_drift`. Before the straggler got slow, the distance was another.
        """
        moved_ns, begin_ns = distinct(self.bursts[busy].end_ns), np.sort(self.bursts[waiting].start_ns)
        place = np.searchsorted(begin_ns, self.end_ns[waiting], side="right")
        begin_ns = begin_ns[place[place < len(begin_ns)]]
        begin_ns = begin_ns[(begin_ns >= moved_ns.min(initial=FOREVER_NS)) & (begin_ns <= moved_ns.max(initial=0))]
        steps = len(begin_ns)
        if steps < _LEAST_STEPS:
            return steps, np.inf
        last_ns = _last_before(moved_ns, begin_ns)
        any_ns = np.linspace(begin_ns[0], begin_ns[-1], _MOMENTS).astype(np.int64)
        at_random = float(robust.mad(any_ns - _last_before(moved_ns, any_ns)))
        own, other_own = (float(robust.mad(np.diff(each))) for each in (begin_ns, last_ns))
        null = min(at_random**2, (own**2 + other_own**2) * steps / 6)
        return steps, _deviation(begin_ns - last_ns) ** 2 / null if null else np.inf


def _deviation(distance: Int64) -> float:
    """Return the median deviation of distances.

    It is that from their median, or from those before and after one change.
    """
    cuts = np.linspace(0, len(distance), _CUTS + 1).astype(np.int64).tolist()[:-1]
    parts = (np.split(distance, [cut]) for cut in cuts)
    return min(
        float(robust.mad(np.concatenate([part - robust.median(part) for part in each if len(part)]))) for each in parts
    )


def _last_before(moments: Int64, at_ns: Int64) -> Int64:
    """Return the last of rising moments before each of others, int64[n]."""
    return moments[np.searchsorted(moments, at_ns, side="right") - 1]


def _were_one(attempts: Sequence[RecognisedJob], left: Int64, right: Int64, known: Sequence[JobMemory]) -> Bool:
    """Mask the listed attempts whose endpoints mostly were in one known job, bool[pairs]."""
    inside = np.zeros((len(known), len(attempts)), dtype=bool)
    for row, memory in enumerate(known):
        inside[row] = [np.isin(one.endpoints, memory.members.endpoint).mean() > 1 / 2 for one in attempts]
    return np.asarray((inside[:, left] & inside[:, right]).any(axis=0))


def _as_one(parts: Sequence[RecognisedJob], known: Sequence[JobMemory]) -> RecognisedJob:
    """Join parts under the name of the one that is known for longest."""
    since = {memory.job.job_id: memory.job.first_seen_ns for memory in known}
    first = min(parts, key=lambda part: (since.get(part.job_id, np.inf), -len(part.endpoints), part.job_id))
    return replace(
        first,
        endpoints=np.unique(np.concatenate([part.endpoints for part in parts])),
        begin_ns=min(part.begin_ns for part in parts),
        end_ns=max(part.end_ns for part in parts),
        steady_ns=min(part.steady_ns for part in parts),
    )


def may_be_one(
    attempts: Sequence[RecognisedJob], known: Sequence[JobMemory], topology: Topology, params: RecogniseParams
) -> tuple[Int64, Int64]:
    """List attempts that share tenant and servers, not settled apart, int64[pairs] each."""
    if not attempts:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    attempt = np.repeat(np.arange(len(attempts), dtype=np.int32), [len(one.endpoints) for one in attempts])
    endpoint = np.concatenate([one.endpoints for one in attempts])
    left, right, overlap = overlaps(attempt, topology.server[endpoint])
    tenant = np.array([one.tenant for one in attempts])
    was = np.array([one.known for one in attempts])
    keeping = {memory.job.job_id for memory in known if memory.keeps_members(params)}
    settled = np.array([one.job_id in keeping for one in attempts])
    apart = was[left] & was[right] & (settled[left] | settled[right])
    may_be = (overlap >= params.half) & (tenant[left] == tenant[right]) & ~apart
    return left[may_be], right[may_be]
