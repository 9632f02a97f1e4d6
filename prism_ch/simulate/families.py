"""The catalogue of families: ways to be parallel, placements, and other traffic."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from prism_ch.simulate.draws import MIB, Draws, OneJob, Recipe, four_stages, recorded_s, replicas, two_stages
from prism_ch.simulate.job import Attempt, Fault, GradientSync, InnerTraffic, Job, Layout, Pause, Pipeline
from prism_ch.simulate.scenario import CONDITIONS, Scenario, Serving, Surroundings

__all__ = ["CONDITIONS", "FAMILIES"]


def gpus_of(servers: Iterable[int], first: int = 0, count: int = 8) -> tuple[int, ...]:
    """Return `count` GPUs of each server, beginning with its GPU `first`."""
    return tuple(server * 8 + first + gpu for server in servers for gpu in range(count))


def sharded(draws: Draws, _step_s: float) -> GradientSync:
    """Draw a fully sharded model's layers and units."""
    layers = draws.one_of(4, 6, 8)
    units = draws.one_of((405 * MIB,), (134 * MIB, 270 * MIB), (405 * MIB, 8192))
    ratio = draws.one_of(0.5, 1.0)
    return GradientSync(mode="zero3", layers=layers, unit_bytes=units, gather_ratio=ratio, channels=8)


def scattered(draws: Draws, _step_s: float) -> GradientSync:
    """Draw how many buckets are scattered, and in how many bytes parameters are gathered."""
    ratio = draws.one_of(0.5, 1.0)
    return replace(draws.reduction(1.0), mode="zero2", buckets=draws.one_of(2, 3, 4, 6), gather_ratio=ratio)


def interleaved(draws: Draws, layout: Layout) -> Pipeline:
    """Draw a pipeline of two or three chunks a stage."""
    return replace(draws.pipeline(layout), schedule="interleaved", chunks=2 + draws.seed % 2)


def context_ring(draws: Draws, _step_s: float, _job: Job) -> dict[str, Any]:
    """Draw the blocks that travel round context rings."""
    size = draws.one_of(8, 16, 32) * MIB
    return {"context": InnerTraffic(payload_bytes=size, bursts=4, backward_ratio=2.0, overlapped=True)}


def checkpoints(draws: Draws, step_s: float, _job: Job) -> dict[str, Any]:
    """Draw how often every rank writes its state."""
    every = draws.one_of(8, 12, 17)
    return {"pauses": (Pause(kind="checkpoint", duration_s=2 * step_s, every_steps=every, payload_bytes=1 << 30),)}


def evaluations(draws: Draws, step_s: float, _job: Job) -> dict[str, Any]:
    """Draw how often the pipeline runs forward only."""
    every = draws.one_of(8, 12, 17)
    return {"pauses": (Pause(kind="evaluation", duration_s=0.5 * step_s, every_steps=every, rounds=4),)}


def late_data(draws: Draws, _step_s: float, job: Job) -> dict[str, Any]:
    """Draw data loaders that are late, and operations that are delayed."""
    draws.one_of(8, 12, 17)  # how often a checkpoint would come: draws are the same for every kind of pause
    lates_s = [(at, draws.between(0.3, 3.0)) for at in (9, 10, 23, 31)]
    pauses = tuple(Pause(kind="stall", duration_s=late_s, at_step=at, replica=at) for at, late_s in lates_s)
    return {"pauses": pauses, "compute": replace(job.compute, hiccup_rate=5e-4, hiccup_s=draws.between(0.1, 0.4))}


def startup(draws: Draws, _step_s: float, job: Job) -> dict[str, Any]:
    """Draw when a job begins inside the recording."""
    start_s, startup_s = draws.between(3.0, 10.0), draws.between(3.0, 8.0)
    return {"attempts": (Attempt(gpus=job.attempts[0].gpus, start_s=start_s, startup_s=startup_s),)}


