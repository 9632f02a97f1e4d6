"""Weight gradients that fill what would be bubbles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from bench.accuracy.replay import healthy
from prism_ch.analysis.replay import graph as graphs
from prism_ch.analysis.replay.chains import Chain
from prism_ch.analysis.replay.split_backward import with_weights
from prism_ch.model.columns import Float64
from prism_ch.model.params import ReplayParams
from prism_ch.simulate import Scenario, schedule
from prism_ch.simulate.families import FAMILIES
from prism_ch.simulate.job import Fault
from prism_ch.simulate.network import Network
from prism_ch.simulate.schedule import BACKWARD, FORWARD, WEIGHT, Operation
from tests.unit.analysis.replay.simulated import attempts, graph


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[list[Chain] | None]:
    """What is found to be split in graphs that are built."""
    seen: list[list[Chain] | None] = []

    def spy(chains: Sequence[Chain], until: Float64, params: ReplayParams) -> list[Chain] | None:
        seen.append(with_weights(chains, until, params))
        return seen[-1]

    monkeypatch.setattr(graphs, "with_weights", spy)
    return seen


def scenario(family: str, *faults: Fault) -> Scenario:
    return replace(FAMILIES[family](3), phases=False, faults=faults)


def unseen(chain: Chain) -> list[tuple[int, float]]:
    """Return inputs and lengths of what a stage computes for nobody."""
    return [(len(one.inputs), one.takes) for one in chain.outputs if one.takes]


def by_hand(stages: int, microbatches: int) -> list[list[Operation]]:
    """Order ZB-H1 as its authors do: stages further on keep more weight gradients back (Qi et al. 2024, figure 3)."""
    orders = []
    for stage in range(stages):
        warm_up, order, done = min(stages - stage - 1, microbatches), list[Operation](), 0
        order += [Operation(stage, FORWARD, m) for m in range(warm_up)]
        for m in range(microbatches):
            if warm_up + m < microbatches:
                order.append(Operation(stage, FORWARD, warm_up + m))
            order.append(Operation(stage, BACKWARD, m))
            if m >= stage:
                order.append(Operation(stage, WEIGHT, done))
                done += 1
        orders.append(order + [Operation(stage, WEIGHT, m) for m in range(done, microbatches)])
    return orders


@pytest.mark.parametrize("family", ["pipeline-1f1b", "pipeline-gpipe", "pipeline-interleaved", "experts", "late-data"])
def test_backwards_that_are_whole_are_left_alone(family: str, found: list[list[Chain] | None]) -> None:
    graph(scenario(family))
    assert found == [None]


def test_one_microbatch_shows_no_weight_gradient(found: list[list[Chain] | None]) -> None:
    drawn = scenario("pipeline-1f1b")
    one = replace(drawn.jobs[0], pipeline=replace(drawn.jobs[0].pipeline, microbatches=1))
    graph(replace(drawn, jobs=(one,)))
    assert found == [None]


def test_a_weight_gradient_follows_each_backward(found: list[list[Chain] | None]) -> None:
    drawn = scenario("pipeline-zero-bubble")
    graph(drawn)
    [chains] = found
    assert chains is not None
    compute, microbatches = drawn.jobs[0].compute, drawn.jobs[0].pipeline.microbatches
    takes_ns = compute.forward_s * compute.backward_ratio / 2 * 1e9
    for chain in chains[1:]:
        tail = sum(takes for _, takes in unseen(chain)) / takes_ns
        assert tail == pytest.approx(microbatches - (2 if chain is chains[-1] else 1), abs=0.2)
        assert all(inputs == 0 for inputs, _ in unseen(chain))
    backwards = [takes for inputs, takes in unseen(chains[0]) if inputs]
    assert len(backwards) == microbatches - 1
    assert backwards == pytest.approx([takes_ns] * len(backwards), rel=0.03)


def test_idle_time_is_right_where_weight_gradients_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "_zero_bubble", by_hand)
    errors = healthy("pipeline-zero-bubble", 3)
    assert len(errors.idle) > 100
    assert np.quantile(errors.idle, 0.95) < 0.01


def test_slow_gpu_is_as_slow_as_it_is_beside_weight_gradients() -> None:
    fault = Fault(kind="slow_gpu", gpu=21, factor=1.5)
    drawn = scenario("pipeline-zero-bubble", fault)
    built = graph(drawn)
    [attempt] = attempts(drawn)
    row = attempt.topology.endpoints.index(str(Network(drawn.cluster).addresses[fault.gpu]))
    unit = built.unit[np.flatnonzero(built.endpoints == row)[0]]
    slow = np.arange(len(built.role)) == unit
    assert np.median(built.speed[slow]) == pytest.approx(1.5, abs=0.03)
    assert np.median(built.speed[~slow], axis=1) == pytest.approx(1.0, abs=0.05)
