"""What a window publishes of jobs, and what the next one remembers of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prism_ch.model.exporter import ExporterHistory, ExporterStates
from prism_ch.model.finding import Finding
from prism_ch.model.incident import Incident
from prism_ch.model.params import ContinueParams, Params
from prism_ch.model.params.shared import SharedParams
from prism_ch.model.result import GpuIdle, GpuSteps, Group, JobRecord, Members, PackedTimeline, Pairs, Steps
from prism_ch.model.what_if import WhatIf
from prism_ch.model.window import Window


@dataclass(frozen=True, slots=True)
class Attempt:
    """The newest attempt of a job: its first step, since when its traffic counts, how many groups came before it.

    These are 0 for a job that was never restarted. Where the attempt became slow while it was young, `even_until`
    counts the steps before that, which show what a step is; else it is 0. `examined` counts the steps that were found
    when all of the attempt was last looked at; `is_plain`: each pair was found to carry one kind of traffic then.
    """

    first_step: int = 0
    begin_ns: int = 0
    earlier_groups: int = 0
    even_until: int = 0
    examined: int = 0
    is_plain: bool = False

    def is_young(self, params: SharedParams) -> bool:
        """Return whether all of it is still looked at again whenever its steps have doubled."""
        return self.examined < params.settled_steps


@dataclass(frozen=True, slots=True)
class UsualComputeTime:
    """Seconds that endpoints, by address, usually computed in a step, as measured at `found_ns`.

    `needs` are the inputs that a pipeline's outputs were found to wait for, see ComputeTime.
    """

    found_ns: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    needs: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobMemory:
    """What is known of a job before a window.

    `job`, `members`, `pairs` and `groups` are those of its last revision, `findings` those still open. `steps` and
    `gpu_steps` hold the newest steps, oldest first, and `baseline_steps` a few of the hour before them. `pauses` are
    the stalls in the newest steps that are over and cost something: they may turn out to be a habit.
    """

    job: JobRecord
    members: Members
    pairs: Pairs
    groups: tuple[Group, ...]
    steps: Steps
    gpu_steps: GpuSteps
    findings: tuple[Finding, ...]
    baseline_steps: Steps = field(default_factory=Steps.empty)
    attempt: Attempt = field(default_factory=Attempt)
    usual_compute: UsualComputeTime = field(default_factory=UsualComputeTime)
    pauses: tuple[Finding, ...] = ()

    def is_settled(self, params: SharedParams) -> bool:
        """Return whether enough steps are known to add new ones, not find all again.

        A young attempt settles for a while each time all of it was looked at: until its steps reach the next power of
        two. Counted in steps, that is at the same ones however long windows are.
        """
        known, doubled = self.job.steps - self.attempt.first_step, 2 ** self.attempt.examined.bit_length()
        return not self.attempt.is_young(params) or params.recent_steps <= known < doubled

    def keeps_members(self, params: SharedParams) -> bool:
        """Return whether its parts stay together, and apart from those of other jobs."""
        return self.is_settled(params) or len(self.steps) >= params.settled_steps

    def context_start_ns(self, params: ContinueParams) -> int:
        """Return since when a settled job's traffic is looked at: some steps back."""
        return int(self.steps.start_ns[-params.recent_steps])

    def read_from_ns(self, params: ContinueParams) -> int:
        """Return since when traffic is read: some steps back, or a young attempt's beginning."""
        if not self.attempt.is_young(params):
            return self.context_start_ns(params)
        return max(self.attempt.begin_ns, self.job.first_seen_ns)

    @property
    def is_unresolved(self) -> bool:
        """Whether no step is known because records run on over many."""
        return len(self.steps) == 0 and any(finding.kind == "telemetry" for finding in self.findings)


def clocks_since_ns(window: Window, jobs: Iterable[JobMemory], params: Params) -> int:
    """Return since when a window may need to know exporters' clocks."""
    span_s = max(params.clocks.remembered_s, params.going_on.newcomer_lookback_s)
    live = [job for job in jobs if job.job.status != "ended" and len(job.steps)]
    return min([window.start_ns - span_s * 10**9, *(job.read_from_ns(params.going_on) for job in live)])


