"""Finds stops: whether a job stands still, stood still, or began anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from prism_ch.analysis.apart import Apart
from prism_ch.analysis.continuity.continuity import Continued, RebuiltAttempt
from prism_ch.analysis.diagnose.context import JobContext
from prism_ch.analysis.diagnose.stops.hang_culprits import TrainingPairs
from prism_ch.analysis.diagnose.stops.lost_exporters import find_lost_exporters
from prism_ch.analysis.diagnose.stops.silence import (
    QuietJob,
    UsualRhythm,
    find_silence,
    usual_rhythm,
)
from prism_ch.analysis.diagnose.stops.stop_findings import (
    Stop,
    carry_on_stops,
    find_past_stops,
    first_few,
    is_same_stop,
    is_stop,
    stop_finding,
)
from prism_ch.analysis.diagnose.stops.went_on import find_just_ended
from prism_ch.analysis.observe.holes import Hole
from prism_ch.analysis.observe.observe import Observed
from prism_ch.core.pairs import links_of
from prism_ch.core.robust import usual_count
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.finding import Baseline, Finding
from prism_ch.model.flow import FlowBatch
from prism_ch.model.flows_by_pair import FlowsByPair
from prism_ch.model.memory import JobMemory
from prism_ch.model.params import Params, StopParams
from prism_ch.model.result import OTHER, PP, Steps
from prism_ch.model.topology import Topology
from prism_ch.model.window import Interval


def find_stops(context: JobContext) -> list[Finding]:
    """Find the stops of a job in a window, and exporters whose records are missing."""
    seen, topology, params = context.seen, context.topology, context.params
    over = [
        stop
        for attempt in context.attempts
        for stop in find_past_stops(
            context.job_id, attempt.steps_seen, context.job.steps, seen.by_pair, topology, params
        )
    ]
    quiet = _newest_quiet(context)
    rhythm = usual_rhythm(quiet, params.stops)
    lasting = _restart_so_far(quiet, rhythm, seen.window.start_ns, topology, params.stops)
    if lasting is None:
        lasting = find_silence(quiet, rhythm, topology, params)
    if lasting is None:
        is_told = any(one.baseline.early for one in over)
        ended = None if is_told else find_just_ended(quiet, rhythm, params)
        lost = find_lost_exporters(quiet, rhythm, seen.looked_at, seen.window.start_ns, params.stops)
        return [*over, *lost, *([ended] if ended else [])]
    is_over = any(stop.kind == lasting.kind == "restart" and is_same_stop(stop, lasting) for stop in over)
    return over if is_over else [*over, lasting]


def find_restart(context: JobContext) -> list[Finding]:
    """Find the restart that a job's newest attempt began with.

    It is open while that attempt is young; one that goes on from known steps keeps what was found of it. Returns none
    if it is unknown when the attempt before it ended. If all traffic of that attempt is too old to be read again, its
    last step gives the time.
    """
    job, newest = context.job, context.attempts[-1].attempt
    steps, first_step, is_open = job.steps, job.newest.first_step, job.newest.is_young(context.params.going_on)
    if len(newest.bursts) == 0 or newest.is_settled:
        status: Literal["open", "closed"] = "open" if is_open else "closed"
        told = (one for one in context.known if one.kind == "restart" and not one.baseline.presumed)
        return [replace(one, status=status) for one in told]
    begin_ns = int(newest.bursts.start_ns.min())
    ended: list[int] = []
    known_ns = steps.end_ns[steps.step < first_step]
    earlier = [one.attempt for one in context.attempts[:-1][-1:]]
    for one in earlier:
        ended = [int(one.bursts.end_ns.max())] if len(one.bursts) else known_ns[-1:].tolist()
    stood = [one for one in context.known if is_stop(one) and one.end_ns > known_ns.max(initial=0)]
    ended += [one.start_ns for one in stood if one.start_ns < begin_ns]
    before = np.unique(job.gpu_steps.endpoint[job.gpu_steps.step == first_step - 1])
    if not ended or len(before) == 0:
        return []
    last_done = first_step - (2 if _ends_unfinished(earlier, known_ns) else 1)
    around_ns = [int(steps.end_ns[steps.step == step][0]) for step in (last_done, first_step) if step in steps.step]
    interrupted_s = (around_ns[-1] - around_ns[0]) / 1e9 if around_ns else 0.0
    lost_s = max(interrupted_s - _usual_s(steps), 0.0)
    stop = Stop(context.job_id, first_step, min(ended), begin_ns, usual_s=0.0, lost_s=lost_s, slowdown=1.0)
    endpoints = newest.attempt.endpoints
    return [_describe_restart(stop, before, endpoints, context.topology, is_open=is_open)]


def _ends_unfinished(earlier: Sequence[RebuiltAttempt], known_ns: Int64) -> bool:
    """Return whether the last step of an attempt is not known to have been finished.

    Parameters: `earlier`, that attempt, where there is one; `known_ns`, when steps before the next attempt ended. With
    the last message of a step of a pipeline a backward pass begins: only what is sent later shows that it ended.
    """
    last_ns = known_ns.max(initial=0)
    return any(one.kinds.closing == PP and not (one.bursts.end_ns > last_ns).any() for one in earlier)


def find_standstills(
    seen: Observed, topology: Topology, params: Params, apart: Apart
) -> dict[str, tuple[Finding, ...]]:
    """Return the findings, by job_id, on jobs without any traffic in a window.

    There are none on those that don't stand still.
    """
    read = FlowsByPair.of(seen.read) if seen.known.resting else seen.by_pair

    def standstill(job: JobMemory) -> tuple[Finding, ...] | None:
        if any(one.baseline.presumed for one in job.findings if one.status == "open"):
            return job.findings
        quiet = _known_quiet(job, read, seen)
        stop = find_silence(quiet, usual_rhythm(quiet, params.stops), topology, params)
        if stop is not None:
            return _with_stop(job, stop, seen.until_ns)
        return _with_hidden(job, quiet.holes) if quiet.holes else None

    return _by_job(seen.known.resting, apart.each(standstill, seen.known.resting, _name))


def find_connecting(
    idle: Sequence[JobMemory], seen: Observed, continued: Continued, topology: Topology, params: Params, apart: Apart
) -> dict[str, tuple[Finding, ...]]:
    """Return the findings, by job_id, on jobs that seem to restart, or no longer do.

    Their members connect before any steps show whether they go on with the job. That is over if an attempt that took
    over from it turned out to be another job, and so is what seemed to be a hang: the job was killed in a step. One
    that had hung for long was killed for that, and lost what it did.
    Parameters: `idle`, the jobs known before whose traffic in a window holds no training.
    """
    shown = {one.job_id for job in continued.jobs for one in job}
    over = {attempt.follows for attempt in continued.attempts if attempt.job_id in shown}

    def connecting(job: JobMemory) -> tuple[Finding, ...] | None:
        known = job.findings
        if job.job.job_id in over:
            now = tuple(
                _taken_over(one, params.stops) if is_stop(one) and one.status == "open" else one for one in known
            )
        else:
            quiet = _known_quiet(job, seen.by_pair, seen)
            rhythm = usual_rhythm(quiet, params.stops)
            restart = _restart_so_far(quiet, rhythm, seen.window.start_ns, topology, params.stops)
            now = known if restart is None else _with_stop(job, restart, seen.until_ns)
        return None if now == known else now

    return _by_job(idle, apart.each(connecting, idle, _name))


def _taken_over(stop: Finding, params: StopParams) -> Finding:
    """Return an open stop of a job on whose endpoints another one has begun."""
    hung = stop.observed >= params.killed_hang_s and not stop.baseline.presumed
    if stop.baseline.maybe_ended or hung:
        return stop.of_ended_job()
    begun = "The job fell silent in the middle of a step, and another one began on its endpoints."
    return replace(stop, status="closed", severity="info", slowdown=0.0, lost_s=0.0, summary=begun)


def _name(job: JobMemory) -> str:
    return job.job.job_id


def _by_job(jobs: Sequence[JobMemory], found: Sequence[tuple[Finding, ...] | None]) -> dict[str, tuple[Finding, ...]]:
    """Return what was found by the job's name, where anything was."""
    return {_name(job): one for job, one in zip(jobs, found, strict=True) if one is not None}


