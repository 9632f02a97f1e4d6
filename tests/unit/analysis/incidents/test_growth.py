"""Growth is told from chance and from a leap, and its beginning and level are found."""

import numpy as np
import pytest

from prism_ch.analysis.incidents.growth import grown_since
from prism_ch.model.params import IncidentParams

PARAMS = IncidentParams()


def noise(rows: int, seed: int) -> np.ndarray:
    return np.asarray(2.0 + 0.01 * np.random.default_rng(seed).standard_normal(rows))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("level_steps, growing_steps", [(30, 60), (100, 40), (20, 200)])
def test_steps_that_grow_are_found_with_their_level(seed: int, level_steps: int, growing_steps: int) -> None:
    rows = level_steps + growing_steps
    rise = np.maximum(np.arange(rows) - level_steps, 0) * 0.3 / growing_steps
    found = grown_since(np.arange(rows), noise(rows, seed) + rise, PARAMS)
    assert found is not None
    assert found[0] == pytest.approx(level_steps, abs=0.25 * growing_steps)
    assert found[1] == pytest.approx(2.0, abs=0.02)


@pytest.mark.parametrize("rows", [0, 5, 23, 24, 60, 256])
def test_steps_that_vary_do_not_grow(rows: int) -> None:
    assert [seed for seed in range(100) if grown_since(np.arange(rows), noise(rows, seed), PARAMS) is not None] == []


@pytest.mark.parametrize("at", [20, 50, 80])
@pytest.mark.parametrize("leap_s", [0.05, 0.5, -0.3])
def test_a_leap_is_no_growth(at: int, leap_s: float) -> None:
    leap = np.where(np.arange(100) >= at, leap_s, 0.0)
    assert [
        seed for seed in range(20) if grown_since(np.arange(100), noise(100, seed) + leap, PARAMS) is not None
    ] == []


def test_of_old_steps_only_some_need_be_known() -> None:
    step = np.concatenate([np.arange(0, 400, 8), np.arange(400, 500)])
    found = grown_since(step, noise(len(step), 3) + np.maximum(step - 200, 0) * 0.001, PARAMS)
    assert found is not None
    assert found[0] == pytest.approx(200, abs=60)
    assert found[1] == pytest.approx(2.0, abs=0.02)


def test_steps_that_become_shorter_do_not_grow() -> None:
    assert grown_since(np.arange(100), noise(100, 1) - np.arange(100) * 0.01, PARAMS) is None
