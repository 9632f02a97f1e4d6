"""Silence that lasts: a job of which nothing ends any more stalls or hangs, or nobody exports its records.

In the middle of a step only a rank that hangs stops a job: data loaders and checkpoints come between steps. How long it
stands still counts from when the first send that is overdue was due, by the order in which ranks send in a usual step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.analysis.diagnose.findings import identity
from prism_ch.analysis.diagnose.stops.background import unusual_beside
from prism_ch.analysis.diagnose.stops.hang_culprits import HangCulprits, Sends, Ways, find_hang_culprits
from prism_ch.analysis.diagnose.stops.periodic_pauses import is_due
from prism_ch.analysis.diagnose.stops.rests import least_stop_s, longest_rests
from prism_ch.analysis.diagnose.stops.stop_findings import (
    SILENCE,
    Stop,
    first_few,
    is_stop,
    listed,
    stop_finding,
    subject_of,
    traffic_beside,
)
from prism_ch.model.columns import Int32, Int64
from prism_ch.model.finding import Finding
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import Params, StopParams
from prism_ch.model.result import PP, Steps
from prism_ch.model.topology import Topology


@dataclass(frozen=True, slots=True)
class Quiet:
    """A job that may stand still, as far as records tell up to `until_ns`.

    `endpoints` int32[n], sorted, are its members, `ways` the pairs that it trains on, `steps` what is known of its
    steps. `flows` are its training traffic of some steps back and since, `beside` what else its members sent and got in
    that time, `around` what anybody did but members among themselves. `known` are the findings on it that were open
    before.
    """

    job_id: str
    endpoints: Int32
    ways: Ways
    steps: Steps
    flows: FlowBatch
    beside: FlowBatch
    around: FlowBatch
    until_ns: int
    known: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class UsualRhythm:
    """The usual length of a job's longest rest and of its step, in seconds, and the steps that say so."""

    rest_s: float
    step_s: float
    steps: Steps


def usual_rhythm(quiet: Quiet, params: StopParams) -> UsualRhythm | None:
    """Return what is usual of a job; None where too little is known."""
    if len(quiet.flows) == 0:
        return None
    begin_ns = int(quiet.flows.end_ns.min())
    whole = quiet.steps.take((quiet.steps.complete == 1) & (quiet.steps.start_ns >= begin_ns))
    if len(whole) < params.enough:
        return None
    whole = whole.take(np.arange(max(len(whole) - params.recent_steps, 0), len(whole)))
    since, until = longest_rests(quiet.flows.end_ns, whole.end_ns)
    return UsualRhythm(float(np.median(until - since)) / 1e9, float(np.median(whole.duration_s)), whole)


def find_silence(quiet: Quiet, rhythm: UsualRhythm | None, topology: Topology, params: Params) -> Finding | None:
    """Find out whether a job of a usual `pace` stands still at the end of what is known of it, and what that is."""
    if rhythm is None:
        return None
    last_ns = int(quiet.flows.end_ns.max())
    silent_s = (quiet.until_ns - last_ns) / 1e9
    if silent_s <= params.stops.silence_s or is_due(quiet.steps, silent_s, params.stops):
        return None
    sends = Sends(quiet.ways.rows_of(quiet.flows), quiet.flows.start_ns)
    begin_ns = np.append(rhythm.steps.start_ns, rhythm.steps.end_ns[-1])
    culprits = find_hang_culprits(sends, quiet.ways, begin_ns, rhythm.step_s, params.stops)
    due_ns = last_ns + round(rhythm.rest_s * 1e9) if culprits.due_ns is None else culprits.due_ns
    overdue_s = (quiet.until_ns - due_ns) / 1e9
    if overdue_s <= params.stops.half * rhythm.step_s:
        return None
    excess_s = least_stop_s(rhythm.rest_s, rhythm.step_s, params.stops) - rhythm.rest_s
    lost = _lost_exporters(quiet, last_ns, rhythm, params.stops)
    step = int(quiet.steps.step[-1]) + 1
    stop = Stop(step, last_ns, quiet.until_ns, rhythm.rest_s, overdue_s, 1.0)
    if lost.sure:
        return _untold(quiet, stop, lost)
    return _describe(quiet, stop, culprits, excess_s, lost, topology, params)


