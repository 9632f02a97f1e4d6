"""Whether a job stands still, stood still, or began anew: what windows show, put before the stages that say so."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from prism_ch.model.columns import Int32, Int64
from prism_ch.model.division import Division
from prism_ch.model.flow import FlowBatch
from prism_ch.model.jobset import RecognisedJob
from prism_ch.model.newest_life import NewestLife
from prism_ch.model.params import Params, StopParams
from prism_ch.model.result import OTHER, Diagnosis, GpuSteps, JobState, Steps
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic
from prism_ch.model.window import Window
from prism_ch.stages import account, diagnose, resume


def is_of_steps(finding: Diagnosis) -> bool:
    """Say whether a finding is of what is slow in steps."""
    return finding.kind != "telemetry" and not diagnose.is_stop(finding)


def look_at(
    division: Division, life: account.ExaminedLife, new: resume.Resumed, around: FlowBatch, params: StopParams
) -> diagnose.StepsSeen:
    """Measure the rests of a life's steps, those that were said before among them; `around`, any flows of that time."""
    rebuilt, ends = life.rebuilt.steps, division.job_end_ns()
    said_before = division.steps - len(rebuilt)
    duration_s = np.diff(ends, prepend=ends[:1]) / 1e9
    duration_s[:1] = np.nan
    duration_s[said_before:] = np.where(rebuilt.complete == 1, rebuilt.duration_s, np.nan)
    rests = diagnose.find_rests(life.traffic, life.kinds, ends)
    rests = diagnose.rests_of_all(rests, duration_s, life.traffic, life.kinds, ends, params)
    return diagnose.StepsSeen(
        new.first_step - said_before + np.arange(division.steps),
        ends,
        duration_s,
        rests,
        diagnose.with_storage(rests, duration_s, around, division.endpoints, params),
        new.first_step,
        division.endpoints,
        life.lateness_s,
        life.traffic,
        life.kinds,
    )


def what_moved(seen: Sequence[diagnose.StepsSeen], params: Params) -> diagnose.Moved:
    """Put together what the steps of lives moved, and whether their ranks are seen to be ready one after the other."""
    if not seen:
        return diagnose.Moved.unknown()
    newest = seen[-1]
    late_s = newest.lateness_s.max(axis=0, initial=0) - np.median(newest.lateness_s, axis=0)
    spread_s = min(params.diagnose.ready_spread * newest.step_s, params.diagnose.ready_spread_s)
    spread_s = max(spread_s, params.diagnose.ready_ticks * newest.traffic.tick_s)
    shows_late = bool(np.median(late_s) > spread_s) if late_s.size else False
    number = np.concatenate([one.number for one in seen])
    return diagnose.Moved(number, np.concatenate([one.rests.payload for one in seen]), shows_late)


def leave_out_stops(
    seen: Sequence[diagnose.StepsSeen],
    steps: Steps,
    causes: Sequence[Diagnosis],
    symptoms: Sequence[Diagnosis],
    params: Params,
) -> tuple[Steps, list[Diagnosis], list[Diagnosis]]:
    """Return what is left of steps, causes and symptoms without steps that are long for another reason than slowness.

    Parameters: `seen`, the lives that a window shows; `steps`, all that is known of the job's.
    """
    other = diagnose.not_slow(seen, steps, params.stops)
    left_out = steps.step[other]

    def kept(findings: Sequence[Diagnosis]) -> list[Diagnosis]:
        """Keep what is found in as many other steps as make it more than a hiccup, or in no such step at all."""
        return [one for one in findings if _enough_beside(one, left_out, params.diagnose.work.min_slow_steps)]

    return steps.take(~other), kept(causes), kept(symptoms)


def _enough_beside(finding: Diagnosis, left_out: Int64, least: int) -> bool:
    """Say whether a finding holds none of the steps that are left out, or so many others."""
    without = int(np.count_nonzero((left_out >= finding.first_step) & (left_out <= finding.last_step)))
    return without == 0 or finding.last_step - finding.first_step + 1 - without >= least


