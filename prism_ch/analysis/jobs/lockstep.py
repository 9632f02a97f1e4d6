"""Lockstep: parts of one job that nothing joins in the network, found by their steps.

A pipeline that passes on to its next stage inside a server, and only then to another server, shows as links that never
meet, each busy at other moments of a step. What they have in common is when steps end: the ends of jobs that have
nothing to do with one another drift apart, a little more with every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from prism_ch.core.graph import components, overlap_matrix
from prism_ch.model.columns import Bool, Int64
from prism_ch.model.job import RecognisedJob
from prism_ch.model.memory import JobMemory
from prism_ch.model.params import RecogniseParams
from prism_ch.model.topology import Topology

#: Two distances between ends, and two durations, are the least that vary.
_LEAST_STEPS = 3


def join_lockstep(
    attempts: Sequence[RecognisedJob],
    end_ns: Sequence[Int64],
    known: Sequence[JobMemory],
    topology: Topology,
    params: RecogniseParams,
) -> tuple[list[RecognisedJob], list[list[int]]]:
    """Join the attempts that are parts of one.

    Parameters: `end_ns`, the ends of each attempt's steps, int64[steps]; `known`, the jobs of earlier windows.
    What was apart for long stays apart, and what was one is harder to part: what slows one part moves its ends. Parts
    that follow those of one job, too, are joined after a few steps.
    Returns all attempts, and the rows of `attempts` that each of them consists of.
    """
    left, right = np.nonzero(np.triu(_may_be_one(attempts, known, topology, params), k=1))
    were_one = _were_one(attempts, left, right, known)
    share = np.where(were_one, 1 / params.half, 1) * params.little
    measured = [_drift(end_ns[one], end_ns[other]) for one, other in zip(left.tolist(), right.tolist(), strict=True)]
    steps, strays = np.array([each[0] for each in measured]), np.array([each[1] for each in measured])
    least = np.where(were_one, params.repeats, params.lockstep_steps)
    in_step = strays < share
    alike = in_step & (steps >= least)
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


def _drift(one_ns: Int64, other_ns: Int64) -> tuple[int, float]:
    """Return how many steps two series have in common, and how much their distance varies.

    Parameters: `one_ns` int64[n] and `other_ns` int64[m], rising, ends of steps. The variance is a share of that of
    the null model, infinite if nothing shows that: durations that have nothing to do with one another add up to a
    random walk, whose variance about its mean over n steps is n / 6 of that of a step.
    """
    if not len(one_ns) or not len(other_ns):
        return 0, np.inf
    begin, end = max(one_ns[0], other_ns[0]), min(one_ns[-1], other_ns[-1])
    one, other = (part[(part >= begin) & (part <= end)] for part in (one_ns, other_ns))
    steps = min(len(one), len(other))
    if steps < _LEAST_STEPS:
        return steps, np.inf
    walk = (np.var(np.diff(one)) + np.var(np.diff(other))) * steps / 6
    # A step of the one ends nearest to that of the other which it is, or to the one after it.
    apart = [other[1:steps] - one[: steps - 1], other[:steps] - one[:steps], other[: steps - 1] - one[1:steps]]
    return steps, float(min(np.var(each) for each in apart) / walk) if walk else np.inf


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


def _may_be_one(
    attempts: Sequence[RecognisedJob], known: Sequence[JobMemory], topology: Topology, params: RecogniseParams
) -> Bool:
    """Mask the attempts of one tenant on the same servers, not settled apart, bool[n, n]."""
    if not attempts:
        return np.zeros((0, 0), dtype=bool)
    attempt = np.repeat(np.arange(len(attempts), dtype=np.int32), [len(one.endpoints) for one in attempts])
    endpoint = np.concatenate([one.endpoints for one in attempts])
    overlap = overlap_matrix(attempt, topology.server[endpoint])
    tenant = np.array([one.tenant for one in attempts])
    was = np.array([one.known for one in attempts])
    long = {memory.job.job_id for memory in known if len(memory.steps) >= params.settled_steps}
    settled = np.array([one.job_id in long for one in attempts])
    apart = was[:, None] & was[None, :] & (settled[:, None] | settled[None, :])
    return np.asarray((overlap >= params.half) & (tenant[:, None] == tenant[None, :]) & ~apart)
