"""What windows cost: measured on some that were worked, predicted for others, and who had best order their flows."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import nnls

from prism_ch.analysis.window import analyse_window
from prism_ch.errors import UsageError
from prism_ch.model.params import Params
from prism_ch.model.window import Window
from prism_ch.settings import Settings
from prism_ch.store.client import Store
from prism_ch.store.flows import read_flows
from prism_ch.store.migrate import require_schema
from prism_ch.store.pull import AMONG, PLANS, TRIALS, PullChoice, PullPlan
from prism_ch.store.statements import statement
from prism_ch.store.topology import read_topology
from prism_ch.worker import DEFAULT_PARAMS, chosen_params, read_worked

#: Windows that are measured, every other one for the model, and how many of the newest they are chosen from.
_WINDOWS, _AMONG = 24, 240
#: How often each is measured, in rounds over all of them: what else the machine does makes single times differ by more
#: than the model is off, and seldom meets the same window twice.
_ROUNDS = 3
#: Called with how many measurements of windows are done, and of how many.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class WindowCost:
    """What the analysis of a window cost: `cpu_s` of the processor, engine included, `clock_s` of the clock.

    Both are medians of the times that it was measured. `flows` were looked at, those before the window that its jobs
    needed included; `write_s` is from the ledger.
    """

    window: Window
    flows: int
    jobs: int
    cpu_s: float
    clock_s: float
    write_s: float


@dataclass(frozen=True, slots=True)
class CostModel:
    """Seconds of the processor: a window costs `flow_s` flows + `job_s` jobs + `window_s`."""

    flow_s: float
    job_s: float
    window_s: float

    @classmethod
    def of(cls, costs: Sequence[WindowCost]) -> CostModel:
        """Fit it to windows by least squares of relative errors; nothing costs less than nothing."""
        terms = np.array([(one.flows, one.jobs, 1.0) for one in costs])
        measured = np.array([one.cpu_s for one in costs])
        weights = 1 / np.maximum(measured, np.finfo(np.float64).tiny)
        found, _ = nnls(terms * weights[:, None], measured * weights)
        return cls(*found.tolist())

    def predict(self, flows: int, jobs: int) -> float:
        """Return what a window costs, in seconds."""
        return self.flow_s * flows + self.job_s * jobs + self.window_s

    def errors(self, costs: Sequence[WindowCost]) -> list[float]:
        """Return how far predictions for windows are off, as shares of what was measured."""
        return [abs(self.predict(one.flows, one.jobs) / one.cpu_s - 1) for one in costs]


@dataclass(frozen=True, slots=True)
class ReadCost:
    """What a flow costs to read by a plan, in seconds of the processor, engine included."""

    plan: PullPlan
    flow_s: float


@dataclass(frozen=True, slots=True)
class Costs:
    """What was measured: windows of the model, others that it had not seen, and each way to read, cheapest first."""

    fitted: tuple[WindowCost, ...]
    unseen: tuple[WindowCost, ...]
    reads: tuple[ReadCost, ...]

    @property
    def windows(self) -> tuple[WindowCost, ...]:
        """All windows that were measured."""
        return self.fitted + self.unseen

    def lines(self, settings: Settings) -> Iterator[str]:
        """Write them for a reader."""
        model, windows = CostModel.of(self.fitted), self.windows
        width_s = (windows[0].window.end_ns - windows[0].window.start_ns) / 1e9
        flows = statistics.median(one.flows for one in windows)
        jobs = statistics.median(one.jobs for one in windows)
        whole_s = statistics.median(one.clock_s + one.write_s for one in windows)
        yield f"windows    {len(windows)} of {width_s:g} s analysed anew, {_ROUNDS} times each, and nothing written"
        yield f"           at the median {flows:,.0f} flows looked at, {jobs:g} jobs"
        yield (
            f"a window   {1e9 * model.flow_s:,.0f} ns a flow + {1e3 * model.job_s:.1f} ms a job +"
            f" {1e3 * model.window_s:.0f} ms, of the processor"
        )
        errors = model.errors(self.unseen)
        yield (
            f"predicted  {len(errors)} windows that the model had not seen, {statistics.median(errors):.1%} off at the"
            f" median, {max(errors):.1%} at the most"
        )
        yield f"clock      {whole_s:.2f} s a window with writing, {width_s / whole_s:,.1f} times as fast as they come"
        chosen = self.chosen(settings)
        for cost in self.reads:
            mark = "  chosen" if cost is chosen else ""
            yield f"reading    {1e9 * cost.flow_s:6,.0f} ns a flow  {cost.plan.name}{mark}"
        saved_s, left_s = ((other.flow_s - chosen.flow_s) * flows for other in (self.reads[-1], self.reads[0]))
        yield f"saved      {1e3 * saved_s:,.0f} ms a window against the dearest, {saved_s / whole_s:.1%} of its time"
        if left_s < 0:
            yield f"           [analysis] pushdown = 'auto' would save {-1e3 * left_s:,.0f} ms more"

    def chosen(self, settings: Settings) -> ReadCost:
        """Return the way to read that the settings lead to."""
        among = AMONG[settings.analysis.pushdown]
        return next(cost for cost in self.reads if cost.plan in among)


def measure_costs(store: Store, settings: Settings, progress: Progress | None = None) -> Costs:
    """Measure what windows of a database cost. Nothing is written.

    Raises UsageError if too few have been worked, StoreError where the database fails.
    """
    require_schema(store)
    rows = store.rows(statement("costs_windows"), {"among": _AMONG, "count": _WINDOWS})
    if len(rows) < 2:
        raise UsageError("fewer than two windows with flows have been worked; run `prism-ch analyse` first")
    params = chosen_params(DEFAULT_PARAMS, settings)
    pulls = PullChoice(settings.analysis.pushdown)
    largest = max(rows, key=lambda row: int(row[2]))
    reads = sorted(_read_costs(store, _window(largest), pulls), key=lambda cost: cost.flow_s)
    costs: list[WindowCost] = []
    for row in [rows[0], *rows * _ROUNDS]:  # the first once more: it imports what the others do not
        costs.append(_window_cost(store, _window(row), float(row[3]), params, pulls))
        if progress is not None:
            progress(len(costs), len(rows) * _ROUNDS + 1)
    windows = [_median(costs[1 + number :: len(rows)]) for number in range(len(rows))]
    return Costs(tuple(windows[::2]), tuple(windows[1::2]), tuple(reads))


def _median(costs: Sequence[WindowCost]) -> WindowCost:
    """Put the measurements of one window together."""
    cpu_s = statistics.median(one.cpu_s for one in costs)
    clock_s = statistics.median(one.clock_s for one in costs)
    return replace(costs[0], cpu_s=cpu_s, clock_s=clock_s)


def _window(row: Sequence[Any]) -> Window:
    return Window(int(row[0]), int(row[1]))


def _read_costs(store: Store, window: Window, pulls: PullChoice) -> Iterator[ReadCost]:
    """Time each way to read a window's flows, turn by turn.

    `pulls` is to know of it as well.
    """
    topology = read_topology(store, window.end_ns)
    spent: dict[PullPlan, list[float]] = {plan: [] for plan in PLANS}
    for _ in range(TRIALS + 1):  # the first round warms caches up
        for plan in PLANS:
            began_s = time.process_time()
            flows = len(read_flows(store, topology, window.start_ns, window.end_ns, plan=plan))
            spent[plan].append((time.process_time() - began_s) / max(flows, 1))
    for plan, costs in spent.items():
        pulls.row_s[plan] = costs[1:]
        yield ReadCost(plan, statistics.median(costs[1:]))


def _window_cost(store: Store, window: Window, write_s: float, params: Params, pulls: PullChoice) -> WindowCost:
    """Analyse a window as if it were new, and write nothing."""
    began_s, clock_s = time.process_time(), time.perf_counter()
    topology, memory, flows = read_worked(store, window, params, pulls)
    found, _ = analyse_window(flows, memory, topology, params)
    cpu_s, clock_s = time.process_time() - began_s, time.perf_counter() - clock_s
    return WindowCost(window, len(flows.looked_at(flows.moving(), params)), len(found.jobs), cpu_s, clock_s, write_s)
