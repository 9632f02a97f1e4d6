"""Flows from before a window, as earlier windows counted them."""

from __future__ import annotations

from dataclasses import dataclass

from prism_ch.analysis.observe import clocks
from prism_ch.analysis.observe.bursts import elect_among
from prism_ch.analysis.observe.known_jobs import KnownJobs
from prism_ch.model.columns import Int32
from prism_ch.model.exporter import ExporterHistory
from prism_ch.model.flow import FlowBatch
from prism_ch.model.flow_cut import FlowCut
from prism_ch.model.job import ALWAYS_NS
from prism_ch.model.params import ClockParams


@dataclass(frozen=True, slots=True)
class EarlierFlows:
    """What was seen before `until_ns`, of which each job has its own made when it is counted.

    Those of all jobs at once would be another copy of most flows of a window. `read` are observations by the exporters'
    clocks, which `offsets` correct; `known` are the jobs before the window, and `blur_ns` is that of elect_among.
    """

    read: FlowBatch
    until_ns: int
    offsets: ExporterHistory
    known: KnownJobs
    blur_ns: int
    params: ClockParams

    def between(self, endpoints: Int32, begin_ns: int, end_ns: int) -> FlowBatch:
        """Return the flows between some endpoints that end in [begin_ns, end_ns), one observation each."""
        read = FlowCut(self.read, endpoints, ALWAYS_NS, self.until_ns).batch()
        seen = self.known.without_past(clocks.correct(read, self.offsets, self.params))
        return FlowCut(elect_among(seen, seen.shared(), self.blur_ns), endpoints, begin_ns, end_ns).batch()
