"""Beside: closing traffic is over where an endpoint's other traffic goes on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.steps.steps import divide
from prism_ch.model.job import Division
from prism_ch.model.params import DivideParams
from tests.unit.analysis.build import BEGIN_NS, MB, MS, Flow, job, links, pipeline, ring, shaken, traffic, typed

PARAMS = DivideParams()
GRID = ([0, 1], [2, 3])
STEPS = 30


def waiting(seed: int, exchange_mb: int = 0) -> tuple[list[Flow], list[float]]:
    """A job of two stages, and when its steps end: with a gathering for which the second waits long and unevenly.

    In between, first and last stage may exchange the gradients of tied embeddings.
    """
    chance = np.random.default_rng(seed)
    flows: list[Flow] = []
    ends = []
    now = 0.0
    for wait in chance.uniform(300, 900, STEPS).tolist():
        flows += [flow for pair in links(GRID) for flow in pipeline(pair, [now], microbatches=8)]
        flows += ring(GRID[1], [now + 650], size=80 * MB)
        now += 650 + wait
        flows += ring(GRID[0], [now], size=80 * MB)
        if exchange_mb:
            ways = [way for low, high in links(GRID) for way in ((low, high), (high, low))]
            flows += [Flow(a, b, now + 2, 4, exchange_mb * MB) for a, b in ways]
        now += 60
        flows += [flow for stage in GRID for flow in ring(stage, [now], size=40 * MB)]
        ends.append(now)
    return flows, ends


def divided(flows: list[Flow]) -> Division:
    seen = traffic(flows)
    return divide(seen, typed(seen, links(GRID)), np.arange(4, dtype=np.int32), PARAMS)


@pytest.mark.parametrize("exchange_mb", [0, 12])
@pytest.mark.parametrize("seed", range(4))
def test_a_stage_that_waits_amid_its_closing_traffic_ends_with_the_others(seed: int, exchange_mb: int) -> None:
    flows, ends = waiting(seed, exchange_mb)
    found = divided(flows)
    for row in found.end_ns:
        assert ((row - BEGIN_NS) / MS).tolist() == pytest.approx(ends)


@pytest.mark.parametrize("together", [4, 8, 10])
@pytest.mark.parametrize("pause_ms", [1500, 4000])
def test_a_pause_after_every_so_many_steps_does_not_make_them_one(together: int, pause_ms: int) -> None:
    steps = together * 6
    later = [pause_ms * (step // together) for step in range(steps)]
    flows = [replace(flow, start_ms=flow.start_ms + later[step_of(flow)]) for flow in job(GRID, steps)]
    ends = [1000 * (step + 1) + later[step] for step in range(steps)]
    found = divided(shaken(flows, 1, ms=0.2))
    assert [(end - BEGIN_NS) / MS for end in found.job_end_ns().tolist()] == pytest.approx(ends, abs=3)


def step_of(flow: Flow) -> int:
    """The step of a flow in a job of a second a step."""
    return int((flow.start_ms + flow.length_ms - 1) // 1000)
