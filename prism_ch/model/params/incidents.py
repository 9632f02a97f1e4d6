"""What an incident costs, and what is one incident."""

from __future__ import annotations

from dataclasses import dataclass

from prism_ch.model.params.shared import SharedParams


@dataclass(frozen=True, slots=True)
class IncidentParams(SharedParams):
    """What an incident costs, and what is one incident."""

    #: Lost shares of the jobs' time from which a person should look, and look now (contract).
    warning_share: float = 0.05
    critical_share: float = 0.20
    #: The lost share is taken over this number of steps at the least, so that a single slow one is not critical: steps
    #: vary, and flows contend for links. Where a GPU or server is named, `judged_steps` are enough.
    severity_steps: int = 20
    #: GPU-seconds lost from which a person should look, and look now: 10 GPU-minutes and 10 GPU-hours (contract).
    warning_gpu_s: float = 600.0
    critical_gpu_s: float = 36_000.0
    #: What is wrong again at the same place within as many seconds is the same incident: as long a job may be silent
    #: before it is over.
    quiet_s: int = 600
