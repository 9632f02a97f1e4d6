"""Alignment: places in a period, kept in spite of missing, extra and damaged symbols."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.core.alignment import places_in_period

PATTERN = np.array([1, 1, 2, 3, 3, 3, 4, 2, 5])


def test_symbols_of_one_place_are_a_period_apart() -> None:
    places = places_in_period(np.tile(PATTERN, 10), len(PATTERN))
    assert (np.diff(places) % len(PATTERN) == 1).all()
    assert len(np.unique(places[:: len(PATTERN)])) == 1


@given(st.integers(20, 60), st.integers(-1, 1))
def test_a_symbol_more_or_less_shifts_none_that_come_later(at: int, change: int) -> None:
    symbols = np.tile(PATTERN, 10)
    damaged = symbols if not change else np.delete(symbols, at) if change < 0 else np.insert(symbols, at, 9)
    places, whole = places_in_period(damaged, len(PATTERN)), places_in_period(symbols, len(PATTERN))
    turned = (places[-1] - whole[-1]) % len(PATTERN)
    far = len(PATTERN)
    assert ((places[: at - far] - whole[: at - far]) % len(PATTERN) == turned).all()
    assert ((places[at + far :] - whole[at + far - change :]) % len(PATTERN) == turned).all()


@pytest.mark.parametrize("seed", range(5))
def test_damaged_symbols_keep_their_places(seed: int) -> None:
    chance = np.random.default_rng(seed)
    symbols = np.tile(PATTERN, 40)
    damaged = np.where(chance.random(len(symbols)) < 0.1, 100 + np.arange(len(symbols)), symbols)
    places = places_in_period(damaged, len(PATTERN))
    turned = (places - np.arange(len(symbols))) % len(PATTERN)
    assert np.mean(turned == np.bincount(turned).argmax()) > 0.95


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.data())
def test_every_symbol_has_a_place(symbols: list[int], data: st.DataObject) -> None:
    period = data.draw(st.integers(1, len(symbols)))
    places = places_in_period(np.array(symbols), period)
    assert len(places) == len(symbols)
    assert ((places >= 0) & (places < period)).all()


@pytest.mark.parametrize("period", [0, 4])
def test_a_period_that_does_not_fit_is_refused(period: int) -> None:
    with pytest.raises(ValueError, match="does not fit 3 symbols"):
        places_in_period(np.array([1, 2, 3]), period)
