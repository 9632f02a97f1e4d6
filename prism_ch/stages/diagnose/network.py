"""Slow NICs, links and switches: which one explains what is slow and what is not.

The delay of each byte, as a matrix of sources and destinations, shows what is to blame: a hot cell is a link, a hot row
and column an endpoint's NIC, hot rows and columns of a switch's endpoints that switch (so reads it C4, "Boosting
Large-Scale Parallel Training Efficiency with C4", section 4). Of all candidates the one is chosen that explains most:
the generalised likelihood ratio of a common delay of all that it touches, against none, is larger the more of it is
slow, and smaller the more of it is not.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from scipy.sparse import csr_array

from prism_ch.core import robust
from prism_ch.core.significance import carried_back, corrected_score, spread_of, trailing_low_median
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.division import Division
from prism_ch.model.params import PaceParams
from prism_ch.model.result import Diagnosis, DiagnosisKind, SubjectType
from prism_ch.model.topology import Topology
from prism_ch.stages.diagnose.cost import lost_share, step_seconds
from prism_ch.stages.diagnose.episode import Episode, Place, episodes, identity
from prism_ch.stages.diagnose.pace import Pace

#: Which rows each candidate touches: 1, else 0.
Touches: TypeAlias = "csr_array[np.float64, tuple[int, int]]"

_NETWORK_KINDS = ("slow_nic", "slow_link", "slow_switch", "slow_group", "congestion")

#: A link is two ways; a communicator over two pods crosses the switches of both.
_BOTH_WAYS = _BOTH_SIDES = 2

#: Comparisons in 1,000 GPU-hours: of a GPU's links, its NIC and its switch, in every step.
_COUNTED_S = 3 * 3.6e6


@dataclass(frozen=True, slots=True)
class _Candidates:
    """What may be to blame: directed links, endpoints, switches. `touches` [h, n] are the rows of each."""

    links: Int32
    endpoints: Int32
    switches: Int32
    touches: Touches

    def kind(self, number: int) -> DiagnosisKind:
        """Return the kind of finding that accuses a candidate."""
        if number < len(self.links):
            return "slow_link"
        return "slow_nic" if number < len(self.links) + len(self.endpoints) else "slow_switch"

    def name(self, number: int, topology: Topology) -> str:
        """Name a candidate."""
        if number < len(self.links):
            src, dst = self.links[number].tolist()
            return f"{topology.endpoints[src]}->{topology.endpoints[dst]}"
        number -= len(self.links)
        if number < len(self.endpoints):
            return topology.endpoints[int(self.endpoints[number])]
        return topology.leaf_names[int(self.switches[number - len(self.endpoints)])]


@dataclass(frozen=True, slots=True)
class _Blamed:
    """Candidates that explain an episode equally well, the best first, with what they explain, bool[n].

    `episode` is one of the `runs` in which they are slow; `scores` float64[k].
    """

    candidates: tuple[int, ...]
    runs: tuple[Episode, ...]
    episode: Episode
    rows: Bool
    scores: Float64


@dataclass(frozen=True, slots=True)
class _Delay:
    """Rows of a Pace compared: `excess` float64[n, k], logarithms over `usual` float64[n, k], and their `spread`.

    `to_past` bool[n] are the rows that are compared with themselves, not with others like them.
    """

    excess: Float64
    usual: Float64
    spread: Float64
    to_past: Bool

    def filled(self, other: _Delay) -> _Delay:
        """Return it with the rows of another that it can't compare."""
        unknown: Bool = np.asarray(np.isnan(self.excess).all(axis=1))
        excess, usual = (
            np.where(unknown[:, None], theirs, mine)
            for mine, theirs in ((self.excess, other.excess), (self.usual, other.usual))
        )
        spread, to_past = np.where(unknown, other.spread, self.spread), np.logical_or(unknown, self.to_past)
        return _Delay(excess, usual, spread, to_past)

    def reference(self, rows: Bool) -> str:
        """Say with what most of some rows, bool[n], were compared."""
        return "before" if 2 * self.to_past[rows].sum() > rows.sum() else "others of the same size"


