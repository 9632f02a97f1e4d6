"""What analysis finds about a job, as columns: the rows of the result tables before they are written.

Endpoints are rows of the Topology the analysis ran with; times are nanoseconds since the epoch; durations are seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from prism_ch.core.arrays import order_by, run_starts
from prism_ch.model.columns import Columns, Float64, Int32, Int64, Ragged, UInt8, freeze

#: Codes of a pair's kind, in the order of the contract's Enum; the code is the position.
PAIR_KINDS = ("DP", "PP", "EP", "CP", "TP", "other")
DP, PP, EP, CP, TP, OTHER = range(6)
#: Kinds of traffic inside operations: what ranks exchange while they compute a microbatch.
INNER = (EP, CP, TP)

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
class PackedTimeline:
    """The phases of a Timeline, by the GPU-steps that they tile, sorted by (endpoint, start_ns).

    A GPU-step is a row of `endpoint` int32[n], `step` and `start_ns` int64[n]; its phases are rows first[row] to
    first[row + 1] of `phase` uint8[m] and `length_ns` [m], in whole numbers as narrow as the longest allows. There are
    more phases than flows: packed they take a fifth of what rows do.
    """

    endpoint: Int32
    step: Int64
    start_ns: Int64
    first: Int64
    phase: UInt8
    length_ns: npt.NDArray[np.integer[Any]]

    def __post_init__(self) -> None:
        freeze(self, endpoint=np.int32, step=np.int64, start_ns=np.int64)
        freeze(self, first=np.int64)
        narrow = np.uint32 if self.length_ns.max(initial=0) < 2**32 else np.int64
        freeze(self, phase=np.uint8, length_ns=narrow)

    def __len__(self) -> int:
        return len(self.phase)

    @classmethod
    def of(cls, phases: Timeline) -> PackedTimeline:
        """Pack phases."""
        first = run_starts(phases.endpoint, phases.step)
        of_step = phases.endpoint[first], phases.step[first], phases.start_ns[first]
        length_ns = phases.end_ns - phases.start_ns
        return cls(*of_step, np.append(first, len(phases)), phases.phase, length_ns)

    def rows(self) -> Timeline:
        """Return the phases, one a row."""
        count = np.diff(self.first)
        length_ns = self.length_ns.astype(np.int64)
        passed = np.cumsum(length_ns)
        before = passed - length_ns
        start_ns = before + np.repeat(self.start_ns - before[self.first[:-1]], count)
        endpoint, step = np.repeat(self.endpoint, count), np.repeat(self.step, count)
        return Timeline(endpoint, step, self.phase, start_ns, start_ns + length_ns)

    @classmethod
    def concat(cls, parts: Sequence[PackedTimeline]) -> PackedTimeline:
        """Return the phases of all parts, sorted."""
        if len(parts) == 1:
            return parts[0]
        rows = Timeline.concat([Timeline.empty(), *(part.rows() for part in parts)])
        return cls.of(rows.take(order_by(rows.endpoint, rows.start_ns)))

    @classmethod
    def empty(cls) -> PackedTimeline:
        """Return it without phases."""
        return cls.of(Timeline.empty())


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """A job's steps, the same for each endpoint, and the phases that tile them."""

    steps: Steps
    gpu_steps: GpuSteps
    timeline: PackedTimeline

    @classmethod
    def concat(cls, parts: Sequence[Reconstruction]) -> Reconstruction:
        """Return the steps of all parts, one after the other."""
        gpu_steps = GpuSteps.concat([part.gpu_steps for part in parts])
        return cls(
            Steps.concat([part.steps for part in parts]),
            gpu_steps.take(order_by(gpu_steps.endpoint, gpu_steps.step)),
            PackedTimeline.concat([part.timeline for part in parts]),
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
