"""Lateness in collectives: how much later than its peers each rank joins the rounds of a step.

In a ring, nobody sends to or is sent to by a rank that still computes. In an exchange of all with all, others may send
to its server: proxies run ahead of receivers, and what a rank gets may cross another's NIC. There the late ones are
those of the server that explains most of what is late.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from prism_ch.core import intervals, robust
from prism_ch.core.arrays import fold_at, run_lengths, run_places, run_starts
from prism_ch.core.graph import components
from prism_ch.core.search import group_search
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.job import Division
from prism_ch.model.params import ComputeTimeParams
from prism_ch.model.traffic import Traffic


def joined_by(src: Int32, dst: Int32, division: Division) -> Int32:
    """Label the division's endpoints by the set that pairs join them to, int32[m]."""
    first, second = (division.rows_of(side).astype(np.int32) for side in (src, dst))
    return components(len(division.endpoints), first, second)


def measure_lateness(
    collective: Traffic, division: Division, of_server: Int32, params: ComputeTimeParams, *, all_with_all: bool
) -> Float64:
    """Sum how much later than its peers a rank joins collectives, float64[m, k], in seconds.

    Parameters: `of_server` int32[m] numbers the endpoints by server and stage; `all_with_all`, each exchanges with all.

    1. Find who is compared, see `_compared`, and the rounds of each, see `_rounds_of`.
    2. A rank is late in a round by how long after the median of those it first takes part; in exchanges see
       `_late_in_exchange`.
    3. Take away the lateness that is carried on from the round before. An exchange of all with all carries none on: it
       ends for all with the latest of them.
    4. In steps in which most pairs have other rounds, compare how long ranks move data, see `_by_moving_time`.
    """
    steps = division.steps
    step = division.step_of(division.rows_of(collective.src), collective.end_ns - 1)
    inside = np.flatnonzero(step < steps)
    bursts = collective.take(inside)
    sides = [division.rows_of(side) for side in (collective.pair_src, collective.pair_dst)]
    label = joined_by(collective.pair_src, collective.pair_dst, division)
    label = _compared(label, of_server, all_with_all=all_with_all)
    joined = _rows_by(label)
    cell = bursts.pair.astype(np.int64) * steps + step[inside]  # sorted: bursts of a pair are in order
    place, otherwise = _rounds_of(bursts, cell, label[sides[0]], steps, params)
    size = len(division.endpoints), steps, int(place.max(initial=-1)) + 1
    kept = np.flatnonzero(place >= 0)
    of_round, at = cell[kept] % steps * size[2] + place[kept], bursts.start_ns[kept].astype(np.float64)
    if all_with_all:
        late = _late_in_exchange(size, bursts.pair[kept], of_round, at, sides, (label, of_server), params)
    else:
        late = _first(size[0], steps * size[2], [(side[bursts.pair[kept]], of_round) for side in sides], at)
    late = late.reshape(size)
    for rows in joined:
        late[rows] -= robust.median(late[rows], axis=0)[None]
    late = late if all_with_all else _added(late, params)
    late_s = np.where((~np.isnan(late)).any(axis=2), np.nansum(late, axis=2), np.nan) / 1e9
    return _by_moving_time(late_s, bursts, cell, otherwise, joined, sides, params)


def _compared(label: Int32, of_server: Int32, *, all_with_all: bool) -> Int32:
    """Label the ranks that are compared with one another, int32[m].

    They are those of a communicator, `label` int32[m]. Two ranks that exchange with nobody else are late together and
    show no order between them: they are compared with all such that their servers join, and so are those of exchanges
    of all with all, in which servers wait for one another.
    """
    communicators = int(label.max(initial=-1)) + 1
    together = np.full(len(label), all_with_all) | (np.bincount(label)[label] == 2)
    server = np.unique(of_server, return_inverse=True)[1].astype(np.int32) + np.int32(communicators)
    nodes = int(server.max(initial=-1)) + 1
    joined = components(nodes, label[together], server[together])
    return np.where(together, joined[label] + np.int32(nodes), label)


def _rows_by(label: Int32) -> list[Int64]:
    """List the rows of each label."""
    order = np.argsort(label, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(label[order])) + 1)


