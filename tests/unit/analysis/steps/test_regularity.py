"""Null model: steps of training are more alike than what any traffic can be cut into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.steps.steps import divide
from prism_ch.model.job import Division
from prism_ch.model.params import DivideParams
from tests.unit.analysis.build import MB, Flow, buckets, every, ring, shaken, traffic, typed

PARAMS = DivideParams()


def divided(flows: Sequence[Flow]) -> Division:
    seen = traffic(flows)
    members = sorted({end for flow in flows for end in (flow.src, flow.dst)})
    return divide(seen, typed(seen), np.array(members, np.int32), PARAMS)


def serving(seed: int, requests: int, pieces: int, mean_ms: float, rails: int = 2) -> list[Flow]:
    """Caches of requests that come at random, each in some pieces, from one server to another by every rail."""
    rng = np.random.default_rng(seed)
    at = np.cumsum(pieces * 10 + rng.gamma(0.5, 2 * mean_ms, requests))
    size = rng.lognormal(np.log(20 * MB), 0.8, requests)
    return [
        Flow(rail, rails + rail, begin + 10 * piece, 4, round(amount))
        for begin, amount in zip(at.tolist(), size.tolist(), strict=True)
        for piece in range(pieces)
        for rail in range(rails)
    ]


class TestServing:
    @pytest.mark.parametrize("pieces", [1, 4])
    @pytest.mark.parametrize("requests, mean_ms", [(300, 200), (800, 75)])
    def test_shows_nothing_that_chance_does_not(self, requests: int, mean_ms: float, pieces: int) -> None:
        for seed in range(5):
            found = divided(serving(seed, requests, pieces, mean_ms))
            assert found.steps >= PARAMS.judged_steps
            assert found.regular < PARAMS.min_regularity


class TestTraining:
    def test_of_one_burst_a_step_is_regular(self) -> None:
        assert divided(shaken(ring([0, 1, 2], every(1000, 20)), 1)).regular > 0.9

    def test_whose_steps_last_unequally_is_regular_by_its_sizes(self) -> None:
        ends = np.cumsum(np.random.default_rng(2).uniform(600, 1800, 30)).tolist()
        assert divided(buckets([0, 1, 2], ends, [10 * MB, 40 * MB, 80 * MB], 60)).regular > 0.6

    def test_whose_sizes_are_measured_badly_is_regular_by_its_times(self) -> None:
        rng = np.random.default_rng(3)
        flows = buckets([0, 1, 2], every(1000, 30), [40 * MB] * 4, 60)
        measured = [replace(flow, size=round(flow.size * rng.normal(1, 0.03))) for flow in shaken(flows, 4)]
        assert divided(measured).regular > 0.6

    def test_that_gets_slower_is_as_regular_as_before(self) -> None:
        ends = [*every(1000, 20), *every(2000, 12, 21_000)]
        found = divided(shaken(buckets([0, 1, 2], ends, [10 * MB, 40 * MB, 80 * MB], 60), 1))
        assert found.steps == len(ends)
        assert found.regular > 0.9
