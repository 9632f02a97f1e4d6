"""The traffic that jobs are recognised in: which pairs carry it, and which part of it one job moves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prism_ch.analysis.observe.observe import Observed
from prism_ch.analysis.observe.timeouts import merged_training
from prism_ch.core.arrays import ROWS_AT_ONCE, blocks, run_starts
from prism_ch.core.pairs import PairIndex, rows_between
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.exporter import Timeouts
from prism_ch.model.flow import FlowBatch
from prism_ch.model.flow_cut import FlowCut
from prism_ch.model.params import Params, RecogniseParams
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class JobTraffic:
    """What endpoints move: bursts, and the flows that they are made of.

    `flows` are one observation a flow by right clocks; `timeouts`, of the exporters. Of the pairs of `bursts`,
    `recurring` bool[pairs] carry steady traffic; records of `coarse` bool[pairs] run on over many steps, and `merged`
    bool[pairs] are those of them that are training all the same.
    """

    flows: FlowCut
    timeouts: Timeouts
    bursts: Traffic
    recurring: Bool
    coarse: Bool
    merged: Bool

    @classmethod
    def of(cls, seen: Observed, topology: Topology, params: Params) -> JobTraffic:
        """Find the pairs that carry the steady traffic of jobs."""
        recurring = recurring_pairs(seen.bursts, topology, params.recognise) & ~seen.coarse
        merged = merged_training(seen.bursts, topology, seen.coarse, recurring, params.merged)
        return cls(FlowCut(seen.flows), seen.timeouts, seen.bursts, recurring, seen.coarse, merged)

    def without_flows(self) -> JobTraffic:
        """Return it without flows, which are shared with all stages; its bursts are not."""
        return replace(self, flows=FlowCut(FlowBatch.empty()))

    def with_flows(self, seen: Observed) -> JobTraffic:
        """Return it with the flows that a window shows."""
        return replace(self, flows=FlowCut(seen.flows))

    @property
    def steady(self) -> Bool:
        """Mask the pairs with steady traffic, bool[pairs]."""
        return self.recurring | self.merged

    def within(self, endpoints: Int32, begin_ns: int, end_ns: int) -> JobTraffic:
        """Return what moves between some endpoints and ends in [begin_ns, end_ns)."""
        bursts, flows = self.bursts, self.flows.within(endpoints, begin_ns, end_ns)
        rows = bursts.rows_of(rows_between(bursts.pair_src, bursts.pair_dst, endpoints))
        kept = bursts.take(rows[(bursts.end_ns[rows] >= begin_ns) & (bursts.end_ns[rows] < end_ns)])
        return replace(self._with(kept), flows=flows)

    def since(self, start_ns: int) -> JobTraffic:
        """Return it without the bursts that end before a time."""
        return self._with(self.bursts.take(self.bursts.end_ns >= start_ns))

    def on_merged(self, flows: FlowBatch) -> Bool:
        """Mask the flows on merged pairs, bool[flows]."""
        merged = PairIndex.of(self.bursts.pair_src[self.merged], self.bursts.pair_dst[self.merged])
        return merged.holds(flows.src, flows.dst)

    def _with(self, bursts: Traffic) -> JobTraffic:
        """Return it with some of its bursts, and the pairs that these are of."""
        pairs = bursts.moving_pairs()
        columns = {name: getattr(self, name)[pairs] for name in ("recurring", "coarse", "merged")}
        return replace(self, bursts=bursts.without_silent_pairs(), **columns)


def recurring_pairs(traffic: Traffic, topology: Topology, params: RecogniseParams) -> Bool:
    """Mask the weighty pairs that recur all over their endpoints' time, bool[pairs].

    A direction is judged by itself: the first parameters may be broadcast along an edge that later carries gradients
    the other way only.
    """
    src, dst = traffic.pair_src, traffic.pair_dst
    spread = payload_spread_ns(traffic, traffic.pair, len(src), params.payload_tail)
    lifetime = np.zeros(len(topology))
    for side in (src, dst):
        np.maximum.at(lifetime, side, spread)
    all_over = spread >= params.half * np.minimum(lifetime[src], lifetime[dst])
    return np.asarray(weighty_pairs(traffic, topology, params) & all_over)


def weighty_pairs(traffic: Traffic, topology: Topology, params: RecogniseParams) -> Bool:
    """Mask the pairs in one tenant that occur often and weigh enough, bool[pairs]."""
    one_tenant: Bool = topology.tenant[traffic.pair_src] == topology.tenant[traffic.pair_dst]
    return heavy_pairs(traffic, topology, params) & one_tenant


def heavy_pairs(traffic: Traffic, topology: Topology, params: RecogniseParams) -> Bool:
    """Mask the pairs between servers that occur often and weigh enough, bool[pairs]."""
    src, dst = traffic.pair_src, traffic.pair_dst
    bursts = traffic.counts_of_pairs()
    payload = traffic.sums_of_pairs(traffic.payload)
    main = np.zeros(len(topology), dtype=np.int64)
    for side in (src, dst):
        np.maximum.at(main, side, payload)
    weighty: Bool = (
        (bursts >= params.repeats)
        & (payload >= params.min_pair_share * np.minimum(main[src], main[dst]))
        & (topology.server[src] != topology.server[dst])
    )
    return weighty


def payload_spread_ns(traffic: Traffic, group: Int32 | Int64, groups: int, tail: float) -> Float64:
    """Return the time in which each group of bursts moves its payload, float64[groups].

    Parameters: `group` int32[n], rising over the bursts; `tail`, the share of payload left out at either end.
    """
    first = run_starts(group)
    edges, number, spread_ns = np.append(first, len(group)), group[first], np.zeros(groups)
    for low, high in blocks(first, ROWS_AT_ONCE):
        rows = slice(edges[low], edges[high])
        own = np.repeat(np.arange(high - low), np.diff(edges[low : high + 1]))
        payload, end_ns = traffic.payload[rows], traffic.end_ns[rows]
        total = np.bincount(own, weights=payload)
        moved = np.cumsum(payload) - (np.cumsum(total) - total)[own]
        share = moved / np.maximum(total, 1)[own]
        begins, ends = np.full((2, high - low), np.iinfo(np.int64).max)
        np.minimum.at(begins, own[share > tail], end_ns[share > tail])
        np.minimum.at(ends, own[share >= 1 - tail], end_ns[share >= 1 - tail])
        spread_ns[number[low:high]] = ends - begins
    return spread_ns
