"""Draws a series of durations as one line of block characters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

_BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(durations_s: Sequence[float], width: int) -> str:
    """Return at most `width` characters, one a duration; where there are more, one the longest of some neighbours.

    The lowest block is the shortest duration, the highest the longest or twice the shortest, so that jitter stays flat.
    """
    bins = min(width, len(durations_s))
    if not bins:
        return ""
    edges = [len(durations_s) * i // bins for i in range(bins + 1)]
    heights = [max(durations_s[a:b]) for a, b in pairwise(edges)]
    lowest = min(durations_s)
    span = max(*heights, 2 * lowest) - lowest
    if span <= 0:
        return _BLOCKS[0] * bins
    return "".join(_BLOCKS[round((height - lowest) / span * (len(_BLOCKS) - 1))] for height in heights)
