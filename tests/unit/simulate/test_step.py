"""A step in time: nothing starts before what it waits for."""

from __future__ import annotations

import numpy as np
import pytest

from prism_ch.model.result import OTHER
from prism_ch.simulate.gradients import GradientEngine, SyncTimes
from prism_ch.simulate.job import Attempt, Compute, Fault, GradientSync, Job, Layout, Pipeline
from prism_ch.simulate.network import GATHERS, REDUCES, Links, Network, RankGrid
from prism_ch.simulate.pipeline import PipelineEngine, PipelineTimes
from prism_ch.simulate.scenario import Cluster
from prism_ch.simulate.schedule import FORWARD

LAYOUT = Layout(tp=4, pp=4, dp=4)
NETWORK = Network(Cluster(servers=8))
COMPUTE = Compute(forward_s=0.01, sequence_spread=0.2)
PIPELINE = Pipeline(microbatches=4)


def job(
    pipeline: Pipeline, compute: Compute = COMPUTE, sync: GradientSync | None = None, layout: Layout = LAYOUT
) -> Job:
    attempts = (Attempt(gpus=tuple(range(64))),)
    sync = sync or GradientSync()
    return Job(job_id="j", tenant="t", layout=layout, compute=compute, attempts=attempts, pipeline=pipeline, sync=sync)


def engine(pipeline: Pipeline, *faults: Fault) -> PipelineEngine:
    grid = RankGrid(LAYOUT, tuple(range(64)), NETWORK)
    return PipelineEngine(job(pipeline), grid, Links(NETWORK, faults))


def run(pipes: PipelineEngine, hold_s: float = 0.0) -> PipelineTimes:
    shape = (4, 4)
    return pipes.run(np.zeros(shape), np.full(shape, hold_s), np.ones(shape), np.random.default_rng(1))


@pytest.mark.parametrize(
    "pipeline",
    [
        Pipeline(microbatches=6),
        Pipeline(microbatches=6, schedule="gpipe"),
        Pipeline(microbatches=8, schedule="interleaved", chunks=2),
        Pipeline(microbatches=6, schedule="zero-bubble"),
    ],
    ids=lambda pipeline: pipeline.schedule,
)
def test_operations_wait_for_stage_and_input(pipeline: Pipeline) -> None:
    pipes = engine(pipeline)
    times, program = run(pipes), pipes.program
    arrived = times.messages.end_s.max(axis=2)
    assert (times.op_start_s[program.receiver] >= arrived).all()
    assert (times.messages.start_s >= times.op_end_s[program.sender][:, :, None]).all()
    for stage in range(4):
        mine = program.stage == stage
        assert (times.op_start_s[mine][1:] >= times.op_end_s[mine][:-1]).all()
        sent = program.stage[program.sender] == stage
        assert (times.messages.start_s[sent][1:] >= times.messages.end_s[sent][:-1]).all()


def test_pipeline_takes_the_time_of_its_bubble() -> None:
    compute = Compute(forward_s=0.01, jitter=0.0)
    grid = RankGrid(LAYOUT, tuple(range(64)), NETWORK)
    pipes = PipelineEngine(job(Pipeline(microbatches=8, message_bytes=1), compute), grid, Links(NETWORK))
    assert run(pipes).op_end_s.max() == pytest.approx((8 + 3) * 0.03, rel=0.01)


def test_parameters_still_gathered_hold_the_first_forward() -> None:
    pipes = engine(Pipeline(microbatches=6))
    first = np.flatnonzero((pipes.program.stage == 0) & (pipes.program.kind == FORWARD))[0]
    assert (run(pipes, hold_s=0.5).op_end_s[first] == 0.5).all()


def test_slow_link_delays_one_direction() -> None:
    pipeline = Pipeline(microbatches=2)
    slow = run(engine(pipeline, Fault(kind="slow_link", gpu=0, peer=16, factor=0.1)))
    plain = run(engine(pipeline))
    pipes = engine(pipeline)
    took, usual = (times.messages.end_s - times.messages.start_s for times in (slow, plain))
    hit = (pipes.message_src == 0) & (pipes.message_dst == 16)
    assert hit.any()
    assert (took[hit] > 8 * usual[hit]).all()
    assert took[~hit] == pytest.approx(usual[~hit])


