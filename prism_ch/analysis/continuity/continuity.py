"""Which attempts are one job, and where its steps go on from those that were published."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from prism_ch.analysis.apart import Apart
from prism_ch.analysis.continuity import resume
from prism_ch.analysis.continuity.resume import AttemptSteps, divide_attempt
from prism_ch.analysis.continuity.same_job import Load, join_attempts
from prism_ch.analysis.executor import Held
from prism_ch.analysis.jobs.job_traffic import JobTraffic
from prism_ch.analysis.jobs.lockstep import join_lockstep, may_be_one
from prism_ch.analysis.observe.holes import Hole, unseen
from prism_ch.analysis.observe.observe import Observed
from prism_ch.analysis.roles.stage_order import add_groups, number_after, order
from prism_ch.analysis.steps.phases import lateness_s, reconstruct
from prism_ch.core.arrays import distinct
from prism_ch.model.columns import Float64, Int32, Int64
from prism_ch.model.flow_cut import FlowCut
from prism_ch.model.job import Division, GroupSet, PairKinds, RecognisedJob
from prism_ch.model.memory import Attempt, JobFailure, JobMemory
from prism_ch.model.params import Params
from prism_ch.model.result import OTHER, GpuSteps, Group, Reconstruction, Steps
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class RebuiltAttempt:
    """One attempt of a job as a window shows it.

    `division` holds all steps looked at; the new ones, from number `first_new` on, are in `rebuilt`. `groups` are
    numbered after those of earlier attempts. `lateness_s` float64[endpoints, steps], see phases, is of all steps of the
    division. `is_settled`: it goes on from enough known steps.
    """

    attempt: RecognisedJob
    traffic: JobTraffic
    kinds: PairKinds
    division: Division
    groups: GroupSet
    first_new: int
    rebuilt: Reconstruction
    lateness_s: Float64
    is_settled: bool = False

    @property
    def bursts(self) -> Traffic:
        """Its bursts."""
        return self.traffic.bursts

    @property
    def first_step(self) -> int:
        """The number of the division's first step."""
        return self.first_new - self.division.steps + len(self.rebuilt.steps)


@dataclass(frozen=True, slots=True)
class ContinuedJob:
    """A job that a window shows, from what is known of it to its new steps.

    `job` is its last attempt under the job's name, `newest` what is to be remembered of that; `flows` are those of all
    attempts. `steps` and `gpu_steps` are those known before that stay, and the new ones.
    `memory` is what was known of it, `before` the part of it that stays, None where all is found again. `holes` are the
    spans of which its records are missing.
    """

    job: RecognisedJob
    flows: FlowCut
    attempts: tuple[RebuiltAttempt, ...]
    newest: Attempt
    steps: Steps
    gpu_steps: GpuSteps
    memory: JobMemory | None
    before: JobMemory | None
    holes: tuple[Hole, ...] = ()

    @property
    def endpoints(self) -> Int32:
        """Those of all attempts, int32[n], rising."""
        return _endpoints([one.attempt for one in self.attempts])

    @property
    def span_ns(self) -> tuple[int, int]:
        """From the begin of the first attempt to the end of the last one."""
        return self.attempts[0].attempt.begin_ns, self.attempts[-1].attempt.end_ns


def _endpoints(attempts: Iterable[RecognisedJob]) -> Int32:
    return np.unique(np.concatenate([one.endpoints for one in attempts]))


@dataclass(frozen=True, slots=True)
class JobsAround:
    """What each job of a window is examined by: all that the window shows but the bursts, of which each has its own."""

    seen: Observed
    topology: Topology
    params: Params


#: The steps of an attempt, held where they were found.
HeldSteps: TypeAlias = Held[AttemptSteps | JobFailure | None]


@dataclass(frozen=True, slots=True)
class Continued:
    """The attempts of each job that a window shows, all `attempts` of it, and known jobs that are `not_training`."""

    jobs: tuple[tuple[RecognisedJob, ...], ...]
    attempts: tuple[RecognisedJob, ...]
    not_training: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Outline:
    """What other attempts are compared with: when steps end, int64[steps], and how much they move."""

    end_ns: Int64
    load: Load | None


