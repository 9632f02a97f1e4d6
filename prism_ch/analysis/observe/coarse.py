"""Merged: pairs whose records run on over many steps, and what is left in them that shows training.

An exporter whose idle timeout is longer than the pauses of a step joins all steps into one record, which it cuts at its
active timeout. Nothing recurs then. What is left is volume: training is symmetric, and little else that runs on is.

1. Pairs of one role move equally many bytes a second, because all of them make the same steps.
2. What a server receives of a role it sends as well: a ring hands on, a pipeline answers. Reading from storage,
   broadcasting and serving go one way.
3. Rings, trees and chains have few partners each; meshes are shuffles, replicated stores or gossip.
"""

from __future__ import annotations

import numpy as np

from prism_ch.core import robust
from prism_ch.core.graph import components
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.params import MergedParams
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic


def coarse_pairs(traffic: Traffic, params: MergedParams) -> Bool:
    """Mask the pairs whose records run on without a pause for much longer than a message takes, bool[pairs]."""
    pairs = len(traffic.pair_src)
    span_s = traffic.span_ns() / 1e9
    covered_s = np.bincount(traffic.pair, weights=(traffic.end_ns - traffic.start_ns) / 1e9, minlength=pairs)
    bursts = np.bincount(traffic.pair, minlength=pairs)
    mask: Bool = (
        (span_s >= params.min_span_s)
        & (covered_s >= params.nearly_all * span_s)
        & (covered_s >= params.message_s * bursts)
    )
    return mask


def merged_training(traffic: Traffic, topology: Topology, merged: Bool, recurring: Bool, params: MergedParams) -> Bool:
    """Mask the merged pairs whose volumes show training, bool[pairs].

    Parameters: `merged` bool[pairs]; `recurring` bool[pairs], the pairs known to carry steady traffic of jobs: with
    exporters of different timeouts, one direction of a link may be merged and the other not.
    """
    shown = np.zeros(len(traffic.pair_src), dtype=bool)
    if not merged.any():
        return shown
    rate = traffic.rate_bytes_s()
    src, dst = traffic.pair_src, traffic.pair_dst
    rows = np.flatnonzero(
        (merged | recurring)
        & (rate >= params.min_rate_bytes_s)
        & (topology.tenant[src] == topology.tenant[dst])
        & (topology.server[src] != topology.server[dst])
    )
    if len(rows) == 0:
        return shown
    role = robust.size_classes(rate[rows], params.same_volume, topology.tenant[src[rows]]).astype(np.int64)
    alike = np.bincount(role)[role] >= params.enough
    symmetric = _symmetric(role, rate[rows], src[rows], dst[rows], topology, params) & alike
    # Rings of two kinds on some of the same pairs are conserved together only.
    left = np.flatnonzero(alike & ~symmetric)
    if len(left):
        mixed = topology.tenant[src[rows[left]]].astype(np.int64)
        symmetric[left] = _symmetric(mixed, rate[rows[left]], src[rows[left]], dst[rows[left]], topology, params)
    shown[rows] = symmetric
    return shown & merged


def _symmetric(role: Int64, rate: Float64, src: Int32, dst: Int32, topology: Topology, params: MergedParams) -> Bool:
    """Mask the pairs that belong to a part of their role which is conserved and sparse, bool[n].

    Parameters: of each pair its `role`, `rate`, `src` and `dst`, [n]. A part is the servers that pairs of a role join.
    """
    sender, receiver, part = _parts(role, topology.server[src], topology.server[dst])
    out, into = (np.bincount(side, weights=rate, minlength=len(part)) for side in (sender, receiver))
    balanced = np.abs(out - into) <= params.same_volume * np.maximum(out, into)
    servers, of_pair = np.bincount(part), part[sender]
    enough = np.maximum(params.few_partners, params.half * (servers - 1))
    symmetric: Bool = (
        (np.bincount(of_pair) >= params.enough)
        & (np.bincount(part, weights=balanced) >= params.nearly_all * servers)
        & (_partners(of_pair, src, dst) <= enough)
    )
    return symmetric[of_pair]


def _parts(role: Int64, sender: Int32, receiver: Int32) -> tuple[Int64, Int64, Int32]:
    """Give the servers of each role numbers, and join those that its pairs join.

    Parameters: `role`, `sender`, `receiver` int[n], of each pair. Returns the numbers of its sender and its receiver,
    int64[n], and which part each number is in, int32[numbers].
    """
    servers = int(max(sender.max(), receiver.max())) + 1
    _, number = np.unique(np.concatenate([role * servers + side for side in (sender, receiver)]), return_inverse=True)
    one, other = np.split(number, 2)
    return one, other, components(int(number.max()) + 1, one.astype(np.int32), other.astype(np.int32))


def _partners(part: Int32, src: Int32, dst: Int32) -> Float64:
    """Return how many endpoints each sender of a part sends to, on average, float64[parts]."""
    span = int(max(src.max(), dst.max())) + 1
    senders = np.unique(part * np.int64(span) + src) // span
    partners: Float64 = np.bincount(part) / np.bincount(senders)
    return partners
