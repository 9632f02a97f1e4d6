"""What windows cost: the fit finds what rows, jobs and windows take, and samples name the layer."""

import sys
import threading

import pytest

from bench import profile
from bench.profile import Rows, Samples, Worked, fit_costs
from prism_ch.core import robust


def test_costs_of_rows_jobs_and_windows_are_told_apart() -> None:
    windows = [
        Worked(Rows(rows, rows, rows), Rows(0, 0, 0), jobs, 0.0, 0.0, 0)
        for jobs in (1, 4, 12)
        for rows in (100, 5000 * jobs)
    ]
    seconds = [2e-6 * one.rows.looked_at + 0.03 * one.jobs + 0.2 for one in windows]
    assert fit_costs(windows, seconds) == pytest.approx((2e-6, 0.03, 0.2))


def test_sample_names_the_innermost_layer_and_skips_waiting() -> None:
    samples = Samples()

    class Values:
        """Stops where the package looks at it, as a stack that is sampled does."""

        def __array__(self, dtype: object = None, copy: object = None) -> None:
            profile._sample(samples, sys._getframe(), set())
            raise StopIteration

    with pytest.raises(StopIteration):
        robust.median_by(Values(), Values(), 1)  # type: ignore[arg-type]
    assert dict(samples.layers) == {"core/robust": 1}
    started, release = threading.Event(), threading.Event()

    def wait() -> None:
        started.set()
        release.wait()

    waiting = threading.Thread(target=wait)
    waiting.start()
    started.wait()
    try:
        profile._sample(samples, sys._current_frames()[waiting.ident or 0], set())
    finally:
        release.set()
        waiting.join()
    assert sum(samples.layers.values()) == 1
