"""All jobs together: the smallest set of places that explains what is slow in any of them, and nothing that is not.

A switch, or a link between switches, is crossed by flows of several jobs: what one job shows of it may be a NIC, a
link or a leaf as well, until another job's flows over that are seen to be as fast as ever (Boolean tomography:
Duffield, "Network Tomography of Binary Network Performance Characteristics", IEEE Trans. Inf. Theory 52, 2006).

1. Take the rows of all jobs in the time in which a job by itself finds something slow: each is slow then, or it is not.
2. Take the place that most slow rows cross and no others, or hardly any; then that of the rest, and so on.
3. Where ways are not known, flows between leaves may be slow by what lies between: it explains any of them. A place is
   believed against that if so many slow rows do not meet on it by chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import TypeAlias

import numpy as np
from scipy.special import logsumexp

from prism_ch.analysis.diagnose.network.localise import Localised, NetworkView
from prism_ch.analysis.diagnose.network.places import (
    Named,
    Touches,
    has_many_switches,
    incidence,
    is_between_leaves,
    list_candidates,
)
from prism_ch.core import robust
from prism_ch.model.columns import Bool, Float64, Int64
from prism_ch.model.params import TimePerByteParams
from prism_ch.model.topology import Topology

#: Places that explain the same, and the units that they explain, bool[units].
_Chosen: TypeAlias = tuple[list[int], Bool]

#: What lies between the leaves, where the records name no switch there.
SPINES = "spines"

#: Places that are taken one after the other at the most, before the rest counts as unexplained.
_MAX_PLACES = 64

#: Shares of ways that may be slow: one of two spines, up to one of so many links to spines.
_SLOW_SHARES = np.geomspace(1 / 128, 1 / 2, 32)

#: A unit without a way between leaves is hardly ever slow by one.
_NO_WAY = 1e-6
#: How often what crosses a slow place shows it.
_SHOWS = 0.95
#: A place is believed from this probability on.
_BELIEVED = 0.95


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of all views, one after the other, and the places that they cross.

    `touches` [places, n]; `view` int64[n] and `row` int64[n] say whose each is; `unseen` int64[n] counts its ways
    between leaves that are not known; `site` and `like` int64[n], see TimePerByte, are numbered over all views, -1 for
    no site. `logs` are each view's logarithms of seconds a byte, float64[rows, k].
    """

    named: tuple[Named, ...]
    touches: Touches
    view: Int64
    row: Int64
    unseen: Int64
    site: Int64
    like: Int64
    logs: tuple[Float64, ...]

    @classmethod
    def of(cls, views: Sequence[NetworkView], topology: Topology) -> _Rows:
        """Put the rows of all views together."""
        number: dict[Named, int] = {}
        places, rows, unseen, sites, likes = [], [], [], [], []
        counts = [len(view.times.group) for view in views]
        begin = np.cumsum([0, *counts])
        site_base = like_base = 0
        for view, first in zip(views, begin.tolist(), strict=False):
            times = view.times
            listed = list_candidates(times, topology, lone_leaves=True)
            mine, row = listed.touches.nonzero()
            numbers = np.array([number.setdefault(name, len(number)) for name in listed.named], dtype=np.int64)
            places.append(numbers[mine])
            rows.append(first + row.astype(np.int64))
            away = (times.way < 0) & (topology.leaf[times.src] != topology.leaf[times.dst])
            unseen.append(np.bincount(times.row[away], minlength=len(times.group)))
            sites.append(np.where(times.site >= 0, site_base + times.site.astype(np.int64), -1))
            site_base += int(times.site.max(initial=-1)) + 1
            likes.append(like_base + times.like.astype(np.int64))
            like_base += int(times.like.max(initial=-1)) + 1
        view_of = np.repeat(np.arange(len(views)), counts)
        touches = incidence(np.concatenate(places), np.concatenate(rows), len(number), len(view_of))
        own = np.arange(len(view_of)) - begin[view_of]
        of_rows = [np.concatenate(each) for each in (unseen, sites, likes)]
        logs = tuple(view.times.log_s_per_byte for view in views)
        return cls(tuple(number), touches, view_of, own, of_rows[0], of_rows[1], of_rows[2], logs)

    def spines(self, topology: Topology) -> tuple[Named, ...]:
        """Return the switches above the leaves that have a name in any known way."""
        found = [one for one in self.named if one[0] == "slow_switch" and is_between_leaves(one, topology)]
        return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class _Explained:
    """Places that explain the same `rows` bool[n] of all views, the best first."""

    places: tuple[Named, ...]
    rows: Bool


