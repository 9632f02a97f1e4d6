"""Inner collectives: all-to-alls of experts, context rings and tensor groups that span servers.

A data-parallel collective closes a step; an inner one is part of every operation and fills the time between two
closings. Both may run over one pair of endpoints, so every burst has a kind, not only every pair.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prism_ch.analysis.roles.links import Links, find_links, link_classes
from prism_ch.analysis.roles.routed import much_larger, routed_bursts, settled_sizes, sizes_of_pairs
from prism_ch.core import intervals, robust
from prism_ch.core.arrays import distinct
from prism_ch.core.search import group_search
from prism_ch.model.columns import Bool, Float64, Int32, UInt8
from prism_ch.model.params import IdentifyParams
from prism_ch.model.result import CP, DP, EP, TP
from prism_ch.model.traffic import Traffic


def collective_kinds(traffic: Traffic, links: Links, classes: Int32, collective: Bool, params: IdentifyParams) -> UInt8:
    """Identify every burst on a collective link as DP, EP, CP or TP, uint8[n].

    Parameters: `traffic`, the steady bursts; `links` and their `classes` int32[k]; `collective` bool[k]. DP elsewhere.
    What routers send is told by its sizes (see `routed`), and the rest by how often it moves.
    """
    kind = np.full(len(traffic), DP, dtype=np.uint8)
    link = links.of_pair[traffic.pair]
    rows = np.flatnonzero(collective[link])
    if len(rows) == 0:
        return kind
    line = links.joined(collective)[links.low]
    kind[rows[routed_bursts(traffic.take(rows), line[link[rows]], params)]] = EP
    rest = kind == DP
    if rest.all():
        return _kinds_by_rate(traffic, links, classes, collective, params)
    left = traffic.take(rest)
    links = find_links(left)
    collective = collective & (links.bursts.max(axis=0) > 0)
    kind[rest] = _kinds_by_rate(left, links, link_classes(links, params), collective, params)
    return kind


def _kinds_by_rate(traffic: Traffic, links: Links, classes: Int32, collective: Bool, params: IdentifyParams) -> UInt8:
    """Identify bursts as `collective_kinds` does, by how often links move data.

    1. If all collective links move data equally often there is one collective, and it closes the step; or there are
       two over the same ranks, as where there are as many experts as replicas, and bursts differ in size.
    2. Else the links that move data least often, in each set of joined endpoints, close the step.
    3. A class of more frequent links is inner if it fills the time between two closings, unless with others as
       frequent it joins what the closing links join only in parts.
    4. Its bursts that belong to what other pairs reduce, closing or earlier, are DP all the same.
    """
    kind = np.full(len(traffic), DP, dtype=np.uint8)
    if not collective.any():
        return kind
    rate = robust.median_by(classes, links.bursts.max(axis=0))[classes]
    line = links.joined(collective)[links.low]
    link = links.of_pair[traffic.pair]
    on_collective = collective[link]
    if rate[collective].max() < params.inner_rate * rate[collective].min():
        rows = _dwarfed(traffic, line[link], on_collective, params)
        if rows.any():
            kind[rows] = _name(traffic, rows, params)
        return kind
    least = np.full(int(line.max()) + 1, np.inf)
    np.minimum.at(least, line[collective], rate[collective])
    closing_rate = least[line]
    closes = collective & (rate < params.inner_rate * closing_rate)
    closing = _closings(traffic, line[link], closes[link] & on_collective, closing_rate[link], params)
    inner = []
    for number in np.unique(classes[collective & ~closes]):
        mine = collective & (classes == number) & ~closes
        often = rate[mine].max()
        as_often = (rate < params.inner_rate * often) & (often < params.inner_rate * rate)
        if _spans(links, collective & ~closes & as_often, closes, params):
            continue
        rows = on_collective & mine[link]
        if _coverage(traffic, line[link], rows, closing) >= params.inner_coverage:
            inner.append(rows)
            kind[rows] = _name(traffic, rows, params)
    if not inner:
        return kind
    gradients = on_collective & (kind == DP)
    reduced = _closings(traffic, line[link], gradients, rate[link], params)
    for rows in inner:
        kind[rows & _closing_too(traffic, line[link], rows, reduced, params)] = DP
    return kind


def _spans(links: Links, mine: Bool, closes: Bool, params: IdentifyParams) -> bool:
    """Return whether masked links join sets of endpoints that the closing links join.

    The gradients of one expert are reduced once a step by a part of the replicas; all of them reduce the other
    gradients, in many buckets perhaps. What goes on inside an operation joins fewer replicas, or other ranks.
    """
    whole, part = links.joined(mine), links.joined(closes)
    inside = closes & (whole[links.low] == whole[links.high])
    parts, wholes = (len(distinct(label[links.low[inside]])) for label in (part, whole))
    return parts > wholes and bool(inside[closes].mean() > params.half)


def _dwarfed(traffic: Traffic, line: Int32, on_collective: Bool, params: IdentifyParams) -> Bool:
    """Mask the bursts of an inner collective on the links that close the step, bool[n].

    A few bursts of some pairs are much larger than all others there: these close the step. The others, on all pairs of
    the same lines, are many, and fill the time in between; else there is but one collective, and nothing is masked. Nor
    is it if those are buckets of gradients.
    """
    closes = on_collective & much_larger(traffic, params)
    if not closes.any():
        return closes
    rate = np.bincount(traffic.pair[closes], minlength=len(traffic.pair_src)).astype(np.float64)
    closing = _closings(traffic, line, closes, rate[traffic.pair], params)
    rows = on_collective & ~closes & np.isin(line, line[closes])
    if rows.any() and _are_buckets(traffic, line, rows, closing, params):
        return np.zeros(len(rows), dtype=bool)
    return rows & (_coverage(traffic, line, rows, closing) >= params.inner_coverage)


def _are_buckets(traffic: Traffic, line: Int32, rows: Bool, closing: intervals.Merged, params: IdentifyParams) -> bool:
    """Return whether masked bursts are buckets of gradients.

    Most of them are of pairs that move much more at a closing, and a size comes as often from each closing to the next.
    What a router sends to experts does not. A tensor group's does, but its members share no gradients: they have pairs
    of their own. Those of a context ring have two sizes, one twice the other, layer by layer.
    """
    pair, payload = traffic.pair[rows], traffic.payload[rows]
    most = np.zeros(len(traffic.pair_src))
    np.maximum.at(most, traffic.pair, traffic.payload)
    usual = robust.median_by(pair, payload.astype(np.float64), len(most))
    if (most >= params.inner_size_gap * usual)[pair].mean() <= params.half:
        return False
    size, largest, narrow = sizes_of_pairs(pair, payload, params)
    sizes, spans = len(largest), len(closing.group) + 1
    span = group_search(closing.group, closing.start, line[rows], traffic.start_ns[rows])
    cell, count = np.unique(size.astype(np.int64) * spans + span, return_counts=True)
    of_size = (cell // spans).astype(np.int32)
    times = robust.median_by(of_size, count.astype(np.float64), sizes)
    as_often = np.bincount(of_size, count == times[of_size], sizes)
    pair_of, line_of = np.zeros(sizes, dtype=np.int32), np.zeros(sizes, dtype=np.int32)
    pair_of[size], line_of[size] = pair, line[rows]
    closings = np.bincount(closing.group, minlength=int(line.max()) + 1)[line_of]
    steady = (as_often > params.half * closings) & narrow
    if steady[size].mean() <= params.half:
        return False
    in_ring = _of_context_ring(pair_of[steady], largest[steady], params) & (times[steady] > 1)
    return bool(in_ring.mean() <= params.half)


def _of_context_ring(pair: Int32, size: Float64, params: IdentifyParams) -> Bool:
    """Mask sizes of pairs with two, one of them twice the other, bool[n]."""
    pairs = int(pair.max()) + 1
    lowest, highest = (robust.quantile_by(pair, size, end, pairs) for end in (0.0, 1.0))
    is_twice = np.abs(highest / lowest - 2) <= 2 * params.size_spread
    return np.asarray((is_twice & (np.bincount(pair) == 2))[pair])


def _closings(traffic: Traffic, line: Int32, rows: Bool, rate: Float64, params: IdentifyParams) -> intervals.Merged:
    """Join each line's closing bursts that are much nearer than closings are."""
    span_ns = float(traffic.end_ns.max() - traffic.start_ns.min())
    # Half of the distance to either side stretches bursts until those of one closing touch.
    reach = np.minimum(params.little / 2 * span_ns / rate[rows], 2.0**40).astype(np.int64)
    stretched = intervals.merge(line[rows], traffic.start_ns[rows] - reach, traffic.end_ns[rows] + reach)
    first, last = intervals.hull(stretched.owner, traffic.start_ns[rows], traffic.end_ns[rows], len(stretched.group))
    return replace(stretched, start=first, end=last)


