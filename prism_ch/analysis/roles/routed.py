"""Routed traffic: the all-to-alls of experts, which move something else over every pair.

The edges of a ring or a tree carry the same at the same moment, for all members reduce one buffer. What a router sends
to an expert differs from pair to pair and from one exchange to the next. That tells it apart, however seldom it moves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import bdtrc

from prism_ch.core import intervals, robust
from prism_ch.core.robust import LEAST_SHARE
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.params import IdentifyParams
from prism_ch.model.traffic import Traffic


def routed_bursts(traffic: Traffic, line: Int32, params: IdentifyParams) -> Bool:
    """Mask the bursts whose sizes a router chose, bool[n].

    Parameters: `line` int32[n], the set of joined endpoints that each burst is of.

    1. What is much larger than the rest of a pair, and seldom, may be something else: it counts as a pair of its own.
    2. A pair is uneven if most of its payload varies in size, not just as some of it was lost, and other pairs of its
       line hardly ever move the like, or seldom and no more than by chance: neither burst by burst nor in all while the
       line is busy, as bursts of one collective may be cut in different ways. That in such records the like shows at
       all must be known from other pairs of the line. A few bursts show neither.
    3. Uneven pairs whose largest bursts are about as large as those of any of them carry nothing else.
    4. Other pairs of the line carry gradients as well. Of what is no larger there, a size that others move the like of
       again and again is not routed, nor any that others do where a pair would be left with nothing else.
    """
    larger = much_larger(traffic, params)
    order = np.lexsort((larger, traffic.pair))
    routed = np.empty(len(order), dtype=np.bool_)
    routed[order] = _uneven_bursts(traffic.take(order).with_pairs_in_parts(larger[order]), line[order], params)
    return routed


def _uneven_bursts(traffic: Traffic, line: Int32, params: IdentifyParams) -> Bool:
    """Mask routed bursts as `routed_bursts` does from 2 on, bool[n].

    Parameters: `traffic`, its pairs in two parts.
    """
    pair, pairs, payload = traffic.pair, len(traffic.pair_src), traffic.payload
    size, _, narrow = sizes_of_pairs(pair, payload, params)
    varied = _share_of(pair, payload, settled_sizes(pair, size, narrow, params), pairs) < params.half
    enough = traffic.counts_of_pairs() > params.enough
    varied &= enough & ~_repeats_one_size(traffic, params)
    if not varied[pair].any():
        return np.zeros(len(pair), dtype=np.bool_)
    likes = _like_neighbours(traffic, line, params), _like_moments(traffic, line, params)
    is_like = likes[0].is_like
    alike, beyond = (np.maximum(*each) for each in zip(*(one.shares(pairs) for one in likes), strict=True))
    shown, largest, least = np.zeros(int(line.max()) + 1), np.zeros(pairs), np.full(int(line.max()) + 1, np.inf)
    np.maximum.at(shown, line, (alike * enough)[pair])
    # Sampled sizes are like any other by chance, and show nothing. A job is taken as a whole: its experts are alike.
    is_told = np.median(alike[varied]) < params.stray_share
    is_uneven = varied & ((alike < params.little) | (is_told & (beyond < params.little)))
    uneven: Bool = is_uneven[pair] & (shown > params.half)[line]
    if not uneven.any():
        return uneven
    np.maximum.at(largest, pair, payload)
    whole = (is_uneven | ~traffic.moving()).reshape(-1, 2).all(axis=1).repeat(2)  # both parts are the same thing
    largest = np.where(whole, largest.reshape(-1, 2).max(axis=1).repeat(2), largest)
    np.minimum.at(least, line[uneven], largest[pair[uneven]])
    most = params.twice * np.where(np.isfinite(least), least, 0.0)[line]
    alone = uneven & (largest[pair] <= most)
    by_accident = _share_of(size, payload, is_like, int(size.max()) + 1) < params.stray_share
    by_accident |= np.bincount(size[is_like], minlength=len(by_accident)) < params.min_count
    others = ~alone & (payload <= most) & (~is_like | by_accident[size])
    nothing_else = np.bincount(pair[others], minlength=pairs) == traffic.counts_of_pairs()
    others &= ~(is_like & (nothing_else & (alike > params.half))[pair])
    return np.asarray(alone | others)


def much_larger(traffic: Traffic, params: IdentifyParams) -> Bool:
    """Mask the few bursts of each pair above a wide gap between its sizes, bool[n]."""
    order = np.lexsort((traffic.payload, traffic.pair))
    pair, payload = traffic.pair[order], traffic.payload[order].astype(np.float64)
    times = np.append(payload[1:] / np.maximum(payload[:-1], 1), 1.0)
    times[:-1][pair[1:] != pair[:-1]] = 1.0
    count = np.bincount(pair, minlength=len(traffic.pair_src))
    last = np.cumsum(count)
    place = np.arange(len(pair)) - (last - count)[pair]  # how many of the pair are smaller
    few = place + 1 >= params.inner_rate * (count[pair] - place - 1)
    from_size = np.full(len(count), np.inf)
    gap = np.flatnonzero(few & (times >= params.inner_size_gap))
    np.minimum.at(from_size, pair[gap], payload[gap + 1] if len(gap) else payload[:0])
    return np.asarray(traffic.payload >= from_size[traffic.pair])


def settled_sizes(pair: Int32, size: Int32, narrow: Bool, params: IdentifyParams) -> Bool:
    """Mask the bursts of a size that their pair moves again and again, bool[n].

    Parameters: `size` int32[n] and `narrow` bool[sizes], of `sizes_of_pairs`.
    """
    often = np.maximum(params.stray_share * np.bincount(pair), params.stray_sizes)[pair]
    return np.asarray(narrow[size] & (np.bincount(size)[size] > often))


def sizes_of_pairs(pair: Int32, payload: Int64, params: IdentifyParams) -> tuple[Int32, Float64, Bool]:
    """Return the size of each burst among those of its pair, int32[n].

    Returns as well the largest burst of each size, float64[sizes], and which are no chain of many, bool[sizes].
    """
    size = robust.size_classes(payload, params.same_size, pair)
    smallest, largest = np.full(int(size.max()) + 1, np.inf), np.zeros(int(size.max()) + 1)
    np.minimum.at(smallest, size, payload)
    np.maximum.at(largest, size, payload)
    return size, largest, largest < (1 + params.size_spread) * smallest


def _repeats_one_size(traffic: Traffic, params: IdentifyParams) -> Bool:
    """Mask the pairs that move one size, to the byte, again and again, bool[pairs].

    Where packets are lost sizes vary, but of those bursts that lost none. Experts send back what they are sent, forward
    and backward, and then something else.
    """
    same = robust.size_classes(traffic.payload, 0.0, traffic.pair)
    most = np.zeros(len(traffic.pair_src), dtype=np.int64)
    np.maximum.at(most, traffic.pair, np.bincount(same)[same])
    return np.asarray(most > np.maximum(params.stray_share * traffic.counts_of_pairs(), params.enough))


@dataclass(frozen=True, slots=True)
class _Likes:
    """What pairs move, and whether other pairs of their line move the like about then.

    `pair` int32[n]; `payload` [n], in bytes; `is_like` bool[n]; `expected` float64[n], how likely it would be like them
    if all moved what they move in any order.
    """

    pair: Int32
    payload: Int64 | Float64
    is_like: Bool
    expected: Float64

    @classmethod
    def of(
        cls,
        pair: Int32,
        line: Int32,
        payload: Int64 | Float64,
        counts: tuple[Int64, Int64],
        params: IdentifyParams,
    ) -> _Likes:
        """Look at what pairs of lines move, int32[n] each.

        Parameters: `counts` int64[n], how many others move something about then, and how many of these the like. A good
        part of them is enough, for several collectives may be at work.
        """
        others, like = counts
        size = _log_size(payload)
        at = size + line * (size.max(initial=0.0) + 1)  # one scale for all: lines lie farther apart than sizes
        chance = _near(at, params.same_size) / np.bincount(line)[line]
        enough = np.floor(params.stray_share * others)
        return cls(pair, payload, like > enough, np.asarray(bdtrc(enough, others, chance), dtype=np.float64))

    def shares(self, pairs: int) -> tuple[Float64, Float64]:
        """Return what share of each pair's payload is like that of others.

        The second array is by how much that is more than by chance, as a share of all it could be; float64[pairs] each.
        """
        share = _share_of(self.pair, self.payload, self.is_like, pairs)
        expected = _share_of(self.pair, self.payload, self.expected, pairs)
        return share, (share - expected) / np.maximum(1 - expected, LEAST_SHARE)


def _like_neighbours(traffic: Traffic, line: Int32, params: IdentifyParams) -> _Likes:
    """Compare each burst with the nearest ones on other pairs of its line."""
    order = np.lexsort((traffic.start_ns, line))
    of_line, pair, size = line[order], traffic.pair[order], _log_size(traffic.payload[order])
    others, like = np.zeros((2, len(order)), dtype=np.int64)
    for apart in range(1, min(params.like_neighbours + 1, len(order))):
        other = (of_line[apart:] == of_line[:-apart]) & (pair[apart:] != pair[:-apart])
        is_like = other & (np.abs(size[apart:] - size[:-apart]) <= params.same_size)
        for ends in (slice(apart, None), slice(None, -apart)):
            others[ends] += other
            like[ends] += is_like
    counts = np.empty((2, len(order)), dtype=np.int64)
    counts[:, order] = others, like
    return _Likes.of(traffic.pair, line, traffic.payload, (counts[0], counts[1]), params)


def _like_moments(traffic: Traffic, line: Int32, params: IdentifyParams) -> _Likes:
    """Compare what each pair moves at a moment with what others of its line do.

    A moment lasts until all of them are silent.
    """
    pairs = len(traffic.pair_src)
    moment = intervals.merge(line, traffic.start_ns, traffic.end_ns).owner.astype(np.int64)
    cell, first, of_cell = np.unique(moment * pairs + traffic.pair, return_index=True, return_inverse=True)
    payload, moment = np.bincount(of_cell, weights=traffic.payload), cell // pairs
    others = np.bincount(moment)[moment] - 1
    size = _log_size(payload)
    like = _near(size + moment * (size.max() + 1), params.same_size) - 1
    known = others > 0
    first = first[known]
    return _Likes.of(traffic.pair[first], line[first], payload[known], (others[known], like[known]), params)


def _near(at: Float64, reach: float) -> Int64:
    """Count the points of a scale that are near each of them, itself included, int64[n]."""
    scale = np.sort(at)
    return np.asarray(np.searchsorted(scale, at + reach, "right") - np.searchsorted(scale, at - reach))


def _log_size(payload: Int64 | Float64) -> Float64:
    return np.log(np.maximum(payload, 1.0))


def _share_of(group: Int32, weight: Int64 | Float64, part: Bool | Float64, groups: int) -> Float64:
    """Return the share of each group's weight that a part of it makes, float64[groups].

    Parameters: `part` [n], in 0..1, of each weight. It is 0 for groups without any.
    """
    whole = np.bincount(group, weights=weight, minlength=groups)
    return np.bincount(group, weights=weight * part, minlength=groups) / np.maximum(whole, 1)
