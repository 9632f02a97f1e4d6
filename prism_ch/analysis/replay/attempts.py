"""The execution graph of a job's attempt as a window shows it."""

from __future__ import annotations

import numpy as np

from prism_ch.analysis.diagnose.context import AttemptContext
from prism_ch.analysis.replay.graph import ExecutionGraph, build_graph
from prism_ch.analysis.replay.idle import measure_idle
from prism_ch.analysis.replay.longest_path import CycleError
from prism_ch.model.result import GpuIdle


def graph_of(attempt: AttemptContext) -> ExecutionGraph | None:
    """Build the execution graph of all steps of an attempt that a window looks at.

    Returns None without two steps, or where moments seem to wait for one another in a circle: then kinds or stages were
    read wrongly, and nothing follows from them.
    """
    one, params = attempt.attempt, attempt.params
    try:
        return build_graph(
            one.bursts, one.kinds, one.division, one.groups, attempt.topology, (params.diagnose.compute, params.replay)
        )
    except CycleError:
        return None


def idle_of(attempt: AttemptContext, graph: ExecutionGraph | None) -> GpuIdle:
    """Measure the idle time of an attempt's new GPU-steps. Rows are in their order; NaN where it is not known."""
    one = attempt.attempt
    new = len(one.rebuilt.steps)
    shape = len(one.division.endpoints), new
    if graph is None or new == 0:
        return GpuIdle(np.full(shape, np.nan).ravel(), np.full(shape, np.nan).ravel())
    found = measure_idle(graph, one, attempt.params.replay)
    return GpuIdle(found.idle_s.ravel(), found.bubble_s.ravel())