def _with_stop(job: JobMemory, stop: Finding, until_ns: int) -> tuple[Finding, ...]:
    others = tuple(one for one in job.findings if not is_stop(one))
    return (*others, *carry_on_stops(job.findings, [stop], until_ns))


def _with_hidden(job: JobMemory, holes: Sequence[Hole]) -> tuple[Finding, ...]:
    """Return a job's findings without stops that were its missing records."""
    others = tuple(one for one in job.findings if not is_stop(one))
    stops = [one for one in job.findings if is_stop(one)]
    return (
        *others,
        *(carry_on_stops([one], [], one.start_ns + 1, holes)[0] if _is_in(one, holes) else one for one in stops),
    )


def _is_in(stop: Finding, holes: Sequence[Hole]) -> bool:
    return any(hole.span.start_ns <= stop.end_ns and stop.start_ns <= hole.span.end_ns for hole in holes)


def _newest_quiet(context: JobContext) -> QuietJob:
    newest, until_ns = context.attempts[-1].attempt, context.seen.until_ns
    bursts, kind = newest.bursts, newest.kinds.kind
    typed = kind != OTHER
    pairs = TrainingPairs(bursts.pair_src[typed], bursts.pair_dst[typed], kind[typed])
    span = Interval(int(bursts.end_ns.min(initial=until_ns)), until_ns)
    endpoints = newest.division.endpoints
    seen, known = context.seen, (*context.known, *context.seen.known.findings)
    return QuietJob.of(
        context.job_id, endpoints, pairs, context.job.steps, seen.by_pair, span, known, context.job.holes
    )


