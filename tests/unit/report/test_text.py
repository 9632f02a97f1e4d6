"""Durations as block characters, and sizes with units."""

import pytest

from prism_ch.report.text import size, sparkline


def test_no_durations_draw_nothing() -> None:
    assert sparkline([], 10) == ""


def test_equal_durations_are_flat_and_low() -> None:
    assert sparkline([0.4] * 5, 10) == "▁▁▁▁▁"
    assert sparkline([0.0] * 3, 10) == "▁▁▁"


def test_a_step_of_twice_the_time_reaches_the_top() -> None:
    assert sparkline([1.0, 2.0, 1.0], 10) == "▁█▁"


def test_jitter_of_two_percent_stays_flat() -> None:
    assert sparkline([1.0, 1.02, 1.01, 1.0], 10) == "▁▁▁▁"


def test_a_single_slow_step_survives_being_squeezed() -> None:
    durations = [1.0] * 1000
    durations[617] = 3.0
    drawn = sparkline(durations, 50)
    assert len(drawn) == 50
    assert drawn.index("█") == 617 * 50 // 1000
    assert drawn.count("▁") == 49


@pytest.mark.parametrize("count", [1, 7, 8, 9, 99])
def test_never_wider_than_asked_for(count: int) -> None:
    assert len(sparkline([1.0] * count, 8)) == min(count, 8)


@pytest.mark.parametrize(
    "size_bytes, text",
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (5 * 2**40, "5.0 TiB"),
        (3 * 2**30, "3.0 GiB"),
        (2**63, "8,192.0 PiB"),
    ],
)
def test_sizes_have_a_unit(size_bytes: int, text: str) -> None:
    assert size(size_bytes) == text
