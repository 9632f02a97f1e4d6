"""Merged links: the kinds of pairs whose records join the messages of many steps.

When messages went back and forth can't be seen in such records; whom they join can. Members of one data-parallel group,
as other pairs show it, share gradients; chains that join different groups are pipelines, for a collective closes its
ring or branches.
"""

from __future__ import annotations

import numpy as np

from prism_ch.analysis.roles.links import answer_log_odds, find_links, is_one_way, link_classes, ties_one_pipeline
from prism_ch.core import robust
from prism_ch.core.graph import components
from prism_ch.core.pairs import LinkTable, links_of
from prism_ch.model.columns import Bool, Float64, Int32, UInt8
from prism_ch.model.job import PairKinds
from prism_ch.model.params import IdentifyParams, MergedParams
from prism_ch.model.result import DP, OTHER, PP
from prism_ch.model.traffic import Traffic

#: Neighbours that an endpoint in the middle of a chain has; a chain of as many endpoints is one link.
_CHAIN_DEGREE = 2

#: No burst is known to be shorter: a length of 0 is one below the exporter's clock.
_CLOCK_S = 1e-6


def hidden_answers(traffic: Traffic, recurring: Bool, params: IdentifyParams) -> Bool:
    """Mask the pairs whose records may hide that messages go back and forth, bool[pairs].

    Parameters: `recurring` bool[pairs], those looked at. A burst that moves next to nothing for a good part of the time
    is several messages in one record, or one that waits for a straggler. Several messages overlap in the two
    directions, as a collective's do, whoever answers whom; where they do not, they show answers all the same. One that
    waits has its like on the straggler's own links, which move as much without a pause.
    """
    hidden = np.zeros(len(traffic.pair_src), dtype=bool)
    steady = traffic.keep_pairs(recurring)
    pairs = len(steady.pair_src)
    length_s = np.bincount(steady.pair, weights=(steady.end_ns - steady.start_ns) / 1e9, minlength=pairs)
    payload = steady.sums_of_pairs(steady.payload)
    rate = payload / np.maximum(length_s, _CLOCK_S)
    covers = length_s / np.maximum(steady.span_ns() / 1e9, _CLOCK_S) >= params.sparse_cover
    if not (covers & (rate < params.sparse_share * rate.max(initial=0.0))).any():
        return hidden  # most jobs are spared the comparison of directions
    links = find_links(steady)
    classes = link_classes(links, params)
    pipeline = answer_log_odds(links, classes, params) > 0
    collective = ~pipeline & ~ties_one_pipeline(links, pipeline)
    of_collective = collective[links.of_pair]
    least_rate = params.sparse_share * rate[of_collective].max(initial=0.0)
    sparse = covers & (rate < least_rate) & ~_moves_at_once(steady, classes[links.of_pair], least_rate, params)
    hidden[recurring] = sparse & of_collective & ~is_one_way(links, params)[links.of_pair]
    return hidden


def _moves_at_once(traffic: Traffic, pair_class: Int32, least_rate: float, params: IdentifyParams) -> Bool:
    """Mask the pairs of classes that move usual bursts without a pause, bool[pairs].

    Parameters: `pair_class` int32[pairs], pairs of one kind (see `link_classes`); `least_rate`, bytes a second at which
    a burst has no pause. What holds several messages is never moved at once, on whatever link of its class.
    """
    of_burst = pair_class[traffic.pair]
    whole = traffic.payload >= params.half * robust.median_by(of_burst, traffic.payload)[of_burst]
    length_s = np.maximum((traffic.end_ns - traffic.start_ns) / 1e9, _CLOCK_S)
    at_once = whole & (traffic.payload / length_s >= least_rate)
    return np.asarray((np.bincount(of_burst[at_once], minlength=int(of_burst.max()) + 1) >= params.repeats)[pair_class])


def either_way(traffic: Traffic, merged: Bool) -> Bool:
    """Mask the pairs that are merged in their own direction or in the other, bool[pairs].

    If one direction of a link is merged the other can't be judged: it seems to go one way.
    """
    link = links_of(traffic.pair_src, traffic.pair_dst).of_pair
    return np.asarray(np.isin(link, link[merged]))