def find_stops(  # noqa: PLR0913, PLR0917 - a job, what a window shows of it and around it, and how to judge that
    job_id: str,
    seen: Sequence[diagnose.StepsSeen],
    steps: Steps,
    flows: FlowBatch,
    new: FlowBatch,
    window: Window,
    until_ns: int,
    known: Sequence[Diagnosis],
    topology: Topology,
    params: Params,
) -> list[Diagnosis]:
    """Find the stops of a job that a window shows, the one that lasts, if it does, and exporters that are missed.

    Parameters: `seen`, its lives; `steps`, all that is known of the job's; `flows`, all that were looked at, whoever's
    they are, and `new`, the observations of the window; `until_ns`, up to when they are known; `known`, the findings
    open before.
    """
    over = [stop for life in seen for stop in diagnose.find_stops(job_id, life, steps, flows, topology, params)]
    newest = seen[-1]
    typed = newest.kinds.kind != OTHER
    traffic = newest.traffic
    ways = diagnose.Ways(traffic.pair_src[typed], traffic.pair_dst[typed], newest.kinds.kind[typed])
    looked_at = (int(traffic.end_ns.min(initial=until_ns)), until_ns)
    quiet = _quiet(job_id, newest.endpoints, ways, steps, flows, looked_at, known)
    pace = diagnose.usual_pace(quiet, params.stops)
    anew = _seems_to_begin_anew(quiet, pace, window.start_ns, topology, params.stops)
    lasting = diagnose.find_silence(quiet, pace, topology, params) if anew is None else anew
    if lasting is None:
        return [*over, *diagnose.find_lost_exporters(quiet, pace, new, params)]
    is_over = any(stop.kind == lasting.kind == "restart" and diagnose.is_same_stop(stop, lasting) for stop in over)
    return over if is_over else [*over, lasting]


def _seems_to_begin_anew(
    quiet: diagnose.Quiet, pace: diagnose.Pace | None, from_ns: int, topology: Topology, params: StopParams
) -> Diagnosis | None:
    """Describe what seems to be a restart, and seemed so before, unless steps since have told.

    Parameters: `from_ns`, the beginning of the newest window.
    """
    for one in quiet.known:
        if _is_suspected(one) and not diagnose.is_told(one, quiet, params):
            return one
    return diagnose.seems_to_begin_anew(quiet, pace, from_ns, topology, params)


def _is_suspected(finding: Diagnosis) -> bool:
    """Say whether a finding is of a restart that steps have not told yet."""
    return (finding.kind, finding.severity, finding.status) == ("restart", "info", "open")


def doubt(found: Sequence[Diagnosis], stops: Sequence[Diagnosis]) -> list[Diagnosis]:
    """Grade as information slow steps that begin when exporters fall silent, and that nobody is found to cause.

    Where the ends of steps are not seen, two look like one.
    """
    gaps = [stop for stop in stops if stop.kind == "telemetry"]

    def in_a_gap(one: Diagnosis) -> bool:
        """Say whether the first of some slow steps holds the beginning of a gap, or lies in it."""
        first_end_ns = one.start_ns + round(one.observed * 1e9)
        return any(gap.start_ns < first_end_ns and one.start_ns < gap.end_ns for gap in gaps)

    return [
        replace(one, severity="info")
        if one.kind == "slow_step" and "root_cause" not in one.evidence and in_a_gap(one)
        else one
        for one in found
    ]


def unexplained(stops: Sequence[Diagnosis], causes: Sequence[Diagnosis]) -> list[Diagnosis]:
    """Leave out stalls in steps in which a slow GPU makes the others wait for as long: that is no stop of its own."""

    def explains(cause: Diagnosis, stop: Diagnosis) -> bool:
        """Say whether a cause makes one step long by as much as a stop does, and others as well."""
        covers = cause.first_step <= stop.first_step <= cause.last_step and cause.first_step < cause.last_step
        return cause.kind == "slow_gpu" and covers and cause.observed - cause.expected >= stop.observed - stop.expected

    return [stop for stop in stops if stop.kind != "stall" or not any(explains(cause, stop) for cause in causes)]


def stands_still(
    state: JobState, flows: FlowBatch, until_ns: int, topology: Topology, params: Params
) -> tuple[Diagnosis, ...]:
    """Return the findings on a job of which a window holds nothing, if it stands still; else none.

    Parameters: as of `find_stops`.
    """
    if any(map(_is_suspected, state.diagnoses)):
        return state.diagnoses
    quiet = _known_quiet(state, flows, until_ns)
    found = diagnose.find_silence(quiet, diagnose.usual_pace(quiet, params.stops), topology, params)
    return () if found is None else _with_stop(state, found, until_ns)


