"""Which steps of a job are read back: some of an hour, and all of the newest."""

import pytest

from prism_ch.model.params import ContinueParams
from prism_ch.model.step_history import StepHistory
from tests.unit.stages.build import known_job, steps_of

PARAMS = ContinueParams(history_steps=4, older_span_s=20, older_steps=8)


@pytest.mark.parametrize(
    "steps, step_s, newest, older",
    [
        (0, 1.0, [], []),
        (4, 1.0, [0, 1, 2, 3], []),
        (10, 1.0, [6, 7, 8, 9], [0, 1, 2, 3, 4, 5]),
        (15, 1.0, [11, 12, 13, 14], [0, 2, 4, 6, 8, 10]),
        (100, 1.0, [96, 97, 98, 99], [76, 80, 84, 88, 92]),
        (100, 5.0, [96, 97, 98, 99], [92, 93, 94, 95]),
    ],
)
def test_a_longer_history_is_thinned_by_halves(steps: int, step_s: float, newest: list[int], older: list[int]) -> None:
    job = known_job("job", [0, 1], steps=steps, step_s=step_s).job
    parts = StepHistory.of(job, PARAMS).parts(steps_of([step_s] * steps))
    assert [part.step.tolist() for part in parts] == [newest, older]
