"""What the analysis remembers from one window to the next: of each job, of exporters, of what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prism_ch.model.exporter import ExporterHistory
from prism_ch.model.finding import Finding
from prism_ch.model.params import ContinueParams, Params
from prism_ch.model.result import GpuSteps, Group, JobRecord, Members, Pairs, Steps
from prism_ch.model.window import Window


@dataclass(frozen=True, slots=True)
class Attempt:
    """The newest attempt of a job: its first step, since when its traffic counts, how many groups came before it.

    All are 0 for a job that was never restarted. `even_until` counts the steps that say what a step is where the
    attempt became slow while it was young; else it is 0.
    """

    first_step: int = 0
    begin_ns: int = 0
    earlier_groups: int = 0
    even_until: int = 0


@dataclass(frozen=True, slots=True)
class UsualComputeTime:
    """How long endpoints, by address, usually computed in a step, in seconds, as measured at `found_ns`.

    `needs` says which inputs a pipeline's outputs were found to wait for, see ComputeTime.
    """

    found_ns: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    needs: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobMemory:
    """What is known of a job before a window.

    `job`, `members`, `pairs` and `groups` are those of its last revision, `findings` those still open. `steps` and
    `gpu_steps` hold the newest steps, oldest first, and `baseline_steps` a few of the hour before them.
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

    def is_settled(self, params: ContinueParams) -> bool:
        """Whether enough steps of the newest attempt are known to add new ones, rather than find all again."""
        return self.job.steps - self.attempt.first_step >= params.settled_steps

    def context_start_ns(self, params: ContinueParams) -> int:
        """Return from when on a settled job's traffic is looked at: some steps back."""
        return int(self.steps.start_ns[-params.recent_steps])

    def looked_at_from_ns(self, params: ContinueParams) -> int:
        """Return from when on the job's traffic is looked at: some steps back, or a young attempt's beginning."""
        if self.is_settled(params):
            return self.context_start_ns(params)
        return max(self.attempt.begin_ns, self.job.first_seen_ns)

    @property
    def is_unresolved(self) -> bool:
        """Whether no step is known because the job's records run on over many.

        Its pairs are counted on then, and not found again from the beginning.
        """
        return len(self.steps) == 0 and any(finding.kind == "telemetry" for finding in self.findings)


def clocks_since_ns(window: Window, jobs: Iterable[JobMemory], params: Params) -> int:
    """Return from when on a window may need to know what was found of exporters' clocks."""
    span_s = max(params.clocks.remembered_s, params.going_on.newcomer_lookback_s)
    live = [job for job in jobs if job.job.status != "ended" and len(job.steps)]
    return min([window.start_ns - span_s * 10**9, *(job.looked_at_from_ns(params.going_on) for job in live)])


@dataclass(frozen=True, slots=True)
class WindowMemory:
    """All that was known before a window: jobs by job_id, open findings about no single job, and exporters' clocks."""

    jobs: tuple[JobMemory, ...] = ()
    findings: tuple[Finding, ...] = ()
    exporters: ExporterHistory = field(default_factory=ExporterHistory.none)