def restart_elsewhere(draws: Draws, step_s: float, job: Job) -> dict[str, Any]:
    """Let a job die and come back with half of its servers replaced."""
    part = draws.servers // 2
    dies_s = recorded_s(step_s) * draws.between(0.35, 0.5)
    moved = gpus_of(range(part // 2, part // 2 + part))
    again = Attempt(gpus=moved, start_s=dies_s + draws.between(10.0, 20.0), startup_s=4.0)
    return {"attempts": (replace(job.attempts[0], end_s=dies_s), again)}


def lose_and_regain(draws: Draws, step_s: float, job: Job) -> dict[str, Any]:
    """Let a job go on without one of its servers, then with it."""
    first, lost_s, back_s = job.attempts[0], 0.35 * recorded_s(step_s), 0.7 * recorded_s(step_s)
    lost = draws.shuffled(range(draws.servers))[0]
    fewer = gpus_of(server for server in range(draws.servers) if server != lost)
    without = Attempt(gpus=fewer, dp=draws.servers - 1, start_s=lost_s + 3.0, end_s=back_s, startup_s=2.0)
    again = Attempt(gpus=first.gpus, start_s=back_s + 3.0, startup_s=2.0)
    return {"attempts": (replace(first, end_s=lost_s), without, again)}


def restarts(draws: Draws, step_s: float, job: Job) -> dict[str, Any]:
    """Let a job come back in place, then with fewer replicas, half of them elsewhere."""
    first, duration_s, fewer = job.attempts[0], recorded_s(step_s), job.layout.dp - 1
    first_s, second_s = duration_s * draws.between(0.25, 0.35), duration_s * draws.between(0.6, 0.7)
    again_s, last_s = first_s + draws.between(5.0, 10.0), second_s + draws.between(5.0, 10.0)
    again = Attempt(gpus=first.gpus, start_s=again_s, end_s=second_s, startup_s=3.0)
    elsewhere = gpus_of(range(draws.servers - 2 * fewer, draws.servers))
    last = Attempt(gpus=elsewhere, dp=fewer, start_s=last_s, startup_s=3.0)
    return {"attempts": (replace(first, end_s=first_s), again, last)}


def experts(draws: Draws) -> Scenario:
    """Divide experts over two servers: all-to-all of data-dependent sizes inside every operation."""
    step_s = draws.between(2.0, 6.0)
    layout = Layout(tp=4, pp=2, ep=4, dp=max(draws.servers // 4, 1) * 4)
    pipeline = draws.pipeline(layout, microbatches=(4, 8))
    sync = replace(draws.reduction(step_s), expert_bytes=int(0.01 * step_s * 50e9))
    job = draws.job(0, layout, step_s, pipeline=pipeline, sync=sync)
    size, bursts = draws.one_of(33, 66, 100) * 1_000_000, draws.one_of(2, 4)
    spread, aligned = draws.between(0.1, 0.4), bool(draws.one_of(0, 1))
    routed = InnerTraffic(payload_bytes=size, bursts=bursts, spread=spread, rail_aligned=aligned)
    return draws.scenario([replace(job, experts=routed)], step_s)


def production(step_s: tuple[float, float] = (3.0, 9.0), *, staggered: bool = False) -> OneJob:
    """Return a recipe of a job as production has them.

    Stages end together, and silence does not mark steps. A gathering opens the step and a scattering closes it, both
    short; step times vary with sequence lengths; replicas of one server hide part of their rings; embeddings are tied;
    a message is two queue pairs. `staggered` stages do not wait for one another: they end a step up to a quarter of it
    apart.
    """

    def sync(_chances: Draws, step_s: float) -> GradientSync:
        size = int(0.002 * step_s * 50e9)
        usual = GradientSync(mode="distributed_optimizer", buffer_bytes=size, tied_bytes=size // 4, eager=False)
        return replace(usual, overlap=staggered, grad_norm=not staggered)

    def noise(draws: Draws, _step_s: float, job: Job) -> dict[str, Any]:
        spreads = {"sequence_spread": draws.between(0.1, 0.3), "step_spread": draws.between(0.02, 0.1)}
        weights = (1.0, 0.95, 1.0, draws.between(1.1, 1.4))
        return {"compute": replace(job.compute, hiccup_rate=1e-4, stage_weights=weights, **spreads), "queue_pairs": 2}

    pipeline = Pipeline(message_bytes=64 * MIB)
    return OneJob(lambda n: Layout(pp=4, dp=n * 2), step_s, sync=sync, pipeline=lambda *_: pipeline, changes=noise)


def production_straggler(draws: Draws) -> Scenario:
    """Slow a GPU of a production job from the first step on.

    The others wait for it in the middle of every step. A step takes up to three quarters of a minute, and most
    pipelines may stand still for half of that.
    """
    healthy = production((9.0, 22.0))(draws)
    draws = Draws("production-straggler, its GPU", draws.seed)
    gpu = draws.one_of(*healthy.jobs[0].attempts[0].gpus)
    return replace(healthy, faults=(Fault(kind="slow_gpu", gpu=gpu, factor=draws.between(1.5, 2.2)),))


def fragmented(draws: Draws) -> Scenario:
    """Place three jobs over servers in random order, pods mixed."""
    order, third = draws.shuffled(range(draws.servers)), draws.servers // 3
    steps = [draws.between(1.0, 5.0) for _ in range(3)]
    places = [gpus_of(order[n * third : (n + 1) * third]) for n in range(3)]
    jobs = [draws.job(n, two_stages(third), steps[n], gpus=places[n]) for n in range(3)]
    return draws.scenario(jobs, max(steps) * 0.7)


def shared_servers(draws: Draws) -> Scenario:
    """Give two tenants half of the GPUs of every server each."""
    layout = Layout(tp=4, pp=2, dp=draws.servers // 2)
    steps = [draws.between(1.0, 5.0) for _ in range(2)]
    halves = [gpus_of(range(draws.servers), first=first, count=4) for first in (0, 4)]
    return draws.scenario([draws.job(n, layout, steps[n], gpus=halves[n]) for n in range(2)], max(steps))


def side_by_side(draws: Draws, *, step_ratio: float, one_tenant: bool) -> Scenario:
    """Give two jobs half of the servers each; `step_ratio` compares their steps."""
    step_s = draws.between(1.0, 5.0)
    jobs = _on_halves(draws, [step_s, step_s * step_ratio])
    return draws.scenario([replace(job, tenant="tenant-00") for job in jobs] if one_tenant else jobs, step_s)


def _on_halves(draws: Draws, steps_s: list[float]) -> list[Job]:
    half = draws.servers // 2
    places = [gpus_of(range(half)), gpus_of(range(half, 2 * half))]
    return [draws.job(n, two_stages(half), steps_s[n], gpus=places[n]) for n in range(2)]


def start_and_end(draws: Draws) -> Scenario:
    """End a job; another of its tenant begins later, on some of its servers."""
    step_s, half = draws.between(1.0, 4.0), draws.servers // 2
    duration_s = recorded_s(step_s)
    ends_s, begins_s = duration_s * draws.between(0.35, 0.5), duration_s * draws.between(0.55, 0.65)
    jobs = draws.job(0, two_stages(half), step_s), draws.job(1, two_stages(half), step_s * 0.8)
    return draws.scenario(_in_turn(*jobs, ends_s, begins_s, range(half // 2, half // 2 + half)), step_s)


def one_after_another(draws: Draws) -> Scenario:
    """End a job and let another of its tenant take over all of its servers."""
    step_s, layout = draws.between(1.0, 4.0), two_stages(draws.servers)
    jobs = draws.job(0, layout, step_s), draws.job(1, layout, step_s * 0.8)
    ends_s = recorded_s(step_s) * draws.between(0.35, 0.5)
    begins_s = ends_s + draws.between(3.0, 10.0)
    return draws.scenario(_in_turn(*jobs, ends_s, begins_s, range(draws.servers)), step_s)


def _in_turn(first: Job, second: Job, ends_s: float, begins_s: float, servers: range) -> list[Job]:
    later = Attempt(gpus=gpus_of(servers), start_s=begins_s, startup_s=3.0)
    return [
        replace(first, attempts=(replace(first.attempts[0], end_s=ends_s),)),
        replace(second, tenant=first.tenant, attempts=(later,)),
    ]


def one_server(draws: Draws) -> Scenario:
    """Place one job inside one server, invisible, and one that is not."""
    step_s, last = draws.between(1.0, 4.0), draws.servers - 1
    inside = draws.job(1, Layout(tp=2, dp=4), step_s * 0.7, gpus=gpus_of([last]))
    return draws.scenario([draws.job(0, two_stages(last - 1), step_s), inside], step_s)


def storage_hub(draws: Draws) -> Scenario:
    """Let two tenants' jobs read from, and write checkpoints to, the same few storage nodes."""
    steps = [draws.between(1.0, 4.0) for _ in range(2)]
    saves = [Pause(kind="checkpoint", duration_s=s, every_steps=15, payload_bytes=512 * MIB) for s in steps]
    jobs = [replace(job, pauses=(saves[n],)) for n, job in enumerate(_on_halves(draws, steps))]
    cluster = {"storage_nodes": 3, "storage_listed": bool(draws.one_of(0, 1))}
    around = Surroundings(read_period_s=draws.between(2.0, 10.0), read_bytes=256 * MIB)
    return draws.scenario(jobs, max(steps), cluster=cluster, surroundings=around)


def monitoring(draws: Draws) -> Scenario:
    """Query every endpoint every few seconds, and let stray flows run between any two."""
    steps = [draws.between(1.0, 4.0) for _ in range(2)]
    jobs = _on_halves(draws, steps)
    around = Surroundings(monitor_period_s=draws.between(5.0, 15.0), stray_s=draws.between(0.5, 4.0))
    return draws.scenario(jobs, max(steps), cluster={"monitors": 2}, surroundings=around)


def inference(draws: Draws) -> Scenario:
    """Train on half of the servers; the others serve inference of two tenants."""
    half = draws.servers // 2
    step_s = draws.between(1.0, 4.0)
    job = draws.job(0, two_stages(half), step_s)
    rest = list(range(half, draws.servers))
    cut = max(len(rest) // 2, 2)
    serving = tuple(
        Serving(
            tenant=f"tenant-1{number}",
            prefill=tuple(mine[: len(mine) // 2]),
            decode=tuple(mine[len(mine) // 2 :]),
            requests_s=draws.between(0.5, 6.0),
            burstiness=draws.between(1.0, 4.0),
            cache_bytes=int(draws.between(0.2, 2.0) * 1e9),
        )
        for number, mine in enumerate((rest[:cut], rest[cut:]))
        if len(mine) >= 2
    )
    return draws.scenario([job], step_s, cluster={"clients": 40}, surroundings=Surroundings(serving=serving))


#: Families in the order in which a table of them reads best, each with what sets it apart.
_RECIPES: dict[str, Recipe] = {
    # replicas only: one fused ring all-reduce a step
    "ddp-fused": OneJob(replicas, sync={}),
    # buckets of uneven size, reduced while the backward goes on
    "ddp-bucketed": OneJob(
        replicas, sync={"buckets": 6, "bucket_shares": (0.3, 0.22, 0.18, 0.15, 0.1, 0.05), "overlap": True}
    ),
    # all-reduce over pairs of trees
    "ddp-tree": OneJob(replicas, sync={"algorithm": "tree", "buckets": 2}),
    # large buckets round rings, small ones through trees
    "ddp-ring-and-tree": OneJob(
        replicas,
        sync={"algorithm": "auto", "buckets": 3, "bucket_shares": (0.5, 0.499, 0.001), "tree_below_bytes": 8 * MIB},
    ),
    # four rings a group, each in an order of its own, that leave a server by another rail than they came in
    "many-channels": OneJob(
        lambda servers: Layout(tp=2, dp=servers * 4), sync={"channels": 4, "exit": "rotate", "varied_rings": True}
    ),
    # 1 to 64 microbatches between reductions
    "gradient-accumulation": OneJob(
        replicas, (0.5, 12.0), pipeline=lambda draws, _: Pipeline(microbatches=draws.one_of(1, 4, 16, 64))
    ),
    # a pipeline; gradients reduce-scattered and half as many bytes of parameters gathered, one after the other
    "distributed-optimizer": OneJob(
        four_stages, sync={"mode": "distributed_optimizer", "buckets": 2, "grad_norm": True}
    ),
    # gradients scattered during the backward, half as many bytes gathered during the next forward
    "distributed-optimizer-overlap": OneJob(
        four_stages, sync={"mode": "distributed_optimizer", "buckets": 4, "overlap": True}
    ),
    # gradients scattered in three buckets after every microbatch, parameters gathered at the end
    "zero2": OneJob(
        replicas,
        (2.0, 8.0),
        sync={"mode": "zero2", "buckets": 3, "bucket_shares": (0.36, 0.349, 0.291), "gather_ratio": 1.0},
        microbatches=(2, 4),
    ),
    # the same in equal buckets, of one microbatch or more; parameters in as many bytes, or half
    "zero2-equal-buckets": OneJob(replicas, (1.0, 8.0), sync=scattered, microbatches=(1, 2, 8)),
    # fully sharded: parameters gathered throughout forward and backward, gradients scattered layer by layer
    "zero3": OneJob(lambda servers: Layout(dp=servers * 8), (2.0, 8.0), sync=sharded, microbatches=(1, 2)),
    # pipelines: all forwards, then all backwards
    "pipeline-gpipe": OneJob(four_stages, pipeline={"schedule": "gpipe"}),
    # one forward, one backward
    "pipeline-1f1b": OneJob(four_stages),
    # several model chunks a stage: several messages a microbatch, and an edge from the last stage to the first
    "pipeline-interleaved": OneJob(four_stages, pipeline=interleaved),
    # weight gradients fill the bubble
    "pipeline-zero-bubble": OneJob(four_stages, pipeline={"schedule": "zero-bubble"}),
    # one pipeline over all servers: no reduction marks a step
    "pipeline-without-replicas": OneJob(
        lambda servers: Layout(tp=8, pp=servers), sync=lambda *_: GradientSync(mode="none"), microbatches=(8, 16)
    ),
    # tensor groups of two servers: their all-reduces show inside every operation
    "tensor-across-servers": OneJob(
        lambda servers: Layout(tp=16, pp=2, dp=max(servers // 4, 1)),
        (2.0, 6.0),
        microbatches=(4, 8),
        changes=lambda draws, *_: {"tensor": InnerTraffic(payload_bytes=draws.one_of(16, 32) * MIB)},
    ),
    "experts": experts,
    # sequences divided over servers: blocks of keys and values travel round rings while attention is computed
    "context-ring": OneJob(
        lambda servers: Layout(tp=8, cp=4, dp=max(servers // 4, 1)),
        (2.0, 6.0),
        microbatches=(2, 4),
        changes=context_ring,
    ),
    "production": production(),
    "production-staggered": production(staggered=True),
    "production-straggler": production_straggler,
    # eight GPUs share four NICs
    "four-nics": OneJob(four_stages, cluster={"nics": 4}),
    # one leaf a pod in place of rails
    "leaf-spine": OneJob(cluster={"rail_optimised": False}),
    # two to eight queue pairs a pair: one message is as many records
    "queue-pairs": OneJob(changes=lambda draws, *_: {"queue_pairs": draws.one_of(2, 4, 8)}),
    # steps of a fifth of a second
    "short-steps": OneJob(step_s=0.2, microbatches=(2, 4)),
    # steps of minutes, longer than the windows in which they are analysed
    "long-steps": OneJob(step_s=(60.0, 300.0), steps=12, microbatches=(16, 32)),
    "fragmented": fragmented,
    "shared-servers": shared_servers,
    "one-tenant": partial(side_by_side, step_ratio=1.37, one_tenant=True),
    "equal-steps": partial(side_by_side, step_ratio=1.0, one_tenant=False),
    "start-and-end": start_and_end,
    # a job that dies and comes back with half of its servers replaced
    "restart-elsewhere": OneJob(lambda servers: two_stages(servers // 2), (1.0, 4.0), changes=restart_elsewhere),
    # replicas that go on without one of their servers, then with it again
    "lose-and-regain": OneJob(replicas, (1.0, 3.0), changes=lose_and_regain),
    # a job that dies twice
    "restarts": OneJob(lambda servers: Layout(tp=8, pp=2, dp=servers * 3 // 8), (1.0, 3.0), changes=restarts),
    "one-after-another": one_after_another,
    "one-server": one_server,
    # nearly every rank meets every other before the first step
    "startup-mesh": OneJob(lambda servers: Layout(tp=4, pp=2, dp=servers), (1.0, 4.0), changes=startup),
    # every rank writes its state to shared storage and the job waits for it
    "checkpoints": OneJob(step_s=(1.0, 4.0), changes=checkpoints, cluster={"storage_nodes": 4}),
    # now and then the pipeline runs forward only, and then nothing for a while
    "evaluation": OneJob(step_s=(1.0, 4.0), changes=evaluations),
    # late data of one replica, and operations delayed at random: long silences inside steps
    "late-data": OneJob(step_s=(1.0, 4.0), changes=late_data),
    "storage-hub": storage_hub,
    "monitoring": monitoring,
    "inference-beside": inference,
}

#: Servers of families that do not have eight.
_SERVERS = {"short-steps": 4, "long-steps": 4, "fragmented": 12, "one-after-another": 6, "one-server": 6}


def _draw(name: str, seed: int, servers: int | None = None) -> Scenario:
    return _RECIPES[name](Draws(name, seed, servers or _SERVERS.get(name, 8)))


FAMILIES: dict[str, Callable[..., Scenario]] = {name: partial(_draw, name) for name in _RECIPES}
