"""Congestion: a port that others share is no fault, one that moves less than before is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prism_ch.analysis.diagnose.network.congestion import tell_congestion
from prism_ch.model.finding import Baseline, Finding
from prism_ch.model.params import TimePerByteParams
from tests.unit.analysis.build import MB, Flow, batch, finding, topology

WHERE = topology(6)
MEMBERS = np.arange(4, dtype=np.int32)
FINDING = finding(baseline=Baseline(s_per_byte={"10.0.100.0->10.0.101.0": 0.01 / (40 * MB)}))
#: Messages of 40 MB that take 20 ms instead of 10.
SLOW = [Flow(0, 1, 1000 * step, 20) for step in range(9)]


def told(*others: Flow) -> Finding:
    (one,) = tell_congestion([FINDING], "job", batch([*SLOW, *others]), MEMBERS, WHERE, TimePerByteParams())
    return one


def test_who_shares_a_port_with_others_is_not_broken() -> None:
    elephants = [Flow(4, 1, 1000 * step - 10, 40, 80 * MB) for step in range(9)]
    one = told(*elephants)
    assert (one.kind, one.subject_type, one.subject, one.severity) == ("congestion", "endpoint", "10.0.101.0", "info")
    assert "others take 50% of the port of 10.0.101.0" in one.summary
    assert one.evidence["instead_of"] == "slow_nic"


def test_who_sends_to_others_at_once_shares_its_own_port() -> None:
    assert told(*(Flow(0, 5, 1000 * step, 20, 40 * MB) for step in range(9))).subject == "10.0.100.0"


def test_a_port_that_moves_less_than_before_is_broken_whoever_crosses_it() -> None:
    assert told(*(Flow(4, 1, 1000 * step, 20, MB) for step in range(9))) == FINDING


def test_others_at_another_time_or_port_explain_nothing() -> None:
    assert told(*(Flow(4, 1, 1000 * step + 500, 20, 400 * MB) for step in range(9))) == FINDING
    assert told(*(Flow(4, 5, 1000 * step, 20, 40 * MB) for step in range(9))) == FINDING


def test_what_a_job_itself_moves_is_no_other() -> None:
    assert told(*(Flow(2, 1, 1000 * step, 20, 40 * MB) for step in range(9))) == FINDING


def test_other_findings_stay() -> None:
    gpu = replace(FINDING, kind="slow_gpu")
    assert tell_congestion([gpu], "job", batch(SLOW), MEMBERS, WHERE, TimePerByteParams()) == (gpu,)
