"""Compares what is wanted with what Grafana holds, which adds much of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: Here nothing may be added: a label that is no longer wanted would still route alerts.
_WHOLE = frozenset({"labels", "annotations"})


def differences(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """Return where `found` is not as wanted, as dotted names without values; what is only in `found` is fine."""
    return list(_differences(wanted, found, ""))


def _differences(wanted: Mapping[str, Any], found: Mapping[str, Any], place: str) -> Iterator[str]:
    """Yield the places under one, in order."""
    for name, value in wanted.items():
        here = f"{place}{name}"
        there = found.get(name)
        if name in _WHOLE:
            if value != there:
                yield here
        else:
            yield from _between(value, there, here)


def _between(value: Any, there: Any, here: str) -> Iterator[str]:
    """Yield the places where two values differ."""
    if isinstance(value, Mapping) and isinstance(there, Mapping):
        yield from _differences(value, there, f"{here}.")
    elif _is_list(value) and _is_list(there) and len(value) == len(there):
        for number, (one, other) in enumerate(zip(value, there, strict=True)):
            yield from _between(one, other, f"{here}.{number}")
    elif value != there:
        yield here


def _is_list(value: Any) -> bool:
    """Tell a list from a text."""
    return isinstance(value, Sequence) and not isinstance(value, str)
