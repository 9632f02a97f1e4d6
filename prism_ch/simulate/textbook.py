"""Ready-made scenarios: one textbook job, and the large cluster that speed is measured on."""

from __future__ import annotations

from prism_ch.simulate.cluster import build_network
from prism_ch.simulate.engine import step_engine
from prism_ch.simulate.link import Links
from prism_ch.simulate.ranks import rank_grid
from prism_ch.simulate.scenario import Cluster, Observation, Scenario
from prism_ch.simulate.workload import Compute, Fault, GradientSync, Job, Layout, Life, Pipeline, require

#: Activation of one microbatch of 4,096 tokens at hidden size 8,192 in 2-byte numbers.
_ACTIVATION_BYTES = 4096 * 8192 * 2


def textbook(  # noqa: PLR0913 - the flags of `prism-ch simulate`, one by one
    gpus: int = 64,
    tp: int = 4,
    pp: int = 4,
    dp: int = 4,
    *,
    microbatches: int = 8,
    step_s: float = 2.0,
    steps: int | None = None,
    duration_s: float | None = None,
    seed: int = 0,
    jobs: int = 1,
    queue_pairs: int = 1,
    overlap: bool = False,
    slow_gpu: tuple[int, float, int, int] | None = None,
    slow_link: tuple[int, int, float, float, float] | None = None,
) -> Scenario:
    """Describe tensor x pipeline x data parallel jobs in a rail-optimised cluster of 8-GPU servers.

    Parameters:
    `gpus`: size of the cluster, a multiple of 8. Jobs take its first GPUs, one after the other; the rest stand idle.
    `tp`, `pp`, `dp`: parallel sizes of each job; `tp` at most 8 (tensor groups stay inside a server, invisible).
    `microbatches`: of a step; the pipeline runs 1F1B.
    `step_s`: about how long a step takes, in seconds.
    `steps`: about how many steps to record, or `duration_s`: how many seconds (at most one of them; default 180 s).
    `seed`: of all chance. `jobs`: how many equal jobs, each of another tenant, with step times 7 % apart.
    `queue_pairs`: records a message is divided over. `overlap`: gradients in 4 buckets, reduced during the backward.
    `slow_gpu`: (rank in the first job, factor > 1, first step, last step): computes so many times longer in those
    steps.
    `slow_link`: (rank, peer rank, factor < 1, from s, to s), both of the first job: flows from the one to the other
    have this part of their bandwidth.
    Raises UsageError where the parameters do not fit together, and for a link that the job does not use.
    """
    require(gpus % 8 == 0 and gpus > 0, f"the cluster has a multiple of 8 GPUs, not {gpus}")
    require(1 <= tp <= 8 and 8 % tp == 0, f"a tensor group is 1, 2, 4 or 8 GPUs of one server, not {tp}")
    each = tp * pp * dp
    require(jobs >= 1 and jobs * each <= gpus, f"{jobs} x {each} GPUs do not fit into a cluster of {gpus}")
    require(steps is None or duration_s is None, "give the number of steps or a duration, not both")
    require(step_s > 0, f"a step takes more than 0 s, not {step_s}")
    if duration_s is None:
        duration_s = 180.0 if steps is None else (steps + 1) * step_s
    cluster = Cluster(servers=gpus // 8)
    described = tuple(
        _job(
            number,
            Layout(tp=tp, pp=pp, dp=dp),
            range(number * each, (number + 1) * each),
            step_s=step_s * 1.07**number,
            microbatches=microbatches,
            overlap=overlap,
            queue_pairs=queue_pairs,
        )
        for number in range(jobs)
    )
    return Scenario(
        name="textbook",
        cluster=cluster,
        jobs=described,
        duration_s=duration_s,
        seed=seed,
        faults=_faults(cluster, described[0], slow_gpu, slow_link),
        observation=Observation(path=True),
    )


def bench_scenario(seed: int = 0, servers: int = 360, duration_s: float = 60.0) -> Scenario:
    """Describe a cluster of 2,880 GPUs with five jobs whose minute is about 2.4 million records."""
    sizes = ((8, 8, 16), (8, 8, 12), (8, 4, 16), (8, 4, 12), (8, 4, 6))
    share = servers / 360
    jobs = []
    first = 0
    for number, (tp, pp, dp) in enumerate(sizes):
        layout = Layout(tp=tp, pp=pp, dp=max(round(dp * share), 1))
        gpus = range(first, first + layout.gpus)
        first += layout.gpus
        jobs.append(
            _job(
                number, layout, gpus, step_s=3.8 * 1.05**number, microbatches=32, overlap=number % 2 == 1, queue_pairs=1
            )
        )
    cluster = Cluster(servers=servers, pod_servers=32, spines=16)
    return Scenario(name="bench", cluster=cluster, jobs=tuple(jobs), duration_s=duration_s, seed=seed, phases=False)


def _job(
    number: int, layout: Layout, gpus: range, *, step_s: float, microbatches: int, overlap: bool, queue_pairs: int
) -> Job:
    """Describe one job whose forward takes what `step_s` leaves for it, with gradients worth 5 % of the step."""
    slots = microbatches + layout.pp - 1
    return Job(
        job_id=f"job-{number:02d}",
        tenant=f"tenant-{number:02d}",
        layout=layout,
        compute=Compute(forward_s=0.92 * step_s / slots / 3),
        lives=(Life(gpus=tuple(gpus), start_s=-0.37 * step_s * (number + 1)),),
        pipeline=Pipeline(microbatches=microbatches, message_bytes=_ACTIVATION_BYTES // layout.tp),
        sync=GradientSync(
            buffer_bytes=round(0.05 * step_s * 400e9 / 8 / 2),
            buckets=4 if overlap else 1,
            overlap=overlap,
        ),
        queue_pairs=queue_pairs,
    )


def _faults(
    cluster: Cluster,
    job: Job,
    slow_gpu: tuple[int, float, int, int] | None,
    slow_link: tuple[int, int, float, float, float] | None,
) -> tuple[Fault, ...]:
    """Describe the first job's faults; its ranks are the cluster's first GPUs."""
    ranks = job.layout.gpus
    faults = []
    if slow_gpu is not None:
        rank, factor, first_step, last_step = slow_gpu
        require(0 <= rank < ranks, f"the first job has no rank {rank}, only 0 to {ranks - 1}")
        require(0 <= first_step <= last_step, f"steps {first_step} to {last_step} are no span")
        faults.append(Fault(kind="slow_gpu", gpu=rank, factor=factor, first_step=first_step, last_step=last_step))
    if slow_link is not None:
        rank, peer, factor, from_s, to_s = slow_link
        require(0 <= rank < ranks, f"the first job has no rank {rank}, only 0 to {ranks - 1}")
        peers = _peers(cluster, job, rank)
        talks_to = ", ".join(map(str, peers)) or "nobody in another server"
        require(peer in peers, f"rank {rank} sends nothing to rank {peer} over the network; it sends to {talks_to}")
        faults.append(Fault(kind="slow_link", gpu=rank, peer=peer, factor=factor, start_s=from_s, end_s=to_s))
    return tuple(faults)


def _peers(cluster: Cluster, job: Job, rank: int) -> list[int]:
    """Return the ranks of other servers to which a rank of the first job sends."""
    network = build_network(cluster)
    grid = rank_grid(job.layout, job.lives[0].gpus, network)
    plan = step_engine(job, grid, Links(network, ())).plan
    mine = (plan.src == rank) & (network.server[plan.src] != network.server[plan.dst])
    return sorted({int(peer) for peer in plan.dst[mine]})
