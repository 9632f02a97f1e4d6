"""Flows with the rows at which those of each pair begin, so that those of few endpoints are found among many."""

from __future__ import annotations

from dataclasses import dataclass

from prism_ch.core.arrays import is_among, ranges, run_lengths, run_starts
from prism_ch.model.columns import Bool, Int32, Int64
from prism_ch.model.flow import FlowBatch


@dataclass(frozen=True, slots=True)
class FlowsByPair:
    """A batch of flows, and the row at which those of each directed pair begin, int64[pairs].

    Pairs are some hundred times fewer than flows, and each job of a window asks for those of its members.
    `earliest_ns` is the first end of all, None without any.
    """

    flows: FlowBatch
    first: Int64
    earliest_ns: int | None

    @classmethod
    def of(cls, flows: FlowBatch) -> FlowsByPair:
        """Find where the flows of each pair begin."""
        return cls(flows, run_starts(flows.src, flows.dst), int(flows.end_ns.min()) if len(flows) else None)

    def rows_at(self, endpoints: Int32) -> Int64:
        """Return the rows with an end among some endpoints, int64[k], rising."""
        sends, gets = self._ends_among(endpoints)
        return self._rows(sends | gets)

    def rows_across(self, endpoints: Int32) -> Int64:
        """Return the rows with one end among some endpoints and the other not, int64[k], rising."""
        sends, gets = self._ends_among(endpoints)
        return self._rows(sends != gets)

    def _ends_among(self, endpoints: Int32) -> tuple[Bool, Bool]:
        src, dst = self.flows.src[self.first], self.flows.dst[self.first]
        return is_among(src, endpoints), is_among(dst, endpoints)

    def _rows(self, pairs: Bool) -> Int64:
        """Return the rows of some pairs, bool[pairs]."""
        count = run_lengths(self.first, len(self.flows))
        return ranges(self.first[pairs], count[pairs])
