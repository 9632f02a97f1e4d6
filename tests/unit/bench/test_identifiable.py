"""Which culprits the records of a job can identify."""

import pytest

from bench.accuracy.faults.identifiable import computes_in_one_go, is_identifiable
from prism_ch.simulate.job import Attempt, Compute, Fault, FaultKind, GradientSync, InnerTraffic, Job, Layout
from prism_ch.simulate.scenario import Cluster, Scenario


def run(
    layout: Layout,
    kind: FaultKind,
    gpu: int = 8,
    peer: int = -1,
    *,
    servers: int = 4,
    eager: bool = True,
    experts: InnerTraffic | None = None,
) -> bool:
    """Return whether records identify the culprit in a job on servers of two pods."""
    job = Job(
        job_id="job",
        tenant="tenant",
        layout=layout,
        compute=Compute(forward_s=0.1),
        attempts=(Attempt(gpus=tuple(range(layout.gpus))),),
        sync=GradientSync(eager=eager),
        experts=experts,
    )
    fault = Fault(kind=kind, gpu=gpu, peer=peer, factor=1.5 if kind == "slow_gpu" else 0.5)
    cluster = Cluster(servers=servers, pod_servers=servers // 2)
    return is_identifiable(Scenario(name="n", cluster=cluster, jobs=(job,), duration_s=60.0, faults=(fault,)), fault)


REPLICAS, PIPELINE = Layout(tp=8, dp=4), Layout(tp=8, pp=8)


@pytest.mark.parametrize(
    "layout, servers, eager, identified",
    [
        (REPLICAS, 4, True, True),
        (REPLICAS, 4, False, False),  # all flows begin when the last rank is there
        (Layout(tp=8, dp=2), 2, True, False),  # every flow is of both servers
        (PIPELINE, 8, False, True),
    ],
)
def test_gpu_is_identified_by_messages_that_wait_for_it_alone(
    layout: Layout, servers: int, eager: bool, identified: bool
) -> None:
    assert run(layout, "slow_gpu", servers=servers, eager=eager) is identified


@pytest.mark.parametrize("rail_aligned, identified", [(False, True), (True, False)])
def test_rank_of_an_inner_exchange_is_identified_by_its_flows(rail_aligned: bool, identified: bool) -> None:
    experts = InnerTraffic(payload_bytes=1 << 20, rail_aligned=rail_aligned)
    assert run(Layout(tp=4, pp=2, dp=4, ep=4), "slow_gpu", experts=experts) is identified
    assert run(Layout(tp=4, pp=2, dp=4), "slow_gpu")


@pytest.mark.parametrize(
    "layout, kind, peer, identified",
    [
        (REPLICAS, "slow_nic", -1, False),  # a ring is as slow as its slowest link
        (REPLICAS, "slow_link", 16, False),
        (PIPELINE, "slow_nic", -1, True),
        (PIPELINE, "slow_link", 16, True),
        (PIPELINE, "slow_switch", -1, True),
        (Layout(tp=8, pp=2), "slow_nic", -1, False),  # both ends carry the same messages
        (Layout(tp=8, pp=2, dp=2), "slow_switch", -1, True),
        (Layout(tp=8, pp=4), "slow_switch", -1, False),  # its messages are those of the NIC in its middle
    ],
)
def test_path_is_identified_by_messages_that_cross_it_alone(
    layout: Layout, kind: FaultKind, peer: int, identified: bool
) -> None:
    servers = layout.gpus // 8
    assert run(layout, kind, peer=peer, servers=servers) is identified


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
    attempt = Attempt(gpus=tuple(range(layout.gpus)))
    job = Job(job_id="j", tenant="t", layout=layout, compute=Compute(forward_s=0.1), attempts=(attempt,), sync=sync)
    assert (
        computes_in_one_go(Scenario(name="n", cluster=Cluster(servers=4), jobs=(job,), duration_s=60.0)) is identified
    )
