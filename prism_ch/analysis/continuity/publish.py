"""Publish what was found of jobs as rows, added to what was known of them, and remember it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from prism_ch.analysis.continuity.continuity import ContinuedJob, RebuiltAttempt
from prism_ch.analysis.observe.earlier import EarlierFlows
from prism_ch.analysis.roles.stage_order import add_groups
from prism_ch.core.arrays import order_by, run_lengths, run_starts
from prism_ch.core.pairs import PairIndex
from prism_ch.model.columns import Float64, Int32, Int64, UInt8
from prism_ch.model.exporter import ExporterHistory
from prism_ch.model.finding import Finding
from prism_ch.model.flow import FlowBatch
from prism_ch.model.incident import Incident
from prism_ch.model.job import GroupSet
from prism_ch.model.memory import (
    JobMemory,
    JobRevision,
    RememberedSteps,
    UsualComputeTime,
    WindowMemory,
    WindowRevision,
)
from prism_ch.model.params import ContinueParams
from prism_ch.model.result import (
    DP,
    OTHER,
    GpuIdle,
    GpuSteps,
    Group,
    JobRecord,
    JobStatus,
    Members,
    Pairs,
    Reconstruction,
    Steps,
)
from prism_ch.model.window import Window

#: Confidence in `other`, for pairs that carry no steady data.
_OTHER_CONFIDENCE = 0.5

#: Corrections of clocks, as they were known at different times, move one flow by no more than this.
_CLOCKS_NS = 10**9


def job_revision(
    found: ContinuedJob,
    earlier: EarlierFlows,
    findings: tuple[Finding, ...],
    usual_compute: UsualComputeTime,
    idle: Sequence[GpuIdle] = (),
    *,
    stands_still: bool = False,
) -> JobRevision:
    """Put all that a window shows of a job into rows.

    Parameters: `earlier`, what was seen before the window; `findings` on the job; `usual_compute`, how long its ranks
    compute, to be remembered; `idle`, of the new GPU-steps of each of its attempts.
    """
    before, last = found.before, found.attempts[-1]
    pairs = _pairs(found, earlier)
    first_seen = int(pairs.first_seen_ns.min())
    if found.memory is not None:
        first_seen = min(first_seen, found.memory.job.first_seen_ns)
    whole = found.steps.take(found.steps.complete == 1)
    dp_sizes = [len(group.members) for group in last.groups.groups if group.kind == DP]
    first_new = 0 if before is None else int(before.steps.step[-1]) + 1
    rebuilt = Reconstruction.concat([attempt.rebuilt for attempt in found.attempts])
    record = JobRecord(
        found.job.job_id,
        found.job.tenant,
        "stalled" if stands_still else "running",
        first_seen,
        int(pairs.last_seen_ns.max()),
        int(np.median(dp_sizes)) if dp_sizes else 1,
        int(last.groups.pp_stage.max(initial=0)) + 1,
        first_new + len(rebuilt.steps),
        float(np.median(whole.duration_s)) if len(whole) else 0.0,
    )
    groups = () if before is None else before.groups
    for attempt in found.attempts:
        groups = add_groups(groups, attempt.groups)
    return JobRevision(
        record,
        _members(found, groups, pairs),
        pairs,
        groups,
        first_new,
        0 if before is None else int(before.steps.end_ns[-1]),
        rebuilt.steps,
        rebuilt.gpu_steps,
        rebuilt.timeline,
        findings,
        found.newest,
        usual_compute,
        _idle_of(found, idle),
    )


def _idle_of(found: ContinuedJob, idle: Sequence[GpuIdle]) -> GpuIdle:
    """Put the idle times of attempts into the order of the job's GPU-steps."""
    if not idle:
        return GpuIdle.empty()
    rows = GpuSteps.concat([attempt.rebuilt.gpu_steps for attempt in found.attempts])
    return GpuIdle.concat(idle).take(order_by(rows.endpoint, rows.step))


