"""Writes values in pages: rounded for people, with the value itself beside it for programs."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from markupsafe import Markup

from prism_ch.report import count, gpu_time, seconds, time_utc
from prism_ch.report.drawing.markup import element, shortened

#: Longer names are shortened in their middle; the whole is in the title.
NAME_LETTERS = 48
#: Longer texts, as of statements and summaries, are cut; a summary has a few hundred letters.
TEXT_LETTERS = 2000


def data(value: float, text: str) -> Markup:
    """Write a value and how it reads."""
    return element("data", text, value=repr(value))


def duration(value: float | None) -> Markup:
    """Write seconds with three significant digits."""
    return _or_none(value, seconds)


def hours(value: float | None) -> Markup:
    """Write GPU-hours in the unit that suits them."""
    return _or_none(value, gpu_time)


def share(value: float | None) -> Markup:
    """Write a share as percent, with a decimal."""
    return _or_none(value, lambda each: f"{each:.1%}")


def excess(value: float | None) -> Markup:
    """Write how much more something is than usual, as percent with its sign."""
    return _or_none(value, lambda each: f"{each:+.1%}")


def number(value: float | None) -> Markup:
    """Write a count."""
    return _or_none(value, lambda each: f"{each:,}")


def plain(value: float | None) -> Markup:
    """Write a value of any unit with three significant digits."""
    return _or_none(value, lambda each: f"{each:.3g}")


def counted(value: int, one: str, several: str = "") -> Markup:
    """Write a count with its noun."""
    return data(value, count(value, one, several))


def time(value_ns: int) -> Markup:
    """Write a time, UTC, to the second."""
    whole, fraction = divmod(value_ns, 1_000_000_000)
    exact = f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z"
    return element("time", time_utc(value_ns), datetime=exact)


def name(text: str, letters: int = NAME_LETTERS) -> Markup:
    """Write a name that others have chosen: whatever it holds, it turns nothing beside it."""
    short = shortened(text, letters)
    return element("bdi", short, title=text if short != text else None)


def sentence(text: str, letters: int = TEXT_LETTERS) -> Markup:
    """Write a text that may hold names of others."""
    return element("bdi", shortened(text, letters), _class="long")


def _or_none(value: float | None, write: object) -> Markup:
    if value is None or not math.isfinite(value) or not callable(write):
        return Markup("-")
    return data(value, str(write(value)))
