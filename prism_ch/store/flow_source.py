"""The flows of a database, by the spans that the analysis asks for."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from prism_ch.model.flow import FlowBatch
from prism_ch.model.flow_span import FlowSpan
from prism_ch.model.topology import Topology
from prism_ch.store.client import Store
from prism_ch.store.flows import read_flows
from prism_ch.store.pull import PullChoice

#: In how many statements flows are read that go back to different times: each reads more than is needed.
_SLABS = 4


@dataclass(frozen=True, slots=True)
class StoredFlows:
    """The flows of a database, between endpoints of a topology; `pulls` chooses how they are read."""

    store: Store
    topology: Topology
    pulls: PullChoice = field(default_factory=PullChoice)

    def read(self, span: FlowSpan) -> FlowBatch:
        """Return the flows of a span, as the analysis asks for them (see FlowSource)."""
        if span.since_ns is None:
            return self._read(span)
        slabs = map(self._read, span.slabs(_SLABS))
        return FlowBatch.concat(flows.take(span.mask(flows)) for flows in slabs)

    def _read(self, span: FlowSpan) -> FlowBatch:
        """Return the flows of a span whose endpoints are all read for as long.

        Of flows across, those with an end on the smaller side are read: the engine looks for few endpoints, not for
        many.
        """
        sides = [side for side in (span.endpoints, span.across) if side is not None]
        rows = np.flatnonzero(min(sides, key=np.count_nonzero)) if sides else None
        across = span.across is not None
        start_ns, end_ns = span.time.start_ns, span.time.end_ns
        plan, began_s = self.pulls.plan(), time.process_time()
        flows = read_flows(self.store, self.topology, start_ns, end_ns, endpoints=rows, crossing=across, plan=plan)
        self.pulls.note(plan, len(flows), time.process_time() - began_s)
        return flows.take(span.mask(flows)) if across else flows
