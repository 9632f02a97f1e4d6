"""The faults to inject: every kind and magnitude, into jobs of many families and sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.simulate.draws import Draws
from prism_ch.simulate.families import FAMILIES
from prism_ch.simulate.job import Attempt, Fault, FaultKind, Layout, Pause
from prism_ch.simulate.network import Network
from prism_ch.simulate.scenario import Cluster, Scenario
from prism_ch.simulate.step import step_plan

#: Families whose first job runs without a fault from before the recording to its end. Their servers set its size.
_FAMILIES = (
    "ddp-fused",
    "ddp-bucketed",
    "gradient-accumulation",
    "many-channels",
    "distributed-optimizer",
    "distributed-optimizer-overlap",
    "zero2",
    "zero3",
    "pipeline-1f1b",
    "pipeline-gpipe",
    "pipeline-interleaved",
    "pipeline-zero-bubble",
    "experts",
    "leaf-spine",
    "queue-pairs",
)

#: Families whose jobs need more servers than two.
_LEAST_SERVERS = {"experts": 4}

#: Sizes of jobs, in GPUs, taken in this order.
_SIZES = (8, 16, 64, 32, 16, 128, 64, 8, 32, 64, 16, 256, 64, 32, 8, 64, 16, 32, 128, 64, 8, 32, 16, 64, 1024)

#: The steps of a recording that come before its fault, and in all.
_HEALTHY_STEPS, _STEPS = 24, 48

_DRIFT_S = 600.0


@dataclass(frozen=True, slots=True)
class Case:
    """One fault: its kind, its magnitude, and the seed that determines all else."""

    kind: str
    magnitude: float
    seed: int

    @property
    def name(self) -> str:
        """The case's name in progress and errors."""
        return f"{self.kind} {self.magnitude:g}, seed {self.seed}"

    def scenario(self) -> Scenario:
        """Describe the run with its fault."""
        draws = Draws(f"{self.kind} {self.magnitude}", self.seed)
        run, step_s = _healthy(draws, self.seed + int(draws.between(1, 25)))
        return KINDS[self.kind].inject(draws, run, step_s, self.magnitude)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: its magnitudes, rising, and how to inject one.

    `inject` takes draws, a run, the length of its steps in seconds, and a magnitude.
    """

    magnitudes: tuple[float, ...]
    inject: Callable[[Draws, Scenario, float, float], Scenario]


def all_cases(seeds: range) -> list[Case]:
    """List every kind and magnitude under every seed."""
    return [Case(kind, magnitude, seed) for kind, of in KINDS.items() for magnitude in of.magnitudes for seed in seeds]


def _healthy(draws: Draws, place: int) -> tuple[Scenario, float]:
    """Draw a run of a given size; return it and its usual step in seconds."""
    gpus = _SIZES[place % len(_SIZES)]
    if gpus == 8:
        run = _one_gpu_a_server(draws)
    else:
        fitting = [family for family in _FAMILIES if gpus // 8 >= _LEAST_SERVERS.get(family, 1)]
        run = FAMILIES[draws.one_of(*fitting)](draws.seed, servers=gpus // 8)
    step_s = run.duration_s / 50 if run.duration_s > 60 else 1.2
    return replace(run, duration_s=_STEPS * step_s, phases=False), step_s


def _one_gpu_a_server(draws: Draws) -> Scenario:
    """Describe a job of eight GPUs, each in a server of its own."""
    draws = Draws("one-gpu-a-server", draws.seed)
    step_s = draws.between(1.2, 4.0)
    pp = draws.one_of(1, 2)
    job = draws.job(0, Layout(tp=1, pp=pp, dp=8 // pp), step_s, gpus=range(0, 64, 8))
    return draws.scenario([job], step_s)


def _slow_gpu(draws: Draws, run: Scenario, step_s: float, magnitude: float) -> Scenario:
    return _lasting(draws, run, step_s, Fault(kind="slow_gpu", gpu=_some_gpu(draws, run), factor=magnitude))


def _slow_step(draws: Draws, run: Scenario, _step_s: float, magnitude: float) -> Scenario:
    gpu, step = _some_gpu(draws, run), _HEALTHY_STEPS + draws.one_of(0, 1, 2, 3)
    return _with(run, Fault(kind="slow_gpu", gpu=gpu, factor=magnitude, first_step=step, last_step=step))


def _slow_drift(draws: Draws, run: Scenario, step_s: float, magnitude: float) -> Scenario:
    starts_s = _HEALTHY_STEPS * step_s
    fault = Fault(
        kind="slow_drift",
        gpu=_some_gpu(draws, run),
        factor=magnitude,
        start_s=starts_s,
        end_s=starts_s + _DRIFT_S,
    )
    return replace(_with(run, fault), duration_s=starts_s + _DRIFT_S + 60)


def _hang(draws: Draws, run: Scenario, step_s: float, _magnitude: float) -> Scenario:
    starts_s = (_HEALTHY_STEPS + draws.between(0.1, 5)) * step_s
    hung = _with(run, Fault(kind="hang", gpu=_some_gpu(draws, run), start_s=starts_s))
    return replace(hung, duration_s=starts_s + 8 * step_s + 30)


def _on_network(kind: FaultKind) -> Callable[[Draws, Scenario, float, float], Scenario]:
    """Return how to inject a fault on a NIC or link of the first job."""

    def inject(draws: Draws, run: Scenario, step_s: float, magnitude: float) -> Scenario:
        src, dst = _some_link(draws, run)
        peer = dst if kind == "slow_link" else -1
        return _lasting(draws, run, step_s, Fault(kind=kind, gpu=src, peer=peer, factor=magnitude))

    return inject


def _stall(draws: Draws, run: Scenario, step_s: float, magnitude: float) -> Scenario:
    """Delay the data of one replica, or a checkpoint, by a number of steps."""
    job, at = run.jobs[0], _HEALTHY_STEPS + draws.one_of(0, 1, 2, 3)
    if draws.one_of(0, 1):
        replica = int(draws.between(1, job.layout.dp + 1)) - 1
        pause = Pause(kind="stall", duration_s=magnitude * step_s, at_step=at, replica=replica)
    else:
        pause = Pause(kind="checkpoint", duration_s=magnitude * step_s, at_step=at, payload_bytes=1 << 30)
    stalled = replace(job, pauses=(pause,))
    cluster = replace(run.cluster, storage_nodes=max(run.cluster.storage_nodes, 2))
    duration_s = run.duration_s + magnitude * step_s
    return replace(run, jobs=(stalled, *run.jobs[1:]), cluster=cluster, duration_s=duration_s)


def _restart(draws: Draws, run: Scenario, step_s: float, magnitude: float) -> Scenario:
    """End a job and restart it some seconds later, maybe with one server replaced."""
    job, [attempt] = run.jobs[0], run.jobs[0].attempts
    ends_s = (_HEALTHY_STEPS + draws.between(0.1, 5)) * step_s
    cluster, gpus = run.cluster, attempt.gpus
    if draws.one_of(0, 1):
        lost = gpus[0] // cluster.gpus
        gpus = tuple(
            gpu % cluster.gpus + cluster.servers * cluster.gpus if gpu // cluster.gpus == lost else gpu for gpu in gpus
        )
        cluster = replace(cluster, servers=cluster.servers + 1)
    again = Attempt(gpus=gpus, start_s=ends_s + magnitude, startup_s=draws.between(2.0, 5.0))
    attempts = (replace(attempt, end_s=ends_s), again)
    duration_s = again.start_s + again.startup_s + _HEALTHY_STEPS * step_s
    return replace(run, jobs=(replace(job, attempts=attempts), *run.jobs[1:]), cluster=cluster, duration_s=duration_s)


def _with(run: Scenario, fault: Fault) -> Scenario:
    return replace(run, faults=(fault,))


def _lasting(draws: Draws, run: Scenario, step_s: float, fault: Fault) -> Scenario:
    """Let a fault begin after healthy steps and last for some, or to the end."""
    starts_s = (_HEALTHY_STEPS + draws.between(0.1, 4)) * step_s
    lasts_s = draws.one_of(6, 10, _STEPS) * step_s
    return _with(run, replace(fault, start_s=starts_s, end_s=starts_s + lasts_s))


def _some_gpu(draws: Draws, run: Scenario) -> int:
    return draws.one_of(*run.jobs[0].attempts[0].gpus)


def _some_link(draws: Draws, run: Scenario) -> tuple[int, int]:
    """Draw a sender and a receiver of the first job's network traffic, as GPUs."""
    plan = step_plan(run.jobs[0], Network(run.cluster))
    links = np.unique(np.stack([plan.src, plan.dst]), axis=1).T
    src, dst = links[int(draws.between(1, len(links) + 1)) - 1].tolist()
    return _first_gpu(run.cluster, src), _first_gpu(run.cluster, dst)


