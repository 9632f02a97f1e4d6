"""Uneven stages: a stage that works longer in every step is the shape of a job, said once and never a fault."""

from __future__ import annotations

import numpy as np
import pytest

from prism_ch.analysis.diagnose.compute.compute_time import ComputeTime
from prism_ch.analysis.diagnose.compute.peers import compare
from prism_ch.analysis.diagnose.findings import Place
from prism_ch.analysis.diagnose.uneven_stages import find_uneven_stages
from prism_ch.model.finding import Finding
from prism_ch.model.params import DiagnoseParams
from tests.unit.analysis.build import division, every

PARAMS = DiagnoseParams()
PLACE = Place("job", 0, PARAMS)
STEPS = 20


def work(*lengths_s: float, late: bool = False) -> ComputeTime:
    """Two replicas of a pipeline whose stages work so long in a step, the last one perhaps in later steps only."""
    seconds = np.repeat(np.array(lengths_s), 2)[:, None] * np.random.default_rng(1).normal(1, 0.01, (1, STEPS))
    if late:
        seconds[-2:, : STEPS // 2] = seconds[-4:-2, : STEPS // 2]
    seconds[:, 0] = np.nan
    rows = np.arange(len(seconds), dtype=np.int32)
    turn_s = seconds.copy()
    turn_s[:2] = np.nan
    return ComputeTime(rows, rows // 2, seconds, rows, rows, absolute=True, turn_s=turn_s)


def found(measured: ComputeTime, going: Finding | None = None) -> tuple[Finding, ...]:
    divided = division(measured.endpoints.tolist(), every(1000, STEPS, 1000))
    return find_uneven_stages((measured,), divided, going, PLACE)


def test_a_last_stage_that_is_always_longer_is_the_jobs_shape() -> None:
    (one,) = found(work(0.4, 0.4, 0.4, 0.6))
    assert (one.kind, one.subject_type, one.severity, one.status) == ("imbalance", "job", "info", "open")
    assert [one.observed, one.expected, one.slowdown] == pytest.approx([0.6, 0.4, 0.2], rel=0.02)
    assert one.summary.startswith("Pipeline stage 3 works up to 1.5 times as long as the others in every step")
    assert one.evidence["pp_stages"] == [3]


def test_it_is_no_slow_gpu() -> None:
    measured = work(0.4, 0.4, 0.4, 0.6)
    divided = division(measured.endpoints.tolist(), every(1000, STEPS, 1000))
    assert not any(compared.score.any() for compared in compare((measured,), divided, {}, PARAMS.work))


@pytest.mark.parametrize(
    "measured",
    [
        work(0.4, 0.4, 0.4, 0.44),
        work(0.4, 0.4, 0.4, 0.6, late=True),
        work(0.4, 0.6),
        work(0.004, 0.004, 0.004, 0.006),
        work(0.4, 0.4, 0.4, 0.0),
        work(0.4, 0.0, 0.0, 0.4),
    ],
    ids=["little", "later", "two stages", "no share of the step", "a stage without work", "most without work"],
)
def test_nothing_is_said_of(measured: ComputeTime) -> None:
    assert found(measured) == ()


def test_what_is_known_may_come_a_little_nearer_to_the_others() -> None:
    (going,) = found(work(0.4, 0.4, 0.4, 0.6))
    nearer = work(0.4, 0.4, 0.4, 0.46)
    assert found(nearer) == ()
    assert [one.diagnosis_id for one in found(nearer, going)] == [going.diagnosis_id]