def find_slow_network(
    pace: Pace, division: Division, known: Sequence[Diagnosis], place: Place, topology: Topology
) -> tuple[Diagnosis, ...]:
    """Find the NICs, links and switches that slow a life of a job.

    Parameters: `known`, the findings open so far: what has been slow for long is compared with what was usual before.
    A row is compared with those like it in the same step, and where there are none with its own past. Where one
    candidate explains more of what differs from its past than all that are to blame by comparison with others, most of
    those others are slow as well, and it is that one. Where several candidates explain the same the finding says so: a
    ring moves as fast as its slowest link, and shows no more than that one of its members is to blame.
    """
    params = place.params.pace
    if division.steps <= params.min_slow_steps or len(pace.group) == 0:
        return ()
    candidates = _candidates(pace, topology)
    over_past = _over_past(pace, _remembered(known, pace, topology), params)
    step_s = float(np.median(step_seconds(division)))
    accused: tuple[list[_Blamed], _Delay] = ([], over_past)
    for delay in (_over_peers(pace, params).filled(over_past), over_past):
        blamed = _blame(delay, candidates, pace.site, step_s, params)
        if _explains_more(blamed, accused[0]):
            accused = (blamed, delay)
    blamed, delay = accused
    return tuple(_describe(one, pace, delay, candidates, division, place, topology) for one in blamed)


def _explains_more(blamed: Sequence[_Blamed], others: Sequence[_Blamed]) -> bool:
    """Say whether the first to blame explains by itself all that some others together do, and more or with fewer."""
    if not blamed or not others:
        return bool(blamed)
    theirs = np.any([other.rows for other in others], axis=0)
    more = len(others) > 1 or (blamed[0].rows & ~theirs).any()
    return bool((blamed[0].rows | ~theirs).all() and more)


def _over_peers(pace: Pace, params: PaceParams) -> _Delay:
    """Compare each row with the median of those like it in each step, where there are enough."""
    logs = pace.log_pace
    usual = np.full(logs.shape, np.nan)
    for like in np.flatnonzero(np.bincount(pace.like) >= params.min_peers).tolist():
        rows = pace.like == like
        usual[rows] = robust.median(logs[rows], axis=0)[None]
    excess = pace.beyond(usual)
    spread = np.empty(len(excess))
    for like in np.unique(pace.like).tolist():
        rows = pace.like == like
        spread[rows] = spread_of(excess[rows], params.jitter_floor)
    return _Delay(excess, usual, spread, np.zeros(len(excess), dtype=bool))


def _over_past(pace: Pace, remembered: Float64, params: PaceParams) -> _Delay:
    """Compare each row of steady volume with its better steps, or what was usual of it before it became slow."""
    logs = pace.log_pace
    line = np.repeat(np.arange(len(logs), dtype=np.int32), logs.shape[1])
    own = np.fmin(robust.quantile_by(line, logs.ravel(), 0.25, len(logs)), remembered)
    usual = np.broadcast_to(own[:, None], logs.shape)
    excess = np.where(pace.steady[:, None], pace.beyond(usual), np.nan)
    # What has been slow for most of the time spreads no wider than its changes from step to step do.
    changes = np.diff(excess, axis=1) / np.sqrt(2)
    spread = np.fmax(robust.MAD_TO_SD * robust.median(np.abs(changes), axis=1), params.jitter_floor)
    return _Delay(excess, usual, spread, np.ones(len(excess), dtype=bool))


def _candidates(pace: Pace, topology: Topology) -> _Candidates:
    """List what may be to blame, and which rows each touches."""
    links, link = np.unique(np.stack([pace.src, pace.dst], axis=1), axis=0, return_inverse=True)
    endpoints, endpoint = np.unique(np.concatenate([pace.src, pace.dst]), return_inverse=True)
    switches, switch = np.unique(topology.leaf[endpoints], return_inverse=True)
    crowd = np.bincount(switch) > 1  # of one endpoint, its switch is no more to blame than its NIC
    row = np.concatenate([pace.row, np.tile(pace.row, 2), np.tile(pace.row, 2)])
    number = np.concatenate([link.ravel(), len(links) + endpoint, len(links) + len(endpoints) + switch[endpoint]])
    kept = number < len(links) + len(endpoints)
    kept[~kept] = crowd[switch[endpoint]]
    shape = (len(links) + len(endpoints) + len(switches), len(pace.group))
    touches = _incidence(number[kept], row[kept].astype(np.int64), shape)
    return _Candidates(links, endpoints.astype(np.int32), switches.astype(np.int32), touches)


def _blame(delay: _Delay, candidates: _Candidates, sites: Int32, step_s: float, params: PaceParams) -> list[_Blamed]:
    """Accuse the candidate that explains most, then the one that explains most of what is left, and so on.

    Parameters: `sites` int32[n], see `Pace`. Groups of one site that are slow alike, while the candidate does not
    explain all of them, are parts of one communicator, joined inside the servers, and count once.
    """
    found: list[_Blamed] = []
    excess = delay.excess.copy()
    for _ in range(params.max_culprits):
        best = _best(excess, delay.spread, candidates, step_s, params)
        if best is None:
            return found
        parts = _parts_of_one(best, excess, sites, params)
        if len(parts):
            joined = replace(candidates, touches=_joined(candidates.touches, parts))
            best = _best(excess, delay.spread, joined, step_s, params) or best
            best.rows[parts] |= best.rows[parts].any()
        found += [replace(best, episode=run) for run in best.runs]
        # Others on the site of a slow group wait for it: they are told of again when it is no longer slow.
        waiting = (sites >= 0) & np.isin(sites, sites[best.rows & (sites >= 0)])
        excess[best.rows | waiting] = np.nan
    return found


