"""Which endpoints form which job."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.model.columns import Int32


@dataclass(frozen=True, slots=True)
class RecognisedJob:
    """One job as a window's traffic shows it.

    `endpoints` are rows of the Topology, sorted, int32[n]. `job_id` is that of the known job it continues, or a new
    one.
    """

    job_id: str
    tenant: str
    endpoints: Int32
    known: bool

    def __post_init__(self) -> None:
        """Freeze the members."""
        members = np.array(self.endpoints, dtype=np.int32)
        members.flags.writeable = False
        object.__setattr__(self, "endpoints", members)
