"""Makes the findings on stops: of stalls and restarts that are over, and of all.

Between two steps all ranks may pause together, to save or to evaluate; where the others wait for some, those are named.
A stall conserves the job's communicators; a restart makes them anew, and nearly every rank meets every other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.analysis.diagnose.findings import NAMED, UNNAMED, Extent, Measured, identity, make_finding
from prism_ch.analysis.diagnose.findings import severity as grade
from prism_ch.analysis.diagnose.stops.rests import StepsSeen, periodic_pauses, unusual_background
from prism_ch.core.robust import usual_count
from prism_ch.model.columns import Int32
from prism_ch.model.finding import Baseline, Finding, FindingKind, Severity, SubjectType
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import Params, StopParams
from prism_ch.model.result import OTHER, Steps
from prism_ch.model.topology import Topology
from prism_ch.model.window import Interval

#: Why records are missing, in the evidence of a finding on missing records.
SILENCE = "silence"

#: Names that a sentence gives before it counts the rest.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Stop:
    """When a job stood still, its usual rest, and the time lost.

    `slowdown` is the lost share of the time that counts.
    """

    job_id: str
    step: int
    start_ns: int
    end_ns: int
    usual_s: float
    lost_s: float
    slowdown: float

    @property
    def length_s(self) -> float:
        """How long it lasted, in seconds."""
        return (self.end_ns - self.start_ns) / 1e9


def stop_finding(
    kind: FindingKind,
    stop: Stop,
    severity: Severity,
    summary: str,
    evidence: Mapping[str, object],
    subject: tuple[SubjectType, str] | None = None,
    *,
    is_open: bool = False,
) -> Finding:
    """Make the finding on a stop, by default about the job.

    Its identity stays, whatever the stop turns out to be.
    """
    return make_finding(
        kind,
        subject or ("job", stop.job_id),
        identity(stop.job_id, "stall", stop.job_id, stop.start_ns),
        Extent(stop.step, stop.step, stop.start_ns, stop.end_ns, is_open=is_open),
        Measured(stop.length_s, stop.usual_s, slowdown=min(stop.slowdown, 1.0)),
        severity,
        summary,
        {"lost_s": round(stop.lost_s, 6), **evidence},
        baseline=Baseline(records_missing=kind == "telemetry"),
        confidence=UNNAMED if subject is None or subject[0] == "job" else NAMED,
        lost_s=0.0 if kind == "telemetry" else stop.lost_s,
    )


def is_stop(finding: Finding) -> bool:
    """Return whether a finding is on a job that stands still, or seems to."""
    return finding.kind in ("stall", "hang", "restart") or (
        finding.kind == "telemetry" and finding.baseline.records_missing
    )


def is_same_stop(one: Finding, other: Finding) -> bool:
    """Return whether two findings are on one stop.

    They are at one time, and if records are missing, of one exporter.
    """
    if "telemetry" in (one.kind, other.kind) and (one.kind, one.subject) != (other.kind, other.subject):
        return False
    return one.start_ns <= other.end_ns and other.start_ns <= one.end_ns


def carry_on_stops(known: Iterable[Finding], found: Sequence[Finding], settled_ns: int) -> tuple[Finding, ...]:
    """Give stops the identity of open ones that they continue; close the others.

    Parameters: `settled_ns`, the end of the last step that another one came after. A stop that began since stays open;
    an earlier one that was not found again was a job that was late, and went on.
    """
    carried, left = [], {one.diagnosis_id: one for one in known if is_stop(one) and one.status == "open"}
    for stop in found:
        same = next((one for one in left.values() if is_same_stop(one, stop)), None)
        if same is not None:
            del left[same.diagnosis_id]
        carried.append(stop if same is None else replace(stop, diagnosis_id=same.diagnosis_id))
    return (*carried, *(_not_found_again(one, settled_ns) for one in left.values()))


def _not_found_again(one: Finding, settled_ns: int) -> Finding:
    if one.kind not in ("stall", "hang"):
        return replace(one, status="closed")
    if settled_ns <= one.start_ns:
        return one
    summary = (
        f"Nothing of the job was seen to end for {one.observed:.3g} s in step {one.first_step}, and then it went on."
    )
    return replace(one, kind="stall", status="closed", severity="info", slowdown=0.0, summary=summary)


def subject_of(endpoints: Int32, job_id: str, topology: Topology) -> tuple[SubjectType, str]:
    """Name the endpoint or the server if there is only one, else the job."""
    if len(endpoints) == 1:
        return "endpoint", topology.endpoints[endpoints[0]]
    servers = np.unique(topology.server[endpoints])
    return ("server", topology.server_names[servers[0]]) if len(servers) == 1 else ("job", job_id)


def listed(endpoints: Int32, topology: Topology) -> str:
    """Name some endpoints and their servers in words."""
    names = [topology.endpoints[endpoint] for endpoint in endpoints.tolist()]
    servers = [topology.server_names[server] for server in np.unique(topology.server[endpoints]).tolist()]
    return f"{first_few(names)} ({first_few(servers)})"


def first_few(names: Sequence[str]) -> str:
    """List some names, and how many more there are."""
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def most_background(moved: Mapping[str, int]) -> str:
    """Name the machine that moved most during a stop."""
    most = max(moved, key=lambda name: moved[name])
    return f"{moved[most] / 1e9:.3g} GB went to or from {most}"


def find_past_stops(
    job_id: str, seen: StepsSeen, history: Steps, around: FlowBatch, topology: Topology, params: Params
) -> tuple[Finding, ...]:
    """Find the stalls and restarts in an attempt's new steps that another step came after.

    Parameters: `history`, the job's known steps, which show its periodic pauses: those are not reported; `around`,
    flows with one end or both at members of the job.
    """
    usual = history.step[periodic_pauses(history, params.stops)]
    found = []
    for row in np.flatnonzero(seen.stopped(params.stops)[:-1] & (seen.number[1:] >= seen.attempt.first_new)).tolist():
        span = seen.rests.at(row)
        rest_s, usual_s = float(seen.rests.length_s[row]), seen.rests.usual_s()
        slowdown = (rest_s - usual_s) / max(params.diagnose.severity_steps * seen.step_s, rest_s)
        stop = Stop(job_id, int(seen.number[row]), span.start_ns, span.end_ns, usual_s, rest_s - usual_s, slowdown)
        if _met_anew(seen, span, params.stops):
            found.append(_describe_restart(stop, len(seen.endpoints)))
        elif seen.number[row] not in usual:
            background = unusual_background(around, seen.endpoints, span, topology, params.stops)
            stragglers = seen.stragglers(row, params.stops)
            found.append(_describe_stall(seen, stop, stragglers, background, topology, params))
    return tuple(found)


def _met_anew(seen: StepsSeen, span: Interval, params: StopParams) -> bool:
    """Return whether nearly all endpoints met others than their training peers."""
    others = seen.attempt.bursts.take(seen.attempt.kinds.burst == OTHER)
    met = others.take((others.end_ns > span.start_ns) & (others.start_ns < span.end_ns))
    if len(met) <= params.twice * usual_count(others.start_ns, span.start_ns, span.end_ns):
        return False
    partners = np.bincount(met.pair_src[met.moving()], minlength=int(seen.endpoints.max()) + 1)[seen.endpoints]
    return float(np.mean(partners >= 2)) >= params.half


def _describe_stall(
    seen: StepsSeen, stop: Stop, stragglers: Int32, background: Mapping[str, int], topology: Topology, params: Params
) -> Finding:
    stops = params.stops
    longest_s = max(stops.long_pause_steps * seen.step_s, stops.saving_hang_s if background else stops.silence_s)
    is_pause = (len(stragglers) == 0 and stop.length_s < longest_s) or stop.lost_s < stops.min_lost_s
    if len(stragglers):
        why = f"the others waited for {listed(stragglers, topology)}: look at what feeds these GPUs with data."
    elif background:
        why = f"all paused together, and {most_background(background)}: look at that storage."
    elif seen.only_twos():
        why = (
            "of two that only exchange gradients with one another neither begins alone, so nobody can be told to be "
            "late: look at checkpoints, evaluations and what feeds either with data."
        )
    else:
        why = "all paused together: look at checkpoints, evaluations and what else they wait for at once."
    return stop_finding(
        "stall",
        stop,
        "info" if is_pause else grade(stop.slowdown, params.diagnose),
        f"The job stood still for {stop.length_s:.3g} s in step {stop.step}; {why}",
        {
            "waited_for": [topology.endpoints[endpoint] for endpoint in stragglers.tolist()],
            "beside_bytes": background,
        },
        subject_of(stragglers, stop.job_id, topology),
    )


def _describe_restart(stop: Stop, members: int) -> Finding:
    return stop_finding(
        "restart",
        stop,
        "warning",
        f"The job was interrupted for {stop.length_s:.3g} s in step {stop.step} and began anew on the same {members} "
        "endpoints: look for why it died.",
        {"gap_s": round(stop.length_s, 6), "members_before": members, "members_after": members},
    )
