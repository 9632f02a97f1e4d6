"""Slow NICs, links and switches: which of them explains what is slow and what is not, and the finding that names it.

The delay of each byte, as a matrix of sources and destinations, shows what is slow: a hot cell is a link, a hot row
and column an endpoint's NIC, hot rows and columns of a switch's endpoints that switch (C4, "Boosting Large-Scale
Parallel Training Efficiency with C4", section 4).

1. Compare each row of TimePerByte with others like it, and with its own past.
2. Score each candidate by the mean delay of the rows that it touches, and take the one with the largest generalised
   likelihood ratio of a common delay against none: it grows with what is slow, and shrinks with what is not.
3. Set the rows that it explains aside, and repeat step 2 for the rest.
4. Name one of the candidates that explain the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from scipy.sparse import csr_array

from prism_ch.analysis.diagnose.episodes import Episode, episodes, lost_share, step_seconds
from prism_ch.analysis.diagnose.findings import EVIDENCE_ROWS, NAMED, Measured, Place, identity, make_finding, severity
from prism_ch.analysis.diagnose.network.delay import Delay, over_past, over_peers, remembered_s_per_byte, ways_of
from prism_ch.analysis.diagnose.network.time_per_byte import TimePerByte
from prism_ch.core import robust
from prism_ch.core.significance import carried_back, corrected_score, trailing_low_median
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.finding import Baseline, Finding, FindingKind, SubjectType
from prism_ch.model.job import Division
from prism_ch.model.params import TimePerByteParams
from prism_ch.model.topology import Topology

#: Comparisons in 1,000 GPU-hours: of a GPU's links, its NIC and its switch, in every step.
_COUNTED_S = 3 * 3.6e6

#: A link is two ways; a communicator over two pods crosses the switches of both.
_BOTH = 2

#: Which rows each candidate touches: 1, else 0.
Touches: TypeAlias = "csr_array[np.float64, tuple[int, int]]"


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Links, endpoints and switches, by kind and name; `touches` [h, n] are their rows."""

    named: tuple[tuple[FindingKind, str], ...]
    touches: Touches


@dataclass(frozen=True, slots=True)
class _Localised:
    """Candidates that explain the same, the best first, with the rows that they explain, bool[n].

    `episode` is one of the `runs` in which they are slow; `scores` float64[k].
    """

    candidates: tuple[tuple[FindingKind, str], ...]
    runs: tuple[Episode, ...]
    episode: Episode
    rows: Bool
    scores: Float64


def find_slow_network(
    times: TimePerByte, division: Division, known: Sequence[Finding], place: Place, topology: Topology
) -> tuple[Finding, ...]:
    """Find the NICs, links and switches that slow an attempt of a job.

    Parameters: `known`, the findings open so far: what has been slow for long is compared with what was usual before.
    A row is compared with those like it in the same step, or with its own past if there are none. Where one candidate
    explains more of what differs from its past than all that comparison with others finds, most of those others are
    slow as well, and it is that one. A finding lists all candidates that explain the same: a ring moves as fast as its
    slowest link, and shows no more than that one of its members is slow.
    """
    params = place.params.network
    if division.steps <= params.slow_steps or len(times.group) == 0:
        return ()
    candidates = _list_candidates(times, topology)
    past = over_past(times, remembered_s_per_byte(known, times, topology), params)
    step_s = float(np.median(step_seconds(division)))
    best: tuple[list[_Localised], Delay] = ([], past)
    for delay in (over_peers(times, params).filled(past), past):
        found = _localise(delay, candidates, times.site, step_s, params)
        if _explains_more(found, best[0]):
            best = (found, delay)
    return tuple(_describe(one, times, best[1], division, place, topology) for one in best[0])


def _list_candidates(times: TimePerByte, topology: Topology) -> _Candidates:
    links, link = np.unique(np.stack([times.src, times.dst], axis=1), axis=0, return_inverse=True)
    endpoints, endpoint = np.unique(np.concatenate([times.src, times.dst]), return_inverse=True)
    switches, switch = np.unique(topology.leaf[endpoints], return_inverse=True)
    several = np.bincount(switch) > 1  # the switch of a single endpoint explains no more than its NIC
    row = np.concatenate([times.row, np.tile(times.row, 2), np.tile(times.row, 2)])
    number = np.concatenate([link.ravel(), len(links) + endpoint, len(links) + len(endpoints) + switch[endpoint]])
    kept = number < len(links) + len(endpoints)
    kept[~kept] = several[switch[endpoint]]
    named: list[tuple[FindingKind, str]] = [
        *(("slow_link", f"{topology.endpoints[src]}->{topology.endpoints[dst]}") for src, dst in links.tolist()),
        *(("slow_nic", topology.endpoints[one]) for one in endpoints.tolist()),
        *(("slow_switch", topology.leaf_names[one]) for one in switches.tolist()),
    ]
    return _Candidates(tuple(named), _incidence(number[kept], row[kept].astype(np.int64), len(named), len(times.group)))


