"""Which pairs make a job."""

from __future__ import annotations

from dataclasses import dataclass

from prism_ch.model.params.shared import SharedParams


@dataclass(frozen=True, slots=True)
class RecogniseParams(SharedParams):
    """Which pairs make a job."""

    #: Share of a pair's payload at either end that its time does not count, or a barrier at the end would stretch a
    #: broadcast at the beginning.
    payload_tail: float = 0.05
    #: A pair that is silent for this many times its longest usual silence is away: steps vary less.
    absence_silences: float = 1.5
    #: A pair with a smaller share of the payload of either endpoint's main pair is bookkeeping of the training.
    min_pair_share: float = 1e-4
    #: Rails of one job step together: their activity over time correlates by this much. Jobs that merely share servers
    #: do not.
    co_activity_min: float = 0.6
    #: Parts that step together for as many steps are one job: those of two jobs drift apart, a little
    #: more with every step.
    lockstep_steps: int = 24
    #: Parts whose records run on show no activity; they are one job if servers move this share of the same volumes in
    #: both.
    same_volume_min: float = 0.8
