"""Changepoint libraries, given the gaps of a sequence of closing bursts as our own changepoints are.

Each sees logarithms of gaps, standardised by their median and deviation; a gap is taken to part two steps where it
opens a new segment and is longer than the median. What a library leaves to its user (a penalty or threshold) was chosen
as the best of a few on other seeds, by `python -m bench.accuracy.tune`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version

import numpy as np

from bench.accuracy.division import PARAMS, Chooser, longer_than
from prism_ch.core import robust
from prism_ch.model.columns import Bool, Float64, Int64

#: Finds where segments of a standardised series begin, given the penalty or threshold for a new one.
Detector = Callable[[Float64, float], Int64]


@dataclass(frozen=True, slots=True)
class Tuned:
    """A choice of gaps with one free number: its meaning, values tried, best value."""

    name: str
    means: str
    tried: tuple[float, ...]
    best: float
    chooser: Callable[[float], Chooser]
    package: str = ""

    def title(self) -> str:
        """Return the name of the row, with the version that is installed."""
        return f"{self.name} {version(self.package)}" if self.package else self.name

    def choose(self) -> Chooser:
        """Return the choice with the best number."""
        return self.chooser(self.best)


def load() -> None:
    """Import the installed libraries, so that no method is charged for the import."""
    for peer in PEERS:
        with suppress(ImportError):
            import_module(peer.package.replace("-", "_"))


def _detecting(detect: Detector) -> Callable[[float], Chooser]:
    """Turn a changepoint detector into a choice of gaps for each strength."""

    def with_strength(strength: float) -> Chooser:
        def choose(gap_s: Float64) -> Bool:
            series = robust.robust_z(np.log(gap_s), floor=_FLOOR)
            chosen = np.zeros(len(series), dtype=bool)
            chosen[detect(series, strength)] = True
            return np.asarray(chosen & (series > 0))

        return choose

    return with_strength


#: Deviations of logarithms of gaps count as at least this, as in `bocd.robust_prior`.
_FLOOR = 1e-3

#: Tried as penalties and thresholds, in units of the variance of the standardised series.
_PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0)


def fast_bocpd(
    series: Float64, threshold: float, *, expected_run: float = PARAMS.expected_run, max_run: int = 256
) -> Int64:
    """Return where fast-bocpd's probability of a changepoint passes a threshold.

    Its prior is chosen here, as are its hazard and what it truncates to, unless given.
    """
    library = import_module("fast_bocpd")
    model = library.GaussianNIG(mu0=0.0, kappa0=0.1, alpha0=1.0, beta0=1.0)
    with library.BOCPD(model, library.ConstantHazard(expected_run), max_run_length=max_run) as detector:
        return np.flatnonzero(np.asarray(detector.batch_update(series)) > threshold)


def pelt(kernel: str) -> Detector:
    """Return PELT with a kernel's cost, for segments of any length."""

    def detect(series: Float64, penalty: float) -> Int64:
        search = import_module("ruptures").KernelCPD(kernel=kernel, min_size=1)
        if len(series) < 2:
            return np.empty(0, dtype=np.int64)
        return np.array(search.fit(series).predict(pen=penalty)[:-1], dtype=np.int64)

    return detect


def focus(series: Float64, threshold: float) -> Int64:
    """Return where FOCuS detects a change from the median; it restarts after each."""
    library = import_module("changepoint_online")
    found, began = [], 0
    detector = library.Focus(library.Gaussian(loc=0.0))
    for place, value in enumerate(series.tolist()):
        detector.update(value)
        if detector.statistic() >= threshold:
            found.append(began + int(detector.changepoint()["changepoint"]))
            began = place + 1
            detector = library.Focus(library.Gaussian(loc=0.0))
    return np.array(found, dtype=np.int64)


LONGER = Tuned("gaps longer than x medians", "x", (1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0), 1.5, longer_than)

PEERS = (
    Tuned("fast-bocpd", "threshold", (0.1, 0.2, 0.3, 0.5, 0.7, 0.9), 0.3, _detecting(fast_bocpd), "fast-bocpd"),
    Tuned("ruptures PELT l2", "penalty", (0.1, 0.3, *_PENALTIES), 1.0, _detecting(pelt("linear")), "ruptures"),
    Tuned("ruptures PELT rbf", "penalty", (0.3, *_PENALTIES[:3]), 1.0, _detecting(pelt("rbf")), "ruptures"),
    Tuned("changepoint-online FOCuS", "threshold", _PENALTIES, 10.0, _detecting(focus), "changepoint-online"),
)
