"""Counts, durations and times as people write them."""

from __future__ import annotations

from datetime import UTC, datetime


def count(number: int, one: str, several: str = "") -> str:
    """Count things: 1 flow, 2 flows, 1,000 addresses."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def size(size_bytes: int) -> str:
    """Write a number of bytes with a unit: 0 B, 1.5 KiB, 12.0 GiB."""
    scaled, units = float(size_bytes), iter(("KiB", "MiB", "GiB", "TiB", "PiB"))
    unit = "B"
    while scaled >= 1024 and unit != "PiB":
        scaled, unit = scaled / 1024, next(units)
    return f"{size_bytes} B" if unit == "B" else f"{scaled:,.1f} {unit}"


def seconds(duration_s: float) -> str:
    """Write a duration with three digits that mean something."""
    return f"{duration_s:,.0f} s" if duration_s >= 100 else f"{duration_s:.3g} s"


def time_utc(time_ns: int) -> str:
    """Write nanoseconds since the epoch as a time, UTC, to the second."""
    return f"{datetime.fromtimestamp(time_ns // 1_000_000_000, UTC):%Y-%m-%d %H:%M:%S}"
