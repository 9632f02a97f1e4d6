"""Sequences: the bursts of closing traffic of each communicator, in time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.core import intervals
from prism_ch.core.graph import components
from prism_ch.model.columns import Float64, Int32, Int64
from prism_ch.model.params import DivideParams
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Sequences:
    """Bursts of closing traffic, one sequence a communicator, end to end: sequence i is offsets[i]:offsets[i + 1].

    `line` int32[n] is the sequence of each burst, `gap_s` float64[n] the silence after it (infinite after the last).
    """

    line: Int32
    start_ns: Int64
    end_ns: Int64
    payload: Float64
    gap_s: Float64
    offsets: Int64

    def __len__(self) -> int:
        """Count the sequences."""
        return len(self.offsets) - 1


def communicators(traffic: Traffic) -> Int32:
    """Return the number of each pair's communicator: the endpoints that its traffic joins."""
    size = int(max(traffic.pair_src.max(), traffic.pair_dst.max())) + 1
    label = components(size, traffic.pair_src, traffic.pair_dst)[traffic.pair_src]
    return np.unique(label, return_inverse=True)[1].astype(np.int32)


def links(traffic: Traffic) -> Int32:
    """Return the number of each pair's undirected link."""
    low, high = np.minimum(traffic.pair_src, traffic.pair_dst), np.maximum(traffic.pair_src, traffic.pair_dst)
    key = low.astype(np.int64) * (int(high.max()) + 1) + high
    return np.unique(key, return_inverse=True)[1].astype(np.int32)


def read_sequences(traffic: Traffic, line_of_pair: Int32, params: DivideParams) -> Sequences:
    """Join the bursts of each line's pairs into one sequence of bursts in time."""
    joined = intervals.merge(line_of_pair[traffic.pair], traffic.start_ns, traffic.end_ns, params.burst_gap_ns)
    payload = np.bincount(joined.owner, weights=traffic.payload, minlength=len(joined.group)).astype(np.float64)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(joined.group))])
    gap_s = np.full(len(joined.group), np.inf)
    gap_s[:-1] = (joined.start[1:] - joined.end[:-1]) / 1e9
    gap_s[offsets[1:] - 1] = np.inf
    return Sequences(joined.group, joined.start, joined.end, payload, gap_s, offsets)
