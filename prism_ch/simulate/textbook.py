"""Ready-made scenarios: textbook jobs in a rail-optimised cluster."""

from __future__ import annotations

from dataclasses import replace

from prism_ch.simulate.job import Attempt, Compute, Fault, GradientSync, Job, Layout, Pipeline, require
from prism_ch.simulate.network import Network
from prism_ch.simulate.scenario import Cluster, Observation, Scenario
from prism_ch.simulate.step import step_plan

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

    Parameters are the flags of `prism-ch simulate`; `steps` or `duration_s` may be given (default: 180 s). Jobs take
    the cluster's first GPUs, one after the other; their step times are 7 % apart. `overlap`: gradients in 4 buckets.
    `slow_gpu`: (rank in the first job, factor, first step, last step). `slow_link`: (rank, peer rank, factor, from s,
    to s), both of the first job. Raises UsageError if the parameters do not fit together, and for a link that the job
    does not use.
    """
    require(gpus % 8 == 0 and gpus > 0, f"the cluster has a multiple of 8 GPUs, not {gpus}")
    require(1 <= tp <= 8 and 8 % tp == 0, f"a tensor group is 1, 2, 4 or 8 GPUs of one server, not {tp}")
    each = tp * pp * dp
    require(jobs >= 1 and jobs * each <= gpus, f"{jobs} x {each} GPUs do not fit into a cluster of {gpus}")
    require(steps is None or duration_s is None, "give the number of steps or a duration, not both")
    require(step_s > 0, f"a step takes more than 0 s, not {step_s}")
    if duration_s is None:
        duration_s = 180.0 if steps is None else (steps + 1) * step_s
    layout = Layout(tp=tp, pp=pp, dp=dp)
    described = [
        textbook_job(n, layout, n * each, step_s * 1.07**n, microbatches=microbatches, overlap=overlap)
        for n in range(jobs)
    ]
    made = Scenario(
        name="textbook",
        cluster=Cluster(servers=gpus // 8),
        jobs=tuple(replace(job, queue_pairs=queue_pairs) for job in described),
        duration_s=duration_s,
        seed=seed,
        observation=Observation(path=True),
    )
    faults = []
    for rank in (fault[0] for fault in (slow_gpu, slow_link) if fault is not None):
        require(0 <= rank < each, f"the first job has no rank {rank}, only 0 to {each - 1}")
    if slow_gpu is not None:
        rank, factor, first_step, last_step = slow_gpu
        require(0 <= first_step <= last_step, f"steps {first_step} to {last_step} are no span")
        faults.append(Fault(kind="slow_gpu", gpu=rank, factor=factor, first_step=first_step, last_step=last_step))
    if slow_link is not None:
        rank, peer, factor, from_s, to_s = slow_link
        plan = step_plan(made.jobs[0], Network(made.cluster))
        peers = sorted({int(dst) for dst in plan.dst[plan.src == rank]})
        sends_to = ", ".join(map(str, peers)) or "nobody in another server"
        require(peer in peers, f"rank {rank} sends nothing to rank {peer} over the network; it sends to {sends_to}")
        faults.append(Fault(kind="slow_link", gpu=rank, peer=peer, factor=factor, start_s=from_s, end_s=to_s))
    return replace(made, faults=tuple(faults))


def textbook_job(
    number: int, layout: Layout, first_gpu: int, step_s: float, *, microbatches: int, overlap: bool
) -> Job:
    """Describe one job of a step time, with gradients worth 5 % of it."""
    slots = microbatches + layout.pp - 1
    gpus = tuple(range(first_gpu, first_gpu + layout.gpus))
    return Job(
        job_id=f"job-{number:02d}",
        tenant=f"tenant-{number:02d}",
        layout=layout,
        compute=Compute(forward_s=0.92 * step_s / slots / 3),
        attempts=(Attempt(gpus=gpus, start_s=-0.37 * step_s * (number + 1)),),
        pipeline=Pipeline(microbatches=microbatches, message_bytes=_ACTIVATION_BYTES // layout.tp),
        sync=GradientSync(
            buffer_bytes=round(0.05 * step_s * 400e9 / 8 / 2), buckets=4 if overlap else 1, overlap=overlap
        ),
    )
