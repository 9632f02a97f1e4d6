"""Links: the undirected pairs of a job, and which of them pass activations on and gradients back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.core import intervals, robust
from prism_ch.core.graph import components
from prism_ch.core.pairs import links_of
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

    def joined(self, by: Bool) -> Int32:
        """Label the endpoints that the masked links join, int32[endpoints]."""
        return components(int(self.high.max(initial=0)) + 1, self.low[by], self.high[by])


def find_links(traffic: Traffic) -> Links:
    """Describe the undirected links of a job by what moves on them in either direction."""
    table = links_of(traffic.pair_src, traffic.pair_dst)
    count = len(table.low)
    backward = (traffic.pair_src > traffic.pair_dst)[traffic.pair]
    link = table.of_pair[traffic.pair].astype(np.int32)
    side = backward * count + link
    payload = np.bincount(side, weights=traffic.payload, minlength=2 * count).astype(np.float64).reshape(2, count)
    bursts = np.bincount(side, minlength=2 * count).reshape(2, count)
    alone = np.zeros(count)
    for way in (backward, ~backward):
        # Bursts of a directed pair are disjoint and sorted by pair, but pairs are not sorted by link.
        other = intervals.merge(link[~way], traffic.start_ns[~way], traffic.end_ns[~way])
        blur_ns = traffic.pair_blur_ns[traffic.pair[way]]
        met = intervals.meets(link[way], traffic.start_ns[way], traffic.end_ns[way], other, blur_ns)
        alone += np.bincount(link[way], weights=np.where(met, 0, traffic.payload[way]), minlength=count)
    return Links(table.low, table.high, table.of_pair, payload, bursts, alone / np.maximum(payload.sum(axis=0), 1))


def is_one_way(links: Links, params: IdentifyParams) -> Bool:
    """Mask the links that carry data one way only, but for little, bool[k]."""
    return np.asarray(links.payload.min(axis=0) < params.half * links.payload.max(axis=0))


def link_classes(links: Links, params: IdentifyParams) -> Int32:
    """Class links that carry about as much, in as many bursts and directions, int32[k].

    Of few bursts a lost one is more than the rest of what sets links apart.
    """
    payload, bursts = links.payload.max(axis=0), links.bursts.max(axis=0)
    a_burst = np.where(bursts >= params.repeats, payload / np.maximum(bursts, 1), 0.0)
    one_way = is_one_way(links, params).astype(np.int32)
    classes = robust.size_classes(payload, params.same_volume, one_way, a_burst)
    return robust.size_classes(bursts, params.half, classes)


def answer_log_odds(links: Links, classes: Int32, params: IdentifyParams) -> Float64:
    """Weigh what the links themselves show for a pipeline, pooled over a link's class, float64[k]."""
    weight = links.payload.sum(axis=0)
    pooled = np.bincount(classes, weights=links.unanswered * weight) / np.bincount(classes, weights=weight)
    answered_late = np.log((pooled[classes] + params.unanswered_floor) / params.unanswered_even)
    odds = np.clip(params.answer_weight * answered_late, -params.certain_log_odds, params.certain_log_odds)
    return np.where(is_one_way(links, params), -params.certain_log_odds, odds)


def pipeline_log_odds(links: Links, classes: Int32, params: IdentifyParams) -> Float64:
    """Weigh the evidence of links and graph for a pipeline against a collective, float64[k].

    Two ranks that exchange gradients hold the same stage; nothing is pipelined between them. So what looks like a
    pipeline between members of one collective is a link of that collective.
    """
    odds = answer_log_odds(links, classes, params)
    group = links.joined(odds <= 0)
    inside = (odds > 0) & (group[links.low] == group[links.high])
    return np.where(inside, -params.log_odds, odds)


def ties_one_pipeline(links: Links, pipeline: Bool) -> Bool:
    """Mask the collective links between members of one pipeline, bool[k].

    Ranks that share gradients are replicas of one stage and sit in different pipelines. What the ends of one pipeline
    sum up together is an embedding that the first and the last stage share.
    """
    chain = links.joined(pipeline)
    return np.asarray(~pipeline & (chain[links.low] == chain[links.high]))
