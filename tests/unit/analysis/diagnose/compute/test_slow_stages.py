"""Slow stages: all replicas of a pipeline stage work longer than before, and the other stages do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.accuracy.faults.stream import read_flows, read_topology
from prism_ch.analysis.diagnose.compute.compute_time import ComputeTime
from prism_ch.analysis.diagnose.compute.slow_stages import find_slow_stages, lengthens_steps
from prism_ch.analysis.diagnose.findings import Extent, Measured, Place, make_finding
from prism_ch.model.finding import Finding
from prism_ch.model.params import DiagnoseParams
from prism_ch.simulate import generate, textbook
from prism_ch.simulate.subjects import read_fault
from tests.unit.analysis.build import division, steps_of, topology
from tests.unit.chain import work


def found(factor: float, span: tuple[str, str], stage: int = 1, seed: int = 1) -> list[Finding]:
    """What is found where a stage of a job of TP 4 x PP 2 x DP 4 is slow for some seconds."""
    scenario = textbook(32, 4, 2, 4, step_s=1.0, duration_s=50, seed=seed)
    fault = read_fault(("slow_stage", f"job-00/stage/{stage}", str(factor), *span), scenario)
    made = generate(replace(scenario, faults=(fault,)))
    known = read_topology(made.topology)
    return list(work(read_flows(made.flows, known), known, 20).only.findings.values())


@pytest.mark.parametrize("stage, seed", [(0, 1), (1, 2)])
def test_a_slow_stage_is_named_and_slows_the_steps(stage: int, seed: int) -> None:
    group, step = sorted(found(1.33, ("20", "-"), stage, seed), key=lambda one: one.kind)
    assert (group.kind, group.subject_type) == ("slow_group", "stage")
    assert group.subject.endswith(f"/stage/{stage}")
    assert group.observed == pytest.approx(1.33 * group.expected, rel=0.05)
    assert abs(group.first_step - 21) <= 1
    assert (step.kind, step.cause and step.cause.subject) == ("slow_step", group.subject)


def test_a_stage_that_is_slow_from_the_first_step_is_no_fault() -> None:
    assert [one for one in found(1.33, ("0", "-")) if one.kind != "imbalance"] == []


@pytest.mark.parametrize(
    "first, second, slow", [(1.0, 1.33, {1}), (1.1, 1.5, {1}), (1.84, 2.1, set()), (1.3, 1.3, set())]
)
def test_stages_need_not_take_the_same_part_of_other_work(first: float, second: float, slow: set[int]) -> None:
    role = np.repeat(np.arange(2, dtype=np.int32), 4)
    seconds = np.random.default_rng(3).normal(1, 0.003, (8, 24))
    seconds[:, 12:] *= np.where(role == 0, first, second)[:, None]
    each = np.arange(8, dtype=np.int32)
    times = ComputeTime(each, role, seconds, each, each, absolute=True)
    ends_ms = np.cumsum(1000 * np.where(np.arange(24) < 12, 1.0, second)).astype(int)
    divided = division(range(8), ends_ms.tolist())
    stages = find_slow_stages((times,), divided, Place("job", 0, DiagnoseParams()), topology(8), {})
    assert {one.subject for one in stages} == {f"job/stage/{stage}" for stage in slow}


@pytest.mark.parametrize(
    "usual_s, slow_s, lengthens", [(1.0, 1.33, True), (1.0, 1.07, True), (1.33, 1.0, False), (1.0, 1.0, False)]
)
def test_a_stage_that_works_longer_makes_steps_longer(usual_s: float, slow_s: float, lengthens: bool) -> None:
    """Steps were slowed by something else before, and are as long as the first ones were."""
    steps = steps_of([*[min(usual_s, slow_s)] * 6, *[usual_s] * 8, *[slow_s] * 30])
    stage = make_finding(
        "slow_group", ("stage", "job/stage/1"), "1", Extent(14, 43, 0, 1), Measured(1.2, 0.9), "warning", "", {}
    )
    assert lengthens_steps(stage, steps, DiagnoseParams().compute) == lengthens
    assert lengthens_steps(stage, steps.take(steps.step >= 14), DiagnoseParams().compute)
