"""Pipelines alone: a step ends where all that was sent has been answered, though some of it is not on record."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from prism_ch.model.params import DivideParams
from prism_ch.stages.divide import divide
from tests.unit.stages.build import BEGIN_NS, MS, every, pipeline, shaken, traffic, typed

PARAMS = DivideParams()
STAGES = [0, 1, 2, 3]


@pytest.mark.parametrize("microbatches", [4, 8, 16])
@pytest.mark.parametrize("lost", [0.005, 0.02])
def test_lost_messages_shift_no_later_step(lost: float, microbatches: int) -> None:
    starts = every(2500, 40)
    flows = shaken(pipeline(STAGES, starts, microbatches=microbatches), 1, ms=0.5)
    gone = np.random.default_rng(2).random(len(flows)) < lost
    seen = traffic([flow for flow, missing in zip(flows, gone, strict=True) if not missing])
    found = divide(seen, typed(seen, list(pairwise(STAGES))), np.array(STAGES, np.int32), PARAMS)
    last_ms = max(flow.start_ms + flow.length_ms for flow in flows if flow.start_ms < 2400)
    ends = [(end - BEGIN_NS) / MS for end in found.job_end_ns().tolist()]
    # Where the last gradient itself is not on record, the step ends with the one before it.
    assert ends == pytest.approx([start + last_ms for start in starts], abs=150)
    assert np.median(np.array(ends) - starts) == pytest.approx(last_ms, abs=2)
