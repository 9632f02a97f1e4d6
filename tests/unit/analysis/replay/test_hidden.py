"""Where a stage computes what it sends to nobody."""

from __future__ import annotations

import numpy as np

from prism_ch.analysis.replay.hidden import WEIGHT, Hidden, Visible, place_hidden
from prism_ch.model.columns import Float64
from tests.unit.analysis.replay.simulated import PARAMS

NONE = np.empty(0)


def visible(at: list[float], since: list[float], backward: list[int], most: list[int] | None = None) -> Visible:
    """Outputs of a stage that are computed for 10 each; `most` hidden operations come before each, or none."""
    bounds = np.array(most or [0] * len(at))
    return Visible(
        np.array(at), np.array(since), np.full(len(at), 10.0), bounds * 0, bounds, np.array(backward) > 0, 0.0, np.nan
    )


def placed(outputs: Visible, since: Float64, weights: float = 0.0, kept: int = 0) -> list[tuple[int, ...]]:
    return place_hidden(outputs, Hidden(since, 10.0, weights, kept), PARAMS.replay)


def test_hidden_operation_fills_the_gap_that_it_explains() -> None:
    outputs = visible([10, 20, 40, 50], [-np.inf] * 4, [0] * 4, [0, 1, 1, 1])
    assert placed(outputs, np.array([5.0])) == [(), (), (0,), (), ()]


def test_hidden_operation_waits_for_its_input() -> None:
    outputs = visible([10, 20, 65, 85], [-np.inf] * 4, [0] * 4, [0, 0, 1, 2])
    assert placed(outputs, np.array([45.0, 60.0])) == [(), (), (0,), (1,), ()]


def test_operations_without_a_gap_come_after_the_last_output() -> None:
    outputs = visible([10, 20, 30], [-np.inf] * 3, [0] * 3, [0, 2, 2])
    assert placed(outputs, np.array([1.0, 2.0])) == [(), (), (), (0, 1)]


def test_weight_gradients_fill_idle_time_once_they_are_due() -> None:
    outputs = visible([30, 40, 60, 90], [20, 30, 50, 80], [0, 1, 1, 1])
    assert placed(outputs, NONE, weights=10) == [(), (), (WEIGHT,), (WEIGHT,), (WEIGHT,)]


def test_weight_gradient_that_does_not_fit_is_put_off() -> None:
    outputs = visible([10, 20, 36], [0, 10, 26], [1, 1, 1])
    assert placed(outputs, NONE, weights=10) == [(), (), (), (WEIGHT,) * 3]


def test_weight_gradients_kept_back_come_last() -> None:
    outputs = visible([10, 30, 50, 70], [0, 20, 40, 60], [1, 1, 1, 1])
    assert placed(outputs, NONE, weights=10) == [(), (WEIGHT,), (WEIGHT,), (WEIGHT,), (WEIGHT,)]
    assert placed(outputs, NONE, weights=10, kept=1) == [(), (), (WEIGHT,), (WEIGHT,), (WEIGHT,) * 2]


def test_weight_gradient_of_hidden_backward_follows_it() -> None:
    outputs = visible([10, 50], [-np.inf] * 2, [0, 0], [0, 1])
    assert placed(outputs, np.array([20.0]), weights=10) == [(), (0, WEIGHT), ()]
