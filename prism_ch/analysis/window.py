"""The analysis of one window: all that happens to its flows, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from prism_ch.analysis.apart import Apart
from prism_ch.analysis.continuity.continuity import Continued, JobsAround, continue_jobs, rebuild_job
from prism_ch.analysis.continuity.publish import (
    absorbed,
    job_revision,
    remember_findings,
    remember_window,
    silent_jobs,
    unchanged,
)
from prism_ch.analysis.continuity.resume import AttemptSteps
from prism_ch.analysis.continuity.unseen import holes_of, with_holes
from prism_ch.analysis.diagnose.context import ExaminedJob, JobContext
from prism_ch.analysis.diagnose.diagnose import diagnose
from prism_ch.analysis.diagnose.network.localise import NetworkView
from prism_ch.analysis.diagnose.network.sharing import join_shared
from prism_ch.analysis.diagnose.network.slow_network import find_slow_network
from prism_ch.analysis.diagnose.stops.missing_records import find_missing_records
from prism_ch.analysis.diagnose.stops.stop_findings import is_gap
from prism_ch.analysis.diagnose.stops.stops import find_connecting, find_standstills
from prism_ch.analysis.diagnose.stops.visibility import measure_visibility
from prism_ch.analysis.executor import Executor, Held, LocalExecutor, let_go
from prism_ch.analysis.incidents.incidents import find_incidents
from prism_ch.analysis.jobs.job_traffic import JobTraffic
from prism_ch.analysis.jobs.jobs import recognise
from prism_ch.analysis.jobs.tenants import with_right_tenants
from prism_ch.analysis.observe.holes import Hole
from prism_ch.analysis.observe.observe import Observed, WindowFlows, observe
from prism_ch.analysis.replay.attempts import graph_of, idle_of
from prism_ch.analysis.replay.pauses import with_pauses
from prism_ch.analysis.replay.what_if import ReplayedAttempt, find_what_ifs, lost_share
from prism_ch.model.finding import Finding
from prism_ch.model.job import RecognisedJob
from prism_ch.model.memory import JobFailure, JobRevision, WindowMemory, WindowRevision
from prism_ch.model.params import Params
from prism_ch.model.topology import Topology
from prism_ch.model.what_if import WhatIf

Output = TypeVar("Output")

#: Jobs examined side by side; more would hold more phases in memory than there are cores to make them.
_JOBS_AT_ONCE = 2
#: Jobs of fewer flows, on average, are examined one after the other: threads with short calls of numpy take turns at
#: the interpreter, and wait longer for it than they gain.
_FLOWS_OF_LARGE = 30_000

#: A value that an executor keeps, or the failure of its job.
Kept: TypeAlias = Held[Output | JobFailure]


@dataclass(frozen=True, slots=True)
class ShownJob:
    """A job that a window shows, held where it was examined, and what is slow in the network of each attempt.

    `around` holds what it is examined by, `holes` are the spans of which the window's records are missing.
    """

    job_id: str
    examined: Kept[ExaminedJob | None]
    network: tuple[tuple[Finding, ...], ...]
    around: Held[JobsAround]
    holes: tuple[Hole, ...]

    @property
    def given(self) -> tuple[object, ...]:
        """What its further stages are given."""
        return self.around, self.holes, self.examined, self.network


def examine(
    flows: WindowFlows, topology: Topology, params: Params, apart: Apart
) -> tuple[Observed, Continued, list[ShownJob]]:
    """Find the jobs in a window's flows, and rebuild their new steps.

    Jobs that fail are left out.
    Returns what the window shows, the attempts of its jobs, and what its detectors look at: see `analyse_window`, 1 to
    4.
    """
    seen, topology = with_right_tenants(observe(flows, topology, params), topology, params.recognise)
    around = JobsAround(seen.for_jobs(), topology, params)
    shared = apart.share(around)  # it may travel while jobs are recognised
    traffic = JobTraffic.of(seen, topology, params)
    seen = replace(seen, bursts=around.seen.bursts)
    attempts = recognise(traffic, seen.known.active, topology, params.recognise)
    continued, divided = continue_jobs(attempts, around, traffic, shared, apart)
    del traffic  # each job has its bursts
    seen = with_holes(seen, continued, params)
    names = [job[0].job_id for job in continued.jobs]
    given = [(shared, seen.holes, job, steps) for job, steps in zip(continued.jobs, divided, strict=True)]
    examined = apart.spread(_examined, names, given)
    views = apart.tell(_network_views, names, [(one,) for one in examined])
    shown = [(name, held, job) for name, held, job in zip(names, examined, views, strict=True) if job is not None]
    looked_at = [view for _, _, job in shown for view in job if view is not None]
    found = iter(find_slow_network(looked_at, topology) if looked_at else ())
    jobs = [
        ShownJob(name, held, tuple(() if view is None else next(found) for view in job), shared, seen.holes)
        for name, held, job in shown
    ]
    return seen, continued, jobs


def job_contexts(flows: WindowFlows, topology: Topology, params: Params, apart: Apart) -> list[JobContext]:
    """Return what detectors look at of each job in a window's flows. Jobs that fail are left out."""
    _, _, jobs = examine(flows, topology, params, apart)
    told = apart.tell(_in_context, [one.job_id for one in jobs], [one.given for one in jobs])
    return [one for one in told if one is not None]