@dataclass(frozen=True, slots=True)
class WindowMemory:
    """All that was known before a window.

    That is jobs by job_id, open findings about no single job, exporters' clocks, and the incidents that are open or
    were closed a short while ago.
    """

    jobs: tuple[JobMemory, ...] = ()
    findings: tuple[Finding, ...] = ()
    exporters: ExporterHistory = field(default_factory=ExporterHistory.empty)
    incidents: tuple[Incident, ...] = ()


@dataclass(frozen=True, slots=True)
class RememberedSteps:
    """Numbers of steps: all in [recent, until), and those in [since, recent) that `stride` divides."""

    since: int
    recent: int
    until: int
    stride: int

    @classmethod
    def of(cls, job: JobRecord, params: ContinueParams) -> RememberedSteps:
        """Choose which steps of a job are read back."""
        recent = max(job.steps - params.history_steps, 0)
        reached = params.remembered_s / job.step_s_median if job.step_s_median > 0 else 0.0
        since = max(recent - round(reached), 0)
        stride = 1  # a power of two: when the history gets longer, half of the remembered steps remain
        while recent - since > stride * params.history_steps:
            stride *= 2
        return cls(since, recent, job.steps, stride)

    def pauses(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return the costly stalls of the newest steps that are over, in order."""
        over = (one for one in findings if one.kind == "stall" and one.status == "closed" and one.slowdown > 0)
        return tuple(sorted((one for one in over if one.first_step >= self.recent), key=Finding.order))

    def parts(self, steps: Steps) -> tuple[Steps, Steps]:
        """Return the newest steps, and those to keep of the ones before."""
        before = (steps.step >= self.since) & (steps.step < self.recent) & (steps.step % self.stride == 0)
        return steps.take(steps.step >= self.recent), steps.take(before)


@dataclass(frozen=True, slots=True)
class JobRevision:
    """All that one working of a window publishes of a job.

    `job`, `members`, `pairs` and `groups` are whole, with cumulative values. `steps`, `gpu_steps` and `timeline` hold
    the steps from `from_step` on and replace whatever was published from there; `findings` hold those that are open
    or changed, and replace those that start at or after `from_time_ns`. `attempt` and `usual_compute` are remembered.
    `idle` are the idle times of `gpu_steps`, row by row, none where nothing was measured; `what_ifs` are replays of the
    steps.
    """

    job: JobRecord
    members: Members
    pairs: Pairs
    groups: tuple[Group, ...]
    from_step: int
    from_time_ns: int
    steps: Steps = field(default_factory=Steps.empty)
    gpu_steps: GpuSteps = field(default_factory=GpuSteps.empty)
    timeline: PackedTimeline = field(default_factory=PackedTimeline.empty)
    findings: tuple[Finding, ...] = ()
    attempt: Attempt = field(default_factory=Attempt)
    usual_compute: UsualComputeTime = field(default_factory=UsualComputeTime)
    idle: GpuIdle = field(default_factory=GpuIdle.empty)
    what_ifs: tuple[WhatIf, ...] = ()


@dataclass(frozen=True, slots=True)
class Visibility:
    """How much of a job a window shows: `share` of its endpoints' time, and `why` not all, in words."""

    job_id: str
    tenant: str
    endpoints: int
    endpoints_seen: int
    share: float
    why: str


@dataclass(frozen=True, slots=True)
class JobFailure:
    """A job that a window could not examine, and why, in one line."""

    job_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class WindowRevision:
    """All that one working of a window publishes.

    `withdrawn` are known jobs that turned out to be parts of others; `findings` are about no single job and replace
    those that start in the window or later. `incidents` are those that are open or changed, each whole and in its
    tenants' parts; `visibility` is of all jobs that have not ended. Of `failures` nothing is published: what is known
    of them stays as it was.
    """

    jobs: tuple[JobRevision, ...]
    withdrawn: tuple[str, ...]
    findings: tuple[Finding, ...]
    exporters: ExporterStates
    incidents: tuple[Incident, ...] = ()
    visibility: tuple[Visibility, ...] = ()
    failures: tuple[JobFailure, ...] = ()
