"""Findings of stops: one identity whatever a stop turns out to be, and whom it names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prism_ch.analysis.diagnose.stops.stop_findings import (
    Stop,
    carry_on_stops,
    first_few,
    is_stop,
    listed,
    stop_finding,
    subject_of,
)
from prism_ch.model.finding import Baseline, Finding
from tests.unit.analysis.build import BEGIN_NS, topology

SECOND = 10**9
WHERE = topology(4, gpus=2)
TOLD_NS = BEGIN_NS + 60 * SECOND


def stop(start_s: float = 10, end_s: float = 20, *, is_open: bool = False) -> Finding:
    span = (BEGIN_NS + round(start_s * SECOND), BEGIN_NS + round(end_s * SECOND))
    return stop_finding(
        "stall", "job", Stop(7, *span, 0.5, 9.5, 2.0), ("job", "job"), "warning", "It stood still.", {}, is_open=is_open
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
    (said,) = carry_on_stops([before], [replace(stop(10.5, 30), kind="restart")], TOLD_NS)
    assert (said.diagnosis_id, said.kind, said.status) == ("before", "restart", "closed")


def test_an_open_stop_that_is_over_is_closed_and_others_stay() -> None:
    before = stop(is_open=True)
    later = stop(40, 50)
    known = [before, replace(stop(0, 1), kind="slow_gpu", status="open")]
    (first, gone) = carry_on_stops(known, [later], TOLD_NS)
    assert (first, gone.diagnosis_id, gone.status) == (later, before.diagnosis_id, "closed")


def test_what_seemed_to_hang_and_went_on_alarms_nobody() -> None:
    before = replace(stop(is_open=True), kind="hang", severity="critical")
    (waiting,) = carry_on_stops([before], [], before.start_ns)
    assert waiting == before
    (gone,) = carry_on_stops([before], [], before.start_ns + 1)
    assert (gone.kind, gone.status, gone.severity, gone.slowdown) == ("stall", "closed", "info", 0)
    assert gone.summary == "Nothing of the job was seen to end for 10 s in step 7, and then it went on."


def test_missing_records_are_told_by_exporter() -> None:
    assert is_stop(missing())
    assert not is_stop(replace(missing(), baseline=Baseline()))
    again = replace(missing("leaf"), diagnosis_id="new")
    (said, closed) = carry_on_stops([missing("leaf"), missing("other")], [again], TOLD_NS)
    assert (said.diagnosis_id, closed.diagnosis_id, closed.status) == ("leaf", "other", "closed")
    assert len(carry_on_stops([missing()], [stop(is_open=True)], TOLD_NS)) == 2
    assert len(carry_on_stops([stop(is_open=True)], [missing()], TOLD_NS)) == 2


def test_one_endpoint_or_server_is_the_subject_else_the_job() -> None:
    subjects = [subject_of(np.array(some, np.int32), "job", WHERE) for some in ([2], [2, 3], [1, 2], [])]
    assert subjects == [
        ("endpoint", WHERE.endpoints[2]),
        ("server", WHERE.server_names[1]),
        ("job", "job"),
        ("job", "job"),
    ]


def test_names_are_listed_up_to_a_few() -> None:
    assert first_few(["a", "b", "c"]) == "a, b, c"
    assert first_few(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
    assert (
        listed(np.array([2, 3], np.int32), WHERE)
        == f"{WHERE.endpoints[2]}, {WHERE.endpoints[3]} ({WHERE.server_names[1]})"
    )
