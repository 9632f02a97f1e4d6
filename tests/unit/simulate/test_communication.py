"""Communication in time: edges of collectives, traffic inside operations, and what waits for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.core.graph import components
from prism_ch.model.columns import Int32
from prism_ch.model.result import CP, EP, TP
from prism_ch.simulate.communication import Collective, Edges, Exchange, ring_edges, tree_edges
from prism_ch.simulate.job import Attempt, Compute, Fault, InnerTraffic, Job, Layout, Pipeline
from prism_ch.simulate.network import Links, Network, RankGrid
from prism_ch.simulate.pipeline import PipelineEngine, PipelineTimes
from prism_ch.simulate.scenario import Cluster
from prism_ch.simulate.schedule import BACKWARD, FORWARD, compile_program


def servers_of(counts: list[int]) -> Int32:
    return np.repeat(np.arange(len(counts)), counts).astype(np.int32)


def joined(edges: Edges, server: Int32) -> int:
    return int(components(int(server.max()) + 1, server[edges.src], server[edges.dst]).max()) + 1


@given(
    st.lists(st.integers(1, 4), min_size=2, max_size=9),
    st.integers(1, 5),
    st.sampled_from(["rail", "rotate"]),
    st.booleans(),
)
def test_every_ring_visits_every_server_once(counts: list[int], channels: int, leave: str, varied: bool) -> None:
    server = servers_of(counts)
    members = np.arange(len(server))[None, :]
    edges = ring_edges(members, server, channels, "rail" if leave == "rail" else "rotate", varied=varied)
    rings = max(channels, *counts)
    assert len(edges) == rings * len(counts)
    assert edges.share.sum() == pytest.approx(len(counts) * (len(server) - 1) / len(server))
    for channel in range(rings):
        mine = edges.channel == channel
        assert sorted(server[edges.src[mine]]) == list(range(len(counts)))
        assert sorted(server[edges.dst[mine]]) == list(range(len(counts)))
        assert (server[edges.src[mine]] != server[edges.dst[mine]]).all()
    assert joined(edges, server) == 1


def test_varied_rings_go_round_in_different_orders() -> None:
    server = servers_of([1] * 5)
    edges = ring_edges(np.arange(5)[None, :], server, 2, "rail", varied=True)
    orders = [
        {(int(a), int(b)) for a, b in zip(edges.src[edges.channel == c], edges.dst[edges.channel == c], strict=True)}
        for c in (0, 1)
    ]
    assert not orders[0] & orders[1]


@given(st.integers(2, 17), st.integers(1, 3))
def test_trees_span_servers_and_carry_half_the_buffer(count: int, channels: int) -> None:
    server = servers_of([1] * count)
    edges = tree_edges(np.arange(count)[None, :], server, channels)
    assert len(edges) == channels * 2 * 2 * (count - 1)
    assert edges.share == pytest.approx(0.5 / channels)
    for tree in range(2 * channels):
        mine = edges.channel == tree
        there = {(int(a), int(b)) for a, b in zip(edges.src[mine], edges.dst[mine], strict=True)}
        assert {(b, a) for a, b in there} == there
        assert components(count, edges.src[mine].astype(np.int32), edges.dst[mine].astype(np.int32)).max() == 0
        assert np.bincount(edges.src[mine]).max() <= 3


def test_groups_inside_a_server_have_no_edges() -> None:
    assert len(ring_edges(np.arange(4)[None, :], servers_of([4]), 2, "rail")) == 0
    assert len(tree_edges(np.arange(4)[None, :], servers_of([4]), 2)) == 0


@pytest.mark.parametrize("eager", [True, False])
def test_flows_wait_for_both_ends_groups_for_all_members(eager: bool) -> None:
    network = Network(Cluster(servers=4))
    grid = RankGrid(Layout(tp=8, dp=4), tuple(range(32)), network)
    groups = grid.communicators(0)
    links = Links(network)
    collective = Collective(groups, ring_edges(groups, grid.server, 1, "rail"), grid, links, eager=eager)
    ready = np.zeros(32)
    ready[[3, 11]] = 1.0, 2.0
    flows, through = collective.run(1e9, ready, np.random.default_rng(0))
    late = collective.edges.group == 3
    both = np.maximum(ready[collective.edges.src], ready[collective.edges.dst])
    assert (flows.start_s >= (both if eager else np.where(late, 2.0, 0.0))).all()
    assert (flows.start_s[late].min() < 1.1) == eager
    assert flows.end_s[late].min() > 2.0
    assert flows.end_s[~late].max() < 0.1
    assert (through[groups[3]] >= flows.end_s[late].max()).all()


def test_one_slow_edge_slows_its_whole_ring() -> None:
    network = Network(Cluster(servers=4))
    grid = RankGrid(Layout(tp=8, dp=4), tuple(range(32)), network)
    groups = grid.communicators(0)
    edges = ring_edges(groups, grid.server, 1, "rail")
    took = []
    for faults in ((), (Fault(kind="slow_link", gpu=2, peer=10, factor=0.25),)):
        collective = Collective(groups, edges, grid, Links(network, faults))
        took.append(collective.run(1e9, np.zeros(32), np.random.default_rng(0))[1])
    ratio = took[1] / took[0]
    assert ratio[groups[2]] == pytest.approx(4.0, rel=0.1)
    assert np.delete(ratio, groups[2]) == pytest.approx(1.0)


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
