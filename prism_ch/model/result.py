"""What analysis finds about a job, as columns: the rows of the result tables before they are written.

Endpoints are rows of the Topology the analysis ran with; times are nanoseconds since the epoch; durations are seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from prism_ch.core.arrays import order_by
from prism_ch.model.columns import Columns, Float64, Int32, Int64, Ragged, UInt8

#: Codes of a pair's kind, in the order of the contract's Enum; the code is the position.
PAIR_KINDS = ("DP", "PP", "EP", "CP", "TP", "other")
DP, PP, EP, CP, TP, OTHER = range(6)

#: Codes of a phase inside a step.
PHASES = ("compute", "PP", "DP", "EP", "CP", "TP")

JobStatus = Literal["running", "stalled", "ended"]


@dataclass(frozen=True, slots=True)
class Members(Columns):
    """The endpoints of a job; `dp_group` is the group_id of its DP group, `pp_stage` counts from 0."""

    endpoint: Int32
    dp_group: Int32
    pp_stage: Int32
    first_seen_ns: Int64
    last_seen_ns: Int64


@dataclass(frozen=True, slots=True)
class Pairs(Columns):
    """Directed pairs of endpoints; `kind` is a position in PAIR_KINDS, `confidence` is in 0..1."""

    src: Int32
    dst: Int32
    kind: UInt8
    confidence: Float64
    flows: Int64
    bytes: Int64
    first_seen_ns: Int64
    last_seen_ns: Int64


@dataclass(frozen=True, slots=True)
class Group:
    """Endpoints joined by traffic of one kind, a position in PAIR_KINDS; a PP group's members are in stage order."""

    group_id: int
    kind: int
    pp_stage: int
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Steps(Columns):
    """One row a training step.

    `slowest` are the endpoints that were ready last and can't be told apart, none where nothing tells; `complete` is 0
    where the step's beginning was not seen.
    """

    step: Int64
    start_ns: Int64
    end_ns: Int64
    compute_s: Float64
    pp_s: Float64
    dp_s: Float64
    slowest: Ragged
    complete: UInt8

    @property
    def duration_s(self) -> Float64:
        """Durations, float64[n]."""
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(frozen=True, slots=True)
class GpuSteps(Columns):
    """One row an endpoint and step, sorted by (endpoint, step)."""

    endpoint: Int32
    step: Int64
    start_ns: Int64
    end_ns: Int64
    compute_s: Float64
    pp_s: Float64
    dp_s: Float64
    complete: UInt8

    @property
    def duration_s(self) -> Float64:
        """Durations, float64[n]."""
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(frozen=True, slots=True)
class GpuIdle(Columns):
    """One row a GPU-step: of its compute time, waiting for others, and of that what the schedule leaves idle.

    NaN where it is not known.
    """

    idle_s: Float64
    bubble_s: Float64


@dataclass(frozen=True, slots=True)
class Timeline(Columns):
    """Phases that tile every endpoint's steps, sorted by (endpoint, start_ns); `phase` is a position in PHASES."""

    endpoint: Int32
    step: Int64
    phase: UInt8
    start_ns: Int64
    end_ns: Int64


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """A job's steps, the same for each endpoint, and the phases that tile them."""

    steps: Steps
    gpu_steps: GpuSteps
    timeline: Timeline

    @classmethod
    def concat(cls, parts: Sequence[Reconstruction]) -> Reconstruction:
        """Return the steps of all parts, one after the other."""
        gpu_steps = GpuSteps.concat([part.gpu_steps for part in parts])
        timeline = Timeline.concat([part.timeline for part in parts])
        return cls(
            Steps.concat([part.steps for part in parts]),
            gpu_steps.take(order_by(gpu_steps.endpoint, gpu_steps.step)),
            timeline.take(order_by(timeline.endpoint, timeline.start_ns)),
        )


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One row of `jobs`; the counts of endpoints and servers follow from the members."""

    job_id: str
    tenant: str
    status: JobStatus
    first_seen_ns: int
    last_seen_ns: int
    dp_size: int
    pp_size: int
    steps: int
    step_s_median: float
