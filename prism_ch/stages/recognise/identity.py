"""Identity: which known job a life belongs to, and how a new one is named."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from prism_ch.model.columns import Int32, Int64
from prism_ch.model.jobset import ALWAYS_NS, FOREVER_NS, RecognisedJob
from prism_ch.model.params import RecogniseParams
from prism_ch.model.result import JobState
from prism_ch.model.topology import Topology
from prism_ch.stages.recognise.lives import Lives


def identify_jobs(
    lives: Lives, topology: Topology, known: Sequence[JobState], params: RecogniseParams
) -> list[RecognisedJob]:
    """Give each life the identity of the known job it is a part of, or a new one; most endpoints first."""
    identity = _claims(lives, topology, known, params)
    begin_ns, end_ns = _times(lives)
    name: list[str] = []
    taken = {state.job.job_id for state in known}
    for life in range(len(lives)):
        name.append(identity.get(life) or _new_identity(lives, life, topology, taken))
        taken.add(name[-1])
    found = [
        RecognisedJob(
            name[life],
            _tenant(lives.members(life), topology),
            lives.members(life),
            life in identity,
            int(begin_ns[life]),
            int(end_ns[life]),
            int(lives.first_ns[life]),
            name[before] if before >= 0 else "",
        )
        for life, before in enumerate(lives.follows.tolist())
    ]
    return sorted(found, key=lambda job: (-len(job.endpoints), job.begin_ns, job.job_id))


def _times(lives: Lives) -> tuple[Int64, Int64]:
    """Return since and until when traffic on the endpoints of each life is its own, int64[lives] each.

    From the end of the last that was there before, to its own end where another is there after it.
    """
    begin, end = np.full(len(lives), ALWAYS_NS), np.full(len(lives), FOREVER_NS)
    latest = np.full(int(lives.endpoint.max()) + 1, -1)
    for life in np.argsort(lives.first_ns, kind="stable").tolist():
        endpoints = lives.members(life)
        before = np.unique(latest[endpoints])
        before = before[(before >= 0) & (lives.last_ns[before] <= lives.first_ns[life])]
        end[before] = lives.last_ns[before] + 1
        begin[life] = end[before].max(initial=ALWAYS_NS)
        latest[endpoints] = life
    return begin, end


def _claims(lives: Lives, topology: Topology, known: Sequence[JobState], params: RecogniseParams) -> dict[int, str]:
    """Return the identity of each life that is a part of a known job.

    It shares half of the endpoints of either with the job, and began before that was last seen, or nothing shows what
    it follows. Of lives that follow one another the first is what was known; what the others are is not yet said.
    """
    claims: list[tuple[int, bool, int, str]] = []
    claimed: set[tuple[int, str]] = set()
    for life in np.argsort(lives.first_ns, kind="stable").tolist():
        endpoints, before = lives.members(life), int(lives.follows[life])
        for state in known:
            if state.job.tenant != _tenant(endpoints, topology) or (before, state.job.job_id) in claimed:
                continue
            shared = len(np.intersect1d(endpoints, state.members.endpoint, assume_unique=True))
            at_one_time = bool(lives.first_ns[life] <= state.job.last_seen_ns)
            enough = shared > 0 and shared >= params.identity_min * min(len(endpoints), len(state.members))
            if enough and (at_one_time or before < 0):
                claims.append((shared, at_one_time, -life, state.job.job_id))
                claimed.add((life, state.job.job_id))
    identity: dict[int, str] = {}
    for _, _, life, job_id in sorted(claims, reverse=True):
        if -life not in identity and job_id not in identity.values():
            identity[-life] = job_id
    return identity


def _tenant(endpoints: Int32, topology: Topology) -> str:
    """Name the tenant of a job's endpoints; edges never cross tenants."""
    return topology.tenant_names[int(topology.tenant[endpoints[0]])]


def _new_identity(lives: Lives, life: int, topology: Topology, taken: set[str]) -> str:
    """Derive a job's name from the first that is seen of it: the same flows give the same name.

    What parts from a job that goes on under the name once given to these endpoints takes another.
    """
    mine = np.flatnonzero(lives.of_burst == life)
    first = mine[np.argmin(lives.traffic.start_ns[mine])]
    who = [topology.endpoints[end[first]] for end in (lives.traffic.src, lives.traffic.dst)]
    text = "\n".join([_tenant(lives.members(life), topology), str(lives.traffic.start_ns[first]), *who])
    while (name := "job-" + blake2b(text.encode(), digest_size=5).hexdigest()) in taken:
        text += "\n"
    return name
