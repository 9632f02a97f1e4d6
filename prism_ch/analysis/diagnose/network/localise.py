"""Verdict: which of the candidates that explain an episode equally well is accused, and in which words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.analysis.diagnose.cost import lost_share, most_lost
from prism_ch.analysis.diagnose.findings import EVIDENCE_ROWS, Measured, Place, identity, make_finding
from prism_ch.analysis.diagnose.network.candidates import Blamed, Candidates
from prism_ch.analysis.diagnose.network.delay import Delay, ways_of
from prism_ch.analysis.diagnose.network.time_per_byte import TimePerByte
from prism_ch.core import robust
from prism_ch.model.columns import Bool
from prism_ch.model.finding import Baseline, Finding, FindingKind, SubjectType
from prism_ch.model.job import Division
from prism_ch.model.topology import Topology

#: A link is two ways; a communicator over two pods crosses the switches of both.
_BOTH_WAYS = _BOTH_SIDES = 2


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Who is to blame: the kind and the subject of the finding, and who else it may be."""

    kind: FindingKind
    subject_type: SubjectType
    subject: str
    others: tuple[str, ...]


def _judge(blamed: Blamed, pace: TimePerByte, candidates: Candidates, topology: Topology) -> _Verdict:
    """Choose among candidates that explain the same.

    One endpoint is to blame rather than its only link, a link rather than both of its ends, and a group rather than any
    of its members. A switch that just the same flows cross may be to blame as well.
    """
    by_kind: dict[FindingKind, list[str]] = {"slow_nic": [], "slow_link": [], "slow_switch": []}
    for number in blamed.candidates:
        by_kind[candidates.kind(number)].append(candidates.name(number, topology))
    endpoints, links, switches = by_kind["slow_nic"], by_kind["slow_link"], by_kind["slow_switch"]
    groups = pace.group[blamed.rows & (pace.group >= 0)]
    through = _switches_of_the_same(blamed, pace, topology)
    if len(endpoints) == 1:
        return _Verdict("slow_nic", "endpoint", endpoints[0], through)
    several = len(endpoints) > _BOTH_WAYS or len(links) > _BOTH_WAYS or len(switches) > _BOTH_SIDES
    if len(groups) and several:
        crossed = np.isin(pace.row, np.flatnonzero(blamed.rows))
        members = np.unique(np.concatenate([pace.src[crossed], pace.dst[crossed]])).tolist()
        others = (*(topology.endpoints[member] for member in members), *switches)
        return _Verdict("slow_group", "group", str(int(groups[0])), others)
    if links:
        return _Verdict("slow_link", "link", links[0], (*links[1:], *endpoints, *through))
    if endpoints:
        return _Verdict("slow_nic", "endpoint", endpoints[0], (*endpoints[1:], *dict.fromkeys((*switches, *through))))
    return _Verdict("slow_switch", "switch", switches[0], tuple(switches[1:]))


def _switches_of_the_same(blamed: Blamed, pace: TimePerByte, topology: Topology) -> tuple[str, ...]:
    """Name the switches that all that is known to be blamed crosses, and nothing else that is known.

    Of one that explains nearly as much, but that other flows cross at their usual pace, these say that it is not slow.
    """
    known: Bool = np.asarray(~np.isnan(pace.log_s_per_byte).all(axis=1))
    row, leaf = np.tile(pace.row, 2), topology.leaf[np.concatenate([pace.src, pace.dst])]
    told = blamed.rows & known
    return tuple(
        topology.leaf_names[number]
        for number in np.unique(leaf[told[row]]).tolist()
        if np.array_equal(np.isin(np.arange(len(known)), row[leaf == number]) & known, told)
    )


def describe(
    blamed: Blamed,
    pace: TimePerByte,
    delay: Delay,
    candidates: Candidates,
    division: Division,
    place: Place,
    topology: Topology,
) -> Finding:
    """Put one episode into words and numbers."""
    params, episode, steps = place.params.pace, blamed.episode, list(blamed.episode.abnormal)
    verdict = _judge(blamed, pace, candidates, topology)
    rows = np.flatnonzero(blamed.rows)
    log_times = np.nan_to_num(robust.median(delay.excess[rows][:, steps], axis=1))
    seconds = np.nan_to_num(robust.median(pace.seconds[rows][:, steps], axis=1))
    times = float(np.exp(robust.median(log_times[log_times >= log_times.max() / 2])))
    extra_s = seconds * -np.expm1(-log_times)
    lost = lost_share(division, episode, float(extra_s.max()), params.reference_steps)
    # Steps may be longer for another reason: what is slow delays them by no more than itself, one thing after another.
    lost = min(lost, most_lost(division, episode, float(extra_s.sum())))
    observed, usual = _s_per_byte(blamed, pace, delay, topology)
    shown = dict(list(observed.items())[:EVIDENCE_ROWS])
    extent = place.extent(division, episode)
    return make_finding(
        verdict.kind,
        (verdict.subject_type, verdict.subject),
        identity(place.job_id, verdict.kind, verdict.subject, extent.first_step),
        extent,
        Measured(times, 1.0, float(blamed.scores[steps].max()), lost),
        place.grade(lost),
        _sentence(verdict, times, delay.reference(blamed.rows), topology),
        {
            "compared_with": delay.reference(blamed.rows),
            "may_also_be": list(verdict.others),
            "observed_s_per_byte": shown,
            "usual_s_per_byte": {way: usual[way] for way in shown},
        },
        about=tuple(shown),
        may_also_be=verdict.others,
        baseline=Baseline(s_per_byte=usual),
    )


def _s_per_byte(
    blamed: Blamed, pace: TimePerByte, delay: Delay, topology: Topology
) -> tuple[dict[str, float], dict[str, float]]:
    """Return how many seconds a byte took, and usually takes, on each way that the accused touches."""
    steps = list(blamed.episode.abnormal)
    known = ~np.isnan(delay.excess[:, steps]).all(axis=1)
    rows = np.flatnonzero(blamed.rows & known)
    names = ways_of(pace, topology)
    ways = [names[row] for row in rows.tolist()]
    observed, usual = (
        np.exp(np.nan_to_num(robust.median(logs[rows][:, steps], axis=1))).tolist()
        for logs in (pace.log_s_per_byte, delay.usual)
    )
    return dict(zip(ways, observed, strict=True)), dict(zip(ways, usual, strict=True))


def _sentence(verdict: _Verdict, times: float, reference: str, topology: Topology) -> str:
    """Say what is slow, by how much, and what to do."""
    slow = f"{times:.2g} times as long for their bytes as {reference}"
    others = f" (or {', '.join(verdict.others)}, which the same flows cross)" if verdict.others else ""
    if verdict.kind == "slow_nic":
        row = topology.index[verdict.subject]
        at = f"{topology.server_names[topology.server[row]]}, GPU {topology.gpu[row]}"
        return (
            f"Flows of {verdict.subject} ({at}){others} take {slow}, those of its peers among themselves do not: check "
            "that NIC, its cable and its port."
        )
    if verdict.kind == "slow_link":
        return f"Flows {verdict.subject} take {slow}, and no others of either end{others}: check the path between them."
    if verdict.kind == "slow_switch":
        return f"Flows through switch {verdict.subject}{others} take {slow}: check its ports and its load."
    return (
        f"Group {verdict.subject} moves its data as fast as its slowest link, and takes {slow}: check the NICs, links "
        f"and ports of {', '.join(verdict.others)}; the records don't show which."
    )
