"""Generated records: reproducible, conserving bytes, in causal order, and agreeing with their truth."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet
import pytest

from prism_ch.errors import UsageError
from prism_ch.simulate import Scenario, Simulation, generate, textbook, write
from prism_ch.simulate.job import Attempt, Compute, Fault, GradientSync, Job, Layout, Pipeline, SyncMode
from prism_ch.simulate.records import ROCE_HEADER_BYTES
from prism_ch.simulate.scenario import Cluster
from prism_ch.simulate.subjects import read_fault


def column(table: pa.Table, name: str) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = table[name].to_numpy()
    return values


def columns(table: pa.Table) -> dict[str, npt.NDArray[Any]]:
    return {name: column(table, name) for name in table.column_names}


def scenario(layout: Layout, sync: GradientSync, pipeline: Pipeline, *, queue_pairs: int = 1) -> Scenario:
    job = Job(
        job_id="job",
        tenant="t",
        layout=layout,
        compute=Compute(forward_s=0.02),
        attempts=(Attempt(gpus=tuple(range(layout.gpus))),),
        sync=sync,
        pipeline=pipeline,
        queue_pairs=queue_pairs,
    )
    return Scenario(name="x", cluster=Cluster(servers=-(-layout.gpus // 8)), jobs=(job,), duration_s=8.0, seed=5)


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    return generate(textbook(duration_s=30.0, step_s=1.0, seed=3))


def test_same_seed_same_records_other_seed_others(simulation: Simulation) -> None:
    again = generate(textbook(duration_s=30.0, step_s=1.0, seed=3))
    assert again.flows.equals(simulation.flows)
    assert all(table.equals(simulation.truth[name]) for name, table in again.truth.items())
    assert not generate(textbook(duration_s=30.0, step_s=1.0, seed=4)).flows.equals(simulation.flows)


def test_records_are_sorted_and_inside_the_recording(simulation: Simulation) -> None:
    start, end = column(simulation.flows, "time_flow_start_ns"), column(simulation.flows, "time_flow_end_ns")
    assert (np.diff(end) >= 0).all()
    assert (end > start).all()
    assert end.min() >= simulation.summary["window_start_ns"]
    assert end.max() < simulation.summary["window_end_ns"]


def test_records_leave_servers_and_pipelines_keep_their_rail(simulation: Simulation) -> None:
    topology = simulation.topology.to_pydict()
    server = dict(zip(topology["endpoint"], topology["server"], strict=True))
    rail = dict(zip(topology["endpoint"], topology["rail"], strict=True))
    pairs = simulation.truth["pairs"].to_pylist()
    assert len(pairs) == 160
    assert all(server[pair["src_addr"]] != server[pair["dst_addr"]] for pair in pairs)
    assert all(rail[pair["src_addr"]] == rail[pair["dst_addr"]] for pair in pairs)


def test_steps_end_with_their_last_closing_flow(simulation: Simulation) -> None:
    flows = columns(simulation.flows)
    kind = {(p["src_addr"], p["dst_addr"]): p["kind"] for p in simulation.truth["pairs"].to_pylist()}
    closing = np.array([kind[pair] == "DP" for pair in zip(flows["src_addr"], flows["dst_addr"], strict=True)])
    steps = columns(simulation.truth["gpu_steps"])
    endpoint = steps["endpoint"][0]
    mine = flows["time_flow_end_ns"][closing & ((flows["src_addr"] == endpoint) | (flows["dst_addr"] == endpoint))]
    whole = (steps["endpoint"] == endpoint) & steps["complete"]
    start, end = steps["start_ns"][whole], steps["end_ns"][whole]
    assert len(end) >= 28
    for first, last in zip(start, end, strict=True):
        inside = mine[(mine > first) & (mine <= last)]
        assert inside.max() == last
        assert len(inside) == 2  # in and out, one bucket, one channel
    assert (start[1:] == end[:-1]).all()


def test_a_step_of_the_job_is_as_late_as_its_last_endpoint(simulation: Simulation) -> None:
    steps, gpu_steps = columns(simulation.truth["steps"]), columns(simulation.truth["gpu_steps"])
    last = [gpu_steps["end_ns"][gpu_steps["step"] == step].max() for step in steps["step"]]
    assert (steps["end_ns"] == last).all()
    assert (steps["start_ns"][1:] == steps["end_ns"][:-1]).all()
    assert 25 <= steps["complete"].sum() < len(steps["step"])


def test_phases_tile_every_step(simulation: Simulation) -> None:
    phases, steps = columns(simulation.truth["phases"]), columns(simulation.truth["gpu_steps"])
    joined = phases["endpoint"][1:] == phases["endpoint"][:-1]
    assert (phases["start_ns"][1:][joined] == phases["end_ns"][:-1][joined]).all()
    for endpoint in np.unique(steps["endpoint"])[::9]:
        mine = steps["endpoint"] == endpoint
        rows = phases["endpoint"] == endpoint
        seconds = np.bincount(phases["step"][rows], (phases["end_ns"] - phases["start_ns"])[rows] / 1e9)
        assert np.allclose(seconds, steps["duration_s"][mine], atol=1e-8)
    parts = steps["compute_s"] + steps["pp_s"] + steps["dp_s"]
    assert np.allclose(parts, steps["duration_s"])
    assert (steps["pp_s"] > 0).all()
    assert (steps["dp_s"] > 0).all()


@pytest.mark.parametrize("mode,rounds", [("allreduce", [2.0]), ("distributed_optimizer", [1.0, 0.5])])
@pytest.mark.parametrize("queue_pairs", [1, 4])
def test_every_ring_edge_carries_its_share(mode: SyncMode, rounds: list[float], queue_pairs: int) -> None:
    layout = Layout(tp=8, dp=4)
    sync = GradientSync(mode=mode, buffer_bytes=8_000_003, buckets=2, channels=3)
    found = generate(scenario(layout, sync, Pipeline(microbatches=2), queue_pairs=queue_pairs))
    packets = column(found.flows, "packets").astype(np.int64)
    payload = column(found.flows, "bytes").astype(np.int64) - ROCE_HEADER_BYTES * packets
    steps = columns(found.truth["steps"])
    end, count = column(found.flows, "time_flow_end_ns"), steps["complete"].sum()
    whole = (end > steps["end_ns"][0]) & (end <= steps["end_ns"][steps["complete"]][-1])
    expected = sum(rounds) * 8_000_003 * 3 / 4 * count
    pairs = found.truth["pairs"].to_pylist()
    assert len(pairs) == 8 * 4
    for pair in pairs[:5]:
        between = (column(found.flows, "src_addr") == pair["src_addr"]) & (
            column(found.flows, "dst_addr") == pair["dst_addr"]
        )
        assert payload[between & whole].sum() == pytest.approx(expected, abs=8.0 * float(count))


def test_ranks_of_one_server_divide_the_rings(simulation: Simulation) -> None:
    groups = [g for g in simulation.truth["groups"].to_pylist() if g["kind"] == "DP"]
    assert len(groups) == 16
    assert all(len(g["members"]) == 4 and [len(c) for c in g["components"]] == [2, 2] for g in groups)
    chains = [g for g in simulation.truth["groups"].to_pylist() if g["kind"] == "PP"]
    assert len(chains) == 16
    assert all(g["components"] == [g["members"]] for g in chains)


def test_rotating_rings_leave_by_another_rail() -> None:
    sync = GradientSync(exit="rotate", channels=2)
    found = generate(scenario(Layout(tp=2, dp=8), sync, Pipeline(microbatches=2)))
    topology = found.topology.to_pydict()
    rail = dict(zip(topology["endpoint"], topology["rail"], strict=True))
    pairs = found.truth["pairs"].to_pylist()
    assert pairs
    assert all(rail[pair["src_addr"]] != rail[pair["dst_addr"]] for pair in pairs)


def test_slow_gpu_and_slow_link_lengthen_their_steps() -> None:
    plain = textbook(duration_s=30.0, step_s=1.0, seed=3)
    faulty = textbook(duration_s=30.0, step_s=1.0, seed=3, slow_gpu=(9, 1.6, 10, 14), slow_link=(8, 0, 0.2, 20.0, 25.0))
    healthy, found = generate(plain), generate(faulty)
    ratio = column(found.truth["steps"], "duration_s")[1:20] / column(healthy.truth["steps"], "duration_s")[1:20]
    assert np.allclose(ratio[:9], 1.0)
    assert (ratio[9:14] > 1.2).all()
    slow_gpu, slow_link = found.truth["faults"].to_pylist()
    assert slow_gpu["effective"]
    assert slow_gpu["impact"] == pytest.approx(ratio[9:14].mean() - 1, rel=0.1)
    assert slow_link["effective"]
    assert slow_link["impact"] > 0.05
    touched = found.truth["fault_jobs"].to_pylist()
    assert (touched[0]["first_step"], touched[0]["last_step"]) == (10, 14)


def test_slow_switch_slows_all_that_passes_it() -> None:
    base = textbook(duration_s=20.0, step_s=1.0, seed=3)
    fault = Fault(kind="slow_switch", gpu=8, factor=0.3, start_s=8.0, end_s=15.0)
    found = generate(dataclasses.replace(base, faults=(fault,)))
    told = found.truth["faults"].to_pylist()[0]
    flows = columns(found.flows)
    rate = flows["bytes"] / (flows["time_flow_end_ns"] - flows["time_flow_start_ns"])
    since_s = (flows["time_flow_start_ns"] - found.summary["window_start_ns"]) / 1e9
    during, small = (since_s > 8.5) & (since_s < 14.5), flows["bytes"] < 20_000_000
    through = np.isin(
        flows["src_addr"], [e["endpoint"] for e in found.topology.to_pylist() if e["leaf"] == told["subject"]]
    )
    assert told["subject_type"] == "switch"
    assert np.median(rate[through & during & small]) < 0.4 * np.median(rate[through & ~during & small])
    assert np.median(rate[~through & during & small]) > 0.9 * np.median(rate[~through & ~during & small])


@pytest.mark.parametrize("kind", ["slow_spine", "slow_uplink"])
@pytest.mark.parametrize("queue_pairs", [1, 3])
def test_slow_way_slows_the_queue_pairs_that_take_it(kind: Any, queue_pairs: int) -> None:
    base = textbook(32, 2, 4, 4, duration_s=20.0, step_s=1.0, seed=3, queue_pairs=queue_pairs)
    base = dataclasses.replace(base, cluster=dataclasses.replace(base.cluster, pod_servers=2, spines=2))
    healthy = columns(generate(base).flows)
    used = next(path for path in healthy["path"][healthy["bytes"] < 80_000_000] if len(path) == 3)
    subject = {"slow_spine": used[1], "slow_uplink": f"{used[0]}->{used[1]}"}[kind]
    fault = read_fault((kind, subject, "0.25", "8", "15"), base)
    found = generate(dataclasses.replace(base, faults=(fault,)))
    told = found.truth["faults"].to_pylist()[0]
    flows = columns(found.flows)
    rate = flows["bytes"] / (flows["time_flow_end_ns"] - flows["time_flow_start_ns"])
    since_s = (flows["time_flow_start_ns"] - found.summary["window_start_ns"]) / 1e9
    message = (flows["bytes"] > 1_000_000) & (flows["bytes"] < 80_000_000)
    during, before = message & (since_s > 8.5) & (since_s < 14.5), message & (since_s < 7.5)
    place = told["subject"].split("->")
    through = np.array([place == path[-1 - len(place) : -1] for path in found.flows["path"].to_pylist()])
    assert told["subject"] == subject
    assert told["subject_type"] == {"slow_spine": "switch", "slow_uplink": "link"}[kind]
    assert np.median(rate[through & during]) < 0.3 * np.median(rate[through & before])
    assert rate[~through & during].min() > 0.8 * rate[~through & before].min()


def test_two_gpus_may_share_a_nic() -> None:
    base = scenario(Layout(tp=2, pp=2, dp=4), GradientSync(), Pipeline(microbatches=2))
    found = generate(dataclasses.replace(base, cluster=Cluster(servers=2, nics=4)))
    assert found.topology.num_rows == 8
    steps = columns(found.truth["gpu_steps"])
    assert len(np.unique(steps["endpoint"])) == 8
    assert len(steps["step"]) == 8 * len(np.unique(steps["step"]))


def test_a_job_inside_one_server_is_invisible() -> None:
    found = generate(scenario(Layout(tp=2, dp=4), GradientSync(), Pipeline(microbatches=2)))
    assert found.flows.num_rows == 0
    assert not found.truth["jobs"]["visible"][0].as_py()
    assert found.truth["gpu_steps"].num_rows == 0


def test_a_job_without_replicas_ends_its_steps_with_its_pipeline() -> None:
    found = generate(scenario(Layout(tp=8, pp=3), GradientSync(), Pipeline(microbatches=4)))
    steps = columns(found.truth["gpu_steps"])
    assert steps["complete"].any()
    assert np.isin(steps["end_ns"][steps["complete"]], column(found.flows, "time_flow_end_ns")).all()


def test_written_files_read_back(simulation: Simulation, tmp_path: Path) -> None:
    files = write(simulation, tmp_path / "out")
    assert pa.parquet.read_table(tmp_path / "out" / "flows").equals(simulation.flows)
    header = (tmp_path / "out" / "topology.csv").read_text().splitlines()
    assert header[0] == "endpoint,server,gpu,rail,leaf,pod,tenant"
    assert len(header) == 65
    assert {f.name for f in files} >= {"scenario.json", "gpu_steps.parquet", "faults.parquet"}
    assert pa.parquet.read_table(tmp_path / "out" / "truth" / "steps.parquet").equals(simulation.truth["steps"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"gpus": 60},
        {"tp": 3},
        {"dp": 8},
        {"slow_gpu": (64, 2.0, 0, 1)},
        {"slow_gpu": (1, 0.5, 0, 1)},
        {"slow_link": (8, 40, 0.5, 0.0, 9.0)},
        {"steps": 3, "duration_s": 9.0},
    ],
)
def test_textbook_refuses_what_does_not_fit(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        textbook(**wrong)


def test_hanging_rank_leaves_flows_of_its_peers_half_sent() -> None:
    """Of a ring of four the flows at the one that hangs never begin; the others fill a buffer and stop."""
    layout = Layout(tp=8, dp=4)
    healthy = scenario(layout, GradientSync(buffer_bytes=1 << 30), Pipeline(microbatches=4))
    hung = generate(dataclasses.replace(healthy, faults=(Fault(kind="hang", gpu=8, start_s=4.0),)))
    [fault] = hung.truth["faults"].to_pylist()
    flows = columns(hung.flows)
    last = flows["time_flow_start_ns"] > fault["effect_start_ns"]
    assert last.sum() == 2 * 8
    ends = {*flows["src_addr"][last], *flows["dst_addr"][last]}
    assert len(ends) == 24
    assert ends.isdisjoint({fault["subject"], *fault["alt_subjects"]})
    assert (flows["bytes"][last] < 5e6).all()
    assert (flows["bytes"][~last] > 50e6).all()
    assert (flows["time_flow_end_ns"][last] - flows["time_flow_start_ns"][last] < 1e6).all()