def silent_jobs(
    memories: Sequence[JobMemory],
    until_ns: int,
    stops: Mapping[str, tuple[Finding, ...]],
    params: ContinueParams,
    unseen: Sequence[Finding] = (),
) -> list[JobRevision]:
    """Publish jobs without traffic in a window that are newly stalled or ended.

    Parameters: `stops`, by job_id, the findings on jobs that stand still, or seem to; `unseen`, findings on missing
    records: what they hide is neither. A job of which no whole step is known yet may be in the middle of a long one: it
    is never called stalled. An ended job has no open finding.
    """
    changed = []
    hidden = {job_id for one in unseen if one.status == "open" and not one.baseline.jobs for job_id in one.jobs}
    for memory in memories:
        found = stops.get(memory.job.job_id, ())
        if memory.job.job_id in hidden and not found:
            continue
        status = _status(memory, until_ns, found, params)
        if status == "ended":
            found = tuple(finding.of_ended_job() for finding in memory.findings)
        if status != memory.job.status or (found and status != "ended"):
            job = replace(memory.job, status=status)
            changed.append(replace(unchanged(memory), job=job, findings=found or memory.findings))
    return changed


def _status(memory: JobMemory, until_ns: int, found: Sequence[Finding], params: ContinueParams) -> JobStatus:
    silent_s = (until_ns - memory.job.last_seen_ns) / 1e9
    step_s = memory.job.step_s_median
    stalled_s = params.repeats * max(step_s, 1.0) if step_s > 0 else params.ended_after_s
    if silent_s > max(params.ended_after_s, stalled_s):
        return "ended"
    stands = any(finding.kind in ("stall", "hang") and finding.status == "open" for finding in found)
    return "stalled" if stands or silent_s > stalled_s else memory.job.status


def absorbed(memories: Sequence[JobMemory], revisions: Sequence[JobRevision]) -> tuple[str, ...]:
    """Name the known jobs that turned out to be parts of others.

    A pipeline repeats within one step, and shows before the gradients that join it to the others of its job. Such a
    part is published anew with the whole: a job that began no later and holds all of its endpoints.
    """
    shown = {revision.job.job_id for revision in revisions}
    return tuple(
        memory.job.job_id
        for memory in memories
        if memory.job.job_id not in shown
        and any(
            max(whole.job.first_seen_ns, whole.from_time_ns) <= memory.job.first_seen_ns
            and np.isin(memory.members.endpoint, whole.members.endpoint).all()
            for whole in revisions
        )
    )


def unchanged(memory: JobMemory) -> JobRevision:
    """Publish a job as it was known before, which withdraws steps published later."""
    return JobRevision(
        memory.job,
        memory.members,
        memory.pairs,
        memory.groups,
        memory.job.steps,
        memory.job.last_seen_ns,
        findings=memory.findings,
        attempt=memory.attempt,
        usual_compute=memory.usual_compute,
    )


def _pairs(found: ContinuedJob, earlier: EarlierFlows) -> Pairs:
    """Count what every pair moved, added to what was counted before."""
    pairs = _count_pairs(found.flows.batch(), found.attempts)
    basis = found.memory if found.memory is not None and found.memory.is_unresolved else found.before
    if basis is None or len(basis.pairs) == 0:
        return pairs
    # All until the job was last seen is counted already, but for pairs whose ends were not yet in it. Clocks may have
    # been corrected since.
    known, counted = basis.pairs, earlier.between(found.endpoints, *found.span_ns)
    was_in = PairIndex.of(known.src, known.dst).holds(counted.src, counted.dst)
    counted = counted.take(was_in & (counted.end_ns <= basis.job.last_seen_ns + _CLOCKS_NS))
    return _add_pairs(known, _without(pairs, _count_pairs(counted, found.attempts)), found.newest.begin_ns)


def _count_pairs(flows: FlowBatch, attempts: Sequence[RebuiltAttempt]) -> Pairs:
    """Count every directed pair of a batch sorted by (src, dst); unidentified ones are `other`."""
    first = run_starts(flows.src, flows.dst)
    if len(first) == 0:
        return Pairs.empty()
    src, dst = flows.src[first], flows.dst[first]
    kind, confidence = _kinds_of(src, dst, attempts)
    confidence[(kind == OTHER) & ((confidence == 0) | (confidence > _OTHER_CONFIDENCE))] = _OTHER_CONFIDENCE
    return Pairs(
        src,
        dst,
        kind,
        confidence,
        run_lengths(first, len(flows)),
        np.add.reduceat(flows.bytes, first),
        np.minimum.reduceat(flows.start_ns, first),
        np.maximum.reduceat(flows.end_ns, first),
    )


