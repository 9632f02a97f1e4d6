from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.accuracy.replay import healthy, replay_table
from prism_ch.analysis.replay.idle import measure_idle
from prism_ch.simulate.families import FAMILIES
from tests.sweeps import swept
from tests.unit.analysis.replay.simulated import PARAMS, attempts, graph


@pytest.mark.parametrize(
    "family",
    [
        "distributed-optimizer-overlap",
        "evaluation",
        "pipeline-1f1b",
        "pipeline-interleaved",
        "pipeline-zero-bubble",
        "production",
        *swept(
            "checkpoints",
            "distributed-optimizer",
            "pipeline-gpipe",
            "pipeline-without-replicas",
            "storage-hub",
        ),
    ],
)
def test_idle_time_equals_truth_within_two_percent(family: str) -> None:
    errors = healthy(family, 3)
    assert len(errors.idle) > 100
    assert np.quantile(errors.idle, 0.95) < 0.02
    assert replay_table([("healthy", errors)]).rows[0][0] == "healthy"


@pytest.mark.parametrize("family", ["production", "production-staggered"])
def test_other_stages_show_how_long_a_microbatch_is(family: str) -> None:
    """The last backward passes of the first stage send nothing, and microbatches differ by 10 to 30 %."""
    assert np.quantile(healthy(family, 3).idle, 0.95) < 0.005


def test_exchanges_in_operations_show_who_waits() -> None:
    """Ranks begin their collective together, and context rings show how far each has come before."""
    assert np.median(healthy("context-ring", 71811).idle) < 0.005


def test_bubbles_are_part_of_idle_time() -> None:
    scenario = replace(FAMILIES["pipeline-1f1b"](3), phases=False)
    [attempt] = attempts(scenario)
    one = attempt.attempt
    idle = measure_idle(graph(scenario), one, PARAMS.replay)
    known = ~np.isnan(idle.idle_s)
    assert known[:, 1:].all()
    assert (idle.bubble_s[known] <= idle.idle_s[known]).all()
    assert (idle.idle_s[known] >= 0).all()
    assert idle.bubble_s[known].sum() > 0.8 * idle.idle_s[known].sum()