def _known_quiet(state: JobState, flows: FlowBatch, until_ns: int) -> diagnose.Quiet:
    """Put down what was known of a job of which a window holds nothing."""
    pairs = state.pairs.take(state.pairs.kind != OTHER)
    ways = diagnose.Ways(pairs.src, pairs.dst, pairs.kind)
    endpoints = np.unique(state.members.endpoint)
    return _quiet(state.job.job_id, endpoints, ways, state.steps, flows, (0, until_ns), state.diagnoses)


def _with_stop(state: JobState, found: Diagnosis, until_ns: int) -> tuple[Diagnosis, ...]:
    """Return the findings on a job with the stop that it is found to make."""
    others = tuple(one for one in state.diagnoses if not diagnose.is_stop(one))
    return (*others, *diagnose.carry_on_stops(state.diagnoses, [found], until_ns))


def taken_over(
    idle: Sequence[JobState],
    lives: Sequence[RecognisedJob],
    told: AbstractSet[str],
    flows: FlowBatch,
    window: Window,
    until_ns: int,
    topology: Topology,
    params: Params,
) -> dict[str, tuple[Diagnosis, ...]]:
    """Return the findings on jobs, by job_id, that seem to begin anew, or no longer do.

    Their members connect before any steps tell whether they go on with the job; where a life that took over from it is
    `told` to be another job, that is over.
    Parameters: `idle`, the jobs known before of which a window shows no training, but something else; `lives`, all that
    it shows; `flows`, all that are looked at, whoever's they are; `until_ns`, up to when they are known.
    """
    over = {life.follows for life in lives if life.job_id in told}
    found = {}
    for state in idle:
        known = state.diagnoses
        if state.job.job_id in over:
            now = tuple(_by_another(one) if _is_suspected(one) else one for one in known)
        else:
            quiet = _known_quiet(state, flows, until_ns)
            pace = diagnose.usual_pace(quiet, params.stops)
            restart = _seems_to_begin_anew(quiet, pace, window.start_ns, topology, params.stops)
            now = known if restart is None else _with_stop(state, restart, until_ns)
        if now != known:
            found[state.job.job_id] = now
    return found


def _by_another(suspected: Diagnosis) -> Diagnosis:
    """Take back that a job seemed to begin anew."""
    summary = f"The job fell silent, and {suspected.observed:.3g} s later another one began on its endpoints."
    return replace(suspected, status="closed", summary=summary)


def find_restart(
    job_id: str,
    newest: NewestLife,
    lives: Sequence[tuple[Traffic, Int32]],
    steps: Steps,
    gpu_steps: GpuSteps,
    known: Sequence[Diagnosis],
    topology: Topology,
    params: Params,
) -> list[Diagnosis]:
    """Describe the restart that a job's newest life began with; it is open while that life is young.

    Parameters: `lives`, traffic and endpoints of those that a window shows; `known`, the findings open before. None
    where it is not known when the life before it ended.
    """
    traffic, endpoints = lives[-1]
    begin_ns = int(traffic.start_ns.min())
    ended = [int(before.end_ns.max()) for before, _ in lives[:-1]][-1:]
    ended += [one.start_ns for one in known if diagnose.is_stop(one) and one.start_ns < begin_ns]
    before = gpu_steps.endpoint[gpu_steps.step == newest.first_step - 1]
    if not ended or len(before) == 0:
        return []
    restart = diagnose.find_restart(
        job_id,
        steps,
        newest.first_step,
        (min(ended), begin_ns),
        (np.unique(before), endpoints),
        topology,
        is_open=int(steps.step[-1]) - newest.first_step < params.going_on.settle_steps,
    )
    return [restart]


def _quiet(
    job_id: str,
    endpoints: Int32,
    ways: diagnose.Ways,
    steps: Steps,
    flows: FlowBatch,
    span_ns: tuple[int, int],
    known: Sequence[Diagnosis],
) -> diagnose.Quiet:
    """Put down what is known of a job; of `flows`, whoever's they are, its training that ends in a span of time."""
    trains = ways.rows_of(flows) >= 0
    sends, gets = np.isin(flows.src, endpoints), np.isin(flows.dst, endpoints)
    return diagnose.Quiet(
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
