"""Notices that the clock of this machine was set: a scheduler that waits for a time of day would wait on."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Less is the ordinary steering of a clock, in seconds.
JUMP_S = 2.0


class ClockWatch:
    """Compares the time of day with a clock that nobody sets."""

    def __init__(self, day: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._day = day
        self._steady = steady
        self._offset = day() - steady()

    def jump_s(self) -> float:
        """Return by how much the clock was set since the last call, in seconds; 0 where it was not."""
        offset = self._day() - self._steady()
        jump = offset - self._offset
        self._offset = offset
        return jump if abs(jump) > JUMP_S else 0.0
