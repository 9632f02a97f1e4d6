"""Routed traffic: the all-to-alls of experts, which move something else over every pair.

The edges of a ring or a tree carry the same at the same moment, for all members reduce one buffer. What a router sends
to an expert differs from pair to pair and from one exchange to the next. That tells it apart, however seldom it moves.
"""

from __future__ import annotations

import numpy as np

from prism_ch.core import intervals, robust
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.params import IdentifyParams
from prism_ch.model.traffic import Traffic


def routed_bursts(traffic: Traffic, line: Int32, params: IdentifyParams) -> Bool:
    """Mask the bursts whose sizes a router chose, bool[n].

    Parameters: `line` int32[n], the set of joined endpoints that each burst is of.

    1. A pair is uneven if most of its payload varies in size, not just as some of it was lost, and other pairs of its
       line hardly ever move the like: neither burst by burst nor in all while the line is busy, as bursts of one
       collective may be cut in different ways. That in such records the like shows at all must be known from other
       pairs of the line.
    2. Uneven pairs whose largest bursts are about as large as those of any of them carry nothing else.
    3. Other pairs of the line carry gradients as well. Of what is no larger there, a size that others move the like of
       again and again is not routed, nor any that others do where a pair would be left with nothing else.
    """
    pair, pairs, payload = traffic.pair, len(traffic.pair_src), traffic.payload
    size, _, narrow = sizes_of_pairs(pair, payload, params)
    varied = _share_of(pair, payload, settled_sizes(pair, size, narrow, params), pairs) < params.half
    varied &= ~_repeats_one_size(traffic, params)
    if not varied[pair].any():
        return np.zeros(len(pair), dtype=np.bool_)
    is_like = _like_neighbours(traffic, line, params)
    alike = np.maximum(_share_of(pair, payload, is_like, pairs), _like_moments(traffic, line, params))
    shown, largest, least = np.zeros(int(line.max()) + 1), np.zeros(pairs), np.full(int(line.max()) + 1, np.inf)
    np.maximum.at(shown, line, alike[pair])
    uneven = (varied & (alike < params.little))[pair] & (shown > params.half)[line]
    if not uneven.any():
        return uneven
    np.maximum.at(largest, pair, payload)
    np.minimum.at(least, line[uneven], largest[pair[uneven]])
    most = params.twice * np.where(np.isfinite(least), least, 0.0)[line]
    alone = uneven & (largest[pair] <= most)
    by_accident = _share_of(size, payload, is_like, int(size.max()) + 1) < params.stray_share
    by_accident |= np.bincount(size[is_like], minlength=len(by_accident)) < params.min_count
    others = ~alone & (payload <= most) & (~is_like | by_accident[size])
    nothing_else = np.bincount(pair[others], minlength=pairs) == traffic.counts_of_pairs()
    others &= ~(is_like & (nothing_else & (alike > params.half))[pair])
    return np.asarray(alone | others)


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


def _like_neighbours(traffic: Traffic, line: Int32, params: IdentifyParams) -> Bool:
    """Mask the bursts that others of their line are like which begin about then, bool[n].

    A good part of the nearest ones on other pairs is enough, for several collectives may be at work.
    """
    order = np.lexsort((traffic.start_ns, line))
    of_line, pair, size = line[order], traffic.pair[order], _log_size(traffic.payload[order])
    others, like = np.zeros((2, len(order)))
    for apart in range(1, min(params.like_neighbours + 1, len(order))):
        other = (of_line[apart:] == of_line[:-apart]) & (pair[apart:] != pair[:-apart])
        is_like = other & (np.abs(size[apart:] - size[:-apart]) <= params.same_size)
        for ends in (slice(apart, None), slice(None, -apart)):
            others[ends] += other
            like[ends] += is_like
    found = np.empty(len(order), dtype=np.bool_)
    found[order] = like > params.stray_share * others
    return found


def _like_moments(traffic: Traffic, line: Int32, params: IdentifyParams) -> Float64:
    """Return how much of its payload each pair moves when others move as much, float64[pairs].

    That is a share, by moments: each lasts until all pairs of a line are silent.
    """
    pairs = len(traffic.pair_src)
    moment = intervals.merge(line, traffic.start_ns, traffic.end_ns).owner.astype(np.int64)
    cell, of_cell = np.unique(moment * pairs + traffic.pair, return_inverse=True)
    payload, moment = np.bincount(of_cell, weights=traffic.payload), cell // pairs
    size = _log_size(payload)
    at = size + moment * (size.max() + 1)  # one scale for all: moments lie farther apart than sizes
    scale = np.sort(at)
    like = np.searchsorted(scale, at + params.same_size, "right") - np.searchsorted(scale, at - params.same_size)
    others = np.bincount(moment)[moment] - 1
    known, is_like = others > 0, like - 1 > params.stray_share * others
    return _share_of(cell[known] % pairs, payload[known], is_like[known], pairs)


def _log_size(payload: Int64 | Float64) -> Float64:
    return np.log(np.maximum(payload, 1.0))


def _share_of(group: Int32 | Int64, weight: Int64 | Float64, mask: Bool, groups: int) -> Float64:
    """Return the share of each group's weight that a mask holds, float64[groups], 0 for none."""
    whole = np.bincount(group, weights=weight, minlength=groups)
    return np.bincount(group[mask], weights=weight[mask], minlength=groups) / np.maximum(whole, 1)
