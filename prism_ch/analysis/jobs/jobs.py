"""Jobs: which endpoints train one model together, and since when (LLMPrism, section IV-A).

1. Pairs that recur and carry a fair share of their endpoints' payload, inside one tenant, are edges.
2. Disjoint sets over the edges give components; tensor-parallel traffic never leaves a server, so a rail-optimised
   job shows as one component a rail.
3. A component whose pairs are exchanged for others, all at once, was stopped and begun anew: each part is an attempt.
4. Components on much the same servers (overlap of their sets) whose activity rises and falls together are one job.
5. So are those on much the same servers whose steps keep their distance, once these are known.
6. A job that shares half its endpoints with a known one of its tenant, at one time with it, continues it.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from prism_ch.analysis.jobs.attempts import Attempts, find_attempts
from prism_ch.analysis.jobs.job_traffic import JobTraffic
from prism_ch.analysis.jobs.rails import merge_rails
from prism_ch.core.arrays import run_starts
from prism_ch.model.columns import Int32, Int64
from prism_ch.model.job import ALWAYS_NS, FOREVER_NS, RecognisedJob
from prism_ch.model.memory import JobMemory
from prism_ch.model.params import RecogniseParams
from prism_ch.model.topology import Topology


def recognise(
    traffic: JobTraffic, known: Sequence[JobMemory], topology: Topology, params: RecogniseParams
) -> list[RecognisedJob]:
    """Find the attempts of jobs in a span of traffic, the largest first.

    Parameters: `known`, the jobs of earlier windows that may have moved something in it. Endpoints without a recurring
    partner are in no job. A job that was stopped and begun anew in the span is listed once an attempt: whether the
    later one is the same job, only its steps can show.
    """
    edge = ~traffic.coarse | traffic.merged
    attempts = find_attempts(traffic.bursts, edge, traffic.merged, topology, params)
    if not len(attempts):
        return []
    return _identify_jobs(merge_rails(attempts, topology, known, params), topology, known, params)


def _identify_jobs(
    attempts: Attempts, topology: Topology, known: Sequence[JobMemory], params: RecogniseParams
) -> list[RecognisedJob]:
    """Identify each attempt with a known job, or name it; most endpoints first."""
    identity = _claims(attempts, topology, known, params)
    begin_ns, end_ns = _own_time(attempts)
    members = [attempts.members(attempt) for attempt in range(len(attempts))]
    name: list[str] = []
    taken = {memory.job.job_id for memory in known}
    first = _first_bursts(attempts)
    for attempt in range(len(attempts)):
        name.append(identity.get(attempt) or _new_identity(attempts, attempt, int(first[attempt]), topology, taken))
        taken.add(name[-1])
    found = [
        RecognisedJob(
            name[attempt],
            _tenant(members[attempt], topology),
            members[attempt],
            attempt in identity,
            int(begin_ns[attempt]),
            int(end_ns[attempt]),
            int(attempts.first_ns[attempt]),
            name[before] if before >= 0 else "",
        )
        for attempt, before in enumerate(attempts.follows.tolist())
    ]
    return sorted(found, key=lambda job: (-len(job.endpoints), job.begin_ns, job.job_id))


def _own_time(attempts: Attempts) -> tuple[Int64, Int64]:
    """Return begin and end of the time in which endpoints are an attempt's own.

    From the end of the last that was there before, to its own end if another is there after it.
    """
    begin, end = np.full(len(attempts), ALWAYS_NS), np.full(len(attempts), FOREVER_NS)
    latest = np.full(int(attempts.endpoint.max()) + 1, -1)
    for attempt in np.argsort(attempts.first_ns, kind="stable").tolist():
        endpoints = attempts.members(attempt)
        before = np.unique(latest[endpoints])
        before = before[(before >= 0) & (attempts.last_ns[before] <= attempts.first_ns[attempt])]
        end[before] = attempts.last_ns[before] + 1
        begin[attempt] = end[before].max(initial=ALWAYS_NS)
        latest[endpoints] = attempt
    return begin, end


def _claims(
    attempts: Attempts, topology: Topology, known: Sequence[JobMemory], params: RecogniseParams
) -> dict[int, str]:
    """Return the identity of each attempt that is a part of a known job.

    It shares half of the endpoints of either with the job, and began before that was last seen, or nothing shows what
    it follows. Of attempts that follow one another the first is what was known; what the others are is still open.
    """
    claims: list[tuple[int, bool, int, str]] = []
    claimed: set[tuple[int, str]] = set()
    for attempt in np.argsort(attempts.first_ns, kind="stable").tolist():
        endpoints, before = attempts.members(attempt), int(attempts.follows[attempt])
        for memory in known:
            if memory.job.tenant != _tenant(endpoints, topology) or (before, memory.job.job_id) in claimed:
                continue
            shared = len(np.intersect1d(endpoints, memory.members.endpoint, assume_unique=True))
            at_one_time = bool(attempts.first_ns[attempt] <= memory.job.last_seen_ns)
            enough = shared > 0 and shared >= params.half * min(len(endpoints), len(memory.members))
            if enough and (at_one_time or before < 0):
                claims.append((shared, at_one_time, -attempt, memory.job.job_id))
                claimed.add((attempt, memory.job.job_id))
    identity: dict[int, str] = {}
    for _, _, attempt, job_id in sorted(claims, reverse=True):
        if -attempt not in identity and job_id not in identity.values():
            identity[-attempt] = job_id
    return identity


def _tenant(endpoints: Int32, topology: Topology) -> str:
    """Name the tenant of endpoints that edges join: these never cross tenants."""
    return topology.tenant_names[int(topology.tenant[endpoints[0]])]


def _first_bursts(attempts: Attempts) -> Int64:
    """Return the row of each attempt's earliest burst, of several the first, int64[attempts]."""
    rows = run_starts(attempts.of_burst, attempts.traffic.pair)  # bursts of a pair are in order
    attempt = attempts.of_burst[rows]
    is_first = attempts.traffic.start_ns[rows] == attempts.first_ns[attempt]
    first = np.zeros(len(attempts), dtype=np.int64)
    first[attempt[is_first][::-1]] = rows[is_first][::-1]
    return first


def _new_identity(attempts: Attempts, attempt: int, first: int, topology: Topology, taken: set[str]) -> str:
    """Derive a job's name from the row of its first burst: same flows, same name.

    What parts from a job that goes on under the name once given to these endpoints takes another.
    """
    traffic = attempts.traffic
    who = [topology.endpoints[end[traffic.pair[first]]] for end in (traffic.pair_src, traffic.pair_dst)]
    text = "\n".join([_tenant(attempts.members(attempt), topology), str(traffic.start_ns[first]), *who])
    while (name := "job-" + blake2b(text.encode(), digest_size=5).hexdigest()) in taken:
        text += "\n"
    return name
