"""Slow NICs, links and switches: the finding that names which of them explains what is slow and what is not.

1. Find what is slow in each job by itself, see `localise.py`.
2. Let all jobs agree on the smallest set of places that explains it, see `together.py`.
3. Name one of the candidates that explain the same, of those that exchanges inside operations show to be slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.analysis.diagnose.episodes import lost_share, step_seconds
from prism_ch.analysis.diagnose.findings import EVIDENCE_ROWS, Measured, confidence_in, identity, make_finding, severity
from prism_ch.analysis.diagnose.network.delay import Delay, ways_of
from prism_ch.analysis.diagnose.network.localise import Localised, NetworkView
from prism_ch.analysis.diagnose.network.places import BOTH, Named, crossed_at_ends, incidence, is_between_leaves
from prism_ch.analysis.diagnose.network.time_per_byte import TimePerByte
from prism_ch.analysis.diagnose.network.together import SPINES, localise_together
from prism_ch.core import robust
from prism_ch.model.columns import Bool
from prism_ch.model.finding import Baseline, Finding, FindingKind, SubjectType
from prism_ch.model.topology import Topology


def find_slow_network(views: Sequence[NetworkView], topology: Topology) -> list[tuple[Finding, ...]]:
    """Find the NICs, links and switches that slow jobs. Returns the findings on each attempt.

    A finding lists all candidates that explain the same: a ring moves as fast as its slowest link, and shows no more
    than that one of its members is slow. One that names a switch, or a link between switches, has the job in `jobs`:
    each job that it slows has such a finding, and `join_shared` makes them one.
    """
    agreed = localise_together(views, topology)
    return [
        tuple(_describe(_narrowed(one, view, topology), view, topology) for one in found)
        for view, found in zip(views, agreed, strict=True)
    ]


def _narrowed(found: Localised, view: NetworkView, topology: Topology) -> Localised:
    """Leave out the candidates that exchanges inside operations clear.

    If they show any to be slow: of those left most slow pairs cross each, and hardly any other. Of what lies between
    the leaves they show nothing here.
    """
    exchanges, steps = view.times.exchanges, list(found.episode.abnormal)
    excess = robust.median(exchanges.excess[:, steps], axis=1)
    least = float(np.nanmax(robust.median(view.delay_of(found).excess[found.rows][:, steps], axis=1))) / 2
    gain = np.where(excess >= least, 1.0, np.where(np.isnan(excess), 0.0, -1.0))
    pairs = np.arange(len(gain), dtype=np.int32)
    named, number, pair = crossed_at_ends(pairs, exchanges.src, exchanges.dst, topology, lone_leaves=True)
    of_places = np.asarray(incidence(number, pair, len(named), len(gain)) @ gain)
    gain_of: dict[Named, float] = dict(zip(named, of_places.tolist(), strict=True))
    gains = [gain_of.get(one, 0.0) for one in found.candidates]
    most = max(gains)
    left = [
        one
        for one, each in zip(found.candidates, gains, strict=True)
        if each == most or is_between_leaves(one, topology)
    ]
    return replace(found, candidates=tuple(left)) if most > 0 else found


@dataclass(frozen=True, slots=True)
class _Named:
    """What a finding is about, and what else the same flows cross."""

    kind: FindingKind
    subject_type: SubjectType
    subject: str
    others: tuple[str, ...]

    def is_shared(self, topology: Topology) -> bool:
        """Whether flows of several jobs may cross it."""
        return self.kind == "slow_switch" or is_between_leaves((self.kind, self.subject), topology)


def _name(found: Localised, times: TimePerByte, topology: Topology) -> _Named:
    """Choose among candidates that explain the same.

    1. What lies between the leaves, where the rows of several pairs have it alone in common with one another.
    2. One endpoint comes before its only link.
    3. A group comes before any of its members, where these are not cleared by what else they move.
    4. A link comes before both of its ends.
    A switch that just the same flows cross may be slow as well, and is listed.
    """
    between = [one for one in found.candidates if is_between_leaves(one, topology)]
    endpoints, links, leaves = (
        [name for kind, name in found.candidates if kind == wanted and (kind, name) not in between]
        for wanted in ("slow_nic", "slow_link", "slow_switch")
    )
    names = [name for _, name in between]
    groups = times.group[found.rows & (times.group >= 0)]
    if found.candidates[0] in between or (between and not links):
        kind, name = found.candidates[0] if found.candidates[0] in between else between[0]
        others = (*(one for one in names if one != name), *leaves, *endpoints, *links)
        return _Named(kind, "switch" if kind == "slow_switch" else "link", name, others)
    through = tuple(dict.fromkeys((*_switches_of_the_same(found, times, topology), *names)))
    if len(endpoints) == 1 and not between:
        return _Named("slow_nic", "endpoint", endpoints[0], through)
    if len(groups) and max(len(endpoints), len(leaves)) > BOTH:
        # Any link of an endpoint may be it where the endpoint may.
        others = (*endpoints, *(one for one in links if set(endpoints).isdisjoint(one.split("->"))), *leaves, *names)
        return _Named("slow_group", "group", str(int(groups[0])), others)
    if links:
        return _Named("slow_link", "link", links[0], tuple(dict.fromkeys((*links[1:], *endpoints, *through))))
    if endpoints:
        return _Named("slow_nic", "endpoint", endpoints[0], (*endpoints[1:], *dict.fromkeys((*leaves, *through))))
    return _Named("slow_switch", "switch", leaves[0], tuple(leaves[1:]))


def _switches_of_the_same(found: Localised, times: TimePerByte, topology: Topology) -> tuple[str, ...]:
    """Name the leaves that all known rows explained cross, and no other known row.

    A switch that other flows cross as fast as usual is not slow, though it explains nearly as much.
    """
    known: Bool = np.asarray(~np.isnan(times.log_s_per_byte).all(axis=1))
    row, leaf = np.tile(times.row, 2), topology.leaf[np.concatenate([times.src, times.dst])]
    explained = found.rows & known
    return tuple(
        topology.leaf_names[number]
        for number in np.unique(leaf[explained[row]]).tolist()
        if np.array_equal(np.isin(np.arange(len(known)), row[leaf == number]) & known, explained)
    )


def _describe(found: Localised, view: NetworkView, topology: Topology) -> Finding:
    times, delay, division, place = view.times, view.delay_of(found), view.division, view.place
    episode, steps = found.episode, list(found.episode.abnormal)
    named = _name(found, times, topology)
    rows = np.flatnonzero(found.rows)
    log_times = np.nan_to_num(robust.median(delay.excess[rows][:, steps], axis=1))
    seconds = np.nan_to_num(robust.median(times.seconds[rows][:, steps], axis=1))
    slower = float(np.exp(robust.median(log_times[log_times >= log_times.max() / 2])))
    extra_s = seconds * -np.expm1(-log_times)
    # What the same pairs exchange inside operations is slow as well, at another time of the step.
    inside_s = float(np.median(times.exchanges.longer_s[steps]))
    lost = lost_share(division, episode, float(extra_s.max()) + inside_s, place.params.network.reference_steps)
    # Steps may be longer for another reason: what is slow delays them by no more than itself, one thing after another.
    during_s = step_seconds(division)[max(episode.first - 1, 0) : episode.last]
    # The recording may begin amid the first one, whose duration is unknown.
    timed = [step for step in steps if step > 0] or steps
    each_s = np.nan_to_num(times.seconds[rows][:, timed] * -np.expm1(-delay.excess[rows][:, timed]))
    most_s = each_s.sum(axis=0).mean() + inside_s
    most = float(np.clip(most_s / np.median(during_s), 0, 1)) if len(during_s) else 1.0
    lost = min(lost, most)
    observed, usual = _s_per_byte(found, view, delay, topology)
    shown = dict(list(observed.items())[:EVIDENCE_ROWS])
    extent = place.extent(division, episode)
    return make_finding(
        named.kind,
        (named.subject_type, named.subject),
        identity(place.job_id, named.kind, named.subject, extent.first_step),
        extent,
        Measured(slower, 1.0, float(found.scores[steps].max()), lost),
        severity(lost, place.params),
        _sentence(named, slower, delay.reference(found.rows), topology),
        {
            "compared_with": delay.reference(found.rows),
            "may_also_be": list(named.others),
            "observed_s_per_byte": shown,
            "usual_s_per_byte": {way: usual[way] for way in shown},
        },
        about=tuple(shown),
        may_also_be=named.others,
        confidence=_confidence(named, times, topology),
        baseline=Baseline(s_per_byte=usual),
        jobs=(place.job_id,) if named.is_shared(topology) else (),
    )


def _confidence(named: _Named, times: TimePerByte, topology: Topology) -> float:
    """Return how sure a name is.

    Of groups that are slow together one is named: it holds its share of the endpoints that may be it.
    """
    if named.subject_type != "group":
        return confidence_in("spines" if named.subject == SPINES else named.subject_type, len(named.others))
    mine = times.group[times.row] == int(named.subject)
    members = np.concatenate([times.src[mine], times.dst[mine]])
    may_be = [topology.index[name] for name in named.others if name in topology.index]
    return confidence_in("group") * (float(np.isin(may_be, members).mean()) if may_be else 1.0)


def _s_per_byte(
    found: Localised, view: NetworkView, delay: Delay, topology: Topology
) -> tuple[dict[str, float], dict[str, float]]:
    """Return observed and usual seconds a byte on each slow way.

    Of a pair's queue pairs they are those of the slowest.
    """
    times = view.times
    steps = list(found.episode.abnormal)
    rows = np.flatnonzero(found.rows & ~np.isnan(delay.excess[:, steps]).all(axis=1))
    rows = rows[np.argsort(robust.median(delay.excess[rows][:, steps], axis=1), kind="stable")]
    names = ways_of(times, topology, view.place.job_id)
    ways = [names[row] for row in rows.tolist()]
    observed, usual = (
        np.exp(np.nan_to_num(robust.median(logs[rows][:, steps], axis=1))).tolist()
        for logs in (times.log_s_per_byte, delay.usual)
    )
    return dict(zip(ways, observed, strict=True)), dict(zip(ways, usual, strict=True))


def _sentence(named: _Named, slower: float, reference: str, topology: Topology) -> str:
    slow = f"{slower:.2g} times as long for their bytes as {reference}"
    others = f" (or {', '.join(named.others)}, which the same flows cross)" if named.others else ""
    if named.kind == "slow_nic":
        row = topology.index[named.subject]
        at = f"{topology.server_names[topology.server[row]]}, GPU {topology.gpu[row]}"
        return (
            f"Flows of {named.subject} ({at}){others} take {slow}, those of its peers among themselves do not: check "
            "that NIC, its cable and its port."
        )
    if named.kind == "slow_link":
        if named.subject_type == "link" and named.subject.partition("->")[0] not in topology.index:
            return f"Flows over the link {named.subject}{others} take {slow}: check its ports, optics and load."
        return f"Flows {named.subject} take {slow}, and no others of either end{others}: check the path between them."
    if named.subject == SPINES or (named.others and is_between_leaves((named.kind, named.subject), topology)):
        return (
            f"Flows between leaves take {slow} on some ways and not on others, which clears NICs and leaves{others}: "
            "check the switches above the leaves; records with paths would tell which."
        )
    if named.kind == "slow_switch":
        return f"Flows through switch {named.subject}{others} take {slow}: check its ports and its load."
    return (
        f"Group {named.subject} moves its data as fast as its slowest link, and takes {slow}: check the NICs, links "
        f"and ports of {', '.join(named.others)}; the records don't show which."
    )