def _best(
    excess: Float64, spread: Float64, candidates: _Candidates, step_s: float, params: PaceParams
) -> _Blamed | None:
    """Find the candidates that explain most, None where nothing is slow."""
    score, likelihood = _explained(excess, spread, candidates, step_s, params)
    gain = np.where(score > 0, likelihood, 0).sum(axis=1)
    best = int(np.argmax(gain))
    runs = [
        run
        for run in episodes((score[best] > 0).tolist(), params.close_after_steps)
        if len(run.abnormal) >= params.min_slow_steps
    ]
    if not runs:
        return None
    alike = np.flatnonzero(gain >= params.tie_share * gain[best]).tolist()
    rows = candidates.touches[[best]].toarray()[0] > 0
    tied = tuple(sorted(alike, key=lambda one: (one != best, -gain[one])))
    return _Blamed(tied, tuple(runs), runs[0], rows, score[best])


def _parts_of_one(best: _Blamed, excess: Float64, sites: Int32, params: PaceParams) -> Int64:
    """List the groups that seem to be one communicator with a group that a candidate explains, beyond what it explains.

    With those explained; empty where it explains all that are slow alike.
    """
    steps = [step for run in best.runs for step in run.abnormal]
    slow = np.nan_to_num(robust.median(excess[:, steps], axis=1))
    told = np.flatnonzero(best.rows & (sites >= 0) & (slow >= np.log1p(params.min_excess)))
    if len(told) == 0:
        return told
    alike = np.isin(sites, sites[told]) & (slow >= params.together_share * slow[told].max())
    return np.flatnonzero(alike) if (alike & ~best.rows).any() else told[:0]


def _joined(touches: Touches, parts: Int64) -> Touches:
    """Let the first of some rows stand for all of them."""
    stands_for = np.arange(touches.shape[1])
    stands_for[parts] = parts[0]
    number, row = touches.nonzero()
    return _incidence(number.astype(np.int64), stands_for[row], touches.shape)


def _incidence(number: Int64, row: Int64, shape: tuple[int, int]) -> Touches:
    """Return the matrix that is 1 where a candidate touches a row, however often."""
    touches = csr_array((np.ones(len(row)), (number, row)), shape=shape)
    touches.data[:] = 1.0
    return touches


def _explained(
    excess: Float64, spread: Float64, candidates: _Candidates, step_s: float, params: PaceParams
) -> tuple[Float64, Float64]:
    """Return each candidate's score in each step, 0 where it is not slow, and its log likelihood ratio, [h, k]."""
    known = ~np.isnan(excess)
    weight = np.where(known, spread[:, None] ** -2, 0)
    held = candidates.touches @ weight
    mean = np.divide(
        candidates.touches @ (weight * np.nan_to_num(excess)), held, out=np.full(held.shape, np.nan), where=held > 0
    )
    # What contends for the network slows several rows at once: their mean strays no less than one does.
    deviation = np.maximum(np.divide(1, np.sqrt(held), out=np.ones(held.shape), where=held > 0), params.jitter_floor)
    best = np.zeros(mean.shape)
    comparisons = max(len(params.widths) * _COUNTED_S / step_s, 1.0)
    for width in params.widths:
        smooth = trailing_low_median(mean, width)
        deviate = smooth * np.sqrt(width) / deviation
        told = corrected_score(np.nan_to_num(deviate, nan=-1.0), comparisons)
        hit = np.where((told >= params.min_score) & (smooth >= np.log1p(params.min_excess)), told, 0)
        best = np.maximum(best, carried_back(hit, mean, smooth, width))
    return best, held * np.nan_to_num(mean) ** 2 / 2


def _remembered(known: Sequence[Diagnosis], pace: Pace, topology: Topology) -> Float64:
    """Return the logarithm of what was usual of each row before it became slow, float64[n], NaN where not known."""
    usual: dict[str, float] = {}
    for finding in known:
        if finding.status == "open" and finding.kind in _NETWORK_KINDS:
            usual |= json.loads(finding.evidence).get("usual_s_per_byte", {})
    logs = np.full(len(pace.group), np.nan)
    for row, way in enumerate(_ways(pace, topology) if usual else ()):
        if way in usual:
            logs[row] = np.log(usual[way])
    return logs


