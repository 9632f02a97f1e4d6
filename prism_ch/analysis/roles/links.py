"""Links: the undirected pairs of a job, described by what moves on them in either direction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.core import intervals, robust
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.params import IdentifyParams
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Links:
    """Undirected links of a job.

    `low` < `high` endpoint, int32[k]; `of_pair` int64[pairs] is each directed pair's link.
    `payload` float64[2, k] and `bursts` int64[2, k] count by direction, low to high first.
    `unanswered` float64[k] is the share of payload in bursts during which the other direction is silent for certain.
    """

    low: Int32
    high: Int32
    of_pair: Int64
    payload: Float64
    bursts: Int64
    unanswered: Float64


def find_links(traffic: Traffic) -> Links:
    """Describe the undirected links of a job by what moves on them in either direction."""
    low = np.minimum(traffic.pair_src, traffic.pair_dst)
    high = np.maximum(traffic.pair_src, traffic.pair_dst)
    span = int(high.max(initial=0)) + 1
    keys, of_pair = np.unique(low.astype(np.int64) * span + high, return_inverse=True)
    count = len(keys)
    backward = (traffic.pair_src > traffic.pair_dst)[traffic.pair]
    link = of_pair[traffic.pair]
    side = backward * count + link
    payload = np.bincount(side, weights=traffic.payload, minlength=2 * count).astype(np.float64).reshape(2, count)
    bursts = np.bincount(side, minlength=2 * count).reshape(2, count)
    alone = np.zeros(count)
    for way in (backward, ~backward):
        # Bursts of a directed pair are disjoint and sorted by pair, but pairs are not sorted by link.
        other = intervals.merge(link[~way].astype(np.int32), traffic.start_ns[~way], traffic.end_ns[~way])
        met = intervals.meets(
            link[way].astype(np.int32),
            traffic.start_ns[way],
            traffic.end_ns[way],
            other.group,
            other.start,
            other.end,
            traffic.pair_blur_ns[traffic.pair[way]],
        )
        alone += np.bincount(link[way], weights=np.where(met, 0, traffic.payload[way]), minlength=count)
    return Links(
        (keys // span).astype(np.int32),
        (keys % span).astype(np.int32),
        of_pair,
        payload,
        bursts,
        alone / np.maximum(payload.sum(axis=0), 1),
    )


def is_one_way(links: Links, params: IdentifyParams) -> Bool:
    """Mask the links that carry data one way only, but for little, bool[k]."""
    one_way: Bool = links.payload.min(axis=0) < params.half * links.payload.max(axis=0)
    return one_way


def link_classes(links: Links, params: IdentifyParams) -> Int32:
    """Put links into classes that carry about as much, in about as many bursts, in as many directions, int32[k].

    Of few bursts a lost one is more than the rest of what sets links apart.
    """
    payload, bursts = links.payload.max(axis=0), links.bursts.max(axis=0)
    a_burst = np.where(bursts >= params.repeats, payload / np.maximum(bursts, 1), 0.0)
    one_way = is_one_way(links, params).astype(np.int32)
    classes = robust.size_classes(payload, params.same_volume, one_way, a_burst)
    return robust.size_classes(bursts, params.half, classes)
