"""Nodes and edges of an execution graph, drafted in blocks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from prism_ch.model.columns import Float64, Int64

#: What an edge is: a unit that goes on computing, one that computes on an input, a message, a round of a collective, or
#: mere order.
OWN, INPUT, MESSAGE, ROUND, ORDER = range(5)


class Draft:
    """Collects nodes with their moments, float64[k] each, and edges between them."""

    def __init__(self, steps: int) -> None:
        """Begin without nodes; `steps` is k."""
        self.steps = steps
        self._nodes = 0
        self._at: list[Float64] = []
        self._lag: list[Float64] = []
        self._columns: list[Int64] = []

    def nodes(self, at: Float64) -> Int64:
        """Add nodes by their moments, float64[..., k]; return their numbers, int64[n]."""
        moments = at.reshape(-1, self.steps).astype(np.float64)
        self._at.append(moments)
        self._nodes += len(moments)
        return np.arange(self._nodes - len(moments), self._nodes)

    def edges(
        self,
        kind: int,
        source: npt.ArrayLike,
        target: npt.ArrayLike,
        lag: npt.ArrayLike,
        owner: npt.ArrayLike = -1,
        place: npt.ArrayLike = -1,
    ) -> None:
        """Add edges of one kind.

        Parameters: `source`, `target`, nodes; `lag` float64[n, k]; `owner`, the unit, pair or communicator
        whose edge it is; `place`, a number that edges share which do the same. One number stands for all edges.
        """
        given = (source, target, kind, owner, place)
        columns = np.empty((len(given), *np.broadcast(*given).shape), dtype=np.int64)
        for number, each in enumerate(given):
            columns[number] = each
        self._columns.append(columns.reshape(len(given), -1))
        lags = np.asarray(lag, dtype=np.float64)
        shape = self._columns[-1].shape[1], self.steps
        self._lag.append(lags if lags.shape == shape else np.broadcast_to(lags, shape))

    def moments(self) -> Float64:
        """Return the moments of all nodes, float64[nodes, k]."""
        return np.concatenate(self._at)

    def lags(self) -> Float64:
        """Return the lags of all edges, float64[e, k]."""
        return np.concatenate(self._lag)

    def columns(self) -> Int64:
        """Return source, target, kind, owner and place of all edges, int64[5, e]."""
        return np.concatenate(self._columns, axis=1)
