"""Values are written rounded, with the value itself in the element."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from prism_ch.report import written
from tests.pages import is_rounded, read_page

_VALUES = st.floats(1e-9, 1e9)


@given(_VALUES)
@example(83887.0625)
def test_what_is_written_is_the_value_to_its_last_digit(value: float) -> None:
    for write in (written.duration, written.hours, written.share, written.excess, written.plain):
        page = read_page(f"<html><style></style><body>{write(value)}</body></html>")
        [(exact, text)] = page.numbers()
        assert exact == value
        assert is_rounded(value, text), (write, value, text)


@given(st.integers(0, 10**15))
def test_counts_are_written_whole(value: int) -> None:
    page = read_page(f"<html><style></style><body>{written.number(value)}</body></html>")
    assert page.numbers() == [(float(value), f"{value:,}")]


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_what_is_no_number_is_a_dash(value: float | None) -> None:
    assert str(written.duration(value)) == "-"


def test_a_time_is_exact_in_its_element() -> None:
    assert str(written.time(1_772_409_600_000_000_001)) == (
        '<time datetime="2026-03-02T00:00:00.000000001Z">2026-03-02 00:00:00</time>'
    )


def test_a_long_name_is_whole_in_its_title() -> None:
    name = "a" * 30 + "b" * 30
    assert str(written.name(name, 11)) == f'<bdi title="{name}">aaaaa\u2026bbbbb</bdi>'
    assert str(written.name("<b>")) == "<bdi>&lt;b&gt;</bdi>"
