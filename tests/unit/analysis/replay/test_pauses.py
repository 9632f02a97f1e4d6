"""A pause in one operation, and a GPU that is slow in all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.replay.draft import INPUT, OWN
from prism_ch.analysis.replay.graph import ExecutionGraph
from prism_ch.analysis.replay.pauses import shown_of, with_pauses
from prism_ch.analysis.replay.what_if import ReplayedAttempt
from prism_ch.model.columns import Float64
from prism_ch.model.finding import Shown
from prism_ch.simulate.families import FAMILIES
from tests.unit.analysis.build import finding
from tests.unit.analysis.replay.simulated import PARAMS, attempts, graph

STEP = 6


def computing(built: ExecutionGraph) -> tuple[list[int], Float64]:
    """Return the edges of what the unit of the first rank computes, and how long they take in the step."""
    mine = np.isin(built.kind, (OWN, INPUT)) & (built.owner == built.unit[0])
    edges = np.flatnonzero(mine & (np.median(built.lag, axis=1) > 0))
    return edges.tolist(), built.lag[edges, STEP]


def shown(built: ExecutionGraph, took_ns: Float64, others: int = 16) -> Shown:
    """Return what a step shows if the unit's operations took so long in it, beside so many other known ones."""
    edges, _ = computing(built)
    lag = built.lag.copy()
    lag[edges, STEP] = took_ns
    known = np.flatnonzero(built.known)
    seen = np.isin(np.arange(built.steps), [STEP, *known[known != STEP][:others]])
    changed = replace(built, lag=lag, known=seen)
    return shown_of(changed, changed.unit[:1].astype(np.int64), STEP, 0.0, PARAMS.replay)


@pytest.fixture(scope="module")
def pipeline() -> ExecutionGraph:
    return graph(replace(FAMILIES["pipeline-1f1b"](3), phases=False))


def test_slow_gpu_takes_longer_for_all_of_its_operations(pipeline: ExecutionGraph) -> None:
    _, took_ns = computing(pipeline)
    assert shown(pipeline, took_ns * 1.3) == "slow"
    assert shown(pipeline, took_ns * 1.3, others=15) == "either"


def test_steps_in_which_anybody_varies_as_much_show_no_slow_gpu(pipeline: ExecutionGraph) -> None:
    edges, took_ns = computing(pipeline)
    other = int(pipeline.unit[pipeline.unit != pipeline.unit[0]][0])
    theirs = np.flatnonzero(np.isin(pipeline.kind, (OWN, INPUT)) & (pipeline.owner == other))
    lag = pipeline.lag.copy()
    lag[edges, STEP] = took_ns * 1.3
    units = np.array([pipeline.unit[0], other], dtype=np.int64)
    assert shown_of(replace(pipeline, lag=lag), units, STEP, 0.0, PARAMS.replay) == "slow"
    lag[theirs, STEP + 3] *= 1.2
    assert shown_of(replace(pipeline, lag=lag), units, STEP, 0.0, PARAMS.replay) == "either"


@pytest.mark.parametrize("operation", [0, 3, -1])
def test_one_operation_that_takes_longer_is_a_pause(pipeline: ExecutionGraph, operation: int) -> None:
    _, took_ns = computing(pipeline)
    took_ns = took_ns.copy()
    took_ns[operation] += 0.3 * took_ns.sum()
    assert shown(pipeline, took_ns) == "pause"
    assert shown(pipeline, took_ns, others=PARAMS.replay.reference_steps - 1) == "nothing"


@pytest.mark.parametrize("times, shown", [((1.3, 1.3), "slow"), ((1.0, 4.0), "pause"), ((1.0, 1.0), "nothing")])
def test_a_step_nobody_is_named_for_shows_who_took_longest(times: tuple[float, float], shown: Shown) -> None:
    scenario = replace(FAMILIES["ddp-bucketed"](3), phases=False)
    built = graph(scenario)
    edges, took_ns = computing(built)
    lag = built.lag.copy()
    lag[edges, STEP] = took_ns * times[0]
    lag[edges[0], STEP] = took_ns[0] * times[1]
    replayed = ReplayedAttempt.of(attempts(scenario)[0], replace(built, lag=lag))
    step = replayed.first_step + STEP
    slow = finding(kind="slow_step", subject_type="job", subject=replayed.job_id, first_step=step, last_step=step)
    slow = replace(slow, observed=slow.expected + 0.3 * took_ns[0] / 1e9)
    assert [one.shown for one in with_pauses([slow], [replayed])] == [shown]


def test_operations_that_send_nothing_hide_no_pause() -> None:
    """They are taken to be as slow as the others of a step on the whole, which a pause makes slow."""
    built = graph(replace(FAMILIES["pipeline-gpipe"](3), phases=False))
    edges, took_ns = computing(built)
    hidden = np.ptp(built.lag[edges][:, built.known] / built.speed[built.unit[0], built.known], axis=1) < 3
    assert hidden.sum() > (~hidden).sum()
    took_ns = np.where(hidden, 1.5 * took_ns, took_ns)
    took_ns[np.flatnonzero(~hidden)[3]] += 0.5 * took_ns[~hidden].sum()
    speed = built.speed.copy()
    speed[built.unit[0], STEP] *= 1.5
    assert shown(replace(built, speed=speed), took_ns) == "pause"


def test_operations_that_are_measured_together_count_as_one(pipeline: ExecutionGraph) -> None:
    """As what a rank of ZeRO-2 computes of each shard: most of its operations, and no longer for a slow GPU."""
    edges, _ = computing(pipeline)
    lag = pipeline.lag.copy()
    lag[edges[4:]] = lag[edges[3]]
    built = replace(pipeline, lag=lag)
    assert len(edges) > 8
    assert shown(built, lag[edges, STEP] * np.where(np.arange(len(edges)) < 3, 1.3, 1.0)) == "slow"


def test_whose_step_is_one_operation_is_not_told_apart() -> None:
    built = graph(replace(FAMILIES["ddp-fused"](3), phases=False))
    edges, took_ns = computing(built)
    assert len(edges) == 1
    assert shown(built, took_ns * 1.5) == "either"
