"""How right replays are: against what was, against the same run without its fault, and idle time against the truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bench.accuracy.faults.cases import Case, all_cases
from bench.accuracy.faults.stream import read_flows, read_topology
from bench.accuracy.faults.truth import true_of
from bench.accuracy.layout import NOTHING, fault
from bench.accuracy.report import Table
from prism_ch.analysis.apart import Apart
from prism_ch.analysis.diagnose.context import AttemptContext
from prism_ch.analysis.lookback import read_window
from prism_ch.analysis.replay.attempts import graph_of
from prism_ch.analysis.replay.causes import Cause, without
from prism_ch.analysis.replay.graph import ExecutionGraph
from prism_ch.analysis.replay.idle import measure_idle
from prism_ch.analysis.replay.places import cause_at
from prism_ch.analysis.replay.replay import replay
from prism_ch.analysis.window import job_contexts
from prism_ch.model.columns import Float64, Int64
from prism_ch.model.memory import WindowMemory
from prism_ch.model.params import Params
from prism_ch.model.topology import Topology
from prism_ch.model.window import Window
from prism_ch.simulate import Scenario, Simulation, generate
from prism_ch.simulate.families import FAMILIES
from prism_ch.simulate.job import Fault
from prism_ch.simulate.network import Network, RankGrid
from tests.unit.chain import FlowsInMemory

#: Kinds of fault with a place that can be taken out of a replay.
KINDS = ("slow_gpu", "slow_step", "slow_drift", "slow_stage", "slow_nic", "slow_link", "slow_switch")

#: Bounds on the median and on the 95th percentile of errors, as shares of a step.
BOUNDS = {"replay": (0.005, 0.02), "counterfactual": (0.01, 0.03), "idle": (0.01, None)}

#: A step found is the true one whose end is nearest, within this many seconds.
_NEAR_S = 0.05

_PARAMS = Params()


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors by what they are of, shares of a step.

    `missed` counts attempts without a graph, `hidden` steps of faults that leave no trace: a job that is slow from its
    first step on, where all of its ranks may be to blame.
    """

    replay: list[float] = field(default_factory=list)
    counterfactual: list[float] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)
    missed: int = 0
    hidden: int = 0

    def __add__(self, other: Errors) -> Errors:
        return Errors(
            self.replay + other.replay,
            self.counterfactual + other.counterfactual,
            self.idle + other.idle,
            self.missed + other.missed,
            self.hidden + other.hidden,
        )


def healthy(family: str, seed: int) -> Errors:
    """Replay a family without a fault, and compare idle time with the truth."""
    made = generate(FAMILIES[family](seed))
    errors = Errors()
    for attempt in attempts(made):
        graph = graph_of(attempt)
        errors += Errors(missed=1) if graph is None else Errors(replay=_replayed(attempt, graph))
        if graph is not None:
            errors += Errors(idle=_idle(made, attempt, graph))
    return errors


def faulty(case: Case) -> Errors:
    """Replay a run with its fault as it was, and without it."""
    scenario = replace(case.scenario(), phases=False)
    made, would = generate(scenario), generate(replace(scenario, faults=()))
    is_shown = true_of(case, made).is_shown
    errors = Errors()
    for attempt in attempts(made):
        graph = graph_of(attempt)
        if graph is None:
            errors += Errors(missed=1)
            continue
        errors += Errors(replay=_replayed(attempt, graph))
        cause = _cause(scenario, graph, attempt.topology)
        if cause is None:
            continue
        found = _without(made, would, attempt, graph, cause)
        errors += Errors(counterfactual=found) if is_shown else Errors(hidden=len(found))
    return errors


def attempts(made: Simulation) -> tuple[AttemptContext, ...]:
    """Return the last attempt of each job that a recording shows, taken as one window."""
    topology = read_topology(made.topology)
    window = Window(made.summary["window_start_ns"], made.summary["window_end_ns"])
    source = FlowsInMemory(read_flows(made.flows, topology))
    flows = read_window(source, window, WindowMemory(), topology, _PARAMS, is_whole=True)
    return tuple(job.attempts[-1] for job in job_contexts(flows, topology, _PARAMS, Apart()))


def _replayed(attempt: AttemptContext, graph: ExecutionGraph) -> list[float]:
    actual = np.diff(attempt.attempt.division.job_end_ns())
    again = replay(graph, graph.lag, _PARAMS.replay.sweeps).duration_ns
    return list((np.abs(again - actual) / actual)[graph.known])


def _cause(scenario: Scenario, graph: ExecutionGraph, topology: Topology) -> Cause | None:
    """Return the true place of a fault in a graph. None where this job does not touch it."""
    [one], network = scenario.faults, Network(scenario.cluster)
    first, second = (str(network.addresses[end]) for end in network.ends(one))
    if one.kind in ("slow_nic", "slow_link", "slow_switch"):
        leaf = str(network.switches[network.leaf[network.ends(one)[0]]])
        name = {"slow_nic": first, "slow_link": f"{first}->{second}", "slow_switch": leaf}[one.kind]
        return cause_at(graph, [name], topology, computes=False, moves=True)
    names = _stage(scenario, one, network) if one.kind == "slow_stage" else [first]
    return cause_at(graph, names, topology, computes=True, moves=False)


