"""What steps would have taken without something that slows them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WhatIf:
    """One row of `what_if` (contract): some steps of a job as they were, as replayed, and as replayed without a cause.

    `without` names the cause; `incident_id` is empty where it is none. Steps take `actual_s`, in a replay with nothing
    changed `replayed_s`, without the cause `without_s`, in seconds over all of them; `saved_gpu_h` is the difference of
    the two replays, over all GPUs.
    """

    job_id: str
    tenant: str
    incident_id: str
    without: str
    first_step: int
    last_step: int
    actual_s: float
    replayed_s: float
    without_s: float
    saved_gpu_h: float