def _kinds_of(src: Int32, dst: Int32, attempts: Sequence[RebuiltAttempt]) -> tuple[UInt8, Float64]:
    """Return the kind of each directed pair and the confidence in it, [n] each.

    It is that of the newest attempt in which the pair carries training; `other` where none shows it.
    """
    kind, confidence = np.full(len(src), OTHER, dtype=np.uint8), np.full(len(src), _OTHER_CONFIDENCE)
    for attempt in attempts:
        row = PairIndex.of(attempt.bursts.pair_src, attempt.bursts.pair_dst).rows_of(src, dst)
        carried = np.flatnonzero(row >= 0)  # none of an attempt whose traffic is too old to be read again
        newer = carried[(attempt.kinds.kind[row[carried]] != OTHER) | (kind[carried] == OTHER)]
        kind[newer], confidence[newer] = attempt.kinds.kind[row[newer]], attempt.kinds.confidence[row[newer]]
    return kind, confidence


def _without(pairs: Pairs, counted: Pairs) -> Pairs:
    """Subtract what was counted before, and leave out pairs with nothing new.

    An observation that comes to others of its flow may be the one that is elected: it changes counts, and adds none.
    """
    place = PairIndex.of(pairs.src, pairs.dst).rows_of(counted.src, counted.dst)
    flows, volume = pairs.flows.copy(), pairs.bytes.copy()
    flows[place] -= counted.flows
    volume[place] -= counted.bytes
    return replace(pairs, flows=flows, bytes=volume).take((flows != 0) | (volume != 0))


def _add_pairs(before: Pairs, now: Pairs, begin_ns: int) -> Pairs:
    """Add this window's counts to what was counted before.

    Kinds found now win, unless a pair carries no training any more that carried some before the newest attempt, which
    began at `begin_ns`.
    """
    both = Pairs.concat([now, before])
    untyped = both.kind == OTHER
    untyped[len(now) :] |= before.first_seen_ns >= begin_ns
    order = np.lexsort((untyped, both.dst, both.src))  # stable: of equals, what was found now comes first
    both = both.take(order)
    first = run_starts(both.src, both.dst)
    return replace(
        both.take(first),
        flows=np.add.reduceat(both.flows, first),
        bytes=np.add.reduceat(both.bytes, first),
        first_seen_ns=np.minimum.reduceat(both.first_seen_ns, first),
        last_seen_ns=np.maximum.reduceat(both.last_seen_ns, first),
    )


def _members(found: ContinuedJob, groups: tuple[Group, ...], pairs: Pairs) -> Members:
    """List the members of all attempts, each with its place in its newest one.

    A member without a group has a number beyond those of the groups.
    """
    newest_first = found.attempts[::-1]
    parts: list[GroupSet | Members] = [attempt.groups for attempt in newest_first]
    endpoints = [attempt.groups.endpoints for attempt in newest_first]
    if found.before is not None and found.newest.first_step:
        parts.append(found.before.members)
        endpoints.append(found.before.members.endpoint)
    endpoint, row = np.unique(np.concatenate(endpoints), return_index=True)  # the first of each: its newest attempt
    dp_group = np.concatenate([part.dp_group for part in parts])[row]
    grouped = {(member, group.group_id) for group in groups if group.kind == DP for member in group.members}
    alone = [place not in grouped for place in zip(endpoint.tolist(), dp_group.tolist(), strict=True)]
    dp_group[alone] = len(groups) + np.arange(sum(alone))
    first, last = _seen(endpoint.astype(np.int64), pairs)
    return Members(endpoint, dp_group, np.concatenate([part.pp_stage for part in parts])[row], first, last)


def _seen(endpoints: Int64, pairs: Pairs) -> tuple[Int64, Int64]:
    """Return when each endpoint first and last exchanged anything with another member."""
    size = int(max(endpoints.max(initial=0), pairs.src.max(initial=0), pairs.dst.max(initial=0))) + 1
    first, last = np.full(size, np.iinfo(np.int64).max), np.zeros(size, dtype=np.int64)
    for side in (pairs.src, pairs.dst):
        np.minimum.at(first, side, pairs.first_seen_ns)
        np.maximum.at(last, side, pairs.last_seen_ns)
    return first[endpoints], last[endpoints]


