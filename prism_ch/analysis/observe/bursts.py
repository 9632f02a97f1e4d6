"""Observe: from records to bursts of payload on directed pairs of endpoints.

1. Records of one flow by several exporters are one flow: of those that overlap in time on one 5-tuple, the exporter
   that saw most is elected.
2. Payload is bytes less packet headers: on real TCP one activation has many byte counts, but one payload.
3. Records of one message (several queue pairs, active timeouts) are joined into bursts.
4. Directions that carry acknowledgements only, and control messages beside the data, are left out.
"""

from __future__ import annotations

import numpy as np

from prism_ch.core import intervals
from prism_ch.core.arrays import order_by
from prism_ch.model.columns import Bool, Int64
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import ObserveParams
from prism_ch.model.traffic import Traffic

#: IPv4 + TCP + timestamp option (RFC 791, 9293, 7323): what a TCP segment carries beside data.
_TCP_HEADER_BYTES = 52
#: Ethernet + FCS + IPv4 + UDP + BTH + ICRC (IBTA 1.6, annex A17): what a RoCEv2 packet carries beside data.
_ROCE_HEADER_BYTES = 62


_TCP = 6


def elect(batch: FlowBatch, blurs_ns: Int64) -> FlowBatch:
    """Keep one exporter's records of each flow that several exporters saw.

    Parameters: `blurs_ns` int64[exporters], how far apart an exporter and others may see one moment.
    Observations belong to one flow where they share the 5-tuple and overlap in time, but for that. The exporter with
    the most bytes of it is elected, the first by name where several saw the same.
    """
    shared = batch.shared()
    if not shared.any():
        return batch
    seen = batch.take(shared)
    blur_ns = int(blurs_ns[np.unique(seen.exporter)].max())
    flow = intervals.merge(seen.five_tuples().astype(np.int32), seen.start_ns, seen.end_ns, gap_ns=blur_ns).owner
    exporters = len(batch.exporters)
    vote, which = np.unique(flow * exporters + seen.exporter, return_inverse=True)
    volume = np.bincount(which, weights=seen.bytes)
    # Of each flow's exporters, the one with the largest volume; it comes first, ties by exporter name.
    order = order_by(vote // exporters, -volume, vote % exporters)
    first = np.r_[True, np.diff(vote[order] // exporters) > 0]
    elected = np.zeros(len(vote), dtype=bool)
    elected[order[first]] = True
    kept = ~shared
    kept[shared] = elected[which]
    return batch.take(kept)


def read_bursts(batch: FlowBatch, blurs_ns: Int64, ticks_ns: Int64, params: ObserveParams) -> Traffic:
    """Turn records into bursts of data.

    Parameters: `batch`, one observation a flow (see `elect`, also for `blurs_ns`); `ticks_ns` int64[exporters], what
    the times of an exporter are cut to.
    """
    header = np.where(batch.proto == _TCP, _TCP_HEADER_BYTES, _ROCE_HEADER_BYTES)
    payload = np.maximum(batch.bytes - header * batch.packets, 0)
    pair_src, pair_dst, pair = _pairs(batch)
    reverse = _reverse(pair_src, pair_dst)
    total = np.bincount(pair, weights=payload, minlength=len(pair_src))
    answer = np.where(reverse >= 0, total[reverse], 0.0)
    is_data = payload >= params.half * batch.bytes
    in_data = np.bincount(pair, weights=payload * is_data, minlength=len(pair_src))
    answers = total < params.acknowledgement_share * (total + answer)
    carries_data = (total > 0) & ~(answers & (in_data < params.half * total))
    pair_blur_ns, pair_tick_ns = np.zeros(len(pair_src), dtype=np.int64), np.zeros(len(pair_src), dtype=np.int64)
    np.maximum.at(pair_blur_ns, pair, blurs_ns[batch.exporter])
    np.maximum.at(pair_tick_ns, pair, ticks_ns[batch.exporter])
    rows = carries_data[pair] & (is_data | ~answers[pair])
    joined = intervals.merge(
        pair[rows].astype(np.int32), batch.start_ns[rows], batch.end_ns[rows], gap_ns=params.burst_gap_ns
    )
    bursts = Traffic(
        joined.group,
        joined.start,
        joined.end,
        np.bincount(joined.owner, weights=payload[rows], minlength=len(joined.group)).astype(np.int64),
        np.bincount(joined.owner, minlength=len(joined.group)).astype(np.int32),
        pair_src.astype(np.int32),
        pair_dst.astype(np.int32),
        pair_blur_ns,
        pair_tick_ns,
    )
    return bursts.take(_is_data(bursts, params)).keep_pairs(carries_data)


def _is_data(bursts: Traffic, params: ObserveParams) -> Bool:
    """Mask the bursts that are not dwarfed by their pair's typical one, or are as large as data all the same, bool[n].

    Typical is the burst size above which half the pair's payload lies: many small control messages do not move it.
    """
    order = order_by(bursts.pair, bursts.payload)
    pair, payload = bursts.pair[order], bursts.payload[order]
    total = np.bincount(pair, weights=payload, minlength=len(bursts.pair_src))
    before = np.cumsum(total) - total
    upper_half = np.cumsum(payload) - before[pair] >= total[pair] / 2
    typical = np.full(len(total), np.iinfo(np.int64).max)
    np.minimum.at(typical, pair[upper_half], payload[upper_half])
    longest_ns = np.zeros(len(total), dtype=np.int64)
    np.maximum.at(longest_ns, pair[upper_half], (bursts.end_ns - bursts.start_ns)[order[upper_half]])
    large = (bursts.payload >= params.control_bytes) & (longest_ns < params.message_s * 1e9)[bursts.pair]
    return (bursts.payload >= params.control_share * typical[bursts.pair]) | large


def _pairs(batch: FlowBatch) -> tuple[Int64, Int64, Int64]:
    """List the directed pairs of a batch sorted by (src, dst): sources, destinations, and the pair of each row."""
    change = np.ones(len(batch), dtype=bool)
    change[1:] = (batch.src[1:] != batch.src[:-1]) | (batch.dst[1:] != batch.dst[:-1])
    return batch.src[change].astype(np.int64), batch.dst[change].astype(np.int64), np.cumsum(change) - 1


def _reverse(src: Int64, dst: Int64) -> Int64:
    """Find each directed pair's opposite in a table sorted by (src, dst): its row, or -1."""
    span = int(max(src.max(initial=0), dst.max(initial=0))) + 1
    key, wanted = src * span + dst, dst * span + src
    place = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    found: Bool = key[place] == wanted if len(key) else np.empty(0, dtype=bool)
    return np.where(found, place, -1)
