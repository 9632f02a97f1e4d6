"""How much alike the pieces of a sequence are, and whether they are more so than a null model makes them.

Many small transfers add up to equal amounts somewhere, and sums of many waiting times are more even than one of them.
Training shows more: the same sizes come back in every step, or steps last equally long though what is in them does not.
Serving moves what its clients ask for, when they do, and shows neither.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from prism_ch.analysis.steps.sequences import Sequences
from prism_ch.core import robust
from prism_ch.core.arrays import order_by, run_starts
from prism_ch.core.search import group_search
from prism_ch.model.columns import Bool, Float64, Int32, Int64, UInt64
from prism_ch.model.params import DivideParams

#: How much nearer sizes are looked for than steps agree. Of sizes that vary freely a tenth is a tenth as near.
_NEARER = 10
#: Logarithms of sizes are compared as whole numbers of this.
_LOG_UNIT = 1e-7


def most_regular(sequences: Sequences, ends: Bool, params: DivideParams) -> tuple[Float64, Float64]:
    """Find the size class with the most payload among pieces that the masked bursts end.

    Returns its median size and its share of the sequence's payload, float64[k] each; 0 of a class of too few pieces.
    """
    closed, piece = sequences.pieces(ends)
    amount = np.bincount(piece, weights=sequences.payload)
    line = sequences.line[closed]
    classes = robust.size_classes(amount, params.size_spread / 2, line)
    payload, members = np.bincount(classes, weights=amount), np.bincount(classes)
    class_line = np.zeros(len(payload), dtype=np.int32)
    class_line[classes] = line
    order = np.lexsort((-payload, class_line))
    heaviest = order[run_starts(class_line[order])]
    # The edge of the data may cut the first and the last piece: they count only where they agree with the others.
    inner = np.concatenate([[False], line[1:] == line[:-1]]) & np.concatenate([line[1:] == line[:-1], [False]])
    counts = inner | np.isin(classes, heaviest)
    total = np.maximum(np.bincount(line, weights=amount * counts, minlength=len(sequences)), 1)
    repeats = members[heaviest] >= params.repeats
    return robust.median_by(classes, amount)[heaviest], np.where(repeats, payload[heaviest] / total, 0.0)


def unevenness(sequences: Sequences, ends: Bool, params: DivideParams) -> Float64:
    """Measure how unequal the times of pieces are, float64[k]; 0 for fewer than two pieces.

    It is the mean deviation from the median over that median, or from those before and after one change where that
    leaves less: a job that gets slower takes steps as alike as before.
    """
    closed, _ = sequences.pieces(ends)
    line, end = sequences.line[closed], sequences.end_ns[closed]
    same = line[1:] == line[:-1]
    owner, took_s = line[1:][same], np.diff(end)[same] / 1e9
    usual_s = robust.median_by(owner, took_s, len(sequences))
    count = np.maximum(np.bincount(owner, minlength=len(sequences)), 1)
    side = 2 * owner + _after_change(owner, took_s - usual_s[owner], params.enough)
    usual_of_side_s = robust.median_by(side, took_s, 2 * len(sequences))
    deviation = [
        np.bincount(owner, weights=np.abs(took_s - centre_s), minlength=len(sequences)) / count
        for centre_s in (usual_s[owner], usual_of_side_s[side])
    ]
    return np.nan_to_num(np.minimum(*deviation) / usual_s)


def _after_change(owner: Int32, above: Float64, least: int) -> Bool:
    """Mask the values of each group that come after its level has changed, bool[n].

    Parameters: `owner` int32[n], sorted; `above` float64[n], less the median; `least` values make a level.
    Source: Pettitt, "A Non-Parametric Approach to the Change-Point Problem", Applied Statistics 28, 1979.
    """
    after = np.zeros(len(owner), dtype=bool)
    bounds = np.append(run_starts(owner), len(owner))
    for first, behind in pairwise(bounds.tolist()):
        walk = np.abs(np.cumsum(np.sign(above[first:behind])))[least - 1 : max(behind - first - least, 0)]
        if len(walk):
            after[first + least + int(np.argmax(walk)) : behind] = True
    return after


def regularity(sequences: Sequences, ends: Bool, params: DivideParams) -> float:
    """Measure how alike pieces are beyond the null model, in 0..1.

    The share of the payload in pieces of the most frequent size, over one plus how uneven they are in time, times what
    the null model leaves unexplained of recurring sizes or of even times.
    """
    _, share = most_regular(sequences, ends, params)
    uneven = float(np.median(unevenness(sequences, ends, params)))
    beyond = max(_recurrence(sequences, ends, params), _evenness(sequences, ends, uneven, params))
    return float(np.average(share, weights=sequences.volume)) * beyond / (1 + uneven)


def _recurrence(sequences: Sequences, ends: Bool, params: DivideParams) -> float:
    """Measure how much sizes of bursts recur from piece to piece, in 0..1.

    Of the bursts of other pieces with about a burst's size, the share that have it nearly exactly; 0 if sizes vary
    freely.
    """
    piece = sequences.pieces(ends)[1].astype(np.int32)
    size = np.rint(np.log(np.maximum(sequences.payload, 1)) / _LOG_UNIT).astype(np.int64)
    near, about = (
        int(_count_near(sequences.line, size, reach).sum() - _count_near(piece, size, reach).sum())
        for reach in (params.size_spread / _NEARER, params.size_spread)
    )
    exact = near / max(about, 1)
    return max(0.0, (_NEARER * exact - 1) / (_NEARER - 1))


def _evenness(sequences: Sequences, ends: Bool, uneven: float, params: DivideParams) -> float:
    """Measure how much more even in time pieces are than the null model, in 0..1.

    The null model has the same silences in another order; it is no more even than as many independent arrivals are.
    """
    after_ns = np.diff(sequences.end_ns, prepend=0)
    place = _mixed(len(after_ns))
    place[sequences.offsets[:-1]] = 0  # what comes before a sequence stays there
    shuffled: Int64 = after_ns[np.lexsort((place, sequences.line))]
    of_shuffled = float(np.median(unevenness(replace(sequences, end_ns=np.cumsum(shuffled)), ends, params)))
    pieces = np.count_nonzero(sequences.pieces(ends)[0])
    # Mean deviation of a normal law, which sums of many independent waiting times come close to.
    of_arrivals = float(np.sqrt(2 / np.pi * pieces / len(sequences.line)))
    return max(0.0, 1 - uneven / max(of_shuffled, of_arrivals))


def _mixed(count: int) -> UInt64:
    """Return numbers in an order unrelated to any traffic, the same every time, uint64[count].

    Source: Steele, Lea & Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014 (SplitMix64).
    """
    mixed = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def _count_near(group: Int32, size: Int64, reach: float) -> Int64:
    """Count the bursts of each burst's group within a reach of its log size, int64[n]."""
    order = order_by(group, size)
    line, value = group[order], size[order]
    units = round(reach / _LOG_UNIT)
    return group_search(line, value, line, value + units) - group_search(line, value, line, value - units - 1)
