"""Windows of flows worked one after the other in memory, each going on from what the one before it left."""

from __future__ import annotations

from dataclasses import dataclass, field
from unittest import mock

import numpy as np

from prism_ch import examine, pipeline
from prism_ch.model.columns import Int32
from prism_ch.model.exporter import ExporterHistory
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import ContinueParams, Params
from prism_ch.model.result import Diagnosis, GpuSteps, JobRevision, JobState, Steps, Timeline
from prism_ch.model.step_history import StepHistory
from prism_ch.model.topology import Topology
from prism_ch.model.window import Window

SECOND = 10**9
PARAMS = Params()


@dataclass
class Published:
    """What readers see of one job: the newest revision, and of every step the newest row."""

    last: JobRevision
    steps: Steps = field(default_factory=Steps.empty)
    gpu_steps: GpuSteps = field(default_factory=GpuSteps.empty)
    timeline: Timeline = field(default_factory=Timeline.empty)
    diagnoses: dict[str, Diagnosis] = field(default_factory=dict)

    def publish(self, revision: JobRevision) -> None:
        """Replace what the revision replaces."""
        self.last = revision
        first = revision.from_step
        self.steps = Steps.concat([self.steps.take(self.steps.step < first), revision.steps])
        gpu = GpuSteps.concat([self.gpu_steps.take(self.gpu_steps.step < first), revision.gpu_steps])
        self.gpu_steps = gpu.take(np.lexsort((gpu.step, gpu.endpoint)))
        phases = Timeline.concat([self.timeline.take(self.timeline.step < first), revision.timeline])
        self.timeline = phases.take(np.lexsort((phases.start_ns, phases.endpoint)))
        older = {key: one for key, one in self.diagnoses.items() if one.start_ns < revision.from_time_ns}
        self.diagnoses = older | {one.diagnosis_id: one for one in revision.diagnoses}

    def state(self, params: ContinueParams) -> JobState:
        """Say what the next window knows of the job."""
        steps, older = StepHistory.of(self.last.job, params).parts(self.steps)
        recent = self.gpu_steps.take(np.isin(self.gpu_steps.step, steps.step))
        going = tuple(one for one in self.diagnoses.values() if one.status == "open")
        known = self.last
        return JobState(known.job, known.members, known.pairs, known.groups, steps, recent, going, older)


@dataclass
class Results:
    """What all windows left behind."""

    jobs: dict[str, Published] = field(default_factory=dict)
    cluster: dict[str, Diagnosis] = field(default_factory=dict)
    exporters: ExporterHistory = field(default_factory=ExporterHistory.none)

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
        work_window(results, batch, topology, Window(begin, begin + width), params)
    return results


def work_window(results: Results, batch: FlowBatch, topology: Topology, window: Window, params: Params) -> None:
    """Work one window and publish what it says."""

    def read(
        _store: None, _topology: Topology, since: int, to: int, endpoints: Int32 | None = None, beside: bool = False
    ) -> FlowBatch:
        """Hand over flows as `store.read_flows` does."""
        rows = (batch.end_ns >= since) & (batch.end_ns < to)
        if endpoints is not None:
            ends = np.isin(batch.src, endpoints).astype(int) + np.isin(batch.dst, endpoints)
            rows &= ends == (1 if beside else 2)
        return batch.take(rows)

    states = [job.state(params.going_on) for _, job in sorted(results.jobs.items())]
    going = [one for one in results.cluster.values() if one.status == "open"]
    known = results.exporters
    with mock.patch.multiple(pipeline, read_flows=read, read_exporter_history=lambda *_: known):
        seen, history = pipeline._read(None, topology, window, states, params)  # type: ignore[arg-type]
    found = examine.examine(seen, window, topology, states, going, history, params)
    for revision in found.revisions:
        job_id = revision.job.job_id
        results.jobs.setdefault(job_id, Published(revision)).publish(revision)
    for job_id in found.withdrawn:
        del results.jobs[job_id]
    results.exporters = known.followed_by(found.exporters, window.start_ns)
    results.cluster |= {one.diagnosis_id: one for one in found.cluster}
