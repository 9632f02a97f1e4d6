"""Stops that are over: a stall conserves the job's communicators, after a restart nearly all ranks meet anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.diagnose.stops.stalls import StepsSeen, find_stops, not_slow
from prism_ch.model.finding import Finding
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import Params
from tests.unit.analysis.build import Flow, every, steps_of, steps_seen, topology

PARAMS = Params()
WHERE = topology(6)
#: Ten steps of a second; before the seventh the job stands still for eight.
ENDS_MS = [*every(1000, 6, 1000), *every(1000, 4, 15_000)]
HISTORY = steps_of([*[1.0] * 6, 9.0, *[1.0] * 3])


def found(seen: StepsSeen) -> tuple[Finding, ...]:
    return find_stops("job", seen, HISTORY, FlowBatch.empty(), WHERE, PARAMS)


def test_ranks_that_meet_others_begin_anew() -> None:
    met = [Flow(src, dst, 9_000 + src, 1, 900) for src, dst in ((0, 2), (0, 4), (1, 3), (1, 4), (2, 0), (2, 4))]
    (restart,) = found(steps_seen(ENDS_MS, met))
    assert (restart.kind, restart.first_step, restart.severity) == ("restart", 6, "warning")
    assert restart.evidence["members_after"] == 4


def test_strays_are_no_start_up() -> None:
    met = [Flow(0, 2, 9_000, 1, 900), Flow(0, 4, 9_500, 1, 900), Flow(2, 4, 9_700, 1, 900)]
    (stall,) = found(steps_seen(ENDS_MS, met))
    assert (stall.kind, stall.first_step, stall.status) == ("stall", 6, "closed")


def test_what_was_said_before_is_not_said_again() -> None:
    assert len(found(steps_seen(ENDS_MS, first_new=7))) == 1
    assert found(steps_seen(ENDS_MS, first_new=8)) == ()


def test_the_step_after_it_tells_what_a_step_is() -> None:
    assert found(steps_seen(ENDS_MS[:7])) == ()
    slowly = steps_seen([*every(1000, 6, 1000), 15_000, 24_000, *every(1000, 4, 25_000)])
    assert found(slowly) == ()
    assert not not_slow([slowly], HISTORY, PARAMS.stops)[6]


def test_of_few_steps_nothing_is_said_and_none_is_left_out() -> None:
    seen = steps_seen(ENDS_MS[5:8])
    assert found(seen) == ()
    assert not not_slow([seen], HISTORY, PARAMS.stops).any()


def test_a_step_that_holds_a_stop_is_not_slow() -> None:
    assert np.flatnonzero(not_slow([steps_seen(ENDS_MS)], HISTORY, PARAMS.stops)).tolist() == [6]


@pytest.mark.parametrize("lost_ms, severity", [(900.0, "info"), (1100.0, "warning")])
def test_a_stop_of_less_than_a_second_is_a_hiccup_whoever_is_waited_for(lost_ms: float, severity: str) -> None:
    seen = steps_seen([*every(300, 20, 300), *every(300, 5, 6300 + lost_ms)])
    seen.lateness_s[1, 20] = lost_ms / 1000
    (stall,) = found(seen)
    assert (stall.kind, stall.subject, stall.severity) == ("stall", WHERE.endpoints[1], severity)


@pytest.mark.parametrize("more_ms, is_stop", [(0, True), (500, True), (3000, False)])
def test_a_rest_that_explains_a_part_of_what_a_step_takes_longer_is_slowness(more_ms: float, is_stop: bool) -> None:
    """The job stands still for 8 s in its seventh step, and works for longer than usual before or after that."""
    seen = steps_seen(ENDS_MS)
    duration_s = seen.duration_s.copy()
    duration_s[6] += more_ms / 1000
    slowly = replace(seen, duration_s=duration_s)
    assert (found(slowly) != ()) == is_stop
    assert bool(not_slow([slowly], HISTORY, PARAMS.stops)[6]) == is_stop


def test_where_somebody_is_waited_for_others_may_work_on() -> None:
    seen = steps_seen(ENDS_MS)
    duration_s, late_s = seen.duration_s.copy(), seen.lateness_s.copy()
    duration_s[6] += 4
    late_s[2, 6] = 8
    (stall,) = found(replace(seen, duration_s=duration_s, lateness_s=late_s))
    assert (stall.kind, stall.subject) == ("stall", "10.0.102.0")
