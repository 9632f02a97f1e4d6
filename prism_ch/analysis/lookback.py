"""Lookback: which flows before a window it has to read, and where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np

from prism_ch.analysis.executor import let_go
from prism_ch.analysis.observe import clocks
from prism_ch.analysis.observe.known_jobs import KnownJobs, first_looked_at_ns
from prism_ch.analysis.observe.observe import WindowFlows
from prism_ch.model.columns import Bool, Int64
from prism_ch.model.exporter import ExporterHistory
from prism_ch.model.flow import FlowBatch
from prism_ch.model.flow_span import FlowSpan, ReadFlows
from prism_ch.model.memory import JobMemory, WindowMemory
from prism_ch.model.params import ContinueParams, Params
from prism_ch.model.topology import Topology
from prism_ch.model.window import Interval, Window

#: Before the first window.
NOTHING_READ = ReadFlows()


class FlowSource(Protocol):
    """Where the flows of a window come from: a database, or memory."""

    def read(self, span: FlowSpan) -> FlowBatch:
        """Return the flows of a span, exact repeats folded, sorted as a FlowBatch is."""


def read_window(
    source: FlowSource,
    window: Window,
    memory: WindowMemory,
    topology: Topology,
    params: Params,
    *,
    is_whole: bool = False,
    before: ReadFlows = NOTHING_READ,
) -> WindowFlows:
    """Read a window's flows, and those before it that its jobs need.

    Parameters: `is_whole`: all up to its end have arrived; `before`, flows that need not be read again.
    """
    own = source.read(FlowSpan(window))
    known = KnownJobs.of(memory, window, own, topology, params.going_on)
    spans, history = lookback(own, window, known, memory.exporters, topology, params)
    parts = [own, *(part for span in spans for part in (before.of(span), *map(source.read, before.lacks(span))))]
    del own  # what is joined below is held by nobody else
    read = ReadFlows((FlowSpan(window), *spans), FlowBatch.concat(let_go(parts)))
    return WindowFlows(window, read, history, known, is_whole)


def lookback(
    own: FlowBatch, window: Window, known: KnownJobs, clocks_known: ExporterHistory, topology: Topology, params: Params
) -> tuple[list[FlowSpan], ExporterHistory]:
    """Return the spans of flows to read besides a window's own, and the clocks.

    A job is one machine: where a window holds traffic of some of its endpoints, all of them are looked back at. New
    endpoints may have begun with members of a settled job before the window: they are looked back at together.

    1. Of a settled job in the window, some steps: each for as long as its own take.
    2. Of a young one, all since its attempt began, kept until it is looked at again; of endpoints in no job, some
       minutes.
    3. Of a job at rest, the traffic that shows how long its rests usually are, and what it exchanged with storage.
    4. What members of jobs in the window exchanged with endpoints that are idle now.
    """
    params_of = params.going_on
    settled = [job for job in known.active if not job.attempt.is_young(params_of)]
    young = [job for job in known.active if job.attempt.is_young(params_of)]
    moving = np.zeros(len(topology), dtype=bool)
    moving[own.src] = moving[own.dst] = True
    in_jobs, in_settled = _members(known.jobs, topology), _members(settled, topology)
    newcomers = (moving | _members(young, topology)) & ~in_settled
    looked_back = [*settled, *(job for job in young if not job.is_unresolved)]
    newcomers_ns = window.start_ns - params_of.newcomer_lookback_s * 10**9
    lookback_ns = min([newcomers_ns, *(job.read_from_ns(params_of) for job in looked_back)])
    remembered_ns = window.start_ns - params.clocks.remembered_s * 10**9
    history = clocks_known.since(min(remembered_ns, lookback_ns))
    margin_ns = clocks.reach_ns(history, params.clocks)
    from_ns = [job.read_from_ns(params_of) - margin_ns for job in settled]
    since_ns = np.minimum(first_looked_at_ns(settled, from_ns, len(topology)), window.start_ns)
    since_ns[newcomers] = lookback_ns - margin_ns
    # A job at rest may still exchange data with storage, which is in no job.
    with_resting = (_members(known.resting, topology) | ~in_jobs) & ~in_settled & ~newcomers
    read_from_ns = min((job.read_from_ns(params_of) for job in known.active), default=window.start_ns)
    spans = [
        *_span(_rests_since_ns(known.resting, window, params_of), window.start_ns, with_resting),
        *_span(int(since_ns.min(initial=window.start_ns)), window.start_ns, in_settled | newcomers, since_ns=since_ns),
    ]
    idle = ~(in_jobs | moving)
    if idle.any():
        spans.extend(_span(read_from_ns, window.start_ns, _members(known.active, topology), across=idle))
    return spans, history


def _span(
    start_ns: int, end_ns: int, endpoints: Bool, across: Bool | None = None, since_ns: Int64 | None = None
) -> Iterator[FlowSpan]:
    """Yield a span unless there is nothing in it."""
    if endpoints.any() and start_ns < end_ns:
        yield FlowSpan(Interval(start_ns, end_ns), endpoints, across, since_ns)


def _rests_since_ns(resting: Sequence[JobMemory], window: Window, params: ContinueParams) -> int:
    """Return since when traffic of resting jobs shows how long their rests usually are."""
    return min(
        (int(job.steps.start_ns[-min(params.recent_steps, len(job.steps))]) for job in resting),
        default=window.start_ns,
    )


def _members(jobs: Iterable[JobMemory], topology: Topology) -> Bool:
    """Mask the endpoints that are in one of the jobs, bool[endpoints]."""
    member = np.zeros(len(topology), dtype=bool)
    for job in jobs:
        member[job.members.endpoint] = True
    return member
