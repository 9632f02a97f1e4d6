"""Observe: from the records of a window to bursts of payload, each counted once and by right clocks.

1. Leave out flows between members of jobs at rest: nothing of theirs ends in the window. Of settled jobs, those from
   before the steps that these go on from only show whether records are missing.
2. Estimate how far the exporters' clocks are off, and correct all times.
3. Leave out flows of jobs and attempts that are over.
4. Find the ways of flows by what several exporters saw of them.
5. Elect one exporter's records of each flow, and join them to bursts of payload.
6. Find pairs whose records run on over many steps, and after what silence each exporter closes its records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from prism_ch.analysis.observe import clocks
from prism_ch.analysis.observe.bursts import blur_of, elect_among, read_bursts
from prism_ch.analysis.observe.earlier import EarlierFlows
from prism_ch.analysis.observe.holes import Hole
from prism_ch.analysis.observe.known_jobs import KnownJobs
from prism_ch.analysis.observe.timeouts import coarse_pairs, infer_timeouts
from prism_ch.analysis.observe.ways import find_ways
from prism_ch.model.columns import Bool
from prism_ch.model.exporter import ExporterHistory, ExporterStates, Timeouts
from prism_ch.model.flow import FlowBatch
from prism_ch.model.flow_span import ReadFlows
from prism_ch.model.flows_by_pair import FlowsByPair
from prism_ch.model.params import Params
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic
from prism_ch.model.window import Window


@dataclass(frozen=True, slots=True)
class WindowFlows:
    """The flows that a window is analysed by: its own, and those before it that its jobs need.

    `read` are observations by the exporters' own clocks; `clocks` is what earlier windows found of these, and `known`
    the jobs before the window by what it shows of them. `is_whole`: all flows up to the window's end are there.
    """

    window: Window
    read: ReadFlows
    clocks: ExporterHistory
    known: KnownJobs
    is_whole: bool = False

    @property
    def flows(self) -> FlowBatch:
        """The observations."""
        return self.read.flows

    def moving(self) -> FlowBatch:
        """Leave out flows between members of jobs at rest.

        Nothing of theirs ends in the window.
        """
        return self.known.without_resting(self.flows)

    def looked_at(self, moving: FlowBatch, params: Params) -> FlowBatch:
        """Leave out flows of settled jobs before the steps they go on from.

        Parameters: `moving`, those of jobs that are not at rest.
        Of young jobs all is kept until it is looked at again.
        """
        margin_ns = clocks.reach_ns(self.clocks, params.clocks)
        return self.known.without_settled_past(moving, self.window, margin_ns, params.going_on)


@dataclass(frozen=True, slots=True)
class Observed:
    """What a window and the time before it show.

    `read` are all observations, by the exporters' clocks, `looked_at` those that jobs are examined by, and `new` of
    these the window's own. By right clocks: `by_pair` are the `flows`, one observation each, `earlier` those of before
    the window, and `bursts` what they make. Records of `coarse` bool[pairs] run on over many steps. Flows are known up
    to `until_ns`; `known` are the jobs before, and `holes` the spans of which records are missing. `strays` are
    endpoints that train with another tenant's, with the name of the tenant that the topology gives them.
    """

    window: Window
    until_ns: int
    read: FlowBatch
    looked_at: FlowBatch
    by_pair: FlowsByPair
    earlier: EarlierFlows
    bursts: Traffic
    coarse: Bool
    timeouts: Timeouts
    exporters: ExporterStates
    known: KnownJobs
    holes: tuple[Hole, ...] = ()
    strays: Mapping[int, str] = field(default_factory=dict)

    @property
    def new(self) -> FlowBatch:
        """The window's own observations, by the exporters' clocks, cut out anew each time."""
        return self.looked_at.take(self.looked_at.end_ns >= self.window.start_ns)

    @property
    def flows(self) -> FlowBatch:
        """One observation a flow, by right clocks."""
        return self.by_pair.flows

    def for_jobs(self) -> Observed:
        """Return it without what no job is examined by.

        That is observations by the exporters' clocks, and the bursts of all: each keeps its own.
        """
        none = np.zeros(len(self.bursts.pair_src), dtype=bool)
        return replace(self, read=self.read.take(np.empty(0, dtype=np.int64)), bursts=self.bursts.keep_pairs(none))


def observe(seen: WindowFlows, topology: Topology, params: Params) -> Observed:
    """Read a window's flows, and those before it, as bursts of payload."""
    window, known = seen.window, seen.known
    moving = seen.moving()
    read = seen.looked_at(moving, params)
    new = read.take(read.end_ns >= window.start_ns)
    # A window without any flow is worked only where those who wait for more have given up.
    until_ns = min(window.end_ns, int(new.end_ns.max())) if len(new) and not seen.is_whole else window.end_ns
    exporters = clocks.estimate(new, seen.clocks, params.clocks, topology.server)
    del new  # a copy
    offsets = seen.clocks.followed_by(exporters, window.start_ns)
    ticks_ns = moving.ticks_ns()
    blurs_ns = clocks.blurs_ns(ticks_ns, params.clocks)
    seen_all = find_ways(known.without_past(clocks.correct(read, offsets, params.clocks)), topology, params.observe)
    shared = seen_all.shared()
    blur_ns = blur_of(seen_all, shared, blurs_ns)
    flows = elect_among(seen_all, shared, blur_ns)
    earlier = EarlierFlows(read, window.start_ns, offsets, known, blur_ns, params.clocks)
    bursts = read_bursts(flows, blurs_ns, ticks_ns, params.observe)
    timeouts = infer_timeouts(moving, params.timeouts)
    coarse = coarse_pairs(bursts, flows, timeouts, params.merged)
    exporters = exporters.closing_after(timeouts)
    by_pair = FlowsByPair.of(flows)
    return Observed(window, until_ns, seen.flows, read, by_pair, earlier, bursts, coarse, timeouts, exporters, known)
