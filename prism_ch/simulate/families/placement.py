"""Families by where jobs run: kinds of network, scattered and shared servers, lives that begin, end and move."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from prism_ch.simulate.families.shaping import STEPS, Chances, cluster_of, pipeline, scenario, training_job
from prism_ch.simulate.scenario import Scenario
from prism_ch.simulate.workload import Job, Layout, Life


def _gpus(servers: Iterable[int], first: int = 0, count: int = 8) -> tuple[int, ...]:
    """Return `count` GPUs of each server, beginning with its GPU `first`."""
    return tuple(server * 8 + first + gpu for server in servers for gpu in range(count))


def _layout(servers: int) -> Layout:
    """Divide a job over whole servers: two stages where they are even in number."""
    return Layout(tp=8, pp=2, dp=servers // 2) if servers % 2 == 0 else Layout(tp=8, dp=servers)


def four_nics(seed: int, servers: int = 8) -> Scenario:
    """Eight GPUs share four NICs."""
    chances = Chances("four-nics", seed)
    step_s = chances.between(1.0, 6.0)
    layout = Layout(tp=4, pp=4, dp=servers // 2)
    return scenario(chances, [training_job(chances, 0, layout, step_s)], cluster_of(servers, nics=4), step_s)


def leaf_spine(seed: int, servers: int = 8) -> Scenario:
    """One leaf a pod in place of rails."""
    chances = Chances("leaf-spine", seed)
    step_s = chances.between(1.0, 6.0)
    cluster = cluster_of(servers, rail_optimised=False)
    return scenario(chances, [training_job(chances, 0, _layout(servers), step_s)], cluster, step_s)


def queue_pairs(seed: int, servers: int = 8) -> Scenario:
    """Two to eight queue pairs a pair: one message is as many records."""
    chances = Chances("queue-pairs", seed)
    step_s = chances.between(1.0, 6.0)
    job = training_job(chances, 0, _layout(servers), step_s)
    return scenario(chances, [replace(job, queue_pairs=chances.one_of(2, 4, 8))], cluster_of(servers), step_s)


def short_steps(seed: int, servers: int = 4) -> Scenario:
    """One job with steps of a fifth of a second."""
    chances = Chances("short-steps", seed)
    layout = _layout(servers)
    job = training_job(chances, 0, layout, 0.2, pipes=pipeline(chances, layout, microbatches=(2, 4)))
    return scenario(chances, [job], cluster_of(servers), 0.2)


def long_steps(seed: int, servers: int = 4) -> Scenario:
    """One job with steps of minutes, longer than the windows in which they are analysed."""
    chances = Chances("long-steps", seed)
    step_s = chances.between(60.0, 300.0)
    layout = _layout(servers)
    job = training_job(chances, 0, layout, step_s, pipes=pipeline(chances, layout, microbatches=(16, 32)))
    return replace(scenario(chances, [job], cluster_of(servers), step_s), duration_s=12 * step_s)


def fragmented(seed: int, servers: int = 12) -> Scenario:
    """Three jobs over servers in random order, pods mixed."""
    chances = Chances("fragmented", seed)
    order = chances.shuffled(range(servers))
    third = servers // 3
    steps = [chances.between(1.0, 5.0) for _ in range(3)]
    jobs = [
        training_job(chances, n, _layout(third), step_s, gpus=_gpus(order[n * third : (n + 1) * third]))
        for n, step_s in enumerate(steps)
    ]
    return scenario(chances, jobs, cluster_of(servers), max(steps) * 0.7)


def shared_servers(seed: int, servers: int = 8) -> Scenario:
    """Two tenants have half of the GPUs of every server each."""
    chances = Chances("shared-servers", seed)
    layout = Layout(tp=4, pp=2, dp=servers // 2)
    steps = [chances.between(1.0, 5.0) for _ in range(2)]
    jobs = [
        training_job(chances, n, layout, step_s, gpus=_gpus(range(servers), first=4 * n, count=4))
        for n, step_s in enumerate(steps)
    ]
    return scenario(chances, jobs, cluster_of(servers), max(steps))


def _side_by_side(family: str, seed: int, servers: int, ratio: float, *, one_tenant: bool) -> Scenario:
    """Describe two jobs on half of the servers each, the second's step `ratio` times as long."""
    chances = Chances(family, seed)
    step_s = chances.between(1.0, 5.0)
    half = servers // 2
    jobs: list[Job] = []
    for number in range(2):
        gpus = _gpus(range(number * half, (number + 1) * half))
        job = training_job(chances, number, _layout(half), step_s * ratio**number, gpus=gpus)
        jobs.append(replace(job, tenant="tenant-00") if one_tenant else job)
    return scenario(chances, jobs, cluster_of(servers), step_s)


def one_tenant(seed: int, servers: int = 8) -> Scenario:
    """Two jobs of one tenant side by side."""
    return _side_by_side("one-tenant", seed, servers, 1.37, one_tenant=True)


def equal_steps(seed: int, servers: int = 8) -> Scenario:
    """Two jobs whose steps take equally long."""
    return _side_by_side("equal-steps", seed, servers, 1.0, one_tenant=False)


