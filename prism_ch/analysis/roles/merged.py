"""Merged links: what is left that tells kinds apart where the messages of many steps are one record.

When messages went back and forth can't be told from such records; whom they join can. Members of one data-parallel
group, as other pairs show it, share gradients; chains that join different groups are pipelines, for a collective closes
its ring or branches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.analysis.roles.links import find_links, is_one_way, link_classes
from prism_ch.analysis.roles.pipelines import answer_log_odds, ties_one_pipeline
from prism_ch.core import robust
from prism_ch.core.graph import components
from prism_ch.model.columns import Bool, Float64, Int32, Int64, UInt8
from prism_ch.model.job import PairKinds
from prism_ch.model.params import IdentifyParams, MergedParams
from prism_ch.model.result import DP, OTHER, PP
from prism_ch.model.traffic import Traffic


def hidden_answers(traffic: Traffic, recurring: Bool, params: IdentifyParams) -> Bool:
    """Mask the pairs whose records may hide that messages go back and forth, bool[pairs].

    Parameters: `recurring` bool[pairs], those looked at. A burst that moves next to nothing for a good part of the time
    is several messages in one record. Those of the two directions overlap then, as a collective's do, whoever answers
    whom; where they do not, they show answers all the same.
    """
    hidden = np.zeros(len(traffic.pair_src), dtype=bool)
    steady = traffic.keep_pairs(recurring)
    pace, cover = _pace_and_cover(steady)
    covers = cover >= params.sparse_cover
    if not (covers & (pace < params.sparse_share * pace.max(initial=0.0))).any():
        return hidden  # most jobs are spared the comparison of directions
    links = find_links(steady)
    pipeline = answer_log_odds(links, link_classes(links, params), params) > 0
    collective = ~pipeline & ~ties_one_pipeline(links, pipeline)
    of_collective = collective[links.of_pair]
    sparse = covers & (pace < params.sparse_share * pace[of_collective].max(initial=0.0))
    hidden[recurring] = sparse & of_collective & ~is_one_way(links, params)[links.of_pair]
    return hidden


def _pace_and_cover(traffic: Traffic) -> tuple[Float64, Float64]:
    """Return the bytes a second of each pair's bursts, and the share of its time that they cover, float64[pairs]."""
    pairs = len(traffic.pair_src)
    length_s = np.bincount(traffic.pair, weights=(traffic.end_ns - traffic.start_ns) / 1e9, minlength=pairs)
    payload = np.bincount(traffic.pair, weights=traffic.payload, minlength=pairs)
    return payload / np.maximum(length_s, _CLOCK_S), length_s / np.maximum(traffic.span_ns() / 1e9, _CLOCK_S)


def either_way(traffic: Traffic, merged: Bool) -> Bool:
    """Mask the pairs that are merged in their own direction or in the other, bool[pairs].

    Of a link of which one direction is merged the other can't be judged: it seems to go one way.
    """
    span = int(max(traffic.pair_src.max(initial=0), traffic.pair_dst.max(initial=0))) + 1
    low, high = np.minimum(traffic.pair_src, traffic.pair_dst), np.maximum(traffic.pair_src, traffic.pair_dst)
    link = low.astype(np.int64) * span + high
    mask: Bool = np.isin(link, link[merged])
    return mask


def name_merged(kinds: PairKinds, traffic: Traffic, merged: Bool, params: MergedParams) -> PairKinds:
    """Name the kinds of merged pairs as far as the others show them; their bursts are of none.

    Parameters: `kinds`, of which those of merged pairs are kept where they are known; `merged` bool[pairs], links of
    which one direction is merged or both.
    """
    if not merged.any():
        return kinds
    kind, confidence = kinds.kind.copy(), kinds.confidence.copy()
    nameless = np.flatnonzero(merged & (kind == OTHER))
    found, sure = _kinds_by_place(kinds, traffic, merged, nameless, params)
    kind[nameless], confidence[nameless] = found, sure
    return PairKinds(kind, confidence, np.where(merged[traffic.pair], OTHER, kinds.burst).astype(np.uint8))