def _rounds_of(
    bursts: Traffic, cell: Int64, communicator: Int32, steps: int, params: ComputeTimeParams
) -> tuple[Int64, Bool]:
    """Count off the rounds of communicators in each step.

    Returns the round of each burst, int64[n], -1 for none, and which pairs have other rounds, bool[pairs, k].
    Parameters: `bursts` of a collective, in the `cell` int64[n] of their pair and step (pair x steps + step), sorted;
    `communicator` int32[pairs].

    1. A communicator has as many rounds as its busiest pair has bursts in most steps.
    2. The n-th burst of a pair with as many is the n-th round.
    3. Where another message runs into one of them, a pair has fewer: each is of the round in which it goes on.
    The pairs that differ in a step are those with more or fewer bursts than in nearly all others, where most differ:
    rounds that wait for a late rank run into one another, and then their numbers say nothing. One that has the same
    number while others have all rounds has a message of another kind in one, as a pair that moves gradients there has.
    """
    pairs, starts = len(communicator), run_starts(cell)
    counts = run_lengths(starts, len(cell))
    pair, step = np.divmod(cell[starts], steps)
    rounds = np.zeros(int(communicator.max(initial=0)) + 1, dtype=np.int64)
    usual = _usual_counts(pair, counts, pairs)
    np.maximum.at(rounds, communicator, usual)
    whole, as_ever = (np.zeros((pairs, steps), dtype=bool) for _ in range(2))
    whole[pair, step] = counts == rounds[communicator[pair]]
    as_ever[pair, step] = counts == usual[pair]
    agreed = np.zeros((len(rounds), steps))
    np.add.at(agreed, communicator, whole)
    share = agreed / np.maximum(np.bincount(communicator, minlength=len(rounds)), 1)[:, None]
    most, shown = share > params.half, (share >= params.half)[communicator]
    moved = np.bincount(pair, shown[pair, step], minlength=pairs)
    as_ever &= ((moved > 0) & ((as_ever & shown).sum(axis=1) >= params.nearly_all * moved))[:, None]
    number = run_places(starts, len(cell))
    owner = communicator[bursts.pair].astype(np.int64) * steps + cell % steps
    known = np.repeat(whole[pair, step], counts)
    place = np.where(known, number, _going_on(bursts, owner, number, known))
    return place, ~whole & ~as_ever & ~most[communicator]


