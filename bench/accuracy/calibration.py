"""Compares the confidence in the kinds of pairs with how often they are right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Claims = Counter[tuple[float, bool]]

#: Where bins of confidence begin; those near certainty are narrow, for most claims lie there.
EDGES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.01)


@dataclass(frozen=True, slots=True)
class Bin:
    """Claims whose confidence is in [low, high): their count, mean confidence, share right."""

    low: float
    high: float
    pairs: int
    confidence: float
    right: float


def bins(claims: Claims, edges: Sequence[float] = EDGES) -> list[Bin]:
    """Group claims into bins of confidence, [edge, next edge), without empty bins."""
    found = []
    for low, high in pairwise(edges):
        inside = [(sure, right, count) for (sure, right), count in claims.items() if low <= sure < high]
        pairs = sum(count for _, _, count in inside)
        if pairs:
            confidence = sum(sure * count for sure, _, count in inside) / pairs
            found.append(Bin(low, min(high, 1.0), pairs, confidence, sum(n for _, ok, n in inside if ok) / pairs))
    return found


def expected_error(found: Sequence[Bin]) -> float:
    """Return the expected calibration error.

    That is the mean over all pairs of the distance from their bin's confidence to its share right.

    Source: Naeini, Cooper and Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian Binning", AAAI 2015.
    """
    pairs = sum(part.pairs for part in found)
    return sum(part.pairs * abs(part.confidence - part.right) for part in found) / pairs if pairs else 0.0