def _coverage(traffic: Traffic, line: Int32, rows: Bool, closing: intervals.Merged) -> float:
    """Return the share of the time between two closings that the masked bursts fill.

    That is from the first to the last, less the longest silence where it is most of the time: buckets are gathered
    early in a step and scattered late. The median over the intervals of each line; the largest over lines: late stages
    wait while the first ones begin.
    """
    if not rows.any() or len(closing.group) == 0:
        return 0.0
    follows = closing.group[1:] == closing.group[:-1]
    group, begin, end = closing.group[:-1][follows], closing.end[:-1][follows], closing.start[1:][follows]
    if len(group) == 0:
        return 0.0
    end = np.maximum(begin, end)
    # Coarse clocks show bursts of no length.
    span = group_search(group, begin, line[rows], traffic.start_ns[rows]) - 1
    inside = (span >= 0) & (group[span] == line[rows]) & (traffic.start_ns[rows] < end[span])
    first, last = end.copy(), begin.copy()
    np.minimum.at(first, span[inside], traffic.start_ns[rows][inside])
    np.maximum.at(last, span[inside], np.minimum(traffic.end_ns[rows], end[span])[inside])
    merged = intervals.merge(span[inside], traffic.start_ns[rows][inside], traffic.end_ns[rows][inside])
    same = merged.group[1:] == merged.group[:-1]
    silence = np.zeros_like(first)
    np.maximum.at(silence, merged.group[1:][same], (merged.start[1:] - merged.end[:-1])[same])
    filled = last - first - np.where(2 * silence > end - begin, silence, 0)
    share = np.maximum(filled, 0) / np.maximum(end - begin, 1)
    return float(np.nanmax(robust.median_by(group, share)))


