"""Which ranks compute as one: those that send at the same moment, or wait for one another inside operations."""

from __future__ import annotations

import numpy as np

from prism_ch.core import robust
from prism_ch.core.arrays import run_starts
from prism_ch.core.graph import components
from prism_ch.model.columns import Float64, Int32, Int64


def compute_together(first: Float64, place: Int64, mates: Int32, near_ns: float) -> Int32:
    """Join ranks into units, int32[m], numbered from 0.

    Ranks are of one unit if they are `mates` (int32[m]), or share a `place` (int64[m]: a role in a server) and begin
    within `near_ns` of one another in most steps; `first` float64[m, k] is when they do. A tensor group's ranks end
    each operation together, and hops inside a server leave no record.
    """
    ranks = np.arange(len(mates), dtype=np.int32)
    order = np.argsort(place, kind="stable").astype(np.int32)
    size = np.unique(place, return_counts=True)[1]
    after = np.repeat(np.cumsum(size), size) - 1 - ranks  # how many come after each in its place
    one = np.repeat(ranks, after)
    other = one + 1 + np.arange(len(one), dtype=np.int32) - np.repeat(np.cumsum(after) - after, after)
    one, other = order[one], order[other]
    near = robust.median(np.abs(first[one] - first[other]), axis=1) <= near_ns
    a = np.concatenate([ranks, one[near]])
    b = np.concatenate([len(mates) + mates, other[near]])  # a node for each set of mates
    nodes = len(mates) + int(mates.max(initial=0)) + 1
    label = components(nodes, a.astype(np.int32), b.astype(np.int32))[: len(mates)]
    return np.unique(label, return_inverse=True)[1].astype(np.int32)


def by_unit(values: Float64, row: Int64, unit: Int32, *, latest: bool) -> tuple[Int64, Float64]:
    """Find the earliest or latest moment of each unit. Returns units, and float64[u, k, n], NaN for none.

    Parameters: `values` float64[p, k, n] with the rank of each in `row` int64[p].
    """
    order = np.argsort(unit[row], kind="stable")
    units = unit[row][order]
    first = run_starts(units)
    pick = np.fmax if latest else np.fmin
    return units[first].astype(np.int64), pick.reduceat(values[order], first, axis=0)