def name_merged(kinds: PairKinds, traffic: Traffic, merged: Bool, params: MergedParams) -> PairKinds:
    """Name the kinds of merged pairs as far as the others show them.

    Parameters: `kinds`, kept where known; `merged` bool[pairs], links with a merged direction. Merged bursts become
    OTHER.
    """
    if not merged.any():
        return kinds
    nameless = merged & (kinds.kind == OTHER)
    found, sure = _kinds_by_place(kinds, traffic, merged, nameless, params)
    kind, confidence = np.where(nameless, found, kinds.kind), np.where(nameless, sure, kinds.confidence)
    return PairKinds(kind, confidence, np.where(merged[traffic.pair], OTHER, kinds.burst).astype(np.uint8))


def _kinds_by_place(
    kinds: PairKinds, traffic: Traffic, merged: Bool, nameless: Bool, params: MergedParams
) -> tuple[UInt8, Float64]:
    """Return the kind and the confidence of nameless pairs by whom they join, [pairs] each."""
    src, dst = traffic.pair_src, traffic.pair_dst
    size = int(max(src.max(), dst.max())) + 1
    shared = (kinds.kind == DP) & ~merged
    group = components(size, src[shared], dst[shared])
    grouped = np.zeros(size, dtype=bool)
    grouped[src[shared]] = grouped[dst[shared]] = True
    joins_groups = grouped[src] & grouped[dst]
    inside = joins_groups & (group[src] == group[dst])
    links = links_of(src, dst)
    rate, most = traffic.rate_bytes_s(), np.zeros(len(links.low))
    np.maximum.at(most, links.of_pair, rate)
    two_way = np.bincount(links.of_pair, weights=rate) - most >= params.half * most
    across, piped = (
        two_way & np.isin(np.arange(len(most)), links.of_pair[pairs])
        for pairs in (nameless & joins_groups & ~inside, (kinds.kind == PP) & ~merged)
    )
    sure_of_link = np.zeros(len(most))
    sure_of_link[across] = _chain_confidence(links, most, across, piped, params)
    sure = sure_of_link[links.of_pair]
    kind = np.where(inside, DP, np.where(sure > 0, PP, OTHER)).astype(np.uint8)
    return kind, np.where(inside, params.group_confidence, np.where(sure > 0, sure, params.unknown_confidence))


def _chain_confidence(links: LinkTable, rate: Float64, across: Bool, piped: Bool, params: MergedParams) -> Float64:
    """Return the confidence that links `across` groups are a pipeline's, 0 if none.

    Parameters: `rate` float64[k], bytes a second of each link; `piped` bool[k], links known to be of a pipeline.
    The links of one volume form a chain if they are one fewer than the endpoints that they join, none of which has
    more than two. A chain of one link may be anything that another one at its ends may be.
    """
    size = int(links.high.max()) + 1
    ends_low, ends_high = links.low[across], links.high[across]
    confidence = np.zeros(len(ends_low))
    volume = robust.size_classes(rate[across], params.same_volume)
    ends, classes = np.concatenate([ends_low, ends_high]), np.tile(volume, 2)
    used = np.unique(np.stack([ends, classes]), axis=1)[0]
    several = np.bincount(used, minlength=size) > 1
    alone = np.where(several[ends_low] | several[ends_high], 0.0, params.lone_link_confidence)
    for number in np.unique(volume):
        mine = volume == number
        low = np.concatenate([ends_low[mine], links.low[piped]])
        high = np.concatenate([ends_high[mine], links.high[piped]])
        degree = np.bincount(np.concatenate([low, high]), minlength=size)
        chain = components(size, low, high)
        nodes, hops = np.bincount(chain, weights=degree > 0), np.bincount(chain[low], minlength=int(chain.max()) + 1)
        widest = np.zeros(len(nodes), dtype=np.int64)
        np.maximum.at(widest, chain, degree)
        open_chain = (hops == nodes - 1) & (widest <= _CHAIN_DEGREE)
        sure = np.where(nodes[chain[ends_low]] > _CHAIN_DEGREE, params.nearly_all, alone)
        confidence = np.where(mine & open_chain[chain[ends_low]], sure, confidence)
    return confidence
