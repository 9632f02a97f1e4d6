"""Episodes: one trouble is one finding, from its first to its last step, whenever it is looked at."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.analysis.diagnose.episodes import carry_on, continues, episodes
from prism_ch.analysis.diagnose.findings import identity, severity
from prism_ch.model.finding import Cause, Finding, Severity
from prism_ch.model.params import DiagnoseParams

PARAMS = DiagnoseParams(repeats=3)


def rows(text: str) -> list[bool]:
    """Steps as a person draws them: `x` is an abnormal one."""
    return [letter == "x" for letter in text]


def finding(first: int, last: int, *, diagnosis_id: str = "new", closed: bool = False, subject: str = "job") -> Finding:
    return Finding(
        diagnosis_id=diagnosis_id,
        kind="slow_step",
        subject_type="job",
        subject=subject,
        first_step=first,
        last_step=last,
        start_ns=first * 1000,
        end_ns=last * 1000 + 999,
        status="closed" if closed else "open",
        severity="warning",
        observed=2.0,
        expected=1.0,
        score=9.0,
        slowdown=0.1,
        summary=f"{first} to {last}",
    )


class TestEpisodes:
    @pytest.mark.parametrize(
        "text, expected",
        [
            ("", []),
            ("....", []),
            ("x...", [(0, 0, True)]),
            ("x..", [(0, 0, False)]),
            (".xx.x...", [(1, 4, True)]),
            ("x..x...x", [(0, 3, True), (7, 7, False)]),
            ("xxxx", [(0, 3, False)]),
        ],
    )
    def test_three_normal_steps_close_an_episode(self, text: str, expected: list[tuple[int, int, bool]]) -> None:
        assert [(one.first, one.last, one.closed) for one in episodes(rows(text), 3)] == expected

    def test_an_episode_knows_which_of_its_steps_were_abnormal(self) -> None:
        assert episodes(rows(".x.xx."), 3)[0].abnormal == (1, 3, 4)

    @given(st.lists(st.booleans(), max_size=40), st.integers(1, 5))
    def test_each_abnormal_step_in_one_episode_all_far_apart(self, bad: list[bool], close: int) -> None:
        found = episodes(bad, close)
        assert [row for one in found for row in one.abnormal] == [row for row, is_bad in enumerate(bad) if is_bad]
        for one, following in pairwise(found):
            assert following.first - one.last > close
            assert one.closed


class TestIdentity:
    def test_the_same_trouble_has_the_same_name(self) -> None:
        assert identity("job", "slow_step", "job", 30) == identity("job", "slow_step", "job", 30)

    def test_identity_differs_by_job_kind_subject_and_beginning(self) -> None:
        names = {
            identity("job", "slow_step", "job", 30),
            identity("other", "slow_step", "job", 30),
            identity("job", "slow_group", "job", 30),
            identity("job", "slow_step", "1", 30),
            identity("job", "slow_step", "job", 31),
        }
        assert len(names) == 5


class TestCarryOn:
    def test_what_was_open_keeps_its_name_and_its_beginning(self) -> None:
        (said,) = carry_on([finding(30, 40, diagnosis_id="old")], [finding(38, 45)], 41, PARAMS)
        assert (said.diagnosis_id, said.first_step, said.last_step, said.start_ns) == ("old", 30, 45, 30_000)

    def test_what_begins_soon_after_goes_on_too(self) -> None:
        (said,) = carry_on([finding(30, 40, diagnosis_id="old")], [finding(43, 45)], 41, PARAMS)
        assert said.diagnosis_id == "old"

    def test_what_begins_later_is_another_and_the_old_one_is_closed(self) -> None:
        new, old = carry_on([finding(30, 40, diagnosis_id="old")], [finding(44, 45)], 41, PARAMS)
        assert (new.diagnosis_id, new.first_step, new.status) == ("new", 44, "open")
        assert (old.diagnosis_id, old.last_step, old.status) == ("old", 40, "closed")

    def test_open_finding_not_carried_on_by_earlier_episode(self) -> None:
        history = [finding(10, 15, diagnosis_id="long ago", closed=True), finding(50, 55)]
        (said,) = carry_on([finding(50, 52, diagnosis_id="old")], history, 53, PARAMS)
        assert (said.diagnosis_id, said.first_step, said.last_step) == ("old", 50, 55)

    def test_findings_on_several_subjects_do_not_mix(self) -> None:
        said = carry_on([finding(30, 40, diagnosis_id="a", subject="1")], [finding(38, 45, subject="2")], 41, PARAMS)
        assert {(one.diagnosis_id, one.subject, one.status) for one in said} == {
            ("new", "2", "open"),
            ("a", "1", "closed"),
        }

    def test_what_was_closed_before_is_not_said_again(self) -> None:
        assert carry_on([], [finding(10, 15, closed=True)], 19, PARAMS) == ()

    def test_what_closes_now_is_said(self) -> None:
        assert carry_on([], [finding(10, 15, closed=True)], 18, PARAMS) == (finding(10, 15, closed=True),)

    def test_a_closed_finding_is_never_carried_on(self) -> None:
        (said,) = carry_on([finding(30, 40, diagnosis_id="old", closed=True)], [finding(41, 45)], 41, PARAMS)
        assert said.diagnosis_id == "new"

    @pytest.mark.parametrize("last, status", [(45, "open"), (40, "closed")])
    def test_a_cause_lasts_as_long_as_the_steps_it_slows(self, last: int, status: str) -> None:
        cause = replace(finding(30, 40, subject="10.0.0.1"), kind="slow_gpu")
        slowed = replace(finding(30, last), cause=Cause("slow_gpu", "10.0.0.1"))
        said = carry_on([cause], [slowed], 41, PARAMS)[-1]
        assert (said.kind, said.first_step, said.last_step, said.status) == ("slow_gpu", 30, last, status)

    def test_nothing(self) -> None:
        assert carry_on([], [], 0, PARAMS) == ()

    @pytest.mark.parametrize(
        "first, last, expected", [(20, 29, False), (20, 30, True), (43, 50, True), (44, 50, False), (30, 40, True)]
    )
    def test_episode_continues_finding_it_meets_or_follows_soon(self, first: int, last: int, expected: bool) -> None:
        assert continues(finding(30, 40), first, last, PARAMS) is expected


@pytest.mark.parametrize(
    "slowdown, grade",
    [(0.0, "info"), (0.049, "info"), (0.05, "warning"), (0.199, "warning"), (0.2, "critical"), (1.0, "critical")],
)
def test_severity_grades_the_lost_share_of_time(slowdown: float, grade: Severity) -> None:
    assert severity(slowdown, PARAMS) == grade
    assert severity(slowdown, replace(PARAMS, warning_slowdown=2.0, critical_slowdown=3.0)) == "info"
