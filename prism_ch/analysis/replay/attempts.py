"""The execution graph of a job's attempt as a window shows it."""

from __future__ import annotations

from prism_ch.analysis.diagnose.context import AttemptContext
from prism_ch.analysis.replay.graph import ExecutionGraph, build_graph


def graph_of(attempt: AttemptContext) -> ExecutionGraph | None:
    """Build the execution graph of all steps of an attempt that a window looks at. Returns None without two."""
    one, params = attempt.attempt, attempt.params
    return build_graph(
        one.bursts, one.kinds, one.division, one.groups, attempt.topology, (params.diagnose.compute, params.replay)
    )
