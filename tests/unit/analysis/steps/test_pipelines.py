"""Pipelines alone: a step ends where all that was sent has been answered, though some of it is not on record."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from prism_ch.analysis.steps.steps import divide
from prism_ch.model.params import DivideParams
from tests.unit.analysis.build import BEGIN_NS, MS, Flow, every, pipeline, shaken, traffic, typed

PARAMS = DivideParams()
STAGES = [0, 1, 2, 3]
RING = [(0, 1), (1, 2), (2, 3), (0, 3)]


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


@pytest.mark.parametrize("chunks, microbatches", [(2, 4), (2, 16), (3, 8)])
def test_stages_that_wrap_round_end_a_step_where_all_of_their_links_are_at_rest(chunks: int, microbatches: int) -> None:
    alone = pipeline(STAGES * chunks, [0], microbatches=microbatches)
    last_ms = max(flow.start_ms + flow.length_ms for flow in alone)
    starts = every(last_ms + 300, 12)
    seen = traffic(pipeline(STAGES * chunks, starts, microbatches=microbatches))
    found = divide(seen, typed(seen, RING), np.array(STAGES, np.int32), PARAMS)
    assert [(end - BEGIN_NS) / MS for end in found.job_end_ns().tolist()] == [start + last_ms for start in starts]


def test_a_last_link_that_is_at_rest_after_every_microbatch_steps_as_the_others_of_its_pipeline_do() -> None:
    starts = every(1500, 12)
    answers = {2: 0.0, 1: 150.0, 0: 300.0}  # of each link: how long after the last microbatch its gradients come up
    flows = []
    for start in starts:
        for stage, after in answers.items():
            for turn in range(4):
                down = start + 100 * turn + 10 * stage
                up = down + 50 if stage == 2 else start + 400 + 100 * turn + after
                flows += [Flow(stage, stage + 1, down, 4), Flow(stage + 1, stage, up, 4)]
    seen = traffic(flows)
    found = divide(seen, typed(seen, list(pairwise(STAGES))), np.array(STAGES, np.int32), PARAMS)
    assert found.steps == len(starts)
    ends = (found.end_ns[2:] - BEGIN_NS) / MS
    assert ends[1].tolist() == [start + 374 for start in starts]
