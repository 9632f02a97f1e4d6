"""A training job in time: attempts, steps and pauses, and their flows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prism_ch.model.columns import Float64, Int64
from prism_ch.simulate.flows import STORAGE, Flows, FlowTimes
from prism_ch.simulate.job import COMPUTE_FAULTS, Attempt, Fault, Pause
from prism_ch.simulate.network import NETWORK_LATENCY_S, Links, Network, RankGrid
from prism_ch.simulate.pipeline import PipelineEngine
from prism_ch.simulate.scenario import Scenario
from prism_ch.simulate.step import StepTimes, step_engine

#: Ranks of a job start their first step within this of one another.
START_SPREAD_S = 0.02
#: A flow that lasts so long beyond the end of the recording waits for a rank that hangs: steps take less.
_FOREVER_S = 100.0
#: What one rank sends another before it waits for an answer: NCCL's buffer of a connection (NCCL_BUFFSIZE).
_BUFFER_BYTES = 4 << 20
#: Storage nodes take checkpoints at this rate from each GPU.
_CHECKPOINT_BYTES_S = 2e9


@dataclass(frozen=True, slots=True)
class PauseRun:
    """One pause before step `step`, in seconds since the recording began, and its flows."""

    kind: str
    step: int
    begin_s: float
    until_s: float
    flows: Flows


@dataclass(frozen=True, slots=True)
class AttemptRun:
    """One attempt of a job, as it ran.

    `begin_ns`, int64[steps], is when the first rank of the job began each step; steps are numbered from `first_step`.
    `finish_ns`, the same shape, is when its last flow ended, or would have, had the attempt not been cut short.
    `busy_s`, float64[steps, ranks], is how long each rank really computed. `pauses` are those that began within the
    attempt. `unfinished` are flows that wait for ever for a rank that hangs, as far as they came.
    """

    attempt: Attempt
    grid: RankGrid
    first_step: int
    begin_ns: Int64
    finish_ns: Int64
    busy_s: Float64
    flows: Flows
    pauses: tuple[PauseRun, ...]
    unfinished: Flows


def run_job(scenario: Scenario, number: int, network: Network, faults: tuple[Fault, ...]) -> list[AttemptRun]:
    """Run job `number` of a scenario under all of its faults, or some for comparison."""
    links = Links(network, faults)
    runs: list[AttemptRun] = []
    step = 0
    for index in range(len(scenario.jobs[number].attempts)):
        runs.append(_AttemptEngine(scenario, (number, index), links).run(step))
        step += len(runs[-1].begin_ns)
    return runs


class _AttemptEngine:
    """Runs one attempt of a job; `place` numbers job and attempt."""

    def __init__(self, scenario: Scenario, place: tuple[int, int], links: Links) -> None:
        self._scenario, self._place, self._links = scenario, place, links
        job = scenario.jobs[place[0]]
        self._attempt = job.attempts[place[1]]
        self._job = job = replace(job, layout=job.layout_of(self._attempt), attempts=(self._attempt,))
        grid = self._grid = RankGrid(job.layout, self._attempt.gpus, links.network)
        self._engines = [(0, step_engine(job, grid, links))] + [
            (change.from_step, step_engine(job.with_batch(change.factor), grid, links))
            for change in sorted(job.batch_changes, key=lambda change: change.from_step)
        ]
        self._plan = self._engines[0][1].plan
        evaluates = any(pause.kind == "evaluation" for pause in job.pauses) and job.sync.mode != "zero3"
        self._evaluation = [PipelineEngine(job, grid, links, forward_only=True)] if evaluates else []
        self._faults = [
            (fault, np.isin(grid.gpu, fault.gpu).reshape(grid.stages, grid.lanes, -1).any(axis=2))
            for fault in links.faults
            if fault.kind in COMPUTE_FAULTS
        ]

    def _rng(self, step: int, *, pause: bool = False) -> np.random.Generator:
        """Return the step's own generator: no step shifts the chances of another."""
        return np.random.default_rng([self._scenario.seed, 1, *self._place, step + 1, int(pause)])

    def run(self, first_step: int) -> AttemptRun:
        """Run steps until the attempt or the recording is over."""
        grid, compute, attempt, ns = self._grid, self._job.compute, self._attempt, self._scenario.ns
        shape = (grid.stages, grid.lanes)
        opening = self._rng(-1)
        rank_factor = np.maximum(1 + compute.rank_spread * opening.standard_normal(shape), 0.5)
        hold = begin = attempt.start_s + attempt.startup_s + opening.uniform(0.0, START_SPREAD_S, shape)
        stop_s = min(attempt.end_s, self._scenario.duration_s)
        begins: list[float] = []
        steps: list[StepTimes] = []
        pauses: list[PauseRun] = []
        while begin.min() < stop_s:
            step = first_step + len(steps)
            begins.append(float(begin.min()))
            rng = self._rng(len(steps), pause=True)
            for pause in (pause for pause in self._job.pauses if pause.due(step)):
                run, begin = self._pause(pause, step, begin, rng)
                pauses.append(run)
            rng = self._rng(len(steps))
            loaded = begin + compute.data_s * rng.uniform(0.8, 1.2, shape)
            slow = rank_factor * rng.lognormal(0.0, compute.step_spread) * self._slowness(step, begin)
            engine = [engine for since, engine in self._engines if since <= step][-1]
            steps.append(engine.run(loaded, hold, slow, rng))
            begin, hold = steps[-1].next_s, steps[-1].hold_s
        flows = [self._flows(self._plan, times.flows, step) for step, times in enumerate(steps, first_step)]
        return AttemptRun(
            attempt=attempt,
            grid=grid,
            first_step=first_step,
            begin_ns=ns(begins),
            finish_ns=ns([times.finish_s for times in steps]),
            busy_s=np.array([grid.to_ranks(times.busy_s) for times in steps]).reshape(len(steps), len(grid.endpoint)),
            flows=Flows.concatenate([*flows, *(run.flows for run in pauses)]),
            pauses=tuple(pauses),
            unfinished=self._unfinished(steps, first_step, stop_s),
        )

    def _slowness(self, step: int, begin_s: Float64) -> Float64:
        """Return how many times longer each tensor group computes in a step, float64[stages, lanes]."""
        slow = np.ones_like(begin_s)
        for fault, hit in self._faults:
            if fault.first_step >= 0:
                share = np.full(begin_s.shape, float(fault.first_step <= step <= fault.last_step))
            elif fault.kind == "slow_drift":
                share = np.clip((begin_s - fault.start_s) / (fault.end_s - fault.start_s), 0.0, 1.0)
            else:
                share = ((begin_s >= fault.start_s) & (begin_s < fault.end_s)).astype(np.float64)
            slow = slow * np.where(hit, 1 + (fault.factor - 1) * share, 1.0)
        return slow

    def _flows(self, plan: Flows, times: FlowTimes, step: int) -> Flows:
        """Return the flows that leave a server, and end before the attempt does."""
        ns, job = self._scenario.ns, np.where(plan.kind == STORAGE, -1, self._place[0])
        label = {"job": job, "step": np.full(len(plan), step), "payload_bytes": times.payload_bytes}
        flows = replace(plan, start_ns=ns(times.start_s), end_ns=ns(times.end_s), **label)
        return flows.take(self._links.network.crosses(plan.src, plan.dst) & (times.end_s < self._attempt.end_s))

    def _pause(self, pause: Pause, step: int, begin_s: Float64, rng: np.random.Generator) -> tuple[PauseRun, Float64]:
        """Run a pause; return when each tensor group may go on, float64[stages, lanes]."""
        if pause.kind == "stall":
            next_s = begin_s.copy()
            next_s[:, pause.replica % begin_s.shape[1]] += pause.duration_s
            return PauseRun(pause.kind, step, begin_s.min(), next_s.max(), Flows.concatenate([])), next_s
        begin = begin_s.max()
        if pause.kind == "checkpoint":
            plan, times = self._write_state(pause, begin, rng)
            until = begin + pause.duration_s
            last = max(until, times.end_s.max(initial=-np.inf))
        else:
            plan, times, last = self._evaluate(pause, np.full_like(begin_s, begin), rng)
            last = until = last + pause.duration_s
        return PauseRun(pause.kind, step, begin, until, self._flows(plan, times, step)), np.full_like(begin_s, last)

    def _write_state(self, pause: Pause, begin_s: float, rng: np.random.Generator) -> tuple[Flows, FlowTimes]:
        """Write every rank's state to a storage node of its own choice."""
        storage = self._links.network.storage
        source = self._grid.endpoint[: None if len(storage) and pause.payload_bytes else 0]
        node = storage[np.arange(len(source)) % max(len(storage), 1)]
        start_s = begin_s + rng.uniform(0.0, 0.2, len(source))
        end_s = start_s + pause.payload_bytes / _CHECKPOINT_BYTES_S * rng.uniform(0.8, 1.3, len(source))
        size = np.full(len(source), pause.payload_bytes)
        return Flows.of(source, node, size, kind=STORAGE), FlowTimes(start_s, end_s, size)

    def _evaluate(self, pause: Pause, now_s: Float64, rng: np.random.Generator) -> tuple[Flows, FlowTimes, float]:
        """Run the pipeline forward only, some rounds; return also when that is over."""
        rounds = []
        for engine in self._evaluation * pause.rounds:
            times = engine.run(now_s, now_s, np.ones_like(now_s), rng)
            now_s = np.full_like(now_s, times.op_end_s.max())
            rounds.append(engine.flows(times))
        plan = Flows.concatenate(engine.plan for engine in self._evaluation * pause.rounds)
        return plan, FlowTimes.concatenate(rounds), now_s.max()

    def _unfinished(self, steps: list[StepTimes], first_step: int, stop_s: float) -> Flows:
        """Return the begun flows of a step that hangs: they fill a buffer, and stop.

        An exporter counts what was sent, and reports it when nothing more has come for its idle timeout.
        """
        if not steps or not any(fault.kind == "hang" for fault, _ in self._faults):
            return Flows.concatenate([])
        rows = (steps[-1].flows.start_s < stop_s) & (steps[-1].flows.end_s > stop_s + _FOREVER_S)
        plan, times = self._plan.take(rows), steps[-1].flows.take(rows)
        sent = np.minimum(times.payload_bytes, _BUFFER_BYTES)
        end_s = times.start_s + NETWORK_LATENCY_S + sent * self._links.byte_s(plan.src, plan.dst, self._grid.share)
        return self._flows(plan, FlowTimes(times.start_s, end_s, sent), first_step + len(steps) - 1)
