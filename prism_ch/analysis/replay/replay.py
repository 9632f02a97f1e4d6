"""Replays of a job's steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.analysis.replay.graph import ExecutionGraph
from prism_ch.analysis.replay.longest_path import longest_path
from prism_ch.model.columns import Float64


@dataclass(frozen=True, slots=True)
class Replay:
    """What steps take: `at` float64[nodes, k], see ExecutionGraph, and `duration_ns` float64[k] of the job's steps."""

    at: Float64
    duration_ns: Float64


def replay(graph: ExecutionGraph, lag: Float64, sweeps: int) -> Replay:
    """Replay all steps with some lags, float64[e, k].

    A role begins a step as long after the job's last end as it ended the step before: what that was follows from the
    step before, whose replay needs the one before it. Each of `sweeps` carries it on by a step, for all steps at once.
    """
    begin = graph.at.copy()
    offset = begin[graph.begins]
    at = longest_path(graph.dag, lag, begin)
    for _ in range(sweeps - 1):
        end = at[graph.ends]
        carried = offset.copy()
        carried[:, 1:] = (end - end.max(axis=0))[:, :-1]
        # After a step that is not known, as before the first, a role begins as it was seen to.
        follows = np.append(False, graph.known[:-1])
        carried[:, ~follows] = offset[:, ~follows]
        if (carried == offset).all():
            break
        begin[graph.begins] = offset = carried
        at = longest_path(graph.dag, lag, begin)
    return Replay(at, np.asarray(at[graph.ends].max(axis=0)))
