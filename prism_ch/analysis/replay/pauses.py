"""Pauses: whether a rank lost a step's time in one of its operations, or took longer for all of them.

A slow GPU takes as many times longer for most of what it computes. What delays one operation, such as garbage
collection or a page fault, is a pause: it happens in healthy training, and nothing is to be mended. Where all that a
rank computes in a step is one operation, both leave the same records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from prism_ch.analysis.replay.causes import Cause, computes
from prism_ch.analysis.replay.graph import ExecutionGraph
from prism_ch.analysis.replay.places import cause_of
from prism_ch.analysis.replay.what_if import ReplayedAttempt
from prism_ch.core import robust
from prism_ch.model.finding import Finding
from prism_ch.model.params import ReplayParams

#: Times in nanoseconds that differ by no more are one, rounded to whole ones and scaled.
_ROUNDED_NS = 4.0


def with_pauses(findings: Sequence[Finding], replays: Sequence[ReplayedAttempt]) -> tuple[Finding, ...]:
    """Mark the single slow steps that a pause made so, by the graphs of attempts."""
    return tuple(
        replace(one, is_pause=True) if any(_is_paused(replayed, one) for replayed in replays) else one
        for one in findings
    )


def _is_paused(replayed: ReplayedAttempt, finding: Finding) -> bool:
    step = finding.first_step - replayed.first_step
    if finding.kind != "slow_step" or finding.first_step != finding.last_step or not 0 <= step < replayed.graph.steps:
        return False
    cause = cause_of(replayed.graph, finding, replayed.communicators, replayed.topology)
    return cause is not None and is_pause(replayed.graph, cause, step, replayed.params)


def is_pause(graph: ExecutionGraph, cause: Cause, step: int, params: ReplayParams) -> bool:
    """Return whether the slowest unit of a cause paused in a step.

    Parameters: `step`, a column of the graph. Operations are compared with the same ones in the other steps: in a
    pause, most take no longer. Those that send nothing are taken to be as slow as the others, and show nothing. False
    where there are too few others to tell.
    """
    others = graph.known.copy()
    others[step] = False
    if not graph.known[step] or np.count_nonzero(others) < params.reference_steps:
        return False
    computing = computes(graph)
    most_ns, found = 0.0, False
    for unit in cause.units.tolist():
        edges = np.flatnonzero(computing & (graph.owner == unit))
        takes_ns = graph.lag[edges][:, graph.known] / graph.speed[unit, graph.known]
        edges = edges[np.ptp(takes_ns, axis=1) > _ROUNDED_NS]
        usual_ns = robust.median(graph.lag[edges][:, others], axis=1)
        edges, usual_ns = edges[usual_ns > 0], usual_ns[usual_ns > 0]
        longer_ns = graph.lag[edges, step] - usual_ns
        if longer_ns.sum() > most_ns:
            most_ns = float(longer_ns.sum())
            found = bool(robust.median(longer_ns / usual_ns) < params.half * most_ns / usual_ns.sum())
    return found
