"""The catalogue: every family and condition yields a recording whose truth its records bear out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from prism_ch.simulate import Simulation, generate
from prism_ch.simulate.families import CONDITIONS, FAMILIES
from prism_ch.simulate.scenario import Observation


def columns(table: pa.Table) -> dict[str, npt.NDArray[Any]]:
    return {name: table[name].to_numpy() for name in table.column_names if not pa.types.is_list(table[name].type)}


def recorded(family: str, seed: int = 1, share: float = 0.3, **changes: Any) -> Simulation:
    scenario = FAMILIES[family](seed)
    return generate(replace(scenario, duration_s=scenario.duration_s * share, **changes))


@pytest.mark.parametrize("family", FAMILIES)
def test_family(family: str) -> None:
    found = recorded(family)
    flows, steps = columns(found.flows), columns(found.truth["steps"])
    topology = found.topology.to_pydict()
    server = dict(zip(topology["endpoint"], topology["server"], strict=True))
    assert (flows["time_flow_end_ns"] >= flows["time_flow_start_ns"]).all()
    assert (np.diff(flows["time_flow_end_ns"]) >= 0).all()
    for pair in found.truth["pairs"].to_pylist():
        ends = server.get(pair["src_addr"], "src"), server.get(pair["dst_addr"], "dst")
        assert ends[0] != ends[1]
        assert pair["job_id"] == "" or set(ends) <= set(topology["server"])
    for job in found.truth["jobs"].to_pylist():
        mine = (steps["job_id"] == job["job_id"]) & steps["complete"]
        assert mine.sum() >= 3 or not job["visible"]
        assert (steps["duration_s"][mine] > 0).all()
        assert np.isin(steps["end_ns"][mine], flows["time_flow_end_ns"]).all()
    gpu_steps = columns(found.truth["gpu_steps"])
    parts = sum(gpu_steps[f"{kind}_s"] for kind in ("compute", "pp", "dp", "ep", "cp", "tp"))
    assert np.allclose(parts, gpu_steps["duration_s"], atol=1e-6)
    assert (gpu_steps["busy_s"] > 0).all()


def test_every_family_names_its_scenarios_and_follows_its_seed() -> None:
    for name, family in FAMILIES.items():
        assert family(5).name == name
        assert family(5) == family(5)
        assert family(5) != family(6)


def kinds(found: Simulation) -> set[str]:
    return {kind for pair in found.truth["pairs"].to_pylist() for kind in pair["kinds"]}


@pytest.mark.parametrize(
    "family,expected",
    [
        ("experts", {"DP", "PP", "EP"}),
        ("context-ring", {"DP", "CP"}),
        ("tensor-across-servers", {"DP", "PP", "TP"}),
        ("production", {"DP", "PP", "other"}),
        ("startup-mesh", {"DP", "PP", "startup"}),
        ("storage-hub", {"DP", "PP", "storage"}),
        ("monitoring", {"DP", "PP", "monitor", "stray"}),
        ("inference-beside", {"DP", "PP", "serving"}),
    ],
)
def test_kinds_of_traffic(family: str, expected: set[str]) -> None:
    assert kinds(recorded(family)) == expected


def test_distributed_optimizer_scatters_twice_what_it_gathers() -> None:
    found = recorded("distributed-optimizer")
    steps = columns(found.truth["gpu_steps"])
    whole = steps["complete"]
    assert (steps["rs_end_ns"][whole] < steps["end_ns"][whole]).all()
    pairs = {(p["src_addr"], p["dst_addr"]) for p in found.truth["pairs"].to_pylist() if p["kind"] == "DP"}
    flows = columns(found.flows)
    mine = np.array([pair in pairs for pair in zip(flows["src_addr"], flows["dst_addr"], strict=True)])
    sizes, counts = np.unique(flows["bytes"][mine], return_counts=True)
    control, gathered, scattered = sizes.astype(float)
    assert control < 100
    assert scattered / gathered == pytest.approx(2.0, rel=0.001)
    assert counts.min() > 0.4 * counts.max()


def test_sharded_job_gathers_throughout_and_ends_scattering() -> None:
    found = recorded("zero3")
    steps, flows = columns(found.truth["steps"]), columns(found.flows)
    starts = flows["time_flow_start_ns"]
    for step in np.flatnonzero(steps["complete"])[:3]:
        begin, end = steps["start_ns"][step], steps["end_ns"][step]
        inside = np.sort(starts[(starts >= begin) & (starts < end)])
        assert np.diff(inside).max() < 0.5 * (end - begin)
        assert np.histogram(inside, bins=10, range=(begin, end))[0].astype(bool).sum() >= 5


@pytest.mark.parametrize("family,apart", [("production", (0.0, 0.005)), ("production-staggered", (0.1, 0.3))])
def test_production_is_aperiodic_and_its_rings_are_partly_hidden(family: str, apart: tuple[float, float]) -> None:
    found = recorded(family, share=1.0)
    steps, gpu_steps = columns(found.truth["steps"]), columns(found.truth["gpu_steps"])
    duration = steps["duration_s"][steps["complete"]]
    assert np.std(duration) / np.mean(duration) > 0.02
    assert (gpu_steps["dp_s"].sum() / gpu_steps["duration_s"].sum()) < 0.02
    ends = gpu_steps["rs_end_ns"][gpu_steps["step"] == 5]
    assert apart[0] <= np.ptp(ends) / 1e9 / np.median(duration) < apart[1]
    groups = [group for group in found.truth["groups"].to_pylist() if group["kind"] == "DP"]
    assert all(len(group["components"]) > 1 for group in groups)


def test_others_wait_for_straggler_in_middle_of_every_step() -> None:
    found = recorded("production-straggler", share=1.0)
    steps = columns(found.truth["gpu_steps"])
    idle = 1 - (steps["busy_s"] / steps["duration_s"])[steps["complete"]]
    assert idle.min() < 0.5 * np.median(idle)
    assert [fault["kind"] for fault in found.truth["faults"].to_pylist()] == ["slow_gpu"]


def test_a_restarted_job_keeps_counting_its_steps() -> None:
    found = recorded("restart-elsewhere", share=1.0)
    steps = columns(found.truth["steps"])
    assert set(steps["incarnation"]) == {0, 1}
    assert (np.diff(steps["step"]) >= 1).all()
    event = found.truth["events"].to_pylist()[0]
    assert event["kind"] == "restart"
    gap = (steps["start_ns"] >= event["end_ns"] - 1e6) | (steps["end_ns"] <= event["start_ns"])
    assert gap.all()
    members = columns(found.truth["job_members"])
    before, after = (set(members["server"][members["incarnation"] == attempt]) for attempt in (0, 1))
    assert before & after
    assert before != after


def test_a_lost_server_is_silent_until_it_comes_back() -> None:
    found = recorded("lose-and-regain", share=1.0)
    members = columns(found.truth["job_members"])
    count = [int((members["incarnation"] == attempt).sum()) for attempt in range(3)]
    assert count == [64, 56, 64]


def test_restarted_job_moves_and_loses_replicas() -> None:
    members = columns(recorded("restarts", share=1.0).truth["job_members"])
    servers = [set(members["server"][members["incarnation"] == attempt]) for attempt in range(3)]
    assert servers[0] == servers[1]
    assert len(servers[2]) < len(servers[1])
    assert servers[2] & servers[1]
    assert servers[2] - servers[1]


def test_one_job_takes_over_the_servers_of_another_of_its_tenant() -> None:
    jobs = recorded("one-after-another", share=1.0).truth["jobs"].to_pylist()
    assert [job["tenant"] for job in jobs] == ["tenant-00"] * 2
    assert jobs[0]["servers"] == jobs[1]["servers"]
    assert jobs[0]["end_ns"] < jobs[1]["start_ns"]


def test_pauses_lengthen_the_step_they_precede() -> None:
    for family in ("checkpoints", "evaluation", "late-data"):
        found = recorded(family, share=0.8)
        steps = columns(found.truth["steps"])
        events = [event["step"] for event in found.truth["events"].to_pylist()]
        paused = np.isin(steps["step"], events) & steps["complete"]
        assert paused.any()
        assert steps["duration_s"][paused].min() > 1.1 * np.median(steps["duration_s"])


def test_conditions_change_records_and_never_the_truth() -> None:
    clean = recorded("ddp-bucketed")
    for name, observation in CONDITIONS.items():
        found = recorded("ddp-bucketed", observation=observation)
        assert found.truth["gpu_steps"].equals(clean.truth["gpu_steps"]), name
        assert found.truth["groups"].equals(clean.truth["groups"]), name
        assert found.flows.equals(clean.flows) == (name == "clean"), name


def test_losses_and_repeats_are_as_many_as_asked() -> None:
    clean = recorded("storage-hub").flows.num_rows
    lossy = recorded("storage-hub", observation=CONDITIONS["loss-2%"])
    assert lossy.summary["counts"]["lost"] == pytest.approx(0.02 * clean, rel=0.25)
    assert lossy.flows.num_rows == clean - lossy.summary["counts"]["lost"]
    twice = recorded("storage-hub", observation=CONDITIONS["duplicates"])
    assert twice.flows.num_rows == clean + twice.summary["counts"]["duplicates"]
    assert twice.flows.group_by(twice.flows.column_names).aggregate([]).num_rows == clean


def test_lost_packets_take_neighbours_of_one_exporter_along() -> None:
    clean = recorded("storage-hub").flows
    kept = recorded("storage-hub", observation=Observation(loss=0.2, loss_packet=24)).flows
    exporter = clean["sampler_address"][0].as_py()
    before, after = (
        table.filter(pc.equal(table["sampler_address"], exporter))["time_flow_start_ns"].to_numpy()
        for table in (clean, kept)
    )
    gone = np.flatnonzero(~np.isin(before, after))
    assert 24 <= len(gone) < 0.5 * len(before)
    assert (np.diff(gone) == 1).mean() > 0.8


def test_cut_records_add_up_and_none_is_longer_than_the_timeout() -> None:
    clean, found = (recorded("storage-hub", observation=CONDITIONS[c]) for c in ("clean", "active-timeout"))
    flows = columns(found.flows)
    assert found.flows.num_rows > clean.flows.num_rows
    assert (flows["time_flow_end_ns"] - flows["time_flow_start_ns"]).max() <= 5_000_000
    assert flows["bytes"].sum() == pytest.approx(int(pc.sum(clean.flows["bytes"]).as_py()), rel=1e-6)


def test_coarse_leaves_merge_what_others_do_not() -> None:
    halves = Observation(coarse_leaves=0.5, coarse_idle_timeout_s=15.0)
    clean, found = (recorded("ddp-fused", observation=seen) for seen in (Observation(), halves))
    records = {
        name: Counter(sampler for sampler in one.flows["sampler_address"].to_pylist())
        for name, one in (("clean", clean), ("found", found))
    }
    leaves = sorted(records["clean"], key=ip_address)
    fine, coarse = leaves[: len(leaves) // 2], leaves[len(leaves) // 2 :]
    assert all(records["found"][leaf] == records["clean"][leaf] for leaf in fine)
    assert all(records["found"][leaf] < records["clean"][leaf] / 10 for leaf in coarse)
    assert sum(found.flows["packets"].to_pylist()) == sum(clean.flows["packets"].to_pylist())


def test_idle_timeout_merges_what_follows_at_once() -> None:
    clean, found = (recorded("ddp-bucketed", observation=CONDITIONS[c]) for c in ("clean", "idle-timeout-5ms"))
    assert found.flows.num_rows < clean.flows.num_rows
    assert pc.sum(found.flows["bytes"]) == pc.sum(clean.flows["bytes"])
    flows = columns(found.flows)
    key = np.char.add(flows["src_addr"].astype(str), flows["dst_addr"].astype(str))
    order = np.lexsort((flows["time_flow_start_ns"], flows["src_port"], key))
    same = (key[order][1:] == key[order][:-1]) & (np.diff(flows["src_port"][order].astype(int)) == 0)
    gap = flows["time_flow_start_ns"][order][1:] - flows["time_flow_end_ns"][order][:-1]
    assert gap[same].min() > 5_000_000


def test_every_switch_on_the_way_reports_with_its_own_clock() -> None:
    found = recorded("fragmented", observation=CONDITIONS["bad-exporter-200ms"])
    paths = found.flows["path"].to_pylist()
    sampler = found.flows["sampler_address"].to_pylist()
    assert all(exporter in path for exporter, path in zip(sampler, paths, strict=True))
    assert {len(path) for path in paths} == {1, 3}
    skews = found.summary["exporter_skew_s"]
    bad = found.summary["bad_exporter"]
    assert skews[bad] == 0.2
    assert max(abs(offset) for name, offset in skews.items() if name != bad) <= 0.002


def test_sampled_records_are_scaled_up_inside_their_flows() -> None:
    clean, found = (recorded("ddp-fused", observation=CONDITIONS[c]) for c in ("clean", "sampling-1:100"))
    assert set(found.flows["sampling_rate"].to_pylist()) == {100}
    assert (found.flows["packets"].to_numpy() % 100 == 0).all()
    total, scaled = (pc.sum(table["bytes"]).as_py() for table in (clean.flows, found.flows))
    assert scaled == pytest.approx(total, rel=0.02)


def test_tcp_looks_like_tcp() -> None:
    found = recorded("pipeline-1f1b", observation=CONDITIONS["tcp"])
    flows = columns(found.flows)
    assert set(flows["proto"]) == {6}
    payload = flows["bytes"].astype(np.int64) - 52 * flows["packets"].astype(np.int64)
    assert (payload == 0).mean() > 0.38
    sizes, counts = np.unique(payload[payload > 0], return_counts=True)
    activation = flows["bytes"][payload == sizes[np.argmax(counts)]]
    assert len(np.unique(activation)) > 50
    assert np.std(activation.astype(float)) / np.mean(activation) < 0.02


def test_some_pairs_carry_acknowledgements_only() -> None:
    found = recorded("ddp-fused", observation=CONDITIONS["acknowledgements"])
    pairs = found.truth["pairs"].to_pylist()
    alone = [pair for pair in pairs if pair["ack_only"]]
    assert len(alone) == len(pairs) // 2
    assert max(pair["bytes"] for pair in alone) < 0.01 * min(p["bytes"] for p in pairs if not p["ack_only"])