def start_and_end(seed: int, servers: int = 8) -> Scenario:
    """One job ends in the middle; another of its tenant begins later, on part of its servers and on new ones."""
    chances = Chances("start-and-end", seed)
    step_s = chances.between(1.0, 4.0)
    half = servers // 2
    duration_s = max(STEPS * step_s, 60.0)
    ends_s, begins_s = duration_s * chances.between(0.35, 0.5), duration_s * chances.between(0.55, 0.65)
    first = training_job(chances, 0, _layout(half), step_s)
    second = training_job(chances, 1, _layout(half), step_s * 0.8)
    early = replace(first.lives[0], end_s=ends_s)
    late = Life(gpus=_gpus(range(half // 2, half // 2 + half)), start_s=begins_s, startup_s=3.0)
    jobs = [replace(first, lives=(early,)), replace(second, tenant=first.tenant, lives=(late,))]
    return scenario(chances, jobs, cluster_of(servers), step_s)


def restart_elsewhere(seed: int, servers: int = 8) -> Scenario:
    """One job that dies and comes back with half of its servers replaced."""
    chances = Chances("restart-elsewhere", seed)
    step_s = chances.between(1.0, 4.0)
    part = servers // 2
    job = training_job(chances, 0, _layout(part), step_s)
    duration_s = max(STEPS * step_s, 60.0)
    dies_s = duration_s * chances.between(0.35, 0.5)
    back_s = dies_s + chances.between(10.0, 20.0)
    moved = _gpus(range(part // 2, part // 2 + part))
    lives = (replace(job.lives[0], end_s=dies_s), Life(gpus=moved, start_s=back_s, startup_s=4.0))
    return scenario(chances, [replace(job, lives=lives)], cluster_of(servers), step_s)


def lose_and_regain(seed: int, servers: int = 8) -> Scenario:
    """One job of replicas that goes on without one of its servers, then with it again."""
    chances = Chances("lose-and-regain", seed)
    step_s = chances.between(1.0, 3.0)
    job = training_job(chances, 0, Layout(tp=8, dp=servers), step_s)
    duration_s = max(STEPS * step_s, 60.0)
    lost_s, back_s = 0.35 * duration_s, 0.7 * duration_s
    lost = chances.shuffled(range(servers))[0]
    fewer = _gpus(server for server in range(servers) if server != lost)
    lives = (
        replace(job.lives[0], end_s=lost_s),
        Life(gpus=fewer, dp=servers - 1, start_s=lost_s + 3.0, end_s=back_s, startup_s=2.0),
        Life(gpus=_gpus(range(servers)), start_s=back_s + 3.0, startup_s=2.0),
    )
    return scenario(chances, [replace(job, lives=lives)], cluster_of(servers), step_s)


def restarts(seed: int, servers: int = 8) -> Scenario:
    """One job that dies twice: it comes back where it was, and then with fewer replicas, half of them elsewhere."""
    chances = Chances("restarts", seed)
    step_s = chances.between(1.0, 3.0)
    part = servers * 3 // 4
    job = training_job(chances, 0, Layout(tp=8, pp=2, dp=part // 2), step_s)
    duration_s = max(STEPS * step_s, 60.0)
    first_s, second_s = duration_s * chances.between(0.25, 0.35), duration_s * chances.between(0.6, 0.7)
    fewer = part // 2 - 1
    elsewhere = _gpus(range(servers - 2 * fewer, servers))
    lives = (
        replace(job.lives[0], end_s=first_s),
        Life(gpus=job.lives[0].gpus, start_s=first_s + chances.between(5.0, 10.0), end_s=second_s, startup_s=3.0),
        Life(gpus=elsewhere, dp=fewer, start_s=second_s + chances.between(5.0, 10.0), startup_s=3.0),
    )
    return scenario(chances, [replace(job, lives=lives)], cluster_of(servers), step_s)


def one_after_another(seed: int, servers: int = 6) -> Scenario:
    """One job ends and another of its tenant, divided alike, takes over all of its servers."""
    chances = Chances("one-after-another", seed)
    step_s = chances.between(1.0, 4.0)
    first = training_job(chances, 0, _layout(servers), step_s)
    second = training_job(chances, 1, _layout(servers), step_s * 0.8)
    duration_s = max(STEPS * step_s, 60.0)
    ends_s = duration_s * chances.between(0.35, 0.5)
    late = Life(gpus=_gpus(range(servers)), start_s=ends_s + chances.between(3.0, 10.0), startup_s=3.0)
    jobs = [
        replace(first, lives=(replace(first.lives[0], end_s=ends_s),)),
        replace(second, tenant=first.tenant, lives=(late,)),
    ]
    return scenario(chances, jobs, cluster_of(servers), step_s)


def one_server(seed: int, servers: int = 6) -> Scenario:
    """One job inside one server, invisible, beside one that is not."""
    chances = Chances("one-server", seed)
    step_s = chances.between(1.0, 4.0)
    inside = training_job(chances, 1, Layout(tp=2, dp=4), step_s * 0.7, gpus=_gpus([servers - 1]))
    outside = training_job(chances, 0, _layout(servers - 2), step_s)
    return scenario(chances, [outside, inside], cluster_of(servers), step_s)
