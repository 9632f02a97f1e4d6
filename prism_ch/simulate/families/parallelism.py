"""Families by the way a job is parallel: schedules, reductions, sharding, and traffic inside operations."""

from __future__ import annotations

from dataclasses import replace

from prism_ch.simulate.families.shaping import (
    MIB,
    Chances,
    cluster_of,
    pipeline,
    reduction,
    scenario,
    training_job,
)
from prism_ch.simulate.scenario import Scenario
from prism_ch.simulate.workload import Fault, GradientSync, InnerTraffic, Layout, Pipeline, Schedule


def _replicas(servers: int) -> Layout:
    """Divide a job over whole servers: tensor groups of 8, all else replicas."""
    return Layout(tp=8, dp=servers)


def _pipelined(servers: int, *, tp: int = 4, pp: int = 4) -> Layout:
    """Divide a job into `pp` stages of tensor groups of `tp`, as many replicas as fit."""
    return Layout(tp=tp, pp=pp, dp=max(servers * 8 // (tp * pp), 1))


def _with_sync(family: str, seed: int, servers: int, layout: Layout, **sync: object) -> Scenario:
    """Describe one job whose synchronisation differs from a fused ring all-reduce by `sync`."""
    chances = Chances(family, seed)
    step_s = chances.between(1.0, 6.0)
    reduced = replace(reduction(chances, step_s), **sync)  # type: ignore[arg-type]
    job = training_job(chances, 0, layout, step_s, sync=reduced)
    return scenario(chances, [job], cluster_of(servers), step_s)


def ddp_fused(seed: int, servers: int = 8) -> Scenario:
    """Replicas only, one fused ring all-reduce a step."""
    return _with_sync("ddp-fused", seed, servers, _replicas(servers))


def ddp_bucketed(seed: int, servers: int = 8) -> Scenario:
    """Replicas only, buckets of uneven size reduced while the backward goes on."""
    shares = (0.3, 0.22, 0.18, 0.15, 0.1, 0.05)
    return _with_sync("ddp-bucketed", seed, servers, _replicas(servers), buckets=6, bucket_shares=shares, overlap=True)


def ddp_tree(seed: int, servers: int = 8) -> Scenario:
    """Replicas only, all-reduce over pairs of trees."""
    return _with_sync("ddp-tree", seed, servers, _replicas(servers), algorithm="tree", buckets=2)


def ddp_ring_and_tree(seed: int, servers: int = 8) -> Scenario:
    """Replicas only, large buckets round rings, small ones through trees."""
    return _with_sync(
        "ddp-ring-and-tree",
        seed,
        servers,
        _replicas(servers),
        algorithm="auto",
        buckets=3,
        bucket_shares=(0.5, 0.499, 0.001),
        tree_below_bytes=8 * MIB,
    )


def many_channels(seed: int, servers: int = 8) -> Scenario:
    """Four rings a group, each in an order of its own, that leave a server by another rail than they came in."""
    layout = Layout(tp=2, dp=servers * 4)
    return _with_sync("many-channels", seed, servers, layout, channels=4, exit="rotate", varied_rings=True)


def distributed_optimizer(seed: int, servers: int = 8) -> Scenario:
    """Pipeline with gradients reduce-scattered and half as many bytes of parameters gathered, one after the other."""
    layout = _pipelined(servers)
    return _with_sync(
        "distributed-optimizer", seed, servers, layout, mode="distributed_optimizer", buckets=2, grad_norm=True
    )


def distributed_optimizer_overlap(seed: int, servers: int = 8) -> Scenario:
    """Gradients scattered during the backward, half as many bytes gathered during the next forward."""
    layout = _pipelined(servers)
    return _with_sync(
        "distributed-optimizer-overlap", seed, servers, layout, mode="distributed_optimizer", buckets=4, overlap=True
    )


def zero2(seed: int, servers: int = 8) -> Scenario:
    """Replicas only, gradients scattered in three buckets after every microbatch, parameters gathered at the end."""
    chances = Chances("zero2", seed)
    step_s = chances.between(2.0, 8.0)
    layout = _replicas(servers)
    sync = replace(
        reduction(chances, step_s), mode="zero2", buckets=3, bucket_shares=(0.36, 0.349, 0.291), gather_ratio=1.0
    )
    pipes = pipeline(chances, layout, microbatches=(2, 4))
    job = training_job(chances, 0, layout, step_s, pipes=pipes, sync=sync)
    return scenario(chances, [job], cluster_of(servers), step_s)


def zero3(seed: int, servers: int = 8) -> Scenario:
    """Fully sharded: parameters gathered throughout forward and backward, gradients scattered layer by layer."""
    chances = Chances("zero3", seed)
    step_s = chances.between(2.0, 8.0)
    layout = Layout(dp=servers * 8)
    sync = GradientSync(
        mode="zero3",
        layers=chances.one_of(4, 6, 8),
        unit_bytes=chances.one_of((405 * MIB,), (134 * MIB, 270 * MIB), (405 * MIB, 8192)),
        gather_ratio=chances.one_of(0.5, 1.0),
        channels=8,
    )
    pipes = pipeline(chances, layout, microbatches=(1, 2))
    job = training_job(chances, 0, layout, step_s, pipes=pipes, sync=sync)
    return scenario(chances, [job], cluster_of(servers), step_s)


def _scheduled(family: str, seed: int, servers: int, schedule: Schedule, chunks: int = 1) -> Scenario:
    """Describe one pipelined job under a schedule."""
    chances = Chances(family, seed)
    step_s = chances.between(1.0, 6.0)
    layout = _pipelined(servers)
    pipes = replace(pipeline(chances, layout), schedule=schedule, chunks=chunks)
    job = training_job(chances, 0, layout, step_s, pipes=pipes)
    return scenario(chances, [job], cluster_of(servers), step_s)


def pipeline_gpipe(seed: int, servers: int = 8) -> Scenario:
    """All forwards, then all backwards."""
    return _scheduled("pipeline-gpipe", seed, servers, "gpipe")


def pipeline_1f1b(seed: int, servers: int = 8) -> Scenario:
    """One forward, one backward."""
    return _scheduled("pipeline-1f1b", seed, servers, "1f1b")


def pipeline_interleaved(seed: int, servers: int = 8) -> Scenario:
    """Several model chunks a stage: several messages a microbatch, and an edge from the last stage to the first."""
    return _scheduled("pipeline-interleaved", seed, servers, "interleaved", chunks=2 + seed % 2)


def pipeline_zero_bubble(seed: int, servers: int = 8) -> Scenario:
    """Weight gradients fill the bubble."""
    return _scheduled("pipeline-zero-bubble", seed, servers, "zero-bubble")


def pipeline_without_replicas(seed: int, servers: int = 8) -> Scenario:
    """One pipeline over all servers, no data parallelism: no reduction marks a step."""
    chances = Chances("pipeline-without-replicas", seed)
    step_s = chances.between(1.0, 6.0)
    layout = Layout(tp=8, pp=servers)
    pipes = pipeline(chances, layout, microbatches=(8, 16))
    job = training_job(chances, 0, layout, step_s, pipes=pipes, sync=GradientSync(mode="none"))
    return scenario(chances, [job], cluster_of(servers), step_s)


def gradient_accumulation(seed: int, servers: int = 8) -> Scenario:
    """Replicas only, 1 to 64 microbatches between reductions."""
    chances = Chances("gradient-accumulation", seed)
    step_s = chances.between(0.5, 12.0)
    layout = _replicas(servers)
    job = training_job(chances, 0, layout, step_s, pipes=Pipeline(microbatches=chances.one_of(1, 4, 16, 64)))
    return scenario(chances, [job], cluster_of(servers), step_s)


def tensor_across_servers(seed: int, servers: int = 8) -> Scenario:
    """Tensor groups of two servers: their all-reduces show inside every operation."""
    chances = Chances("tensor-across-servers", seed)
    step_s = chances.between(2.0, 6.0)
    layout = Layout(tp=16, pp=2, dp=max(servers // 4, 1))
    pipes = pipeline(chances, layout, microbatches=(4, 8))
    job = training_job(chances, 0, layout, step_s, pipes=pipes)
    tensor = InnerTraffic(payload_bytes=chances.one_of(16, 32) * MIB, bursts=2)
    return scenario(chances, [replace(job, tensor=tensor)], cluster_of(servers), step_s)


def experts(seed: int, servers: int = 8) -> Scenario:
    """Mixture of experts over two servers: all-to-all of data-dependent sizes inside every operation."""
    chances = Chances("experts", seed)
    step_s = chances.between(2.0, 6.0)
    layout = Layout(tp=4, pp=2, ep=4, dp=max(servers // 4, 1) * 4)
    pipes = pipeline(chances, layout, microbatches=(4, 8))
    sync = replace(reduction(chances, step_s), expert_bytes=int(0.01 * step_s * 50e9))
    job = training_job(chances, 0, layout, step_s, pipes=pipes, sync=sync)
    routed = InnerTraffic(
        payload_bytes=chances.one_of(33, 66, 100) * 1_000_000,
        bursts=chances.one_of(2, 4),
        spread=chances.between(0.1, 0.4),
        rail_aligned=bool(chances.one_of(0, 1)),
    )
    return scenario(chances, [replace(job, experts=routed)], cluster_of(servers), step_s)


def context_ring(seed: int, servers: int = 8) -> Scenario:
    """Sequences divided over servers: blocks of keys and values travel round rings while attention is computed."""
    chances = Chances("context-ring", seed)
    step_s = chances.between(2.0, 6.0)
    layout = Layout(tp=8, cp=4, dp=max(servers // 4, 1))
    pipes = pipeline(chances, layout, microbatches=(2, 4))
    job = training_job(chances, 0, layout, step_s, pipes=pipes)
    blocks = InnerTraffic(payload_bytes=chances.one_of(8, 16, 32) * MIB, bursts=4, backward_ratio=2.0, overlapped=True)
    return scenario(chances, [replace(job, context=blocks)], cluster_of(servers), step_s)


def _production(
    family: str, seed: int, servers: int, *, staggered: bool = False, step_s: tuple[float, float] = (3.0, 9.0)
) -> Scenario:
    """Describe one job with the troubles of production; `staggered` stages do not wait for one another."""
    chances = Chances(family, seed)
    usual_s = chances.between(*step_s)
    layout = Layout(tp=1, pp=4, dp=servers * 2)
    size = int(0.002 * usual_s * 50e9)
    sync = GradientSync(
        mode="distributed_optimizer",
        buffer_bytes=size,
        overlap=staggered,
        tied_bytes=size // 4,
        grad_norm=not staggered,
        eager=False,
    )
    job = training_job(chances, 0, layout, usual_s, pipes=Pipeline(message_bytes=64 * MIB), sync=sync)
    compute = replace(
        job.compute,
        sequence_spread=chances.between(0.1, 0.3),
        step_spread=chances.between(0.02, 0.1),
        stage_weights=(1.0, 0.95, 1.0, chances.between(1.1, 1.4)),
        hiccup_rate=1e-4,
    )
    return scenario(chances, [replace(job, compute=compute, queue_pairs=2)], cluster_of(servers), usual_s)


def production(seed: int, servers: int = 8) -> Scenario:
    """One job as production has them: stages end together, steps are aperiodic, and silence does not mark them.

    A gathering opens the step and a scattering closes it, both short; step times vary with sequence lengths; replicas
    of one server hide part of their rings; embeddings are tied; a message is two queue pairs.
    """
    return _production("production", seed, servers)


def production_staggered(seed: int, servers: int = 8) -> Scenario:
    """One job as above whose stages do not wait for one another: they end a step up to a quarter of it apart."""
    return _production("production-staggered", seed, servers, staggered=True)


def production_straggler(seed: int, servers: int = 8) -> Scenario:
    """One job as the first, with a GPU that is slow from the first step on: for long, in each, the others wait for it.

    A step takes up to three quarters of a minute, half of which most pipelines may stand still in its middle.
    """
    healthy = _production("production-straggler", seed, servers, step_s=(9.0, 22.0))
    chances = Chances("production-straggler, its GPU", seed)
    gpu = chances.one_of(*healthy.jobs[0].lives[0].gpus)
    return replace(healthy, faults=(Fault(kind="slow_gpu", gpu=gpu, factor=chances.between(1.5, 2.2)),))
