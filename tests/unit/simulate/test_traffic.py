"""Traffic in time: inference in bursts, storage as a hub, monitors, start-up, and batches that grow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from prism_ch.simulate import generate
from prism_ch.simulate.job import Attempt, BatchChange, Compute, Job, Layout, Pipeline
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


def test_from_a_step_on_steps_take_longer_and_move_more() -> None:
    job = Job(
        job_id="job",
        tenant="t",
        layout=Layout(tp=8, dp=2, pp=2),
        compute=Compute(forward_s=0.05),
        attempts=(Attempt(gpus=tuple(range(32))),),
        pipeline=Pipeline(microbatches=4),
        batch_changes=(BatchChange(from_step=6, factor=2.0),),
    )
    made = generate(Scenario(name="x", cluster=Cluster(servers=4), jobs=(job,), duration_s=20.0, phases=False))
    steps = sorted(made.truth["steps"].to_pylist(), key=lambda row: row["step"])
    taken_s = [row["duration_s"] for row in steps if row["complete"]]
    assert np.median(taken_s[6:]) / np.median(taken_s[:5]) == pytest.approx(2, abs=0.2)
    kind = {(row["src_addr"], row["dst_addr"]): row["kind"] for row in made.truth["pairs"].to_pylist()}
    flows = made.flows.to_pylist()
    change_ns = steps[6]["start_ns"]
    for name, factor in (("PP", 2.0), ("DP", 1.0)):
        of_kind = [row for row in flows if kind[row["src_addr"], row["dst_addr"]] == name]
        before, after = (
            np.median([row["bytes"] for row in of_kind if (row["time_flow_start_ns"] > change_ns) == late])
            for late in (False, True)
        )
        assert after / before == pytest.approx(factor, rel=1e-3)
    assert job.with_batch(1.0) == job


def test_a_batch_without_samples_is_refused() -> None:
    with pytest.raises(ValidationError, match="greater than 0"):
        BatchChange(from_step=1, factor=0.0)
