"""Flows of one job, which stay among those of all until they are looked at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.model.columns import Int32, Int64
from prism_ch.model.flow import FlowBatch


@dataclass(frozen=True, slots=True)
class FlowCut:
    """The flows of a batch between some `endpoints` that end in [begin_ns, end_ns), or all of it.

    They are cut out anew each time: copies for all jobs, kept from one stage to the next, would be as large as all
    flows of a window, and again for each copy.
    """

    whole: FlowBatch
    endpoints: Int32 | None = None
    begin_ns: int = 0
    end_ns: int = 0

    def within(self, endpoints: Int32, begin_ns: int, end_ns: int) -> FlowCut:
        """Return the cut of those between some endpoints that end in a span."""
        return FlowCut(self.batch(), endpoints, begin_ns, end_ns)

    def batch(self) -> FlowBatch:
        """Cut the flows out."""
        rows = self._rows()
        return self.whole if rows is None or len(rows) == len(self.whole) else self.whole.take(rows)

    def is_empty(self) -> bool:
        """Return whether there are none."""
        rows = self._rows()
        return len(self.whole if rows is None else rows) == 0

    def _rows(self) -> Int64 | None:
        """Return the rows of its flows, None for all."""
        if self.endpoints is None:
            return None
        rows = self.whole.rows_between(self.endpoints)
        ends_ns = self.whole.end_ns[rows]
        inside = (ends_ns >= self.begin_ns) & (ends_ns < self.end_ns)
        return rows if bool(np.all(inside)) else rows[inside]

    def __reduce__(self) -> tuple[type[FlowCut], tuple[FlowBatch]]:
        """Let only its own flows travel to another process."""
        return FlowCut, (self.batch(),)
