"""A pause in one operation, and a GPU that is slow in all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.replay.causes import find_cause
from prism_ch.analysis.replay.draft import INPUT, OWN
from prism_ch.analysis.replay.graph import ExecutionGraph
from prism_ch.analysis.replay.pauses import is_pause
from prism_ch.model.columns import Float64
from prism_ch.simulate.families import FAMILIES
from tests.unit.analysis.replay.simulated import PARAMS, graph

STEP = 6


def computing(built: ExecutionGraph) -> tuple[list[int], Float64]:
    """Return the edges of what the unit of the first rank computes, and how long they take in the step."""
    mine = np.isin(built.kind, (OWN, INPUT)) & (built.owner == built.unit[0])
    edges = np.flatnonzero(mine & (np.median(built.lag, axis=1) > 0))
    return edges.tolist(), built.lag[edges, STEP]


def paused(built: ExecutionGraph, took_ns: Float64, others: int = STEP) -> bool:
    """Return whether the unit paused if its operations took so long, of so many other steps known before."""
    edges, _ = computing(built)
    lag = built.lag.copy()
    lag[edges, STEP] = took_ns
    seen = built.known & (np.arange(built.steps) <= STEP) & (np.arange(built.steps) >= STEP - others)
    changed = replace(built, lag=lag, known=seen)
    nobody = np.zeros(len(built.endpoints), dtype=np.bool_)
    return is_pause(changed, find_cause(changed, [0], nobody), STEP, PARAMS.replay)


@pytest.fixture(scope="module")
def pipeline() -> ExecutionGraph:
    return graph(replace(FAMILIES["pipeline-1f1b"](3), phases=False))


def test_slow_gpu_takes_longer_for_all_of_its_operations(pipeline: ExecutionGraph) -> None:
    _, took_ns = computing(pipeline)
    assert not paused(pipeline, took_ns * 1.3)


@pytest.mark.parametrize("operation", [0, 3, -1])
def test_one_operation_that_takes_longer_is_a_pause(pipeline: ExecutionGraph, operation: int) -> None:
    _, took_ns = computing(pipeline)
    took_ns = took_ns.copy()
    took_ns[operation] += 0.3 * took_ns.sum()
    assert paused(pipeline, took_ns)
    assert not paused(pipeline, took_ns, others=PARAMS.replay.reference_steps - 1)


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
    assert paused(replace(built, speed=speed), took_ns)


def test_whose_step_is_one_operation_is_not_told_apart() -> None:
    built = graph(replace(FAMILIES["ddp-fused"](3), phases=False))
    edges, took_ns = computing(built)
    assert len(edges) == 1
    assert not paused(built, took_ns * 1.5)