def _known_quiet(job: JobMemory, flows: FlowsByPair, seen: Observed) -> QuietJob:
    typed = job.pairs.take(job.pairs.kind != OTHER)
    pairs = TrainingPairs(typed.src, typed.dst, typed.kind)
    endpoints, span = np.unique(job.members.endpoint), Interval(0, seen.until_ns)
    holes = [one for one in seen.holes if one.is_sure or one.was_known]
    known = (*job.findings, *seen.known.findings)
    return QuietJob.of(job.job.job_id, endpoints, pairs, job.steps, flows, span, known, holes)


def _restart_so_far(
    quiet: QuietJob, rhythm: UsualRhythm | None, from_ns: int, topology: Topology, params: StopParams
) -> Finding | None:
    """Find what seems to be a restart, or is one where the job trains again.

    Messages show that before enough steps have ended.
    """
    presumed = _presumed_restart(quiet, rhythm, from_ns, topology, params)
    if presumed is None or not presumed.baseline.maybe_ended:
        return presumed
    again_ns = _trains_again_ns(presumed, quiet, params)
    return presumed if again_ns is None else _gone_on(presumed, again_ns, 0.0 if rhythm is None else rhythm.rest_s)


def _presumed_restart(
    quiet: QuietJob, rhythm: UsualRhythm | None, from_ns: int, topology: Topology, params: StopParams
) -> Finding | None:
    """Find what seems to be a restart, unless later steps have shown what it is.

    1. Keep a presumed restart that was found before.
    2. Take the flows by which members of a silent job connect from `from_ns` on, the start of the newest window.
    3. Require that training ended before them, has not gone on at once, and that most members are among those who meet.
    4. Require that more connect than usual, as strays do all the time.
    """
    for one in quiet.known:
        if one.baseline.presumed and one.status == "open" and not _is_settled(one, quiet, params):
            return one
    if rhythm is None:
        return None
    small = quiet.background.take(_move_little(quiet, rhythm, params))
    met = small.take(small.end_ns >= from_ns)
    if len(met) == 0:
        return None
    middle_ns = int(np.median(met.start_ns))
    training = quiet.trained(params)
    ended, begun = training.end_ns <= middle_ns, training.start_ns > middle_ns
    if not (ended.any() and (ended | begun).all()):
        return None
    ended_ns = int(training.end_ns[ended].max())
    rests_until_ns = int(training.start_ns[begun].min(initial=quiet.until_ns))
    met = met.take((met.start_ns > ended_ns) & (met.start_ns < rests_until_ns))
    rest_s = (rests_until_ns - ended_ns) / 1e9
    links = links_of(met.src, met.dst)
    # All ranks that make their communicators meet several others.
    after = np.flatnonzero(np.bincount(np.concatenate([links.low, links.high])) >= 2).astype(np.int32)
    still_there = np.isin(quiet.endpoints, after).mean()
    if rest_s <= rhythm.rest_s or still_there < params.half or _are_usual(met, small, ended_ns, params):
        return None
    begin_ns, steps = int(met.start_ns.min()), quiet.steps
    lost_s = max((begin_ns - ended_ns) / 1e9 - _usual_s(steps), 0.0)
    step = int(np.append(steps.step, steps.step[-1] + 1)[np.searchsorted(steps.end_ns, begin_ns)])
    stop = Stop(quiet.job_id, step, ended_ns, begin_ns, usual_s=0.0, lost_s=lost_s, slowdown=1.0)
    presumed = _describe_restart(stop, quiet.endpoints, after, topology, is_presumed=True)
    return None if _is_settled(presumed, quiet, params) else presumed


