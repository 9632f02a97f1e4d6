"""Spans of time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """A half-open span [start_ns, end_ns), nanoseconds since the epoch; it may be empty."""

    start_ns: int
    end_ns: int

    def __post_init__(self) -> None:
        if self.end_ns < self.start_ns:
            raise ValueError(f"the interval ends at {self.end_ns}, before its start {self.start_ns}")

    @property
    def length_ns(self) -> int:
        """Its length in nanoseconds."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True, order=True)
class Window(Interval):
    """A span of the time at which flows end that is worked as one; it is not empty."""

    def __post_init__(self) -> None:
        if self.end_ns <= self.start_ns:
            raise ValueError(f"window ends at {self.end_ns}, which is not after its start {self.start_ns}")
