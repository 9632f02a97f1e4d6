"""Stops: whether a job stands still, stood still, or began anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from prism_ch.analysis.continuity.continuity import Continued
from prism_ch.analysis.diagnose.context import JobContext
from prism_ch.analysis.diagnose.stops import restarts, stalls
from prism_ch.analysis.diagnose.stops.hang_culprits import Ways
from prism_ch.analysis.diagnose.stops.silence import Quiet, UsualRhythm, find_lost_exporters, find_silence, usual_rhythm
from prism_ch.analysis.diagnose.stops.stop_findings import carry_on_stops, is_same_stop, is_stop
from prism_ch.analysis.observe.observe import Observed
from prism_ch.model.columns import Int32
from prism_ch.model.finding import Finding
from prism_ch.model.flow import FlowBatch
from prism_ch.model.memory import JobMemory
from prism_ch.model.params import Params, StopParams
from prism_ch.model.result import OTHER, Steps
from prism_ch.model.topology import Topology


def find_stops(context: JobContext) -> list[Finding]:
    """Find the stops of a job that a window shows, the one that lasts, if it does, and exporters that are missed."""
    seen, topology, params = context.seen, context.topology, context.params
    over = [
        stop
        for attempt in context.attempts
        for stop in stalls.find_stops(
            context.job_id, attempt.steps_seen, context.job.steps, seen.flows, topology, params
        )
    ]
    quiet = _newest_quiet(context)
    rhythm = usual_rhythm(quiet, params.stops)
    lasting = _seems_to_begin_anew(quiet, rhythm, seen.window.start_ns, topology, params.stops)
    if lasting is None:
        lasting = find_silence(quiet, rhythm, topology, params)
    if lasting is None:
        return [*over, *find_lost_exporters(quiet, rhythm, seen.new, params)]
    is_over = any(stop.kind == lasting.kind == "restart" and is_same_stop(stop, lasting) for stop in over)
    return over if is_over else [*over, lasting]


def find_restart(context: JobContext) -> list[Finding]:
    """Describe the restart that a job's newest attempt began with; it is open while that attempt is young.

    None where it is not known when the attempt before it ended. Of an attempt that was over before all that is looked
    at again, no traffic is left: its last step says when it ended.
    """
    job, newest = context.job, context.attempts[-1].attempt
    if len(newest.bursts) == 0:
        return [one for one in context.known if one.kind == "restart"]
    begin_ns = int(newest.bursts.start_ns.min())
    ended: list[int] = []
    for earlier in context.attempts[:-1][-1:]:
        bursts = earlier.attempt.bursts
        known_ns = job.steps.end_ns[job.steps.step < job.newest.first_step][-1:]
        ended = [int(bursts.end_ns.max())] if len(bursts) else known_ns.tolist()
    ended += [one.start_ns for one in context.known if is_stop(one) and one.start_ns < begin_ns]
    before = job.gpu_steps.endpoint[job.gpu_steps.step == job.newest.first_step - 1]
    if not ended or len(before) == 0:
        return []
    restart = restarts.find_restart(
        context.job_id,
        job.steps,
        job.newest.first_step,
        (min(ended), begin_ns),
        (np.unique(before), newest.attempt.endpoints),
        context.topology,
        is_open=int(job.steps.step[-1]) - job.newest.first_step < context.params.going_on.settled_steps,
    )
    return [restart]


def find_standstills(seen: Observed, topology: Topology, params: Params) -> dict[str, tuple[Finding, ...]]:
    """Return the findings on jobs, by job_id, of which a window holds nothing; none on those that don't stand still."""
    found: dict[str, tuple[Finding, ...]] = {}
    for job in seen.known.resting:
        if any(one.baseline.presumed for one in job.findings if one.status == "open"):
            found[job.job.job_id] = job.findings
            continue
        quiet = _known_quiet(job, seen.read, seen.until_ns)
        stop = find_silence(quiet, usual_rhythm(quiet, params.stops), topology, params)
        found[job.job.job_id] = () if stop is None else _with_stop(job, stop, seen.until_ns)
    return found


