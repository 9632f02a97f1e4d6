"""A stop that is over is told of before another step ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.diagnose.stops.hang_culprits import TrainingPairs
from prism_ch.analysis.diagnose.stops.silence import QuietJob, usual_rhythm
from prism_ch.analysis.diagnose.stops.went_on import find_just_ended
from prism_ch.analysis.observe.holes import Hole
from prism_ch.model.finding import Finding
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import Params
from prism_ch.model.result import DP
from prism_ch.model.window import Interval
from tests.unit.analysis.build import BEGIN_NS, batch, every, ring, steps_of

PARAMS = Params()
SECOND = 10**9
USUAL = [1.0] * 20


def going_on(pause_s: float, durations_s: list[float]) -> QuietJob:
    """A job of three ranks that exchange gradients each second, and once more after a pause."""
    known_s = sum(USUAL)
    seen = batch(ring(range(3), [*every(1000, 20, 1000), round(1000 * (known_s + pause_s))]))
    src, dst = np.unique(np.stack([seen.src, seen.dst]), axis=1)
    pairs = TrainingPairs(src, dst, np.full(len(src), DP, dtype=np.uint8))
    members, nothing = np.arange(3, dtype=np.int32), FlowBatch.empty()
    until_ns = BEGIN_NS + round((known_s + pause_s + 0.1) * SECOND)
    return QuietJob("job", members, pairs, steps_of(durations_s), seen, nothing, nothing, until_ns)


def just_ended(seen: QuietJob) -> Finding | None:
    return find_just_ended(seen, usual_rhythm(seen, PARAMS.stops), PARAMS)


@pytest.mark.parametrize("durations_s", [USUAL, [*USUAL, 9.0]], ids=["step is open", "step has ended"])
def test_stop_is_told_of_as_soon_as_the_job_goes_on(durations_s: list[float]) -> None:
    found = just_ended(going_on(9.0, durations_s))
    assert found is not None
    assert (found.kind, found.subject, found.first_step, found.severity) == ("stall", "job", 20, "critical")
    assert (found.start_ns, found.end_ns) == (BEGIN_NS + 20 * SECOND, BEGIN_NS + 29 * SECOND)
    assert found.lost_s == pytest.approx(8.0, abs=0.1)


def test_usual_rest_is_no_stop() -> None:
    assert just_ended(going_on(1.2, USUAL)) is None


def test_pause_as_long_as_another_one_is_a_habit() -> None:
    assert just_ended(going_on(9.0, USUAL)) is not None
    assert just_ended(going_on(9.0, [*[1.0] * 6, 9.0, *[1.0] * 5])) is None


def test_pause_that_a_hole_hides_is_none() -> None:
    hole = Hole(("leaf",), True, Interval(BEGIN_NS + 21 * SECOND, BEGIN_NS + 25 * SECOND), is_open=False, is_sure=True)
    assert just_ended(replace(going_on(9.0, USUAL), holes=(hole,))) is None
