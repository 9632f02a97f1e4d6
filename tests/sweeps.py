"""Marks cases that are left to sweeps."""

from typing import Any

import pytest


def swept(*values: Any) -> list[Any]:
    """Return parameters of a test that only `make test-all` tries."""
    return [pytest.param(value, marks=pytest.mark.sweep) for value in values]