def _kinds_by_place(
    kinds: PairKinds, traffic: Traffic, merged: Bool, nameless: Int64, params: MergedParams
) -> tuple[UInt8, Float64]:
    """Return the kind and the confidence of the pairs listed in `nameless`, by whom they join."""
    src, dst = traffic.pair_src, traffic.pair_dst
    size = int(max(src.max(), dst.max())) + 1
    shared = (kinds.kind == DP) & ~merged
    group = components(size, src[shared], dst[shared])
    grouped = np.zeros(size, dtype=bool)
    grouped[src[shared]] = grouped[dst[shared]] = True
    joins_groups = grouped[src] & grouped[dst]
    inside = joins_groups & (group[src] == group[dst])
    across = _links(traffic, nameless[(joins_groups & ~inside)[nameless]], params)
    piped = _links(traffic, np.flatnonzero((kinds.kind == PP) & ~merged), params)
    sure = np.zeros(len(src))
    sure[across.of_pair] = _chain_confidence(across, piped, size, params)[across.link]
    kind = np.where(inside, DP, np.where(sure > 0, PP, OTHER)).astype(np.uint8)
    confidence = np.where(inside, params.group_confidence, np.where(sure > 0, sure, params.unknown_confidence))
    return kind[nameless], confidence[nameless]


@dataclass(frozen=True, slots=True)
class _Chain:
    """Links that carry about as much either way: `low` < `high` int32[k], `rate` float64[k] in bytes a second.

    `of_pair` int64[m] are the directed pairs on them, `link` int64[m] which link each is on.
    """

    low: Int32
    high: Int32
    rate: Float64
    of_pair: Int64
    link: Int64


def _links(traffic: Traffic, pairs: Int64, params: MergedParams) -> _Chain:
    """Describe the links of some directed pairs, without those that mostly go one way."""
    src, dst = traffic.pair_src, traffic.pair_dst
    span = int(max(src.max(), dst.max())) + 1
    key = np.minimum(src, dst).astype(np.int64) * span + np.maximum(src, dst)
    keys, link = np.unique(key, return_inverse=True)
    rate = traffic.rate_bytes_s()
    most = np.zeros(len(keys))
    np.maximum.at(most, link, rate)
    least = np.bincount(link, weights=rate) - most
    chosen = pairs[least[link[pairs]] >= params.half * most[link[pairs]]]
    kept, place = np.unique(link[chosen], return_inverse=True)
    low, high = np.divmod(keys[kept], span)
    return _Chain(low.astype(np.int32), high.astype(np.int32), most[kept], chosen, place)


def _chain_confidence(links: _Chain, piped: _Chain, size: int, params: MergedParams) -> Float64:
    """Return how likely each link is one of a pipeline, float64[k], 0 where nothing says so.

    Parameters: `piped`, links known to be of a pipeline; `size`, one more than the largest endpoint.
    The links of one volume form a chain where they are one fewer than the endpoints that they join, of which none has
    more than two. A chain of one link may be anything that another one at its ends may be.
    """
    confidence = np.zeros(len(links.low))
    volume = robust.size_classes(links.rate, params.same_volume)
    ends, classes = np.concatenate([links.low, links.high]), np.tile(volume, 2)
    used = np.unique(np.stack([ends, classes]), axis=1)[0]
    several = np.bincount(used, minlength=size) > 1
    for number in np.unique(volume):
        mine = volume == number
        low, high = (
            np.concatenate([of[mine], more]) for of, more in ((links.low, piped.low), (links.high, piped.high))
        )
        degree = np.bincount(np.concatenate([low, high]), minlength=size)
        chain = components(size, low, high)
        nodes, hops = np.bincount(chain, weights=degree > 0), np.bincount(chain[low], minlength=int(chain.max()) + 1)
        widest = np.zeros(len(nodes), dtype=np.int64)
        np.maximum.at(widest, chain, degree)
        open_chain = (hops == nodes - 1) & (widest <= _CHAIN_DEGREE)
        alone = np.where(several[links.low] | several[links.high], 0.0, params.lone_link_confidence)
        sure = np.where(nodes[chain[links.low]] > _CHAIN_DEGREE, params.nearly_all, alone)
        confidence = np.where(mine & open_chain[chain[links.low]], sure, confidence)
    return confidence


#: Neighbours that an endpoint in the middle of a chain has; a chain of as many endpoints is one link.
_CHAIN_DEGREE = 2

#: No burst is known to be shorter: a length of 0 is one below the exporter's clock.
_CLOCK_S = 1e-6
