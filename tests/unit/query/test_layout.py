"""Answers as tables."""

import io

import pytest
from rich.console import Console

from prism_ch.query.answer import Answer
from prism_ch.query.drawn import drawn_table
from prism_ch.query.layout import is_number, plain_table

ANSWER = Answer(
    names=("endpoint", "steps", "note"),
    types=("String", "UInt64", "Nullable(String)"),
    rows=(("10.0.0.1", "7", None), ("10.0.0.12", "1234", "a\nb\x1b[31m")),
)


def test_plain_columns_are_aligned_and_numbers_stand_right() -> None:
    assert plain_table(ANSWER).splitlines() == [
        "endpoint   steps  note",
        "10.0.0.1       7  NULL",
        "10.0.0.12   1234  a\\nb\\x1b[31m",
    ]


def test_no_rows_leave_the_header() -> None:
    assert plain_table(Answer(("a", "b"), ("UInt8", "String"), ())) == "a  b"


def test_a_drawn_table_shows_values_not_markup() -> None:
    out = io.StringIO()
    answer = Answer(("[bold]x",), ("String",), (("[red]y[/red]\x1b[2J",),))
    Console(file=out, width=60, force_terminal=True, color_system=None).print(drawn_table(answer, 60))
    assert "[bold]x" in out.getvalue()
    assert "[red]y[/red]\\x1b[2J" in out.getvalue()
    assert "\x1b[2J" not in out.getvalue()


def drawn(answer: Answer, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(drawn_table(answer, width))
    return [line.rstrip() for line in out.getvalue().splitlines()]


STEPS = Answer(
    names=("job_id", "step", "duration_s", "start_time", "summary"),
    types=("String", "UInt64", "Float64", "DateTime64(9)", "String"),
    rows=(("job-1", "1234567", "0.9595967370000001", "2026-09-01 00:00:01.458134998", "Steps took long. " * 9),),
)


def test_a_terminal_shows_six_digits_and_cuts_the_longest_text() -> None:
    header, _, row, count = drawn(STEPS, 100)
    assert header.split() == list(STEPS.names)
    assert row.split("   ")[:4] == ["job-1", " 1234567", "  0.959597", "2026-09-01 00:00:01.458"]
    assert row.endswith("…")
    assert (len(row), count) == (100, "1 row")


def test_rows_too_wide_for_a_terminal_are_blocks_of_whole_values() -> None:
    lines = drawn(STEPS, 60)
    assert lines[0].startswith("row 1 ──")
    assert "duration_s  0.9595967370000001" in [line.strip() for line in lines]
    assert " ".join(" ".join(lines).split()).count("Steps took long.") == 9
    assert max(map(len, lines)) <= 60


def test_a_terminal_counts_no_rows() -> None:
    assert drawn(Answer(("a",), ("UInt8",), ()), 40)[-1] == "0 rows"


@pytest.mark.parametrize(
    "kind,expected",
    [
        ("UInt8", True),
        ("Int256", True),
        ("Float64", True),
        ("Decimal(9, 2)", True),
        ("Nullable(Float64)", True),
        ("LowCardinality(Nullable(UInt8))", True),
        ("String", False),
        ("DateTime64(9)", False),
        ("Array(UInt8)", False),
        ("Enum8('a' = 1)", False),
    ],
)
def test_which_types_are_numbers(kind: str, expected: bool) -> None:
    assert is_number(kind) is expected
