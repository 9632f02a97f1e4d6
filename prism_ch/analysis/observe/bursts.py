"""Bursts: from records to bursts of payload on directed pairs of endpoints.

1. Records of one flow by several exporters are one flow: of those that overlap in time on one 5-tuple, the exporter
   that saw most is elected.
2. Payload is bytes less packet headers: on real TCP one activation has many byte counts, but one payload.
3. Records of one message (several queue pairs, active timeouts) are joined into bursts.
4. Directions that carry acknowledgements only, and control messages, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from prism_ch.core import intervals, robust
from prism_ch.core.arrays import ROWS_AT_ONCE, Growing, blocks, distinct, order_by, run_starts
from prism_ch.core.pairs import PairIndex
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import ObserveParams
from prism_ch.model.traffic import Traffic

#: IPv4 + TCP + timestamp option (RFC 791, 9293, 7323): what a TCP segment carries beside data.
_TCP_HEADER_BYTES = 52
#: Ethernet + FCS + IPv4 + UDP + BTH + ICRC (IBTA 1.6, annex A17): what a RoCEv2 packet carries beside data.
_ROCE_HEADER_BYTES = 62
#: IANA's protocol number.
_TCP = 6


def blur_of(batch: FlowBatch, shared: Bool, blurs_ns: Int64) -> int:
    """Return how far apart exporters that saw the same flows may see one moment, ns."""
    return int(blurs_ns[distinct(batch.exporter[shared])].max(initial=0))


def elect(batch: FlowBatch, blurs_ns: Int64) -> FlowBatch:
    """Keep one exporter's records of each flow that several exporters saw.

    Parameters: `blurs_ns` int64[exporters], how far apart an exporter and others may see one moment.
    """
    shared = batch.shared()
    return elect_among(batch, shared, blur_of(batch, shared, blurs_ns))


def elect_among(batch: FlowBatch, shared: Bool, blur_ns: int) -> FlowBatch:
    """Keep one exporter's records of each flow that is known to be shared by several.

    Parameters: `shared` bool[n], the observations of 5-tuples that several saw; `blur_ns`, see blur_of.
    Observations belong to one flow if they share the 5-tuple and overlap in time, but for that. The exporter with
    the most bytes of it is elected, the first by name if several saw the same.
    """
    if not shared.any():
        return batch
    seen = batch.take(shared)
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
    first = run_starts(batch.src, batch.dst)
    pair_src, pair_dst = batch.src[first], batch.dst[first]
    total, in_data = _volumes(batch, first, params)
    reverse = PairIndex.of(pair_src, pair_dst).rows_of(pair_dst, pair_src)
    answer = np.where(reverse >= 0, total[reverse], 0)
    answers = total < params.acknowledgement_share * (total + answer)
    thin = in_data < params.half * total
    carries_data = (total > 0) & ~(answers & thin)
    pair_blur_ns, pair_tick_ns = (_largest(each[batch.exporter], first) for each in (blurs_ns, ticks_ns))
    number = np.cumsum(carries_data, dtype=np.int32) - 1
    none = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
    whole = Growing(pair=none[1], start_ns=none[0], end_ns=none[0], payload=none[0])
    for part in _parts(batch, first, params):
        # An acknowledgement of what comes the other way would begin or end a burst of data.
        rows = carries_data[part.pairs][part.pair] & (part.is_data | thin[part.pairs][part.pair])
        bursts = _bursts(batch, part, rows, params)
        pair = number[part.pairs][bursts.pair]
        own = {name: getattr(bursts, name) for name in ("start_ns", "end_ns", "payload")}
        whole.append(pair=pair, **own)
    of_pair = (column[carries_data] for column in (pair_src, pair_dst, pair_blur_ns, pair_tick_ns))
    return Traffic(*whole.end().values(), *of_pair)


@dataclass(frozen=True, slots=True)
class _Part:
    """The records of some pairs that follow one another, and what they carry.

    `pairs` and `rows` are where pairs and records are among all; `pair` int32[n] counts from the first of these.
    """

    pairs: slice
    rows: slice
    pair: Int32
    payload: Int64
    is_data: Bool


def _parts(batch: FlowBatch, first: Int64, params: ObserveParams) -> Iterator[_Part]:
    """Yield all pairs, some at a time.

    Parameters: `first` int64[pairs], the first record of each.
    """
    stops = np.append(first, len(batch))
    for low, high in blocks(first, ROWS_AT_ONCE):
        rows = slice(int(stops[low]), int(stops[high]))
        pair = np.repeat(np.arange(high - low, dtype=np.int32), np.diff(stops[low : high + 1]))
        header = np.where(batch.proto[rows] == _TCP, _TCP_HEADER_BYTES, _ROCE_HEADER_BYTES)
        payload = np.maximum(batch.bytes[rows] - header * batch.packets[rows], 0)
        yield _Part(slice(low, high), rows, pair, payload, payload >= params.half * batch.bytes[rows])


def _volumes(batch: FlowBatch, first: Int64, params: ObserveParams) -> tuple[Float64, Float64]:
    """Return the payload of each pair, and that in records of data, float64[pairs] each."""
    total, in_data = np.zeros((2, len(first)))
    for part in _parts(batch, first, params):
        total[part.pairs] = np.bincount(part.pair, weights=part.payload)
        in_data[part.pairs] = np.bincount(part.pair, weights=part.payload * part.is_data)
    return total, in_data


def _largest(values: Int64, first: Int64) -> Int64:
    """Return the largest value of each run, int64[runs], by the rows at which these begin."""
    return np.maximum.reduceat(values, first) if len(first) else values


def _bursts(batch: FlowBatch, part: _Part, rows: Bool, params: ObserveParams) -> Traffic:
    """Join some records of a part, `rows` bool[n], to bursts that are no control messages."""
    pair, payload = part.pair[rows], part.payload[rows]
    start_ns, end_ns = batch.start_ns[part.rows][rows], batch.end_ns[part.rows][rows]
    joined = intervals.merge(pair, start_ns, end_ns, gap_ns=params.burst_gap_ns)
    carried = np.bincount(joined.owner, weights=payload, minlength=len(joined.group)).astype(np.int64)
    pairs = np.zeros(part.pairs.stop - part.pairs.start, dtype=np.int64)  # nothing is asked of the pairs here
    bursts = Traffic(joined.group, joined.start, joined.end, carried, pairs, pairs, pairs, pairs)
    return bursts.take(_is_data(bursts, params))


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
