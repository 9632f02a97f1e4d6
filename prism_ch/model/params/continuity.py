"""How much of the past a window looks at, and what goes on from it."""

from __future__ import annotations

from dataclasses import dataclass

from prism_ch.model.params.shared import SharedParams


@dataclass(frozen=True, slots=True)
class ContinueParams(SharedParams):
    """How much of the past a window looks at."""

    #: Endpoints in no settled job are looked at over this span: three steps of five minutes and some.
    newcomer_lookback_s: int = 1200
    #: A job that is begun anew moves as many bytes as before, but for lost records.
    same_load: float = 0.03
    #: Steps of an earlier life in which those of a later one show for what they are: layers repeat first.
    shown_steps: int = 6
    ended_after_s: int = 600
