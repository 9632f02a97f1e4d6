from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.accuracy.faults.cases import Case
from bench.accuracy.replay import faulty
from prism_ch.analysis.replay.attempts import graph_of
from prism_ch.analysis.replay.causes import balanced, find_cause, slower, without
from prism_ch.analysis.replay.draft import INPUT, OWN
from prism_ch.analysis.replay.graph import ExecutionGraph
from prism_ch.analysis.replay.replay import replay
from prism_ch.model.columns import Bool, Float64
from prism_ch.simulate import Scenario
from prism_ch.simulate.families import FAMILIES
from prism_ch.simulate.job import Fault
from prism_ch.simulate.network import Network
from tests.sweeps import swept
from tests.unit.analysis.replay.simulated import PARAMS, attempts, graph

FAMILIES_SEEN = (
    "distributed-optimizer-overlap",
    "zero3",
    "pipeline-interleaved",
    "pipeline-zero-bubble",
    "tensor-across-servers",
    "experts",
    "context-ring",
    "production",
    *swept(
        "ddp-fused",
        "ddp-bucketed",
        "zero2",
        "pipeline-gpipe",
        "pipeline-1f1b",
        "pipeline-without-replicas",
        "four-nics",
        "evaluation",
        "production-staggered",
    ),
)
SWEEPS = PARAMS.replay.sweeps


def scenario(family: str, fault: Fault | None = None, seed: int = 3) -> Scenario:
    drawn = FAMILIES[family](seed)
    return replace(drawn, phases=False, faults=() if fault is None else (fault,))


