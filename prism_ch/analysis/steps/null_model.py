"""Chance: whether steps are more than what traffic of any kind can be cut into.

Many small transfers, whatever they are for, add up to equal amounts somewhere, and sums of many waiting times are more
even than one of them. Training shows more: the same sizes come back in every step, or steps last equally long though
what is in them does not. Serving moves what its clients ask for, when they do, and shows neither.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prism_ch.analysis.steps.sequences import Sequences
from prism_ch.analysis.steps.step_volume import most_regular, unevenness
from prism_ch.core.arrays import group_search, order_by
from prism_ch.model.columns import Bool, Int32, Int64, UInt64
from prism_ch.model.params import DivideParams

#: How much nearer sizes are looked for than steps agree. Of sizes that vary freely a tenth is a tenth as near.
_NEARER = 10
#: Logarithms of sizes are compared as whole numbers of this.
_LOG_UNIT = 1e-7


def regularity(sequences: Sequences, ends: Bool, params: DivideParams) -> float:
    """Return how much alike the pieces are that the masked bursts end, beyond chance, in 0..1.

    The share of the payload in pieces of the most frequent size, over one plus how uneven the pieces are in time; less
    by what chance explains of both the sizes that recur and the time that pieces take.
    """
    _, share = most_regular(sequences, ends, params)
    volume = np.bincount(sequences.line, weights=sequences.payload, minlength=len(sequences))
    uneven = float(np.median(unevenness(sequences, ends, params)))
    beyond = max(recurrence(sequences, ends, params), evenness(sequences, ends, uneven, params))
    return float(np.average(share, weights=volume)) * beyond / (1 + uneven)


def recurrence(sequences: Sequences, ends: Bool, params: DivideParams) -> float:
    """Return how much the sizes of bursts recur from piece to piece, in 0..1: 0 where they vary freely, 1 where all do.

    Of the bursts of other pieces that have about a burst's size, those that have it nearly exactly.
    """
    closed = ends | np.isinf(sequences.gap_s)
    number: Int64 = np.cumsum(closed) - closed
    piece = number.astype(np.int32)
    size = np.rint(np.log(np.maximum(sequences.payload, 1)) / _LOG_UNIT).astype(np.int64)
    about = params.size_spread
    found = [
        int(_within(sequences.line, size, reach).sum() - _within(piece, size, reach).sum())
        for reach in (about / _NEARER, about)
    ]
    exact = found[0] / max(found[1], 1)
    return max(0.0, (_NEARER * exact - 1) / (_NEARER - 1))


def evenness(sequences: Sequences, ends: Bool, uneven: float, params: DivideParams) -> float:
    """Return how much more even in time pieces are than chance makes them, in 0..1.

    Parameters: `uneven`, what they are. What chance gives is measured with the silences in another order, and is not
    less than that of as many arrivals that have nothing to do with one another.
    """
    after_ns = np.diff(sequences.end_ns, prepend=0)
    first = sequences.offsets[:-1]
    place = _mixed(len(after_ns))
    place[first] = 0  # what comes before a sequence stays there
    shuffled: Int64 = after_ns[np.lexsort((place, sequences.line))]
    by_chance = float(np.median(unevenness(replace(sequences, end_ns=np.cumsum(shuffled)), ends, params)))
    pieces = np.count_nonzero(ends | np.isinf(sequences.gap_s))
    # Mean deviation of a normal law, which sums of so many independent waiting times come close to.
    of_arrivals = float(np.sqrt(2 / np.pi * pieces / len(sequences.line)))
    return max(0.0, 1 - uneven / max(by_chance, of_arrivals))


def _mixed(count: int) -> UInt64:
    """Return numbers in an order that has nothing to do with any traffic, and is the same every time, uint64[count].

    Source: Steele, Lea & Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014, the mix of SplitMix64.
    """
    mixed = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: UInt64 = mixed ^ (mixed >> np.uint64(31))
    return result


def _within(group: Int32, size: Int64, reach: float) -> Int64:
    """Count, for each burst, those of its group whose logarithm of size is no farther off than a reach, int64[n]."""
    order = order_by(group, size)
    line, value = group[order], size[order]
    units = round(reach / _LOG_UNIT)
    count: Int64 = group_search(line, value, line, value + units) - group_search(line, value, line, value - units - 1)
    return count
