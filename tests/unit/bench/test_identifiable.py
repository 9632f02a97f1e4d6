"""Whom the records of a job can't tell from a culprit."""

import pytest

from bench.accuracy.faults.identifiable import alike, computes_in_one_go, pairs_across
from prism_ch.simulate.job import Attempt, Compute, Fault, FaultKind, GradientSync, InnerTraffic, Job, Layout
from prism_ch.simulate.scenario import Cluster, Observation, Scenario


def job_of(layout: Layout, number: int = 0, first: int = 0, **fields: object) -> Job:
    gpus = tuple(range(first, first + layout.gpus))
    return Job(
        job_id=f"job-{number}",
        tenant=f"tenant-{number}",
        layout=layout,
        compute=Compute(forward_s=0.1),
        attempts=(Attempt(gpus=gpus),),
        **fields,  # type: ignore[arg-type]
    )


def run(  # noqa: PLR0913 (a fault, a cluster and a job in one call)
    layout: Layout,
    kind: FaultKind,
    gpu: int = 8,
    peer: int = -1,
    *,
    servers: int = 4,
    eager: bool = True,
    experts: InnerTraffic | None = None,
    path: bool = False,
    spine: int = -1,
) -> frozenset[str]:
    """Return who leaves the same records as a culprit in a job on servers of two pods."""
    job = job_of(layout, sync=GradientSync(eager=eager), experts=experts)
    fault = Fault(kind=kind, gpu=gpu, peer=peer, spine=spine, factor=1.5 if kind in ("slow_gpu", "slow_stage") else 0.5)
    cluster = Cluster(servers=servers, pod_servers=servers // 2)
    return alike(described(cluster, (job,), fault, path=path), fault)


def described(cluster: Cluster, jobs: tuple[Job, ...], fault: Fault, *, path: bool = False) -> Scenario:
    observation = Observation(path=path)
    return Scenario(name="n", cluster=cluster, jobs=jobs, duration_s=60.0, faults=(fault,), observation=observation)


REPLICAS, PIPELINE = Layout(tp=8, dp=4), Layout(tp=8, pp=8)
OF_SERVER_1 = {f"10.{16 + rail}.0.2" for rail in range(8)}


@pytest.mark.parametrize(
    "layout, servers, eager, count",
    [
        (REPLICAS, 4, True, 8),
        (REPLICAS, 4, False, 32),  # all flows begin when the last rank is there
        (Layout(tp=8, dp=2), 2, True, 16),  # every flow is of both servers
        (PIPELINE, 8, False, 8),
    ],
)
def test_gpu_is_told_by_messages_that_wait_for_it_alone(layout: Layout, servers: int, eager: bool, count: int) -> None:
    found = run(layout, "slow_gpu", servers=servers, eager=eager)
    assert found >= OF_SERVER_1
    assert len(found) == count


def test_gpus_of_one_server_are_told_apart_by_tensor_group() -> None:
    assert run(Layout(tp=4, dp=8), "slow_gpu") == {f"10.{rail}.0.2" for rail in range(16, 20)}


def test_stage_that_sends_nothing_out_is_shown_by_its_server() -> None:
    """Of four stages on two servers, the first sends to the second inside; only that one is seen."""
    assert run(Layout(tp=4, pp=4), "slow_gpu", gpu=0, servers=2) == {f"10.{rail}.0.1" for rail in range(20, 24)}


def test_stage_inside_a_server_shows_in_those_that_send_out() -> None:
    inner = Layout(tp=4, pp=4)
    sends_out = run(inner, "slow_stage", gpu=8, servers=2)
    assert sends_out == {f"10.{16 + rail}.0.2" for rail in range(4)}
    assert run(inner, "slow_stage", gpu=14, servers=2) == sends_out


@pytest.mark.parametrize("rail_aligned", [False, True])
def test_rank_of_an_inner_exchange_is_told_by_its_flows(rail_aligned: bool) -> None:
    experts = InnerTraffic(payload_bytes=1 << 20, rail_aligned=rail_aligned)
    found = run(Layout(tp=4, pp=2, dp=4, ep=4), "slow_gpu", experts=experts)
    assert found == {f"10.{rail}.0.2" for rail in range(16, 20)}


@pytest.mark.parametrize(
    "layout, kind, peer, culprit, single",
    [
        (REPLICAS, "slow_nic", -1, "10.16.0.2", False),  # a ring is as slow as its slowest link
        (REPLICAS, "slow_link", 16, "10.16.0.2->10.16.0.3", False),
        (PIPELINE, "slow_nic", -1, "10.16.0.2", True),
        (PIPELINE, "slow_link", 16, "10.16.0.2->10.16.0.3", True),
        (PIPELINE, "slow_switch", -1, "172.16.0.1", True),
        (Layout(tp=8, pp=2), "slow_nic", -1, "10.16.0.2", False),  # both ends carry the same messages
        (Layout(tp=8, pp=2, dp=2), "slow_switch", -1, "172.16.0.1", True),
        (Layout(tp=8, pp=4), "slow_switch", -1, "172.16.0.1", False),  # its messages are those of the NIC in its middle
    ],
)
def test_path_is_told_by_messages_that_cross_it_alone(
    layout: Layout, kind: FaultKind, peer: int, culprit: str, single: bool
) -> None:
    found = run(layout, kind, peer=peer, servers=layout.gpus // 8)
    assert culprit in found
    assert (found == {culprit}) is single


def test_all_of_a_ring_are_alike() -> None:
    nics = {f"10.16.0.{server}" for server in range(1, 5)}
    links = {f"10.16.0.{a}->10.16.0.{b}" for a, b in ((1, 2), (2, 3), (3, 4), (4, 1))}
    assert run(REPLICAS, "slow_nic") == nics | links | {"172.16.0.1", "172.16.0.9"}


def test_pairs_across_a_spine_are_those_between_its_pods() -> None:
    cluster, fault = Cluster(servers=8, pod_servers=4), Fault(kind="slow_spine", gpu=0, spine=1, factor=0.5)
    job = job_of(PIPELINE, sync=GradientSync(eager=False))
    pairs = pairs_across(described(cluster, (job,), fault), fault)
    assert pairs
    assert all({int(end.rsplit(".", 1)[1]) <= 4 for end in pair.split("->")} == {True, False} for pair in pairs)


def test_spines_and_uplinks_are_told_where_records_have_ways() -> None:
    assert run(PIPELINE, "slow_spine", servers=8, path=True, spine=1) == {"172.31.0.2"}
    assert run(PIPELINE, "slow_uplink", gpu=24, servers=8, path=True, spine=1) == {"172.16.0.1->172.31.0.2"}
    assert not any("172.31" in one for one in run(REPLICAS, "slow_nic"))
    assert any("172.31" in one for one in run(REPLICAS, "slow_nic", path=True))


def test_leaf_under_two_jobs_is_told_by_both() -> None:
    layout = Layout(tp=8, pp=2)
    one, two = job_of(layout), job_of(layout, 1, 16)
    fault = Fault(kind="slow_switch", gpu=0, factor=0.5)
    cluster = Cluster(servers=4, pod_servers=4)
    assert len(alike(described(cluster, (one,), fault), fault)) == 3
    assert alike(described(cluster, (one, two), fault), fault) == {"172.16.0.1"}


@pytest.mark.parametrize(
    "layout, sync, identified",
    [
        (REPLICAS, GradientSync(buckets=4), True),
        (REPLICAS, GradientSync(mode="distributed_optimizer"), True),
        (REPLICAS, GradientSync(buckets=4, overlap=True), False),  # buckets are reduced while gradients are computed
        (REPLICAS, GradientSync(mode="zero2"), False),
        (Layout(tp=8, pp=2, dp=2), GradientSync(), False),
    ],
)
def test_compute_in_one_go_if_only_gradients_move_at_the_end(
    layout: Layout, sync: GradientSync, identified: bool
) -> None:
    job = job_of(layout, sync=sync)
    assert (
        computes_in_one_go(Scenario(name="n", cluster=Cluster(servers=4), jobs=(job,), duration_s=60.0)) is identified
    )