def _incidence(number: Int64, row: Int64, candidates: int, rows: int) -> Touches:
    """Return the matrix that is 1 where a candidate touches a row, however often."""
    touches = csr_array((np.ones(len(row)), (number, row)), shape=(candidates, rows))
    touches.data[:] = 1.0
    return touches


def _explains_more(found: Sequence[_Localised], others: Sequence[_Localised]) -> bool:
    """Whether the first one explains all that some others do, and more."""
    if not found or not others:
        return bool(found)
    theirs = np.any([other.rows for other in others], axis=0)
    more = len(others) > 1 or (found[0].rows & ~theirs).any()
    return bool((found[0].rows | ~theirs).all() and more)


def _localise(
    delay: Delay, candidates: _Candidates, site: Int32, step_s: float, params: TimePerByteParams
) -> list[_Localised]:
    """Find the candidate that explains most, then that of the rest, and so on.

    Parameters: `site` int32[n], see TimePerByte. Groups of one site that are slow alike, while the candidate does not
    explain all of them, are parts of one communicator, joined inside the servers, and count once.
    """
    found: list[_Localised] = []
    excess = delay.excess.copy()
    for _ in range(params.max_culprits):
        best = _best(excess, delay.spread, candidates, step_s, params)
        if best is None:
            return found
        parts = _parts_of_one(best, excess, site, params)
        if len(parts):
            stands_for = np.arange(len(site))
            stands_for[parts] = parts[0]
            number, row = candidates.touches.nonzero()
            touches = _incidence(number.astype(np.int64), stands_for[row], *candidates.touches.shape)
            best = _best(excess, delay.spread, replace(candidates, touches=touches), step_s, params) or best
            best.rows[parts] |= best.rows[parts].any()
        found += [replace(best, episode=run) for run in best.runs]
        # Others on the site of a slow group wait for it: they are found again when it is no longer slow.
        waiting = (site >= 0) & np.isin(site, site[best.rows & (site >= 0)])
        excess[best.rows | waiting] = np.nan
    return found


def _best(
    excess: Float64, spread: Float64, candidates: _Candidates, step_s: float, params: TimePerByteParams
) -> _Localised | None:
    """Find the candidates that explain most, None where nothing is slow."""
    score, likelihood = _explained(excess, spread, candidates.touches, step_s, params)
    gain = np.where(score > 0, likelihood, 0).sum(axis=1)
    best = int(np.argmax(gain))
    slow = episodes((score[best] > 0).tolist(), params.repeats)
    runs = tuple(run for run in slow if len(run.abnormal) >= params.slow_steps)
    if not runs:
        return None
    alike = np.flatnonzero(gain >= params.nearly_all * gain[best])
    touched = candidates.touches[alike].toarray() > 0
    rows: Bool = touched[alike == best][0]
    slow_by = robust.median(excess[:, [step for run in runs for step in run.abnormal]], axis=1)
    alike = alike[~_contradicted(touched, rows, slow_by)]
    tied = sorted(alike.tolist(), key=lambda one: (one != best, -gain[one]))
    return _Localised(tuple(candidates.named[one] for one in tied), runs, runs[0], rows, score[best])


def _contradicted(touched: Bool, rows: Bool, slow_by: Float64) -> Bool:
    """Mask the candidates that differ from the best one where it matters, bool[h].

    Something that the best one touches is slow without them, and something that they touch without it is not, however
    much they have in common. Parameters: `touched` bool[h, n], the rows of each; `rows` bool[n], those of the best.
    """
    half = robust.median(slow_by[rows]) / 2
    without, besides = ~touched & rows & (slow_by >= half), touched & ~rows & (slow_by < half)
    return np.asarray(without.any(axis=1) & besides.any(axis=1))


def _parts_of_one(best: _Localised, excess: Float64, site: Int32, params: TimePerByteParams) -> Int64:
    """List the groups that form one communicator with an explained group.

    Empty where the candidate explains all that are slow alike.
    """
    steps = [step for run in best.runs for step in run.abnormal]
    slow_by = np.nan_to_num(robust.median(excess[:, steps], axis=1))
    explained = np.flatnonzero(best.rows & (site >= 0) & (slow_by >= np.log1p(params.network_excess)))
    if len(explained) == 0:
        return explained
    alike = np.isin(site, site[explained]) & (slow_by >= params.together_share * slow_by[explained].max())
    return np.flatnonzero(alike) if (alike & ~best.rows).any() else explained[:0]


