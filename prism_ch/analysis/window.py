"""The analysis of one window: all that happens to its flows, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from prism_ch.analysis.apart import Apart
from prism_ch.analysis.continuity.continuity import Continued, continue_jobs, rebuild_job
from prism_ch.analysis.continuity.publish import absorbed, job_revision, remember_window, silent_jobs, unchanged
from prism_ch.analysis.continuity.resume import AttemptSteps
from prism_ch.analysis.continuity.unseen import holes_of, with_holes
from prism_ch.analysis.diagnose.context import JobContext
from prism_ch.analysis.diagnose.diagnose import Diagnosis, diagnose
from prism_ch.analysis.diagnose.network.sharing import join_shared
from prism_ch.analysis.diagnose.stops.missing_records import find_missing_records
from prism_ch.analysis.diagnose.stops.stop_findings import is_gap
from prism_ch.analysis.diagnose.stops.stops import find_connecting, find_standstills
from prism_ch.analysis.diagnose.stops.visibility import measure_visibility
from prism_ch.analysis.incidents.incidents import find_incidents
from prism_ch.analysis.jobs.job_traffic import JobTraffic
from prism_ch.analysis.jobs.jobs import recognise
from prism_ch.analysis.jobs.tenants import with_right_tenants
from prism_ch.analysis.observe.observe import Observed, WindowFlows, observe
from prism_ch.analysis.replay.attempts import graph_of, idle_of
from prism_ch.analysis.replay.what_if import ReplayedAttempt, find_what_ifs, lost_share
from prism_ch.model.finding import Finding
from prism_ch.model.memory import JobRevision, WindowMemory, WindowRevision
from prism_ch.model.params import Params
from prism_ch.model.topology import Topology

#: Jobs examined side by side; more would hold more phases in memory than there are cores to make them.
_JOBS_AT_ONCE = 2


def examine(
    flows: WindowFlows, topology: Topology, params: Params, apart: Apart
) -> tuple[Observed, Continued, list[JobContext]]:
    """Find the jobs in a window's flows, and rebuild their new steps.

    Jobs that fail are left out.
    Returns what the window shows, the attempts of its jobs, and what its detectors look at: see `analyse_window`, 1 to
    4.
    """
    seen, topology = with_right_tenants(observe(flows, topology, params), topology, params.recognise)
    traffic = JobTraffic.of(seen, topology, params)
    attempts = recognise(traffic, seen.known.active, topology, params.recognise)

    def examined(job: Sequence[AttemptSteps]) -> JobContext | None:
        rebuilt = rebuild_job(job, traffic, seen.known, holes_of(job, seen, params), params)
        return None if rebuilt is None else JobContext.of(rebuilt, seen, topology, params)

    continued = continue_jobs(attempts, traffic, seen.known, topology, params, apart)
    seen = with_holes(seen, continued, params)
    jobs = apart.each(examined, continued.jobs, lambda job: job[0].attempt.job_id)
    return seen, continued, JobContext.with_network([one for one in jobs if one is not None], apart)


def analyse_window(
    flows: WindowFlows, memory: WindowMemory, topology: Topology, params: Params
) -> tuple[WindowRevision, WindowMemory]:
    """Find the jobs in a window's flows, their groups and steps, and what slows them.

    Parameters: `flows`, those of the window and those before it that its jobs need (see lookback); `memory`, what was
    known before the window. Returns what to publish, and what is known after it. Pure: no clock, no database.

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

    def described(job: JobContext) -> tuple[JobRevision, Diagnosis, tuple[ReplayedAttempt, ...]]:
        found = diagnose(job)
        graphs = [graph_of(attempt) if params.replay.every_window else None for attempt in job.attempts]
        idle = [idle_of(attempt, graph) for attempt, graph in zip(job.attempts, graphs, strict=True)]
        still = found.stands_still
        revision = job_revision(found.job, found.findings, found.usual_compute, idle, stands_still=still)
        pairs = zip(job.attempts, graphs, strict=True)
        return revision, found, tuple(ReplayedAttempt.of(one, graph) for one, graph in pairs if graph is not None)

    apart = Apart(_JOBS_AT_ONCE)
    seen, continued, jobs = examine(flows, topology, params, apart)
    shown = [one for one in apart.each(described, jobs, lambda job: job.job_id) if one is not None]
    revisions = [revision for revision, *_ in shown]
    # Some are both: not training by themselves, and part of what is.
    withdrawn = tuple(dict.fromkeys((*absorbed(seen.known.jobs, revisions), *continued.not_training)))
    settled = {*withdrawn, *(revision.job.job_id for revision in revisions)}
    left = [job for job in seen.known.jobs if job.job.job_id not in settled]
    stops = find_standstills(seen, topology, params, apart)
    active = {job.job.job_id for job in seen.known.active if job.job.status != "ended" and job.job.job_id not in apart}
    idle = [job for job in left if job.job.job_id in active]
    stops |= find_connecting(idle, seen, continued, topology, params, apart)
    holes = {hole for _, found, _ in shown for hole in found.holes} | {hole for hole in seen.holes if hole.is_sure}
    gaps = {found.job.job.job_id: found.gaps for _, found, _ in shown}
    gaps |= {job_id: tuple(one for one in found if is_gap(one)) for job_id, found in stops.items()}
    stops = {job_id: tuple(one for one in found if not is_gap(one)) for job_id, found in stops.items()}
    known_jobs = [*revisions, *map(unchanged, left)]
    unseen = find_missing_records(holes, gaps, known_jobs, seen, topology, params)
    untold = [job for job in left if job.job.job_id not in apart]
    revisions.extend(silent_jobs(untold, seen.until_ns, stops, params.going_on, unseen))
    visibility = measure_visibility(known_jobs, unseen, seen)
    claims = [claim for _, found, _ in shown for claim in found.shared]
    shared = join_shared(claims, seen.known.findings)
    revision = WindowRevision(tuple(revisions), withdrawn, (*shared, *unseen), seen.exporters, visibility=visibility)
    known = remember_window(memory, revision, seen.window, params.going_on, params.incident.quiet_s)
    replays = {one.job.job_id: attempts for one, _, attempts in shown}

    def lost(job_id: str, finding: Finding) -> float | None:
        shares = apart.each(lambda one: lost_share(one, finding), replays.get(job_id, ()), lambda _: job_id)
        return max((share for share in shares if share is not None), default=None)

    revision = find_incidents(revision, memory, known, seen.window, topology, params.incident, lost)
    replayed = apart.each(
        lambda one: _with_what_ifs(one, revision.findings, replays), revision.jobs, lambda one: one.job.job_id
    )
    told = tuple(one or without for one, without in zip(replayed, revision.jobs, strict=True))
    revision = replace(revision, jobs=told, failures=apart.failures)
    return revision, remember_window(memory, revision, seen.window, params.going_on, params.incident.quiet_s)


def _with_what_ifs(
    job: JobRevision,
    shared: Sequence[Finding],
    replays: Mapping[str, Sequence[ReplayedAttempt]],
) -> JobRevision:
    """Replay a job's new steps without each finding that belongs to an incident."""
    own, others = ([one for one in found if one.incident_id] for found in (job.findings, shared))
    attempts = replays.get(job.job.job_id, ())
    found = [one for attempt in attempts for one in find_what_ifs(attempt, job.job.tenant, own, others)]
    return replace(job, what_ifs=tuple(found))
