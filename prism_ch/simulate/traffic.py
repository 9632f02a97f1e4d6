"""All traffic of a scenario in time: training jobs, start-up, storage, monitoring, inference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.model.columns import Bool, Float64, Int64
from prism_ch.simulate.job import COMPUTE_FAULTS, HANG_FACTOR, Attempt, Fault, Pause
from prism_ch.simulate.network import (
    MONITOR,
    NETWORK_LATENCY_S,
    SERVING,
    STARTUP,
    STORAGE,
    STRAY,
    Flows,
    FlowTimes,
    Index,
    Links,
    Network,
    RankGrid,
)
from prism_ch.simulate.pipeline import PipelineEngine
from prism_ch.simulate.scenario import Scenario, Serving
from prism_ch.simulate.step import StepTimes, step_engine
from prism_ch.simulate.waits import Waits

#: Ranks of a job start their first step within this of one another.
START_SPREAD_S = 0.02
#: A flow that lasts this long beyond the end of the recording, in seconds, waits for a rank that hangs.
_FOREVER_S = 100.0
#: What one rank sends another before it waits for an answer: NCCL's buffer of a connection (NCCL_BUFFSIZE).
_BUFFER_BYTES = 4 << 20
#: Storage nodes take checkpoints at this rate from each GPU.
_CHECKPOINT_BYTES_S = 2e9

#: A request's key-value cache leaves in this many pieces, a group of layers each.
_CACHE_PIECES = 4


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
    `busy_s`, float64[steps, ranks], is how long each rank really computed, and `waits` are when ranks wait for others.
    `pauses` are those that began within the attempt. `unfinished` are flows that wait for ever for a rank that hangs,
    as far as they came.
    """

    attempt: Attempt
    grid: RankGrid
    first_step: int
    begin_ns: Int64
    finish_ns: Int64
    busy_s: Float64
    waits: Waits
    flows: Flows
    pauses: tuple[PauseRun, ...]
    unfinished: Flows


def _slowed(fault: Fault, grid: RankGrid) -> Bool:
    """Mask the stages and lanes in which a fault slows a rank, bool[stages, lanes]."""
    hit = (grid.gpu == fault.gpu).reshape(grid.stages, grid.lanes, -1).any(axis=2)
    return np.repeat(hit.any(axis=1)[:, None], grid.lanes, axis=1) if fault.kind == "slow_stage" else hit


def run_job(scenario: Scenario, number: int, network: Network, faults: tuple[Fault, ...]) -> list[AttemptRun]:
    """Run job `number` of a scenario under all of its faults, or some for comparison."""
    links = Links(network, faults, scenario.jobs[number].queue_pairs)
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
        self._faults = [(fault, _slowed(fault, grid)) for fault in links.faults if fault.kind in COMPUTE_FAULTS]

    def _rng(self, step: int, *, pause: bool = False) -> np.random.Generator:
        """Return the step's own generator: no step shifts the draws of another."""
        return np.random.default_rng([self._scenario.seed, 1, *self._place, step + 1, int(pause)])

    def run(self, first_step: int) -> AttemptRun:
        """Run steps until the attempt or the recording is over.

        1. Run the pauses that are due before the step; they move when each tensor group begins.
        2. Load data, and draw how much longer than usual each tensor group computes.
        3. Run the step with the engine of its batch size; it sets when the next one begins.
        4. Keep the flows that leave a server, and those that a hang leaves unfinished.
        """
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
            waits=Waits.concatenate([times.waits for times in steps]) if steps else Waits.of(np.empty(0), np.empty(0)),
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
        return np.minimum(slow, HANG_FACTOR)

    def _flows(self, plan: Flows, times: FlowTimes, step: int) -> Flows:
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


def surrounding_flows(scenario: Scenario, network: Network) -> Flows:
    """Return all flows of the scenario's surroundings."""
    rng = np.random.default_rng([scenario.seed, 3])
    parts = [*_storage_reads(scenario, network, rng), *_monitoring(scenario, network, rng)]
    parts.append(_stray(scenario, network, rng))
    for number, serving in enumerate(scenario.surroundings.serving):
        parts += _serve(scenario, serving, network, np.random.default_rng([scenario.seed, 4, number]))
    return Flows.concatenate(parts)


def startup_flows(scenario: Scenario, number: int, runs: Sequence[AttemptRun], network: Network) -> Flows:
    """Return how ranks connect at the beginning of attempts: nearly each with each."""
    parts = []
    for index, run in enumerate(runs):
        if not run.attempt.startup_s:
            continue
        rng = np.random.default_rng([scenario.seed, 5, number, index])
        endpoints = np.unique(run.grid.endpoint)
        src, dst = (side.reshape(-1) for side in np.meshgrid(endpoints, endpoints, indexing="ij"))
        met = network.crosses(src, dst) & (rng.random(len(src)) < 0.95)
        src, dst = src[met], dst[met]
        start = run.attempt.start_s + run.attempt.startup_s * rng.uniform(0.05, 0.9, len(src))
        took = rng.uniform(0.0005, 0.02, len(src))
        size = rng.integers(300, 20_000, len(src))
        parts.append(Flows.of(src, dst, size, kind=STARTUP, job=number, **scenario.span(start, took)))
    return Flows.concatenate(parts)


