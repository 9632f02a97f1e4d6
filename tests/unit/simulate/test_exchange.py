"""Traffic inside operations: who exchanges with whom, how much, and that computing waits for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prism_ch.model.result import CP, EP, TP
from prism_ch.simulate.communication import Exchange
from prism_ch.simulate.job import Attempt, Compute, InnerTraffic, Job, Layout, Pipeline
from prism_ch.simulate.network import Links, Network, RankGrid
from prism_ch.simulate.scenario import Cluster
from prism_ch.simulate.schedule import BACKWARD, FORWARD, compile_program
from prism_ch.simulate.step import PipelineEngine, PipelineTimes

NETWORK = Network(Cluster(servers=4))
PIPELINE = Pipeline(microbatches=2)


def exchange(kind: int, layout: Layout, traffic: InnerTraffic) -> Exchange:
    grid = RankGrid(layout, tuple(range(32)), NETWORK)
    return Exchange(kind, traffic, grid, Links(NETWORK), compile_program(PIPELINE, layout.pp))


def pairs(found: Exchange) -> set[tuple[int, int]]:
    plan = found.plan()
    crossing = NETWORK.crosses(plan.src, plan.dst)
    return {(int(a), int(b)) for a, b in zip(plan.src[crossing], plan.dst[crossing], strict=True)}


def test_experts_exchange_all_to_all_within_their_group() -> None:
    found = pairs(exchange(EP, Layout(tp=8, ep=2, dp=4), InnerTraffic(payload_bytes=1000)))
    groups = [{gpu, gpu + 8} for gpu in (*range(8), *range(16, 24))]
    assert found == {(a, b) for group in groups for a in group for b in group if a != b}


def test_rail_aligned_experts_send_on_their_own_rail_only() -> None:
    layout = Layout(tp=1, ep=16, dp=32)
    direct = exchange(EP, layout, InnerTraffic(payload_bytes=16_000))
    railed = exchange(EP, layout, InnerTraffic(payload_bytes=16_000, rail_aligned=True))
    assert len(pairs(direct)) == 2 * 2 * 8 * 8
    assert all(a % 8 == b % 8 for a, b in pairs(railed))
    assert len(pairs(railed)) == 2 * 2 * 8
    crossing = []
    for found in (direct, railed):
        plan = found.plan()
        size = found.flows(found.draw(np.random.default_rng(0))).payload_bytes
        crossing.append(size[NETWORK.crosses(plan.src, plan.dst)].sum())
    assert crossing[0] == crossing[1] > 0


def test_what_is_dispatched_comes_back() -> None:
    found = exchange(EP, Layout(tp=8, ep=4, dp=4), InnerTraffic(payload_bytes=1 << 20, bursts=2, spread=0.3))
    sizes = found.draw(np.random.default_rng(1)).payload_bytes
    plan = found.plan()
    shape = sizes.shape
    src, dst = (side.reshape(shape)[0, 0] for side in (plan.src, plan.dst))
    there = {(int(a), int(b)): int(n) for a, b, n in zip(src, dst, sizes[0, 0], strict=True)}
    back = {(int(a), int(b)): int(n) for a, b, n in zip(src, dst, sizes[0, 1], strict=True)}
    assert len(set(there.values())) > 40
    assert all(back[b, a] == size for (a, b), size in there.items())


def test_tensor_groups_of_two_servers_use_every_rail() -> None:
    found = pairs(exchange(TP, Layout(tp=16, dp=2), InnerTraffic(payload_bytes=1000)))
    assert found == {(a, b) for gpu in (*range(8), *range(16, 24)) for a, b in ((gpu, gpu + 8), (gpu + 8, gpu))}


def test_context_rings_run_from_server_to_server() -> None:
    traffic = InnerTraffic(payload_bytes=1000, backward_ratio=2.0)
    found = exchange(CP, Layout(tp=8, cp=4), traffic)
    assert pairs(found) == {(gpu, (gpu + 8) % 32) for gpu in range(32)}
    sizes = found.draw(np.random.default_rng(0)).payload_bytes
    kind = compile_program(PIPELINE, 1).kind
    assert set(sizes[kind == FORWARD].reshape(-1)) == {3000}
    assert set(sizes[kind == BACKWARD].reshape(-1)) == {6000}


def run(layout: Layout, traffic: InnerTraffic) -> tuple[PipelineEngine, PipelineTimes]:
    job = Job(
        job_id="j",
        tenant="t",
        layout=layout,
        compute=Compute(forward_s=0.01, jitter=0.0),
        attempts=(Attempt(gpus=tuple(range(32))),),
        pipeline=PIPELINE,
        experts=traffic,
    )
    engine = PipelineEngine(job, RankGrid(layout, tuple(range(32)), NETWORK), Links(NETWORK))
    shape = (layout.pp, layout.dp)
    return engine, engine.run(np.zeros(shape), np.zeros(shape), np.ones(shape), np.random.default_rng(0))


def test_computing_waits_for_its_exchange_unless_they_overlap() -> None:
    layout = Layout(tp=8, ep=2, dp=4)
    traffic = InnerTraffic(payload_bytes=400_000_000, bursts=2)
    _, blocking = run(layout, traffic)
    _, overlapped = run(layout, replace(traffic, overlapped=True))
    times = blocking.exchanges[0]
    assert (times.end_s.max(axis=(1, 2)) <= blocking.op_end_s.max(axis=1)).all()
    assert (times.start_s.min(axis=(1, 2)) >= blocking.op_start_s.min(axis=1)).all()
    assert (times.start_s[:, 1] >= times.end_s[:, 0].min()).all()
    lasted = [float((t.op_end_s - t.op_start_s)[0].mean()) for t in (blocking, overlapped)]
    assert lasted[0] == pytest.approx(0.01 + 2 * 200e6 * 8e-9 / 400 / 0.94, rel=0.05)
    assert lasted[1] < lasted[0]


def test_members_of_a_group_leave_an_exchange_together() -> None:
    _, times = run(Layout(tp=8, ep=2, dp=4), InnerTraffic(payload_bytes=1_000_000))
    assert times.op_end_s[:, 0] == pytest.approx(times.op_end_s[:, 1])
