"""Incidents over windows: one keeps its name while it lasts, and its findings never say more than it does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from prism_ch.analysis.continuity.publish import remember_findings, remember_window, unchanged
from prism_ch.analysis.incidents.groups import named
from prism_ch.analysis.incidents.incidents import find_incidents
from prism_ch.analysis.incidents.words import HIDDEN
from prism_ch.model.exporter import ExporterStates
from prism_ch.model.finding import Baseline, Cause, Finding
from prism_ch.model.incident import Incident
from prism_ch.model.memory import JobMemory, WindowMemory, WindowRevision
from prism_ch.model.params import Params
from prism_ch.model.window import Window
from tests.unit.analysis.build import BEGIN_NS, MS, known_job, topology
from tests.unit.analysis.incidents.test_groups import NIC, SWITCH, said

NO_EXPORTERS = ExporterStates.unknown(())
PARAMS, WHERE = Params(), topology(8, leaves=(SWITCH, "leaf-b"))
ONE, TWO = known_job("one", range(4), steps=40), known_job("two", range(4, 8), tenant="bolt", steps=40)
STEPS = said("slow_step", 10, 20, slowdown=0.3)
NIC_SLOW = said("slow_nic", 10, 20, NIC, slowdown=0.3, confidence=0.9)


def window(number: int) -> Window:
    """Windows of a minute from the beginning on."""
    return Window(BEGIN_NS + number * 60_000 * MS, BEGIN_NS + (number + 1) * 60_000 * MS)


def _with_step(job: JobMemory, step: int, duration_s: float) -> JobMemory:
    """A job one of whose steps takes so long."""
    longer_ns = round((duration_s - job.steps.duration_s[step]) * 1000) * MS
    later = job.steps.step >= step
    return replace(
        job,
        steps=replace(
            job.steps,
            start_ns=job.steps.start_ns + np.where(job.steps.step > step, longer_ns, 0),
            end_ns=job.steps.end_ns + np.where(later, longer_ns, 0),
        ),
    )


def judged(memory: WindowMemory) -> tuple[object, ...]:
    """What is remembered of findings and incidents."""
    return memory.findings, memory.incidents, [(job.job.job_id, job.findings, job.pauses) for job in memory.jobs]


class Story:
    """Windows worked one after the other."""

    def __init__(self) -> None:
        self.memory = WindowMemory(jobs=(ONE, TWO))
        self.number = 0
        self.revision = WindowRevision((), (), (), NO_EXPORTERS)

    def next(
        self, found: dict[str, tuple[Finding, ...]], withdrawn: tuple[str, ...] = (), **changes: int
    ) -> dict[str, Incident]:
        """Work a window in which jobs show findings; return the incidents that it publishes, whole."""
        known = {job.job.job_id: job for job in self.memory.jobs}
        jobs = tuple(replace(self._revised(known[name], of), **changes) for name, of in found.items() if name)
        revision, now = WindowRevision(jobs, withdrawn, found.get("", ()), NO_EXPORTERS), window(self.number)
        after = remember_window(self.memory, revision, now, PARAMS.going_on, PARAMS.incident.quiet_s)
        self.revision = find_incidents(revision, self.memory, after, now, WHERE, PARAMS.incident)
        quiet_s = PARAMS.incident.quiet_s
        anew = remember_window(self.memory, self.revision, now, PARAMS.going_on, quiet_s)
        self.memory = remember_findings(after, self.memory, self.revision, now, PARAMS.going_on, quiet_s)
        assert judged(self.memory) == judged(anew)
        self.number += 1
        return {one.incident_id: one for one in self.revision.incidents if not one.tenant}

    @staticmethod
    def _revised(job: JobMemory, findings: tuple[Finding, ...]) -> Any:
        return replace(unchanged(job), findings=findings)

    def findings(self, job: str) -> list[Finding]:
        """The findings on a job that the last window publishes."""
        return [one for revision in self.revision.jobs if revision.job.job_id == job for one in revision.findings]


def closed(*findings: Finding) -> tuple[Finding, ...]:
    return tuple(replace(one, status="closed") for one in findings)


class TestOverWindows:
    """An incident begins as a symptom, is named, and ends."""

    def test_slow_steps_that_turn_out_to_be_nobodys_are_withdrawn(self) -> None:
        story = Story()
        ((name, first),) = story.next({"one": (STEPS,)}).items()
        other = replace(STEPS, slowdown=0.0, baseline=Baseline(other_work=True))
        ((same, last),) = story.next({"one": (other,)}).items()
        assert (name, first.status, first.is_withdrawn) == (same, "open", False)
        assert (last.status, last.is_withdrawn) == ("closed", True)

    def test_one_name_from_the_first_symptom_to_the_end(self) -> None:
        story = Story()
        ((name, first),) = story.next({"one": (STEPS,)}).items()
        ((same, named),) = story.next({"one": (STEPS, NIC_SLOW)}).items()
        ((last, over),) = story.next({"one": closed(STEPS, NIC_SLOW)}).items()
        assert name == same == last
        assert [(one.kind, one.subject, one.status) for one in (first, named, over)] == [
            ("slow_step", "job", "open"),
            ("slow_nic", NIC, "open"),
            ("slow_nic", NIC, "closed"),
        ]
        assert {one.incident_id for one in story.findings("one")} == {name}

    def test_the_culprit_stays_where_only_a_symptom_is_left(self) -> None:
        story = Story()
        ((name, _),) = story.next({"one": (NIC_SLOW,)}).items()
        story.next({"one": closed(NIC_SLOW)})
        ((again, one),) = story.next({"one": (said("slow_step", 24, 30, slowdown=0.3),)}).items()
        assert (again, one.kind, one.subject, one.status) == (name, "slow_nic", NIC, "open")

    def test_slow_again_at_the_same_place_is_the_same(self) -> None:
        story = Story()
        ((name, _),) = story.next({"one": (NIC_SLOW,)}).items()
        story.next({"one": closed(NIC_SLOW)})
        later = said("slow_nic", 30, 35, NIC, slowdown=0.3)
        ((again, one),) = story.next({"one": (later,)}).items()
        assert (again, one.status, one.start_ns) == (name, "open", NIC_SLOW.start_ns)

    def test_what_came_again_stays_one_when_judged_anew(self) -> None:
        story = Story()
        story.next({"one": (NIC_SLOW,)})
        story.next({"one": closed(NIC_SLOW)})
        worse = said("slow_nic", 30, 35, NIC, slowdown=0.5)
        ((name, _),) = story.next({"one": closed(worse)}).items()
        ((again, one),) = story.next({"one": closed(NIC_SLOW, worse)}).items()
        assert (again, one.start_ns, one.end_ns) == (name, NIC_SLOW.start_ns, worse.end_ns)

    def test_what_is_over_keeps_its_name_when_judged_anew(self) -> None:
        story = Story()
        story.next({"one": (STEPS, NIC_SLOW)})
        ((name, _),) = story.next({"one": closed(STEPS, NIC_SLOW)}).items()
        other = said("slow_gpu", 12, 19, "10.0.105.0", slowdown=0.3)
        steps = said("slow_step", 11, 19, cause=Cause("slow_gpu", other.subject))
        ((again, one),) = story.next({"one": closed(steps, other)}).items()
        assert (again, one.subject, one.status, one.end_ns) == (name, NIC, "closed", NIC_SLOW.end_ns)
        assert [(each.kind, named(each)) for each in story.findings("one")] == [("slow_step", NIC)]

    @pytest.mark.parametrize(
        "kind, first, same", [("slow_gpu", 25, True), ("slow_gpu", 60, False), ("slow_step", 60, False)]
    )
    def test_what_is_named_otherwise_much_later_is_another(self, kind: str, first: int, same: bool) -> None:
        story = Story()
        ((name, _),) = story.next({"one": (NIC_SLOW,)}).items()
        story.next({"one": closed(NIC_SLOW)})
        subject = NIC if kind == "slow_gpu" else "job"
        ((later, _),) = story.next({"one": (said(kind, first, first + 9, subject, slowdown=0.3),)}).items()
        assert (later == name) is same

    def test_a_job_that_says_nothing_keeps_its_incident(self) -> None:
        story = Story()
        story.next({"one": (NIC_SLOW,)})
        assert story.next({"two": ()}) == {}
        assert [one.status for one in story.memory.incidents] == ["open"]

    def test_an_incident_of_a_job_that_was_none_is_withdrawn(self) -> None:
        story = Story()
        story.next({"one": (NIC_SLOW,)})
        (gone,) = story.next({}, withdrawn=("one",)).values()
        assert gone.is_withdrawn

    def test_stop_has_one_name_whatever_it_turns_out_to_be(self) -> None:
        shown: dict[str, Any] = {"diagnosis_id": "stop", "lost_s": 2.0, "slowdown": 0.5}
        hang, stall = said("hang", 12, 14, NIC, **shown), said("stall", 12, 14, **shown)
        assert [*Story().next({"one": (hang,)})] == [*Story().next({"one": (stall,)})]

    @pytest.mark.parametrize("from_ns, withdrawn", [(BEGIN_NS, True), (BEGIN_NS + 60_000 * MS, False)])
    @pytest.mark.parametrize(
        "first", [said("stall", 12, 14, lost_s=2.0, slowdown=0.5), said("slow_gpu", 8, 14, "10.0.105.0", slowdown=0.3)]
    )
    def test_what_is_told_anew_as_another_is_withdrawn(self, first: Finding, from_ns: int, withdrawn: bool) -> None:
        story = Story()
        ((name, _),) = story.next({"one": closed(first)}).items()
        later = story.next({"one": (NIC_SLOW,)}, from_time_ns=from_ns)
        assert {one.subject for one in later.values() if not one.is_withdrawn} == {NIC}
        assert [key for key, one in later.items() if one.is_withdrawn] == ([name] if withdrawn else [])

    def test_what_is_told_anew_without_another_is_over(self) -> None:
        story = Story()
        story.next({"one": (NIC_SLOW,)})
        (one,) = story.next({"one": ()}, from_time_ns=BEGIN_NS).values()
        assert (one.status, one.is_withdrawn) == ("closed", False)

    @pytest.mark.parametrize("last, names", [(20, [NIC]), (8, ["3", NIC])])
    def test_what_a_cause_showed_before_it_was_known_is_its(self, last: int, names: list[str]) -> None:
        story = Story()
        first = story.next({"one": (said("slow_group", 2, last, "3", slowdown=0.3),)})
        later = first | story.next({"one": (NIC_SLOW,)})
        assert sorted(one.subject for one in later.values() if not one.is_withdrawn) == sorted(names)

    def test_symptoms_of_two_jobs_join_at_their_place(self) -> None:
        story = Story()
        one, two = (said("slow_step", 10, 20, name, slowdown=0.3) for name in ("one", "two"))
        steps: dict[str, tuple[Finding, ...]] = {"one": (one,), "two": (two,)}
        first = story.next(steps)
        switch = said("slow_switch", 0, 0, SWITCH, jobs=("one", "two"), slowdown=0.3, end_ns=STEPS.end_ns)
        both = story.next({**steps, "": (switch,)})
        assert (len(first), sorted(one.is_withdrawn for one in both.values())) == (2, [False, True])
        (kept,) = (one for one in both.values() if not one.is_withdrawn)
        assert (kept.subject, kept.jobs, kept.tenants, kept.gpus) == (SWITCH, ("one", "two"), ("acme", "bolt"), 8)
        assert kept.incident_id in first


class TestFindings:
    """What is published of findings agrees with their incident."""

    def test_a_symptom_never_outranks_its_cause(self) -> None:
        story = Story()
        (incident,) = story.next({"one": (STEPS, replace(NIC_SLOW, slowdown=0.01))}).values()
        grades = {one.kind: one.severity for one in story.findings("one")}
        assert grades["slow_nic"] == incident.severity
        assert grades["slow_step"] in (incident.severity, "info")

    def test_what_names_another_culprit_is_dropped(self) -> None:
        story = Story()
        other = said("slow_gpu", 10, 20, "10.0.105.0", slowdown=0.2)
        story.next({"one": (other,)})
        (incident,) = story.next({"one": (NIC_SLOW, other)}).values()
        gone = next(one for one in story.findings("one") if one.kind == "slow_gpu")
        assert (incident.subject, gone.status, gone.incident_id, gone.severity) == (NIC, "closed", "", "info")

    @pytest.mark.parametrize("lost_s, severity", [(1.1, "critical"), (0.9, "warning")])
    def test_what_may_be_a_hiccup_is_at_most_a_warning(self, lost_s: float, severity: str) -> None:
        story = Story()
        named = Cause("slow_gpu", NIC)
        slow = said("slow_step", 20, 20, observed=1.0 + lost_s, expected=1.0, slowdown=0.3, cause=named)
        story.memory = replace(story.memory, jobs=(_with_step(ONE, 20, 1.0 + lost_s), TWO))
        [incident] = story.next({"one": (slow,)}).values()
        assert incident.severity == severity

    @pytest.mark.parametrize("maybe, severity", [(False, "critical"), (True, "warning")])
    def test_what_may_be_other_work_is_at_most_a_warning(self, maybe: bool, severity: str) -> None:
        story = Story()
        steps = replace(STEPS, slowdown=0.6, baseline=Baseline(maybe_other_work=maybe))
        (incident,) = story.next({"one": (replace(steps, expected=0.4),)}).values()
        assert incident.severity == severity
        assert {one.severity for one in story.revision.incidents} == {severity}

    def test_what_costs_nothing_is_no_incident(self) -> None:
        story = Story()
        assert story.next({"one": (said("imbalance", 0, 30, slowdown=0.0),)}) == {}
        (shape,) = story.findings("one")
        assert (shape.incident_id, shape.severity) == ("", "info")


def test_a_tenant_sees_his_part_and_no_name_of_others() -> None:
    story = Story()
    switch = said("slow_switch", 0, 0, SWITCH, jobs=("one", "two"), slowdown=0.3, end_ns=STEPS.end_ns)
    switch = replace(switch, may_also_be=("10.0.101.0",), summary=f"Flows through {SWITCH} are slow")
    story.next({"one": (STEPS,), "two": (STEPS,), "": (switch,)})
    (part,) = (one for one in story.revision.incidents if one.tenant == "bolt")
    assert (part.jobs, part.tenants, part.gpus, part.subject, part.may_also_be) == (("two",), ("bolt",), 4, HIDDEN, ())
    assert SWITCH not in part.summary + part.action
    (whole,) = (one for one in story.revision.incidents if not one.tenant)
    assert whole.lost_gpu_h == sum(one.lost_gpu_h for one in story.revision.incidents if one.tenant)