def _closing_too(traffic: Traffic, line: Int32, rows: Bool, closing: intervals.Merged, params: IdentifyParams) -> Bool:
    """Mask the inner bursts that belong to a closing on the same pair, bool[n].

    They overlap a closing of their line, and are of the size that a pair moves then and at no other time. Of sizes that
    vary freely one or another is moved only once, and that may be then: a pair that closes steps does so in many.
    """
    touched = np.zeros(len(traffic), dtype=bool)
    blur_ns = traffic.pair_blur_ns[traffic.pair[rows]]
    touched[rows] = intervals.meets(line[rows], traffic.start_ns[rows], traffic.end_ns[rows], closing, blur_ns)
    size = robust.size_classes(traffic.payload, params.same_size, traffic.pair)
    then = np.bincount(size[touched], minlength=int(size.max()) + 1)
    ever = np.bincount(size[rows], minlength=len(then))
    own_size = then > params.half * np.maximum(ever, 1)
    own = touched & own_size[size]
    often = np.bincount(traffic.pair[own], minlength=len(traffic.pair_src))[traffic.pair]
    closings = np.bincount(closing.group, minlength=int(line.max()) + 1)[line]
    return np.asarray(own & (often > params.stray_share * closings))


def _name(traffic: Traffic, rows: Bool, params: IdentifyParams) -> int:
    """Name an inner collective by its sizes.

    Experts are sent what the router chooses: sizes vary without steps. Context rings pass keys and values on the way
    there, and their gradients as well on the way back: two sizes, one twice the other. Tensor groups reduce one size
    always.
    """
    pair, payload = traffic.pair[rows], traffic.payload[rows]
    size, _, narrow = sizes_of_pairs(pair, payload, params)
    settled = settled_sizes(pair, size, narrow, params)
    if settled.mean() < params.half:
        return EP
    sizes_a_pair = len(distinct(size[settled])) / len(distinct(pair[settled]))
    return CP if sizes_a_pair > params.several_sizes else TP
