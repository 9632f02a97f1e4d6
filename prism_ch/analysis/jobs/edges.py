"""Edges: the pairs that carry a job's steady traffic, told from meshes, broadcasts and bookkeeping."""

from __future__ import annotations

import numpy as np

from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.params import RecogniseParams
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic


def recurring_pairs(traffic: Traffic, topology: Topology, params: RecogniseParams) -> Bool:
    """Mask the pairs that recur, spread over their endpoints' time, weigh enough, and stay inside one tenant.

    Returns bool[pairs]. A direction is judged by itself: the first parameters may be broadcast along an edge that
    later carries gradients the other way only.
    """
    src, dst = traffic.pair_src, traffic.pair_dst
    spread = payload_spread_ns(traffic, traffic.pair, len(src), params.payload_tail)
    lifetime = np.zeros(len(topology))
    for side in (src, dst):
        np.maximum.at(lifetime, side, spread)
    steady: Bool = weighty_pairs(traffic, topology, params) & (
        spread >= params.half * np.minimum(lifetime[src], lifetime[dst])
    )
    return steady


def weighty_pairs(traffic: Traffic, topology: Topology, params: RecogniseParams) -> Bool:
    """Mask the pairs that occur often, weigh enough for either endpoint, and stay inside one tenant, bool[pairs]."""
    src, dst = traffic.pair_src, traffic.pair_dst
    bursts = np.bincount(traffic.pair, minlength=len(src))
    payload = np.bincount(traffic.pair, weights=traffic.payload, minlength=len(src))
    main = np.zeros(len(topology))
    for side in (src, dst):
        np.maximum.at(main, side, payload)
    weighty: Bool = (
        (bursts >= params.repeats)
        & (payload >= params.min_pair_share * np.minimum(main[src], main[dst]))
        & (topology.tenant[src] == topology.tenant[dst])
        & (topology.server[src] != topology.server[dst])
    )
    return weighty


def payload_spread_ns(traffic: Traffic, group: Int32 | Int64, groups: int, tail: float) -> Float64:
    """Return the time in which each group of bursts moves its payload but for a `tail` at either end, in ns.

    Parameters: `group` int32[n], rising over the bursts. Returns float64[groups].
    """
    total = np.bincount(group, weights=traffic.payload, minlength=groups)
    moved = np.cumsum(traffic.payload) - (np.cumsum(total) - total)[group]
    share = moved / np.maximum(total, 1)[group]
    first = np.full(groups, np.iinfo(np.int64).max)
    last = np.full(groups, np.iinfo(np.int64).max)
    np.minimum.at(first, group[share > tail], traffic.end_ns[share > tail])
    np.minimum.at(last, group[share >= 1 - tail], traffic.end_ns[share >= 1 - tail])
    spread: Float64 = (last - first).astype(np.float64)
    return spread
