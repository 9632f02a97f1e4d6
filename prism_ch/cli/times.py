"""Reads points in time from the command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import click

_FORM = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?\s?(Z|z|[+-]\d\d:\d\d)?)?",
)


class Time(click.ParamType[int]):
    """An RFC 3339 time or a date, as nanoseconds since the epoch; without a zone it is UTC, a date is its midnight."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse a text; a number is already converted."""
        if isinstance(value, int):
            return value
        match = _FORM.fullmatch(str(value).strip())
        if match is None:
            self.fail(f"{value!r} is no time; write 2026-03-01T12:00:00Z or 2026-03-01", param, ctx)
        day, clock, second, fraction, zone = match.groups()
        zone = "+00:00" if zone in {None, "Z", "z"} else zone
        try:
            whole = datetime.fromisoformat(f"{day}T{clock or '00:00'}:{second or '00'}{zone}")
        except ValueError as error:
            self.fail(f"{value!r} is no time: {error}", param, ctx)
        seconds = round((whole - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
        return seconds * 1_000_000_000 + int((fraction or "").ljust(9, "0"))
