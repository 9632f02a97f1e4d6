"""What moves beside a job: between its members and machines that are none, as storage that takes a checkpoint."""

from __future__ import annotations

import numpy as np

from prism_ch.analysis.diagnose.stops.rests import Rests
from prism_ch.core import robust
from prism_ch.model.columns import Bool, Float64, Int32
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import StopParams
from prism_ch.model.topology import Topology

#: Machines beside a job that evidence names.
_MACHINES = 3


def with_storage(rests: Rests, duration_s: Float64, around: FlowBatch, endpoints: Int32, params: StopParams) -> Bool:
    """Mask the rests in which a job waits for storage: longer than usual, with more beside it than usual, bool[n].

    Where all computing is one rest, no length tells a short pause from a slow GPU: what moves to storage does.
    Parameters: `duration_s` float64[steps], NaN where unknown; `around`, any flows; `endpoints`, the members, sorted.
    """
    mask = np.zeros(len(rests), dtype=bool)
    if len(rests) < params.enough:
        return mask
    step_s = float(robust.median(duration_s))
    longer = rests.length_s > rests.usual_s() + params.half * step_s
    saved = params.min_saved_share * float(np.median(rests.payload.sum(axis=1)))
    for row in np.flatnonzero(longer).tolist():
        moved = _unusual(around, endpoints, (int(rests.start_ns[row]), int(rests.end_ns[row])), params)
        mask[row] = moved.sum() > saved
    return mask


def unusual_beside(
    around: FlowBatch, endpoints: Int32, span_ns: tuple[int, int], topology: Topology, params: StopParams
) -> dict[str, int]:
    """Return what moved between members and others in a span of time, empty where no more did than usual before.

    Some read their data from storage all the time: that says nothing of why they stopped.
    Parameters: `around`, any flows; `endpoints`, the members. Returns bytes by machine, of those with the most.
    """
    moved = _unusual(around, endpoints, span_ns, params)
    most = np.argsort(-moved, kind="stable")[:_MACHINES]
    return {topology.endpoints[row]: int(moved[row]) for row in most.tolist() if moved[row] > 0}


def _unusual(around: FlowBatch, endpoints: Int32, span_ns: tuple[int, int], params: StopParams) -> Float64:
    """Return the bytes that members exchanged with others in a span, by endpoint of the other; none where as usual."""
    begin_ns = min(int(around.end_ns.min(initial=span_ns[0])), span_ns[0])
    usual, moved = (_beside_bytes(around, endpoints, *span) for span in ((begin_ns, span_ns[0]), span_ns))
    length_ns, before_ns = span_ns[1] - span_ns[0], span_ns[0] - begin_ns
    as_usual = moved.sum() <= params.twice * usual.sum() * length_ns / max(before_ns, length_ns)
    return moved[:0] if as_usual else moved


def _beside_bytes(around: FlowBatch, endpoints: Int32, start_ns: int, end_ns: int) -> Float64:
    """Return the bytes that members exchanged with others in a span of time, by endpoint of the other, float64[n]."""
    sends, gets = np.isin(around.src, endpoints), np.isin(around.dst, endpoints)
    rows = (sends != gets) & (around.end_ns > start_ns) & (around.start_ns < end_ns)
    other = np.where(sends, around.dst, around.src)[rows]
    return np.bincount(other, weights=around.bytes[rows]).astype(np.float64)
