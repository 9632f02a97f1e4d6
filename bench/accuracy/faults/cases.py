"""The faults to inject: every kind and magnitude, into jobs of many families and sizes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from prism_ch.model.columns import Int64
from prism_ch.simulate.draws import Draws
from prism_ch.simulate.families import FAMILIES
from prism_ch.simulate.job import Attempt, Fault, FaultKind, Layout, Pause
from prism_ch.simulate.network import Network
from prism_ch.simulate.scenario import Cluster, Observation, Scenario, Silence
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

#: Jobs up to this size, in GPUs, may have their replicas inside servers: a pipeline has a stage a server.
_INSIDE_GPUS = 64

#: Sizes of jobs, in GPUs, taken in this order.
_SIZES = (8, 16, 64, 32, 16, 128, 64, 8, 32, 64, 16, 256, 64, 32, 8, 64, 16, 32, 128, 64, 8, 32, 16, 64, 1024)

#: The steps of a recording that come before a stop, and in all.
_HEALTHY_STEPS, _STEPS = 24, 48

#: Seconds before a stop in which a job becomes known.
_KNOWN_AFTER_S = 120.0

#: The step in which a slowness begins: with the first, soon after, while a job is still young, or later.
_BEGINS = (0, 3, 10, _HEALTHY_STEPS, _HEALTHY_STEPS)

_DRIFT_S = 600.0

#: Kinds of fault in the network, and those of them that may slow several jobs.
_NETWORK = ("slow_nic", "slow_link", "slow_switch", "slow_spine", "slow_uplink")
_SHARED = ("slow_switch", "slow_spine", "slow_uplink")
_ABOVE_LEAVES = ("slow_spine", "slow_uplink")


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
        place = self.seed + int(draws.between(1, 25))
        shared = self.kind in _SHARED and draws.one_of(0, 1)
        run, step_s = _timed(_side_by_side(draws)) if shared else _healthy(draws, place)
        if self.kind in _ABOVE_LEAVES and not len(crossings(run, Network(run.cluster))):
            run, step_s = _timed(_side_by_side(draws, across=True))
        if self.kind in _NETWORK:
            run = replace(_with_more_traffic(draws, run), observation=Observation(path=bool(draws.one_of(0, 1))))
        return KINDS[self.kind].inject(draws, run, step_s, self.magnitude)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: its magnitudes, rising, and how to inject one.

    `inject` takes draws, a run, the length of its steps in seconds, and a magnitude.
    """

    magnitudes: tuple[float, ...]
    inject: Callable[[Draws, Scenario, float, float], Scenario]


def all_cases(seeds: range, kinds: Collection[str] = ()) -> list[Case]:
    """List every kind and magnitude under every seed; of some kinds, if any are given."""
    chosen = [(kind, of) for kind, of in KINDS.items() if kind in kinds or not kinds]
    return [Case(kind, magnitude, seed) for kind, of in chosen for magnitude in of.magnitudes for seed in seeds]