def _going_on(bursts: Traffic, owner: Int64, number: Int64, known: Bool) -> Int64:
    """Return the round that goes on during each burst, int64[n], -1 for none.

    Parameters: `owner` int64[n], whose rounds; `number` int64[n], those of the `known` bool[n] bursts.
    """
    rounds = int(number.max(initial=0)) + 1
    key, which = np.unique(owner[known] * rounds + number[known], return_inverse=True)
    begin, end = intervals.hull(which, bursts.start_ns[known], bursts.end_ns[known], len(key))
    at = group_search((key // rounds).astype(np.int32), end, owner.astype(np.int32), bursts.start_ns)
    found = np.minimum(at, max(len(key) - 1, 0))
    if len(key) == 0:
        return np.full(len(owner), -1, dtype=np.int64)
    met = (at < len(key)) & (key[found] // rounds == owner) & (bursts.end_ns > begin[found])
    return np.where(met, key[found] % rounds, -1)


def _first(rows: int, rounds: int, cells: Sequence[tuple[Int64, Int64]], at: Float64) -> Float64:
    """Return the first moment in each cell, float64[rows, rounds], or NaN.

    Parameters: `cells`, rows and rounds of moments, int64[n] each; `at` float64[n], the moments.
    """
    first = np.full((rows, rounds), np.inf)
    for cell in cells:
        fold_at(np.minimum, first, cell, at)
    first[np.isinf(first)] = np.nan
    return first


def _late_in_exchange(
    size: tuple[int, int, int],
    of_pair: Int32,
    of_round: Int64,
    at: Float64,
    sides: Sequence[Int64],
    labels: tuple[Int32, Int32],
    params: ComputeTimeParams,
) -> Float64:
    """Return how late each rank is in each round, float64[m, k x rounds].

    It is in ns, and NaN where the rank has no part in it.
    Parameters: `size`, m, k and rounds; `of_pair` int32[n] and `of_round` int64[n], the pair and the round of bursts
    that begin `at` float64[n]; `sides` int64[pairs] each, the rows of a pair's ends; `labels` int32[m] each, the ranks
    that are compared, see `_compared`, and their servers.
    """
    together, server = labels
    late = np.full((size[0], size[1] * size[2]), np.nan)
    for pairs in _rows_by(together[sides[0]]):
        rows = np.flatnonzero(np.isin(of_pair, pairs))
        begin = _first(len(pairs), late.shape[1], [(np.searchsorted(pairs, of_pair[rows]), of_round[rows])], at[rows])
        members, ends = np.unique(np.stack([side[pairs] for side in sides]), return_inverse=True)
        late[members] = _explained(begin, ends.reshape(2, -1), server[members], params)
    return late


def _explained(begin: Float64, ends: Int64, server: Int32, params: ComputeTimeParams) -> Float64:
    """Return how late ranks are that explain why flows begin late, float64[ranks, rounds], in ns.

    Parameters: `begin` float64[pairs, rounds], when the flows of each pair begin, NaN where it has none; `ends`
    int64[2, pairs], senders and receivers; `server` int32[ranks].

    A server explains what its own ranks send late, and what is sent to it late by no more than the latest of its ranks
    is. Where several explain as much, it is the one of fewer late ranks, or each may be it. Those of others only wait.
    """
    sender, receiver = ends
    after = np.where(np.isnan(begin), np.inf, begin - np.fmin.reduce(begin, axis=0))
    own = np.full((len(server), begin.shape[1]), np.inf)
    np.minimum.at(own, sender, after)
    silent = np.flatnonzero(np.isinf(own).all(axis=1))  # who never sends shows by what it gets
    gets = np.isin(receiver, silent)
    np.minimum.at(own, receiver[gets], after[gets])
    names, number = np.unique(server, return_inverse=True)
    lateness, late = np.where(np.isinf(own), 0.0, own), np.where(np.isinf(after), 0.0, after)
    latest, total, explained = (np.zeros((len(names), own.shape[1])) for _ in range(3))
    np.maximum.at(latest, number, lateness)
    np.add.at(total, number, lateness)
    np.add.at(explained, number[sender], late)
    across = number[sender] != number[receiver]
    np.add.at(explained, number[receiver[across]], np.minimum(late, latest[number[receiver]])[across])
    total[explained < (1 - params.little) * explained.max(axis=0)] = np.inf
    fewest = total <= (1 + params.little) * total.min(axis=0)
    return np.where(np.isinf(own), np.nan, np.where(fewest[number], own, 0.0))


def _usual_counts(pair: Int64, counts: Int64, pairs: int) -> Int64:
    """Return the count that each pair most often has, int64[pairs]."""
    width = int(counts.max(initial=0)) + 1
    times = np.bincount(pair * width + counts, minlength=pairs * width).reshape(pairs, width)
    return np.asarray(times.argmax(axis=1))


def _added(late: Float64, params: ComputeTimeParams) -> Float64:
    """Return what each round adds to a rank's lateness, [m, k, rounds].

    Where a round ends for all at once whoever was late begins the next one with the others. Where it does not, as with
    gathers ahead of their use, or in a ring of neighbours, lateness is carried on, and would count again in each round.
    The share that is carried on is how the usual lateness of most ranks correlates from round to round: that of a rank
    which is slow for a while comes anew with each.
    """
    if late.shape[2] < 2:
        return late
    varies = late - robust.median(late, axis=1)[:, None]
    usual = params.min_score * robust.mad(varies.reshape(len(late), -1), axis=1)[:, None, None]
    added = late.copy()
    added[:, :, 1:] -= _carried(np.clip(varies, -usual, usual), params) * late[:, :, :-1]
    return added


def _carried(varies: Float64, params: ComputeTimeParams) -> float:
    """Return the share of lateness that is carried on to the next round, 0..1.

    Parameters: `varies` float64[m, k, rounds], by how much a rank is later in a round than it usually is. Clocks and
    ticks blur it, and what is blurred correlates less with what follows. What is two rounds apart is as blurred as what
    is one round apart: by how much less it correlates is what is not carried on. Where neither correlates beyond
    chance, nothing is.
    """
    rounds = np.lib.stride_tricks.sliding_window_view(varies, min(varies.shape[2], 3), axis=2)
    rounds = np.where(np.isnan(rounds).any(axis=3, keepdims=True), 0.0, rounds)
    products = [(rounds[..., 0] * rounds[..., apart]).sum(axis=(1, 2)) for apart in range(rounds.shape[3])]
    shares = [_median_ratio(after, before) for before, after in pairwise(products)]
    by_chance = params.min_score / np.sqrt(rounds[..., 0].size)
    share = shares[1] if len(shares) > 1 and shares[0] > by_chance else shares[0]
    return float(np.clip(share, 0, 1))


def _median_ratio(after: Float64, before: Float64) -> float:
    """Return the median of quotients, 0 where there is none."""
    ratio = np.divide(after, before, out=np.full(len(before), np.nan), where=before > 0)
    return float(np.nan_to_num(robust.median(ratio)))


def _by_moving_time(
    late_s: Float64,
    collective: Traffic,
    cell: Int64,
    otherwise: Bool,
    joined: Sequence[Int64],
    sides: Sequence[Int64],
    params: ComputeTimeParams,
) -> Float64:
    """Measure lateness in steps without rounds by moving time, float64[m, k].

    Where a pair moves as much as usual in fewer bursts, flows that wait for a late rank run into those of the next
    round, and where it does so in more, a slow rank parts rounds that run together. All of them end together, so
    whoever is late moves for less time by as much.
    Parameters: `late_s` by rounds; `collective`, the bursts in steps, and the `cell` of each (pair x steps + step);
    `otherwise` bool[pairs, k], where a pair has more or fewer of them than rounds.
    """
    moved, busy_s = (
        np.bincount(cell, weights=weights, minlength=otherwise.size).reshape(otherwise.shape)
        for weights in (collective.payload, (collective.end_ns - collective.start_ns) / 1e9)
    )
    all_usual = moved >= (1 - params.same_size) * robust.median(moved, axis=1)[:, None]
    joined_otherwise = otherwise & all_usual & (moved > 0)
    busy_s[~all_usual] = np.nan
    by_moving_s, longest = late_s.copy(), np.full(late_s.shape, np.nan)
    without_rounds = np.zeros(late_s.shape, dtype=bool)
    for side in sides:
        np.fmax.at(longest, side, busy_s)
        np.logical_or.at(without_rounds, side, joined_otherwise)
    for rows in joined:
        steps = np.flatnonzero(without_rounds[rows].any(axis=0))
        moving_s = longest[np.ix_(rows, steps)]
        by_moving_s[np.ix_(rows, steps)] = robust.median(moving_s, axis=0) - moving_s
    return by_moving_s
