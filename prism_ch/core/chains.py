"""Places in chains, of which a graph given as two columns of edges may hold many."""

from __future__ import annotations

import numpy as np

from prism_ch.core.arrays import Int32, Int64, run_starts
from prism_ch.core.disjoint_set import components


def distance_from_end(n: int, a: Int32, b: Int32) -> Int64:
    """Return how many edges each node is away from one end of its chain, int64[n], -1 for one without an edge.

    Parameters: `n`, the number of nodes; `a`, `b` int32[m], the nodes 0..n-1 that each edge joins, no two edges the
    same. Of the two ends it is the one with the smaller number. In what is no chain it is the distance from a node with
    the fewest edges. Raises ValueError as `components` does.
    """
    chain = components(n, a, b)
    degree = np.bincount(a, minlength=n) + np.bincount(b, minlength=n)
    distance = np.full(n, -1, dtype=np.int64)
    order = np.lexsort((np.arange(n), degree, chain))
    order = order[degree[order] > 0]
    distance[order[run_starts(chain[order])]] = 0
    for reach in range(n):
        for here, there in ((a, b), (b, a)):
            distance[there[(distance[here] == reach) & (distance[there] < 0)]] = reach + 1
        if not (distance == reach + 1).any():
            break
    return distance