def _examined(
    around: JobsAround,
    holes: tuple[Hole, ...],
    attempts: tuple[RecognisedJob, ...],
    steps: tuple[AttemptSteps, ...],
) -> ExaminedJob | None:
    """Rebuild a job's new steps. Returns None if the window holds nothing of it."""
    around = replace(around, seen=replace(around.seen, holes=holes))
    job = [replace(one, attempt=attempt) for one, attempt in zip(steps, attempts, strict=True)]
    rebuilt = rebuild_job(job, around, holes_of(job, around.seen, around.params))
    return None if rebuilt is None else ExaminedJob.of(rebuilt, around.seen, around.topology, around.params)


def _network_views(job: ExaminedJob | None) -> tuple[NetworkView | None, ...] | None:
    return None if job is None else job.look_at_network()


def _in_context(
    around: JobsAround, holes: tuple[Hole, ...], job: ExaminedJob, network: tuple[tuple[Finding, ...], ...]
) -> JobContext:
    seen = replace(around.seen, holes=holes)
    return job.among(seen, around.topology, around.params).with_network(network)


@dataclass(frozen=True, slots=True)
class DescribedJob:
    """What a window publishes of a job, and what its diagnosis tells of others.

    `shared`, `gaps` and `holes` are those of Diagnosis; `replays` are the attempts whose steps can be replayed.
    """

    revision: JobRevision
    shared: tuple[Finding, ...]
    gaps: tuple[Finding, ...]
    holes: tuple[Hole, ...]
    replays: tuple[ReplayedAttempt, ...]


def _described(
    around: JobsAround, holes: tuple[Hole, ...], examined: ExaminedJob, network: tuple[tuple[Finding, ...], ...]
) -> DescribedJob:
    """Diagnose what slows a job. Its steps are replayed as they were, if windows are to."""
    job = _in_context(around, holes, examined, network)
    found = diagnose(job)
    graphs = [graph_of(attempt) if attempt.params.replay.every_window else None for attempt in job.attempts]
    idle = [idle_of(attempt, graph) for attempt, graph in zip(job.attempts, graphs, strict=True)]
    still = found.stands_still
    revision = job_revision(
        found.job, around.seen.earlier, found.findings, found.usual_compute, idle, stands_still=still
    )
    pairs = zip(job.attempts, graphs, strict=True)
    replays = tuple(ReplayedAttempt.of(one, graph) for one, graph in pairs if graph is not None)
    revision = replace(revision, findings=with_pauses(revision.findings, replays))
    return DescribedJob(revision, found.shared, found.gaps, found.holes, replays)


def _without_replays(job: DescribedJob) -> DescribedJob:
    return replace(job, replays=())


