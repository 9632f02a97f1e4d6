"""Families by what surrounds training: start-up, checkpoints, evaluation, stalls, storage, monitoring, inference."""

from __future__ import annotations

from dataclasses import replace

from prism_ch.simulate.families.shaping import MIB, Chances, cluster_of, scenario, training_job
from prism_ch.simulate.scenario import Scenario, Serving, Surroundings
from prism_ch.simulate.workload import Job, Layout, Life, Pause


def _layout(servers: int) -> Layout:
    return Layout(tp=8, pp=2, dp=servers // 2)


def _paused(family: str, seed: int, servers: int, kind: str) -> tuple[Chances, float, Job]:
    """Describe one job that pauses now and then."""
    chances = Chances(family, seed)
    step_s = chances.between(1.0, 4.0)
    job = training_job(chances, 0, _layout(servers), step_s)
    every = chances.one_of(8, 12, 17)
    if kind == "checkpoint":
        pauses = [Pause(kind="checkpoint", duration_s=2 * step_s, every_steps=every, payload_bytes=1 << 30)]
    elif kind == "evaluation":
        pauses = [Pause(kind="evaluation", duration_s=0.5 * step_s, every_steps=every, rounds=4)]
    else:
        pauses = [
            Pause(kind="stall", duration_s=chances.between(0.3, 3.0), at_step=at, replica=at) for at in (9, 10, 23, 31)
        ]
    return chances, step_s, replace(job, pauses=tuple(pauses))


def checkpoints(seed: int, servers: int = 8) -> Scenario:
    """Every rank writes its state to shared storage and the job waits for it."""
    chances, step_s, job = _paused("checkpoints", seed, servers, "checkpoint")
    return scenario(chances, [job], cluster_of(servers, storage_nodes=4), step_s)


def evaluation(seed: int, servers: int = 8) -> Scenario:
    """Now and then the pipeline runs forward only, and then nothing for a while."""
    chances, step_s, job = _paused("evaluation", seed, servers, "evaluation")
    return scenario(chances, [job], cluster_of(servers), step_s)


def late_data(seed: int, servers: int = 8) -> Scenario:
    """Late data of one replica, and operations held up at random: long silences inside steps."""
    chances, step_s, job = _paused("late-data", seed, servers, "stall")
    compute = replace(job.compute, hiccup_rate=5e-4, hiccup_s=chances.between(0.1, 0.4))
    return scenario(chances, [replace(job, compute=compute)], cluster_of(servers), step_s)


def startup_mesh(seed: int, servers: int = 8) -> Scenario:
    """One job that begins inside the recording: nearly every rank meets every other first."""
    chances = Chances("startup-mesh", seed)
    step_s = chances.between(1.0, 4.0)
    layout = Layout(tp=4, pp=2, dp=servers)
    job = training_job(chances, 0, layout, step_s)
    life = Life(gpus=job.lives[0].gpus, start_s=chances.between(3.0, 10.0), startup_s=chances.between(3.0, 8.0))
    return scenario(chances, [replace(job, lives=(life,))], cluster_of(servers), step_s)


def storage_hub(seed: int, servers: int = 8) -> Scenario:
    """Two tenants' jobs read data from, and write checkpoints to, the same few storage nodes."""
    chances = Chances("storage-hub", seed)
    half = servers // 2
    steps = [chances.between(1.0, 4.0) for _ in range(2)]
    jobs = []
    for number, step_s in enumerate(steps):
        gpus = range(number * half * 8, (number + 1) * half * 8)
        pause = Pause(kind="checkpoint", duration_s=step_s, every_steps=15, payload_bytes=512 * MIB)
        job = training_job(chances, number, _layout(half), step_s, gpus=gpus)
        jobs.append(replace(job, pauses=(pause,)))
    cluster = cluster_of(servers, storage_nodes=3, storage_listed=bool(chances.one_of(0, 1)))
    around = Surroundings(read_period_s=chances.between(2.0, 10.0), read_bytes=256 * MIB)
    return scenario(chances, jobs, cluster, max(steps), surroundings=around)


def monitoring(seed: int, servers: int = 8) -> Scenario:
    """Every endpoint is asked every few seconds, and stray flows run between any two."""
    chances = Chances("monitoring", seed)
    half = servers // 2
    steps = [chances.between(1.0, 4.0) for _ in range(2)]
    jobs = [
        training_job(chances, number, _layout(half), step_s, gpus=range(number * half * 8, (number + 1) * half * 8))
        for number, step_s in enumerate(steps)
    ]
    around = Surroundings(monitor_period_s=chances.between(5.0, 15.0), stray_s=chances.between(0.5, 4.0))
    return scenario(chances, jobs, cluster_of(servers, monitors=2), max(steps), surroundings=around)


def inference_beside(seed: int, servers: int = 8) -> Scenario:
    """Half of the servers train; the others answer bursty requests of two tenants, prefill and decoding apart."""
    chances = Chances("inference-beside", seed)
    half = servers // 2
    step_s = chances.between(1.0, 4.0)
    job = training_job(chances, 0, _layout(half), step_s)
    rest = list(range(half, servers))
    cut = max(len(rest) // 2, 2)
    serving = tuple(
        Serving(
            tenant=f"tenant-1{number}",
            prefill=tuple(mine[: len(mine) // 2]),
            decode=tuple(mine[len(mine) // 2 :]),
            requests_s=chances.between(0.5, 6.0),
            burstiness=chances.between(1.0, 4.0),
            cache_bytes=int(chances.between(0.2, 2.0) * 1e9),
        )
        for number, mine in enumerate((rest[:cut], rest[cut:]))
        if len(mine) >= 2
    )
    around = Surroundings(serving=serving)
    return scenario(chances, [job], cluster_of(servers, clients=40), step_s, surroundings=around)