def _explained(
    excess: Float64, spread: Float64, touches: Touches, step_s: float, params: TimePerByteParams
) -> tuple[Float64, Float64]:
    """Return each candidate's score and log likelihood ratio in each step, [h, k]."""
    weight = np.where(~np.isnan(excess), spread[:, None] ** -2, 0)
    held = touches @ weight
    total = touches @ (weight * np.nan_to_num(excess))
    mean = np.divide(total, held, out=np.full(held.shape, np.nan), where=held > 0)
    # What contends for the network slows several rows at once: their mean strays no less than one does.
    deviation = np.maximum(np.divide(1, np.sqrt(held), out=np.ones(held.shape), where=held > 0), params.network_jitter)
    best = np.zeros(mean.shape)
    comparisons = max(len(params.widths) * _COUNTED_S / step_s, 1.0)
    for width in params.widths:
        smooth = trailing_low_median(mean, width)
        deviate = smooth * np.sqrt(width) / deviation
        score = corrected_score(np.nan_to_num(deviate, nan=-1.0), comparisons)
        hit = np.where((score >= params.corrected_score) & (smooth >= np.log1p(params.network_excess)), score, 0)
        best = np.maximum(best, carried_back(hit, mean, smooth, width))
    return best, held * np.nan_to_num(mean) ** 2 / 2


@dataclass(frozen=True, slots=True)
class _Named:
    """What a finding is about, and what else the same flows cross."""

    kind: FindingKind
    subject_type: SubjectType
    subject: str
    others: tuple[str, ...]


def _name(found: _Localised, times: TimePerByte, topology: Topology) -> _Named:
    """Choose among candidates that explain the same.

    1. One endpoint comes before its only link.
    2. A group comes before any of its members.
    3. A link comes before both of its ends.
    A switch that just the same flows cross may be slow as well, and is listed.
    """
    endpoints, links, switches = (
        [name for kind, name in found.candidates if kind == wanted]
        for wanted in ("slow_nic", "slow_link", "slow_switch")
    )
    groups = times.group[found.rows & (times.group >= 0)]
    through = _switches_of_the_same(found, times, topology)
    if len(endpoints) == 1:
        return _Named("slow_nic", "endpoint", endpoints[0], through)
    if len(groups) and max(len(endpoints), len(links), len(switches)) > _BOTH:
        crossed = np.isin(times.row, np.flatnonzero(found.rows))
        members = np.unique(np.concatenate([times.src[crossed], times.dst[crossed]])).tolist()
        others = (*(topology.endpoints[member] for member in members), *switches)
        return _Named("slow_group", "group", str(int(groups[0])), others)
    if links:
        return _Named("slow_link", "link", links[0], (*links[1:], *endpoints, *through))
    if endpoints:
        return _Named("slow_nic", "endpoint", endpoints[0], (*endpoints[1:], *dict.fromkeys((*switches, *through))))
    return _Named("slow_switch", "switch", switches[0], tuple(switches[1:]))


def _switches_of_the_same(found: _Localised, times: TimePerByte, topology: Topology) -> tuple[str, ...]:
    """Name the switches that all known rows explained cross, and no other known row.

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


def _describe(
    found: _Localised, times: TimePerByte, delay: Delay, division: Division, place: Place, topology: Topology
) -> Finding:
    episode, steps = found.episode, list(found.episode.abnormal)
    named = _name(found, times, topology)
    rows = np.flatnonzero(found.rows)
    log_times = np.nan_to_num(robust.median(delay.excess[rows][:, steps], axis=1))
    seconds = np.nan_to_num(robust.median(times.seconds[rows][:, steps], axis=1))
    slower = float(np.exp(robust.median(log_times[log_times >= log_times.max() / 2])))
    extra_s = seconds * -np.expm1(-log_times)
    lost = lost_share(division, episode, float(extra_s.max()), place.params.network.reference_steps)
    # Steps may be longer for another reason: what is slow delays them by no more than itself, one thing after another.
    during_s = step_seconds(division)[max(episode.first - 1, 0) : episode.last]
    most = float(np.clip(float(extra_s.sum()) / np.median(during_s), 0, 1)) if len(during_s) else 1.0
    lost = min(lost, most)
    observed, usual = _s_per_byte(found, times, delay, topology)
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
        confidence=NAMED / (1 + len(named.others)),
        baseline=Baseline(s_per_byte=usual),
    )


def _s_per_byte(
    found: _Localised, times: TimePerByte, delay: Delay, topology: Topology
) -> tuple[dict[str, float], dict[str, float]]:
    """Return observed and usual seconds a byte on each slow way."""
    steps = list(found.episode.abnormal)
    rows = np.flatnonzero(found.rows & ~np.isnan(delay.excess[:, steps]).all(axis=1))
    names = ways_of(times, topology)
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
        return f"Flows {named.subject} take {slow}, and no others of either end{others}: check the path between them."
    if named.kind == "slow_switch":
        return f"Flows through switch {named.subject}{others} take {slow}: check its ports and its load."
    return (
        f"Group {named.subject} moves its data as fast as its slowest link, and takes {slow}: check the NICs, links "
        f"and ports of {', '.join(named.others)}; the records don't show which."
    )