def find_lost_exporters(
    quiet: Quiet, rhythm: UsualRhythm | None, raw: FlowBatch, params: Params
) -> tuple[Finding, ...]:
    """Find the exporters that send nothing while steps of a job that they see, and always saw, go on.

    Parameters: `pace`, the usual one of the job; `raw`, all observations of the newest window, also those of flows that
    others saw as well.
    """
    if rhythm is None:
        return ()
    found = [
        stop for name in _irregular(quiet, params.stops) for stop in _gaps_of(name, quiet, raw, rhythm, params.stops)
    ]
    # One that was lost long ago is not among those that saw the last few steps.
    last_ns, told = int(quiet.flows.end_ns.max()), {stop.subject for stop in found}
    lost_before = [one for one in quiet.known if is_stop(one) and one.kind == "telemetry" and one.subject not in told]
    for one in lost_before:
        heard = [_ends_of(one.subject, batch) for batch in (quiet.flows, quiet.around, raw)]
        if one.subject_type == "exporter" and not (np.concatenate(heard) > one.start_ns).any():
            found.append(replace(one, end_ns=last_ns, observed=(last_ns - one.start_ns) / 1e9))
    return tuple(found)


def _irregular(quiet: Quiet, params: StopParams) -> list[str]:
    """Name the exporters that saw the job, but not in all of its steps: few have to be looked at more closely."""
    step = np.searchsorted(quiet.steps.end_ns, quiet.flows.end_ns)
    reached = np.zeros((len(quiet.flows.exporters), len(quiet.steps) + 1), dtype=bool)
    reached[quiet.flows.exporter, step] = True
    missed = (~reached[:, step.min() : -1]).sum(axis=1)
    saw = np.flatnonzero(reached.any(axis=1) & (missed >= params.repeats))
    return [quiet.flows.exporters[code] for code in saw.tolist()]


def _gaps_of(name: str, quiet: Quiet, raw: FlowBatch, rhythm: UsualRhythm, params: StopParams) -> Iterator[Finding]:
    """Yield the times in which an exporter sent nothing while steps of the job that it always saw went on."""
    step_end_ns = quiet.steps.end_ns[quiet.steps.end_ns > quiet.flows.end_ns.min()]
    ends = np.unique(np.concatenate([_ends_of(name, batch) for batch in (quiet.flows, quiet.around, raw)]))
    end_ns = np.append(ends, quiet.flows.end_ns.max())
    steps = np.searchsorted(step_end_ns, end_ns[1:]) - np.searchsorted(step_end_ns, end_ns[:-1], side="right")
    long = np.diff(end_ns) > params.silence_s * 1e9
    for gap in np.flatnonzero(long & (steps >= params.repeats)).tolist():
        since_ns = int(end_ns[gap])
        before = step_end_ns[step_end_ns <= since_ns][-params.enough - 1 :]
        reached = np.diff(np.searchsorted(ends[: gap + 1], before, side="right")) > 0
        if len(reached) == params.enough and reached.all():
            step = int(quiet.steps.step[np.searchsorted(quiet.steps.end_ns[:-1], since_ns)])
            stop = Stop(step, since_ns, int(end_ns[gap + 1]), rhythm.rest_s, 0.0, 0.0)
            yield _missing(quiet.job_id, name, stop, is_open=gap == len(ends) - 1)


@dataclass(frozen=True, slots=True)
class _Lost:
    """Exporters that may have been lost: `names` of those that saw the job, of which nothing else comes any more.

    `sure`: other records should have come, and did not; otherwise there is nothing that could tell.
    """

    names: tuple[str, ...]
    sure: bool


def _lost_exporters(quiet: Quiet, last_ns: int, rhythm: UsualRhythm, params: StopParams) -> _Lost:
    """Find out whether those that saw the job still see anything else."""
    saw = {quiet.flows.exporters[code] for code in np.unique(quiet.flows.exporter).tolist()}
    theirs = np.isin(quiet.around.exporter, [code for code, name in enumerate(quiet.around.exporters) if name in saw])
    end_ns = quiet.around.end_ns[theirs]
    after = np.count_nonzero(end_ns > last_ns + rhythm.rest_s * 1e9)
    if after:
        return _Lost((), sure=False)
    silent_ns = quiet.until_ns - last_ns
    before = np.count_nonzero((end_ns <= last_ns) & (end_ns > last_ns - silent_ns))
    # What was seen beside the job before it fell silent is looked back at for some steps only.
    was_sure = any(one.kind == "telemetry" and is_stop(one) and one.start_ns == last_ns for one in quiet.known)
    return _Lost(tuple(sorted(saw)), sure=was_sure or bool(before >= params.min_missed_records))


