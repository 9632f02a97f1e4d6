"""Connected components of an undirected graph given as two columns of edges."""

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from prism_ch.core.arrays import Int32, check_equal_length


def components(n: int, a: Int32, b: Int32) -> Int32:
    """Label the component of every node; neither the order nor the direction nor repeats of edges matter.

    Parameters: `n`, the number of nodes; `a`, `b` int32[m], the nodes 0..n-1 that each edge joins (loops are allowed).
    Returns int32[n]: labels 0..k-1, numbered in the order of the components' smallest nodes.
    Raises ValueError where an edge names a node that is not one of the n.
    Source: LLMPrism (arXiv 2505.00342) finds jobs as disjoint sets of endpoints; scipy finds them by a traversal.
    """
    edges = check_equal_length(a=a, b=b)
    if n == 0 and edges == 0:
        return np.empty(0, dtype=np.int32)
    if edges and (min(a.min(), b.min()) < 0 or max(a.max(), b.max()) >= n):
        raise ValueError(f"an edge names a node outside 0..{n - 1}")
    graph = coo_array((np.ones(edges, dtype=np.int8), (a, b)), shape=(n, n)).tocsr()
    found, label = connected_components(graph, directed=False)
    # scipy promises no order of its labels; that of the smallest node makes them a function of the partition alone.
    smallest = np.full(found, n, dtype=np.int64)
    np.minimum.at(smallest, label, np.arange(n))
    rank = np.empty(found, dtype=np.int32)
    rank[np.argsort(smallest)] = np.arange(found, dtype=np.int32)
    return rank[label]
