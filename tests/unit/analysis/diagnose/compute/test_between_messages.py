"""Compute time between messages: ranks that compute as one begin with the last input of any."""

from __future__ import annotations

import numpy as np
import pytest

from prism_ch.analysis.diagnose.compute.between_messages import between_messages, operation_ns
from prism_ch.model.columns import Float64
from prism_ch.model.params import DiagnoseParams
from tests.unit.analysis.build import Flow, division, every, traffic

STEPS, MICROBATCHES = 12, 4
#: Two ranks of each of three stages, on a server a stage: 0 and 1 send to 2 and 3, those to 4 and 5.
ROLE = np.repeat(np.arange(3, dtype=np.int32), 2)


def seconds(late_ms: float, *, joined: bool) -> Float64:
    """What ranks compute between messages, those to rank 2 being slow in the second half of the steps."""
    flows = []
    for step, at in enumerate(every(1000, STEPS)):
        late = late_ms if step >= STEPS // 2 else 0.0
        starts = [at + 100 + 200 * turn for turn in range(MICROBATCHES)]
        if late and joined:
            flows.append(Flow(0, 2, starts[0], starts[-1] + late - starts[0], 4 * 40_000_000))
        for start in starts:
            if not (late and joined):
                flows.append(Flow(0, 2, start, 10 + late))
            flows += [Flow(1, 3, start, 10), Flow(2, 4, start + 160 + late, 10), Flow(3, 5, start + 160 + late, 10)]
    ends = division(range(6), every(1000, STEPS, 1000))
    found, _ = between_messages(traffic(flows), ends, ROLE, ROLE, {}, DiagnoseParams().compute)
    return found


def test_a_mate_waits_for_the_input_that_comes_last() -> None:
    found = seconds(20, joined=False)
    assert found[2:4, 1:] == pytest.approx(np.full((2, STEPS - 1), MICROBATCHES * 0.15), abs=1e-3)


def test_input_that_runs_together_hides_when_its_mates_began() -> None:
    found = seconds(20, joined=True)
    assert np.isnan(found[2:4, STEPS // 2 :]).all()
    assert found[2:4, 1 : STEPS // 2] == pytest.approx(MICROBATCHES * 0.15, abs=1e-3)


@pytest.mark.parametrize("better, expected_ns", [(5, 10.0), (0, 20.0)])
def test_an_operation_lasts_as_long_as_in_the_better_steps(better: int, expected_ns: float) -> None:
    apart: Float64 = np.where(np.arange(30) < better, 10.0, 20.0)
    outs: Float64 = np.tile(apart[None, :, None] * np.arange(8.0), (3, 1, 1))
    assert operation_ns([outs[:, :, ::2], outs[:, :, 1::2]], DiagnoseParams().compute) == expected_ns
