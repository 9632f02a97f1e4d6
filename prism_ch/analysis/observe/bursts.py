"""Bursts: from records to bursts of payload on directed pairs of endpoints.

1. Records of one flow by several exporters are one flow: of those that overlap in time on one 5-tuple, the exporter
   that saw most is elected.
2. Payload is bytes less packet headers: on real TCP one activation has many byte counts, but one payload.
3. Records of one message (several queue pairs, active timeouts) are joined into bursts.
4. Directions that carry acknowledgements only, and control messages, are left out.
"""

from __future__ import annotations

import numpy as np

from prism_ch.core import intervals, robust
from prism_ch.core.arrays import order_by, run_numbers, run_starts
from prism_ch.core.pairs import PairIndex
from prism_ch.model.columns import Bool, Int64
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import ObserveParams
from prism_ch.model.traffic import Traffic

#: IPv4 + TCP + timestamp option (RFC 791, 9293, 7323): what a TCP segment carries beside data.
_TCP_HEADER_BYTES = 52
#: Ethernet + FCS + IPv4 + UDP + BTH + ICRC (IBTA 1.6, annex A17): what a RoCEv2 packet carries beside data.
_ROCE_HEADER_BYTES = 62
#: IANA's protocol number.
_TCP = 6


def elect(batch: FlowBatch, blurs_ns: Int64) -> FlowBatch:
    """Keep one exporter's records of each flow that several exporters saw.

    Parameters: `blurs_ns` int64[exporters], how far apart an exporter and others may see one moment.
    Observations belong to one flow if they share the 5-tuple and overlap in time, but for that. The exporter with
    the most bytes of it is elected, the first by name if several saw the same.
    """
    shared = batch.shared()
    if not shared.any():
        return batch
    seen = batch.take(shared)
    blur_ns = int(blurs_ns[np.unique(seen.exporter)].max())
    flow = intervals.merge(seen.five_tuples().astype(np.int32), seen.start_ns, seen.end_ns, gap_ns=blur_ns).owner
    exporters = len(batch.exporters)
    vote, which = np.unique(flow * exporters + seen.exporter, return_inverse=True)
    flow, exporter = np.divmod(vote, exporters)
    order = order_by(flow, -np.bincount(which, weights=seen.bytes), exporter)
    elected = np.zeros(len(vote), dtype=bool)
    elected[order[run_starts(flow[order])]] = True
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
    first, pair = run_starts(batch.src, batch.dst), run_numbers(batch.src, batch.dst)
    pair_src, pair_dst = batch.src[first], batch.dst[first]
    reverse = PairIndex.of(pair_src, pair_dst).rows_of(pair_dst, pair_src)
    total = np.bincount(pair, weights=payload, minlength=len(first))
    answer = np.where(reverse >= 0, total[reverse], 0.0)
    is_data = payload >= params.half * batch.bytes
    in_data = np.bincount(pair, weights=payload * is_data, minlength=len(first))
    answers = total < params.acknowledgement_share * (total + answer)
    carries_data = (total > 0) & ~(answers & (in_data < params.half * total))
    pair_blur_ns, pair_tick_ns = np.zeros(len(first), dtype=np.int64), np.zeros(len(first), dtype=np.int64)
    np.maximum.at(pair_blur_ns, pair, blurs_ns[batch.exporter])
    np.maximum.at(pair_tick_ns, pair, ticks_ns[batch.exporter])
    rows = carries_data[pair] & (is_data | ~answers[pair])
    joined = intervals.merge(
        pair[rows].astype(np.int32), batch.start_ns[rows], batch.end_ns[rows], gap_ns=params.burst_gap_ns
    )
    carried = np.bincount(joined.owner, weights=payload[rows], minlength=len(joined.group)).astype(np.int64)
    records = np.bincount(joined.owner, minlength=len(joined.group)).astype(np.int32)
    bursts = Traffic(
        joined.group, joined.start, joined.end, carried, records, pair_src, pair_dst, pair_blur_ns, pair_tick_ns
    )
    return bursts.take(_is_data(bursts, params)).keep_pairs(carries_data)


def _is_data(bursts: Traffic, params: ObserveParams) -> Bool:
    """Mask the bursts that are no control messages by their pair's typical burst, bool[n].

    Typical is the burst size above which half the pair's payload lies: many small control messages do not move it.
    """
    order = order_by(bursts.pair, bursts.payload)
    pair, payload = bursts.pair[order], bursts.payload[order]
    total = np.bincount(pair, weights=payload, minlength=len(bursts.pair_src))
    before = np.cumsum(total) - total
    upper_half = np.cumsum(payload) - before[pair] >= total[pair] / 2
    typical = np.full(len(total), np.iinfo(np.int64).max)
    np.minimum.at(typical, pair[upper_half], payload[upper_half])
    # One that waits for its receiver lasts long, too: their median shows whether records hold more than a message.
    lasts_ns = robust.median_by(pair[upper_half], (bursts.end_ns - bursts.start_ns)[order[upper_half]], len(total))
    large = (bursts.payload >= params.control_bytes) & (lasts_ns < params.message_s * 1e9)[bursts.pair]
    return (bursts.payload >= params.control_share * typical[bursts.pair]) | large
