import numpy as np
import pytest

from tests.scoring import Counts, Int64, best_match, match_ends


def ends(*at: int) -> Int64:
    """Return ends of steps."""
    return np.array(at, dtype=np.int64)


NONE = ends()
TRUE = ends(100, 200, 300, 400)


def test_ends_are_matched_within_the_tolerance() -> None:
    match = match_ends(ends(101, 199, 311, 400), TRUE, NONE, 10)
    assert (match.matched, match.extra, match.timed) == (3, 1, 1)
    assert match.duration_error == pytest.approx(0.02)


def test_ends_beyond_truth_or_of_partial_steps_are_not_extra() -> None:
    assert match_ends(ends(0, 100, 200, 300, 400, 500), TRUE, NONE, 10).extra == 0
    assert match_ends(ends(100, 150, 200, 300, 400), TRUE, NONE, 10).extra == 1
    assert match_ends(ends(100, 150, 200, 300, 400), TRUE, ends(152), 10).extra == 0


def test_nothing_found_misses_all() -> None:
    assert match_ends(NONE, TRUE, NONE, 10).matched == 0
    assert match_ends(TRUE, NONE, NONE, 10).extra == 0


def test_of_two_truths_the_one_that_agrees_counts() -> None:
    assert best_match(TRUE + 30, (TRUE, TRUE + 31), NONE, 10).matched == 4


def test_shares_of_nothing_are_whole() -> None:
    assert (Counts().precision, Counts().recall, Counts().exact) == (1.0, 1.0, True)
    assert Counts.of({1, 2, 3}, {2, 3, 4, 5}) + Counts(1, 0, 0) == Counts(4, 4, 2)
