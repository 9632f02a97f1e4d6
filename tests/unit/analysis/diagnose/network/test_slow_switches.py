"""Slow switches: what jobs say of one is one finding, which goes on and is closed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prism_ch.analysis.diagnose.network.slow_switches import join_slow_switches
from prism_ch.model.window import Window
from tests.unit.analysis.build import BEGIN_NS, finding

SECOND = 10**9
WINDOW = Window(BEGIN_NS, BEGIN_NS + 60 * SECOND)
LATER = Window(BEGIN_NS + 60 * SECOND, BEGIN_NS + 120 * SECOND)
CLAIM = finding(
    diagnosis_id="of-job",
    kind="slow_switch",
    subject_type="switch",
    subject="leaf-c",
    first_step=10,
    last_step=20,
    start_ns=BEGIN_NS + 10 * SECOND,
    end_ns=BEGIN_NS + 20 * SECOND,
    observed=3.0,
    score=3.0,
    summary="Flows through switch leaf-c take 3 times as long.",
)


def test_without_claims_nothing_is_found() -> None:
    assert join_slow_switches((), (), WINDOW) == ()


def test_what_several_jobs_say_of_one_switch_is_one_finding() -> None:
    worse = replace(CLAIM, slowdown=0.3, severity="critical", score=4.0, start_ns=BEGIN_NS + 12 * SECOND)
    (one,) = join_slow_switches([CLAIM, worse], (), WINDOW)
    assert (one.subject, one.severity, one.status, one.first_step) == ("leaf-c", "critical", "open", 0)
    assert one.start_ns == BEGIN_NS + 10 * SECOND
    assert one.score == pytest.approx(5.0)
    assert one.evidence == {"jobs": 2}


def test_switches_are_told_apart() -> None:
    found = join_slow_switches([CLAIM, replace(CLAIM, subject="leaf-a")], (), WINDOW)
    assert {one.subject for one in found} == {"leaf-a", "leaf-c"}


def test_a_known_finding_goes_on_under_its_name() -> None:
    (before,) = join_slow_switches([CLAIM], (), WINDOW)
    still = replace(CLAIM, start_ns=BEGIN_NS + 50 * SECOND, end_ns=BEGIN_NS + 90 * SECOND)
    (one,) = join_slow_switches([still], [before], LATER)
    assert (one.diagnosis_id, one.start_ns, one.end_ns) == (before.diagnosis_id, before.start_ns, still.end_ns)


def test_one_that_nobody_claims_any_longer_is_closed() -> None:
    (before,) = join_slow_switches([CLAIM], (), WINDOW)
    (one,) = join_slow_switches([replace(CLAIM, status="closed")], [before], LATER)
    assert (one.diagnosis_id, one.status, one.end_ns) == (before.diagnosis_id, "closed", before.end_ns)


def test_one_that_ended_in_the_window_is_said_as_closed() -> None:
    (one,) = join_slow_switches([replace(CLAIM, status="closed")], (), WINDOW)
    assert one.status == "closed"
