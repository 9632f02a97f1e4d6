"""Whether a job stands still, stood still, or began anew: what windows show, put before the stages that say so."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from prism_ch.model.columns import Bool, Int32, Int64
from prism_ch.model.division import Division
from prism_ch.model.flow import FlowBatch
from prism_ch.model.jobset import RecognisedJob
from prism_ch.model.newest_life import NewestLife
from prism_ch.model.params import Params, StopParams
from prism_ch.model.result import OTHER, Diagnosis, GpuSteps, JobState, Steps
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic
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
    mine = (ways.rows_of(flows) >= 0) & (flows.end_ns >= traffic.end_ns.min(initial=until_ns))
    quiet = _quiet(job_id, newest.endpoints, ways, steps, flows, mine, until_ns, known)
    pace = diagnose.usual_pace(quiet, params.stops)
    lasting = diagnose.find_silence(quiet, pace, topology, params)
    if lasting is not None:
        return [*over, lasting]
    return [*over, *diagnose.find_lost_exporters(quiet, pace, new, params)]


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
    ways = _trained_ways(state)
    mine = ways.rows_of(flows) >= 0
    endpoints = state.members.endpoint
    quiet = _quiet(state.job.job_id, endpoints, ways, state.steps, flows, mine, until_ns, state.diagnoses)
    found = diagnose.find_silence(quiet, diagnose.usual_pace(quiet, params.stops), topology, params)
    return () if found is None else _with_stop(state, found, until_ns)


def _trained_ways(state: JobState) -> diagnose.Ways:
    """Return the pairs that a job was known to train on."""
    pairs = state.pairs.take(state.pairs.kind != OTHER)
    return diagnose.Ways(pairs.src, pairs.dst, pairs.kind)


def _with_stop(state: JobState, found: Diagnosis, until_ns: int) -> tuple[Diagnosis, ...]:
    """Return the findings on a job with the stop that it is found to make."""
    others = tuple(one for one in state.diagnoses if not diagnose.is_stop(one))
    return (*others, *diagnose.carry_on_stops(state.diagnoses, [found], until_ns))


def taken_over(
    silent: Sequence[JobState],
    lives: Sequence[RecognisedJob],
    told: AbstractSet[str],
    traffic: Traffic,
    until_ns: int,
    topology: Topology,
    params: Params,
) -> dict[str, tuple[Diagnosis, ...]]:
    """Return the findings on jobs, by job_id, of whose endpoints another life has taken over, where that says anything.

    While that life is too young to be compared, and its endpoints connect anew, a job seems to begin anew; where it is
    `told` to be another job, that is over.
    Parameters: `silent`, the jobs known before that show no steps; `lives`, all that a window shows; `traffic`, all its
    bursts, whoever's they are; `until_ns`, up to when they are known.
    """
    found = {}
    for state in silent:
        known = state.diagnoses
        for life in (one for one in lives if one.follows == state.job.job_id):
            if life.job_id in told:
                now = tuple(
                    _by_another(one) if one.kind == "restart" and one.severity == "info" else one for one in known
                )
            else:
                restart = _seems_to_begin_anew(state, life, traffic, topology, params)
                now = known if restart is None else _with_stop(state, restart, until_ns)
            if now != known:
                found[state.job.job_id] = now
    return found


def _by_another(suspected: Diagnosis) -> Diagnosis:
    """Take back that a job seemed to begin anew."""
    summary = f"The job fell silent, and {suspected.observed:.3g} s later another one began on its endpoints."
    return replace(suspected, status="closed", summary=summary)


def _seems_to_begin_anew(
    state: JobState, life: RecognisedJob, traffic: Traffic, topology: Topology, params: Params
) -> Diagnosis | None:
    """Describe a restart where endpoints that took over from a job connect to others than it trained with."""
    after = life.endpoints
    ended_ns = min((one.start_ns for one in state.diagnoses if diagnose.is_stop(one)), default=life.begin_ns)
    inside = np.isin(traffic.pair_src, after) & np.isin(traffic.pair_dst, after)
    since = traffic.take((traffic.start_ns > ended_ns) & inside[traffic.pair])
    met = since.take(_trained_ways(state).rows_of(since) < 0)
    if len(state.steps) == 0 or not diagnose.connect(met, after, params.stops):
        return None
    members = (np.unique(state.members.endpoint), after)
    span_ns = (ended_ns, int(met.start_ns.min()))
    return diagnose.suspect_restart(state.job.job_id, state.steps, span_ns, members, topology)


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
    mine: Bool,
    until_ns: int,
    known: Sequence[Diagnosis],
) -> diagnose.Quiet:
    """Put down what is known of a job; `mine` bool[flows] is its training traffic."""
    inside = np.isin(flows.src, endpoints) & np.isin(flows.dst, endpoints)
    return diagnose.Quiet(job_id, endpoints, ways, steps, flows.take(mine), flows.take(~inside), until_ns, tuple(known))
