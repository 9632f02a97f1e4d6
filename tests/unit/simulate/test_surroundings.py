"""What surrounds training: inference in bursts, storage as a hub, monitors, start-up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prism_ch.simulate.network import MONITOR, SERVING, STORAGE, STRAY, Flows, Network
from prism_ch.simulate.scenario import Cluster, Scenario, Serving, Surroundings
from prism_ch.simulate.traffic import surrounding_flows

SERVED = Serving(tenant="t", prefill=(0, 1), decode=(2, 3), requests_s=5.0, burstiness=3.0)


def around(surroundings: Surroundings, seed: int = 0) -> tuple[Flows, Scenario]:
    cluster = Cluster(servers=4, storage_nodes=2, monitors=1, clients=20)
    scenario = Scenario(name="x", cluster=cluster, jobs=(), duration_s=300.0, seed=seed, surroundings=surroundings)
    return surrounding_flows(scenario, Network(cluster)), scenario


def test_nothing_asked_nothing_sent() -> None:
    assert len(around(Surroundings())[0]) == 0


def test_bursty_requests_move_caches_from_prefill_to_decoding() -> None:
    gaps = {}
    for burstiness in (0.5, 3.0):
        found, scenario = around(Surroundings(serving=(replace(SERVED, burstiness=burstiness),)))
        network = Network(scenario.cluster)
        caches = found.take((found.src < 32) & (found.dst < 32))
        assert set(network.server[caches.src]) <= {0, 1}
        assert set(network.server[caches.dst]) <= {2, 3}
        assert (network.rail[caches.src] == network.rail[caches.dst]).all()
        asked = np.isin(found.src, network.clients)
        assert asked.sum() == pytest.approx(1500, rel=0.25)
        client = found.src == network.clients[3]
        between = np.diff(np.sort(found.start_ns[client])) / 1e9
        gaps[burstiness] = np.std(between) / np.mean(between)
        assert set(found.kind) == {SERVING}
    assert gaps[0.5] < 0.8
    assert gaps[3.0] > 1.5


def test_servers_read_from_storage_and_monitors_query_all() -> None:
    found, scenario = around(Surroundings(read_period_s=10.0, monitor_period_s=15.0, stray_s=2.0))
    network = Network(scenario.cluster)
    reads = found.take((found.kind == STORAGE) & (found.payload_bytes > 1_000_000))
    assert set(reads.src) == set(network.storage)
    assert np.bincount(network.server[reads.dst]).tolist() == [31] * 4
    asked = found.take((found.kind == MONITOR) & np.isin(found.dst, network.monitors))
    assert set(asked.src) == set(range(32))
    stray = found.take(found.kind == STRAY)
    assert len(stray) == pytest.approx(600 * 24 / 31, rel=0.15)
    assert (network.server[stray.src] != network.server[stray.dst]).all()
