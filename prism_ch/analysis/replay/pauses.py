"""Pauses: whether a rank lost a step's time in one of its operations, or took longer for all of them.

A slow GPU takes as many times longer for most of what it computes. What delays one operation, such as garbage
collection or a page fault, is a pause: it happens in healthy training, and nothing is to be mended. Where all that a
rank computes in a step is one operation, both leave the same records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from prism_ch.analysis.replay.causes import computes
from prism_ch.analysis.replay.graph import ExecutionGraph
from prism_ch.analysis.replay.places import cause_of
from prism_ch.analysis.replay.what_if import ReplayedAttempt
from prism_ch.core import robust
from prism_ch.model.columns import Bool, Float64, Int64
from prism_ch.model.finding import Finding, Shown
from prism_ch.model.params import ReplayParams

#: Times in nanoseconds that differ by no more are one, rounded to whole ones and scaled.
_ROUNDED_NS = 4.0

#: Excesses that differ by less are one, as of times rounded to nanoseconds.
_DIGITS = 6

#: The median of no more operations moves with a single one.
_ONE_OF = 2


def with_pauses(findings: Sequence[Finding], replays: Sequence[ReplayedAttempt]) -> tuple[Finding, ...]:
    """Mark what single slow steps show: that somebody paused, or was slow."""
    return tuple(_marked(one, replays) for one in findings)


def _marked(finding: Finding, replays: Sequence[ReplayedAttempt]) -> Finding:
    if finding.kind != "slow_step" or finding.first_step != finding.last_step:
        return finding
    shown = (_shown_of(replayed, finding) for replayed in replays)
    return replace(finding, shown=next((one for one in shown if one != "nothing"), "nothing"))


def _shown_of(replayed: ReplayedAttempt, finding: Finding) -> Shown:
    graph, step = replayed.graph, finding.first_step - replayed.first_step
    if not 0 <= step < graph.steps:
        return "nothing"
    units = np.unique(graph.unit).astype(np.int64)  # it may have been any of them
    if finding.cause is not None:
        cause = cause_of(graph, finding, replayed.communicators, replayed.topology)
        units = units[:0] if cause is None else cause.units
    return shown_of(graph, units, step, (finding.observed - finding.expected) * 1e9, replayed.params)


def shown_of(graph: ExecutionGraph, units: Int64, step: int, lost_ns: float, params: ReplayParams) -> Shown:
    """Return what a step shows of the slowest of some units.

    Parameters: `units` int64[n], rows of the graph's; `step`, a column of it; `lost_ns`, what the step lost.

    Operations are compared with the same ones in the other steps. Those that send nothing are taken to be as slow as
    the others, and show nothing; those that are measured together vary together, and are one.
    - nothing: there are too few other steps, or no unit took longer by half of what the step lost.
    - pause: most of its operations took no longer.
    - slow: most took twice as much longer as those of any of the units in any other step, however long single ones took
      there.
    - either: neither shows, as where the step is one operation.
    """
    others = graph.known.copy()
    others[step] = False
    if not graph.known[step] or np.count_nonzero(others) < params.reference_steps:
        return "nothing"
    most_ns, slowest, computing, elsewhere = params.half * lost_ns, None, computes(graph), 0.0
    for unit in units.tolist():
        lag, usual_ns = _operations(graph, unit, np.flatnonzero(computing & (graph.owner == unit)), others)
        if not len(lag):
            continue
        longer = np.unique(np.round(lag / usual_ns[:, None] - 1.0, _DIGITS), axis=0)
        typical = robust.median(longer, axis=0)
        elsewhere = max(elsewhere, float(typical[others].max()))
        longer_ns = float((lag[:, step] - usual_ns).sum())
        if longer_ns > most_ns:
            most_ns, slowest = longer_ns, (len(longer), float(typical[step]), usual_ns.sum())
    if slowest is None:
        return "nothing"
    count, excess, whole_ns = slowest
    if excess < params.half * most_ns / whole_ns:
        return "pause"
    are_several = count > _ONE_OF and np.count_nonzero(others) >= params.recent_steps
    return "slow" if are_several and excess >= params.twice * elsewhere else "either"


def _operations(graph: ExecutionGraph, unit: int, edges: Int64, others: Bool) -> tuple[Float64, Float64]:
    """Return how long a unit's operations took, and usually take, float64[e, k] and float64[e]."""
    takes_ns = graph.lag[edges][:, graph.known] / graph.speed[unit, graph.known]
    lag = graph.lag[edges[np.ptp(takes_ns, axis=1) > _ROUNDED_NS]]
    usual_ns = robust.median(lag[:, others], axis=1)
    return lag[usual_ns > 0], usual_ns[usual_ns > 0]
