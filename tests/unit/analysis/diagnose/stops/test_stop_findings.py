"""Findings on stops: one identity whatever a stop turns out to be, whom it names, and those that are over.

A stall conserves the job's communicators; after a restart nearly all ranks meet anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.diagnose.findings import confidence_in
from prism_ch.analysis.diagnose.stops.rests import StepsSeen, not_slow
from prism_ch.analysis.diagnose.stops.stop_findings import (
    Stop,
    carry_on_stops,
    find_past_stops,
    first_few,
    is_stop,
    listed,
    stop_finding,
    subject_of,
)
from prism_ch.analysis.observe.holes import Hole
from prism_ch.model.finding import Baseline, Finding, SubjectType
from prism_ch.model.flow import FlowBatch
from prism_ch.model.flows_by_pair import FlowsByPair
from prism_ch.model.params import Params
from prism_ch.model.window import Interval
from tests.unit.analysis.build import BEGIN_NS, Flow, batch, every, steps_of, steps_seen, topology

SECOND = 10**9
WHERE = topology(4, gpus=2)
SETTLED_NS = BEGIN_NS + 60 * SECOND


def stop(start_s: float = 10, end_s: float = 20, *, is_open: bool = False) -> Finding:
    span = (BEGIN_NS + round(start_s * SECOND), BEGIN_NS + round(end_s * SECOND))
    return stop_finding(
        "stall", Stop("job", 7, *span, 0.5, 9.5, 2.0), "warning", "It stood still.", {}, is_open=is_open
    )


def missing(subject: str = "leaf") -> Finding:
    one = replace(
        stop(is_open=True),
        kind="telemetry",
        subject_type="exporter",
        subject=subject,
        baseline=Baseline(records_missing=True),
    )
    return replace(one, diagnosis_id=subject)


def test_a_stop_is_measured_and_loses_no_more_than_all() -> None:
    found = stop()
    assert (found.first_step, found.observed, found.expected, found.slowdown, found.status) == (7, 10, 0.5, 1, "closed")
    assert found.evidence == {"lost_s": 9.5}


def test_an_open_stop_becomes_what_it_turns_out_to_be() -> None:
    before = replace(stop(is_open=True), diagnosis_id="before")
    (carried,) = carry_on_stops([before], [replace(stop(10.5, 30), kind="restart")], SETTLED_NS)
    assert (carried.diagnosis_id, carried.kind, carried.status) == ("before", "restart", "closed")


def test_an_open_stop_that_is_over_is_closed_and_others_stay() -> None:
    before = stop(is_open=True)
    later = stop(40, 50)
    known = [before, replace(stop(0, 1), kind="slow_gpu", status="open")]
    (first, gone) = carry_on_stops(known, [later], SETTLED_NS)
    assert (first, gone.diagnosis_id, gone.status) == (later, before.diagnosis_id, "closed")


def test_what_hung_and_went_on_lost_that_time() -> None:
    before = replace(stop(is_open=True), kind="hang", severity="critical")
    (waiting,) = carry_on_stops([before], [], before.start_ns)
    assert waiting == before
    (gone,) = carry_on_stops([before], [], before.start_ns + 1)
    assert (gone.kind, gone.status, gone.slowdown, gone.lost_s) == ("stall", "closed", before.slowdown, 9.5)
    assert gone.summary == "Nothing of the job was seen to end for 10 s in step 7, and then it went on."


def test_hang_that_was_a_hole_or_a_slow_gpu_lost_nothing() -> None:
    before = replace(stop(is_open=True), kind="hang", severity="critical")
    hole = Hole(("leaf",), True, Interval(before.start_ns, before.end_ns), is_open=False, is_sure=True)
    slow = replace(before, kind="slow_gpu", first_step=6, last_step=8)
    for holes, others in (([hole], []), ([], [slow])):
        (gone,) = carry_on_stops([before], [], before.start_ns + 1, holes, others)
        assert (gone.kind, gone.status, gone.slowdown, gone.lost_s) == ("stall", "closed", 0, 0)


def test_missing_records_are_identified_by_exporter() -> None:
    assert is_stop(missing())
    assert not is_stop(replace(missing(), baseline=Baseline()))
    again = replace(missing("leaf"), diagnosis_id="new")
    (carried, closed) = carry_on_stops([missing("leaf"), missing("other")], [again], SETTLED_NS)
    assert (carried.diagnosis_id, closed.diagnosis_id, closed.status) == ("leaf", "other", "closed")
    assert len(carry_on_stops([missing()], [stop(is_open=True)], SETTLED_NS)) == 2
    assert len(carry_on_stops([stop(is_open=True)], [missing()], SETTLED_NS)) == 2


def test_one_endpoint_or_server_is_the_subject_else_the_job() -> None:
    subjects = [subject_of(np.array(some, np.int32), "job", WHERE) for some in ([2], [2, 3], [1, 2], [])]
    assert subjects == [
        ("endpoint", WHERE.endpoints[2]),
        ("server", WHERE.server_names[1]),
        ("job", "job"),
        ("job", "job"),
    ]


@pytest.mark.parametrize("subject_type, shared", [("server", 1), ("endpoint", 3), ("job", 3)])
def test_server_holds_all_that_may_have_stopped(subject_type: SubjectType, shared: int) -> None:
    among, sole = ["10.0.0.1", "10.0.0.2", "10.0.0.3"], confidence_in(subject_type)
    at = Stop("job", 7, BEGIN_NS, BEGIN_NS + 20 * SECOND, 0.5, 9.5, 2.0)
    found = stop_finding("hang", at, "warning", "It hangs.", {}, (subject_type, "it"), among=among)
    assert found.confidence == pytest.approx(sole / shared)


def test_names_are_listed_up_to_a_few() -> None:
    assert first_few(["a", "b", "c"]) == "a, b, c"
    assert first_few(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
    assert (
        listed(np.array([2, 3], np.int32), WHERE)
        == f"{WHERE.endpoints[2]}, {WHERE.endpoints[3]} ({WHERE.server_names[1]})"
    )


PARAMS = Params()
RING = topology(6)
#: Ten steps of a second; before the seventh the job stands still for eight.
ENDS_MS = [*every(1000, 6, 1000), *every(1000, 4, 15_000)]
HISTORY = steps_of([*[1.0] * 6, 9.0, *[1.0] * 3])


def found(seen: StepsSeen, met: Sequence[Flow] = ()) -> tuple[Finding, ...]:
    around = FlowsByPair.of(batch(met) if met else FlowBatch.empty())
    return find_past_stops("job", seen, HISTORY, around, RING, PARAMS)


def test_ranks_that_meet_others_begin_anew() -> None:
    met = [Flow(src, dst, 9_000 + src, 1, 900) for src, dst in ((0, 2), (0, 1), (0, 3), (1, 3), (2, 0))]
    (restart,) = found(steps_seen(ENDS_MS, met), met)
    assert (restart.kind, restart.first_step, restart.severity) == ("restart", 6, "warning")
    assert restart.evidence["members_after"] == 4


def test_strays_are_no_start_up() -> None:
    met = [Flow(0, 2, 9_000, 1, 900), Flow(0, 4, 9_500, 1, 900), Flow(2, 4, 9_700, 1, 900)]
    (stall,) = found(steps_seen(ENDS_MS, met), met)
    assert (stall.kind, stall.first_step, stall.status) == ("stall", 6, "closed")


def test_what_was_found_before_is_not_found_again() -> None:
    assert len(found(steps_seen(ENDS_MS, first_new=7))) == 1
    assert found(steps_seen(ENDS_MS, first_new=8)) == ()


def test_a_stop_in_the_newest_step_is_told_early() -> None:
    (early,) = found(steps_seen(ENDS_MS[:7]))
    assert (early.kind, early.first_step, early.status, early.baseline.early) == ("stall", 6, "open", True)
    (sure,) = found(steps_seen(ENDS_MS[:8]))
    assert (sure.diagnosis_id, sure.status, sure.baseline.early) == (early.diagnosis_id, "closed", False)


def test_two_long_steps_in_a_row_are_no_stop() -> None:
    slowly = steps_seen([*every(1000, 6, 1000), 15_000, 24_000, *every(1000, 4, 25_000)])
    assert found(slowly) == ()
    assert not not_slow([slowly], HISTORY, PARAMS.stops)[6]


def test_nothing_is_found_or_left_out_of_few_steps() -> None:
    seen = steps_seen(ENDS_MS[5:8])
    assert found(seen) == ()
    assert not not_slow([seen], HISTORY, PARAMS.stops).any()


def test_a_step_that_holds_a_stop_is_not_slow() -> None:
    assert np.flatnonzero(not_slow([steps_seen(ENDS_MS)], HISTORY, PARAMS.stops)).tolist() == [6]


@pytest.mark.parametrize("lost_ms, severity", [(900.0, "info"), (1100.0, "critical")])
def test_stop_below_a_second_is_a_hiccup_despite_a_straggler(lost_ms: float, severity: str) -> None:
    seen = steps_seen([*every(300, 20, 300), *every(300, 5, 6300 + lost_ms)])
    seen.attempt.lateness_s[1, 20] = lost_ms / 1000
    (stall,) = found(seen)
    assert (stall.kind, stall.subject, stall.severity) == ("stall", RING.endpoints[1], severity)


@pytest.mark.parametrize("more_ms, is_stop", [(0, True), (500, True), (3000, False)])
def test_rest_explaining_part_of_a_long_step_is_slowness(more_ms: float, is_stop: bool) -> None:
    """The job stands still for 8 s in its seventh step, and works for longer than usual before or after that."""
    seen = steps_seen(ENDS_MS)
    duration_s = seen.duration_s.copy()
    duration_s[6] += more_ms / 1000
    slowly = replace(seen, duration_s=duration_s)
    assert (found(slowly) != ()) == is_stop
    assert bool(not_slow([slowly], HISTORY, PARAMS.stops)[6]) == is_stop


def test_others_may_compute_on_while_a_straggler_is_late() -> None:
    seen = steps_seen(ENDS_MS)
    duration_s, late_s = seen.duration_s.copy(), seen.attempt.lateness_s.copy()
    duration_s[6] += 4
    late_s[2, 6] = 8
    (stall,) = found(replace(seen, attempt=replace(seen.attempt, lateness_s=late_s), duration_s=duration_s))
    assert (stall.kind, stall.subject) == ("stall", "10.0.102.0")