def test_messages_within_a_stage_are_left_out() -> None:
    """Where two stages are taken for one, nothing tells what their messages are for."""
    [seen] = attempts(scenario("pipeline-interleaved"))
    groups = seen.attempt.groups
    merged = replace(groups, pp_stage=groups.pp_stage // 2)
    built = graph_of(replace(seen, attempt=replace(seen.attempt, groups=merged)))
    assert built is not None
    assert built.pairs.shape == graph(scenario("pipeline-interleaved")).pairs.shape


def moving(built: ExecutionGraph, *rows: int) -> Bool:
    mask: Bool = np.zeros(len(built.endpoints), dtype=np.bool_)
    mask[list(rows)] = True
    return mask


def times(built: ExecutionGraph, lag: Float64) -> Float64:
    return replay(built, lag, SWEEPS).duration_ns


@pytest.mark.parametrize("family", FAMILIES_SEEN)
def test_unmodified_replay_equals_measured_to_the_ns(family: str) -> None:
    built = graph(scenario(family))
    [attempt] = attempts(scenario(family))
    measured = np.diff(attempt.attempt.division.job_end_ns())
    again = replay(built, built.lag, SWEEPS)
    assert built.known.mean() > 0.8
    assert (again.duration_ns[built.known] == measured[built.known]).all()
    assert (again.at[:, built.known] == built.at[:, built.known]).all()


@pytest.mark.parametrize(
    "family", ["pipeline-1f1b", "pipeline-zero-bubble", *swept("distributed-optimizer-overlap", "zero3")]
)
def test_slower_unit_never_shortens_a_step(family: str) -> None:
    built = graph(scenario(family))
    everywhere = np.ones(built.steps, dtype=np.bool_)
    before = times(built, built.lag)
    for row in range(0, len(built.endpoints), 7):
        cause = find_cause(built, [row], moving(built, row))
        cause_lags = np.where(built.lag < 0, 1.0, 1.3)  # a negative lag is a clock's, and grows towards none
        lag = np.where(slower(built, cause, everywhere, 1.3) != built.lag, built.lag * cause_lags, built.lag)
        assert (times(built, lag) >= before).all()


def test_step_without_slow_gpu_lasts_as_if_healthy() -> None:
    fault = Fault(kind="slow_gpu", gpu=21, factor=1.5)
    slow, healthy = graph(scenario("pipeline-1f1b", fault)), graph(scenario("pipeline-1f1b"))
    [attempt] = attempts(scenario("pipeline-1f1b", fault))
    address = str(Network(scenario("pipeline-1f1b").cluster).addresses[fault.gpu])
    row = attempt.topology.endpoints.index(address)
    everywhere = np.ones(slow.steps, dtype=np.bool_)
    lag = without(slow, find_cause(slow, [row], moving(slow)), everywhere, PARAMS.replay)
    steps = min(slow.steps, healthy.steps)
    actual = np.median(times(slow, slow.lag)) / np.median(times(healthy, healthy.lag))
    error = times(slow, lag)[:steps] / times(healthy, healthy.lag)[:steps] - 1
    assert actual > 1.1
    assert np.median(np.abs(error)) < 0.01


@pytest.mark.parametrize("family", ["production", "production-staggered"])
def test_taking_a_gpu_out_leaves_uneven_microbatches(family: str) -> None:
    """All stages wait for the last one before the norm of gradients, and long sequences are nobody's fault."""
    fault = Fault(kind="slow_gpu", gpu=21, factor=1.6, first_step=8, last_step=22)
    slow, healthy = graph(scenario(family, fault, 4)), graph(scenario(family, seed=4))
    [attempt] = attempts(scenario(family, fault, 4))
    row = attempt.topology.endpoints.index(str(Network(scenario(family, seed=4).cluster).addresses[fault.gpu]))
    count = min(slow.steps, healthy.steps)
    steps = np.arange(slow.steps) < 0
    steps[:count] = times(slow, slow.lag)[:count] > 1.001 * times(healthy, healthy.lag)[:count]
    would = times(slow, without(slow, find_cause(slow, [row], moving(slow)), steps, PARAMS.replay))
    assert np.count_nonzero(steps) >= 5
    assert np.quantile(np.abs(would[:count] / times(healthy, healthy.lag)[:count] - 1), 0.95) < 0.01


def test_healthy_unit_taken_out_saves_little() -> None:
    built = graph(scenario("pipeline-1f1b"))
    everywhere = np.ones(built.steps, dtype=np.bool_)
    lag = without(built, find_cause(built, [5], moving(built, 5)), everywhere, PARAMS.replay)
    saved = 1 - times(built, lag) / times(built, built.lag)
    assert (saved >= 0).all()
    assert np.median(saved) < 0.01


def test_balanced_stages_shorten_uneven_pipeline() -> None:
    drawn = scenario("pipeline-1f1b")
    job = drawn.jobs[0]
    compute = replace(job.compute, stage_weights=(1.0, 1.0, 1.6, 1.0))
    uneven = graph(replace(drawn, jobs=(replace(job, compute=compute),)))
    even = graph(drawn)
    shortened = np.median(times(uneven, balanced(uneven))) / np.median(times(uneven, uneven.lag))
    assert shortened < 0.9
    assert np.median(times(even, balanced(even)) / times(even, even.lag)) == pytest.approx(1, abs=0.02)


def test_computing_edges_belong_to_units() -> None:
    built = graph(scenario("pipeline-1f1b"))
    computes = np.isin(built.kind, (OWN, INPUT))
    assert set(built.owner[computes].tolist()) == set(range(len(built.role)))
    assert len(built.role) == len(built.endpoints) // 4  # tensor groups of four end their operations together


@pytest.mark.parametrize("family", ["distributed-optimizer", *swept("zero3")])
def test_waiting_that_shows_as_computing_is_the_causes_too(family: str) -> None:
    fault = Fault(kind="slow_gpu", gpu=21, factor=1.5, first_step=10, last_step=16)
    slow, healthy = graph(scenario(family, fault)), graph(scenario(family))
    [attempt] = attempts(scenario(family, fault))
    address = str(Network(scenario(family).cluster).addresses[fault.gpu])
    usual = np.median(times(healthy, healthy.lag))
    steps = times(slow, slow.lag) > 1.1 * usual
    cause = find_cause(slow, [attempt.topology.endpoints.index(address)], moving(slow))
    would = times(slow, without(slow, cause, steps, PARAMS.replay))
    assert np.count_nonzero(steps) >= 5
    assert np.abs(would[steps] / usual - 1).max() < 0.03


def test_computing_beside_rounds_stays_where_it_was() -> None:
    """ZeRO-2 reduces gradients while backward passes go on: a quicker link does not bring these forward."""
    errors = faulty(Case("slow_link", 0.4, 84307))
    assert len(errors.counterfactual) == 6
    assert max(errors.counterfactual) < 0.02


def test_step_ends_with_its_last_message_before_computing_does() -> None:
    """Replicas inside servers show no rounds, and a slow first stage still computes when the next step has begun."""
    errors = faulty(Case("slow_gpu", 2.5, 87302))
    assert len(errors.counterfactual) == 8
    assert max(errors.counterfactual) < 0.02
