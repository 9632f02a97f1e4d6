"""Which holes in the records hide a job, and whether its steps show that it went on in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from prism_ch.analysis.continuity.continuity import Continued
from prism_ch.analysis.continuity.resume import AttemptSteps
from prism_ch.analysis.observe.holes import Hole, find_holes
from prism_ch.analysis.observe.observe import Observed
from prism_ch.core import robust
from prism_ch.core.arrays import distinct
from prism_ch.model.finding import Finding
from prism_ch.model.memory import JobMemory
from prism_ch.model.params import Params
from prism_ch.model.result import OTHER, PAIR_KINDS
from prism_ch.model.window import Interval


def with_holes(seen: Observed, continued: Continued, params: Params) -> Observed:
    """Find the holes in a window's records, by the jobs that should show in it."""
    shown = [one.endpoints for one in continued.attempts]
    known = [job.members.endpoint for job in seen.known.jobs if job.job.status != "ended"]
    found = find_holes(seen.read, seen.until_ns, [*shown, *known], params.stops)
    before = [one for one in seen.known.findings if one.baseline.records_missing and not one.baseline.jobs]
    return replace(seen, holes=tuple(replace(hole, was_known=_goes_on(hole, before)) for hole in found))


def _goes_on(hole: Hole, known: Sequence[Finding]) -> bool:
    """Return whether a hole was known before: how it began showed that it is one."""
    return any(one.baseline.exporters == hole.exporters and one.start_ns < hole.span.end_ns for one in known)


def holes_of(job: Sequence[AttemptSteps], seen: Observed, params: Params) -> tuple[Hole, ...]:
    """Return the holes in which a job's records are missing.

    Where nothing but the job fell silent, its step tells: a job that stands still goes on where it stopped, and what it
    moves in that step is whole. What went on unseen is missing from it. What was known to be unseen stays so until that
    step has ended, and if steps go on in time with those before.
    """
    memory = seen.known.get(job[0].attempt.job_id)
    found = []
    for hole in seen.holes:
        hiding = (one for one in job if hole.hides(_exporters_of(one)))
        if any(hole.is_sure or _was_cut(memory, hole.span) or _misses(one, hole, params) for one in hiding):
            found.append(hole)
    return tuple(found)


def _exporters_of(one: AttemptSteps) -> list[str]:
    flows = one.traffic.flows.batch()
    return [flows.exporters[code] for code in distinct(flows.exporter).tolist()]


def _was_cut(memory: JobMemory | None, span: Interval) -> bool:
    """Return whether a step around a span is known not to be whole."""
    if memory is None:
        return False
    steps = memory.steps.take(memory.steps.complete == 0)
    around = (steps.start_ns < span.end_ns) & (steps.end_ns > span.start_ns)
    return bool((around & (steps.step > memory.attempt.first_step)).any())


def _misses(one: AttemptSteps, hole: Hole, params: Params) -> bool:
    """Return whether a job's step shows that records of it are missing.

    What was known to be missing is so unless the step shows the contrary.
    """
    cut = _is_cut(one, hole.span, params)
    if hole.was_known:
        return cut is None or cut or _keeps_time(one, hole.span, params)
    return bool(cut)


def _is_cut(one: AttemptSteps, span: Interval, params: Params) -> bool | None:
    """Return whether the step around a span misses some of what a step moves.

    None where it has not ended, or too few are known. Where its end was not seen, it holds parts of several, and more
    of every kind; an evaluation adds some of one kind.
    """
    ends, training = one.division.job_end_ns(), one.kinds.burst != OTHER
    row, steps = int(np.searchsorted(ends, span.end_ns)), one.division.steps
    if row == 0 or row >= steps or steps <= params.stops.enough:
        return None
    bursts, kind = one.bursts.take(training), one.kinds.burst[training]
    step = np.searchsorted(ends, bursts.end_ns)
    inside = step < steps
    place = step[inside] * len(PAIR_KINDS) + kind[inside]
    payload = np.bincount(place, weights=bursts.payload[inside], minlength=steps * len(PAIR_KINDS))
    moved = payload.reshape(steps, len(PAIR_KINDS))
    usual = np.median(np.delete(moved, row, axis=0), axis=0)
    kinds = usual > 0
    more = (moved[row] - usual)[kinds] / usual[kinds]
    return bool((more < -params.stops.other_work).any() or (more > params.stops.other_work).all())


def _keeps_time(one: AttemptSteps, span: Interval, params: Params) -> bool:
    """Return whether the step around a span takes as long as several usual ones.

    The step has ended. Then nothing may have interrupted them.
    """
    ends = one.division.job_end_ns()
    row = int(np.searchsorted(ends, span.end_ns))
    took_ns = np.diff(ends).astype(np.float64)
    others = np.delete(took_ns, row - 1)
    usual_ns, spread_ns = float(np.median(others)), float(robust.mad(others))
    steps = round(took_ns[row - 1] / usual_ns)
    return bool(abs(took_ns[row - 1] - steps * usual_ns) <= params.stops.min_score * spread_ns * np.sqrt(steps))