def localise_together(views: Sequence[NetworkView], topology: Topology) -> list[tuple[Localised, ...]]:
    """Return what is slow in each view, by the places that all views agree on."""
    if not any(view.found for view in views):
        return [() for _ in views]
    rows = _Rows.of(views, topology)
    agreed: list[list[Localised]] = [[] for _ in views]
    everything = [(number, one) for number, view in enumerate(views) for one in view.found]
    for number, one in sorted(everything, key=lambda each: -each[1].gain):
        found = _agree(number, one, views, rows, topology)
        same = [other for other in agreed[number] if other.candidates[0] == found.candidates[0]]
        if not any(other.episode.meets(found.episode) for other in same):
            agreed[number].append(found)
    return [tuple(found) for found in agreed]


def _agree(number: int, one: Localised, views: Sequence[NetworkView], rows: _Rows, topology: Topology) -> Localised:
    """Name what one view finds slow by the place that explains it in all views.

    1. What is slower than before, and no slower than others like it, is not seen to be fast: they may be slow as well.
    2. Nor is what moves its data as slowly as what is slow, and so does all that is like it. In the view itself that is
       slow, too, unless it was quicker before.
    """
    view = views[number]
    params = view.place.params.network
    mine = np.flatnonzero(rows.view == number)[one.rows]
    excess, over_past, rates = _during(one, view, views, rows)
    most = np.nan_to_num(excess[mine])
    usual = robust.median(most[most >= most.max(initial=0) / 2])
    least = max(float(np.nan_to_num(usual)), float(np.log1p(params.network_excess))) / 2
    slow, own = excess >= least, rows.view == number
    alike = _as_slow(rates, rates[mine[slow[mine]]], slow, rows.like, params)
    all_along = not (over_past[mine] >= least).any()
    as_slow = alike[own] & all_along
    slow[own] |= as_slow
    maybe = (over_past >= least) | (alike & ~own)
    known = ~np.isnan(excess) & (slow | ~maybe)
    best: _Explained | None = None
    for each in _explain(slow, known, rows, topology, view.place.params.max_false_culprits, params):
        if best is None or each.rows[mine].sum() > best.rows[mine].sum():
            best = each
    if best is None or not best.rows[mine].any():
        return one
    within = best.rows[own]
    as_slow &= within
    shared = tuple(candidate for candidate in one.candidates if candidate in best.places)
    # What lies between the leaves comes first where the candidates of one view are no likelier than chance.
    if shared and (best.places[0] in shared or not is_between_leaves(best.places[0], topology)):
        # A leaf of a single NIC that is named leaves the same records as that.
        above = [place for place in best.places if place[0] == "slow_switch" or is_between_leaves(place, topology)]
        others = tuple(place for place in above if place not in shared)
        return replace(one, candidates=(*shared, *others), rows=one.rows | as_slow, as_slow=as_slow)
    found = view.touched_by(best.places[0], within, one.episode) or replace(one, rows=within)
    return replace(found, candidates=best.places, as_slow=as_slow)


def _as_slow(rates: Float64, slow_rates: Float64, slow: Bool, like: Int64, params: TimePerByteParams) -> Bool:
    """Mask the rows that move their data as slowly as the slow ones, bool[n].

    Where something has been slow all along that all rows like one another cross, none of them differs from the others.
    Parameters: `rates` float64[n] and `slow_rates`, logarithms of seconds a byte; `slow` bool[n], what differs; `like`
    int64[n], see _Rows.
    """
    as_slow = np.abs(rates - robust.median(slow_rates)) <= np.log1p(params.network_excess) / 2
    tells = np.unique(like[slow | ~as_slow])
    return np.asarray(as_slow & ~np.isin(like, tells))


