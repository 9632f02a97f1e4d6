"""Spans of flows: what is asked of a source of flows, and what of it was read before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from prism_ch.model.columns import Bool
from prism_ch.model.flow import FlowBatch
from prism_ch.model.window import Interval


@dataclass(frozen=True, slots=True)
class FlowSpan:
    """Flows to read: those that end in `time` with both ends among `endpoints` bool[topology], or all where None.

    If `across`, those with one end among them, and the other among the endpoints bool[topology] that it names, none of
    which is among both.
    """

    time: Interval
    endpoints: Bool | None = None
    across: Bool | None = None

    def mask(self, flows: FlowBatch) -> Bool:
        """Mask the flows of a batch that are of the span, bool[n]."""
        inside: Bool = (flows.end_ns >= self.time.start_ns) & (flows.end_ns < self.time.end_ns)
        if self.endpoints is None:
            return inside
        here, there = self.endpoints, self.endpoints if self.across is None else self.across
        return inside & ((here[flows.src] & there[flows.dst]) | (there[flows.src] & here[flows.dst]))

    def without(self, other: FlowSpan) -> Iterator[FlowSpan]:
        """Yield spans that together hold what another span does not hold of this one."""
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
        here, there = other.endpoints, other.endpoints if other.across is None else other.across
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
