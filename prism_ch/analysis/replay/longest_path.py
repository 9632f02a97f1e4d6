"""Longest paths through one graph for many steps at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism_ch.core.arrays import order_by, run_starts
from prism_ch.model.columns import Bool, Float64, Int64

#: The lag of an edge that is not there in a step.
ABSENT = -np.inf


class CycleError(ValueError):
    """Edges form a cycle."""


@dataclass(frozen=True, slots=True)
class Dag:
    """A directed graph without cycles: edges sorted by the level of their target, then by target.

    `source`, `target` int64[e] are nodes; `edge` int64[e] is the place of each among the edges as they were given.
    A node is one level above the highest it waits for.
    """

    nodes: int
    source: Int64
    target: Int64
    edge: Int64

    @classmethod
    def of(cls, nodes: int, source: npt.ArrayLike, target: npt.ArrayLike) -> Dag:
        """Sort edges by level. Raises CycleError where they form a cycle."""
        first, second = np.asarray(source, dtype=np.int64), np.asarray(target, dtype=np.int64)
        level = _levels(nodes, first, second)
        order = order_by(level[second], second)
        return cls(nodes, first[order], second[order], order)

    def sorted(self, lag: Float64) -> Float64:
        """Return the lags of edges, float64[e, k], in the order of this graph's edges."""
        return lag[self.edge]


def longest_path(dag: Dag, lag: Float64, begin: Float64) -> Float64:
    """Return when each node takes place in each step, float64[nodes, k].

    Parameters: `lag` float64[e, k], of the graph's edges in its own order, ABSENT where there is none; `begin`
    float64[nodes, k], the times of nodes that wait for nothing; of others it is not read.
    A node takes place when the last of its sources has, each by its lag ago. Times that are whole numbers below 2**53
    stay exact.
    """
    from prism_ch.core.relaxation import follow_edges  # noqa: PLC0415 - loads a compiler

    at = np.array(begin, order="C")
    follow_edges(dag.source, dag.target, np.ascontiguousarray(lag), at)
    return at


def longest_source(dag: Dag, at: Float64, edges: Bool) -> Float64:
    """Return when the last source of each node takes place, float64[nodes, k].

    Parameters: `at` float64[nodes, k]; `edges` bool[e], in the graph's own order, masks those that count. Returns -inf
    for a node without one.
    """
    last = np.full(at.shape, ABSENT)
    rows = np.flatnonzero(edges)
    rows = rows[np.argsort(dag.target[rows], kind="stable")]
    if len(rows):
        starts = run_starts(dag.target[rows])
        last[dag.target[rows[starts]]] = np.maximum.reduceat(at[dag.source[rows]], starts, axis=0)
    return last


def _levels(nodes: int, source: Int64, target: Int64) -> Int64:
    """Find the level of each node, int64[nodes]. It is one above the highest it waits for, 0 for nothing."""
    level = np.zeros(nodes, dtype=np.int64)
    for _ in range(nodes + 1):
        higher = level.copy()
        np.maximum.at(higher, target, level[source] + 1)
        if (higher == level).all():
            return level
        level = higher
    raise CycleError("the edges form a cycle: no node of it can take place first")