def _first_gpu(cluster: Cluster, endpoint: int) -> int:
    server, nic = divmod(endpoint, cluster.nics)
    return server * cluster.gpus + nic * (cluster.gpus // cluster.nics)


_BANDWIDTH_LEFT = (0.8, 0.6, 0.4, 0.2, 0.1)

#: Magnitudes: times as long (slow GPU, slow step, drift), share of the bandwidth left (NIC, link, switch), steps
#: (stall), seconds between two attempts (restart); a hang has none.
KINDS = {
    "slow_gpu": Kind((1.1, 1.15, 1.2, 1.3, 1.5, 2.0), _slow_gpu),
    "slow_nic": Kind(_BANDWIDTH_LEFT, _on_network("slow_nic")),
    "slow_link": Kind(_BANDWIDTH_LEFT, _on_network("slow_link")),
    "slow_switch": Kind(_BANDWIDTH_LEFT, _on_network("slow_switch")),
    "slow_step": Kind((1.1, 1.2, 1.3, 1.5, 2.0), _slow_step),
    "slow_drift": Kind((1.05, 1.1, 1.2), _slow_drift),
    "stall": Kind((1.0, 2.0, 4.0, 8.0), _stall),
    "hang": Kind((0.0, 1.0), _hang),
    "restart": Kind((5.0, 10.0, 20.0), _restart),
}