def _during(
    one: Localised, view: NetworkView, views: Sequence[NetworkView], rows: _Rows
) -> tuple[Float64, Float64, Float64]:
    """Return how slow all rows are in an episode.

    Their excess, that over their own past, and logarithms of seconds a byte, float64[n] each, NaN where nothing moved.
    Of the view itself excess is the median of the episode's steps. Where these are long they last longer than what
    slows them: of others it is that of the two steps in a row that it slows most.
    """
    end_ns = view.division.job_end_ns()
    start_ns, until_ns = int(end_ns[max(one.episode.first - 1, 0)]), int(end_ns[one.episode.last])
    found = []
    for other, logs in zip(views, rows.logs, strict=True):
        ends = other.division.job_end_ns()
        begins = np.append(ends[0] - np.median(np.diff(ends)), ends[:-1])
        inside = (begins + ends) / 2
        during, read = (inside > start_ns) & (inside <= until_ns), _most_of_two
        if other is view:
            during, read = np.isin(np.arange(len(ends)), one.episode.abnormal), _median
        none = np.full(len(other.times.group), np.nan)
        every = ((other.delay.excess, read), (other.past.excess, read), (logs, _median))
        found.append([take(each[:, during]) if during.any() else none for each, take in every])
    excess, over_past, rates = (np.concatenate(each) for each in zip(*found, strict=True))
    return excess, over_past, rates


def _median(excess: Float64) -> Float64:
    return robust.median(excess, axis=1)


def _most_of_two(excess: Float64) -> Float64:
    """Return the most that two steps in a row have in common, float64[n].

    It is the median where no two in a row are known.
    """
    both = np.minimum(excess[:, 1:], excess[:, :-1])
    most: Float64 = np.fmax.reduce(both, axis=1, initial=np.nan)
    return np.where(np.isnan(most), _median(excess), most)


def _explain(
    slow: Bool, known: Bool, rows: _Rows, topology: Topology, max_false: float, params: TimePerByteParams
) -> Iterator[_Explained]:
    """Yield the smallest set of places that explains the slow rows, bool[n].

    It explains hardly any other of the `known` rows, bool[n].
    """
    unit = _units(slow, rows)
    used, unit = np.unique(np.where(known, unit, -1), return_inverse=True)
    none = int(used[0] < 0)
    of_rows = incidence((unit - none)[known], np.flatnonzero(known), len(used) - none, len(slow))
    touches: Touches = rows.touches @ of_rows.T
    touches.data[:] = 1.0
    is_slow = (of_rows @ slow.astype(np.float64)) > 0
    unseen = np.zeros(len(is_slow))
    np.maximum.at(unseen, (unit - none)[known], rows.unseen[known])
    chosen = list(_smallest(touches, is_slow, params))
    kept, by_chance = _believed(chosen, touches, is_slow, unseen, max_false)
    left = is_slow & (unseen > 0)
    for _, covered in chosen:
        left &= ~covered
    for tied, covered in kept:
        explained = _rows_of(covered, of_rows) & slow
        places = tuple(rows.named[place] for place in _crossed_by_all(tied, explained, rows))
        # What one pair alone crosses is not told apart from the pair.
        lone = covered.sum() == 1 and bool((unseen[covered] > 0).all())
        yield _Explained((*places, *(rows.spines(topology) if lone else ())), explained)
    if by_chance or left.any():
        covered = np.any([left, *(covered for _, covered in by_chance)], axis=0)
        alone = by_chance[0][0] if len(by_chance) == 1 and not left.any() else []
        places = (*(rows.spines(topology) or (("slow_switch", SPINES),)), *(rows.named[place] for place in alone))
        yield _Explained(places, _rows_of(covered, of_rows) & slow)


def _crossed_by_all(tied: Sequence[int], explained: Bool, rows: _Rows) -> Sequence[int]:
    """Return those places that all slow rows cross, `explained` bool[n], or all that are tied.

    The parts of a communicator that cross one need not have waited for the others. If there are many such switches the
    communicator lies across all of them, and is as slow as any of its links.
    """
    touched = rows.touches[list(tied)][:, np.flatnonzero(explained)].toarray() > 0
    alone = [place for place, each in zip(tied, touched, strict=True) if each.all()]
    return tied if not alone or has_many_switches(rows.named[place] for place in alone) else alone


