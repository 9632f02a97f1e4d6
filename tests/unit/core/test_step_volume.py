"""Segments of one step volume: no cut is cheaper, and sequences in a batch do not see one another."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_ch.core.arrays import Bool
from prism_ch.core.step_volume import segment_by_volume
from tests import naive

amounts_strategy = st.lists(st.sampled_from([0.1, 0.25, 0.5, 0.75, 1.0, 1.3, 2.0]), min_size=1, max_size=9)


def segment(sequences: list[list[float]], preference: float = 0.0, step_volume: float = 1.0) -> Bool:
    amount = np.array([x for one in sequences for x in one]) * step_volume
    offsets = np.cumsum([0] + [len(one) for one in sequences], dtype=np.int64)
    liking = np.full(len(amount), preference)
    volume, tolerance = (np.full(len(sequences), one) for one in (step_volume, 0.1))
    return segment_by_volume(amount, offsets, volume, liking, tolerance)


def reach_of(amounts: list[float], rounding: float) -> int:
    """Count the items of the longest segment considered: one more than carries a step volume and a half."""
    n = len(amounts)
    fits = [j - i for i in range(n) for j in range(i, n + 1) if sum(amounts[i:j]) <= 1.5 + rounding]
    return max(1, min(n, max(fits) + 1))


@settings(deadline=None, max_examples=60)
@given(amounts_strategy, st.sampled_from([-1.0, 0.0, 0.5]))
def test_no_cut_is_cheaper(amounts: list[float], preference: float) -> None:
    ends = np.flatnonzero(segment([amounts], preference)).tolist()
    likings = [preference] * len(amounts)
    # Sums that are one and a half but for rounding may fall on either side.
    more, fewer = (reach_of(amounts, rounding) for rounding in (1e-9, -1e-9))
    found = naive.volume_cost(amounts, likings, ends, 0.1, more)
    least, most = (naive.best_volume_cost(amounts, likings, 0.1, longest) for longest in (more, fewer))
    assert least - 1e-6 <= found <= most + 1e-6


@given(st.lists(amounts_strategy, min_size=1, max_size=4), st.sampled_from([1.0, 4096.0]))
def test_a_batch_of_whole_segments_is_cut_as_each_alone(sequences: list[list[float]], step_volume: float) -> None:
    whole = [[0.25, 0.75] * len(one) for one in sequences]
    together = segment(whole, step_volume=step_volume)
    alone = [segment([one], step_volume=step_volume) for one in whole]
    np.testing.assert_array_equal(together, np.concatenate(alone))
    for one, ends in zip(whole, alone, strict=True):
        inner = np.split(one, np.flatnonzero(ends) + 1)[1:-1]
        assert [part.sum() for part in inner] == [1.0] * len(inner)


def test_a_sequence_may_begin_and_end_inside_a_segment() -> None:
    assert np.flatnonzero(segment([[0.5, 0.5, 0.5, 0.5, 0.5]], preference=0.1)).tolist() == [0, 2, 4]
    assert np.flatnonzero(segment([[0.4, 0.25, 0.75, 0.25, 0.75, 0.3]])).tolist() == [0, 2, 4]


def test_incomplete_segment_is_not_joined_with_a_whole_one() -> None:
    assert segment([[1.0, 0.6, 1.0, 1.0, 0.5, 1.0]], preference=-0.5).all()


def test_nothing_is_cut_into_nothing() -> None:
    assert len(segment([])) == 0
    assert len(segment([[], []])) == 0
    assert segment([[], [1.0]]).tolist() == [True]
