"""What an incident costs: beyond the usual step, once a step, and by its share where a job never was healthy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.incidents.cost import Around, costs_of, grade
from prism_ch.analysis.incidents.groups import Claim, Group
from prism_ch.model.finding import Baseline, Cause, Finding, FindingKind, Shown
from prism_ch.model.incident import Incident, JobCost
from prism_ch.model.memory import JobMemory
from prism_ch.model.params import IncidentParams
from prism_ch.model.result import Steps
from tests.unit.analysis.build import BEGIN_NS, MS, known_job, steps_of
from tests.unit.analysis.incidents.test_groups import NIC, SWITCH, said

PARAMS = IncidentParams()


FAULT = Incident("1", "slow_nic", "endpoint", NIC, (), 0.9, BEGIN_NS, BEGIN_NS, BEGIN_NS, "open", "info", "", "")


def job(durations_s: list[float]) -> JobMemory:
    """A job of four GPUs with steps of the given lengths."""
    return replace(known_job("one", range(4), steps=1), steps=steps_of(durations_s), baseline_steps=Steps.empty())


def group(*findings: Finding, job_id: str = "one") -> Group:
    return Group(tuple(Claim(job_id, one) for one in findings))


def cost(
    known: JobMemory, mine: Group, *others: Group, before: tuple[JobCost, ...] = (), counted: tuple[Incident, ...] = ()
) -> JobCost:
    (one,) = costs_of(mine, before, {"one": known}, Around([mine, *others], counted), PARAMS)
    return one


class TestSteps:
    """Ten steps of a second, then six of 1.5 s, then four of a second."""

    known = job([1.0] * 10 + [1.5] * 6 + [1.0] * 4)
    nic = said("slow_nic", 10, 15, NIC, slowdown=0.4)

    def test_steps_cost_what_they_take_beyond_the_usual_one(self) -> None:
        one = cost(self.known, group(self.nic))
        assert [one.gpus, one.lost_s, one.time_s] == pytest.approx([4, 3, 9])

    def test_what_is_slow_in_the_network_costs_no_more_than_itself(self) -> None:
        assert cost(self.known, group(replace(self.nic, slowdown=0.1))).lost_s == pytest.approx(0.1 * 9)

    @pytest.mark.parametrize("slowdown, lost_s", [(0.25, 0.25 * 9), (0.28, 3)])
    def test_what_is_slow_in_the_network_is_why_if_it_explains_most(self, slowdown: float, lost_s: float) -> None:
        assert cost(self.known, group(replace(self.nic, slowdown=slowdown))).lost_s == pytest.approx(lost_s)

    def test_no_step_counts_twice(self) -> None:
        young = job([1.0] * 10 + [1.5] * 3)
        first = cost(young, group(replace(self.nic, last_step=12)))
        both = cost(self.known, group(self.nic), before=(first,))
        assert [first.lost_s, both.lost_s] == pytest.approx([1.5, 3])
        assert cost(self.known, group(self.nic), before=(both,)) == both

    def test_an_estimate_counts_anew_once_healthy_steps_are_known(self) -> None:
        slow = replace(self.nic, first_step=0, last_step=5, slowdown=0.6)
        first = cost(job([1.5] * 6), group(slow))
        later = cost(job([1.5] * 6 + [1.0] * 10), group(slow), before=(first,))
        assert [first.lost_s, later.lost_s] == pytest.approx([0.6 * 9, 3])

    def test_what_ended_before_lost_no_more_than_until_then(self) -> None:
        slow = replace(self.nic, first_step=0, last_step=11, slowdown=0.4)
        first = cost(job([1.5] * 6 + [1.0] * 6), group(slow))
        ended = group(replace(slow, last_step=5))
        later = cost(job([1.5] * 6 + [1.0] * 14), ended, before=(first,))
        assert [first.lost_s, later.lost_s] == pytest.approx([0.4 * 15, 3])

    def test_steps_that_are_not_known_any_more_stay_counted(self) -> None:
        first = cost(job([1.0] * 10 + [1.5] * 5), group(replace(self.nic, last_step=14)))
        newest = replace(self.known, steps=self.known.steps.take(np.arange(13, 20)), baseline_steps=self.known.steps)
        assert cost(newest, group(self.nic), before=(first,)).lost_s == pytest.approx(3)

    def test_what_another_amount_of_work_takes_longer_is_no_loss(self) -> None:
        grown = said("slow_step", 10, 11, baseline=Baseline(other_work=True), status="open")
        known = replace(job([1.0] * 60 + [2.0] * 10 + [2.5] * 6), findings=(replace(grown, first_step=60),))
        assert cost(known, group(replace(self.nic, kind="slow_gpu", first_step=70, last_step=75))).lost_s == 3

    def test_what_comes_again_adds_to_what_was_lost_before(self) -> None:
        first = cost(self.known, group(self.nic))
        again = job([1.0] * 10 + [1.5] * 6 + [1.0] * 10 + [1.5] * 2)
        newest = replace(again, steps=again.steps.take(np.arange(20, 28)), baseline_steps=again.steps)
        assert cost(
            newest,
            group(replace(self.nic, first_step=26, last_step=27, start_ns=BEGIN_NS + 29_000 * MS)),
            before=(first,),
        ).lost_s == pytest.approx(3 + 1)

    def test_no_step_counts_to_an_incident_that_others_counted(self) -> None:
        first = cost(self.known, group(self.nic))
        assert cost(self.known, group(self.nic), counted=(replace(FAULT, costs=(first,)),)).lost_s == 0

    def test_steps_beside_are_its_own_where_they_are_as_long(self) -> None:
        assert cost(self.known, group(replace(self.nic, first_step=12, last_step=13))).lost_s == pytest.approx(3)

    def test_an_unseen_beginning_lost_the_share_of_the_next_step(self) -> None:
        known = job([0.3] + [1.5] * 5 + [1.0] * 10)
        known = replace(known, steps=replace(known.steps, complete=(known.steps.step > 0).astype(np.uint8)))
        slow = replace(self.nic, first_step=1, last_step=5)
        assert cost(known, group(slow)).lost_s == pytest.approx(2.5 + 0.3 / 3)

    def test_two_incidents_share_what_they_slow_together(self) -> None:
        other = group(said("slow_gpu", 10, 15, "10.0.105.0", slowdown=0.1))
        assert cost(self.known, group(self.nic), other).lost_s == pytest.approx(3 * 0.8)

    def test_a_place_and_a_finding_share_what_they_slow_together(self) -> None:
        place = said("slow_switch", 10, 15, SWITCH, jobs=("one",), slowdown=0.1, end_ns=BEGIN_NS + 60_000 * MS)
        other = group(place, job_id="")
        assert cost(self.known, group(self.nic), other).lost_s == pytest.approx(3 * 0.8)

    def test_what_slow_steps_were_compared_with_is_usual(self) -> None:
        slow = said("slow_step", 10, 15, expected=1.25)
        assert cost(self.known, group(self.nic, slow)).lost_s == pytest.approx(1.5)

    def test_a_job_never_healthy_lost_the_share_of_its_cause(self) -> None:
        assert cost(self.known, group(replace(self.nic, first_step=0, last_step=19))).lost_s == pytest.approx(0.4 * 23)

    @pytest.mark.parametrize(
        "told, share", [(0.3, 0.3), (0.0, 0.0), (None, 0.4)], ids=["some", "nothing", "does not see it"]
    )
    def test_a_job_never_healthy_lost_what_a_replay_tells(self, told: float | None, share: float) -> None:
        mine = group(said("slow_nic", 0, 19, NIC, slowdown=0.4))
        (one,) = costs_of(mine, (), {"one": self.known}, Around([mine], replayed=lambda _job, _slow: told), PARAMS)
        assert one.lost_s == pytest.approx(share * 23)

    def test_a_place_costs_a_job_that_shows_nothing_else(self) -> None:
        place = said("slow_switch", 10, 15, SWITCH, jobs=("one",), slowdown=0.4, end_ns=BEGIN_NS + 60_000 * MS)
        assert cost(self.known, group(place, job_id="")).lost_s == pytest.approx(3)

    def test_a_place_costs_each_job_the_share_that_this_one_loses(self) -> None:
        place = said("slow_switch", 0, 19, SWITCH, start_ns=0, end_ns=BEGIN_NS + 60_000 * MS, slowdown=0.4)
        place = replace(place, jobs=("one", "two"), slowdowns={"one": 0.1, "two": 0.4})
        assert cost(self.known, group(place, job_id="")).lost_s == pytest.approx(0.1 * 23)

    @pytest.mark.parametrize(
        "kind, last, caused, named, least_s",
        [
            ("slow_nic", 15, False, (), 0),
            ("slow_group", 15, False, ("10.0.100.0",), 0),
            ("slow_group", 15, False, (), 20),
            ("slow_step", 15, False, (), 2),
            ("slow_step", 17, False, (), 0),
            ("slow_step", 15, True, (), 0),
        ],
        ids=[
            "NIC",
            "group by its links",
            "group by its peers",
            "nobody, for seconds",
            "nobody, in many steps",
            "somebody",
        ],
    )
    def test_loss_is_taken_over_steps_that_vary_by_themselves(
        self, kind: FindingKind, last: int, caused: bool, named: tuple[str, ...], least_s: float
    ) -> None:
        cause = Cause("slow_gpu", "10.0.100.0") if caused else None
        one = said(kind, 10, last, NIC if kind == "slow_nic" else "1", may_also_be=named, cause=cause)
        assert cost(self.known, group(one)).least_s == pytest.approx(least_s * self.known.job.step_s_median)

    @pytest.mark.parametrize("caused, otherwise", [(True, 8), (False, 20)])
    @pytest.mark.parametrize("lost_s, others_s, alone", [(1.5, 1.2, True), (1.5, 2.0, False), (0.9, 1.0, False)])
    def test_one_step_stands_alone_if_no_other_lost_half_as_much(
        self, caused: bool, otherwise: int, lost_s: float, others_s: float, alone: bool
    ) -> None:
        known = job([1.0] * 8 + [others_s, 1.0, 1.0 + lost_s])
        cause = Cause("slow_gpu", "10.0.100.0") if caused else None
        one = said("slow_step", 10, 10, observed=1.0 + lost_s, expected=1.0, cause=cause)
        least = (1 if caused else 2) if alone else otherwise
        assert cost(known, group(one)).least_s == pytest.approx(least * known.job.step_s_median)

    @pytest.mark.parametrize("count, alone", [(5, False), (8, True)])
    def test_of_few_others_one_step_must_lose_more_than_twice(self, count: int, alone: bool) -> None:
        """It loses three times what any other does."""
        known = job([1.0] * count + [2.0, 1.0, 4.0])
        one = said("slow_step", count + 2, count + 2, observed=4.0, expected=1.0)
        assert cost(known, group(one)).least_s == pytest.approx((2 if alone else 20) * known.job.step_s_median)

    @pytest.mark.parametrize(
        "others_s, caused, shown, alone",
        [
            ([1.1] + [1.0] * 16, True, "either", True),
            ([1.1] + [1.0] * 15, True, "either", False),
            ([1.2] + [1.0] * 16, True, "either", False),
            ([1.1] + [1.0] * 15 + [1.2], True, "nothing", True),
            ([1.1] + [1.0] * 16, False, "either", True),
            ([1.1] + [1.0] * 16, False, "nothing", False),
            ([1.1] + [1.0] * 16, True, "pause", False),
            ([1.2] + [1.0] * 15, True, "slow", True),
        ],
        ids=[
            "lost twice as much as any",
            "of few",
            "lost half as much",
            "a part beside",
            "somebody",
            "nobody",
            "a pause",
            "all operations",
        ],
    )
    def test_one_short_step_stands_alone_beside_its_jobs_hiccups(
        self, others_s: list[float], caused: bool, shown: Shown, alone: bool
    ) -> None:
        known = job([*others_s, 1.3])
        cause = Cause("slow_gpu", "10.0.100.0") if caused else None
        at = len(others_s)
        one = said("slow_step", at, at, observed=1.3, expected=1.0, cause=cause, shown=shown)
        least = (1 if caused else 2) if alone else 8 if caused and shown != "pause" else 20
        assert cost(known, group(one)).least_s == pytest.approx(least * known.job.step_s_median)

    def test_slow_steps_inside_slow_ones_show_nothing_usual(self) -> None:
        slow = said("slow_step", 12, 12, expected=1.5)
        nic = replace(self.nic, first_step=0, last_step=19)
        assert cost(self.known, group(nic, slow)).lost_s == pytest.approx(0.4 * 23)

    def test_a_slow_first_step_of_a_slow_job_shows_nothing_usual(self) -> None:
        first, nic = said("slow_step", 0, 0, expected=1.0), replace(self.nic, first_step=1, last_step=19)
        assert cost(self.known, group(nic, first)).lost_s == pytest.approx(0.4 * 23)

    def test_a_slower_step_of_a_slow_job_shows_nothing_usual(self) -> None:
        """It was compared with the steps after it, of which the last two are healthy."""
        first, nic = said("slow_step", 0, 0, expected=1.5), replace(self.nic, first_step=0, last_step=17)
        assert cost(job([1.7] + [1.5] * 17 + [1.0] * 2), group(nic, first)).lost_s == pytest.approx(0.7 + 17 * 0.5)

    def test_a_step_that_is_only_touched_is_no_whole_one(self) -> None:
        one = cost(job([1.0] * 10 + [1.5, 1.1] + [1.0] * 4), group(replace(self.nic, kind="slow_gpu", last_step=10)))
        assert [one.lost_s, one.time_s] == pytest.approx([0.6, 1.5 + 0.2 * 1.1])

    @pytest.mark.parametrize("later_s, lost_s", [(1.0, 0.5), (0.7, 0.8)], ids=["made up", "quicker"])
    def test_a_step_that_the_next_one_makes_up_for_cost_less(self, later_s: float, lost_s: float) -> None:
        known = job([1.0] * 10 + [1.8, 0.7] + [later_s] * 3)
        assert cost(known, group(said("slow_gpu", 10, 10))).lost_s == pytest.approx(lost_s)

    def test_windows_tell_their_own_of_a_never_healthy_job(self) -> None:
        whole = replace(self.nic, kind="slow_gpu", first_step=0, last_step=19)
        first = cost(job([1.5] * 10), group(replace(whole, last_step=9)))
        both = cost(job([1.5] * 20), group(replace(whole, slowdown=0.1)), before=(first,))
        assert [first.lost_s, both.lost_s] == pytest.approx([0.4 * 15, 0.4 * 15 + 0.1 * 15])

    def test_growth_that_nobody_saw_is_lost_but_no_share(self) -> None:
        growth_s = np.maximum(np.arange(100) - 39, 0) * 0.005
        known = job((1.0 + growth_s).tolist())
        whole = cost(known, group(said("slow_gpu", 80, 99)))
        seen_s = growth_s[80:].sum()
        assert whole.lost_s == pytest.approx(growth_s.sum(), rel=1e-3)
        assert whole.unseen_s == pytest.approx(growth_s[:80].sum(), rel=1e-3)
        assert whole.share == pytest.approx(seen_s / (20 + seen_s), rel=1e-3)
        half = cost(job(known.steps.duration_s[:90].tolist()), group(said("slow_gpu", 80, 89)))
        both = cost(known, group(said("slow_gpu", 80, 99)), before=(half,))
        assert (both.lost_s, both.unseen_s) == pytest.approx((whole.lost_s, whole.unseen_s), rel=1e-3)

    @pytest.mark.parametrize("first", [60, 85], ids=["growth", "both"])
    def test_what_is_lost_stays_when_its_steps_are_forgotten(self, first: int) -> None:
        """And newer ones are compared with the same: what is remembered from before had grown longer as well."""
        growth_s = np.maximum(np.arange(120) - 39, 0) * 0.005
        known = job((1.0 + growth_s).tolist())
        whole = cost(known, group(said("slow_gpu", 80, 119)))
        half = cost(job(known.steps.duration_s[:100].tolist()), group(said("slow_gpu", 80, 99)))
        later = replace(known, steps=known.steps.take(np.arange(first, 120)))
        both = cost(later, group(said("slow_gpu", 80, 119)), before=(half,))
        assert (both.lost_s, both.unseen_s) == pytest.approx((whole.lost_s, whole.unseen_s), rel=1e-3)

    def test_a_job_that_turns_out_larger_lost_more(self) -> None:
        first = cost(self.known, group(self.nic))
        whole = known_job("one", range(8), steps=1)
        larger = replace(self.known, members=whole.members, gpu_steps=whole.gpu_steps)
        assert cost(larger, group(self.nic), before=(first,)).lost_gpu_s == 2 * first.lost_gpu_s
        assert cost(self.known, group(self.nic), before=(replace(first, gpus=8),)).gpus == 8

    def test_what_grows_and_something_else_are_two_things(self) -> None:
        lengths_s = 1.0 + np.maximum(np.arange(100) - 39, 0) * 0.001
        lengths_s[90] = 2.0
        found = cost(job(lengths_s.tolist()), group(said("slow_gpu", 90, 90)))
        assert found.lost_s == pytest.approx(1.0, abs=0.06)
        assert found.unseen_s == 0

    def test_missing_records_cost_no_time(self) -> None:
        assert cost(self.known, group(said("telemetry", 10, 15))).lost_s == 0


@pytest.mark.parametrize("next_s, lost_s", [(1.5, 1.0), (0.0, 0.0)])
def test_unseen_step_lost_the_share_of_the_next_one(next_s: float, lost_s: float) -> None:
    known = job([1.0] * 10 + [1.5, next_s] + [1.0] * 3)
    complete = np.where(np.arange(15) == 10, 0, 1).astype(np.uint8)
    known = replace(known, steps=replace(known.steps, complete=complete))
    slow = said("slow_gpu", 10, 11, slowdown=0.4)
    assert cost(known, group(slow)).lost_s == pytest.approx(lost_s)


def test_a_stop_costs_its_own_time_once() -> None:
    known, hang = job([1.0] * 10), said("hang", 10, 10, lost_s=20.0, end_ns=BEGIN_NS + 31_000 * MS)
    first = cost(known, group(hang))
    assert (first.lost_s, first.time_s) == (20, 21)
    assert cost(known, group(replace(hang, lost_s=25.0)), before=(first,)).lost_s == 25
    assert cost(known, group(hang, said("slow_step", 9, 10))) == first


def test_a_restart_found_anew_costs_what_it_is_known_to() -> None:
    """While it was not known when the job would go on it seemed to last for longer."""
    known, restart = job([1.0] * 10), said("restart", 10, 10, lost_s=20.0, end_ns=BEGIN_NS + 31_000 * MS)
    first = cost(known, group(restart))
    again = replace(restart, lost_s=15.0, end_ns=BEGIN_NS + 26_000 * MS)
    second = cost(known, group(again), before=(first,))
    assert second.lost_s == 15
    assert cost(known, group(again.remembered()), before=(second,)) == second


def test_a_restart_that_may_be_the_end_takes_back_no_loss() -> None:
    """Members that connect anew may do so after the job's end: while that is not known it tells no loss."""
    known, restart = job([1.0] * 10), said("restart", 10, 10, lost_s=20.0, end_ns=BEGIN_NS + 31_000 * MS)
    first = cost(known, group(restart))
    presumed = Baseline(presumed=True, maybe_ended=True)
    again = replace(restart, lost_s=0.0, end_ns=BEGIN_NS + 26_000 * MS, baseline=presumed)
    assert cost(known, group(again), before=(first,)).lost_s == 20