def _stage(scenario: Scenario, one: Fault, network: Network) -> list[str]:
    job = scenario.jobs[0]
    grid = RankGrid(job.layout, job.attempts[0].gpus, network)
    stages = grid.numbers().reshape(grid.stages, -1)
    mine = next(ranks for ranks in stages if (grid.gpu[ranks] == one.gpu).any())
    return [str(name) for name in network.addresses[grid.endpoint[mine]]]


def _without(
    made: Simulation, would: Simulation, attempt: AttemptContext, graph: ExecutionGraph, cause: Cause
) -> list[float]:
    """Compare steps replayed without the fault with the run without it. Only those count that it slows."""
    ends = attempt.attempt.division.job_end_ns()
    members = {attempt.topology.endpoints[row] for row in graph.endpoints.tolist()}
    job_id = next(row["job_id"] for row in made.truth["jobs"].to_pylist() if members & set(row["visible_endpoints"]))
    ran, healthy_ends = _step_ends(made, job_id), _step_ends(would, job_id)
    number = np.abs(ran[None] - ends[:, None]).argmin(axis=1)
    near = np.abs(ran[number] - ends) <= _NEAR_S * 1e9
    there = near & (number > 0) & (number < len(healthy_ends))
    of = number.clip(1, len(healthy_ends) - 1)
    true = np.where(there, healthy_ends[of] - healthy_ends[of - 1], np.nan)[1:]
    scenario, [one] = made.scenario, made.scenario.faults
    if one.first_step >= 0:
        steps = (number[1:] >= one.first_step) & (number[1:] <= one.last_step)
    else:
        end_s = np.inf if one.kind == "slow_drift" else one.end_s  # what has drifted stays where it is
        from_ns, to_ns = (int(scenario.ns(min(max(at, -1e6), 1e6))) for at in (one.start_s, end_s))
        steps = (ends[1:] > from_ns) & (ends[:-1] < to_ns)
    # Steps that were divided wrongly are another measure's, and have no counterpart.
    judged = steps & graph.known & ~np.isnan(true) & near[:-1] & (np.diff(number) == 1)
    found = replay(graph, without(graph, cause, steps, _PARAMS.replay), _PARAMS.replay.sweeps).duration_ns
    return list((np.abs(found - true) / true)[judged])


def _step_ends(made: Simulation, job_id: str) -> Int64:
    steps = made.truth["steps"]
    mine = np.array(steps["job_id"].to_pylist()) == job_id
    return np.asarray(np.sort(steps["end_ns"].to_numpy()[mine]))


def _idle(made: Simulation, attempt: AttemptContext, graph: ExecutionGraph) -> list[float]:
    """Compare idle time with the truth. GPU-steps count that begin and end where they are found to."""
    one = attempt.attempt
    found: Float64 = measure_idle(graph, one, _PARAMS.replay).idle_s
    truth = made.truth["gpu_steps"].filter(made.truth["gpu_steps"]["complete"])
    columns = (truth[name].to_numpy() for name in ("start_ns", "end_ns", "idle_s", "duration_s"))
    start, end, idle_s, duration_s = columns
    names = np.array(truth["endpoint"].to_pylist())
    errors = []
    for row, endpoint in enumerate(one.division.endpoints.tolist()):
        mine = np.flatnonzero(names == attempt.topology.endpoints[endpoint])
        if not len(mine):
            continue
        ends = one.division.end_ns[row]
        nearest = mine[np.abs(end[mine][None] - ends[1:, None]).argmin(axis=1)]
        apart = np.maximum(np.abs(end[nearest] - ends[1:]), np.abs(start[nearest] - ends[:-1]))
        same = apart <= _NEAR_S * 1e9
        error = np.abs(found[row, 1:] - idle_s[nearest]) / duration_s[nearest]
        errors += error[same & ~np.isnan(error)].tolist()
    return errors


def plan(healthy_seeds: Sequence[int], seeds: range, only: str) -> Iterator[tuple[str, object]]:
    """Yield families without a fault, then cases, each with the row that it counts to."""
    for family in FAMILIES:
        if only in family:
            yield from (("healthy", (family, seed)) for seed in healthy_seeds)
    cases = all_cases(seeds, KINDS)
    yield from ((case.kind, case) for case in cases if only in case.name)


def work(task: tuple[str, object]) -> Errors:
    """Replay one of the plan."""
    what = task[1]
    return faulty(what) if isinstance(what, Case) else healthy(*what)  # type: ignore[misc]


def replay_table(errors: Sequence[tuple[str, Errors]]) -> Table:
    """Lay out the errors by row, and all against their bounds."""
    rows = []
    for name in ("healthy", *KINDS, "all"):
        one = sum((each for row, each in errors if name in (row, "all")), Errors())
        cells = [cell for of in BOUNDS for cell in _cells(getattr(one, of))]
        rows.append((name, *cells, str(one.missed), str(one.hidden)))
    bounds = [fault(bound) if bound is not None else NOTHING for pair in BOUNDS.values() for bound in (0.0, *pair)]
    bounds[::3] = [NOTHING] * len(BOUNDS)
    rows.append(("bound", *bounds, NOTHING, NOTHING))
    header = [f"{of}{column}" for of in BOUNDS for column in (" n", " median", " p95")]
    return Table(("errors, of a step", *header, "missed", "hidden"), rows)


def _cells(values: Sequence[float]) -> tuple[str, str, str]:
    if not values:
        return "0", NOTHING, NOTHING
    return str(len(values)), fault(float(np.median(values))), fault(float(np.quantile(values, 0.95)))
