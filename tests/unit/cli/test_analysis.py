"""Points in time on the command line."""

import click
import pytest

from prism_ch.cli.analysis import Time

NOON_NS = 1_772_366_400_000_000_000  # 2026-03-01T12:00:00Z


@pytest.mark.parametrize(
    "text,expected",
    [
        ("2026-03-01T12:00:00Z", NOON_NS),
        ("2026-03-01t12:00:00z", NOON_NS),
        ("2026-03-01 12:00:00", NOON_NS),
        ("2026-03-01T12:00", NOON_NS),
        ("2026-03-01T13:30:00+01:30", NOON_NS),
        ("2026-03-01T12:00:00.5Z", NOON_NS + 500_000_000),
        ("2026-03-01T12:00:00.123456789Z", NOON_NS + 123_456_789),
        ("2026-03-01", NOON_NS - 12 * 3600 * 1_000_000_000),
        ("1970-01-01", 0),
        ("1969-12-31T23:59:59.5Z", -500_000_000),
    ],
)
def test_times_and_dates_are_read_as_utc(text: str, expected: int) -> None:
    assert Time().convert(text, None, None) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "12:00",
        "20260301",
        "2026-13-01",
        "2026-02-30",
        "2026-03-01T25:00:00Z",
        "2026-03-01T12:00:00.Z",
        "1772366400",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="no time"):
        Time().convert(text, None, None)
