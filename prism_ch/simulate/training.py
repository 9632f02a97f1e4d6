"""A training job in time: step after step, pause after pause, life after life, into labelled flows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prism_ch.model.columns import Float64, Int64
from prism_ch.simulate.cluster import Network
from prism_ch.simulate.engine import StepOutcome, step_engine
from prism_ch.simulate.link import NETWORK_LATENCY_S, Links
from prism_ch.simulate.pause import PauseRun, Pauses
from prism_ch.simulate.ranks import RankGrid, rank_grid
from prism_ch.simulate.scenario import Scenario
from prism_ch.simulate.transfers import STORAGE, FlowPlan, Transfers
from prism_ch.simulate.workload import COMPUTE_FAULTS, Fault, Job, Life

#: Ranks of a job start their first step within this of one another.
START_SPREAD_S = 0.02
#: What lasts so long beyond the end of the recording waits for a rank that hangs: steps take less.
_FOREVER_S = 100.0
#: What one rank sends another before it waits for an answer: NCCL's buffer of a connection (NCCL_BUFFSIZE).
_BUFFER_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class LifeRun:
    """What one life of a job did.

    `begin_ns`, int64[steps], is when the first rank of the job began each step; steps are numbered from `first_step`.
    `finish_ns`, the same shape, is when its last flow ended, or would have, had the life not been cut short.
    `busy_s`, float64[steps, ranks], is how long each rank really computed. `pauses` are those that began within the
    life. `unfinished` are flows that wait for ever for a rank that hangs, as far as they came.
    """

    life: Life
    grid: RankGrid
    first_step: int
    begin_ns: Int64
    finish_ns: Int64
    busy_s: Float64
    transfers: Transfers
    pauses: tuple[PauseRun, ...]
    unfinished: Transfers


def run_job(scenario: Scenario, number: int, network: Network, faults: tuple[Fault, ...]) -> list[LifeRun]:
    """Work job `number` of a scenario under `faults` (which may be fewer than the scenario's, for comparison)."""
    job = scenario.jobs[number]
    links = Links(network, faults)
    runs: list[LifeRun] = []
    step = 0
    for index in range(len(job.lives)):
        runs.append(_LifeEngine(scenario, (number, index), network, links, faults).run(step))
        step += len(runs[-1].begin_ns)
    return runs


class _LifeEngine:
    """Works one life of a job."""

    def __init__(
        self, scenario: Scenario, key: tuple[int, int], network: Network, links: Links, faults: tuple[Fault, ...]
    ) -> None:
        number, index = key
        self._scenario, self._network, self._number, self._index = scenario, network, number, index
        self._links = links
        job: Job = scenario.jobs[number]
        self._life = job.lives[index]
        self._job = replace(job, layout=job.layout_of(self._life), lives=(self._life,))
        self._grid = rank_grid(self._job.layout, self._life.gpus, network)
        self._engine = step_engine(self._job, self._grid, links)
        self._engines = [(0, self._engine)] + [
            (change.from_step, step_engine(self._job.with_batch(change.factor), self._grid, links))
            for change in sorted(job.batch_changes, key=lambda change: change.from_step)
        ]
        self._pauses = Pauses(self._job, self._grid, links, network)
        self._ailing = [
            (fault, np.isin(self._grid.gpu, fault.gpu).reshape(self._grid.stages, self._grid.lanes, -1).any(axis=2))
            for fault in faults
            if fault.kind in COMPUTE_FAULTS
        ]

    def _rng(self, step: int, *, pause: bool = False) -> np.random.Generator:
        """Return the step's own generator: what happens in one step never shifts the chances of another."""
        return np.random.default_rng([self._scenario.seed, 1, self._number, self._index, step + 1, int(pause)])

    def run(self, first_step: int) -> LifeRun:
        """Work steps until the life or the recording is over."""
        shape = (self._grid.stages, self._grid.lanes)
        opening = self._rng(-1)
        own_pace = np.maximum(1 + self._job.compute.rank_spread * opening.standard_normal(shape), 0.5)
        begin = self._life.start_s + self._life.startup_s + opening.uniform(0.0, START_SPREAD_S, shape)
        hold = begin
        stop_s = min(self._life.end_s, self._scenario.duration_s)
        begins: list[float] = []
        outcomes: list[StepOutcome] = []
        pauses: list[PauseRun] = []
        while begin.min() < stop_s:
            step = first_step + len(outcomes)
            begins.append(float(begin.min()))
            begin, taken = self._pauses.take(step, begin, self._rng(len(outcomes), pause=True))
            pauses += taken
            rng = self._rng(len(outcomes))
            loaded = begin + self._job.compute.data_s * rng.uniform(0.8, 1.2, shape)
            pace = own_pace * rng.lognormal(0.0, self._job.compute.step_spread)
            engine = [engine for since, engine in self._engines if since <= step][-1]
            outcomes.append(engine.run(loaded, hold, pace * self._slowness(step, begin), rng))
            begin, hold = outcomes[-1].next_s, outcomes[-1].hold_s
        return LifeRun(
            life=self._life,
            grid=self._grid,
            first_step=first_step,
            begin_ns=self._ns(np.array(begins)),
            finish_ns=self._ns(np.array([outcome.finish_s for outcome in outcomes])),
            busy_s=self._busy(outcomes),
            transfers=Transfers.concatenate([self._transfers(outcomes, first_step), *map(self._paused, pauses)]),
            pauses=tuple(pauses),
            unfinished=self._unfinished(outcomes, first_step, stop_s),
        )

    def _slowness(self, step: int, begin_s: Float64) -> Float64:
        """Return how many times longer each tensor group computes in a step, float64[stages, lanes]."""
        slow = np.ones_like(begin_s)
        for fault, where in self._ailing:
            if fault.first_step >= 0:
                share = np.full(begin_s.shape, float(fault.first_step <= step <= fault.last_step))
            elif fault.kind == "slow_drift":
                share = np.clip((begin_s - fault.start_s) / (fault.end_s - fault.start_s), 0.0, 1.0)
            else:
                share = ((begin_s >= fault.start_s) & (begin_s < fault.end_s)).astype(np.float64)
            slow = slow * np.where(where, 1 + (fault.factor - 1) * share, 1.0)
        return slow

    def _ns(self, seconds: Float64) -> Int64:
        """Turn seconds of the recording into nanoseconds since the epoch."""
        return np.rint(seconds * 1e9).astype(np.int64) + self._scenario.start_ns

    def _busy(self, outcomes: list[StepOutcome]) -> Float64:
        """Return each rank's computing, float64[steps, ranks]."""
        busy = np.array([outcome.busy_s.reshape(-1) for outcome in outcomes])
        return np.repeat(busy.reshape(len(outcomes), self._grid.stages * self._grid.lanes), self._grid.tp, axis=1)

    def _transfers(self, outcomes: list[StepOutcome], first_step: int) -> Transfers:
        """Collect the flows of all steps that leave a server and end within the life."""
        if not outcomes:
            return Transfers.empty()
        plan = self._engine.plan
        crossing = self._crossing(plan) & self._engine.keep
        start = np.stack([outcome.start_s[crossing] for outcome in outcomes])
        end = np.stack([outcome.end_s[crossing] for outcome in outcomes])
        size = np.stack([outcome.payload_bytes[crossing] for outcome in outcomes])
        within = end < self._life.end_s
        steps = (first_step + np.arange(len(outcomes))).astype(np.int32)
        return Transfers(
            start_ns=self._ns(start[within]),
            end_ns=self._ns(end[within]),
            src=np.broadcast_to(plan.src[crossing], within.shape)[within],
            dst=np.broadcast_to(plan.dst[crossing], within.shape)[within],
            payload_bytes=size[within],
            kind=np.broadcast_to(plan.kind[crossing], within.shape)[within],
            role=np.broadcast_to(plan.role[crossing], within.shape)[within],
            job=np.full(int(within.sum()), self._number),
            step=np.broadcast_to(steps[:, None], within.shape)[within],
            queue=np.broadcast_to(plan.queue[crossing], within.shape)[within],
        )

    def _unfinished(self, outcomes: list[StepOutcome], first_step: int, stop_s: float) -> Transfers:
        """Collect the flows of a step that hangs that both ends began: they fill a buffer, and stop.

        An exporter counts what was sent, and reports it when nothing more has come for its idle timeout.
        """
        if not outcomes or not any(fault.kind == "hang" for fault, _ in self._ailing):
            return Transfers.empty()
        plan, last = self._engine.plan, outcomes[-1]
        waits = (last.start_s < stop_s) & (last.end_s > stop_s + _FOREVER_S)
        rows = np.flatnonzero(self._crossing(plan) & self._engine.keep & waits)
        src, dst = plan.src[rows], plan.dst[rows]
        sent = np.minimum(last.payload_bytes[rows], _BUFFER_BYTES)
        start_s = last.start_s[rows]
        end_s = start_s + NETWORK_LATENCY_S + sent * self._links.byte_s(src, dst, self._grid.share)
        return Transfers(
            start_ns=self._ns(start_s),
            end_ns=self._ns(end_s),
            src=src,
            dst=dst,
            payload_bytes=sent,
            kind=plan.kind[rows],
            role=plan.role[rows],
            job=np.full(len(rows), self._number),
            step=np.full(len(rows), first_step + len(outcomes) - 1),
            queue=plan.queue[rows],
        )

    def _paused(self, pause: PauseRun) -> Transfers:
        """Collect the flows of one pause."""
        rows = self._crossing(pause.plan) & (pause.end_s < self._life.end_s)
        count = int(rows.sum())
        return Transfers(
            start_ns=self._ns(pause.start_s[rows]),
            end_ns=self._ns(pause.end_s[rows]),
            src=pause.plan.src[rows],
            dst=pause.plan.dst[rows],
            payload_bytes=pause.plan.payload_bytes[rows],
            kind=pause.plan.kind[rows],
            role=pause.plan.role[rows],
            job=np.where(pause.plan.kind[rows] == STORAGE, -1, self._number),
            step=np.full(count, pause.step),
            queue=pause.plan.queue[rows],
        )

    def _crossing(self, plan: FlowPlan) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        server = self._network.server
        return np.asarray(server[plan.src] != server[plan.dst])
