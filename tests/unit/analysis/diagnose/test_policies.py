"""Policies: one trouble gives one alarm, and what another finding explains is none of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pytest

from prism_ch.analysis.diagnose import policies
from prism_ch.analysis.diagnose.policies import (
    carry_on_findings,
    doubt_in_gaps,
    no_stall_of_slow_gpu,
    not_by_network,
    with_samples,
    without_waiting_groups,
)
from prism_ch.analysis.incidents.groups import costs_nothing
from prism_ch.model.finding import Baseline, Cause, Finding, Severity
from prism_ch.model.params import Params
from tests.unit.analysis.build import BEGIN_NS, MB, MS, NO_CONTEXT, Flow, batch, finding, steps_of, topology

if TYPE_CHECKING:
    from prism_ch.analysis.diagnose.context import AttemptContext, JobContext

SECOND = 1000 * MS
WHERE = topology(6, leaves=("a", "b"))
LINK = finding(
    kind="slow_link",
    subject_type="link",
    subject="10.0.100.0->10.0.101.0",
    start_ns=BEGIN_NS + 1000 * MS,
    end_ns=BEGIN_NS + 2000 * MS,
    summary="",
)
#: Of each of three pairs: one before the finding, then one fast, two slow, and a control message.
RECORDS = [
    Flow(src, dst, at, length, size)
    for src, dst in ((0, 1), (1, 0), (2, 3))
    for at, length, size in (
        (500, 90, MB),
        (1100, 10, MB),
        (1300, 20, MB),
        (1500, 30, MB),
        (1700, 90, 100),
    )
]


def lasting(first: int, last: int, **changes: Any) -> Finding:
    """A finding of slow steps from one step to another."""
    return finding(kind="slow_step", first_step=first, last_step=last, **changes)


class TestSymptoms:
    """Groups that wait for a slow GPU are a hint of it, not findings of their own."""

    def test_groups_waiting_for_a_gpu_become_evidence_of_steps(self) -> None:
        slow = replace(lasting(10, 20), cause=Cause("slow_gpu", "10.0.0.1"))
        during, after = (replace(lasting(*steps, subject="3"), kind="slow_group") for steps in ((12, 14), (30, 40)))
        step, kept = without_waiting_groups([slow, during, after], NO_CONTEXT)
        assert (step.evidence["slow_groups"], kept) == (["3"], after)


@pytest.mark.parametrize(
    "late_s, first_step, slowdown, is_kept",
    [(0.1, 3, 0.3, False), (0.4, 3, 0.3, True), (0.1, 30, 0.3, True), (0.1, 3, 0.1, True)],
    ids=["waits", "as late as is lost", "began by itself", "network costs less"],
)
def test_gpu_that_waits_for_a_slow_nic_is_no_culprit(
    late_s: float, first_step: int, slowdown: float, is_kept: bool
) -> None:
    nic = finding(subject="10.0.105.0", first_step=first_step, last_step=39, slowdown=slowdown)
    gpu = finding(kind="slow_gpu", last_step=39, observed=1 + late_s, slowdown=0.3, end_ns=BEGIN_NS + 37 * SECOND)
    attempt = SimpleNamespace(network=(nic,), topology=WHERE, params=Params())
    assert not_by_network([gpu], cast("AttemptContext", attempt)) == ((gpu,) if is_kept else ())


@pytest.mark.parametrize("slowdown, is_kept", [(0.002, True), (0.2, False)], ids=["next to nothing", "most"])
def test_gpu_behind_a_link_that_costs_little_is_a_culprit(slowdown: float, is_kept: bool) -> None:
    link = finding(kind="slow_link", subject="10.0.105.0->10.0.106.0", last_step=39, slowdown=slowdown)
    gpu = finding(kind="slow_gpu", last_step=39, observed=1.4, slowdown=0.3, about=("10.0.105.0",))
    attempt = SimpleNamespace(network=(link,), topology=WHERE, params=Params())
    assert not_by_network([gpu], cast("AttemptContext", attempt)) == ((gpu,) if is_kept else ())


@pytest.mark.parametrize("first_new_step, kept", [(0, True), (30, False)], ids=["young", "settled"])
def test_shared_place_slow_earlier_stays_while_the_job_is_young(first_new_step: int, kept: bool) -> None:
    place = finding(kind="slow_switch", first_step=3, last_step=11, status="closed", jobs=("job",))
    job = SimpleNamespace(steps=steps_of([1.0] * 40), holes=(), memory=None)
    seen = {"known": (), "known_of_steps": (), "params": Params(), "first_new_step": first_new_step}
    found = carry_on_findings([place], cast("JobContext", SimpleNamespace(job=job, **seen)))
    assert found == ((place,) if kept else ())


class TestGaps:
    """Slow steps when an exporter falls silent: where the ends of steps are not seen, two look like one."""

    gap = finding(kind="telemetry", start_ns=BEGIN_NS, baseline=Baseline(records_missing=True))
    slow = finding(kind="slow_step", severity="critical", start_ns=BEGIN_NS - SECOND)

    culprit = finding(kind="slow_gpu", subject="host-01")
    blamed: ClassVar[dict[str, Any]] = {"cause": Cause("slow_gpu", "host-01")}

    def doubted(self, found: Sequence[Finding], known: Sequence[Finding] = ()) -> Finding:
        """What becomes of the first of some findings."""
        seen = SimpleNamespace(known=SimpleNamespace(findings=known))
        return doubt_in_gaps(found, cast("JobContext", SimpleNamespace(seen=seen, job_id="job")))[0]

    @pytest.mark.parametrize(
        "changes, graded",
        [
            ({}, "info"),
            ({"start_ns": BEGIN_NS - 3 * SECOND}, "critical"),
            (blamed, "info"),
            ({**blamed, "start_ns": BEGIN_NS + 5 * SECOND}, "critical"),
        ],
        ids=["nobody", "before", "who is late", "who is late later"],
    )
    def test_steps_that_get_slow_in_a_gap_are_doubted(self, changes: dict[str, Any], graded: Severity) -> None:
        one = self.doubted([replace(self.slow, **changes), replace(self.gap, end_ns=BEGIN_NS + 9 * SECOND)])
        assert one.severity == graded
        assert costs_nothing(one) == (graded == "info")

    def test_what_is_found_slow_beside_them_is_to_blame(self) -> None:
        slow = replace(self.slow, **self.blamed)
        assert self.doubted([slow, self.gap, self.culprit]) == slow

    @pytest.mark.parametrize("jobs, graded", [(("job",), "info"), (("other",), "critical")])
    def test_gaps_known_from_before_count(self, jobs: tuple[str, ...], graded: Severity) -> None:
        known = replace(self.gap, baseline=Baseline(records_missing=True, jobs=jobs))
        assert self.doubted([self.slow], [known]).severity == graded

    def test_slow_step_stays_without_a_gap(self) -> None:
        assert self.doubted([self.slow]) == self.slow


@pytest.mark.parametrize(
    "slow, stopped, left",
    [
        ({}, {}, False),
        ({"observed": 1.5}, {}, True),  # shorter than the stop by far
        ({"last_step": 8}, {}, True),
        ({"first_step": 9}, {}, True),  # the one step that the stop made long
        ({"kind": "slow_nic"}, {}, True),
        ({}, {"kind": "hang"}, True),
    ],
)
def test_stall_left_out_where_slow_gpu_explains_it(slow: dict[str, Any], stopped: dict[str, Any], left: bool) -> None:
    cause = finding(**{"kind": "slow_gpu", "observed": 4.0} | slow)
    stop = finding(**{"kind": "stall", "first_step": 9, "observed": 3.5} | stopped)
    assert (stop in no_stall_of_slow_gpu([stop, cause], NO_CONTEXT)) == left


@pytest.fixture(autouse=True)
def two_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "SAMPLE_FLOWS", 2)


def shown(one: Finding) -> list[tuple[str, str, int]]:
    """Sender, receiver and milliseconds since the scene began of each record shown."""
    one = with_samples(one, batch(RECORDS), WHERE)
    samples = one.evidence.get("sample_flows", [])
    assert all(flow["bytes"] >= MB and flow["time_flow_end_ns"] > flow["time_flow_start_ns"] for flow in samples)
    return [
        (flow["src_addr"][-5:], flow["dst_addr"][-5:], (flow["time_flow_start_ns"] - BEGIN_NS) // MS)
        for flow in samples
    ]


def test_a_link_shows_its_slowest_messages_in_one_direction() -> None:
    assert shown(LINK) == [("100.0", "101.0", 1300), ("100.0", "101.0", 1500)]


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "slow_nic", "subject_type": "endpoint", "subject": "10.0.101.0"},
        {
            "kind": "slow_group",
            "subject_type": "group",
            "subject": "4",
            "about": ("10.0.100.0", "10.0.101.0"),
        },
        {
            "kind": "slow_gpu",
            "subject_type": "server",
            "subject": "host-01",
            "about": ("10.0.101.0",),
        },
    ],
)
def test_others_show_messages_of_either_direction(changes: dict[str, Any]) -> None:
    assert shown(replace(LINK, **changes)) == [("100.0", "101.0", 1500), ("101.0", "100.0", 1500)]


def test_a_switch_shows_messages_of_its_endpoints() -> None:
    switch = replace(LINK, kind="slow_switch", subject_type="switch", subject="b")
    assert {flow[0] for flow in shown(switch)} <= {"100.0", "101.0", "102.0"}
    assert len(shown(switch)) == 2


def test_a_finding_about_a_job_shows_any_of_its_messages() -> None:
    assert len(shown(replace(LINK, kind="slow_step", subject_type="job", subject="job"))) == 2


def test_where_no_record_is_left_the_evidence_stays() -> None:
    assert shown(replace(LINK, start_ns=0, end_ns=1)) == []
    assert with_samples(LINK, batch([]), WHERE) == LINK
