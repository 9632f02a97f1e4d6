"""Which findings are of one incident, and which of them names its cause.

In synchronous training everybody waits for the slowest, so that one cause shows on many ranks, links and jobs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from prism_ch.model.finding import Cause, Finding, FindingKind, SubjectType
from prism_ch.model.incident import Incident
from prism_ch.model.params import IncidentParams

#: Kinds of findings on a job that stands still.
STOPS = ("stall", "hang", "restart")


@dataclass(frozen=True, slots=True)
class Claim:
    """A finding and the job that it is on, empty where it is on no single job."""

    job_id: str
    finding: Finding


@dataclass(frozen=True, slots=True)
class Group:
    """The claims of one incident, the cause first."""

    claims: tuple[Claim, ...]

    @property
    def cause(self) -> Finding:
        """The finding that names the cause."""
        return self.claims[0].finding

    @property
    def is_telemetry(self) -> bool:
        """Whether it is about records rather than training."""
        return self.cause.kind == "telemetry"

    @property
    def place(self) -> tuple[bool, str, str]:
        """Where it is, the same for all jobs that meet there. A group is one of its job."""
        job_id = self.claims[0].job_id if subject_type_named(self.cause) == "group" else ""
        return self.is_telemetry, named(self.cause), job_id

    @property
    def end_ns(self) -> int:
        """When the last of its findings ends."""
        return max(claim.finding.end_ns for claim in self.claims)

    @property
    def jobs(self) -> frozenset[str]:
        """The jobs that it concerns."""
        return frozenset((*(claim.job_id for claim in self.claims), *self.cause.jobs)) - {""}

    def of_job(self, job_id: str) -> tuple[Finding, ...]:
        """Return the findings on a job."""
        return tuple(claim.finding for claim in self.claims if claim.job_id == job_id)


def named(finding: Finding) -> str:
    """Return the culprit that a finding names. Of a slow step it is whom the others waited for."""
    return _culprit(finding).subject


def kind_named(finding: Finding) -> FindingKind:
    """Return of what kind the culprit is that a finding names."""
    return _culprit(finding).kind


def subject_type_named(finding: Finding) -> SubjectType:
    """Return of what type the culprit is that a finding names."""
    return _culprit(finding).subject_type


def also_named(finding: Finding) -> tuple[str, ...]:
    """Return what else may be the culprit that a finding names."""
    return _culprit(finding).may_also_be


def _culprit(finding: Finding) -> Finding | Cause:
    """Return what a finding names. A slow step names its cause if that is known, others themselves."""
    return finding.cause if finding.kind == "slow_step" and finding.cause is not None else finding


def names_of(cause: Finding) -> frozenset[str]:
    """Return all that a cause names: what agrees with it names one of them."""
    return frozenset((named(cause), *also_named(cause), *cause.about))


def is_contradicted(finding: Finding, names: Collection[str]) -> bool:
    """Whether a finding names a culprit, and none of some `names`.

    A group is as slow as one of its links: it names those that may be it.
    """
    if not names_place(finding):
        return False
    others = also_named(finding) if subject_type_named(finding) == "group" else ()
    return {named(finding), *others}.isdisjoint(names)


def names_place(finding: Finding) -> bool:
    """Whether a finding names a part of its job or of the network.

    A group that is slower than its peers is a symptom; one that is as slow as one of its links is a place.
    """
    if finding.kind == "slow_step":
        return finding.cause is not None
    return finding.subject_type not in ("job", "group") or bool(finding.may_also_be)


def is_slow(one: Finding | Incident) -> bool:
    """Whether something is about slow steps or what slows them."""
    return one.kind not in (*STOPS, "telemetry")


def costs_nothing(finding: Finding) -> bool:
    """Whether nobody is to blame. The cause is another amount of work, a shape of the job, or a habit."""
    if finding.kind == "telemetry":
        return False
    return finding.kind == "imbalance" or finding.baseline.other_work or finding.slowdown <= 0


def grouped(claims: Sequence[Claim], params: IncidentParams) -> list[Group]:
    """Group claims by incident.

    1. Group those of each job: a symptom goes to its cause, and of causes that began together the best supported stays.
    2. Let what is slow at a place that several jobs share explain what is slow in each of them.
    3. Join groups of different jobs at one place and time.
    """
    by_job: dict[str, list[Claim]] = {}
    for claim in claims:
        by_job.setdefault(claim.job_id, []).append(claim)
    shared = [Group((claim,)) for claim in by_job.pop("", ())]
    own = [group for of_job in by_job.values() for group in _of_one_job(of_job, params)]
    return _joined(_explained(shared, own))


def _of_one_job(claims: Sequence[Claim], params: IncidentParams) -> list[Group]:
    alone = [Group((claim,)) for claim in claims if claim.finding.kind == "telemetry"]
    stops = [claim for claim in claims if claim.finding.kind in STOPS]
    slow = [claim for claim in claims if is_slow(claim.finding)]
    ranked = sorted(slow, key=lambda claim: _support(claim.finding), reverse=True)
    groups: list[list[Claim]] = []
    for claim in ranked:
        home = next((group for group in groups if _is_of(claim.finding, group[0].finding, params)), None)
        if home is None:
            groups.append([claim])
        else:
            home.append(claim)
    return [*alone, *(Group(tuple(group)) for group in (*groups, *_touching(stops)))]


def _support(finding: Finding) -> tuple[bool, bool, float, float]:
    """Rank a finding as a cause. Places come before symptoms, then counts the time that it explains."""
    own = finding.kind not in ("slow_step", "slow_group") or finding.subject_type == "stage"
    return names_place(finding), own, finding.slowdown, finding.score


def _is_of(finding: Finding, cause: Finding, params: IncidentParams) -> bool:
    """Whether a finding is of the incident that another one is the cause of.

    A symptom meets its cause in some steps. Of two causes, one accuses the wrong one where they began together; what
    began by itself is something else.
    """
    if not (finding.first_step <= cause.last_step and cause.first_step <= finding.last_step):
        return False
    if not is_contradicted(finding, names_of(cause)):
        return True
    return abs(finding.first_step - cause.first_step) <= params.repeats


def _touching(stops: Sequence[Claim]) -> list[list[Claim]]:
    """Join stops of a job without a pause between them, the newest first.

    What it was shows in the end.
    """
    groups: list[list[Claim]] = []
    for claim in sorted(stops, key=lambda claim: (claim.finding.start_ns, claim.finding.end_ns)):
        if groups and claim.finding.start_ns <= groups[-1][0].finding.end_ns:
            groups[-1].insert(0, claim)
        else:
            groups.append([claim])
    return groups


def _explained(shared: Sequence[Group], own: Iterable[Group]) -> list[Group]:
    """Let shared places take over the groups of jobs that they explain."""
    taken: list[list[Claim]] = [list(group.claims) for group in shared]
    left = []
    for group in own:
        home = next((claims for claims in taken if _explains(claims[0].finding, group)), None)
        if home is None:
            left.append(group)
        else:
            home.extend(group.claims)
    return [*(Group(tuple(claims)) for claims in taken), *left]


def _explains(place: Finding, group: Group) -> bool:
    cause, job_id = group.cause, group.claims[0].job_id
    if job_id not in place.jobs or not _meet(place, cause):
        return False
    if place.kind == "telemetry":
        return cause.kind == "telemetry"
    return is_slow(cause)


def _joined(groups: Sequence[Group]) -> list[Group]:
    """Join groups at one place and time, the best supported cause first."""
    by_place: dict[tuple[bool, str, str], list[Group]] = {}
    for group in groups:
        by_place.setdefault(group.place, []).append(group)
    found = []
    for same in by_place.values():
        left = sorted(same, key=lambda group: _support(group.cause), reverse=True)
        while left:
            first, *others = left
            mine = [other for other in others if _meet(first.cause, other.cause)]
            left = [other for other in others if other not in mine]
            found.append(Group(tuple(claim for group in (first, *mine) for claim in group.claims)))
    return found


def _meet(one: Finding, other: Finding) -> bool:
    return one.start_ns < other.end_ns and other.start_ns < one.end_ns
