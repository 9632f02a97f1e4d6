"""The heap: what is free in it goes back to the system."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import cast


def _found() -> Callable[[int], int] | None:
    """Return the C library's function, None where it has none.

    Libraries without one give memory back by themselves.
    """
    try:
        return cast("Callable[[int], int]", ctypes.CDLL(None).malloc_trim)
    except (AttributeError, OSError, TypeError):
        return None


_TRIM = _found()


def give_back() -> None:
    """Give freed memory back to the system.

    What a stage computes of each job lies between what is kept of it, where little else fits: over the stages of a
    large window such holes come to half a gigabyte.
    """
    if _TRIM is not None:
        _TRIM(0)
