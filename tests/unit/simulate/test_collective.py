"""Edges of collectives: rings and trees reach every server, and carry what their algorithms say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.core.graph import components
from prism_ch.model.columns import Int32
from prism_ch.simulate.communication import Collective, Edges, ring_edges, tree_edges
from prism_ch.simulate.job import Fault, Layout
from prism_ch.simulate.network import Links, Network, RankGrid
from prism_ch.simulate.scenario import Cluster


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
