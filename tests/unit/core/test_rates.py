"""Rates: what is usual in some time is told by the quieter parts of the time before."""

from __future__ import annotations

import numpy as np
import pytest

from prism_ch.core.rates import usual_count


def test_what_comes_evenly_is_expected_to_go_on() -> None:
    at_ns = np.arange(0, 1000, 10)
    assert usual_count(at_ns, (800, 1000)) == pytest.approx(20)


def test_what_came_all_at_once_says_nothing() -> None:
    at_ns = np.concatenate([np.full(500, 3), np.arange(0, 800, 10)])
    assert usual_count(at_ns, (800, 900)) == pytest.approx(10)


def test_nothing_before_is_usual_of_nothing() -> None:
    assert usual_count(np.array([900, 950]), (800, 1000)) == 0.0
    assert usual_count(np.array([], dtype=np.int64), (800, 1000)) == 0.0


def test_times_of_today_lose_nothing() -> None:
    begin_ns = 1_800_000_000 * 10**9
    at_ns = begin_ns + np.arange(0, 80, 1) * 10**9
    assert usual_count(at_ns, (begin_ns + 80 * 10**9, begin_ns + 100 * 10**9)) == pytest.approx(20)


def test_who_came_just_before_is_no_division_by_nothing() -> None:
    begin_ns = 1_800_000_000 * 10**9
    assert usual_count(np.array([begin_ns - 1]), (begin_ns, begin_ns + 10**9)) == 0.0
