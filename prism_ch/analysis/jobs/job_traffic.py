"""The traffic that jobs are recognised in, and the part of it that one of them moves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prism_ch.analysis.jobs.edges import recurring_pairs
from prism_ch.analysis.observe.observe import Observed
from prism_ch.analysis.observe.timeouts import merged_training
from prism_ch.core.pairs import PairIndex
from prism_ch.model.columns import Bool, Int32
from prism_ch.model.exporter import Timeouts
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import Params
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class JobTraffic:
    """What endpoints move: bursts, and the flows that they are made of.

    `new` are the window's own observations, `flows` one observation a flow by right clocks, `counted` the flows as
    earlier windows counted them; `timeouts`, of the exporters. Of the pairs of `bursts`, `recurring` bool[pairs] carry
    steady traffic; records of `coarse` bool[pairs] run on over many steps, and `merged` bool[pairs] are those of them
    that are training all the same.
    """

    new: FlowBatch
    flows: FlowBatch
    counted: FlowBatch
    timeouts: Timeouts
    bursts: Traffic
    recurring: Bool
    coarse: Bool
    merged: Bool

    @classmethod
    def of(cls, seen: Observed, topology: Topology, params: Params) -> JobTraffic:
        """Tell which pairs carry the steady traffic of jobs."""
        recurring = recurring_pairs(seen.bursts, topology, params.recognise) & ~seen.coarse
        merged = merged_training(seen.bursts, topology, seen.coarse, recurring, params.merged)
        return cls(seen.new, seen.flows, seen.counted, seen.timeouts, seen.bursts, recurring, seen.coarse, merged)

    @property
    def steady(self) -> Bool:
        """Mask the pairs with steady traffic, bool[pairs]."""
        return self.recurring | self.merged

    def within(self, endpoints: Int32, begin_ns: int, end_ns: int) -> JobTraffic:
        """Return what moves between some endpoints and ends in [begin_ns, end_ns)."""

        def those(flows: FlowBatch) -> FlowBatch:
            return flows.take(_inside(endpoints, flows) & (flows.end_ns >= begin_ns) & (flows.end_ns < end_ns))

        flows, counted = those(self.flows), those(self.counted)
        new = flows if self.new is self.flows else those(self.new)
        kept = self.bursts.take((self.bursts.end_ns >= begin_ns) & (self.bursts.end_ns < end_ns))
        inside = np.isin(kept.pair_src, endpoints) & np.isin(kept.pair_dst, endpoints) & kept.moving()
        return replace(self._keep(kept, inside), flows=flows, counted=counted, new=new)

    def since(self, start_ns: int) -> JobTraffic:
        """Return it without the bursts that end before a time."""
        bursts = self.bursts.take(self.bursts.end_ns >= start_ns)
        return self._keep(bursts, bursts.moving())

    def merged_flows(self) -> Bool:
        """Mask the flows on merged pairs, bool[flows]."""
        merged = PairIndex.of(self.bursts.pair_src[self.merged], self.bursts.pair_dst[self.merged])
        return merged.holds(self.flows.src, self.flows.dst)

    def _keep(self, bursts: Traffic, pairs: Bool) -> JobTraffic:
        """Return it with some pairs of bursts that have all of them."""
        columns = {name: getattr(self, name)[pairs] for name in ("recurring", "coarse", "merged")}
        return replace(self, bursts=bursts.keep_pairs(pairs), **columns)


def _inside(endpoints: Int32, flows: FlowBatch) -> Bool:
    """Mask the flows whose two ends are both among the endpoints, bool[n]."""
    member = np.zeros(int(max(endpoints.max(), flows.src.max(initial=0), flows.dst.max(initial=0))) + 1, dtype=bool)
    member[endpoints] = True
    return np.asarray(member[flows.src] & member[flows.dst])