def _healthy(draws: Draws, place: int) -> tuple[Scenario, float]:
    """Draw a run of a given size; return it and its usual step in seconds."""
    gpus = _SIZES[place % len(_SIZES)]
    if gpus == 8:
        run = _one_gpu_a_server(draws)
    elif gpus <= _INSIDE_GPUS and draws.one_of(*range(6)) == 0:
        run = _replicas_inside(draws, gpus)
    else:
        fitting = [family for family in _FAMILIES if gpus // 8 >= _LEAST_SERVERS.get(family, 1)]
        run = FAMILIES[draws.one_of(*fitting)](draws.seed, servers=gpus // 8)
    return _timed(run)


def _with_more_traffic(draws: Draws, run: Scenario) -> Scenario:
    """Let jobs move more gradients and activations. Where that takes little of a step, a slow network costs nothing."""
    factor, messages = draws.one_of(2, 4, 8), draws.one_of(1, 2, 4)
    jobs = [
        replace(
            job,
            sync=replace(job.sync, buffer_bytes=factor * job.sync.buffer_bytes),
            pipeline=replace(job.pipeline, message_bytes=messages * job.pipeline.message_bytes),
        )
        for job in run.jobs
    ]
    return replace(run, jobs=tuple(jobs))


def _timed(run: Scenario) -> tuple[Scenario, float]:
    """Give a run the steps of a case; return it and its usual step."""
    step_s = run.duration_s / 50 if run.duration_s > 60 else 1.2
    return replace(run, duration_s=_STEPS * step_s, phases=False), step_s


def _one_gpu_a_server(draws: Draws) -> Scenario:
    """Describe a job of eight GPUs, each in a server of its own."""
    draws = Draws("one-gpu-a-server", draws.seed)
    step_s = draws.between(1.2, 4.0)
    pp = draws.one_of(1, 2)
    job = draws.job(0, Layout(tp=1, pp=pp, dp=8 // pp), step_s, gpus=range(0, 64, 8))
    return draws.scenario([job], step_s)


def _replicas_inside(draws: Draws, gpus: int) -> Scenario:
    """Describe a job whose replicas share servers. Each server has one stage, so no reduction leaves it."""
    draws = Draws("replicas-inside", draws.seed, servers=gpus // 8)
    tp = draws.one_of(1, 2, 4)
    step_s = draws.between(1.0, 4.0)
    return draws.scenario([draws.job(0, Layout(tp=tp, pp=gpus // 8, dp=8 // tp), step_s)], step_s)


def _side_by_side(draws: Draws, *, across: bool = False) -> Scenario:
    """Describe three to five jobs of several tenants on the same leaves.

    Each lies `across` both pods, or anywhere.
    """
    jobs, each = draws.one_of(3, 4, 5), draws.one_of(2, 4)
    draws = Draws("jobs-side-by-side", draws.seed, servers=jobs * each)
    steps = [draws.between(1.0, 4.0) for _ in range(jobs)]
    order = draws.shuffled(range(draws.servers))
    if across:
        half = draws.servers // 2
        order = [server + pod for server in range(half) for pod in (0, half)]
    placed = [
        [server * 8 + gpu for server in order[n * each : (n + 1) * each] for gpu in range(8)] for n in range(jobs)
    ]
    layouts = [
        Layout(tp=8, pp=2, dp=each // 2) if draws.one_of(0, 1) else Layout(tp=4, pp=2, dp=each) for _ in range(jobs)
    ]
    made = [draws.job(n, layouts[n], steps[n], gpus=placed[n]) for n in range(jobs)]
    return draws.scenario(made, max(steps))


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


def _slow_stage(draws: Draws, run: Scenario, step_s: float, magnitude: float) -> Scenario:
    """Slow a stage of a pipeline in all replicas."""
    if run.jobs[0].layout.pp == 1:
        family = draws.one_of("pipeline-1f1b", "pipeline-gpipe", "distributed-optimizer", "pipeline-zero-bubble")
        run, step_s = _timed(FAMILIES[family](draws.seed))
    return _lasting(draws, run, step_s, Fault(kind="slow_stage", gpu=_some_gpu(draws, run), factor=magnitude))


def _hang(draws: Draws, run: Scenario, step_s: float, _magnitude: float) -> Scenario:
    starts_s = (_steps_before(step_s) + draws.between(0.1, 5)) * step_s
    hung = _with(run, Fault(kind="hang", gpu=_some_gpu(draws, run), start_s=starts_s))
    return replace(hung, duration_s=starts_s + 8 * step_s + 30)


def _on_network(kind: FaultKind) -> Callable[[Draws, Scenario, float, float], Scenario]:
    """Return how to inject a fault on a NIC or link of the first job."""

    def inject(draws: Draws, run: Scenario, step_s: float, magnitude: float) -> Scenario:
        src, dst = _some_link(draws, run)
        peer = dst if kind == "slow_link" else -1
        return _lasting(draws, run, step_s, Fault(kind=kind, gpu=src, peer=peer, factor=magnitude))

    return inject


def _above_leaves(kind: FaultKind) -> Callable[[Draws, Scenario, float, float], Scenario]:
    """Return how to inject a fault on a spine or an uplink that flows cross."""

    def inject(draws: Draws, run: Scenario, step_s: float, magnitude: float) -> Scenario:
        network = Network(run.cluster)
        crossed = crossings(run, network)
        src, spine = crossed[draws.one_of(*range(len(crossed)))].tolist()
        gpu = _first_gpu(run.cluster, src) if kind == "slow_uplink" else 0
        return _lasting(draws, run, step_s, Fault(kind=kind, gpu=gpu, spine=spine, factor=magnitude))

    return inject


def crossings(run: Scenario, network: Network) -> Int64:
    """List senders and the numbers of the spines that they use, int64[n, 2]."""
    parts = []
    for job in run.jobs:
        plan = step_plan(job, network)
        far = plan.take(network.leaf[plan.src] != network.leaf[plan.dst])
        for part in range(job.queue_pairs):
            spine = network.spine(network.ports(far.src, far.dst, far.queue.astype(np.int64) * job.queue_pairs + part))
            parts.append(np.stack([far.src, spine], axis=1))
    return np.unique(np.concatenate(parts), axis=0).astype(np.int64)


def _hole(draws: Draws, run: Scenario, step_s: float, magnitude: float) -> Scenario:
    """Let all exporters, or one leaf, be silent for some seconds, or till the end.

    Where all are silent there are several jobs: one that stands still by itself leaves the same records.
    """
    everything = draws.one_of(True, True, False)
    if everything:
        run, step_s = _timed(_side_by_side(draws))
    network = Network(run.cluster)
    from_s = (_steps_before(step_s) + draws.between(0.1, 5)) * step_s
    src, _ = _some_link(draws, run)  # a leaf that sees none of the job's flows hides nothing
    leaf = str(network.switches[network.leaf[network.endpoint_of_gpu(np.array([src]))[0]]])
    exporters = () if everything else (leaf,)
    silence = Silence(exporters=exporters, from_s=from_s, to_s=from_s + magnitude)
    duration_s = from_s + magnitude + draws.one_of(0, 1, 1) * _HEALTHY_STEPS * step_s
    return replace(run, observation=replace(run.observation, silences=(silence,)), duration_s=duration_s)


def _stall(draws: Draws, run: Scenario, step_s: float, magnitude: float) -> Scenario:
    """Delay the data of one replica, or a checkpoint, by a number of steps."""
    before = _steps_before(step_s)
    job, at = run.jobs[0], before + draws.one_of(0, 1, 2, 3)
    if draws.one_of(0, 1):
        replica = draws.one_of(*range(job.layout.dp))
        pause = Pause(kind="stall", duration_s=magnitude * step_s, at_step=at, replica=replica)
    else:
        pause = Pause(kind="checkpoint", duration_s=magnitude * step_s, at_step=at, payload_bytes=1 << 30)
    stalled = replace(job, pauses=(pause,))
    cluster = replace(run.cluster, storage_nodes=max(run.cluster.storage_nodes, 2))
    duration_s = (before + _HEALTHY_STEPS + magnitude) * step_s
    return replace(run, jobs=(stalled, *run.jobs[1:]), cluster=cluster, duration_s=duration_s)


def _restart(draws: Draws, run: Scenario, step_s: float, magnitude: float) -> Scenario:
    """End a job and restart it some seconds later, maybe with one server replaced."""
    job, [attempt] = run.jobs[0], run.jobs[0].attempts
    ends_s = (_steps_before(step_s) + draws.between(0.1, 5)) * step_s
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


def _steps_before(step_s: float) -> int:
    """Count the steps before a stop: a job is known once a window is worked."""
    return max(_HEALTHY_STEPS, ceil(_KNOWN_AFTER_S / step_s))


def _with(run: Scenario, fault: Fault) -> Scenario:
    return replace(run, faults=(fault,))


def _lasting(draws: Draws, run: Scenario, step_s: float, fault: Fault) -> Scenario:
    """Let a fault begin early or late, and last for a while."""
    begins = draws.one_of(*_BEGINS)
    starts_s = (begins + draws.between(0.1, 4)) * step_s if begins else -_STEPS * step_s
    lasts_s = draws.one_of(6, 10, _STEPS) * step_s
    return _with(run, replace(fault, start_s=starts_s, end_s=max(starts_s, 0.0) + lasts_s))


def _some_gpu(draws: Draws, run: Scenario) -> int:
    return draws.one_of(*run.jobs[0].attempts[0].gpus)


def _some_link(draws: Draws, run: Scenario) -> tuple[int, int]:
    """Draw a sender and a receiver of the first job's network traffic, as GPUs."""
    plan = step_plan(run.jobs[0], Network(run.cluster))
    links = np.unique(np.stack([plan.src, plan.dst]), axis=1).T
    src, dst = links[draws.one_of(*range(len(links)))].tolist()
    return _first_gpu(run.cluster, src), _first_gpu(run.cluster, dst)


def _first_gpu(cluster: Cluster, endpoint: int) -> int:
    server, nic = divmod(endpoint, cluster.nics)
    return server * cluster.gpus + nic * (cluster.gpus // cluster.nics)


_BANDWIDTH_LEFT = (0.4, 0.15, 0.05)

#: Magnitudes: times as long (slow GPU, slow step, drift), share of the bandwidth left (NIC, link, switch, spine,
#: uplink), steps (stall), seconds between two attempts (restart) or without records (hole); a hang has none.
KINDS = {
    "slow_gpu": Kind((1.1, 1.2, 1.5, 2.5), _slow_gpu),
    "slow_nic": Kind(_BANDWIDTH_LEFT, _on_network("slow_nic")),
    "slow_link": Kind(_BANDWIDTH_LEFT, _on_network("slow_link")),
    "slow_switch": Kind(_BANDWIDTH_LEFT, _on_network("slow_switch")),
    "slow_spine": Kind(_BANDWIDTH_LEFT, _above_leaves("slow_spine")),
    "slow_uplink": Kind(_BANDWIDTH_LEFT, _above_leaves("slow_uplink")),
    "slow_step": Kind((1.2, 1.5, 2.0), _slow_step),
    "slow_stage": Kind((1.15, 1.33, 2.0), _slow_stage),
    "slow_drift": Kind((1.1, 1.2), _slow_drift),
    "stall": Kind((1.0, 3.0, 8.0), _stall),
    "hang": Kind((0.0,), _hang),
    "restart": Kind((5.0, 20.0), _restart),
    "hole": Kind((30.0, 120.0, 600.0), _hole),
}
