"""A job in one window: its members, the kinds of its traffic, its groups, its steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism_ch.core.search import group_search
from prism_ch.model.columns import Bool, Float64, Int32, Int64, UInt8, freeze
from prism_ch.model.result import DP, PP, Group
from prism_ch.model.traffic import Traffic

#: Times before and after all others, in nanoseconds.
ALWAYS_NS, FOREVER_NS = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class RecognisedJob:
    """One job as a window's traffic shows it, or one attempt of it.

    `endpoints` int32[n] are rows of the Topology, sorted. `job_id` is that of the known job it continues, or a new one.
    What its endpoints move is its own where it ends in [begin_ns, end_ns), and training from `steady_ns` on. `follows`
    is the job_id of the attempt from which it took over endpoints, if any.
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
        """Whether another attempt took over endpoints from this one."""
        return self.end_ns < FOREVER_NS

    def __post_init__(self) -> None:
        members = np.array(self.endpoints, dtype=np.int32)
        members.flags.writeable = False
        object.__setattr__(self, "endpoints", members)


@dataclass(frozen=True, slots=True)
class PairKinds:
    """The kinds of a Traffic's pairs and bursts, each a position in PAIR_KINDS.

    `kind` uint8[pairs] is that of most of the pair's payload, `confidence` float64[pairs]; `burst` uint8[n].
    """

    kind: UInt8
    confidence: Float64
    burst: UInt8

    def __post_init__(self) -> None:
        freeze(self, kind=np.uint8, confidence=np.float64)
        freeze(self, burst=np.uint8)

    def of_kind(self, traffic: Traffic, kind: int) -> Traffic:
        """Return the bursts of one kind, with the pair table cut down to their pairs."""
        chosen = traffic.take(self.burst == kind)
        return chosen.without_silent_pairs()

    @property
    def closing(self) -> int:
        """The kind of traffic that closes a step: data-parallel, or pipeline where there is none."""
        return DP if (self.burst == DP).any() else PP


@dataclass(frozen=True, slots=True)
class GroupSet:
    """The communicators of a job as the network shows them.

    `endpoints` int32[n] are the job's members, sorted; `dp_group` int32[n] is the group_id of each member's DP group,
    one of its own without DP traffic; `pp_stage` int32[n] is its pipeline stage, 0 the first.
    """

    endpoints: Int32
    dp_group: Int32
    pp_stage: Int32
    groups: tuple[Group, ...]

    def __post_init__(self) -> None:
        freeze(self, endpoints=np.int32, dp_group=np.int32, pp_stage=np.int32)

    def stage_of(self, endpoints: npt.ArrayLike) -> Int32:
        """Return the pipeline stage of some members, int32[k]."""
        return self.pp_stage[np.searchsorted(self.endpoints, endpoints)]

    @property
    def largest_role(self) -> int:
        """Count the members of the largest pipeline stage: they compute the same."""
        return int(np.unique_counts(self.pp_stage).counts.max(initial=0))


@dataclass(frozen=True, slots=True)
class Division:
    """Where each step ends on each endpoint.

    `endpoints` int32[m], sorted; `end_ns` int64[m, k], rising along a row; `whole` bool[k], False where a step's
    beginning was not seen. `regular`, in 0..1, is how much alike the steps are in size and in time beyond the null
    model; 1 where that is unknown.
    """

    endpoints: Int32
    end_ns: Int64
    whole: Bool
    regular: float = 1.0

    def __post_init__(self) -> None:
        if self.end_ns.shape != (len(self.endpoints), len(self.whole)):
            raise ValueError(
                f"end_ns has shape {self.end_ns.shape} for {len(self.endpoints)} endpoints and {len(self.whole)} steps"
            )
        for column in (self.endpoints, self.end_ns, self.whole):
            column.flags.writeable = False

    @property
    def steps(self) -> int:
        """Their number."""
        return len(self.whole)

    def step_of(self, row: Int64, at_ns: Int64) -> Int64:
        """Find the step of each moment, int64[n]; `steps` after the last one.

        Parameters: `row` int64[n], the row of `endpoints` by whose steps a moment is counted; `at_ns` int64[n]. A step
        ends with its last moment.
        """
        if self.steps == 0:
            return np.zeros(len(at_ns), dtype=np.int64)
        lines = np.repeat(np.arange(len(self.endpoints), dtype=np.int32), self.steps)
        return group_search(lines, self.end_ns.ravel(), row.astype(np.int32), at_ns - 1) - row * self.steps

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
