"""Healthy steps: their spread found for all rows at once is that found row by row."""

from __future__ import annotations

import numpy as np
import pytest

from prism_ch.analysis.diagnose.steps.healthy_steps import spread_about, spreads_if_healthy
from prism_ch.model.params import DiagnoseParams

PARAMS = DiagnoseParams()


@pytest.mark.parametrize("steps", [0, 64, 65, 200])
def test_spreads_at_once_equal_those_row_by_row(steps: int) -> None:
    duration_s = np.random.default_rng(1).lognormal(0, 0.1, steps)
    width, first = PARAMS.settled_steps, PARAMS.judged_steps
    found = spreads_if_healthy(duration_s, np.arange(min(steps, first)), PARAMS)
    assert found == {row: spread_about(duration_s[max(row - width, 0) : row], PARAMS) for row in range(first, steps)}


def test_no_spreads_where_the_first_steps_are_not_healthy() -> None:
    assert spreads_if_healthy(np.ones(200), np.arange(3, 7), PARAMS) == {}
