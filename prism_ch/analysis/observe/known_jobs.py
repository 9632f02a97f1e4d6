"""Which known jobs a window's flows may be of, and which flows are of attempts that are over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.model.columns import Bool, Int64
from prism_ch.model.finding import Finding
from prism_ch.model.flow import FlowBatch
from prism_ch.model.job import ALWAYS_NS, FOREVER_NS
from prism_ch.model.memory import JobMemory, WindowMemory
from prism_ch.model.params import ContinueParams
from prism_ch.model.topology import Topology
from prism_ch.model.window import Window


@dataclass(frozen=True, slots=True)
class KnownJobs:
    """The jobs known before a window, by what it shows of them.

    `active` may have moved something in it; on the endpoints of `resting`, which are not long gone, nothing ended.
    `findings` are those about no single job that were open.
    """

    jobs: tuple[JobMemory, ...]
    active: tuple[JobMemory, ...]
    resting: tuple[JobMemory, ...]
    findings: tuple[Finding, ...]

    @classmethod
    def of(
        cls, memory: WindowMemory, window: Window, flows: FlowBatch, topology: Topology, params: ContinueParams
    ) -> KnownJobs:
        """Find what a window shows of known jobs; earlier flows may be among its own."""
        resting = _resting_jobs(memory.jobs, flows, window.start_ns, params)
        own = flows.take((flows.end_ns >= window.start_ns) & ~_between_members(flows, resting))
        active = examined_together(active_jobs(memory.jobs, own), topology, params)
        newest = {job.job.job_id: job for job in active}
        known = tuple(newest.get(job.job.job_id, job) for job in memory.jobs)
        return cls(known, active, tuple(resting), memory.findings)

    def get(self, job_id: str) -> JobMemory | None:
        """Return what is known of a job."""
        return next((job for job in self.jobs if job.job.job_id == job_id), None)

    def without_resting(self, flows: FlowBatch) -> FlowBatch:
        """Leave out flows between two members of the same job at rest."""
        return flows.take(~_between_members(flows, self.resting)) if self.resting else flows

    def without_past(self, flows: FlowBatch) -> FlowBatch:
        """Leave out flows of jobs and attempts that are over."""
        past = of_past_attempts(flows, self.jobs, self.active)
        return flows.take(~past) if past.any() else flows

    def without_settled_past(
        self, flows: FlowBatch, window: Window, margin_ns: int, params: ContinueParams
    ) -> FlowBatch:
        """Leave out flows of settled jobs from before the steps that are looked at.

        Parameters: `margin_ns`, how far clocks may be off. A flow is looked at as long as both of its ends are.
        """
        settled = [job for job in self.active if job.is_settled(params)]
        if not settled:
            return flows
        from_ns = [min(job.context_start_ns(params) - margin_ns, window.start_ns) for job in settled]
        since_ns = first_looked_at_ns(settled, from_ns, 1 + _last_endpoint(flows, self.jobs))
        since_ns[since_ns == FOREVER_NS] = ALWAYS_NS
        kept = flows.end_ns >= np.maximum(since_ns[flows.src], since_ns[flows.dst])
        return flows if kept.all() else flows.take(kept)


def first_looked_at_ns(jobs: Iterable[JobMemory], from_ns: Iterable[int], endpoints: int) -> Int64:
    """Return since when each endpoint is looked at as a member of some jobs.

    It is int64[endpoints], FOREVER_NS of those in none.
    Parameters: `from_ns`, since when each job is.
    """
    since_ns = np.full(endpoints, FOREVER_NS)
    for job, job_ns in zip(jobs, from_ns, strict=True):
        since_ns[job.members.endpoint] = np.minimum(since_ns[job.members.endpoint], job_ns)
    return since_ns


def active_jobs(known: Sequence[JobMemory], flows: FlowBatch) -> list[JobMemory]:
    """Return the jobs last seen on an endpoint of some flows."""
    active = _endpoints_of(flows, known)
    latest = np.zeros(len(active), dtype=np.int64)
    for job in known:
        np.maximum.at(latest, job.members.endpoint, job.members.last_seen_ns)
    return [
        job
        for job in known
        if (active[job.members.endpoint] & (job.members.last_seen_ns >= latest[job.members.endpoint])).any()
    ]


def examined_together(active: Sequence[JobMemory], topology: Topology, params: ContinueParams) -> tuple[JobMemory, ...]:
    """Let young jobs be looked at again with others on their servers.

    They may be parts of one, which only shows where both are looked at from their beginning.
    """
    jobs = list(active)
    anew = np.zeros(len(topology.server_names), dtype=bool)
    left = [row for row, job in enumerate(jobs) if job.attempt.is_young(params)]
    while rows := [row for row in left if _is_on(anew, jobs[row], topology) or not jobs[row].is_settled(params)]:
        for row in rows:
            anew[topology.server[jobs[row].members.endpoint]] = True
            if jobs[row].is_settled(params):
                jobs[row] = replace(jobs[row], attempt=replace(jobs[row].attempt, examined=0))
        left = [row for row in left if row not in rows]
    return tuple(jobs)


def _is_on(servers: Bool, job: JobMemory, topology: Topology) -> bool:
    return bool(servers[topology.server[job.members.endpoint]].any())


def of_past_attempts(flows: FlowBatch, known: Sequence[JobMemory], active: Iterable[JobMemory]) -> Bool:
    """Mask the flows of jobs and attempts that are over, bool[n].

    Parameters: `known`, all jobs before the window, and those of them that are `active` in it.
    """
    mask = np.zeros(len(flows), dtype=bool)
    going_on = {job.job.job_id for job in active}
    earliest_ns = int(flows.end_ns.min(initial=FOREVER_NS))
    for job in known:
        over_ns = job.attempt.begin_ns if job.job.job_id in going_on else _over_ns(job)
        if over_ns <= earliest_ns:
            continue
        rows = flows.rows_between(job.members.endpoint)
        mask[rows[flows.end_ns[rows] < over_ns]] = True
    return mask


def _resting_jobs(known: Sequence[JobMemory], flows: FlowBatch, at_ns: int, params: ContinueParams) -> list[JobMemory]:
    """Return the jobs, not long gone, whose endpoints rest from `at_ns` on."""
    active = _endpoints_of(flows.take(flows.end_ns >= at_ns), known)
    return [
        job
        for job in known
        if job.job.status != "ended"
        and len(job.steps)
        and at_ns - job.job.last_seen_ns < params.ended_after_s * 10**9
        and not active[job.members.endpoint].any()
    ]


def _between_members(flows: FlowBatch, jobs: Sequence[JobMemory]) -> Bool:
    mask = np.zeros(len(flows), dtype=bool)
    for job in jobs:
        mask[flows.rows_between(job.members.endpoint)] = True
    return mask


def _over_ns(job: JobMemory) -> int:
    """Return the end of the step that an ended job may have begun last."""
    if len(job.steps) == 0:
        return job.job.last_seen_ns + 1
    step_ns = int(np.median(job.steps.end_ns - job.steps.start_ns))
    return min(job.job.last_seen_ns, int(job.steps.end_ns[-1]) + step_ns) + 1


def _endpoints_of(flows: FlowBatch, jobs: Sequence[JobMemory]) -> Bool:
    touched = np.zeros(1 + _last_endpoint(flows, jobs), dtype=bool)
    touched[flows.src] = touched[flows.dst] = True
    return touched


def _last_endpoint(flows: FlowBatch, jobs: Sequence[JobMemory]) -> int:
    columns = (flows.src, flows.dst, *(job.members.endpoint for job in jobs))
    return max(int(column.max(initial=-1)) for column in columns)