def _ends_of(exporter: str, flows: FlowBatch) -> Int64:
    """Return when the flows that an exporter saw ended."""
    code = flows.exporters.index(exporter) if exporter in flows.exporters else -1
    ends: Int64 = flows.end_ns[flows.exporter == code]
    return ends


def _missing(job_id: str, exporter: str, stop: Stop, *, is_open: bool) -> Finding:
    """Say that one exporter's records of a job that goes on are missing."""
    sent = f"{exporter or 'without a name'} {'sends' if is_open else 'sent'} nothing for {stop.length_s:.3g} s"
    finding = stop_finding(
        "telemetry",
        job_id,
        stop,
        ("exporter", exporter),
        "warning",
        f"Exporter {sent} since step {stop.step}, while others saw this job go on: what it sees is missing; look at "
        "the exporter, its switch and the way to the collector.",
        {"because": SILENCE, "exporters": [exporter]},
        is_open=is_open,
    )
    return replace(finding, diagnosis_id=identity(job_id, "telemetry", exporter, stop.start_ns))


def _untold(quiet: Quiet, stop: Stop, lost: _Lost) -> Finding:
    """Say that records are missing, and that nothing can be said of the job."""
    names = [name or "without a name" for name in lost.names]
    return stop_finding(
        "telemetry",
        quiet.job_id,
        stop,
        ("exporter", lost.names[0]) if len(lost.names) == 1 else ("job", quiet.job_id),
        "warning",
        f"Exporter{'s' * (len(names) > 1)} {first_few(names)} sent nothing more for {stop.length_s:.3g} s, of this job "
        "or of others: what the job does can't be told; look at the exporter, its switch and the way to the collector.",
        {"because": SILENCE, "exporters": list(lost.names), "lost_s": 0.0},
        is_open=True,
    )


def _describe(
    quiet: Quiet,
    stop: Stop,
    culprits: HangCulprits,
    excess_s: float,
    lost: _Lost,
    topology: Topology,
    params: Params,
) -> Finding:
    """Tell a hang from a stall, and put it into words; `excess_s` is by how much a rest is a stop for sure."""
    stops = params.stops
    beside = unusual_beside(quiet.around, quiet.endpoints, (stop.start_ns, stop.end_ns), topology, stops)
    waits_s = stops.saving_hang_s if beside else stops.silence_s if culprits.amid else stops.idle_hang_s
    # Where no replica begins a step, it is not one rank that hangs: all wait for the same, or the job has ended.
    apart = len(np.unique(topology.server[culprits.endpoints])) > 1
    together = not culprits.begun and apart and bool((quiet.ways.kind == PP).any())
    hangs = stop.lost_s > max(excess_s, waits_s) and not together
    few = len(culprits.named) <= stops.half * len(quiet.endpoints)
    named = culprits.named if few else culprits.named[:0]
    if hangs and not culprits.begun and not apart:
        named = culprits.endpoints  # nobody began the step, and these begin it
    where = "in the middle of a step" if culprits.amid else "between two steps"
    if len(named):
        who = f"the first that should have sent on is {listed(named, topology)}"
    elif culprits.anybody:
        who = "no rank can be told to be the first, since no peer of theirs has sent what is due"
    else:
        who = "no rank can be told to be the first"
    aside = f", and {traffic_beside(beside)} meanwhile" if beside else ""
    doubt = (
        f" Nothing else comes from {first_few([name or 'the exporter' for name in lost.names])}: if that was lost, the "
        "job may go on."
        if len(lost.names) == 1
        else ""
    )
    verb, advice = ("hangs", "look at that rank's process") if hangs else ("stands still", "look at data and storage")
    if not culprits.begun:
        advice = f"it may have ended; else {advice}"
    return stop_finding(
        "hang" if hangs else "stall",
        quiet.job_id,
        stop,
        subject_of(named, quiet.job_id, topology),
        "critical" if hangs and culprits.begun else "info",
        f"The job {verb} since step {stop.step - 1}, for {stop.length_s:.3g} s, {where}{aside}; {who}: {advice}."
        + doubt,
        {
            "suspects": [topology.endpoints[endpoint] for endpoint in named.tolist()],
            "in_a_step": culprits.amid,
            "overdue_s": round(stop.lost_s, 6),
            "beside_bytes": beside,
            "only_exporter": lost.names[0] if len(lost.names) == 1 else "",
        },
        is_open=True,
    )
