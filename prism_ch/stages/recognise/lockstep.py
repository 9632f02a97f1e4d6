"""Lockstep: parts of one job that nothing joins in the network, told by their steps.

A pipeline that passes on to its next stage inside a server, and only then to another server, shows as links that never
meet, each busy at other moments of a step. What they have in common is when steps end: the ends of jobs that have
nothing to do with one another drift apart, a little more with every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from prism_ch.core import jaccard
from prism_ch.core.disjoint_set import components
from prism_ch.model.columns import Bool, Int64
from prism_ch.model.jobset import RecognisedJob
from prism_ch.model.params import RecogniseParams
from prism_ch.model.result import JobState
from prism_ch.model.topology import Topology


def join_lockstep(
    lives: Sequence[RecognisedJob],
    end_ns: Sequence[Int64],
    known: Sequence[JobState],
    topology: Topology,
    params: RecogniseParams,
) -> tuple[list[RecognisedJob], list[list[int]]]:
    """Join the lives that are parts of one.

    Parameters: `end_ns`, the ends of each life's steps, int64[steps]; `known`, the jobs of earlier windows: what was
    told apart for long stays apart, and of what was one more is needed to part it: what slows one part moves its ends.
    Returns all lives, and the rows of `lives` that each of them consists of.
    """
    left, right = np.nonzero(np.triu(_may_be_one(lives, known, topology, params), k=1))
    pairs = zip(left.tolist(), right.tolist(), strict=True)
    strays = np.array([_stray_share(end_ns[one], end_ns[other], params) for one, other in pairs])
    alike = strays < np.where(_were_one(lives, left, right, known), 1 / params.parting_share, 1) * params.lockstep_share
    label = components(len(lives), left[alike].astype(np.int32), right[alike].astype(np.int32))
    of_parts = [np.flatnonzero(label == number).tolist() for number in dict.fromkeys(label.tolist())]
    wholes = [_as_one([lives[row] for row in rows], known) for rows in of_parts]
    name = {lives[row].job_id: whole.job_id for whole, rows in zip(wholes, of_parts, strict=True) for row in rows}
    return [replace(whole, follows=name.get(whole.follows, whole.follows)) for whole in wholes], of_parts


def _stray_share(one_ns: Int64, other_ns: Int64, params: RecogniseParams) -> float:
    """Return how much the distance of two series of ends of steps varies, as a share of what chance adds up to.

    Parameters: `one_ns` int64[n] and `other_ns` int64[m], rising. Infinite where they have too few steps in common.
    Durations that have nothing to do with one another add up to a random walk, whose variance about its mean over n
    steps is n / 6 of that of a step.
    """
    least = params.lockstep_steps
    if min(len(one_ns), len(other_ns)) < least:
        return np.inf
    begin, end = max(one_ns[0], other_ns[0]), min(one_ns[-1], other_ns[-1])
    one, other = (part[(part >= begin) & (part <= end)] for part in (one_ns, other_ns))
    steps = min(len(one), len(other))
    if steps < least:
        return np.inf
    walk = (np.var(np.diff(one)) + np.var(np.diff(other))) * steps / 6
    # A step of the one ends nearest to that of the other which it is, or to the one after it.
    apart = [other[1:steps] - one[: steps - 1], other[:steps] - one[:steps], other[: steps - 1] - one[1:steps]]
    return float(min(np.var(each) for each in apart) / walk) if walk else np.inf


def _were_one(lives: Sequence[RecognisedJob], left: Int64, right: Int64, known: Sequence[JobState]) -> Bool:
    """Mask the listed pairs of lives of which most endpoints were in one known job, bool[pairs]."""
    inside = np.zeros((len(known), len(lives)), dtype=bool)
    for row, state in enumerate(known):
        inside[row] = [np.isin(one.endpoints, state.members.endpoint).mean() > 1 / 2 for one in lives]
    return np.asarray((inside[:, left] & inside[:, right]).any(axis=0))


def _as_one(parts: Sequence[RecognisedJob], known: Sequence[JobState]) -> RecognisedJob:
    """Return the life that some are parts of, under the name of the one that is known for longest."""
    since = {state.job.job_id: state.job.first_seen_ns for state in known}
    first = min(parts, key=lambda part: (since.get(part.job_id, np.inf), -len(part.endpoints), part.job_id))
    return replace(
        first,
        endpoints=np.unique(np.concatenate([part.endpoints for part in parts])),
        begin_ns=min(part.begin_ns for part in parts),
        end_ns=max(part.end_ns for part in parts),
        steady_ns=min(part.steady_ns for part in parts),
    )


def _may_be_one(
    lives: Sequence[RecognisedJob], known: Sequence[JobState], topology: Topology, params: RecogniseParams
) -> Bool:
    """Mask the pairs of lives of one tenant that are on much the same servers, and not settled apart, bool[n, n]."""
    if not lives:
        return np.zeros((0, 0), dtype=bool)
    life = np.repeat(np.arange(len(lives), dtype=np.int32), [len(one.endpoints) for one in lives])
    endpoint = np.concatenate([one.endpoints for one in lives])
    overlap = jaccard.overlap_matrix((life, topology.server[endpoint]))
    tenant = np.array([one.tenant for one in lives])
    was = np.array([one.known for one in lives])
    long = {state.job.job_id for state in known if len(state.steps) >= params.settled_steps}
    settled = np.array([one.job_id in long for one in lives])
    apart = was[:, None] & was[None, :] & (settled[:, None] | settled[None, :])
    return np.asarray((overlap >= params.server_overlap_min) & (tenant[:, None] == tenant[None, :]) & ~apart)
