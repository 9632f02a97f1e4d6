"""Spans of flows: what is asked of a source of flows, and what of it was read before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from prism_ch.model.columns import Bool, Int64
from prism_ch.model.flow import FlowBatch
from prism_ch.model.window import Interval


@dataclass(frozen=True, slots=True)
class FlowSpan:
    """Flows to read: those that end in `time` with both ends among `endpoints` bool[topology], or all where None.

    If `across`, those with one end among them, and the other among the endpoints bool[topology] that it names, none of
    which is among both. If `since_ns` int64[topology], of each endpoint only those that end then or later.
    """

    time: Interval
    endpoints: Bool | None = None
    across: Bool | None = None
    since_ns: Int64 | None = None

    def mask(self, flows: FlowBatch) -> Bool:
        """Mask the flows of a batch that are of the span, bool[n]."""
        inside: Bool = (flows.end_ns >= self.time.start_ns) & (flows.end_ns < self.time.end_ns)
        if self.since_ns is not None:
            inside &= flows.end_ns >= np.maximum(self.since_ns[flows.src], self.since_ns[flows.dst])
        if self.endpoints is None:
            return inside
        here, there = self.endpoints, self.across
        if there is None:
            return inside & here[flows.src] & here[flows.dst]
        return inside & ((here[flows.src] & there[flows.dst]) | (there[flows.src] & here[flows.dst]))

    def without(self, other: FlowSpan) -> Iterator[FlowSpan]:
        """Yield parts of this span that together hold what another does not.

        They may hold more. An endpoint that the other holds for a shorter time counts as one that it does not hold.
        """
        start_ns = max(self.time.start_ns, other.time.start_ns)
        end_ns = min(self.time.end_ns, other.time.end_ns)
        if start_ns >= end_ns:
            yield self
            return
        for begin_ns, until_ns in ((self.time.start_ns, start_ns), (end_ns, self.time.end_ns)):
            if begin_ns < until_ns:
                yield replace(self, time=Interval(begin_ns, until_ns))
        if other.endpoints is None:
            return
        inside = replace(self, time=Interval(start_ns, end_ns))
        if self.endpoints is None or (self.across is None and other.across is not None):
            yield inside
            return
        as_long = inside.lasts_no_longer(other)
        here, there = other.endpoints & as_long, (other.endpoints if other.across is None else other.across) & as_long
        known, unknown = self.endpoints & here, self.endpoints & ~here
        if self.across is None:
            if unknown.any():
                yield replace(inside, endpoints=unknown)
            beyond = known
        else:
            beyond = self.across
            if known.any() and (self.across & ~there).any():
                yield replace(inside, endpoints=known, across=self.across & ~there)
        if unknown.any() and beyond.any():
            yield replace(inside, endpoints=unknown, across=beyond)

    def lasts_no_longer(self, other: FlowSpan) -> Bool | bool:
        """Mask the endpoints that another span, which begins no later, holds for as long, bool[topology]."""
        if other.since_ns is None:
            return True
        mine_ns = self.time.start_ns if self.since_ns is None else np.maximum(self.since_ns, self.time.start_ns)
        return np.asarray(other.since_ns <= mine_ns)

    def slabs(self, most: int) -> Iterator[FlowSpan]:
        """Divide the span into some whose endpoints are read for as long.

        They hold a little more. Parameters: `most`, how many there may be.
        """
        if self.endpoints is None or self.since_ns is None:
            yield self
            return
        since_ns = np.maximum(self.since_ns, self.time.start_ns)
        begins = np.unique(since_ns[self.endpoints & (since_ns < self.time.end_ns)])
        if not len(begins):
            return
        edges = begins[np.unique(np.linspace(0, len(begins), most, endpoint=False, dtype=np.int64))]
        for start_ns, end_ns in pairwise([*edges.tolist(), self.time.end_ns]):
            yield FlowSpan(Interval(start_ns, end_ns), self.endpoints & (since_ns < end_ns), self.across)


@dataclass(frozen=True, slots=True)
class ReadFlows:
    """Flows that were read: all those of some spans, each once."""

    spans: tuple[FlowSpan, ...] = ()
    flows: FlowBatch = field(default_factory=FlowBatch.empty)

    def lacks(self, span: FlowSpan) -> tuple[FlowSpan, ...]:
        """Return spans that hold what is still to be read of one."""
        left: tuple[FlowSpan, ...] = (span,)
        for held in self.spans:
            left = tuple(rest for part in left for rest in part.without(held))
        return left

    def of(self, span: FlowSpan) -> FlowBatch:
        """Return the flows of a span that need not be read again."""
        kept = span.mask(self.flows)
        for lacking in self.lacks(span):
            kept &= ~lacking.mask(self.flows)
        return self.flows.take(kept)
