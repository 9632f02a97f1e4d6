"""Incidents: the findings of all jobs, put together by what is wrong and where, and graded by what that costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import chain

from prism_ch.analysis.diagnose import findings as of_findings
from prism_ch.analysis.incidents.cost import Around, LostShare, costs_of, grade, is_long, not_replayed
from prism_ch.analysis.incidents.groups import (
    STOPS,
    Claim,
    Group,
    costs_nothing,
    grouped,
    is_contradicted,
    is_slow,
    kind_named,
    named,
    names_of,
    names_place,
)
from prism_ch.analysis.incidents.words import agreeing, part_of, tell, told_before
from prism_ch.model.finding import Finding, Severity
from prism_ch.model.incident import Incident
from prism_ch.model.memory import JobMemory, WindowMemory, WindowRevision
from prism_ch.model.params import IncidentParams
from prism_ch.model.topology import Topology
from prism_ch.model.window import Window

_GRADES: tuple[Severity, ...] = ("info", "warning", "critical")


@dataclass(frozen=True, slots=True)
class _Judged:
    """An incident, and the findings of its group as they are to be published, by diagnosis_id."""

    incident: Incident
    findings: Mapping[str, Finding]


def find_incidents(
    revision: WindowRevision,
    before: WindowMemory,
    after: WindowMemory,
    window: Window,
    topology: Topology,
    params: IncidentParams,
    replayed: LostShare = not_replayed,
) -> WindowRevision:
    """Return a window's revision with its incidents.

    Its findings name them, and are graded by what they cost.

    Parameters: `before` and `after`, what was known before the window and is known with the revision; `replayed`, see
    `Around`.

    1. Gather the findings that are open or that the window closed, without those that cost nothing.
    2. Group them by incident, and let each group go on with an incident that was known.
    3. Add what it cost since, grade that, and name the culprit.
    4. Close the known incidents of which nothing is found any more; withdraw those that turned out to be nobody's, and
       those of a time that is told anew, as another or without a stop.
    5. Give each finding its incident and a grade not above it; what names another culprit is dropped.
    """
    jobs = {job.job.job_id: job for job in after.jobs}
    groups = grouped(list(_claims(revision, before)), params)
    left = list(before.incidents)
    matched: list[tuple[Group, list[Incident]]] = []
    for group in sorted(groups, key=lambda group: (group.cause.start_ns, group.place)):
        same = _known(group, left, params)
        left = [one for one in left if one not in same]
        row = None if same else _row_of_the_same(group, matched, params)
        if row is None:
            matched.append((group, same))
        else:
            other, same = matched[row]
            worse, better = sorted((other, group), key=lambda one: one.cause.slowdown, reverse=True)
            matched[row] = Group((*worse.claims, *better.claims)), same
    nobodys = _nobodys(revision, before)
    habits = [one for one in left if one.kind in STOPS and one.incident_id in nobodys]
    from_ns = {job.job.job_id: job.from_time_ns for job in revision.jobs}
    groups = [group for group, _ in matched]
    again = [one for one in left if one not in habits and _is_told_anew(one, from_ns, groups)]
    judged: list[_Judged] = []
    for group, same in matched:
        around = Around(groups, [one for one in before.incidents if one not in (*same, *again)], replayed)
        judged.append(_judge(group, same, jobs, around, window, params))
        judged += [_Judged(replace(one, is_withdrawn=True), {}) for one in same[1:]]
    judged += [_Judged(replace(one, is_withdrawn=True), {}) for one in again]
    left = [one for one in left if one not in again]
    over = habits + [one for one in left if one.status == "open" and one not in habits and not _waits(one, jobs)]
    judged += [_Judged(_over(one, jobs, nobodys), {}) for one in over]
    incidents = [one.incident for one in judged]
    parts = [part for one in incidents for part in _parts(one, jobs, topology, params)]
    return _with_incidents(revision, before, judged, (*incidents, *parts))


def _claims(revision: WindowRevision, before: WindowMemory) -> Iterable[Claim]:
    """List what the window finds wrong, or no longer, with the incidents that are known.

    Incidents of jobs that it does not show stay as they are.
    """
    known = {one.diagnosis_id: one.incident_id for one in _known_findings(before)}
    found = [Claim(job.job.job_id, finding) for job in revision.jobs for finding in job.findings]
    found += [Claim("", finding) for finding in revision.findings]
    for claim in found:
        if not costs_nothing(claim.finding):
            incident_id = known.get(claim.finding.diagnosis_id, "")
            yield Claim(claim.job_id, replace(claim.finding, incident_id=incident_id))


def _known_findings(before: WindowMemory) -> Iterable[Finding]:
    return chain(before.findings, *((*job.findings, *job.pauses) for job in before.jobs))


def _known(group: Group, left: Sequence[Incident], params: IncidentParams) -> list[Incident]:
    """Return the known incidents of a group, the one that keeps its name first.

    What a job showed of a cause before that was known is the cause's.
    """
    names = {claim.finding.incident_id for claim in group.claims} - {""}
    mine = [one for one in left if one.incident_id in names]
    if not mine:
        mine = [one for one in left if _goes_on(one, group, params)][:1]
    mine += [one for one in left if one not in mine and _was_symptom(one, group)]
    return sorted(mine, key=lambda one: (one.start_ns, one.incident_id))


def _row_of_the_same(
    group: Group, matched: Sequence[tuple[Group, list[Incident]]], params: IncidentParams
) -> int | None:
    """Return which group at the same place goes on with a known incident as well.

    What came again was one incident, and is told apart where a job is judged anew.
    """
    return next(
        (
            row
            for row, (other, same) in enumerate(matched)
            if other.place == group.place and any(_goes_on(one, group, params) for one in same)
        ),
        None,
    )


def _was_symptom(one: Incident, group: Group) -> bool:
    """Return whether a known incident names no place, and a group does."""
    names_none = one.subject_type in ("job", "group") and not one.may_also_be
    if not (is_slow(one) and names_none and is_slow(group.cause) and names_place(group.cause)):
        return False
    return _meet(one, group)


def _goes_on(one: Incident, group: Group, params: IncidentParams) -> bool:
    """Return whether a group goes on with a known incident, or is the same again.

    Each stop is one of its own. As windows judge anew, what is slow at one time may be named otherwise; later it is the
    same only by kind and subject.
    """
    cause = group.cause
    if one.kind in STOPS or cause.kind in STOPS or (one.kind == "telemetry") != group.is_telemetry:
        return False
    if _is_settled(one, group):
        return True
    quiet_s = max(cause.start_ns - one.end_ns, 0) / 1e9
    if one.status == "open" or quiet_s <= params.renamed_s:
        return _is_same_place(one, group)
    again = (kind_named(cause), named(cause)) == (one.kind, one.subject)
    return again and quiet_s <= params.quiet_s and (one.subject_type != "group" or _share_jobs(one, group))


def _is_settled(one: Incident, group: Group) -> bool:
    """Return whether a group shows nothing that a closed incident was not about.

    The window that closed it saw all of it; later ones see less and less of that time, and would name it otherwise.
    """
    over = one.status == "closed" and one.subject_type != "job" and is_slow(one)
    meets = group.cause.start_ns < one.end_ns and group.end_ns <= one.end_ns
    return over and meets and is_slow(group.cause) and _share_jobs(one, group)


def _is_same_place(one: Incident, group: Group) -> bool:
    """Return whether two name one place, or one job where either names none."""
    theirs = {named(group.cause), *group.cause.may_also_be, *group.cause.about}
    if not theirs.isdisjoint((one.subject, *one.may_also_be)):
        return one.subject_type != "group" or _share_jobs(one, group)
    return (one.subject_type == "job" or not names_place(group.cause)) and _share_jobs(one, group)


def _meet(one: Incident, group: Group) -> bool:
    return one.start_ns < group.end_ns and group.cause.start_ns < one.end_ns and _share_jobs(one, group)


def _share_jobs(one: Incident, group: Group) -> bool:
    return not group.jobs.isdisjoint(one.jobs)


def _judge(
    group: Group,
    same: Sequence[Incident],
    jobs: dict[str, JobMemory],
    around: Around,
    window: Window,
    params: IncidentParams,
) -> _Judged:
    told = tell(group)
    is_symptom = not names_place(group.cause) and group.cause.kind not in STOPS
    names, settled = names_of(group.cause), bool(same) and _is_settled(same[0], group)
    if settled or (same and is_symptom and same[0].subject_type != "job"):
        told = told_before(same[0])
        names = frozenset((told.subject, *told.may_also_be))
    findings = [claim.finding for claim in group.claims]
    start_ns = min([*(one.start_ns for one in findings), *(one.start_ns for one in same)])
    before = tuple({cost.job_id: cost for one in reversed(same) for cost in one.costs}.values())
    incident = Incident(
        same[0].incident_id if same else _new_name(group, start_ns),
        told.kind,
        told.subject_type,
        told.subject,
        told.may_also_be,
        told.confidence,
        same[0].noted_ns if same else window.start_ns,
        start_ns,
        same[0].end_ns if settled else group.end_ns,
        "open" if any(one.status == "open" for one in findings) else "closed",
        "info",
        told.summary,
        told.action,
        costs_of(group, before, jobs, around, params),
    )
    severity = grade(incident, params) if told.kind != "telemetry" else group.cause.severity
    # Other work would cost nothing, nor would the end of a job; what just ended may prove slow, and a hiccup is over.
    baseline = group.cause.baseline
    unsure = baseline.maybe_other_work or baseline.maybe_ended or baseline.early
    if unsure or _may_be_hiccup(group.cause, params):
        severity = _milder(severity, "warning")
    incident = replace(incident, severity=severity)
    cause = group.cause
    kept = {}
    for finding in findings:
        one = finding
        if is_contradicted(finding, names):
            if finding.kind != "slow_step":
                continue
            one = agreeing(finding, told)
        own = (
            severity if finding is cause or told.kind == "telemetry" else of_findings.severity(finding.slowdown, params)
        )
        own = _milder(own, severity)
        kept[one.diagnosis_id] = replace(one, incident_id=incident.incident_id, severity=own)
    return _Judged(incident, kept)


def _new_name(group: Group, start_ns: int) -> str:
    """Name an incident that was not known. A stop or silence is the same one, whatever it turns out to be."""
    _, place, job_id = group.place
    if group.cause.kind in (*STOPS, "telemetry"):
        return of_findings.identity("", "stall", group.cause.diagnosis_id, 0)
    return of_findings.identity(job_id, group.cause.kind, place, start_ns)


def _may_be_hiccup(cause: Finding, params: IncidentParams) -> bool:
    return cause.kind == "slow_step" and cause.first_step == cause.last_step and not is_long(cause, params)


def _milder(one: Severity, other: Severity) -> Severity:
    return min(one, other, key=_GRADES.index)


def _nobodys(revision: WindowRevision, before: WindowMemory) -> set[str]:
    """Return known incidents whose finding proves to cost nothing. More steps show that a batch grew.

    Nor is a pause that comes again.
    """
    known = {one.diagnosis_id: one.incident_id for one in _known_findings(before)}
    found = chain.from_iterable(job.findings for job in revision.jobs)
    return {known.get(one.diagnosis_id, "") for one in found if costs_nothing(one)} - {""}


def _over(one: Incident, jobs: Mapping[str, JobMemory], nobodys: AbstractSet[str]) -> Incident:
    """Close an incident.

    Where none of its jobs is left, or it was a stop or named no place and is nobody's, there never was one.
    """
    gone = bool(one.costs) and not any(cost.job_id in jobs for cost in one.costs)
    gone |= (one.subject_type == "job" or one.kind in STOPS) and one.incident_id in nobodys
    return replace(one, status="closed", is_withdrawn=gone)


def _is_told_anew(one: Incident, from_ns: Mapping[str, int], groups: Sequence[Group]) -> bool:
    """Whether a revision replaces an incident by another one, or a stop by none.

    Parameters: `from_ns`, by job_id, since when the findings of a job are replaced. What was slow may still be, and no
    longer show.
    """
    anew = bool(one.costs) and all(from_ns.get(cost.job_id, one.end_ns) <= one.start_ns for cost in one.costs)
    return anew and (one.kind in STOPS or any(is_slow(group.cause) and _meet(one, group) for group in groups))


def _waits(one: Incident, jobs: Mapping[str, JobMemory]) -> bool:
    """Whether an open incident has open findings on jobs that the window does not show."""
    known = [jobs[cost.job_id] for cost in one.costs if cost.job_id in jobs]
    return any(finding.incident_id == one.incident_id for job in known for finding in job.findings)


def _parts(
    whole: Incident, jobs: Mapping[str, JobMemory], topology: Topology, params: IncidentParams
) -> Iterable[Incident]:
    for tenant in whole.tenants:
        mine = [jobs[cost.job_id] for cost in whole.costs if cost.tenant == tenant and cost.job_id in jobs]
        members = {int(member) for job in mine for member in job.members.endpoint.tolist()}
        own = {topology.endpoints[member] for member in members}
        own |= {topology.server_names[topology.server[member]] for member in members}
        part = part_of(whole, tenant, own)
        yield (
            part if whole.kind == "telemetry" else replace(part, severity=_milder(grade(part, params), whole.severity))
        )


def _with_incidents(
    revision: WindowRevision, before: WindowMemory, judged: Sequence[_Judged], incidents: tuple[Incident, ...]
) -> WindowRevision:
    """Put incidents into a revision, and into its findings."""
    kept = {name: finding for one in judged for name, finding in one.findings.items()}
    published = {one.diagnosis_id for one in _known_findings(before)}

    def final(findings: Iterable[Finding]) -> tuple[Finding, ...]:
        found = []
        for one in findings:
            if one.diagnosis_id in kept:
                found.append(kept[one.diagnosis_id])
            elif costs_nothing(one):
                found.append(replace(one, severity="info", incident_id=""))
            elif one.diagnosis_id in published:
                found.append(replace(one, status="closed", severity="info", incident_id=""))
        return tuple(found)

    jobs = tuple(replace(job, findings=final(job.findings)) for job in revision.jobs)
    return replace(revision, jobs=jobs, findings=final(revision.findings), incidents=incidents)
