"""Graphs given as columns of edges: components, places in chains, levels from differences, overlaps of sets."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array, csc_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import spsolve

from prism_ch.core.arrays import Bool, Float64, Int32, Int64, check_equal_length, ranges, run_lengths, run_starts

#: Nodes and edges up to which components are found by plain Python: to build a sparse matrix takes longer.
_FEW = 1_024

#: Rounds of reweighting, within which the weights of `levels` settle.
_ROUNDS = 40

#: A residual of less than this share of the largest difference is none.
_NO_RESIDUAL = 1e-6

#: Holds a set of joined levels, which is free to move as one, near 0; next to the weight of a difference it is nothing.
_HOLD = 1e-12


def components(n: int, a: Int32 | Int64, b: Int32 | Int64) -> Int32:
    """Label the connected component of every node.

    Parameters: `n`, the number of nodes; `a`, `b` int[m], the nodes 0..n-1 that each edge joins; their order, their
    direction, repeats and loops do not matter.
    Returns int32[n]: labels 0..k-1, numbered in the order of the components' smallest nodes.
    Raises ValueError if an edge names a node that is not one of the n.
    Source: LLMPrism (arXiv 2505.00342) finds jobs as disjoint sets of endpoints; scipy finds them by a traversal.
    """
    edges = check_equal_length(a=a, b=b)
    if n == 0 and edges == 0:
        return np.empty(0, dtype=np.int32)
    if edges and (min(a.min(), b.min()) < 0 or max(a.max(), b.max()) >= n):
        raise ValueError(f"an edge names a node outside 0..{n - 1}")
    if n + edges <= _FEW:
        return _few_components(n, a.tolist(), b.tolist())
    # Edges of one job among the nodes of a large cluster touch few of them; each other node is a component.
    touched = np.zeros(n, dtype=np.bool_)
    touched[a] = touched[b] = True
    nodes = np.flatnonzero(touched)
    place = np.cumsum(touched, dtype=np.int32) - 1
    graph = coo_array((np.ones(edges, dtype=np.int8), (place[a], place[b])), shape=(len(nodes), len(nodes))).tocsr()
    found, label = connected_components(graph, directed=False)
    # scipy promises no order of its labels; that of the smallest node makes them a function of the partition alone.
    smallest = np.full(found, n, dtype=np.int64)
    np.minimum.at(smallest, label, nodes)
    is_smallest = ~touched
    is_smallest[smallest] = True
    rank = np.cumsum(is_smallest, dtype=np.int32) - 1
    rank[nodes] = rank[smallest[label]]
    return rank


def _few_components(n: int, a: list[int], b: list[int]) -> Int32:
    """Label components by disjoint sets, each named by its smallest node."""
    above = list(range(n))
    for one, other in zip(a, b, strict=True):
        low, high = sorted((_smallest(above, one), _smallest(above, other)))
        above[high] = low
    label, found = [0] * n, 0
    for node, up in enumerate(above):
        label[node] = label[up] if up < node else found
        found += up == node
    return np.array(label, dtype=np.int32)


def _smallest(above: list[int], node: int) -> int:
    """Return the smallest node of a set, and halve the way there."""
    while above[node] != node:
        above[node] = node = above[above[node]]
    return node


def distance_from_end(n: int, a: Int32, b: Int32) -> Int64:
    """Count the edges between each node and one end of its chain, int64[n].

    Parameters: `n`, the number of nodes; `a`, `b` int32[m], the nodes 0..n-1 that each edge joins, no two edges the
    same. Returns -1 for a node without an edge. Of the two ends, the one with the smaller number counts; in what is no
    chain, a node with the fewest edges. Raises ValueError as `components` does.
    """
    chain = components(n, a, b)
    distance = np.full(n, -1, dtype=np.int64)
    degree = np.bincount(np.concatenate([a, b]), minlength=n)
    nodes = np.flatnonzero(degree)
    order = nodes[np.lexsort((degree[nodes], chain[nodes]))]
    distance[order[run_starts(chain[order])]] = 0
    for reach in range(n):
        further = np.concatenate(
            [there[(distance[here] == reach) & (distance[there] < 0)] for here, there in ((a, b), (b, a))]
        )
        if not len(further):
            break
        distance[further] = reach + 1
    return distance


def levels(first: Int32, second: Int32, difference: Float64, weight: Float64, count: int) -> Float64:
    """Find the levels with the least sum of weighted absolute deviations from measured differences.

    Parameters: `first`, `second` int32[m], two levels that differ, and `difference` float64[m] of the second's over
    the first's; `weight` float64[m], positive; `count`, how many levels there are.
    Returns float64[count]; levels that no chain of differences joins are at no particular distance from one another.
    Least squares would spread a wrong difference over all levels; this confines it to levels measured by nothing else.
    Source: iteratively reweighted least squares, Holland & Welsch, Communications in Statistics 6, 1977.
    """
    check_equal_length(first=first, second=second, difference=difference, weight=weight)
    level = np.zeros(count)
    least = _NO_RESIDUAL * float(np.abs(difference).max(initial=0.0))
    if least == 0:
        return level
    joined, matrix, entry, diagonal = _pattern(first, second, count)
    residual = np.full(len(difference), least)
    pull = np.zeros(len(difference))
    for _ in range(_ROUNDS):
        before, pull = pull, weight * least / np.maximum(np.abs(residual), least)
        if np.array_equal(before, pull):
            break  # the same weights give the same levels
        joined.data = np.bincount(entry, np.tile(pull, 2), joined.nnz)
        held = np.asarray(joined.sum(axis=0)).ravel()
        push = np.bincount(second, pull * difference, count) - np.bincount(first, pull * difference, count)
        matrix.data = np.zeros(len(diagonal))
        matrix.data[diagonal] = held + _HOLD * weight.max()
        matrix.data[~diagonal] = -joined.data
        level = spsolve(matrix, push)
        residual = level[second] - level[first] - difference
    return level


def _pattern(first: Int32, second: Int32, count: int) -> tuple[csc_array, csc_array, Int64, Bool]:
    """Lay out two matrices that only change their values.

    Returns that of joined levels, and the same with its diagonal, without values; the entry of the first that each
    difference is in, int64[2m], its second end first; and which entries of the second are its diagonal, bool[nnz].
    """
    keys, entry = np.unique(
        np.concatenate([second, first]) * np.int64(count) + np.concatenate([first, second]), return_inverse=True
    )
    each = np.arange(count, dtype=np.int64) * (count + 1)
    with_diagonal = np.sort(np.concatenate([keys, each]))
    joined, matrix = (_without_values(one, count) for one in (keys, with_diagonal))
    return joined, matrix, entry, with_diagonal % (count + 1) == 0


def _without_values(keys: Int64, count: int) -> csc_array:
    """Make a square matrix whose entries are 0. They stand, sorted, at column * count + row."""
    column, row = np.divmod(keys, count)
    edges = np.searchsorted(column, np.arange(count + 1)).astype(np.int32)
    return csc_array((np.zeros(len(keys)), row.astype(np.int32), edges), shape=(count, count))


def overlaps(set_id: Int32, item_id: Int32) -> tuple[Int64, Int64, Float64]:
    """List every two sets that have an item in common, and how far they overlap.

    Parameters: `set_id`, `item_id` int32[n], not negative: an item is in a set, once or several times.
    Returns the two sets, int64[pairs] each, the smaller number first, in the order of both, and their overlap
    coefficient |A & B| / min(|A|, |B|), float64[pairs], 1 where one contains the other.
    Raises ValueError on negative ids or columns of unequal length.
    """
    if check_equal_length(set_id=set_id, item_id=item_id) and min(set_id.min(), item_id.min()) < 0:
        raise ValueError("sets and items are numbered from 0; an id is negative")
    shape = (int(set_id.max(initial=-1)) + 1, int(item_id.max(initial=-1)) + 1)
    holds = coo_array((np.ones(len(set_id)), (set_id, item_id)), shape=shape).tocsr()
    holds.data[:] = 1  # of repeats
    common = (holds @ holds.T).tocoo()
    order = np.flatnonzero(common.row < common.col)
    order = order[np.lexsort((common.col[order], common.row[order]))]
    left, right = (np.asarray(side[order], dtype=np.int64) for side in (common.row, common.col))
    size: Float64 = holds.sum(axis=1)
    return left, right, common.data[order] / np.minimum(size[left], size[right])


def pairs_within(group: Int32 | Int64) -> tuple[Int64, Int64]:
    """List every two rows of one group, int64[pairs] each.

    The smaller row is first; pairs are in the order of both. Parameters: `group` int[n], of each row.
    """
    order = np.argsort(group, kind="stable")
    first = run_starts(group[order])
    size = run_lengths(first, len(group))
    place = np.arange(len(group))
    later = np.repeat(first + size, size) - place - 1
    left, right = np.repeat(order, later), order[ranges(place + 1, later)]
    pairs = np.lexsort((right, left))
    return left[pairs], right[pairs]
