"""Writes results as text: counts, sizes and times here, the summary in its module."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

_BLOCKS = "▁▂▃▄▅▆▇█"


def count(number: int, one: str, several: str = "") -> str:
    """Write a count: 1 flow, 2 flows, 1,000 addresses."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def size(size_bytes: int) -> str:
    """Write a number of bytes with a unit: 0 B, 1.5 KiB, 12.0 GiB."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    power = min((size_bytes.bit_length() - 1) // 10, 5)
    return f"{size_bytes / 1024**power:,.1f} {'KMGTP'[power - 1]}iB"


def seconds(duration_s: float) -> str:
    """Write a duration with three significant digits."""
    return f"{_three_digits(duration_s)} s"


def gpu_time(gpu_h: float) -> str:
    """Write GPU time in the unit that suits it: 3.2 GPU-hours, 12 GPU-minutes, 9.5 GPU-seconds."""
    for unit, length_h in (("hours", 1.0), ("minutes", 1 / 60)):
        if gpu_h >= length_h:
            return f"{_three_digits(gpu_h / length_h)} GPU-{unit}"
    return f"{_three_digits(gpu_h * 3600)} GPU-seconds"


def _three_digits(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def time_utc(time_ns: int) -> str:
    """Write nanoseconds since the epoch as a time in UTC, to the second."""
    return f"{datetime.fromtimestamp(time_ns // 1_000_000_000, UTC):%Y-%m-%d %H:%M:%S}"


def sparkline(durations_s: Sequence[float], width: int) -> str:
    """Draw durations as at most `width` block characters.

    Where there are more durations than characters, each character shows the longest of its neighbours. The lowest block
    is the shortest duration; the highest is the longest, or twice the shortest if that is more, so jitter stays flat.
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
