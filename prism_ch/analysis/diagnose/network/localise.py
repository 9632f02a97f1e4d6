"""What is slow in the network of one job: the rows of TimePerByte that take long, and what they have in common.

The delay of each byte, as a matrix of sources and destinations, shows what is slow: a hot cell is a link, a hot row
and column an endpoint's NIC, hot rows and columns of a switch's endpoints that switch (C4, "Boosting Large-Scale
Parallel Training Efficiency with C4", section 4).

1. Compare each row of TimePerByte with others like it, and with its own past.
2. Score each candidate by the mean delay of the rows that it touches, and take the one with the largest generalised
   likelihood ratio of a common delay against none: it grows with what is slow, and shrinks with what is not.
3. Set the rows that it explains aside, and repeat step 2 for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.analysis.diagnose.episodes import Episode, episodes, step_seconds
from prism_ch.analysis.diagnose.findings import Place
from prism_ch.analysis.diagnose.network.delay import Delay, over_past, over_peers, remembered_s_per_byte
from prism_ch.analysis.diagnose.network.places import (
    Candidates,
    Named,
    Touches,
    has_many_switches,
    incidence,
    list_candidates,
)
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


@dataclass(frozen=True, slots=True)
class Localised:
    """Candidates that explain the same, the best first, with the rows that they explain, bool[n].

    `episode` is one of the `runs` in which they are slow; `scores` float64[k]. Of the rows `as_slow` bool[n] move as
    slowly as the others, and none like them shows how quick they should be.
    """

    candidates: tuple[Named, ...]
    runs: tuple[Episode, ...]
    episode: Episode
    rows: Bool
    scores: Float64
    as_slow: Bool | None = None

    @property
    def gain(self) -> float:
        """How much it explains."""
        return float((self.scores[list(self.episode.abnormal)] ** 2).sum())


@dataclass(frozen=True, slots=True)
class NetworkView:
    """What an attempt of a job shows of the network: its rows, their delay, and what of it is slow by itself.

    `past` is the delay of rows against their own past; `delay` the one that shows most, against others as a rule.
    """

    times: TimePerByte
    delay: Delay
    past: Delay
    candidates: Candidates
    found: tuple[Localised, ...]
    division: Division
    place: Place

    def touched_by(self, named: Named, within: Bool, episode: Episode) -> Localised | None:
        """Localise one candidate in some rows, bool[n]. Returns None where it is not slow in `episode`."""
        params = self.place.params.network
        rows = np.flatnonzero(within)
        touches = incidence(np.zeros(len(rows), dtype=np.int64), rows, 1, len(within))
        score, _ = explained(self.delay.excess, self.delay.spread, touches, self.step_s, params)
        runs = slow_runs(score[0], params)
        met = tuple(run for run in runs if run.meets(episode))
        return Localised((named,), runs, met[-1], within, score[0]) if met else None

    def delay_of(self, found: Localised) -> Delay:
        """Return the delay by which something is slow."""
        if found.as_slow is None or not found.as_slow.any():
            return self.delay
        return self.delay.as_quick_as(found.rows & ~found.as_slow, found.as_slow, self.times)

    @property
    def step_s(self) -> float:
        """Its usual step, in seconds."""
        return float(np.median(step_seconds(self.division)))


def look_at(
    times: TimePerByte, division: Division, known: Sequence[Finding], place: Place, topology: Topology
) -> NetworkView | None:
    """Find what is slow in an attempt by itself. Returns None where it has too few steps.

    Parameters: `known`, the findings open so far: what has been slow for long is compared with what was usual before.
    A row is compared with those like it in the same step, or with its own past if there are none. Where one candidate
    explains more of what differs from its past than all that comparison with others finds, most of those others are
    slow as well, and it is that one.
    """
    params = place.params.network
    if division.steps <= params.slow_steps or len(times.group) == 0:
        return None
    candidates = list_candidates(times, topology)
    past = over_past(times, remembered_s_per_byte(known, times, topology, place.job_id), params)
    step_s = float(np.median(step_seconds(division)))
    peers = over_peers(times, params).filled(past)
    best: tuple[list[Localised], Delay] = ([], peers)
    for delay in (peers, past):
        found = _localise(delay, candidates, times.site, step_s, params)
        if _explains_more(found, best[0]):
            best = (found, delay)
    return NetworkView(times, best[1], past, candidates, tuple(best[0]), division, place)


def _explains_more(found: Sequence[Localised], others: Sequence[Localised]) -> bool:
    """Whether the first one explains all that some others do, and more."""
    if not found or not others:
        return bool(found)
    theirs = np.any([other.rows for other in others], axis=0)
    more = len(others) > 1 or (found[0].rows & ~theirs).any()
    return bool((found[0].rows | ~theirs).all() and more)


def _localise(
    delay: Delay, candidates: Candidates, site: Int32, step_s: float, params: TimePerByteParams
) -> list[Localised]:
    """Find the candidate that explains most, then that of the rest, and so on.

    Parameters: `site` int32[n], see TimePerByte. Groups of one site that are slow alike, while the candidate does not
    explain all of them, are parts of one communicator, joined inside the servers, and count once.
    """
    found: list[Localised] = []
    excess = delay.excess.copy()
    for _ in range(params.max_culprits):
        best = _best(excess, delay.spread, candidates, step_s, params)
        if best is None:
            return found
        parts = _parts_of_one(best, excess, site, params)
        if len(parts):
            stands_for = np.arange(len(site))
            _, first, which = np.unique(site[parts], return_index=True, return_inverse=True)
            stands_for[parts] = parts[first][which]
            number, row = candidates.touches.nonzero()
            touches = incidence(number.astype(np.int64), stands_for[row], *candidates.touches.shape)
            best = _best(excess, delay.spread, replace(candidates, touches=touches), step_s, params) or best
            best.rows[parts] |= np.isin(site[parts], site[parts[best.rows[parts]]])
        found += [replace(best, episode=run) for run in best.runs]
        # Others on the site of a slow group wait for it: they are found again when it is no longer slow.
        waiting = (site >= 0) & np.isin(site, site[best.rows & (site >= 0)])
        excess[best.rows | waiting] = np.nan
    return found


def _best(
    excess: Float64, spread: Float64, candidates: Candidates, step_s: float, params: TimePerByteParams
) -> Localised | None:
    """Find the candidates that explain most, None where nothing is slow."""
    score, likelihood = explained(excess, spread, candidates.touches, step_s, params)
    gain = np.where(score > 0, likelihood, 0).sum(axis=1)
    best = int(np.argmax(gain))
    runs = slow_runs(score[best], params)
    if not runs:
        return None
    alike = np.flatnonzero(gain >= params.nearly_all * gain[best])
    touched = candidates.touches[alike].toarray() > 0
    rows: Bool = touched[alike == best][0]
    slow_by = robust.median(excess[:, [step for run in runs for step in run.abnormal]], axis=1)
    alike = alike[~_contradicted(touched, rows, slow_by)]
    tied = sorted(alike.tolist(), key=lambda one: (one != best, -gain[one]))
    return Localised(tuple(candidates.named[one] for one in tied), runs, runs[0], rows, score[best])


def slow_runs(score: Float64, params: TimePerByteParams) -> tuple[Episode, ...]:
    """Return the episodes of steps with a score, float64[k], that are long enough to count."""
    slow = episodes((score > 0).tolist(), params.repeats)
    return tuple(run for run in slow if len(run.abnormal) >= params.slow_steps)


def _contradicted(touched: Bool, rows: Bool, slow_by: Float64) -> Bool:
    """Mask the candidates that differ from the best one where it matters, bool[h].

    Something that the best one touches is slow without them, and something that they touch without it is not, however
    much they have in common. Parameters: `touched` bool[h, n], the rows of each; `rows` bool[n], those of the best.
    """
    half = robust.median(slow_by[rows]) / 2
    without, besides = ~touched & rows & (slow_by >= half), touched & ~rows & (slow_by < half)
    return np.asarray(without.any(axis=1) & besides.any(axis=1))


def _parts_of_one(best: Localised, excess: Float64, site: Int32, params: TimePerByteParams) -> Int64:
    """List the groups that form one communicator with an explained group.

    Empty where the candidate explains all that are slow alike, unless many switches do: what crosses all of them is
    one communicator, and as slow as any of its links.
    """
    steps = [step for run in best.runs for step in run.abnormal]
    slow_by = np.nan_to_num(robust.median(excess[:, steps], axis=1))
    explained = np.flatnonzero(best.rows & (site >= 0) & (slow_by >= np.log1p(params.network_excess)))
    if len(explained) == 0:
        return explained
    alike = np.isin(site, site[explained]) & (slow_by >= params.together_share * slow_by[explained].max())
    are_parts = has_many_switches(best.candidates) or (alike & ~best.rows).any()
    return np.flatnonzero(alike) if are_parts else explained[:0]


def explained(
    excess: Float64, spread: Float64, touches: Touches, step_s: float, params: TimePerByteParams
) -> tuple[Float64, Float64]:
    """Return each candidate's score and log likelihood ratio in each step, [h, k]."""
    weight = np.where(~np.isnan(excess), spread[:, None] ** -2, 0)
    held, total = (np.asarray(touches @ each) for each in (weight, weight * robust.known_or(excess)))
    mean = np.divide(total, held, out=np.full(held.shape, np.nan), where=held > 0)
    # What contends for the network slows several rows at once: their mean strays no less than one does.
    deviation = np.maximum(np.divide(1, np.sqrt(held), out=np.ones(held.shape), where=held > 0), params.network_jitter)
    best = np.zeros(mean.shape)
    comparisons = max(len(params.widths) * _COUNTED_S / step_s, 1.0)
    least = np.log1p(params.network_excess)
    # A median is no larger than the largest value, and what is too small counts for nothing.
    for width in params.widths if (mean >= least).any() else ():
        smooth = trailing_low_median(mean, width)
        if not (smooth >= least).any():
            continue
        deviate = smooth * np.sqrt(width) / deviation
        score = corrected_score(robust.known_or(deviate, -1.0), comparisons)
        hit = np.where((score >= params.corrected_score) & (smooth >= least), score, 0)
        best = np.maximum(best, carried_back(hit, mean, smooth, width))
    return best, held * robust.known_or(mean) ** 2 / 2
