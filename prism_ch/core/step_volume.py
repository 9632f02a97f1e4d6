"""Cutting sequences into segments that all carry one step volume, by dynamic programming."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from prism_ch.core.arrays import Bool, Float64, Int64

#: A segment at the end of a sequence that carries less may still go on; payload counts are exact to better than this.
_WHOLE = 0.99


def segment_by_volume(
    amount: Float64, offsets: Int64, step_volume: Float64, preference: Float64, tolerance: Float64
) -> Bool:
    """Choose the items that end a segment so that each carries about one step volume.

    Parameters: `amount` float64[n], positive, the items of all sequences one after the other; `offsets` int64[k+1],
    where each sequence begins; `step_volume` float64[k], what a whole segment of the sequence carries; `preference`
    float64[n], log-odds that a segment ends after the item, from other evidence; `tolerance` float64[k], the relative
    standard deviation of a segment's amount. Returns bool[n], True where a segment ends. The first and the last segment
    of a sequence may carry less: the sequence was cut there. The last item ends a segment only if that segment is
    whole.

    The cut with the least total cost is found by the recursion of Jackson et al., "An Algorithm for Optimal
    Partitioning of Data on an Interval", IEEE Signal Processing Letters 12, 2005, eq. 3; a segment costs its squared
    deviation from the step volume in tolerances, up to a cap, less the preference of its last item.
    """
    from prism_ch.core.cheapest_cuts import find_cuts  # noqa: PLC0415 - loads a compiler

    ends = np.zeros(len(amount), dtype=np.bool_)
    parts = [slice(*part) for part in pairwise(offsets.tolist())]
    totals = [np.append(0.0, np.cumsum(amount[part] / each)) for part, each in zip(parts, step_volume, strict=True)]
    longest = max(map(_longest_segment, totals), default=1)
    for part, total, spread in zip(parts, totals, tolerance.tolist(), strict=True):
        best, came_from = np.empty(len(total)), np.zeros(len(total), dtype=np.int64)
        room = np.empty((2, len(total)), dtype=np.int64)
        find_cuts(total, np.ascontiguousarray(preference[part]), spread, longest, best, came_from, *room)
        # What is left after the last whole segment is the beginning of another, and free, while it is not yet whole.
        stop = int(np.argmin(best + np.where(total[-1] - total < _WHOLE, 0.0, np.inf)))
        while stop > 0:
            ends[part.start + stop - 1] = True
            stop = int(came_from[stop])
    return ends


def _longest_segment(total: Float64) -> int:
    """Count the items of the longest stretch within one and a half step volumes."""
    reach = np.searchsorted(total, total + 1.5, side="right") - np.arange(len(total))
    return int(reach.max())
