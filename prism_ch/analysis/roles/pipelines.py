"""Pipelines: which links pass activations on and gradients back, and which move a collective's data."""

from __future__ import annotations

import numpy as np

from prism_ch.analysis.roles.links import Links, is_one_way
from prism_ch.core.graph import components
from prism_ch.model.columns import Bool, Float64, Int32
from prism_ch.model.params import IdentifyParams


def pipeline_log_odds(links: Links, classes: Int32, params: IdentifyParams) -> Float64:
    """Weigh the evidence for a pipeline against a collective, pooled over a link's class and the graph, float64[k]."""
    return _refine(links, answer_log_odds(links, classes, params), params)


def answer_log_odds(links: Links, classes: Int32, params: IdentifyParams) -> Float64:
    """Weigh what the links themselves show for a pipeline, pooled over a link's class, float64[k]."""
    weight = links.payload.sum(axis=0)
    pooled = np.bincount(classes, weights=links.unanswered * weight) / np.bincount(classes, weights=weight)
    answered_late = np.log((pooled[classes] + params.unanswered_floor) / params.unanswered_even)
    odds = np.clip(params.answer_weight * answered_late, -params.certain_log_odds, params.certain_log_odds)
    return np.where(is_one_way(links, params), -params.certain_log_odds, odds)


def _refine(links: Links, odds: Float64, params: IdentifyParams) -> Float64:
    """Turn pipeline links between members of one collective into links of that collective.

    Two ranks that exchange gradients hold the same stage; nothing is pipelined between them.
    """
    collective = odds <= 0
    n = int(links.high.max(initial=0)) + 1
    group = components(n, links.low[collective], links.high[collective])
    inside = ~collective & (group[links.low] == group[links.high])
    return np.where(inside, -params.log_odds, odds)


def ties_one_pipeline(links: Links, pipeline: Bool) -> Bool:
    """Mask the collective links between members of one pipeline, bool[k].

    Ranks that share gradients are replicas of one stage and sit in different pipelines. What the ends of one pipeline
    sum up together is an embedding that the first and the last stage share.
    """
    n = int(links.high.max(initial=0)) + 1
    chain = components(n, links.low[pipeline], links.high[pipeline])
    tied: Bool = ~pipeline & (chain[links.low] == chain[links.high])
    return tied
