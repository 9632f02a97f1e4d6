"""Which steps of a job are read back: some of an hour, and all of the newest."""

import pytest

from prism_ch.model.memory import RememberedSteps
from prism_ch.model.params import ContinueParams
from tests.unit.analysis.build import known_job, steps_of

PARAMS = ContinueParams(history_steps=4, remembered_s=20)


@pytest.mark.parametrize(
    "steps, step_s, newest, older",
    [
        (0, 1.0, [], []),
        (4, 1.0, [0, 1, 2, 3], []),
        (8, 1.0, [4, 5, 6, 7], [0, 1, 2, 3]),
        (10, 1.0, [6, 7, 8, 9], [0, 2, 4]),
        (15, 1.0, [11, 12, 13, 14], [0, 4, 8]),
        (100, 1.0, [96, 97, 98, 99], [80, 88]),
        (100, 5.0, [96, 97, 98, 99], [92, 93, 94, 95]),
    ],
)
def test_a_longer_history_is_thinned_by_halves(steps: int, step_s: float, newest: list[int], older: list[int]) -> None:
    job = known_job("job", [0, 1], steps=steps, step_s=step_s).job
    parts = RememberedSteps.of(job, PARAMS).parts(steps_of([step_s] * steps))
    assert [part.step.tolist() for part in parts] == [newest, older]
