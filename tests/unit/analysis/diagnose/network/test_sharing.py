"""Sharing: a shared port is no fault, and jobs behind one slow switch make one finding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.diagnose.network.sharing import join_shared, without_congestion
from prism_ch.model.finding import Baseline, Finding
from prism_ch.model.params import TimePerByteParams
from prism_ch.model.window import Window
from tests.unit.analysis.build import BEGIN_NS, MB, Flow, batch, finding, topology

WHERE = topology(6)
MEMBERS = np.arange(4, dtype=np.int32)
FINDING = finding(baseline=Baseline(s_per_byte={"10.0.100.0->10.0.101.0": 0.01 / (40 * MB)}))
#: Messages of 40 MB that take 20 ms instead of 10.
SLOW = [Flow(0, 1, 1000 * step, 20) for step in range(9)]

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
    jobs=("a",),
)


def told(*others: Flow) -> Finding:
    (one,) = without_congestion([FINDING], "job", batch([*SLOW, *others]), MEMBERS, WHERE, TimePerByteParams())
    return one


def test_who_shares_a_port_with_others_is_not_broken() -> None:
    elephants = [Flow(4, 1, 1000 * step - 10, 40, 80 * MB) for step in range(9)]
    one = told(*elephants)
    assert (one.kind, one.subject_type, one.subject, one.severity) == ("congestion", "endpoint", "10.0.101.0", "info")
    assert "others take 50% of the port of 10.0.101.0" in one.summary
    assert one.evidence["instead_of"] == "slow_nic"


def test_who_sends_to_others_at_once_shares_its_own_port() -> None:
    assert told(*(Flow(0, 5, 1000 * step, 20, 40 * MB) for step in range(9))).subject == "10.0.100.0"


def test_port_that_moves_less_is_broken_despite_other_flows() -> None:
    assert told(*(Flow(4, 1, 1000 * step, 20, MB) for step in range(9))) == FINDING


def test_others_at_another_time_or_port_explain_nothing() -> None:
    assert told(*(Flow(4, 1, 1000 * step + 500, 20, 400 * MB) for step in range(9))) == FINDING
    assert told(*(Flow(4, 5, 1000 * step, 20, 40 * MB) for step in range(9))) == FINDING


def test_what_a_job_itself_moves_is_no_other() -> None:
    assert told(*(Flow(2, 1, 1000 * step, 20, 40 * MB) for step in range(9))) == FINDING


def test_other_findings_stay() -> None:
    gpu = replace(FINDING, kind="slow_gpu")
    assert without_congestion([gpu], "job", batch(SLOW), MEMBERS, WHERE, TimePerByteParams()) == (gpu,)


def test_without_claims_nothing_is_found() -> None:
    assert join_shared((), ()) == ()


def test_what_several_jobs_say_of_one_switch_is_one_finding() -> None:
    worse = replace(CLAIM, jobs=("b",), slowdown=0.3, severity="critical", score=4.0, start_ns=BEGIN_NS + 12 * SECOND)
    (one,) = join_shared([CLAIM, worse], ())
    assert (one.subject, one.severity, one.status, one.first_step) == ("leaf-c", "critical", "open", 0)
    assert one.start_ns == BEGIN_NS + 10 * SECOND
    assert one.score == pytest.approx(5.0)
    assert (one.jobs, one.slowdowns) == (("a", "b"), {"a": CLAIM.slowdown, "b": 0.3})
    assert one.evidence == {"jobs": ["a", "b"], "may_also_be": []}


def test_switches_are_told_apart() -> None:
    found = join_shared([CLAIM, replace(CLAIM, subject="leaf-a")], ())
    assert {one.subject for one in found} == {"leaf-a", "leaf-c"}


def test_a_known_finding_goes_on_under_its_name() -> None:
    (before,) = join_shared([CLAIM], ())
    still = replace(CLAIM, start_ns=BEGIN_NS + 50 * SECOND, end_ns=BEGIN_NS + 90 * SECOND)
    (one,) = join_shared([still], [before])
    assert (one.diagnosis_id, one.start_ns, one.end_ns) == (before.diagnosis_id, before.start_ns, still.end_ns)


def test_one_that_nobody_claims_any_longer_is_closed() -> None:
    (before,) = join_shared([CLAIM], ())
    (one,) = join_shared([replace(CLAIM, status="closed")], [before])
    assert (one.diagnosis_id, one.status, one.end_ns) == (before.diagnosis_id, "closed", before.end_ns)


def test_one_that_ended_in_the_window_is_said_as_closed() -> None:
    (one,) = join_shared([replace(CLAIM, status="closed")], ())
    assert one.status == "closed"
