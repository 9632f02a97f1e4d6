"""Windows of flows worked one after the other in memory, each going on from what the one before it left."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from prism_ch.analysis.lookback import read_window
from prism_ch.analysis.window import analyse_window
from prism_ch.model.finding import Finding
from prism_ch.model.flow import FlowBatch
from prism_ch.model.flow_span import FlowSpan, ReadFlows
from prism_ch.model.incident import Incident
from prism_ch.model.memory import JobRevision, WindowMemory, WindowRevision
from prism_ch.model.params import Params
from prism_ch.model.result import GpuSteps, Steps, Timeline
from prism_ch.model.topology import Topology
from prism_ch.model.window import Window

SECOND = 10**9
PARAMS = Params()


@dataclass
class FlowsInMemory:
    """A source of flows that holds them all, as a database would; `rows_read` counts those that were asked for."""

    flows: FlowBatch
    rows_read: int = 0

    def read(self, span: FlowSpan) -> FlowBatch:
        """Return the flows of a span."""
        found = self._of(span)
        self.rows_read += len(found)
        return found

    def _of(self, span: FlowSpan) -> FlowBatch:
        found = self.flows.take((self.flows.end_ns >= span.time.start_ns) & (self.flows.end_ns < span.time.end_ns))
        if span.since_ns is not None:
            found = found.take(found.end_ns >= np.maximum(span.since_ns[found.src], span.since_ns[found.dst]))
        if span.endpoints is None:
            return found
        ends = span.endpoints[found.src].astype(int) + span.endpoints[found.dst]
        if span.across is None:
            return found.take(ends == 2)
        return found.take((ends == 1) & (span.across[found.src] | span.across[found.dst]))


@dataclass
class Published:
    """What readers see of one job: the newest revision, and of every step the newest row."""

    last: JobRevision
    steps: Steps = field(default_factory=Steps.empty)
    gpu_steps: GpuSteps = field(default_factory=GpuSteps.empty)
    timeline: Timeline = field(default_factory=Timeline.empty)
    findings: dict[str, Finding] = field(default_factory=dict)

    def publish(self, revision: JobRevision) -> None:
        """Replace what the revision replaces."""
        self.last = revision
        first = revision.from_step
        self.steps = Steps.concat([self.steps.take(self.steps.step < first), revision.steps])
        gpu = GpuSteps.concat([self.gpu_steps.take(self.gpu_steps.step < first), revision.gpu_steps])
        self.gpu_steps = gpu.take(np.lexsort((gpu.step, gpu.endpoint)))
        phases = Timeline.concat([self.timeline.take(self.timeline.step < first), revision.timeline.rows()])
        self.timeline = phases.take(np.lexsort((phases.start_ns, phases.endpoint)))
        older = {key: one for key, one in self.findings.items() if one.start_ns < revision.from_time_ns}
        self.findings = older | {one.diagnosis_id: one for one in revision.findings}


@dataclass
class Results:
    """What all windows left behind, for readers and for the next window."""

    jobs: dict[str, Published] = field(default_factory=dict)
    cluster: dict[str, Finding] = field(default_factory=dict)
    incidents: dict[str, Incident] = field(default_factory=dict)
    memory: WindowMemory = field(default_factory=WindowMemory)
    read: ReadFlows = field(default_factory=ReadFlows)
    rows_read: int = 0

    @property
    def only(self) -> Published:
        """The one job there is."""
        (job,) = self.jobs.values()
        return job


def work(
    batch: FlowBatch, topology: Topology, window_s: int, params: Params = PARAMS, until_ns: int | None = None
) -> Results:
    """Work every window from the first flow on, up to the last one or `until_ns`, whether it holds flows or not."""
    results = Results()
    width = window_s * SECOND
    start = int(batch.end_ns.min()) // width * width
    stop = int(batch.end_ns.max()) + 1 if until_ns is None else until_ns
    for begin in range(start, stop, width):
        work_window(results, batch, topology, Window(begin, begin + width), params, is_whole=begin + width <= stop)
    return results


def work_window(
    results: Results, batch: FlowBatch, topology: Topology, window: Window, params: Params, *, is_whole: bool = False
) -> WindowRevision:
    """Work one window and publish what it says, which is returned; `is_whole`: all up to its end is there.

    No job may fail.
    """
    known, source = results.memory, FlowsInMemory(batch)
    flows = read_window(source, window, known, topology, params, is_whole=is_whole, before=results.read)
    results.read, results.rows_read = flows.read, results.rows_read + source.rows_read
    found, results.memory = analyse_window(flows, results.memory, topology, params)
    assert not found.failures
    for revision in found.jobs:
        results.jobs.setdefault(revision.job.job_id, Published(revision)).publish(revision)
    for job_id in found.withdrawn:
        del results.jobs[job_id]
    results.cluster |= {one.diagnosis_id: one for one in found.findings}
    whole = results.incidents | {one.incident_id: one for one in found.incidents if not one.tenant}
    results.incidents = {name: one for name, one in whole.items() if not one.is_withdrawn}
    return found
