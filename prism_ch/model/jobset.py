"""Which endpoints form which job."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.model.columns import Int32

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
