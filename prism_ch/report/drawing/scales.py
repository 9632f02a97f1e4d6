"""Maps numbers to coordinates, and chooses the round numbers at which an axis has ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import count, takewhile

_NICE = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear map from [low, high] to [start, end]; it is not empty."""

    low: float
    high: float
    start: float
    end: float

    def __post_init__(self) -> None:
        """Refuse a scale that maps nothing."""
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"a scale from {self.low} to {self.high} is none")

    def __call__(self, value: float) -> float:
        """Return the coordinate of a value; what lies outside is moved to the edge."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        """Return round numbers in the scale, at most `most` of them."""
        step = tick_distance(self.high - self.low, most)
        first = math.ceil(self.low / step - 1e-9)
        return list(takewhile(lambda tick: tick <= self.high + step * 1e-9, (each * step for each in count(first))))


def tick_distance(span: float, most: int) -> float:
    """Return the least round distance that gives at most `most` ticks in a span."""
    least = span / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(least))
    return next(nice * power for nice in _NICE if nice * power >= least * (1 - 1e-9))


def decimals(distance: float) -> int:
    """Return how many decimals the ticks of a distance need."""
    return next((digits for digits in range(9) if abs(round(distance, digits) - distance) < distance / 1000), 9)


def covering(low: float, high: float, start: float, end: float) -> Scale:
    """Make a scale over values; it is widened where they are all the same."""
    if high - low <= abs(high) * 1e-9:
        margin = abs(high) * 0.1 or 1.0
        low, high = low - margin, high + margin
    return Scale(low, high, start, end)
