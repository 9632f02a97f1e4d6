"""Makes the findings on stops: of stalls and restarts that are over, and of all.

Between two steps all ranks may pause together, to save or to evaluate; where the others wait for some, those are named.
A stall conserves the job's communicators; a restart makes them anew, and nearly every rank meets every other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.analysis.diagnose.findings import UNNAMED, Extent, Measured, confidence_in, identity, make_finding
from prism_ch.analysis.diagnose.findings import severity as grade
from prism_ch.analysis.diagnose.stops.habits import periodic_pauses, repeated_pauses
from prism_ch.analysis.diagnose.stops.rests import StepsSeen, unusual_background
from prism_ch.analysis.observe.holes import Hole
from prism_ch.core.arrays import distinct
from prism_ch.core.robust import usual_count
from prism_ch.model.columns import Int32
from prism_ch.model.finding import Baseline, Finding, FindingKind, Severity, SubjectType
from prism_ch.model.flows_by_pair import FlowsByPair
from prism_ch.model.params import Params, StopParams
from prism_ch.model.result import Steps
from prism_ch.model.topology import Topology
from prism_ch.model.window import Interval

#: Why records are missing, in the evidence of a finding on missing records.
SILENCE = "silence"
#: The subject where no exporter sends anything.
ALL_EXPORTERS = "all exporters"

#: What stopped, as C4 parts it: a collective that all have entered, or a rank that never came to it. Source: Dong et
#: al., "Enhancing Large-Scale AI Training Efficiency: The C4 Solution", HPCA 2025.
COMMUNICATION, NON_COMMUNICATION = "communication", "non-communication"

#: Names that a sentence gives before it counts the rest.
_NAMED = 3
#: What a pause is that comes more than once.
_HABIT = "a habit, such as saving or evaluating"


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

    def without_loss(self) -> Stop:
        """Return it as one that costs nothing: nobody is to blame."""
        return replace(self, lost_s=0.0, slowdown=0.0)

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
    among: Sequence[str] | None = None,
) -> Finding:
    """Make the finding on a stop, by default about the job.

    Its identity stays, whatever the stop turns out to be, and though looks differ by a hair about when it began.
    `among`: one of these endpoints stops the job; if there are none, it can't be told which.
    """
    return make_finding(
        kind,
        subject or ("job", stop.job_id),
        identity(stop.job_id, "stall", stop.job_id, stop.step),
        Extent(stop.step, stop.step, stop.start_ns, stop.end_ns, is_open=is_open),
        Measured(stop.length_s, stop.usual_s, slowdown=min(stop.slowdown, 1.0)),
        severity,
        summary,
        {"lost_s": round(stop.lost_s, 6), **evidence},
        baseline=Baseline(records_missing=kind == "telemetry"),
        may_also_be=tuple(among or ()) if among and len(among) > 1 else (),
        confidence=UNNAMED if among == [] else confidence_in(subject[0] if subject else "job", len(among or [""]) - 1),
        lost_s=0.0 if kind == "telemetry" else stop.lost_s,
    )


def is_stop(finding: Finding) -> bool:
    """Return whether a finding is on a job that stands still, or seems to."""
    return finding.kind in ("stall", "hang", "restart") or is_gap(finding)


def is_gap(finding: Finding) -> bool:
    """Return whether a finding is on records that are missing."""
    return finding.kind == "telemetry" and finding.baseline.records_missing


def is_same_stop(one: Finding, other: Finding) -> bool:
    """Return whether two findings are on one stop.

    They are at one time, and if records are missing, of one exporter.
    """
    if "telemetry" in (one.kind, other.kind) and (one.kind, one.subject) != (other.kind, other.subject):
        return False
    return one.start_ns <= other.end_ns and other.start_ns <= one.end_ns


def carry_on_stops(
    known: Iterable[Finding],
    found: Sequence[Finding],
    settled_ns: int,
    holes: Sequence[Hole] = (),
    slow: Sequence[Finding] = (),
) -> tuple[Finding, ...]:
    """Give stops the identity of open ones that they continue; close the others.

    Parameters: `settled_ns`, the end of the last step that another one came after; `holes`, in which records are
    missing; `slow`, findings on slow steps. A stop that began since stays open; an earlier one that was not found again
    is over. What was lost counts to it, unless a hole or what is slow explains it.
    """
    carried, left = [], {one.diagnosis_id: one for one in known if is_stop(one) and one.status == "open"}
    for stop in found:
        same = next((one for one in left.values() if is_same_stop(one, stop)), None)
        if same is not None:
            del left[same.diagnosis_id]
        carried.append(stop if same is None else _continued(same, stop))
    return (*carried, *(_not_found_again(one, settled_ns, holes, slow) for one in left.values()))


def _continued(known: Finding, stop: Finding) -> Finding:
    """Return a stop as it continues a known one, which begins later after a hole."""
    stop = replace(stop, diagnosis_id=known.diagnosis_id)
    later_ns = known.start_ns - stop.start_ns
    if stop.status == "closed" or later_ns <= 0:
        return stop
    lost_s = max(stop.lost_s - later_ns / 1e9, 0.0)
    return replace(stop, start_ns=known.start_ns, observed=stop.observed - later_ns / 1e9, lost_s=lost_s)


def _not_found_again(one: Finding, settled_ns: int, holes: Sequence[Hole], slow: Sequence[Finding]) -> Finding:
    if one.kind not in ("stall", "hang"):
        return replace(one, status="closed")
    if settled_ns <= one.start_ns:
        return one
    begun = f"Nothing of the job was seen to end for {one.observed:.3g} s in step {one.first_step}"
    hidden = any(hole.span.start_ns < one.end_ns and hole.span.end_ns > one.start_ns for hole in holes)
    explained = (
        hidden
        or one.baseline.early
        or one.lost_s <= 0
        or any(other.first_step <= one.first_step <= other.last_step for other in slow)
    )
    return replace(
        one,
        kind="stall",
        status="closed",
        severity="info",
        slowdown=0.0 if explained else one.slowdown,
        lost_s=0.0 if explained else max(one.observed - one.expected, 0.0),
        summary=f"{begun}, {'as its records are missing' if hidden else 'and then it went on'}.",
    )


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
    job_id: str, seen: StepsSeen, history: Steps, around: FlowsByPair, topology: Topology, params: Params
) -> tuple[Finding, ...]:
    """Find the stalls and restarts in an attempt's new steps.

    One in the newest step is told early: the next may show that the job has become slow.
    Parameters: `history`, the job's known steps, which show its periodic pauses: those are habits, and so is one of all
    ranks that is as long as another one; `around`, flows with one end or both at members of the job.
    """
    usual = history.step[periodic_pauses(history, params.stops)]
    repeated = history.step[repeated_pauses(history, params.stops)]
    found = []
    is_new = np.append(seen.number[1:], seen.number[-1:] + 1) >= seen.attempt.first_new
    for row in np.flatnonzero(seen.stopped(params.stops) & is_new).tolist():
        span = seen.rests.at(row)
        rest_s, usual_s = float(seen.rests.length_s[row]), seen.rests.usual_s()
        lost_s = _lost_s(float(seen.duration_s[row]) - seen.step_s, rest_s - usual_s, params.stops)
        slowdown = slowdown_by(lost_s, rest_s, seen.step_s, params.stops)
        stop = Stop(job_id, int(seen.number[row]), span.start_ns, span.end_ns, usual_s, lost_s, slowdown)
        if _met_anew(seen, span, around, params.stops):
            found.append(_describe_restart(stop, len(seen.endpoints)))
        elif seen.number[row] in usual:
            found.append(_describe_habit(stop, "as it does at regular distances"))
        elif seen.number[row] in repeated and not len(seen.stragglers(row, params.stops)):
            found.append(_describe_habit(stop, "as long as another time"))
        else:
            stall = _describe_stall(seen, row, stop, around, topology, params)
            is_newest = row == len(seen.number) - 1
            found.append(replace(stall, status="open", baseline=Baseline(early=True)) if is_newest else stall)
    return tuple(found)


def slowdown_by(lost_s: float, rest_s: float, step_s: float, params: StopParams) -> float:
    """Return the lost share of some steps, or of the stop if that is longer."""
    return lost_s / max(params.recent_steps * step_s, rest_s)


def _lost_s(of_step_s: float, of_rest_s: float, params: StopParams) -> float:
    """Return what a stop cost: by how much longer its step took.

    A part of the job may stop after others and go on before, and while nothing moves some may compute. Where the end of
    the step is taken for that of another, it is by how much longer nothing moved.
    """
    return of_step_s if of_step_s >= params.half * of_rest_s else of_rest_s


def find_habits(pauses: Iterable[Finding], history: Steps, params: StopParams) -> tuple[Finding, ...]:
    """Revise the stalls that are over and turned out to be habits.

    Parameters: `pauses`, stalls in the job's known steps, `history`.
    """
    usual = history.step[periodic_pauses(history, params) | repeated_pauses(history, params)]
    return tuple(
        replace(
            one,
            severity="info",
            slowdown=0.0,
            lost_s=0.0,
            summary=f"The job paused for {one.observed:.3g} s in step {one.first_step}, as it has since: {_HABIT}.",
        )
        for one in pauses
        if one.subject_type == "job" and one.first_step in usual
    )


def _met_anew(seen: StepsSeen, span: Interval, around: FlowsByPair, params: StopParams) -> bool:
    """Return whether nearly all endpoints connect to others. More small flows than usual run between them.

    Where one rank tells all others of one another they need not meet each with each.
    """
    flows, among = around.flows, around.flows.rows_between(seen.endpoints)
    small = flows.take(among[flows.bytes[among] < params.little * seen.usual_message()])
    met = small.take((small.start_ns > span.start_ns) & (small.end_ns < span.end_ns))
    if len(met) <= params.twice * usual_count(small.start_ns, span.start_ns, span.end_ns):
        return False
    touched = distinct(np.concatenate([met.src, met.dst]))
    return len(touched) >= params.nearly_all * len(seen.endpoints)


def _describe_habit(stop: Stop, when: str) -> Finding:
    return stop_finding(
        "stall",
        stop.without_loss(),
        "info",
        f"The job paused for {stop.length_s:.3g} s in step {stop.step}, {when}: {_HABIT}.",
        {"habit": True},
    )


def _describe_stall(
    seen: StepsSeen, row: int, stop: Stop, around: FlowsByPair, topology: Topology, params: Params
) -> Finding:
    """Describe what a stall that is over waited for; `row` is its step.

    Nobody is to blame for a hiccup.
    """
    stops = params.stops
    stragglers = seen.stragglers(row, stops)
    background = unusual_background(around, seen.endpoints, seen.rests.at(row), topology, stops)
    if sum(background.values()) <= stops.min_saved_share * seen.usual_payload():
        background = {}
    is_hiccup = stop.lost_s < stops.min_lost_s
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
    late = [topology.endpoints[endpoint] for endpoint in stragglers.tolist()]
    return stop_finding(
        "stall",
        stop.without_loss() if is_hiccup else stop,
        "info" if is_hiccup else grade(stop.slowdown, params.diagnose),
        f"The job stood still for {stop.length_s:.3g} s in step {stop.step}; {why}",
        {
            "waited_for": late,
            "beside_bytes": background,
            "class": COMMUNICATION if seen.is_sending(row) and not len(stragglers) else NON_COMMUNICATION,
        },
        subject_of(stragglers, stop.job_id, topology),
        among=late or None,
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
