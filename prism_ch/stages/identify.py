"""Identify: which pairs of a job are data-parallel and which pipeline-parallel (LLMPrism, section IV-B).

What tells the kinds apart is who waits for whom, not how many sizes a pair has: on real TCP one activation has dozens
of byte counts, and a fused all-reduce has one.

1. A collective moves all its members at once: a ring edge carries data one way only, or both ways at the same moment.
2. A pipeline answers: the gradient of a microbatch comes back after the activation went out, with as many bytes.
3. Links of one class (equal volume, equal number of bursts) have one kind: the parallel replicas of a job agree.
4. The graph decides what is left: members of one data-parallel group are not pipeline neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.core import intervals, robust
from prism_ch.core.disjoint_set import components
from prism_ch.model.columns import Float64, Int32, Int64
from prism_ch.model.groupset import PairKinds
from prism_ch.model.params import IdentifyParams
from prism_ch.model.result import DP, OTHER, PP
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Links:
    """Undirected links of a job.

    `low` < `high` endpoint, int32[k]; `of_pair` int64[pairs] is each directed pair's link.
    `payload` float64[2, k] and `bursts` int64[2, k] count by direction, low to high first.
    `unanswered` float64[k] is the share of bursts during which the other direction is silent.
    """

    low: Int32
    high: Int32
    of_pair: Int64
    payload: Float64
    bursts: Int64
    unanswered: Float64


def identify(traffic: Traffic, recurring: np.ndarray, params: IdentifyParams) -> PairKinds:
    """Tell the kind of every pair of a job.

    Parameters: `traffic`, the job's bursts; `recurring` bool[pairs], those that carry its steady traffic (see
    `recognise`); the others are `other`: start-up meshes, broadcasts of the first parameters.
    """
    kind = np.full(len(traffic.pair_src), OTHER, dtype=np.uint8)
    confidence = np.zeros(len(traffic.pair_src))
    if not recurring.any():
        return PairKinds(kind, confidence)
    steady = traffic.keep_pairs(recurring)
    links = find_links(steady)
    odds = _pipeline_log_odds(links, params)
    odds = _refine(links, odds, params)
    kind[recurring] = np.where(odds > 0, PP, DP)[links.of_pair]
    confidence[recurring] = (1 / (1 + np.exp(-np.abs(odds))))[links.of_pair]
    return PairKinds(kind, confidence)


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
        met = intervals.covered_length(
            link[way].astype(np.int32), traffic.start_ns[way], traffic.end_ns[way], other.group, other.start, other.end
        )
        alone += np.bincount(link[way], weights=met == 0, minlength=count)
    total = bursts.sum(axis=0)
    return Links(
        (keys // span).astype(np.int32),
        (keys % span).astype(np.int32),
        of_pair,
        payload,
        bursts,
        alone / np.maximum(total, 1),
    )


def _pipeline_log_odds(links: Links, params: IdentifyParams) -> Float64:
    """Weigh each link's evidence for a pipeline against a collective, pooled over links of its class, float64[k]."""
    heavy, light = links.payload.max(axis=0), links.payload.min(axis=0)
    one_way = light < params.one_way_share * heavy
    classes = _link_classes(heavy, links.bursts.max(axis=0), one_way, params)
    weight = links.bursts.sum(axis=0)
    pooled = np.bincount(classes, weights=links.unanswered * weight) / np.bincount(classes, weights=weight)
    answered_late = np.log((pooled[classes] + params.unanswered_floor) / params.unanswered_even)
    odds = params.answer_weight * answered_late
    return np.where(one_way, -params.certain_log_odds, np.clip(odds, -params.certain_log_odds, params.certain_log_odds))


def _link_classes(payload: Float64, bursts: Int64, one_way: np.ndarray, params: IdentifyParams) -> Int32:
    """Put links into classes that carry about as much, in about as many bursts, in as many directions."""
    classes = robust.size_classes(payload, params.class_payload_tolerance, one_way.astype(np.int32))
    return robust.size_classes(bursts, params.class_bursts_tolerance, classes)


def _refine(links: Links, odds: Float64, params: IdentifyParams) -> Float64:
    """Turn pipeline links between members of one collective into links of that collective.

    Two ranks that exchange gradients hold the same stage; nothing is pipelined between them.
    """
    collective = odds <= 0
    n = int(links.high.max(initial=0)) + 1
    group = components(n, links.low[collective], links.high[collective])
    inside = ~collective & (group[links.low] == group[links.high])
    return np.where(inside, -params.graph_log_odds, odds)
