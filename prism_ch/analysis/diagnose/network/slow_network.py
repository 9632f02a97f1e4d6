"""Slow NICs, links and switches: which one explains what is slow and what is not.

The delay of each byte, as a matrix of sources and destinations, shows what is to blame: a hot cell is a link, a hot row
and column an endpoint's NIC, hot rows and columns of a switch's endpoints that switch (so reads it C4, "Boosting
Large-Scale Parallel Training Efficiency with C4", section 4). Of all candidates the one is chosen that explains most:
the generalised likelihood ratio of a common delay of all that it touches, against none, is larger the more of it is
slow, and smaller the more of it is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from prism_ch.analysis.diagnose.cost import step_seconds
from prism_ch.analysis.diagnose.episodes import episodes
from prism_ch.analysis.diagnose.findings import Place
from prism_ch.analysis.diagnose.network.candidates import Blamed, Candidates, joined, list_candidates
from prism_ch.analysis.diagnose.network.delay import Delay, over_past, over_peers, remembered_s_per_byte
from prism_ch.analysis.diagnose.network.localise import describe
from prism_ch.analysis.diagnose.network.time_per_byte import TimePerByte
from prism_ch.core import robust
from prism_ch.core.significance import carried_back, corrected_score, trailing_low_median
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.finding import Finding
from prism_ch.model.job import Division
from prism_ch.model.params import TimePerByteParams
from prism_ch.model.topology import Topology

#: Comparisons in 1,000 GPU-hours: of a GPU's links, its NIC and its switch, in every step.
_COUNTED_S = 3 * 3.6e6


def find_slow_network(
    pace: TimePerByte, division: Division, known: Sequence[Finding], place: Place, topology: Topology
) -> tuple[Finding, ...]:
    """Find the NICs, links and switches that slow a life of a job.

    Parameters: `known`, the findings open so far: what has been slow for long is compared with what was usual before.
    A row is compared with those like it in the same step, and where there are none with its own past. Where one
    candidate explains more of what differs from its past than all that are to blame by comparison with others, most of
    those others are slow as well, and it is that one. Where several candidates explain the same the finding says so: a
    ring moves as fast as its slowest link, and shows no more than that one of its members is to blame.
    """
    params = place.params.pace
    if division.steps <= params.slow_steps or len(pace.group) == 0:
        return ()
    candidates = list_candidates(pace, topology)
    past = over_past(pace, remembered_s_per_byte(known, pace, topology), params)
    step_s = float(np.median(step_seconds(division)))
    accused: tuple[list[Blamed], Delay] = ([], past)
    for delay in (over_peers(pace, params).filled(past), past):
        blamed = _blame(delay, candidates, pace.site, step_s, params)
        if _explains_more(blamed, accused[0]):
            accused = (blamed, delay)
    blamed, delay = accused
    return tuple(describe(one, pace, delay, candidates, division, place, topology) for one in blamed)


def _explains_more(blamed: Sequence[Blamed], others: Sequence[Blamed]) -> bool:
    """Say whether the first to blame explains by itself all that some others together do, and more or with fewer."""
    if not blamed or not others:
        return bool(blamed)
    theirs = np.any([other.rows for other in others], axis=0)
    more = len(others) > 1 or (blamed[0].rows & ~theirs).any()
    return bool((blamed[0].rows | ~theirs).all() and more)


def _blame(
    delay: Delay, candidates: Candidates, sites: Int32, step_s: float, params: TimePerByteParams
) -> list[Blamed]:
    """Accuse the candidate that explains most, then the one that explains most of what is left, and so on.

    Parameters: `sites` int32[n], see `Pace`. Groups of one site that are slow alike, while the candidate does not
    explain all of them, are parts of one communicator, joined inside the servers, and count once.
    """
    found: list[Blamed] = []
    excess = delay.excess.copy()
    for _ in range(params.max_culprits):
        best = _best(excess, delay.spread, candidates, step_s, params)
        if best is None:
            return found
        parts = _parts_of_one(best, excess, sites, params)
        if len(parts):
            one = replace(candidates, touches=joined(candidates.touches, parts))
            best = _best(excess, delay.spread, one, step_s, params) or best
            best.rows[parts] |= best.rows[parts].any()
        found += [replace(best, episode=run) for run in best.runs]
        # Others on the site of a slow group wait for it: they are told of again when it is no longer slow.
        waiting = (sites >= 0) & np.isin(sites, sites[best.rows & (sites >= 0)])
        excess[best.rows | waiting] = np.nan
    return found


def _best(
    excess: Float64, spread: Float64, candidates: Candidates, step_s: float, params: TimePerByteParams
) -> Blamed | None:
    """Find the candidates that explain most, None where nothing is slow."""
    score, likelihood = _explained(excess, spread, candidates, step_s, params)
    gain = np.where(score > 0, likelihood, 0).sum(axis=1)
    best = int(np.argmax(gain))
    runs = [
        run for run in episodes((score[best] > 0).tolist(), params.repeats) if len(run.abnormal) >= params.slow_steps
    ]
    if not runs:
        return None
    alike = np.flatnonzero(gain >= params.nearly_all * gain[best])
    touched = candidates.touches[alike].toarray() > 0
    rows: Bool = touched[alike == best][0]
    slow = robust.median(excess[:, [step for run in runs for step in run.abnormal]], axis=1)
    alike = alike[~_contradicted(touched, rows, slow)]
    tied = tuple(sorted(alike.tolist(), key=lambda one: (one != best, -gain[one])))
    return Blamed(tied, tuple(runs), runs[0], rows, score[best])


def _contradicted(touched: Bool, rows: Bool, slow: Float64) -> Bool:
    """Mask the candidates that explain nearly as much as the best one, but not what tells the two apart, bool[h].

    Something that the best one touches is slow without them, and something that they touch without it is not, however
    much they have in common. Parameters: `touched` bool[h, n], the rows of each; `rows` bool[n], those of the best;
    `slow` float64[n], by how much each is slow.
    """
    half = robust.median(slow[rows]) / 2
    without, beside = ~touched & rows & (slow >= half), touched & ~rows & (slow < half)
    return np.asarray(without.any(axis=1) & beside.any(axis=1))


def _parts_of_one(best: Blamed, excess: Float64, sites: Int32, params: TimePerByteParams) -> Int64:
    """List the groups that seem to be one communicator with a group that a candidate explains, beyond what it explains.

    With those explained; empty where it explains all that are slow alike.
    """
    steps = [step for run in best.runs for step in run.abnormal]
    slow = np.nan_to_num(robust.median(excess[:, steps], axis=1))
    told = np.flatnonzero(best.rows & (sites >= 0) & (slow >= np.log1p(params.network_excess)))
    if len(told) == 0:
        return told
    alike = np.isin(sites, sites[told]) & (slow >= params.together_share * slow[told].max())
    return np.flatnonzero(alike) if (alike & ~best.rows).any() else told[:0]


def _explained(
    excess: Float64, spread: Float64, candidates: Candidates, step_s: float, params: TimePerByteParams
) -> tuple[Float64, Float64]:
    """Return each candidate's score in each step, 0 where it is not slow, and its log likelihood ratio, [h, k]."""
    known = ~np.isnan(excess)
    weight = np.where(known, spread[:, None] ** -2, 0)
    held = candidates.touches @ weight
    mean = np.divide(
        candidates.touches @ (weight * np.nan_to_num(excess)), held, out=np.full(held.shape, np.nan), where=held > 0
    )
    # What contends for the network slows several rows at once: their mean strays no less than one does.
    deviation = np.maximum(np.divide(1, np.sqrt(held), out=np.ones(held.shape), where=held > 0), params.network_jitter)
    best = np.zeros(mean.shape)
    comparisons = max(len(params.widths) * _COUNTED_S / step_s, 1.0)
    for width in params.widths:
        smooth = trailing_low_median(mean, width)
        deviate = smooth * np.sqrt(width) / deviation
        told = corrected_score(np.nan_to_num(deviate, nan=-1.0), comparisons)
        hit = np.where((told >= params.corrected_score) & (smooth >= np.log1p(params.network_excess)), told, 0)
        best = np.maximum(best, carried_back(hit, mean, smooth, width))
    return best, held * np.nan_to_num(mean) ** 2 / 2
