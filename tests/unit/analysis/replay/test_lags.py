"""The lags of a moment after what it waits for, alone and beside others."""

from __future__ import annotations

import numpy as np
import pytest

from prism_ch.analysis.replay.lags import find_lags
from prism_ch.model.params import Params

PARAMS = Params().replay


@pytest.mark.parametrize("sources", [1, 2, 5])
@pytest.mark.parametrize("plain", [False, True], ids=["alike", "own"])
def test_lags_are_those_of_each_moment_alone(sources: int, plain: bool) -> None:
    """Twelve moments of four ranks in sixteen steps; every second waits longer after its first source."""
    chance = np.random.default_rng(sources)
    at_source = chance.uniform(0, 1e6, (12, sources, 4, 16))
    own = np.zeros((12, sources))
    own[::2, 0] = 4e5
    at = (at_source + own[:, :, None, None]).max(axis=1) + 1e5 * chance.uniform(1, 1.02, (12, 4, 16))
    speed = chance.uniform(1, 1.5, (4, 16))
    least = np.full((12, sources), 1e5) if plain else None
    together = find_lags(at, at_source, speed, PARAMS, least)
    assert len(together) == 12
    for place, one in enumerate(together):
        here = slice(place, place + 1)
        (alone,) = find_lags(at[here], at_source[here], speed, PARAMS, None if least is None else least[here])
        np.testing.assert_array_equal(one.lag, alone.lag)
        np.testing.assert_array_equal(one.usual, alone.usual)
        np.testing.assert_array_equal(one.binding, alone.binding)


def test_a_moment_keeps_what_passed_after_the_source_that_binds() -> None:
    at_source = np.stack([np.zeros((2, 3)), np.full((2, 3), 10.0)])[None]
    (found,) = find_lags(np.full((1, 2, 3), 15.0), at_source, np.ones((2, 3)), PARAMS)
    assert (found.binding == 1).all()
    assert (found.bound() == 5).all()


def test_a_source_with_a_lag_of_its_own_is_found() -> None:
    """Of two sources by turns last, the first takes 40 longer."""
    first_is_last = np.tile([True, False], 20)
    at_source = np.where(np.stack([first_is_last, ~first_is_last]), 100.0, 0.0)[None, :, None]
    at = np.where(first_is_last, 150.0, 110.0)[None, None]
    (found,) = find_lags(at, at_source, np.ones((1, 40)), PARAMS, np.full((1, 2), 10.0))
    assert found.usual.tolist() == [50, 10]


def test_computing_that_varies_has_no_lag_of_its_own() -> None:
    """What is computed varies by three tenths, as sequences do in length; the second source is always last."""
    takes = np.random.default_rng(0).lognormal(np.log(100.0), 0.3, (1, 4, 200))
    at_source = np.broadcast_to(np.array([0.0, 400.0])[None, :, None, None], (1, 2, 4, 200))
    (found,) = find_lags(400 + takes, at_source, np.ones((4, 200)), PARAMS, np.full((1, 2), 100.0))
    assert found.usual[0] <= 100


def test_pauses_after_the_only_source_are_not_usual() -> None:
    at = np.where(np.arange(40) % 5, 10.0, 500.0)[None, None]
    (found,) = find_lags(at, np.zeros((1, 1, 1, 40)), np.ones((1, 40)), PARAMS, np.full((1, 1), np.inf))
    assert found.usual.tolist() == [10]


def test_what_took_longer_does_so_after_each_source() -> None:
    at_source = np.stack([np.zeros((1, 9)), np.full((1, 9), 100.0)])[None]
    at = np.full((1, 1, 9), 110.0)
    at[..., 4] = 130.0
    (found,) = find_lags(at, at_source, np.ones((1, 9)), PARAMS)
    assert found.lag[:, 0, 3].tolist() == [10, 10]
    assert found.lag[:, 0, 4].tolist() == [30, 30]
