"""The scenarios by which growth is measured, and the power that is printed."""

from __future__ import annotations

import numpy as np
import pytest

from bench.growth import exponent, mixed, sized


def test_cost_by_the_square_grows_with_the_power_of_two() -> None:
    sizes = np.array([1.0, 3.0, 9.0, 30.0])
    assert exponent(sizes, 5 * sizes**2) == pytest.approx(2.0)


def test_jobs_fill_the_mixed_cluster_once() -> None:
    scenario = mixed(servers=45, duration_s=60.0)
    gpus = [gpu for job in scenario.jobs for gpu in job.attempts[0].gpus]
    assert sorted(gpus) == list(range(360))
    assert len({job.sync.mode for job in scenario.jobs}) == 4


def test_a_larger_cluster_has_more_jobs_of_one_size() -> None:
    assert [len(sized(gpus).jobs) for gpus in (288, 864)] == [1, 3]
