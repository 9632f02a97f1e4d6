"""What an incident says: the culprit, a sentence on it, and what to do."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from prism_ch.analysis.incidents.groups import Group, also_named, kind_named, named, subject_type_named
from prism_ch.model.finding import Cause, Finding, FindingKind, SubjectType
from prism_ch.model.incident import Incident, JobCost

#: What stands for a place that a tenant is not told of.
HIDDEN = "the network between your servers"

_ACTIONS: dict[FindingKind, str] = {
    "slow_step": "Look at what all ranks share: storage, hosts, cooling, and what else runs on their servers.",
    "slow_group": "Check the NICs, links and GPUs of its members.",
    "slow_switch": "Check the ports, the load and the cables of that switch, or take it out of service.",
    "slow_gpu": "Check clocks, temperature and power of that GPU, and its host; drain the server if it goes on.",
    "slow_nic": "Check that NIC, its cable and its port; drain the server if it goes on.",
    "slow_link": "Check the path between its ends: optics, cables and ports.",
    "congestion": "Let the others that use that port go another way or at another time.",
    "stall": "Look at what feeds the ranks with data, at storage, and at what they save.",
    "hang": "Look at the processes of the culprit; restart the job if it does not go on.",
    "restart": "Look for why the job died: its log, and the servers that left.",
    "imbalance": "Nothing is broken; balance the stages if the time matters.",
    "telemetry": "Check those exporters and the way of their records to the collector.",
}


@dataclass(frozen=True, slots=True)
class Told:
    """The culprit of an incident, with what may be it as well, and the sentence."""

    kind: FindingKind
    subject_type: SubjectType
    subject: str
    may_also_be: tuple[str, ...]
    confidence: float
    summary: str
    action: str


def tell(group: Group) -> Told:
    """Name the culprit of a group's cause.

    A slow step that names whom the others waited for is about that rank or server; GPUs of one server that can't be
    told apart are about the server, and listed.
    """
    cause = group.cause
    kind, subject = kind_named(cause), named(cause)
    others = tuple(one for one in dict.fromkeys(also_named(cause)) if one != subject)
    return Told(kind, subject_type_named(cause), subject, others, cause.confidence, cause.summary, _ACTIONS[kind])


def told_before(one: Incident) -> Told:
    """Return the words of a known incident, which stay where only a symptom is left."""
    return Told(one.kind, one.subject_type, one.subject, one.may_also_be, one.confidence, one.summary, one.action)


def agreeing(finding: Finding, told: Told) -> Finding:
    """Return a slow step that names another culprit with the one of its incident instead."""
    begin = finding.summary.partition("; ")[0]
    cause = Cause(told.kind, told.subject, told.may_also_be, told.subject_type)
    root = {"kind": told.kind, "subject": told.subject}
    return replace(
        finding,
        cause=cause,
        confidence=told.confidence,
        summary=f"{begin}; {told.summary}",
        evidence={**finding.evidence, "root_cause": root},
    )


def part_of(whole: Incident, tenant: str, own: AbstractSet[str]) -> Incident:
    """Return a tenant's part of an incident. It has his jobs and his hours, and no name that is not his.

    Parameters: `own`, the endpoints, servers, groups and jobs of the tenant's jobs.
    """
    costs = tuple(cost for cost in whole.costs if cost.tenant == tenant)
    also = tuple(one for one in whole.may_also_be if _is_own(one, own))
    part = replace(whole, costs=costs, tenant=tenant, may_also_be=also)
    if whole.subject_type in ("job", "group", "stage") or _is_own(whole.subject, own):
        return part
    return replace(part, subject=HIDDEN, summary=_hidden_summary(whole.kind, costs), action=_HIDDEN_ACTION)


_HIDDEN_ACTION = "Nothing that you run is to blame: ask the operator, who sees the same incident."


def _hidden_summary(kind: FindingKind, costs: tuple[JobCost, ...]) -> str:
    jobs = "1 job of yours" if len(costs) == 1 else f"{len(costs)} jobs of yours"
    if kind == "telemetry":
        return f"Flow records are missing: what {jobs} did meanwhile is not seen."
    return f"Something in {HIDDEN} is slow, and {jobs} wait for it."


def _is_own(subject: str, own: AbstractSet[str]) -> bool:
    return all(end in own for end in subject.split("->"))