def synchronised(
    sync: GradientSync, pipeline: Pipeline = PIPELINE, layout: Layout = LAYOUT
) -> tuple[PipelineTimes, SyncTimes, GradientEngine, PipelineEngine]:
    pipes = engine(pipeline)
    grid = RankGrid(layout, tuple(range(64)), NETWORK)
    gradients = GradientEngine(job(pipeline, sync=sync, layout=layout), grid, Links(NETWORK), pipes.program)
    times = run(pipes)
    return times, gradients.run(times, np.random.default_rng(2)), gradients, pipes


def test_rings_wait_for_all_members_and_stages_for_the_norm() -> None:
    sync = GradientSync(mode="distributed_optimizer", buckets=3, grad_norm=True)
    times, synced, gradients, pipes = synchronised(sync)
    finished = np.array([times.op_end_s[pipes.program.stage == stage].max() for stage in range(4)])
    flows, rounds = synced.flows, 3 + 1 + 3
    start, end, role = (column.reshape(rounds, -1) for column in (flows.start_s, flows.end_s, gradients.plan.role))
    stage = gradients.plan.src[: end.shape[1]] // 16
    assert (end[0] >= finished[stage]).all()
    assert (np.diff(start[:3], axis=0) > 0).all()
    assert (start[3] >= end[:3].max()).all()
    assert (role[:4] == REDUCES).all()
    assert (role[4:] == GATHERS).all()
    assert (synced.next_s >= end[:4].max()).all()
    assert (synced.hold_s == synced.next_s).all()
    assert (end > start).all()


def test_overlapped_gathering_lets_the_next_step_begin() -> None:
    sync = GradientSync(mode="distributed_optimizer", buckets=3, overlap=True)
    _, synced, _, _ = synchronised(sync)
    assert (synced.hold_s > synced.next_s).all()


def test_overlapped_buckets_start_during_the_backward() -> None:
    times, synced, _, pipes = synchronised(GradientSync(buckets=4, overlap=True, buffer_bytes=1 << 20))
    start = synced.flows.start_s.reshape(4, -1)
    assert (synced.flows.end_s.reshape(4, -1)[0] < start[-1]).all()
    assert start[0].min() < times.op_end_s[pipes.program.stage == 0].max()
    assert (synced.hold_s == synced.next_s).all()


def test_zero2_reduces_after_every_microbatch() -> None:
    times, synced, gradients, pipes = synchronised(GradientSync(mode="zero2", buckets=2))
    rounds = 4 * 2 + 2
    assert len(gradients.plan) % rounds == 0
    start = synced.flows.start_s.reshape(rounds, -1)
    first_backward = times.op_start_s[pipes.program.kind > FORWARD].min()
    assert first_backward < start[0].min() < times.op_end_s.max()


def test_a_bucket_waits_for_all_chunks_that_fill_it() -> None:
    interleaved = Pipeline(microbatches=4, schedule="interleaved", chunks=3)
    times, synced, gradients, pipes = synchronised(GradientSync(overlap=True, buckets=2), interleaved)
    first, last = synced.flows.start_s.reshape(2, -1)
    stage, lane = np.divmod(gradients.plan.src[: len(last)] // 4, 4)
    done_s = np.where(pipes.program.stage[:, None] == stage, times.op_end_s[:, lane], 0.0)
    filling = (pipes.program.chunk == 1) & (pipes.program.kind > FORWARD)
    assert (first >= done_s[filling].max(axis=0)).all()
    assert (last >= done_s.max(axis=0)).all()


@pytest.mark.parametrize(
    "pipeline",
    [Pipeline(microbatches=4, schedule="zero-bubble"), Pipeline(microbatches=4, schedule="interleaved", chunks=2)],
    ids=lambda pipeline: pipeline.schedule,
)
def test_zero2_reduces_each_gradient_once_a_microbatch(pipeline: Pipeline) -> None:
    sync = GradientSync(mode="zero2", buckets=2, expert_bytes=1 << 20)
    _, _, gradients, _ = synchronised(sync, pipeline, Layout(tp=4, pp=4, ep=2, dp=4))
    of_pair = np.unique_counts(gradients.plan.src * 64 + gradients.plan.dst).counts
    assert (of_pair == 4 * (2 + 1) + 2).all()


def test_tied_embeddings_join_first_and_last_stage() -> None:
    _, synced, gradients, _ = synchronised(GradientSync(tied_bytes=1000))
    tied = gradients.plan.kind == OTHER
    stages = {
        (int(a) // 16, int(b) // 16) for a, b in zip(gradients.plan.src[tied], gradients.plan.dst[tied], strict=True)
    }
    assert stages == {(0, 3), (3, 0)}
    assert (synced.flows.payload_bytes[tied] == 1000).all()