def analyse_window(
    flows: WindowFlows,
    memory: WindowMemory,
    topology: Topology,
    params: Params,
    executor: Executor | None = None,
) -> tuple[WindowRevision, WindowMemory]:
    """Find the jobs in a window's flows, their groups and steps, and what slows them.

    Parameters: `flows`, those of the window and those before it that its jobs need (see lookback); `memory`, what was
    known before the window; `executor`, which works the jobs, by default some side by side in this process. Returns
    what to publish, and what is known after it. Pure: no clock, no database.

    1. Read the flows as bursts of payload, each once and by right clocks; correct tenants that they show to be wrong.
    2. Recognise the attempts of jobs among the endpoints.
    3. Divide the time of each into steps, and put those of one job together.
    4. Rebuild each job's new steps, and diagnose what slows them: of the network, by all jobs together.
    5. Settle what became of known jobs that the window does not show.
    6. Put findings together as incidents, over all jobs, and grade them by what they cost: a replay without them tells
       that of jobs that never were healthy.
    7. Replay the new steps of each job without what slows them, if windows are to.

    A job that fails in 3, 4, 5 or 7 stays as it was known, and is among the revision's failures.
    """
    apart = Apart(_threads(flows) if executor is None else executor)
    seen, continued, jobs = examine(flows, topology, params, apart)
    names = [one.job_id for one in jobs]
    # The traffic of each goes once it is described.
    held = apart.spread(_described, names, (one.given for one in let_go(jobs)))
    shown = [one for one in apart.tell(_without_replays, names, [(one,) for one in held]) if one is not None]
    replays = dict(zip(names, held, strict=True)) if params.replay.every_window else {}
    revisions = [one.revision for one in shown]
    # Some are both: not training by themselves, and part of what is.
    withdrawn = tuple(dict.fromkeys((*absorbed(seen.known.jobs, revisions), *continued.not_training)))
    settled = {*withdrawn, *(revision.job.job_id for revision in revisions)}
    left = [job for job in seen.known.jobs if job.job.job_id not in settled]
    stops = find_standstills(seen, topology, params, apart)
    active = {job.job.job_id for job in seen.known.active if job.job.status != "ended" and job.job.job_id not in apart}
    idle = [job for job in left if job.job.job_id in active]
    stops |= find_connecting(idle, seen, continued, topology, params, apart)
    holes = {hole for one in shown for hole in one.holes} | {
        hole for hole in seen.holes if hole.is_sure or (hole.was_known and hole.is_open)
    }
    gaps = {one.revision.job.job_id: one.gaps for one in shown}
    gaps |= {job_id: tuple(one for one in found if is_gap(one)) for job_id, found in stops.items()}
    stops = {job_id: tuple(one for one in found if not is_gap(one)) for job_id, found in stops.items()}
    known_jobs = [*revisions, *map(unchanged, left)]
    unseen = find_missing_records(holes, gaps, known_jobs, seen, topology, params)
    untold = [job for job in left if job.job.job_id not in apart]
    revisions.extend(silent_jobs(untold, seen.until_ns, stops, params.going_on, unseen))
    visibility = measure_visibility(known_jobs, unseen, seen)
    claims = [claim for one in shown for claim in one.shared]
    shared = join_shared(claims, seen.known.findings)
    revision = WindowRevision(tuple(revisions), withdrawn, (*shared, *unseen), seen.exporters, visibility=visibility)
    known = remember_window(memory, revision, seen.window, params.going_on, params.incident.quiet_s)

    def lost(job_id: str, finding: Finding) -> float | None:
        given = [(replays[job_id], finding)] if job_id in replays else []
        return next(iter(apart.tell(_lost_share, [job_id] * len(given), given)), None)

    revision = find_incidents(revision, memory, known, seen.window, topology, params.incident, lost)
    revision = replace(revision, jobs=_with_what_ifs(revision, replays, apart), failures=apart.failures)
    return revision, remember_findings(known, memory, revision, seen.window, params.going_on, params.incident.quiet_s)


def _threads(flows: WindowFlows) -> LocalExecutor:
    """Work large jobs side by side, and small ones one after the other."""
    are_large = len(flows.flows) >= _FLOWS_OF_LARGE * len(flows.known.active)
    return LocalExecutor(_JOBS_AT_ONCE if are_large else 1)


def _lost_share(job: DescribedJob, finding: Finding) -> float | None:
    """Return what share of its steps' time a finding costs, None if unknown."""
    shares = [lost_share(one, finding) for one in job.replays]
    return max((share for share in shares if share is not None), default=None)


def _with_what_ifs(
    revision: WindowRevision,
    replays: Mapping[str, Kept[DescribedJob]],
    apart: Apart,
) -> tuple[JobRevision, ...]:
    """Replay the new steps of each job without each finding that belongs to an incident."""
    named = {one.job.job_id: one for one in revision.jobs if one.job.job_id in replays}
    shared = _of_incidents(revision.findings)
    given = [(replays[name], _of_incidents(one.findings), shared) for name, one in named.items()]
    found = dict(zip(named, apart.tell(_what_ifs, list(named), given), strict=True))
    return tuple(replace(one, what_ifs=found.get(one.job.job_id) or ()) for one in revision.jobs)


def _what_ifs(job: DescribedJob, own: tuple[Finding, ...], shared: tuple[Finding, ...]) -> tuple[WhatIf, ...]:
    tenant = job.revision.job.tenant
    return tuple(one for attempt in job.replays for one in find_what_ifs(attempt, tenant, own, shared))


def _of_incidents(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(one for one in findings if one.incident_id)
