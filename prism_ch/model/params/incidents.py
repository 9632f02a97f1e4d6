"""What an incident costs, and what is one incident."""

from __future__ import annotations

from dataclasses import dataclass

from prism_ch.model.params.shared import SharedParams


@dataclass(frozen=True, slots=True)
class IncidentParams(SharedParams):
    """What an incident costs, and what is one incident."""

    #: GPU-seconds lost from which a person should look, and look now: 10 GPU-minutes and 10 GPU-hours (contract).
    warning_gpu_s: float = 600.0
    critical_gpu_s: float = 36_000.0
    #: What is wrong again at the same place within as many seconds is the same incident: as long a job may be silent
    #: before it is over.
    quiet_s: int = 600
    #: What is slow in a job may be named otherwise up to this many seconds after it was seen last: windows judge it
    #: anew, and some see less of it than others. What begins later at another place is something else.
    renamed_s: int = 30