def test_a_stop_that_proves_to_be_slow_steps_counts_once() -> None:
    """It was over before its step was, and the next steps are slow as well."""
    stall = said("stall", 10, 10, lost_s=0.3, end_ns=BEGIN_NS + 11_400 * MS)
    first = cost(job([1.0] * 10 + [1.5]), group(stall))
    slow = cost(job([1.0] * 10 + [1.5] * 3), group(said("slow_nic", 10, 12, NIC, slowdown=0.4)), before=(first,))
    assert (first.lost_s, slow.lost_s, slow.time_s) == pytest.approx((0.3, 1.5, 4.5))


@pytest.mark.parametrize(
    "lost_s, time_s, gpus, severity",
    [
        (4.0, 100.0, 4, "info"),
        (5.0, 100.0, 4, "warning"),
        (20.0, 100.0, 4, "critical"),
        (0.5, 1.0, 4, "info"),  # half of one step of a second, but a fortieth of 20
        (4.0, 1000.0, 150, "warning"),  # 10 GPU-minutes
        (40.0, 10_000.0, 900, "critical"),  # 10 GPU-hours
    ],
)
def test_grade_follows_the_share_or_the_gpu_time_lost(lost_s: float, time_s: float, gpus: int, severity: str) -> None:
    costs = (JobCost("one", "acme", gpus, lost_s, time_s, least_s=20.0),)
    assert grade(replace(FAULT, costs=costs), PARAMS) == severity


def test_a_place_is_graded_by_the_job_that_it_slows_most() -> None:
    costs = JobCost("one", "acme", 4, 16.0, 100.0), JobCost("two", "bolt", 16, 0.0, 100.0)
    fault = Incident(
        "1", "slow_switch", "switch", "leaf", (), 0.9, BEGIN_NS, BEGIN_NS, BEGIN_NS, "open", "info", "", "", costs
    )
    assert fault.slowdown < PARAMS.warning_slowdown
    assert grade(fault, PARAMS) == "warning"
