"""Answers as tables."""

import io

import pytest
from rich.console import Console

from prism_ch.query.answer import Answer
from prism_ch.query.layout import drawn_table, is_number, plain_table

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
    Console(file=out, width=60, force_terminal=True, color_system=None).print(drawn_table(answer))
    assert "[bold]x" in out.getvalue()
    assert "[red]y[/red]\\x1b[2J" in out.getvalue()
    assert "\x1b[2J" not in out.getvalue()


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
