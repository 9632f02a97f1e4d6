"""Cutting sequences into segments that all carry one step volume, by dynamic programming."""

from __future__ import annotations

import numpy as np

from prism_ch.core.arrays import Bool, Float64, Int64

#: The most that a segment costs which carries too little, in squared tolerances: a burst may be lost altogether.
_DEVIATION_CAP = 16.0

#: The most that a segment costs which carries too much: nothing arrives that was not sent, so two segments in one are
#: worse than one that lacks some.
_EXCESS_CAP = 32.0

#: A segment at the end of a sequence that carries less may still go on; payload counts are exact to better than this.
_WHOLE = 0.99


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
    best = np.full((count, width + 1), np.inf)
    best[:, 0] = 0.0
    came_from = np.zeros((count, width + 1), dtype=np.int64)
    for stop in range(1, width + 1):
        low = max(0, stop - longest)
        carried = total[:, stop, None] - total[:, low:stop]
        cost = np.minimum(((carried - 1) / tolerance) ** 2, np.where(carried > 1, _EXCESS_CAP, _DEVIATION_CAP))
        if low == 0:
            cost[:, 0] = np.where(carried[:, 0] < 1, 0.0, cost[:, 0])  # the sequence may begin inside a segment
        whole = best[:, low:stop] + cost
        choice = np.argmin(whole, axis=1)
        came_from[:, stop] = low + choice
        best[:, stop] = whole[np.arange(count), choice] - preferred[:, stop]
    for sequence, n in enumerate(length.tolist()):
        # What is left after the last whole segment is the beginning of another, and free, while it is not yet whole.
        left = total[sequence, n] - total[sequence, : n + 1]
        stop = int(np.argmin(best[sequence, : n + 1] + np.where(left < _WHOLE, 0.0, np.inf)))
        while stop > 0:
            ends[offsets[sequence] + stop - 1] = True
            stop = int(came_from[sequence, stop])
    return ends


def _longest_segment(total: Float64, length: Int64) -> int:
    """Count the items of the longest stretch within one and a half step volumes."""
    longest = 1
    for row, items in zip(total, length, strict=True):
        sums = row[: items + 1]
        reach = np.searchsorted(sums, sums + 1.5, side="right") - np.arange(items + 1)
        longest = max(longest, int(reach.max()))
    return longest
