"""A training job in time: step after step, life after life, into labelled flows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism_ch.model.columns import Float64, Int64
from prism_ch.model.result import DP, PP
from prism_ch.simulate.cluster import Network
from prism_ch.simulate.link import Links
from prism_ch.simulate.pipeline import PipelineEngine, StepTimes
from prism_ch.simulate.ranks import RankGrid, rank_grid
from prism_ch.simulate.scenario import Fault, Job, Life, Scenario
from prism_ch.simulate.sync import GradientEngine, SyncTimes
from prism_ch.simulate.transfers import PLAIN, Transfers

#: Ranks of a job start their first step within this of one another.
START_SPREAD_S = 0.02


@dataclass(frozen=True, slots=True)
class LifeRun:
    """What one life of a job did.

    `begin_ns`, int64[steps], is when the first rank of the job began each step; steps are numbered from `first_step`.
    `finish_ns`, the same shape, is when its last flow ended, or would have, had the life not been cut short.
    `busy_s`, float64[steps, ranks], is how long each rank really computed.
    """

    life: Life
    grid: RankGrid
    first_step: int
    begin_ns: Int64
    finish_ns: Int64
    busy_s: Float64
    transfers: Transfers


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
        self._job: Job = scenario.jobs[number]
        self._life = self._job.lives[index]
        self._grid = rank_grid(self._job.layout, self._life.gpus, network)
        self._pipeline = PipelineEngine(self._job.pipeline, self._job.compute, self._grid, links)
        self._gradients = GradientEngine(self._job.sync, self._job.compute, self._grid, links, self._pipeline.program)
        self._slow_gpus = [
            (fault, np.isin(self._grid.gpu, fault.gpu).reshape(self._grid.stages, self._grid.lanes, -1).any(axis=2))
            for fault in faults
            if fault.kind == "slow_gpu"
        ]

    def _rng(self, step: int) -> np.random.Generator:
        """Return the step's own generator: what happens in one step never shifts the chances of another."""
        return np.random.default_rng([self._scenario.seed, 1, self._number, self._index, step + 1])

    def run(self, first_step: int) -> LifeRun:
        """Work steps until the life or the recording is over."""
        shape = (self._grid.stages, self._grid.lanes)
        opening = self._rng(-1)
        own_pace = 1 + self._job.compute.rank_spread * opening.standard_normal(shape)
        begin = self._life.start_s + opening.uniform(0.0, START_SPREAD_S, shape)
        hold = begin
        stop_s = min(self._life.end_s, self._scenario.duration_s)
        begins: list[float] = []
        steps: list[tuple[StepTimes, SyncTimes]] = []
        while begin.min() < stop_s:
            rng = self._rng(len(steps))
            begins.append(float(begin.min()))
            loaded = begin + self._job.compute.data_s * rng.uniform(0.8, 1.2, shape)
            slow = own_pace * self._slowness(first_step + len(steps), begin)
            times = self._pipeline.run(loaded, hold, slow, rng)
            synced = self._gradients.run(times, rng)
            steps.append((times, synced))
            begin, hold = synced.next_s, synced.hold_s
        return LifeRun(
            life=self._life,
            grid=self._grid,
            first_step=first_step,
            begin_ns=self._ns(np.array(begins)),
            finish_ns=self._ns(np.array([_finish_s(times, synced) for times, synced in steps])),
            busy_s=self._busy([times for times, _ in steps]),
            transfers=self._transfers(steps, first_step) if steps else Transfers.empty(),
        )

    def _busy(self, steps: list[StepTimes]) -> Float64:
        """Sum each rank's computing, float64[steps, ranks]."""
        grid, stage = self._grid, self._pipeline.program.stage
        busy = np.zeros((len(steps), grid.stages, grid.lanes))
        for row, times in enumerate(steps):
            np.add.at(busy[row], stage, times.op_end_s - times.op_start_s)
        return np.repeat(busy.reshape(len(steps), -1), grid.tp, axis=1)

    def _slowness(self, step: int, begin_s: Float64) -> Float64:
        """Return how many times longer each tensor group computes in a step, float64[stages, lanes]."""
        slow = np.ones_like(begin_s)
        for fault, where in self._slow_gpus:
            if fault.first_step >= 0:
                during = np.full(begin_s.shape, fault.first_step <= step <= fault.last_step)
            else:
                during = (begin_s >= fault.start_s) & (begin_s < fault.end_s)
            slow = slow * np.where(where & during, fault.factor, 1.0)
        return slow

    def _ns(self, seconds: Float64) -> Int64:
        """Turn seconds of the recording into nanoseconds since the epoch."""
        return np.rint(seconds * 1e9).astype(np.int64) + self._scenario.start_ns

    def _transfers(self, steps: list[tuple[StepTimes, SyncTimes]], first_step: int) -> Transfers:
        """Collect the flows that leave a server and end within the life."""
        pipeline, gradients = self._pipeline, self._gradients
        message_bytes = np.full(pipeline.message_src.shape, self._job.pipeline.message_bytes)
        messages = self._collect(
            np.stack([times.message_start_s for times, _ in steps]),
            np.stack([times.message_end_s for times, _ in steps]),
            {
                "src": pipeline.message_src,
                "dst": pipeline.message_dst,
                "payload_bytes": message_bytes,
                "kind": np.full_like(message_bytes, PP),
                "role": np.full_like(message_bytes, PLAIN),
                "queue": np.zeros_like(message_bytes),
            },
            first_step,
        )
        rounds = gradients.edge_bytes()
        reductions = self._collect(
            np.stack([synced.start_s for _, synced in steps]),
            np.stack([synced.end_s for _, synced in steps]),
            {
                "src": np.broadcast_to(gradients.src, rounds.shape),
                "dst": np.broadcast_to(gradients.dst, rounds.shape),
                "payload_bytes": rounds,
                "kind": np.full_like(rounds, DP),
                "role": np.broadcast_to(gradients.round_role[:, None], rounds.shape),
                "queue": np.broadcast_to(gradients.edges.channel, rounds.shape),
            },
            first_step,
        )
        return Transfers.concatenate([messages, reductions])

    def _collect(
        self, start_s: Float64, end_s: Float64, columns: dict[str, npt.NDArray[np.integer]], first_step: int
    ) -> Transfers:
        """Flatten times[steps, ...] with the columns of one step; drop what stays in a server or outlives the job."""
        server = self._network.server
        crossing = server[columns["src"]] != server[columns["dst"]]
        within = end_s[:, crossing] < self._life.end_s
        steps = (first_step + np.arange(len(start_s))).astype(np.int32)
        step = np.broadcast_to(steps[:, None], within.shape)
        repeated = {name: np.broadcast_to(column[crossing], within.shape)[within] for name, column in columns.items()}
        return Transfers(
            start_ns=self._ns(start_s[:, crossing][within]),
            end_ns=self._ns(end_s[:, crossing][within]),
            job=np.full(int(within.sum()), self._number),
            step=step[within],
            **repeated,
        )


def _finish_s(times: StepTimes, synced: SyncTimes) -> float:
    """Return when the last flow or operation of a step ends."""
    return max(float(ends.max(initial=-np.inf)) for ends in (times.op_end_s, times.message_end_s, synced.end_s))
