"""Cutting sequences into segments that all carry one step volume, by dynamic programming."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from prism_ch.core.arrays import Bool, Float64, Int64

#: The most that a segment costs which carries too little, in squared tolerances: a burst may be lost altogether.
_DEVIATION_CAP = 16.0

#: The most that a segment costs which carries too much: nothing arrives that was not sent, so two segments in one are
#: worse than one that lacks some.
_EXCESS_CAP = 32.0

#: A segment at the end of a sequence that carries less may still go on; payload counts are exact to better than this.
_WHOLE = 0.99

#: Costs of segments that are held at once.
_CELLS = 1 << 16


def segment_by_volume(
    amount: Float64, offsets: Int64, step_volume: Float64, preference: Float64, tolerance: float, longest: int = 512
) -> Bool:
    """Choose the items that end a segment so that each carries about one step volume.

    Parameters: `amount` float64[n], positive, the items of all sequences one after the other; `offsets` int64[k+1],
    where each sequence begins; `step_volume` float64[k], what a whole segment of the sequence carries; `preference`
    float64[n], log-odds that a segment ends after the item, from other evidence; `tolerance`, the relative standard
    deviation of a segment's amount; `longest`, the most items a segment may have. Returns bool[n], True where a
    segment ends. The first and the last segment of a sequence may carry less: the sequence was cut there. The last
    item ends a segment only if that segment is whole.

    The cut with the least total cost is found by the recursion of Jackson et al., "An Algorithm for Optimal
    Partitioning of Data on an Interval", IEEE Signal Processing Letters 12, 2005, eq. 3; a segment costs its squared
    deviation from the step volume in tolerances, up to a cap, less the preference of its last item.
    """
    count = len(offsets) - 1
    ends = np.zeros(len(amount), dtype=np.bool_)
    if count == 0 or len(amount) == 0:
        return ends
    length = np.diff(offsets)
    width = int(length.max())
    row = np.repeat(np.arange(count), length)
    column = np.arange(len(amount)) - np.repeat(offsets[:-1], length)
    share = np.zeros((count, width + 1))
    share[row, column + 1] = amount / step_volume[row]
    total = np.cumsum(share, axis=1)
    preferred = np.zeros((count, width + 1))
    preferred[row, column + 1] = preference
    longest = min(longest, width, _longest_segment(total, length))
    best, came_from = _best_cuts(total, preferred, tolerance, longest)
    for sequence, n in enumerate(length.tolist()):
        # What is left after the last whole segment is the beginning of another, and free, while it is not yet whole.
        left = total[sequence, n] - total[sequence, : n + 1]
        stop = int(np.argmin(best[sequence, : n + 1] + np.where(left < _WHOLE, 0.0, np.inf)))
        while stop > 0:
            ends[offsets[sequence] + stop - 1] = True
            stop = int(came_from[sequence, stop])
    return ends


def _best_cuts(total: Float64, preferred: Float64, tolerance: float, longest: int) -> tuple[Float64, Int64]:
    """Find the cheapest cuts of each sequence up to each item. Returns costs and where last segments begin.

    Parameters: `total`, `preferred` float64[k, width + 1], what is carried up to each item, in step volumes, and the
    preference for an end there. Returns float64 and int64 of that shape. A segment that would begin before the sequence
    costs infinitely much: so all stops have as many to choose from, and many are priced together.
    """
    count, items = total.shape
    before = sliding_window_view(np.concatenate([np.zeros((count, longest)), total], axis=1), longest, axis=1)
    best = np.full((count, longest + items), np.inf)
    best[:, longest] = 0.0
    choice = np.zeros((items, count), dtype=np.int64)
    whole, row = np.empty((count, longest)), np.arange(count)
    together = max(1, _CELLS // (count * longest))
    for first in range(1, items, together):
        stops = np.arange(first, min(first + together, items))
        carried = total[:, stops, None] - before[:, stops]
        cost = np.minimum(((carried - 1) / tolerance) ** 2, np.where(carried > 1, _EXCESS_CAP, _DEVIATION_CAP))
        early = np.flatnonzero(stops <= longest)
        place = longest - stops[early]
        begun = carried[:, early, place] < 1  # the sequence may begin inside a segment
        cost[:, early, place] = np.where(begun, 0.0, cost[:, early, place])
        for stop in stops.tolist():
            np.add(best[:, stop : stop + longest], cost[:, stop - first], out=whole)
            whole.argmin(axis=1, out=choice[stop])
            best[:, longest + stop] = whole[row, choice[stop]] - preferred[:, stop]
    came_from = choice.T + (np.arange(items) - longest)
    return best[:, longest:], came_from


def _longest_segment(total: Float64, length: Int64) -> int:
    """Count the items of the longest stretch within one and a half step volumes."""
    longest = 1
    for row, items in zip(total, length, strict=True):
        sums = row[: items + 1]
        reach = np.searchsorted(sums, sums + 1.5, side="right") - np.arange(items + 1)
        longest = max(longest, int(reach.max()))
    return longest