def _storage_reads(scenario: Scenario, network: Network, rng: np.random.Generator) -> Iterator[Flows]:
    around, cluster = scenario.surroundings, scenario.cluster
    if not around.read_period_s or not len(network.storage):
        return
    readers = np.arange(0, cluster.servers * cluster.nics, cluster.nics)
    reader, start = _periodic(readers, around.read_period_s, scenario.duration_s, rng)
    node = network.storage[rng.integers(0, len(network.storage), len(reader))]
    size = np.rint(around.read_bytes * rng.uniform(0.8, 1.2, len(reader)))
    yield Flows.of(node, reader, size, kind=STORAGE, **scenario.span(start, size / 5e9))
    yield Flows.of(reader, node, 400, kind=STORAGE, **scenario.span(start - 0.001, 5e-4))


def _monitoring(scenario: Scenario, network: Network, rng: np.random.Generator) -> Iterator[Flows]:
    period_s = scenario.surroundings.monitor_period_s
    if not period_s or not len(network.monitors):
        return
    nics = np.arange(scenario.cluster.servers * scenario.cluster.nics)
    queried, start = _periodic(nics, period_s, scenario.duration_s, rng)
    monitor = network.monitors[queried % len(network.monitors)]
    took = rng.uniform(0.002, 0.02, len(queried))
    size = rng.integers(70_000, 90_000, len(queried))
    yield Flows.of(queried, monitor, size, kind=MONITOR, **scenario.span(start, took))
    yield Flows.of(monitor, queried, size // 80, kind=MONITOR, **scenario.span(start - 0.001, took + 0.001))


def _periodic(who: Index, period_s: float, duration_s: float, rng: np.random.Generator) -> tuple[Index, Float64]:
    """Return who acts when: every period, from a phase of its own, unpunctually."""
    rounds = int(duration_s / period_s) + 1
    phase = rng.uniform(0.0, period_s, len(who))
    start = (phase[:, None] + period_s * np.arange(rounds)).reshape(-1)
    return np.repeat(who, rounds), start + rng.normal(0.0, 0.01, len(start))


def _stray(scenario: Scenario, network: Network, rng: np.random.Generator) -> Flows:
    count = int(rng.poisson(scenario.surroundings.stray_s * scenario.duration_s))
    src, dst = rng.integers(0, scenario.cluster.servers * scenario.cluster.nics, (2, count))
    start = rng.uniform(0.0, scenario.duration_s, count)
    took = rng.uniform(0.0002, 0.05, count)
    size = np.rint(rng.lognormal(9.0, 1.5, count))
    return Flows.of(src, dst, size, kind=STRAY, **scenario.span(start, took)).take(network.crosses(src, dst))


def _serve(scenario: Scenario, serving: Serving, network: Network, rng: np.random.Generator) -> Iterator[Flows]:
    arrival, client = _arrivals(serving, max(len(network.clients), 1), scenario.duration_s, rng)
    count, nics = len(arrival), scenario.cluster.nics
    prefill = np.asarray(serving.prefill)[rng.integers(0, len(serving.prefill), count)]
    decode = np.asarray(serving.decode)[rng.integers(0, len(serving.decode), count)]
    cache = serving.cache_bytes * rng.lognormal(-0.32, 0.8, count)
    if len(network.clients):
        sender = network.clients[client]
        question = rng.integers(500, 30_000, count)
        took = rng.uniform(1e-3, 5e-3, count)
        yield Flows.of(sender, prefill * nics, question, kind=SERVING, **scenario.span(arrival, took))
        answering_s = rng.gamma(2.0, 2.0, count)
        size = np.rint(answering_s * 400) + 200
        yield Flows.of(decode * nics, sender, size, kind=SERVING, **scenario.span(arrival + 0.3, answering_s))
    prefill_s = 0.02 + cache / 20e9
    request, rail, piece = (axis.reshape(-1) for axis in np.indices((count, nics, _CACHE_PIECES)))
    size = np.maximum(cache[request] / nics / _CACHE_PIECES, 1).astype(np.int64)
    start = arrival[request] + prefill_s[request] * (1 + piece) / _CACHE_PIECES
    start = start + rng.uniform(0.0, 3e-4, len(start))
    took = size * 8e-9 / scenario.cluster.link_gbps * rng.uniform(1.05, 1.4, len(size)) + 1e-5
    src, dst = prefill[request] * nics + rail, decode[request] * nics + rail
    yield Flows.of(src, dst, size, kind=SERVING, **scenario.span(start, took))


def _arrivals(serving: Serving, clients: int, duration_s: float, rng: np.random.Generator) -> tuple[Float64, Int64]:
    """Return when each request comes and from which client: a Gamma renewal process a client."""
    mean_s = clients / serving.requests_s
    shape = 1.0 / serving.burstiness**2
    draws = int(np.ceil(duration_s / mean_s * 2)) + 20
    when = np.cumsum(rng.gamma(shape, mean_s / shape, (clients, draws)), axis=1)
    when -= rng.uniform(0.0, mean_s, (clients, 1))
    inside = (when >= 0) & (when < duration_s)
    return when[inside], np.nonzero(inside)[0]
