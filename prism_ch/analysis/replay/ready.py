"""When units are ready for the rounds of a collective, as far as the flows of others leave that in sight."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prism_ch.core import robust
from prism_ch.core.arrays import fold_rows
from prism_ch.model.columns import Bool, Float64, Int64
from prism_ch.model.params import ReplayParams


@dataclass(frozen=True, slots=True)
class Seen:
    """What a round shows: `at` float64[u, k], when units first take part, `unseen` bool[u, k] where none is seen.

    `before` are float64[k], when the round before began and ended, None before the first; `near_ns`, how far apart
    moments are that are one. `edges` int64[2, e] are units, rows of `at`, that move data to one another, both ways.
    """

    at: Float64
    unseen: Bool
    before: tuple[Float64, Float64] | None
    near_ns: float
    edges: Int64

    @property
    def ended(self) -> Float64 | None:
        """When the round before ended, float64[k], None before the first."""
        return None if self.before is None else self.before[1]

    @property
    def begun(self) -> Float64:
        """When the last unit takes part, float64[k]."""
        return np.asarray(self.at.max(axis=0))

    def follows(self, params: ReplayParams) -> bool:
        """Whether all units begin together some time after the round before. They compute on its result.

        They do not if they begin more regularly after its begin: then they have computed beside it.
        """
        if self.before is None or self.unseen.any():
            return False
        together = np.median(self.begun - self.at.min(axis=0)) <= self.near_ns
        if not together or np.median(self.begun - self.before[1]) <= self.near_ns:
            return False
        beside, after = (
            np.abs(passed - np.median(passed)).sum() for passed in (self.begun - one for one in self.before)
        )
        return bool(after <= params.more_regular * beside)


@dataclass(frozen=True, slots=True)
class Speed:
    """How many times longer than usual units compute, float64[u, k], and what it rests on so far."""

    factor: Float64
    own: Float64
    usual: Float64
    is_given: bool

    @classmethod
    def of(cls, factor: Float64) -> Speed:
        """Take speeds that are known, or begin to measure where all are 1."""
        return cls(factor, np.zeros(factor.shape), np.zeros(factor.shape[1]), is_given=bool((factor != 1).any()))

    def measured(self, took: Float64, known: Bool, params: ReplayParams) -> Speed:
        """Return it with another piece of computing, float64[u, k], where it is `known`."""
        if self.is_given:
            return self
        usual = np.nan_to_num(robust.median(np.where(known, took, np.nan), axis=0))
        own, total = self.own + np.where(known, took, self.factor * usual), self.usual + usual
        factor = np.divide(own, total, out=np.ones_like(own), where=total > 0)
        return replace(self, factor=np.clip(factor, 1 / params.speed_range, params.speed_range), own=own, usual=total)


@dataclass(frozen=True, slots=True)
class Readiness:
    """When units are ready, `at` float64[u, k], and how long after each source, `lag` float64[s, u, k].

    `took` float64[u, k] is how long after the last source, where that is `known` bool[u, k].
    """

    at: Float64
    lag: Float64
    took: Float64
    known: Bool


def find_readiness(
    seen: Seen, sources: Float64, pieces: Float64, speed: Float64, goes_on: Float64 | None = None
) -> Readiness:
    """Find when units are ready for a round.

    Parameters: `sources` float64[s, u, k], when what they wait for takes place, -inf for none; `pieces` float64[s, u],
    how many operations follow each of them; `speed` float64[u, k]; `goes_on` float64[k], for how long an operation goes
    on once a unit is ready, None for none.

    1. A flow begins when both its ends are ready: a unit is seen plainly if a neighbour takes part before it.
    2. Of neighbours that begin together one was the last. All compute as long as it, each by its speed, unless that
       would make them later than they are: the one for which it would is the last.
    3. A unit that takes part as soon as the round before has ended may have been ready for long: it takes as long as
       those that are seen.
    """
    nearest = np.full(seen.at.shape, np.inf)
    fold_rows(np.minimum, nearest, seen.edges[0], seen.at[seen.edges[1]])
    all_at_once = seen.begun - seen.at.min(axis=0) <= seen.near_ns
    queued = seen.unseen if seen.ended is None else (seen.at <= seen.ended + seen.near_ns) | seen.unseen
    hidden = ((nearest >= seen.at - seen.near_ns) | all_at_once) & ~seen.unseen
    latest = np.where(all_at_once, seen.begun, seen.at)
    before = (pieces - 1)[:, :, None] * (0.0 if goes_on is None else goes_on)
    piece = np.maximum(((latest - sources - before) / pieces[:, :, None]).min(axis=0), 0)
    rate = piece / speed
    alone = np.where(hidden, _least_of_neighbours(rate, seen, hidden, all_at_once) * speed, piece)
    if queued.any():
        clear = robust.median(np.where(queued | hidden, np.nan, rate))
        clear = robust.median(np.where(queued, np.nan, alone / speed)) if np.isnan(clear) else clear
        alone = np.where(queued, np.minimum(np.nan_to_num(clear, posinf=np.inf) * speed, piece), alone)
    lag = np.where(np.isinf(sources), sources, np.rint(alone * pieces[:, :, None] + before))
    plain = ~hidden & ~queued
    with np.errstate(invalid="ignore"):  # of a unit that waits for nothing it stays unknown, NaN
        lag = lag + np.where(plain, seen.at - (sources + lag).max(axis=0), 0)[None]
    comes = sources + lag
    took = np.take_along_axis(lag, comes.argmax(axis=0)[None], axis=0)[0]
    return Readiness(comes.max(axis=0), lag, took, ~queued & np.isfinite(took))


def _least_of_neighbours(rate: Float64, seen: Seen, hidden: Bool, all_at_once: Bool) -> Float64:
    """Find the least rate among neighbours, float64[u, k]. Those count that are hidden and begin together."""
    here, there = seen.edges
    with_me = hidden[here] & hidden[there] & (np.abs(seen.at[here] - seen.at[there]) <= seen.near_ns)
    least = rate.copy()
    fold_rows(np.minimum, least, here, np.where(with_me, rate[there], np.inf))
    return np.where(all_at_once, rate.min(axis=0), least)
