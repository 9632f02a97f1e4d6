"""A job in one window: its members, the kinds of its traffic, its groups, its steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism_ch.model.columns import Bool, Float64, Int32, Int64, UInt8, freeze
from prism_ch.model.result import DP, PP, Group
from prism_ch.model.traffic import Traffic

#: Times before and after all others, in nanoseconds.
ALWAYS_NS, FOREVER_NS = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class RecognisedJob:
    """One job as a window's traffic shows it, or one life of it.

    `endpoints` are rows of the Topology, sorted, int32[n]. `job_id` is that of the known job it continues, or a new
    one. What its endpoints move is its own where it ends in [begin_ns, end_ns), and training from `steady_ns` on; where
    it took over endpoints from a life that ended, it `follows` that, by its job_id.
    """

    job_id: str
    tenant: str
    endpoints: Int32
    known: bool
    begin_ns: int = ALWAYS_NS
    end_ns: int = FOREVER_NS
    steady_ns: int = ALWAYS_NS
    follows: str = ""

    @property
    def is_over(self) -> bool:
        """Whether another life took over endpoints from this one."""
        return self.end_ns < FOREVER_NS

    def __post_init__(self) -> None:
        """Freeze the members."""
        members = np.array(self.endpoints, dtype=np.int32)
        members.flags.writeable = False
        object.__setattr__(self, "endpoints", members)


@dataclass(frozen=True, slots=True)
class PairKinds:
    """The kinds of a Traffic's pairs and bursts, each a position in PAIR_KINDS.

    `kind` uint8[pairs], that of most of the pair's payload, and the `confidence` float64[pairs] in it; `burst`
    uint8[n].
    """

    kind: UInt8
    confidence: Float64
    burst: UInt8

    def __post_init__(self) -> None:
        """Check and freeze the columns."""
        freeze(self, kind=np.uint8, confidence=np.float64)
        freeze(self, burst=np.uint8)

    def of_kind(self, traffic: Traffic, kind: int) -> Traffic:
        """Return the bursts of one kind, with the pair table cut down to their pairs."""
        chosen = traffic.take(self.burst == kind)
        return chosen.keep_pairs(np.bincount(chosen.pair, minlength=len(traffic.pair_src)) > 0)

    @property
    def closing(self) -> int:
        """The kind of traffic that closes a step: data-parallel, or pipeline where there is none."""
        return DP if (self.burst == DP).any() else PP


@dataclass(frozen=True, slots=True)
class GroupSet:
    """The communicators of a job as the network shows them.

    `endpoints` int32[n] are the job's members, sorted; `dp_group` and `pp_stage` int32[n] run beside them: the
    group_id of the member's DP group and its pipeline stage, 0 the first. A member without DP traffic has a DP group
    of its own.
    """

    endpoints: Int32
    dp_group: Int32
    pp_stage: Int32
    groups: tuple[Group, ...]

    def __post_init__(self) -> None:
        """Check and freeze the columns."""
        freeze(self, endpoints=np.int32, dp_group=np.int32, pp_stage=np.int32)

    def stage_of(self, endpoints: npt.ArrayLike) -> Int32:
        """Return the pipeline stage of some members, int32[k]."""
        return self.pp_stage[np.searchsorted(self.endpoints, endpoints)]

    @property
    def largest_role(self) -> int:
        """Count the members of the pipeline stage that has most: they do the same work."""
        return int(np.unique_counts(self.pp_stage).counts.max(initial=0))


@dataclass(frozen=True, slots=True)
class Division:
    """Where each step ends on each endpoint.

    `endpoints` int32[m], sorted; `end_ns` int64[m, k], rising along a row; `whole` bool[k], False where a step's
    beginning was not seen. There are no steps where k is 0.
    `regular` says how much alike the steps are in size and in time, beyond chance, in 0..1; 1 where that can't be told.
    """

    endpoints: Int32
    end_ns: Int64
    whole: Bool
    regular: float = 1.0

    def __post_init__(self) -> None:
        """Check the shapes and freeze the arrays."""
        if self.end_ns.shape != (len(self.endpoints), len(self.whole)):
            raise ValueError(
                f"end_ns has shape {self.end_ns.shape} for {len(self.endpoints)} endpoints and {len(self.whole)} steps"
            )
        for column in (self.endpoints, self.end_ns, self.whole):
            column.flags.writeable = False

    @property
    def steps(self) -> int:
        """Count the steps."""
        return len(self.whole)

    def step_of(self, row: Int64, at_ns: Int64) -> Int64:
        """Return the step in which each moment lies, int64[n]; a step ends with its last moment.

        Parameters: `row` int64[n], the row of `endpoints` by whose steps a moment is counted; `at_ns` int64[n]. What
        comes after the last step is in step `steps`.
        """
        if self.steps == 0:
            return np.zeros(len(at_ns), dtype=np.int64)
        first = min(int(self.end_ns.min()), int(at_ns.min(initial=np.iinfo(np.int64).max)))
        span = max(int(self.end_ns.max()), int(at_ns.max(initial=0))) - first + 1
        lines = np.arange(len(self.endpoints))[:, None]
        place = np.searchsorted((lines * span + (self.end_ns - first)).ravel(), row * span + (at_ns - first))
        found: Int64 = place - row * self.steps
        return found

    def rows_of(self, endpoints: Int32) -> Int64:
        """Return the row of each of some members, int64[n]."""
        return np.searchsorted(self.endpoints, endpoints)

    def job_end_ns(self) -> Int64:
        """Return the end of each step of the job, the last of its endpoints', int64[k]."""
        latest: Int64 = self.end_ns.max(axis=0, initial=np.iinfo(np.int64).min)
        return latest

    @classmethod
    def none(cls, endpoints: Int32) -> Division:
        """Return a division without steps."""
        return cls(np.array(endpoints), np.empty((len(endpoints), 0), dtype=np.int64), np.empty(0, dtype=bool))
