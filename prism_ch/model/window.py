"""A span of time that is worked as one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """A half-open span [start_ns, end_ns) of the time at which flows end, nanoseconds since the epoch."""

    start_ns: int
    end_ns: int

    def __post_init__(self) -> None:
        """Refuse an empty or inverted window."""
        if self.end_ns <= self.start_ns:
            raise ValueError(f"window ends at {self.end_ns}, which is not after its start {self.start_ns}")