def _trains_again_ns(presumed: Finding, quiet: QuietJob, params: StopParams) -> int | None:
    """Return since when most of the members send messages of the same sizes as before.

    That is before they connected; None while they don't. To whom does not matter: others may be in the place of some.
    Another job on its endpoints has sizes of its own, of gradients if not of activations; one that is made alike has
    members of its own, and these are half of all at least.
    """
    before = quiet.flows.take(quiet.flows.start_ns <= presumed.end_ns)
    members, rank = len(quiet.endpoints), np.searchsorted(quiet.endpoints, before.src).astype(np.int32)
    usual = _usual_sizes(rank, before.bytes, members)
    first_ns, sent_to = np.full(members, np.iinfo(np.int64).max), [quiet.endpoints]
    for flows in (quiet.flows, quiet.background):
        since = flows.take((flows.start_ns > presumed.end_ns) & np.isin(flows.src, quiet.endpoints))
        rank = np.searchsorted(quiet.endpoints, since.src).astype(np.int32)
        alike = np.abs(since.bytes - usual[rank]) < params.size_spread * usual[rank]
        np.minimum.at(first_ns, rank[alike], since.start_ns[alike])
        sent_to.append(since.dst[alike])
    again = np.count_nonzero(first_ns < np.iinfo(np.int64).max)
    together = len(np.unique(np.concatenate(sent_to)))
    return int(first_ns.min()) if again > params.half * together else None


def _usual_sizes(rank: Int32, size: Int64, members: int) -> Float64:
    """Return the usual size of the messages of each member, float64[members], NaN for none.

    It is that at which half of its bytes are sent: the median byte is of a message of that size.
    """
    order = np.lexsort((size, rank))
    rank, size = rank[order], size[order]
    moved = np.bincount(rank, weights=size, minlength=members)
    so_far = np.cumsum(size) - (np.cumsum(moved) - moved)[rank]
    half = np.flatnonzero(so_far >= moved[rank] / 2)
    each, first = np.unique(rank[half], return_index=True)
    usual = np.full(members, np.nan)
    usual[each] = size[half[first]]
    return usual


