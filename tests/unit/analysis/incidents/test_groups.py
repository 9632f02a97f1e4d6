"""Which findings are one incident: a symptom goes to its cause, and a place explains all jobs that meet there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from prism_ch.analysis.incidents.groups import Claim, Group, costs_nothing, grouped, is_contradicted
from prism_ch.analysis.incidents.words import tell
from prism_ch.model.finding import Baseline, Cause, Finding
from prism_ch.model.params import IncidentParams
from tests.unit.analysis.build import BEGIN_NS, MS, finding

PARAMS = IncidentParams()
NIC, SWITCH = "10.0.100.0", "leaf-a"


def said(kind: Any, first: int, last: int, subject: str = "job", **changes: Any) -> Finding:
    """A finding on steps of a second each."""
    span = {"start_ns": BEGIN_NS + first * 1000 * MS, "end_ns": BEGIN_NS + (last + 1) * 1000 * MS}
    types = {"slow_nic": "endpoint", "slow_gpu": "endpoint", "slow_switch": "switch", "slow_group": "group"}
    name = {"subject_type": types.get(kind, "job"), "subject": subject, "diagnosis_id": f"{kind} {first} {subject}"}
    return finding(**{"kind": kind, "first_step": first, "last_step": last, **name, **span, **changes})


def incidents(*claims: Claim) -> list[list[str]]:
    """The kinds of findings by incident, the cause first."""
    return sorted([claim.finding.kind for claim in group.claims] for group in grouped(claims, PARAMS))


def of_one_job(*findings: Finding) -> list[list[str]]:
    return incidents(*(Claim("job", one) for one in findings))


class TestOneJob:
    """One cause shows on many ranks and links of a job."""

    def test_symptoms_go_to_the_cause_however_much_they_weigh(self) -> None:
        steps, group = said("slow_step", 11, 20, slowdown=0.4), said("slow_group", 12, 19, "3", slowdown=0.5)
        assert of_one_job(steps, group, said("slow_nic", 10, 20, NIC)) == [["slow_nic", "slow_group", "slow_step"]]

    def test_what_does_not_meet_is_another_incident(self) -> None:
        assert of_one_job(said("slow_step", 30, 31), said("slow_nic", 10, 20, NIC)) == [["slow_nic"], ["slow_step"]]

    @pytest.mark.parametrize("first, many", [(11, 1), (25, 2)])
    def test_of_causes_that_began_together_one_is_wrong(self, first: int, many: int) -> None:
        both = said("slow_nic", 10, 40, NIC, slowdown=0.3), said("slow_gpu", first, 40, "10.0.105.0", slowdown=0.1)
        assert len(of_one_job(*both)) == many

    def test_slow_steps_that_name_whom_they_wait_for_are_a_cause(self) -> None:
        steps = said("slow_step", 10, 20, cause=Cause("slow_gpu", NIC))
        assert of_one_job(said("slow_group", 10, 20, "3", slowdown=0.5), steps) == [["slow_step", "slow_group"]]

    def test_group_as_slow_as_one_of_its_links_causes_slow_steps(self) -> None:
        group = said("slow_group", 10, 20, "3", slowdown=0.1, may_also_be=(NIC, "10.0.105.0"))
        assert of_one_job(said("slow_step", 10, 20, slowdown=0.4), group) == [["slow_group", "slow_step"]]
        assert not is_contradicted(group, {NIC})
        assert is_contradicted(group, {"10.0.106.0"})
        assert not is_contradicted(replace(group, may_also_be=()), {"10.0.106.0"})

    @pytest.mark.parametrize("kind, subject_type", [("slow_switch", "switch"), ("slow_group", "group")])
    def test_slow_steps_tell_the_type_of_their_cause(self, kind: Any, subject_type: Any) -> None:
        steps = said("slow_step", 10, 20, cause=Cause(kind, "3", (NIC,), subject_type))
        told = tell(Group((Claim("job", steps),)))
        assert (told.kind, told.subject_type, told.subject, told.may_also_be) == (kind, subject_type, "3", (NIC,))

    def test_stops_that_follow_without_a_pause_are_one(self) -> None:
        hang, restart, stall = said("hang", 10, 19), said("restart", 20, 24, start_ns=BEGIN_NS), said("stall", 40, 41)
        assert of_one_job(hang, restart, stall) == [["hang", "restart"], ["stall"]]

    def test_of_stops_that_begin_together_the_longer_is_told(self) -> None:
        stall = said("stall", 10, 12)
        restart = said("restart", 10, 12, end_ns=stall.end_ns + MS)
        for both in ((stall, restart), (restart, stall)):
            (group,) = grouped([Claim("job", one) for one in both], PARAMS)
            assert group.cause.kind == "restart"

    def test_missing_records_are_no_cause(self) -> None:
        missing = said("telemetry", 10, 20, "10.1.1.1", subject_type="exporter")
        assert of_one_job(missing, said("slow_step", 10, 20)) == [["slow_step"], ["telemetry"]]


class TestSeveralJobs:
    """What is slow where several jobs meet is one incident."""

    shared = Claim("", said("slow_switch", 10, 20, SWITCH, jobs=("one", "two")))

    def test_a_place_explains_the_jobs_that_it_slows(self) -> None:
        steps = (Claim(job, said("slow_step", 11, 20)) for job in ("one", "two", "three"))
        assert incidents(*steps, self.shared) == [["slow_step"], ["slow_switch", "slow_step", "slow_step"]]

    def test_a_place_explains_no_stop(self) -> None:
        assert incidents(Claim("one", said("hang", 10, 20)), self.shared) == [["hang"], ["slow_switch"]]

    def test_one_nic_of_two_jobs_is_one_incident(self) -> None:
        assert incidents(*(Claim(job, said("slow_nic", 10, 20, NIC)) for job in ("one", "two"))) == [["slow_nic"] * 2]

    def test_groups_of_the_same_number_are_their_jobs_own(self) -> None:
        groups = (Claim(job, said("slow_group", 10, 20, "3")) for job in ("one", "two"))
        assert incidents(*groups) == [["slow_group"], ["slow_group"]]


@pytest.mark.parametrize(
    "changes, nothing",
    [
        ({}, False),
        ({"slowdown": 0.0}, True),
        ({"kind": "imbalance"}, True),
        ({"baseline": Baseline(other_work=True)}, True),
        ({"kind": "telemetry", "slowdown": 0.0}, False),
    ],
)
def test_what_nobody_is_to_blame_for_costs_nothing(changes: dict[str, Any], nothing: bool) -> None:
    assert costs_nothing(finding(**changes)) == nothing