def continue_jobs(
    attempts: Sequence[RecognisedJob],
    around: JobsAround,
    traffic: JobTraffic,
    shared: Held[JobsAround],
    apart: Apart,
) -> tuple[Continued, list[tuple[HeldSteps, ...]]]:
    """Divide attempts into steps, and put those of each job together.

    Parameters: `traffic` of all jobs; `shared` holds what is `around` them.

    1. Divide the time of each attempt into steps.
    2. Join attempts whose steps keep their distance: they are parts of one, divided again as a whole.
    3. Put the attempts of each job together, in order.

    An attempt that fails is left out.
    Returns the attempts, and the steps of those of each job.
    """
    known, params = around.seen.known, around.params
    moved = apart.share(traffic.without_flows())
    steps, outlines = _divide_each(attempts, shared, moved, apart)
    ends = [np.empty(0, dtype=np.int64) if one is None else one.end_ns for one in outlines]
    bursts = _compared_bursts(attempts, steps, around, traffic, apart)
    wholes, parts = join_lockstep(attempts, ends, known.jobs, around.topology, params.recognise, bursts)
    several = [whole for whole, rows in zip(wholes, parts, strict=True) if len(rows) > 1]
    again = zip(*_divide_each(several, shared, moved, apart), strict=True)
    joined = [(steps[rows[0]], outlines[rows[0]]) if len(rows) == 1 else next(again) for rows in parts]
    training = [
        (whole, held, outline.load)
        for whole, (held, outline) in zip(wholes, joined, strict=True)
        if outline is not None
    ]
    jobs = join_attempts(
        [one for one, _, _ in training], [load for _, _, load in training], params.recognise.half, params.going_on
    )
    idle = [whole.job_id for whole, (_, outline) in zip(wholes, joined, strict=True) if outline is None and whole.known]
    not_training = tuple(job_id for job_id in idle if job_id not in apart)
    of_jobs = tuple(tuple(training[row][0] for row in job) for job in jobs)
    return Continued(of_jobs, tuple(wholes), not_training), [tuple(training[row][1] for row in job) for job in jobs]


def _divide_each(
    attempts: Sequence[RecognisedJob], shared: Held[JobsAround], moved: Held[JobTraffic], apart: Apart
) -> tuple[Sequence[HeldSteps], list[_Outline | None]]:
    """Divide attempts into steps. Their outlines are None where they fail or are no training."""
    names = [attempt.job_id for attempt in attempts]
    steps = apart.spread(_divided, names, [(attempt, shared, moved) for attempt in attempts])
    return steps, apart.tell(_outline, names, [(one,) for one in steps])


def _divided(attempt: RecognisedJob, around: JobsAround, moved: JobTraffic) -> AttemptSteps | None:
    known = around.seen.known
    missing = (one.baseline for one in known.findings if one.status == "open" and one.baseline.records_missing)
    is_hidden = any(attempt.job_id in one.jobs for one in missing)
    moved, memory = moved.with_flows(around.seen), known.get(attempt.job_id)
    return divide_attempt(attempt, moved, memory, around.topology, around.params, is_hidden=is_hidden)


def _outline(one: AttemptSteps | None) -> _Outline | None:
    if one is None:
        return None
    return _Outline(one.division.job_end_ns(), one.load)


def _compared_bursts(
    attempts: Sequence[RecognisedJob],
    steps: Sequence[HeldSteps],
    around: JobsAround,
    traffic: JobTraffic,
    apart: Apart,
) -> dict[int, Traffic]:
    """Return the bursts of attempts that may be parts of one, by row. Most are on servers of their own."""
    pairs = may_be_one(attempts, around.seen.known.jobs, around.topology, around.params.recognise)
    compared = distinct(np.concatenate(pairs)).tolist()
    typed = apart.tell(_typed_bursts, [attempts[row].job_id for row in compared], [(steps[row],) for row in compared])
    return {
        row: _recurring_bursts(attempts[row], traffic) if bursts is None else bursts
        for row, bursts in zip(compared, typed, strict=True)
    }