def remember_window(
    memory: WindowMemory, revision: WindowRevision, window: Window, params: ContinueParams, quiet_s: int
) -> WindowMemory:
    """Return what is known after a window."""
    jobs = {job.job.job_id: job for job in memory.jobs if job.job.job_id not in revision.withdrawn}
    for one in revision.jobs:
        jobs[one.job.job_id] = _remember_job(jobs.get(one.job.job_id), one, params)
    exporters = memory.exporters.followed_by(revision.exporters, window.start_ns)
    return _with_findings(jobs.values(), exporters, memory, revision, window, quiet_s)


def remember_findings(
    known: WindowMemory,
    memory: WindowMemory,
    revision: WindowRevision,
    window: Window,
    params: ContinueParams,
    quiet_s: int,
) -> WindowMemory:
    """Return what is known after a window whose findings were judged since.

    Parameters: `known`, what remember_window() gave of the revision before that; `memory`, what was known before the
    window; `revision`, with the incidents.
    """
    before = {job.job.job_id: job for job in memory.jobs}
    judged = {one.job.job_id: one for one in revision.jobs}
    jobs = [
        _with_judged(job, before.get(job.job.job_id), judged[job.job.job_id], params)
        if job.job.job_id in judged
        else job
        for job in known.jobs
    ]
    return _with_findings(jobs, known.exporters, memory, revision, window, quiet_s)


def _with_findings(
    jobs: Iterable[JobMemory],
    exporters: ExporterHistory,
    memory: WindowMemory,
    revision: WindowRevision,
    window: Window,
    quiet_s: int,
) -> WindowMemory:
    """Put jobs together with what is known after a window about no single one."""
    findings = {one.diagnosis_id: one for one in (*memory.findings, *revision.findings)}
    in_order = tuple(sorted(jobs, key=lambda job: job.job.job_id))
    incidents = _recent((*memory.incidents, *revision.incidents), in_order, window.end_ns - quiet_s * 10**9)
    return WindowMemory(in_order, _still_open(findings.values()), exporters, incidents)


def _recent(known: Iterable[Incident], jobs: Iterable[JobMemory], since_ns: int) -> tuple[Incident, ...]:
    """Return incidents that are open, ended since or of remembered pauses, in order."""
    whole = {one.incident_id: one for one in known if not one.tenant}
    of_pauses = {pause.incident_id for job in jobs for pause in job.pauses}
    kept = (
        one
        for one in whole.values()
        if not one.is_withdrawn and (one.status == "open" or one.end_ns >= since_ns or one.incident_id in of_pauses)
    )
    return tuple(sorted(kept, key=lambda one: (one.start_ns, one.incident_id)))


def _remember_job(before: JobMemory | None, revision: JobRevision, params: ContinueParams) -> JobMemory:
    steps, gpu_steps = revision.steps, revision.gpu_steps
    if before is not None:
        past = Steps.concat([before.baseline_steps, before.steps])
        steps = Steps.concat([past.take(past.step < revision.from_step), steps])
        known_of_gpus = before.gpu_steps.take(before.gpu_steps.step < revision.from_step)
        gpu_steps = GpuSteps.concat([known_of_gpus, gpu_steps])
    newest, baseline = RememberedSteps.of(revision.job, params).parts(steps)
    gpu_steps = gpu_steps.take(np.isin(gpu_steps.step, newest.step))
    known = JobMemory(
        revision.job,
        revision.members,
        revision.pairs,
        revision.groups,
        newest,
        gpu_steps.take(order_by(gpu_steps.endpoint, gpu_steps.step)),
        (),
        baseline,
        revision.attempt,
        revision.usual_compute,
    )
    return _with_judged(known, before, revision, params)


def _with_judged(
    known: JobMemory, before: JobMemory | None, revision: JobRevision, params: ContinueParams
) -> JobMemory:
    """Return a job as a window leaves it, with its findings as they are published."""
    earlier = () if before is None else (*before.pauses, *before.findings)
    stays = (one for one in earlier if one.start_ns < revision.from_time_ns)
    findings = {one.diagnosis_id: one for one in (*stays, *revision.findings)}
    pauses = RememberedSteps.of(revision.job, params).pauses(findings.values())
    return replace(known, findings=_still_open(findings.values()), pauses=pauses)


def _still_open(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    going = (one for one in findings if one.status == "open")
    return tuple(sorted(going, key=Finding.order))
