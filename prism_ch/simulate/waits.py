"""When ranks wait for others, neither computing nor free to go on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from prism_ch.model.columns import Float64, Int64


class Waits(NamedTuple):
    """When ranks wait for others: columns of rank, start and end in seconds since the recording began."""

    rank: Int64
    start_s: Float64
    end_s: Float64

    @classmethod
    def of(cls, start_s: Float64, end_s: Float64) -> Waits:
        """Take the waits of all ranks, float64[..., ranks], that have a length."""
        start_s, end_s = np.broadcast_arrays(start_s, end_s)
        where = np.nonzero(end_s > start_s)
        return cls(where[-1].astype(np.int64), start_s[where], end_s[where])

    @classmethod
    def concatenate(cls, parts: Iterable[Waits]) -> Waits:
        """Return the waits of all parts."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))