def _typed_bursts(one: AttemptSteps | None) -> Traffic | None:
    return None if one is None else one.bursts.take(one.kinds.burst != OTHER)


def _recurring_bursts(attempt: RecognisedJob, traffic: JobTraffic) -> Traffic:
    """Return the bursts of an attempt without steps: those of its recurring pairs."""
    seen = traffic.within(attempt.endpoints, attempt.begin_ns, attempt.end_ns)
    return seen.bursts.keep_pairs(seen.recurring)


def rebuild_job(job: Sequence[AttemptSteps], around: JobsAround, holes: Sequence[Hole]) -> ContinuedJob | None:
    """Give a job's new steps the next numbers, and rebuild their phases.

    Parameters: `job`, its attempts in order; `holes`, the spans of which its records are missing: steps that one cuts
    are not whole. Returns None if the window holds nothing of the job.
    """
    seen, params = around.seen, around.params
    memory = seen.known.get(job[0].attempt.job_id)
    endpoints = _endpoints(one.attempt for one in job)
    span_ns = job[0].attempt.begin_ns, job[-1].attempt.end_ns
    begin_ns, end_ns = span_ns
    if FlowCut(seen.looked_at, endpoints, max(begin_ns, seen.window.start_ns), end_ns).is_empty():
        return None
    before = resume.what_stays(memory, params.going_on)
    steps, gpu_steps = (Steps.empty(), GpuSteps.empty()) if before is None else (before.steps, before.gpu_steps)
    groups: tuple[Group, ...] = () if before is None else before.groups
    newest = Attempt() if memory is None else memory.attempt
    attempts: list[RebuiltAttempt] = []
    for one in job:
        settled = one is job[0] and memory is not None and memory.is_settled(params.going_on)
        if memory is not None and settled:
            new = resume.go_on(one.division, memory, params.going_on)
        else:
            new = resume.begin_anew(one.division, steps, gpu_steps)
        if one is not job[0]:
            newest = Attempt(new.first_step, one.attempt.begin_ns, len(groups))
        newest = replace(newest, even_until=one.even_until)
        if not settled:
            examined = resume.examined_steps(one, params.going_on)
            newest = replace(newest, examined=examined, is_plain=one.is_plain)
        new = _with_unseen(new, one.division, holes)
        attempts.append(_rebuild(one, new, groups, around.topology, is_settled=settled))
        rebuilt = attempts[-1].rebuilt
        groups = add_groups(groups, attempts[-1].groups)
        steps = Steps.concat([steps, rebuilt.steps])
        gpu_steps = GpuSteps.concat([gpu_steps, rebuilt.gpu_steps])
    name = replace(job[-1].attempt, job_id=job[0].attempt.job_id)
    flows = FlowCut(seen.flows, endpoints, *span_ns)
    return ContinuedJob(name, flows, tuple(attempts), newest, steps, gpu_steps, memory, before, tuple(holes))


def _with_unseen(new: resume.NewSteps, division: Division, holes: Sequence[Hole]) -> resume.NewSteps:
    """Mark the new steps that a hole cuts, and those after them, as not whole."""
    ends = division.job_end_ns()
    cut = unseen(np.append(ends[:1], ends[:-1]), ends, holes)
    # What a hole leaves of a step may not show where it ended, which is where the next one begins.
    whole = ~(cut | np.append(False, cut[:-1]))[division.steps - new.division.steps :]
    return replace(new, division=replace(new.division, whole=new.division.whole & whole))


def _rebuild(
    one: AttemptSteps, new: resume.NewSteps, earlier: tuple[Group, ...], topology: Topology, *, is_settled: bool
) -> RebuiltAttempt:
    """Order an attempt's groups, and rebuild its new steps and the phases in them."""
    groups = number_after(order(one.bursts, one.kinds, one.division, topology), earlier)
    late_s = lateness_s(one.bursts, one.kinds, one.division)
    rebuilt = reconstruct(one.bursts, one.kinds, new.division, new.first_step, new.start_ns)
    return RebuiltAttempt(
        one.attempt, one.traffic, one.kinds, one.division, groups, new.first_step, rebuilt, late_s, is_settled
    )
