"""Queue pairs: the parts of a pipeline's messages that take ways of their own, told apart by their ports.

Switches choose a way by a hash of the 5-tuple (ECMP, RFC 2992). A part of a message that takes a slow way comes in
after its siblings, which shows that the fault lies between the leaves, whatever way it is. In a collective all wait
for the slowest part, and its bursts are left whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prism_ch.core.arrays import distinct, order_by, run_starts
from prism_ch.core.pairs import PairIndex
from prism_ch.core.search import group_search
from prism_ch.model.columns import Bool, Int32, Int64, UInt16
from prism_ch.model.flow import FlowBatch
from prism_ch.model.job import PairKinds
from prism_ch.model.params import TimePerByteParams
from prism_ch.model.result import PP
from prism_ch.model.traffic import Traffic

_PORT_BITS = 16


@dataclass(frozen=True, slots=True)
class WaysTaken:
    """The ways that pairs of a Traffic take: `pair` and `way` int32[m], one row each; -1 is one that is not known.

    A way is an index into `names`, the switches in order. A pair has a row for each queue pair whose way is not known.
    """

    pair: Int32
    way: Int32
    names: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def unknown(cls, traffic: Traffic) -> WaysTaken:
        """Return one unknown way for each pair."""
        pairs = len(traffic.pair_src)
        return cls(np.arange(pairs, dtype=np.int32), np.full(pairs, -1, dtype=np.int32))


def by_queue_pair(
    traffic: Traffic, kinds: PairKinds, flows: FlowBatch, params: TimePerByteParams
) -> tuple[Traffic, PairKinds, WaysTaken]:
    """Divide the bursts of pipelines by queue pair, and list the ways of pairs.

    Parameters: `traffic` and `kinds`, of an attempt; `flows`, one observation a flow, that it was made of.
    Returns a Traffic in whose pair table a pair stands once for each of its queue pairs, and its kinds.

    1. Find the burst that each flow is part of, and number the queue pairs of each pair.
    2. Leave out queue pairs that carry little: acknowledgements of what the other end sends.
    3. Divide the bursts of pipeline pairs whose queue pairs recur: a connection a message is no queue pair.
    4. List the ways of each.
    """
    pair = PairIndex.of(traffic.pair_src, traffic.pair_dst).rows_of(flows.src, flows.dst).astype(np.int32)
    burst = group_search(traffic.pair, traffic.start_ns, pair, flows.start_ns) - 1
    inside = (pair >= 0) & (burst >= 0)
    inside[inside] &= traffic.pair[burst[inside]] == pair[inside]
    rows = np.flatnonzero(inside)
    rows = rows[_carry_payload(pair[rows], flows.src_port[rows], flows.bytes[rows], params)]
    if len(rows) == 0:
        return traffic, kinds, WaysTaken.unknown(traffic)
    pair, burst, port, way = pair[rows], burst[rows], flows.src_port[rows].astype(np.int64), flows.way[rows]
    bursts = traffic.counts_of_pairs()
    ports = np.bincount(distinct((pair.astype(np.int64) << _PORT_BITS) | port) >> _PORT_BITS, minlength=len(bursts))
    divided = (kinds.kind == PP) & (ports > 1) & (params.repeats * ports <= bursts)
    # Queue pairs of one pair stand side by side in the new table, in which a pair that is not divided stands once.
    unit = (pair.astype(np.int64) << _PORT_BITS) | np.where(divided[pair], port, 0)
    whole = np.flatnonzero(~divided | (ports == 0)) << _PORT_BITS
    table, place = np.unique(np.concatenate([unit, whole]), return_inverse=True)
    number: Int32 = place[: len(pair)].astype(np.int32)
    listed = (number, way, np.where(way < 0, port, 0))
    order = order_by(*listed)
    first = order[run_starts(*(column[order] for column in listed))]
    names = WaysTaken(number[first], way[first], flows.ways)
    parts, of_burst = _parts(traffic, flows, rows, burst, number, divided)
    old = table >> _PORT_BITS
    number_of = np.zeros(len(bursts), dtype=np.int32)
    number_of[old] = np.arange(len(old))
    kept = np.flatnonzero(~divided[traffic.pair])
    own = traffic.take(kept)
    joined = {
        name: np.concatenate([getattr(own, name), getattr(parts, name)]) for name in ("start_ns", "end_ns", "payload")
    }
    of_pair = np.concatenate([number_of[own.pair], parts.pair])
    order = order_by(of_pair, joined["start_ns"])
    made = replace(
        traffic,
        pair=of_pair[order],
        **{name: column[order] for name, column in joined.items()},
        **{name: getattr(traffic, name)[old] for name in ("pair_src", "pair_dst", "pair_blur_ns", "pair_tick_ns")},
    )
    burst_kind = kinds.burst[np.concatenate([kept, of_burst])[order]]
    return made, PairKinds(kinds.kind[old], kinds.confidence[old], burst_kind), names


def _carry_payload(pair: Int32, port: UInt16, moved: Int64, params: TimePerByteParams) -> Bool:
    """Mask the flows of queue pairs that carry a fair share, bool[n].

    Acknowledgements have the ports of what they answer, the other way round: next to the largest queue pair of their
    pair they carry little.
    """
    unit, place = np.unique((pair.astype(np.int64) << _PORT_BITS) | port, return_inverse=True)
    carried = np.bincount(place, weights=moved, minlength=len(unit))
    most = np.zeros(int(pair.max(initial=-1)) + 1)
    np.maximum.at(most, unit >> _PORT_BITS, carried)
    return np.asarray((carried >= params.little * most[unit >> _PORT_BITS])[place])


def _parts(
    traffic: Traffic, flows: FlowBatch, rows: Int64, burst: Int64, number: Int32, divided: Bool
) -> tuple[Traffic, Int64]:
    """Return the parts of bursts by queue pair, and the burst of each, int64[parts]."""
    some = divided[traffic.pair[burst]]
    rows, burst, number = rows[some], burst[some], number[some]
    order = order_by(number, burst)
    rows, burst, number = rows[order], burst[order], number[order]
    begin = run_starts(number, burst)
    if len(begin) == 0:
        return traffic.take(np.empty(0, dtype=np.int64)), begin
    moved = np.add.reduceat(flows.bytes[rows], begin)
    total = np.bincount(burst, weights=flows.bytes[rows], minlength=len(traffic))
    of_burst = burst[begin]
    parts = replace(
        traffic.take(of_burst),
        pair=number[begin],
        start_ns=np.minimum.reduceat(flows.start_ns[rows], begin),
        end_ns=np.maximum.reduceat(flows.end_ns[rows], begin),
        payload=np.rint(traffic.payload[of_burst] * moved / total[of_burst]).astype(np.int64),
    )
    return parts, of_burst
