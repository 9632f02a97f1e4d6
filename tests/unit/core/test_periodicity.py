"""Periods: found in spite of jitter, losses and strays, never a multiple; none found where nothing repeats."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_ch.core.arrays import Int64
from prism_ch.core.periodicity import dominant_period, event_period, places_in_period, sequence_period
from tests import naive

EPOCH_NS = 1_700_000_000_000_000_000


def events(
    seed: int,
    period_s: float,
    *,
    steps: int = 80,
    jitter: float = 0.0,
    burst: int = 1,
    lost: float = 0,
    stray: float = 0,
) -> Int64:
    """Make a burst over half of each step; lengths and spacings vary by `jitter`; some are lost, some stray."""
    noise = np.random.default_rng(seed)
    start = np.cumsum(period_s * (1 + jitter * noise.normal(size=steps)))
    spacing = 0.45 * period_s / burst * (1 + 3 * jitter * noise.normal(size=(steps, burst)))
    moments = np.sort((start[:, None] + np.cumsum(spacing, axis=1)).ravel())
    kept = moments[noise.random(len(moments)) >= lost]
    strays = noise.uniform(0, moments.max(), round(stray * len(kept)))
    return EPOCH_NS + (np.sort(np.concatenate((kept, strays))) * 1e9).astype(np.int64)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "period_s,how",
    [
        (0.2, {}),
        (0.42, {"jitter": 0.02, "burst": 3, "lost": 0.1, "stray": 0.1}),
        (1.0, {"jitter": 0.03, "burst": 8, "lost": 0.2}),
        (9.0, {"jitter": 0.03, "burst": 5}),
        (46.0, {"jitter": 0.02, "steps": 40}),
    ],
)
def test_finds_the_fundamental(seed: int, period_s: float, how: dict[str, float]) -> None:
    found = event_period(events(seed, period_s, **how))  # type: ignore[arg-type]
    assert found.period_s == pytest.approx(period_s, rel=0.02)
    assert found.strength > 0.3


def test_strength_is_one_for_clockwork_and_falls_with_losses() -> None:
    strengths = [event_period(events(1, 1.0, lost=lost)).strength for lost in (0, 0.2, 0.4)]
    assert strengths[0] > 0.95
    assert strengths[0] > strengths[1] > strengths[2] > 0


@pytest.mark.parametrize("seed", range(5))
def test_finds_little_in_events_at_random(seed: int) -> None:
    moments = np.random.default_rng(seed).uniform(0, 60e9, 400).astype(np.int64)
    assert event_period(moments).strength < 0.2


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 9), st.integers(-EPOCH_NS, EPOCH_NS))
def test_when_it_happens_does_not_matter(seed: int, shift: int) -> None:
    moments = events(seed, 0.5, jitter=0.02, steps=30)
    assert event_period(moments) == event_period(np.random.default_rng(seed).permutation(moments) + shift)


def test_weights_set_the_step_apart_from_what_fills_it() -> None:
    moments = events(4, 2.0, burst=8)
    weights = np.tile([1, 1, 1, 1, 1, 1, 1, 40.0], 80)
    found = event_period(moments, weights=weights)
    assert found.period_s == pytest.approx(2.0, rel=0.01)
    halves = event_period(np.concatenate((moments[::8], moments[::8] + 1_000_000_000)))
    assert halves.period_s == pytest.approx(1.0, rel=0.01)


def test_bounds_are_kept() -> None:
    moments = events(2, 1.0)
    multiple = event_period(moments, min_period_s=1.5).period_s
    assert multiple >= 1.5
    assert multiple == pytest.approx(round(multiple), rel=0.01)
    assert math.isnan(event_period(moments, max_period_s=0.9).period_s)


def test_binned_activity() -> None:
    t = np.arange(2000)
    found = dominant_period(1 + np.sin(2 * np.pi * t / 73.3), bin_s=0.01)
    assert found.period_s == pytest.approx(0.733, rel=0.002)
    assert found.strength > 0.95
    longer = dominant_period(1 + np.sin(2 * np.pi * t / 73.3), bin_s=0.01, min_period_s=1.0, max_period_s=2.0)
    assert longer.period_s == pytest.approx(1.466, rel=0.002)


@pytest.mark.parametrize("values", [[], [1.0], [5.0] * 400, list(range(20)), [0.0] * 399 + [1.0]])
def test_no_period_where_nothing_repeats(values: list[float]) -> None:
    found = dominant_period(values, bin_s=1.0)
    assert math.isnan(found.period_s)
    assert found.strength == 0


def test_no_events_have_no_period() -> None:
    assert event_period(np.empty(0, dtype=np.int64)).strength == 0
    assert event_period(np.full(50, EPOCH_NS)).strength == 0


def test_refuses_nonsense() -> None:
    with pytest.raises(ValueError, match="bin_s is 0"):
        dominant_period([1.0], 0.0)
    with pytest.raises(ValueError, match="values must be finite"):
        dominant_period([math.nan], 1.0)
    with pytest.raises(ValueError, match="events over 1000000 s are too long"):
        event_period(np.array([0, 10**15]))
    with pytest.raises(ValueError, match="min_period_s is 0"):
        event_period(np.zeros(1, dtype=np.int64), min_period_s=0)


@given(st.lists(st.integers(0, 5), min_size=2, max_size=6), st.integers(3, 12))
def test_a_repeated_pattern_has_its_own_period(pattern: list[int], repeats: int) -> None:
    symbols = pattern * repeats
    period, strength = sequence_period(np.array(symbols))
    exact = next(p for p in range(1, len(pattern) + 1) if naive.share_equal(symbols, p) == 1)
    assert period <= exact
    assert strength >= 0.8
    if period == exact:
        assert strength == pytest.approx(1)


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(1, 30))
def test_sequence_strength_equals_the_slow_version(symbols: list[int], longest: int) -> None:
    period, strength = sequence_period(np.array(symbols, dtype=np.int64), longest)
    lags = range(1, min(len(symbols) // 2, longest) + 1)
    if not lags:
        assert (period, strength) == (0, 0.0)
        return
    chance = sum((symbols.count(kind) / len(symbols)) ** 2 for kind in set(symbols))
    if chance == 1:
        assert (period, strength) == (1, 1.0)
        return
    equal = {lag: naive.share_equal(symbols, lag) for lag in lags}
    strengths = {lag: (equal[lag] - chance) / (1 - chance) for lag in lags}
    best = max(lags, key=lambda lag: strengths[lag])
    if strengths[best] <= 1e-12:
        assert strength < 1e-9
        return
    compared = len(symbols) - best + 2
    likely = (equal[best] * (compared - 2) + 1) / compared
    lowest = equal[best] - 3 * math.sqrt(likely * (1 - likely) / compared)
    assert strength == pytest.approx(strengths[period])
    assert strength >= 0.8 * strengths[best] - 1e-9
    assert equal[period] >= lowest - 1e-9
    assert all(strengths[lag] < 0.8 * strengths[best] + 1e-9 or equal[lag] < lowest + 1e-9 for lag in range(1, period))


@pytest.mark.parametrize("pattern", [[1] * 24 + [2], ([1, 1, 2, 2, 3] * 5 + [4, 4])], ids=["run", "parts"])
def test_near_repeats_inside_a_period_are_no_period(pattern: list[int]) -> None:
    assert sequence_period(np.tile(pattern, 20)) == (len(pattern), 1.0)


def test_lost_and_extra_symbols_spoil_only_their_own_period() -> None:
    symbols = np.tile([1, 1, 1, 1, 1, 1, 1, 2], 50)
    damaged = np.insert(np.delete(symbols, [100, 250]), 300, 7)
    period, strength = sequence_period(damaged)
    assert period == 8
    assert strength > 0.8


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


def test_periods_are_equal_whatever_the_number_of_cores() -> None:
    find = (
        "import numpy as np; from prism_ch.core.periodicity import dominant_period as find;"
        "print(find(np.sin(np.arange(40_000) / 9) + np.random.default_rng(1).normal(size=40_000), 0.1))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", find],
            env=os.environ | {"OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert len(found) == 1
