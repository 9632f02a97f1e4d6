"""Rates: how many of what comes now and then are usual in some time."""

from __future__ import annotations

import numpy as np

from prism_ch.core.arrays import Int64

#: The time before is looked at in so many parts, ...
_PARTS = 8
#: ... the busiest of which are left out: what came all at once, as when ranks connect, says nothing of what is usual.
_LEFT_OUT = 2


def usual_count(at_ns: Int64, span_ns: tuple[int, int]) -> float:
    """Return how many events are usual in a span of time, by those that came before it.

    Parameters: `at_ns` int64[n], when they came, in any order, those of the span and later ones among them; `span_ns`,
    its beginning and its end. Returns the rate of the quieter parts of the time since the first of them, times the
    length of the span; 0 where nothing came before.
    """
    before = at_ns[at_ns < span_ns[0]]
    if len(before) == 0:
        return 0.0
    first_ns = int(before.min())  # times since then are exact as floats, those since the epoch are not
    edges = np.linspace(0, span_ns[0] - first_ns, _PARTS + 1)
    counts = np.sort(np.histogram(before - first_ns, edges)[0])[:-_LEFT_OUT]
    return float(counts.mean() * (span_ns[1] - span_ns[0]) / (edges[1] - edges[0]))
