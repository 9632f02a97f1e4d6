"""Roles: the kind of traffic of every pair of a job (LLMPrism, section IV-B).

The kinds differ in who waits for whom, not in how many sizes a pair has: on real TCP one activation has dozens of
byte counts, and a fused all-reduce has one.

1. A collective moves all its members at once: a ring edge carries data one way only, or both ways at the same moment.
2. A pipeline answers: the gradient of a microbatch comes back after the activation went out, with as many bytes.
3. Links of one class (equal volume, equal number of bursts) have one kind: the parallel replicas of a job agree.
4. The graph decides what is left: members of one data-parallel group are not pipeline neighbours, and members of one
   pipeline share no gradients.
5. Of several collectives the one that closes the step is data-parallel; those that fill it are inner ones.
"""

from __future__ import annotations

import numpy as np

from prism_ch.analysis.roles.inner import collective_kinds
from prism_ch.analysis.roles.links import find_links, link_classes, pipeline_log_odds, ties_one_pipeline
from prism_ch.core import robust
from prism_ch.model.columns import Bool, Float64, Int64, UInt8
from prism_ch.model.job import PairKinds
from prism_ch.model.params import IdentifyParams
from prism_ch.model.result import DP, INNER, OTHER, PAIR_KINDS, PP
from prism_ch.model.traffic import Traffic


def identify(traffic: Traffic, recurring: Bool, params: IdentifyParams) -> PairKinds:
    """Identify the kind of every pair and burst of a job.

    Parameters: `traffic`, the job's bursts; `recurring` bool[pairs], those that carry its steady traffic (see
    `recognise`); the others are `other`: start-up meshes, broadcasts of the first parameters.
    """
    kind = np.full(len(traffic.pair_src), OTHER, dtype=np.uint8)
    confidence = np.zeros(len(traffic.pair_src))
    burst = np.full(len(traffic), OTHER, dtype=np.uint8)
    if not recurring.any():
        return PairKinds(kind, confidence, burst)
    steady = traffic.keep_pairs(recurring)
    links = find_links(steady)
    classes = link_classes(links, params)
    odds = pipeline_log_odds(links, classes, params)
    pipeline = odds > 0
    tied = ties_one_pipeline(links, pipeline)
    of_burst = collective_kinds(steady, links, classes, ~pipeline & ~tied, params)
    link = links.of_pair[steady.pair]
    of_burst = np.where(pipeline[link], PP, np.where(tied[link], OTHER, of_burst)).astype(np.uint8)
    burst[recurring[traffic.pair]] = of_burst
    kind[recurring] = _main_kinds(steady, of_burst, params)
    confidence[recurring] = (1 / (1 + np.exp(-np.abs(odds))))[links.of_pair]
    return PairKinds(kind, confidence, burst)


def _main_kinds(traffic: Traffic, of_burst: UInt8, params: IdentifyParams) -> UInt8:
    """Call each pair by the kind of most of its payload, uint8[pairs].

    Parameters: `of_burst` uint8[n], the kind of each burst.
    Pairs that carry about as much of every kind are called alike, by what all of them carry: where two kinds have
    nearly equal parts, a few lost records of its own would decide what a pair is called.
    """
    pairs, kinds = len(traffic.pair_src), len(PAIR_KINDS)
    carried = np.bincount(traffic.pair * kinds + of_burst, weights=traffic.payload, minlength=pairs * kinds)
    payload = carried.reshape(pairs, kinds).astype(np.float64)
    payload = _parted(payload, np.bincount(traffic.pair[of_burst == DP], minlength=len(payload)), params)
    alike = np.zeros(len(payload), dtype=np.int32)
    for of_kind in payload.T:
        alike = robust.size_classes(of_kind, params.same_volume, alike)
    together = np.zeros((int(alike.max()) + 1, kinds))
    np.add.at(together, alike, payload)
    return np.asarray(np.argmax(together, axis=1)[alike].astype(np.uint8))


def _parted(payload: Float64, closings: Int64, params: IdentifyParams) -> Float64:
    """Move what gradient bursts hold of an inner collective from DP to that kind.

    Parameters: `payload` float64[pairs, kinds]; `closings` int64[pairs], the bursts of gradients of each pair.
    A ring passes as much along every edge. Where a pair of two kinds moves a little more in such a burst than pairs
    that carry nothing else, another message has run into it.
    """
    inner = payload[:, INNER]
    size = payload[:, DP] / np.maximum(closings, 1)
    alone = np.sort(size[(closings > 0) & (inner.sum(axis=1) == 0)])
    if len(alone) == 0:
        return payload
    place = np.searchsorted(alone, size, side="right") - 1
    usual = alone[place]
    more = (inner.sum(axis=1) > 0) & (place >= 0) & (size <= (1 + params.same_volume) * usual)
    excess = np.where(more, (size - usual) * closings, 0.0)
    parted = payload.copy()
    parted[:, DP] -= excess
    parted[np.arange(len(parted)), np.array(INNER)[np.argmax(inner, axis=1)]] += excess
    return parted
