"""Who is data- and pipeline-parallel with whom, in one job."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism_ch.model.columns import Float64, Int32, UInt8, freeze
from prism_ch.model.result import DP, PP, Group
from prism_ch.model.traffic import Traffic


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
