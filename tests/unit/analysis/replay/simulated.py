"""Execution graphs of simulated jobs."""

from __future__ import annotations

from functools import cache

from bench.accuracy.faults.stream import read_flows, read_topology
from prism_ch.analysis.apart import Apart
from prism_ch.analysis.diagnose.context import AttemptContext
from prism_ch.analysis.lookback import read_window
from prism_ch.analysis.replay.attempts import graph_of
from prism_ch.analysis.replay.graph import ExecutionGraph
from prism_ch.analysis.window import job_contexts
from prism_ch.model.memory import WindowMemory
from prism_ch.model.params import Params
from prism_ch.model.window import Window
from prism_ch.simulate import Scenario, generate
from tests.unit.chain import FlowsInMemory

PARAMS = Params()


@cache
def attempts(scenario: Scenario) -> tuple[AttemptContext, ...]:
    """Return the attempts of all jobs of a scenario, its recording taken as one window."""
    made = generate(scenario)
    topology = read_topology(made.topology)
    window = Window(made.summary["window_start_ns"], made.summary["window_end_ns"])
    source = FlowsInMemory(read_flows(made.flows, topology))
    flows = read_window(source, window, WindowMemory(), topology, PARAMS, is_whole=True)
    return tuple(attempt for job in job_contexts(flows, topology, PARAMS, Apart()) for attempt in job.attempts)


def graph(scenario: Scenario) -> ExecutionGraph:
    """Return the graph of the only attempt of a scenario's only job."""
    [attempt] = attempts(scenario)
    built = graph_of(attempt)
    assert built is not None
    return built
