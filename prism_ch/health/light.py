"""One thing that was looked at: how it stands, and how to mend it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Light:
    """`bad` stops or spoils the results, `warn` makes them poorer; `mend` says what to do, and is empty where `ok`."""

    name: str
    state: State
    what: str
    mend: str = ""


def all_green(lights: Iterable[Light]) -> bool:
    """Tell whether nothing is wrong."""
    return all(light.state == "ok" for light in lights)


def any_red(lights: Iterable[Light]) -> bool:
    """Tell whether something stops or spoils the results."""
    return any(light.state == "bad" for light in lights)