def _rows_of(units: Bool, of_rows: Touches) -> Bool:
    """Mask the rows of some units, bool[n]."""
    return np.asarray((of_rows.T @ units.astype(np.float64)) > 0)


def _units(slow: Bool, rows: _Rows) -> Int64:
    """Give rows that are slow together one number, int64[n]. Parts of a communicator wait for one another."""
    unit = np.arange(len(slow))
    parts = np.flatnonzero(slow & (rows.site >= 0))
    _, first, which = np.unique(rows.site[parts], return_index=True, return_inverse=True)
    unit[parts] = parts[first][which]
    return unit


def _smallest(touches: Touches, is_slow: Bool, params: TimePerByteParams) -> Iterator[_Chosen]:
    """Yield places and the slow units that each explains, bool[units]. The one that explains most comes first."""
    others = touches @ (~is_slow).astype(np.float64)
    all_slow = touches @ is_slow.astype(np.float64)
    fits = all_slow >= params.together_share * (all_slow + others)
    left = is_slow.copy()
    for _ in range(_MAX_PLACES):
        gain = np.where(fits, touches @ left.astype(np.float64) - others, 0)
        if gain.max(initial=0) <= 0:
            return
        alike = np.flatnonzero(gain == gain.max())
        covered = (touches[alike].toarray() > 0) & left
        same = (covered == covered[0]).all(axis=1)
        yield alike[same].tolist(), covered[0]
        left &= ~covered[0]


def _believed(
    chosen: Sequence[_Chosen], touches: Touches, is_slow: Bool, unseen: Float64, max_false: float
) -> tuple[list[_Chosen], list[_Chosen]]:
    """Part places into those believed, and those where slow rows may meet by chance.

    The null model: what lies between the leaves is slow on a share of its ways, which flows take at random. Others
    that are slow show that share. Where there are none it may be any, and the place has to be likelier than that.
    """
    kept: list[_Chosen] = []
    by_chance: list[_Chosen] = []
    taken = np.zeros(len(is_slow), dtype=bool)
    places = touches.shape[0]
    for tied, covered in chosen:
        crossed = touches[[tied[0]]].toarray()[0] > 0
        others = (unseen > 0) & ~crossed & ~taken
        if (unseen[covered] == 0).any() or (covered.sum() == 1 and len(chosen) == 1):
            believed = True
        elif (others & is_slow).any():
            share = _SLOW_SHARES[[int(np.argmax(_log_likelihood(is_slow[others], unseen[others], _SLOW_SHARES)))]]
            at_random = float(_log_likelihood(is_slow[crossed], unseen[crossed], share)[0])
            believed = _log_shown(is_slow[crossed]) - at_random > log(places / max_false)
        else:
            every = crossed | others
            each = _log_likelihood(is_slow[every], unseen[every], _SLOW_SHARES)
            at_random = float(logsumexp(each)) - log(len(each))
            believed = _log_shown(is_slow[crossed]) - log(places) - at_random > log(_BELIEVED / (1 - _BELIEVED))
        (kept if believed else by_chance).append((tied, covered))
        taken |= covered & believed
    if len(by_chance) == 1 and len(kept) > 0:
        return [*kept, *by_chance], []
    return kept, by_chance


def _log_shown(slow: Bool) -> float:
    """Return the log likelihood of units that cross a slow place, bool[n]."""
    shown = int(np.count_nonzero(slow))
    return shown * log(_SHOWS) + (len(slow) - shown) * log(1 - _SHOWS)


def _log_likelihood(slow: Bool, ways: Float64, shares: Float64) -> Float64:
    """Return the log likelihood of slow and other units by shares of slow ways.

    Parameters: `slow` bool[n]; `ways` float64[n], how many each unit takes; `shares` float64[k]. Returns float64[k].
    """
    fast = np.outer(np.maximum(ways, _NO_WAY), np.log1p(-shares))
    return np.asarray(np.where(slow[:, None], np.log(-np.expm1(fast)), fast).sum(axis=0))
