"""Directed pairs of ids, looked up by their two ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism_ch.core.arrays import Bool, Int32, Int64, distinct, is_among, rows_among

#: Ids: rows of a topology, numbers of groups, and the like.
Ids = npt.NDArray[np.int32] | npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PairIndex:
    """A table of directed pairs of ids, each of which stands in it once; made by `of`."""

    _key: Int64
    _row: Int64
    _span: int

    @classmethod
    def of(cls, src: Ids, dst: Ids) -> PairIndex:
        """Index the pairs (src[i], dst[i]), int[n] each, none of them negative."""
        span = 1 + int(max(src.max(initial=-1), dst.max(initial=-1)))
        key = src.astype(np.int64) * span + dst
        row = np.argsort(key, kind="stable")
        return cls(key[row], row, span)

    def rows_of(self, src: Ids, dst: Ids) -> Int64:
        """Return the row of each pair (src[i], dst[i]), int64[m], or -1 if unknown."""
        if not len(self._key):
            return np.full(len(src), -1)
        wanted = np.where((src < self._span) & (dst < self._span), src.astype(np.int64) * self._span + dst, -1)
        place = np.minimum(np.searchsorted(self._key, wanted), len(self._key) - 1)
        return np.asarray(np.where(self._key[place] == wanted, self._row[place], -1))

    def holds(self, src: Ids, dst: Ids) -> Bool:
        """Mask the pairs (src[i], dst[i]) that are in the table, bool[m]."""
        return np.asarray(self.rows_of(src, dst) >= 0)


@dataclass(frozen=True, slots=True)
class LinkTable:
    """Undirected links, each once: `low` < `high` int32[k], and `of_pair` int64[n], the link of each directed pair."""

    low: Int32
    high: Int32
    of_pair: Int64


def links_of(src: Ids, dst: Ids) -> LinkTable:
    """List the undirected links of directed pairs (src[i], dst[i]), int[n] each, sorted by (low, high)."""
    span = 1 + int(max(src.max(initial=0), dst.max(initial=0)))
    key = np.minimum(src, dst).astype(np.int64) * span + np.maximum(src, dst)
    link, of_pair = np.unique(key, return_inverse=True)
    return LinkTable((link // span).astype(np.int32), (link % span).astype(np.int32), of_pair)


def rows_between(src: Int32, dst: Int32, endpoints: Int32) -> Int64:
    """Return the rows whose two ends are both among some endpoints, int64[k], rising.

    Parameters: `src`, `dst` int32[n], sorted by both, so that the rows of other senders cost nothing.
    """
    ends = distinct(endpoints)
    rows = rows_among(src, ends)
    return np.asarray(rows[is_among(dst[rows], ends)])