def _ways(pace: Pace, topology: Topology) -> list[str]:
    """Name the rows: a pair by its ends, a communicator by its group."""
    names = [f"group {number}" for number in pace.group.tolist()]
    for row, src, dst in zip(pace.row.tolist(), pace.src.tolist(), pace.dst.tolist(), strict=True):
        if pace.group[row] < 0:
            names[row] = f"{topology.endpoints[src]}->{topology.endpoints[dst]}"
    return names


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Who is to blame: the kind and the subject of the finding, and who else it may be."""

    kind: DiagnosisKind
    subject_type: SubjectType
    subject: str
    others: tuple[str, ...]


def _judge(blamed: _Blamed, pace: Pace, candidates: _Candidates, topology: Topology) -> _Verdict:
    """Choose among candidates that explain the same.

    One endpoint is to blame rather than its only link, a link rather than both of its ends, and a group rather than any
    of its members. A switch that just the same flows cross may be to blame as well.
    """
    by_kind: dict[DiagnosisKind, list[str]] = {"slow_nic": [], "slow_link": [], "slow_switch": []}
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


def _switches_of_the_same(blamed: _Blamed, pace: Pace, topology: Topology) -> tuple[str, ...]:
    """Name the switches that all that is known to be blamed crosses, and nothing else that is known.

    Of one that explains nearly as much, but that other flows cross at their usual pace, these say that it is not slow.
    """
    known: Bool = np.asarray(~np.isnan(pace.log_pace).all(axis=1))
    row, leaf = np.tile(pace.row, 2), topology.leaf[np.concatenate([pace.src, pace.dst])]
    told = blamed.rows & known
    return tuple(
        topology.leaf_names[number]
        for number in np.unique(leaf[told[row]]).tolist()
        if np.array_equal(np.isin(np.arange(len(known)), row[leaf == number]) & known, told)
    )


def _describe(
    blamed: _Blamed,
    pace: Pace,
    delay: _Delay,
    candidates: _Candidates,
    division: Division,
    place: Place,
    topology: Topology,
) -> Diagnosis:
    """Put one episode into words and numbers."""
    params, episode, steps = place.params.pace, blamed.episode, list(blamed.episode.abnormal)
    verdict = _judge(blamed, pace, candidates, topology)
    rows = np.flatnonzero(blamed.rows)
    log_times = np.nan_to_num(robust.median(delay.excess[rows][:, steps], axis=1))
    seconds = np.nan_to_num(robust.median(pace.seconds[rows][:, steps], axis=1))
    times = float(np.exp(robust.median(log_times[log_times >= log_times.max() / 2])))
    lost = lost_share(division, episode, float((seconds * -np.expm1(-log_times)).max()), params.min_steps_beside)
    job_end_ns = division.job_end_ns()
    return Diagnosis(
        diagnosis_id=identity(place.job_id, verdict.kind, verdict.subject, place.first_step + episode.first),
        kind=verdict.kind,
        subject_type=verdict.subject_type,
        subject=verdict.subject,
        first_step=place.first_step + episode.first,
        last_step=place.first_step + episode.last,
        start_ns=int(job_end_ns[max(episode.first - 1, 0)]),
        end_ns=int(job_end_ns[episode.last]),
        status="closed" if episode.closed else "open",
        severity=place.grade(lost),
        observed=times,
        expected=1.0,
        score=float(blamed.scores[steps].max()),
        slowdown=lost,
        summary=_sentence(verdict, times, delay.reference(blamed.rows), topology),
        evidence=json.dumps(_evidence(blamed, verdict, pace, delay, topology, params)),
    )


def _evidence(
    blamed: _Blamed, verdict: _Verdict, pace: Pace, delay: _Delay, topology: Topology, params: PaceParams
) -> dict[str, object]:
    """Return what lets a sceptic check the finding: of all that the accused touches, how slow it is."""
    steps = list(blamed.episode.abnormal)
    known = ~np.isnan(delay.excess[:, steps]).all(axis=1)
    rows = np.flatnonzero(blamed.rows & known)[: params.evidence_rows]
    names = _ways(pace, topology)
    ways = [names[row] for row in rows.tolist()]
    observed, usual = (
        np.exp(np.nan_to_num(robust.median(logs[rows][:, steps], axis=1))).tolist()
        for logs in (pace.log_pace, delay.usual)
    )
    return {
        "compared_with": delay.reference(blamed.rows),
        "may_also_be": list(verdict.others),
        "observed_s_per_byte": dict(zip(ways, observed, strict=True)),
        "usual_s_per_byte": dict(zip(ways, usual, strict=True)),
    }


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