def _gone_on(presumed: Finding, again_ns: int, rest_s: float) -> Finding:
    """Describe a presumed restart after which the job trains as before.

    It usually rests for `rest_s`.
    """
    step, length_s = presumed.first_step, (again_ns - presumed.start_ns) / 1e9
    lost_s = max(length_s - rest_s, 0.0)
    stop = Stop(presumed.subject, step, presumed.start_ns, again_ns, usual_s=0.0, lost_s=lost_s, slowdown=1.0)
    summary = f"The job was interrupted for {length_s:.3g} s before step {step} and goes on: look for why it died."
    found = stop_finding("restart", stop, "warning", summary, {"gap_s": round(length_s, 6)}, is_open=True)
    return replace(found, baseline=Baseline(presumed=True))


def _is_settled(presumed: Finding, quiet: QuietJob, params: StopParams) -> bool:
    """Return whether a new attempt or further steps have shown what happened."""
    is_new = len(quiet.flows) > 0 and int(quiet.flows.start_ns.min()) > presumed.start_ns
    steps = int(np.count_nonzero(quiet.steps.end_ns > presumed.end_ns))
    return is_new or steps >= params.repeats


def _move_little(quiet: QuietJob, rhythm: UsualRhythm, params: StopParams) -> Bool:
    """Mask the background flows on links that move little for a training pair, bool[n]."""
    seen = (quiet.flows.end_ns >= rhythm.steps.start_ns[0]) & (quiet.flows.end_ns <= rhythm.steps.end_ns[-1])
    trained = quiet.flows.bytes[seen].sum() / (len(rhythm.steps) * len(quiet.pairs.src))
    link = links_of(quiet.background.src, quiet.background.dst).of_pair
    mask: Bool = np.bincount(link, weights=quiet.background.bytes)[link] < params.little * trained
    return mask


def _are_usual(met: FlowBatch, small: FlowBatch, ended_ns: int, params: StopParams) -> bool:
    """Return whether as many small flows came in as long a time before the rest."""
    length_ns = int(met.end_ns.max() - met.start_ns.min())
    return len(met) <= params.twice * usual_count(small.start_ns, ended_ns, ended_ns + length_ns)


def _describe_restart(
    stop: Stop, before: Int32, after: Int32, topology: Topology, *, is_open: bool = True, is_presumed: bool = False
) -> Finding:
    changed = {"left": np.setdiff1d(before, after), "joined": np.setdiff1d(after, before)}
    parts = []
    for word, who in zip(("without", "with"), changed.values(), strict=True):
        servers = [topology.server_names[server] for server in np.unique(topology.server[who]).tolist()]
        parts += [f"{word} {first_few(servers)}"] if servers else []
    exchanged = f" ({', '.join(parts)})" if parts else ""
    interrupted = f"The job was interrupted for {stop.length_s:.3g} s before step {stop.step}"
    evidence: dict[str, object] = {
        "gap_s": round(stop.length_s, 6),
        "members_before": len(before),
        "members_after": len(after),
    }
    if is_presumed:
        summary = (
            f"{interrupted}, and {len(after)} endpoints in place of {len(before)} connect anew{exchanged}: whether "
            "they go on with it, steps will tell."
        )
    else:
        summary = (
            f"{interrupted} and went on with {len(after)} endpoints in place of {len(before)}{exchanged}: look for why "
            "it died."
        )
        evidence |= {name: [topology.endpoints[one] for one in who.tolist()] for name, who in changed.items()}
    # Whoever connects may be another job.
    stop = stop.without_loss() if is_presumed else stop
    found = stop_finding("restart", stop, "info" if is_presumed else "warning", summary, evidence, is_open=is_open)
    return replace(found, baseline=Baseline(presumed=True, maybe_ended=True)) if is_presumed else found


def _usual_s(steps: Steps) -> float:
    """Return the usual duration of whole steps, in seconds; 0 without any."""
    whole = steps.complete == 1
    return float(np.median(steps.duration_s[whole])) if whole.any() else 0.0
