"""What stands between two steps: checkpoints, evaluations, a data loader that is late."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prism_ch.model.columns import Float64
from prism_ch.simulate.cluster import Network
from prism_ch.simulate.link import Links
from prism_ch.simulate.pipeline import PipelineEngine
from prism_ch.simulate.ranks import RankGrid
from prism_ch.simulate.transfers import PLAIN, STORAGE, FlowPlan
from prism_ch.simulate.workload import Job, Pause

#: Storage nodes take checkpoints at this rate from each GPU.
_CHECKPOINT_BYTES_S = 2e9


@dataclass(frozen=True, slots=True)
class PauseRun:
    """One pause before a step: its span and flows (float64[flows]), in seconds since the recording began."""

    pause: Pause
    step: int
    begin_s: float
    until_s: float
    plan: FlowPlan
    start_s: Float64
    end_s: Float64


class Pauses:
    """Takes the pauses of one life of a job."""

    def __init__(self, job: Job, grid: RankGrid, links: Links, network: Network) -> None:
        self._job, self._grid, self._network = job, grid, network
        evaluates = any(pause.kind == "evaluation" for pause in job.pauses) and job.sync.mode != "zero3"
        self._evaluation = PipelineEngine(job, grid, links, forward_only=True) if evaluates else None

    def take(self, step: int, begin_s: Float64, rng: np.random.Generator) -> tuple[Float64, list[PauseRun]]:
        """Take what is due before a step; return when each tensor group may begin it, float64[stages, lanes]."""
        runs = []
        for pause in self._job.pauses:
            if not pause.due(step):
                continue
            if pause.kind == "stall":
                late = np.zeros_like(begin_s)
                late[:, pause.replica % begin_s.shape[1]] = pause.duration_s
                runs.append(_span(pause, step, begin_s, begin_s + late))
                begin_s = begin_s + late
            elif pause.kind == "checkpoint":
                run = self._checkpoint(pause, step, float(begin_s.max()), rng)
                runs.append(run)
                begin_s = np.full_like(begin_s, max(run.until_s, float(run.end_s.max(initial=-np.inf))))
            else:
                run = self._evaluate(pause, step, np.full_like(begin_s, begin_s.max()), rng)
                runs.append(run)
                begin_s = np.full_like(begin_s, run.until_s)
        return begin_s, runs

    def _checkpoint(self, pause: Pause, step: int, begin_s: float, rng: np.random.Generator) -> PauseRun:
        """Write every rank's state to a storage node of its own choice."""
        storage = self._network.storage
        ranks = len(self._grid.endpoint) if len(storage) and pause.payload_bytes else 0
        node = storage[np.arange(ranks) % max(len(storage), 1)].astype(np.int32)
        size = np.full(ranks, pause.payload_bytes)
        plan = FlowPlan.of(
            self._grid.endpoint[:ranks], node, size, kind=STORAGE, role=PLAIN, queue=np.zeros(1, dtype=np.int64)
        )
        start = begin_s + rng.uniform(0.0, 0.2, ranks)
        end = start + size / _CHECKPOINT_BYTES_S * rng.uniform(0.8, 1.3, ranks)
        return PauseRun(pause, step, begin_s, begin_s + pause.duration_s, plan, start, end)

    def _evaluate(self, pause: Pause, step: int, begin_s: Float64, rng: np.random.Generator) -> PauseRun:
        """Run the pipeline forward only, some rounds one after the other."""
        start: list[Float64] = [np.empty(0)]
        end: list[Float64] = [np.empty(0)]
        plans: list[FlowPlan] = []
        until = begin_s
        engine = self._evaluation
        for _ in range(pause.rounds):
            if engine is None:
                break
            times = engine.run(until, until, np.ones_like(until), rng)
            until = np.full_like(until, times.op_end_s.max())
            starts, ends, size = engine.flows(times)
            start.append(starts[engine.keep])
            end.append(ends[engine.keep])
            plans.append(replace(engine.plan, payload_bytes=size).take(engine.keep))
        last = np.full_like(until, until.max() + pause.duration_s)
        run = _span(pause, step, begin_s, last)
        return PauseRun(
            pause,
            step,
            run.begin_s,
            run.until_s,
            FlowPlan.concatenate(plans),
            np.concatenate(start),
            np.concatenate(end),
        )


def _span(pause: Pause, step: int, begin_s: Float64, until_s: Float64) -> PauseRun:
    """Return a pause without flows."""
    nothing = np.empty(0)
    return PauseRun(pause, step, float(begin_s.min()), float(until_s.max()), FlowPlan.concatenate([]), nothing, nothing)
