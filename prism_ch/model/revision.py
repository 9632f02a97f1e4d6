"""What one working of a window says: rows to publish, and what to remember beside them."""

from __future__ import annotations

from dataclasses import dataclass, field

from prism_ch.model.exporter import ExporterStates
from prism_ch.model.finding import Finding
from prism_ch.model.memory import Attempt, UsualComputeTime
from prism_ch.model.result import GpuSteps, Group, JobRecord, Members, Pairs, Steps, Timeline


@dataclass(frozen=True, slots=True)
class JobRevision:
    """All that one working of a window says of a job.

    `job`, `members`, `pairs` and `groups` are whole, with cumulative values. `steps`, `gpu_steps` and `timeline` hold
    the steps from `from_step` on and replace whatever was published from there; `findings` hold those that are open
    or changed, and replace those that start at or after `from_time_ns`. `attempt` and `usual_compute` are remembered.
    """

    job: JobRecord
    members: Members
    pairs: Pairs
    groups: tuple[Group, ...]
    from_step: int
    from_time_ns: int
    steps: Steps = field(default_factory=Steps.empty)
    gpu_steps: GpuSteps = field(default_factory=GpuSteps.empty)
    timeline: Timeline = field(default_factory=Timeline.empty)
    findings: tuple[Finding, ...] = ()
    attempt: Attempt = field(default_factory=Attempt)
    usual_compute: UsualComputeTime = field(default_factory=UsualComputeTime)


@dataclass(frozen=True, slots=True)
class WindowRevision:
    """All that one working of a window says.

    `withdrawn` are known jobs that turned out to be parts of others; `findings` are about no single job and replace
    those that start in the window or later; `exporters`, what the window shows of them.
    """

    jobs: tuple[JobRevision, ...]
    withdrawn: tuple[str, ...]
    findings: tuple[Finding, ...]
    exporters: ExporterStates