def find_connecting(
    idle: Sequence[JobMemory], seen: Observed, continued: Continued, topology: Topology, params: Params
) -> dict[str, tuple[Finding, ...]]:
    """Return the findings on jobs, by job_id, that seem to begin anew, or no longer do.

    Their members connect before any steps tell whether they go on with the job; where an attempt that took over from it
    has turned out to be another job, that is over.
    Parameters: `idle`, the jobs known before of which a window shows no training, but something else.
    """
    shown = {one.attempt.job_id for job in continued.jobs for one in job}
    over = {attempt.follows for attempt in continued.attempts if attempt.job_id in shown}
    found = {}
    for job in idle:
        known = job.findings
        if job.job.job_id in over:
            now = tuple(_by_another(one) if one.baseline.presumed and one.status == "open" else one for one in known)
        else:
            quiet = _known_quiet(job, seen.flows, seen.until_ns)
            rhythm = usual_rhythm(quiet, params.stops)
            restart = _seems_to_begin_anew(quiet, rhythm, seen.window.start_ns, topology, params.stops)
            now = known if restart is None else _with_stop(job, restart, seen.until_ns)
        if now != known:
            found[job.job.job_id] = now
    return found


def _seems_to_begin_anew(
    quiet: Quiet, rhythm: UsualRhythm | None, from_ns: int, topology: Topology, params: StopParams
) -> Finding | None:
    """Describe what seems to be a restart, and seemed so before, unless steps since have shown what it is.

    Parameters: `from_ns`, the beginning of the newest window.
    """
    for one in quiet.known:
        if one.baseline.presumed and one.status == "open" and not restarts.is_told(one, quiet, params):
            return one
    return restarts.seems_to_begin_anew(quiet, rhythm, from_ns, topology, params)


def _by_another(presumed: Finding) -> Finding:
    """Take back that a job seemed to begin anew."""
    summary = f"The job fell silent, and {presumed.observed:.3g} s later another one began on its endpoints."
    return replace(presumed, status="closed", summary=summary)


def _with_stop(job: JobMemory, stop: Finding, until_ns: int) -> tuple[Finding, ...]:
    """Return the findings on a job with the stop that it is found to make."""
    others = tuple(one for one in job.findings if not is_stop(one))
    return (*others, *carry_on_stops(job.findings, [stop], until_ns))


def _newest_quiet(context: JobContext) -> Quiet:
    """Put together what is known of a job that a window shows."""
    newest, until_ns = context.attempts[-1].attempt, context.seen.until_ns
    bursts, kind = newest.bursts, newest.kinds.kind
    typed = kind != OTHER
    return _quiet(
        context.job_id,
        newest.division.endpoints,
        Ways(bursts.pair_src[typed], bursts.pair_dst[typed], kind[typed]),
        context.job.steps,
        context.seen.flows,
        (int(bursts.end_ns.min(initial=until_ns)), until_ns),
        context.known,
    )


def _known_quiet(job: JobMemory, flows: FlowBatch, until_ns: int) -> Quiet:
    """Put together what was known of a job of which a window shows no training."""
    pairs = job.pairs.take(job.pairs.kind != OTHER)
    ways = Ways(pairs.src, pairs.dst, pairs.kind)
    endpoints = np.unique(job.members.endpoint)
    return _quiet(job.job.job_id, endpoints, ways, job.steps, flows, (0, until_ns), job.findings)


def _quiet(
    job_id: str,
    endpoints: Int32,
    ways: Ways,
    steps: Steps,
    flows: FlowBatch,
    span_ns: tuple[int, int],
    known: Sequence[Finding],
) -> Quiet:
    """Part flows, whoever's they are, into a job's training that ends in a span of time, and what is beside it."""
    trains = ways.rows_of(flows) >= 0
    sends, gets = np.isin(flows.src, endpoints), np.isin(flows.dst, endpoints)
    return Quiet(
        job_id,
        endpoints,
        ways,
        steps,
        flows.take(trains & (flows.end_ns >= span_ns[0])),
        flows.take((sends | gets) & ~trains),
        flows.take(~(sends & gets)),
        span_ns[1],
        tuple(known),
    )
