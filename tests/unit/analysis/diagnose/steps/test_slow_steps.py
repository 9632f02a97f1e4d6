"""Slow steps: against the job's own healthy ones, and whom the others waited for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.analysis.diagnose.findings import UNNAMED, confidence_in
from prism_ch.analysis.diagnose.steps.explain import Moved, grows, newest_run
from prism_ch.analysis.diagnose.steps.slow_steps import find_slow_steps
from prism_ch.model.columns import ragged
from prism_ch.model.finding import Cause, Finding
from prism_ch.model.job import RecognisedJob
from prism_ch.model.params import DiagnoseParams
from prism_ch.model.result import Steps
from tests.unit.analysis.build import BEGIN_NS, steps_of, topology

PARAMS = DiagnoseParams()
WHERE = topology(4)
JOB = RecognisedJob("job", "acme", np.arange(4, dtype=np.int32), known=False)
SECOND = 10**9


def found(
    durations_s: Sequence[float], slowest: Sequence[int] | int = 0, known: Sequence[Finding] = ()
) -> tuple[Finding, ...]:
    return find_slow_steps(JOB, steps_of(durations_s, slowest), tuple(known), (), 4, WHERE, PARAMS)


def spans(findings: Sequence[Finding]) -> list[tuple[int, int, str]]:
    return [(one.first_step, one.last_step, one.status) for one in findings]


class TestDrift:
    def test_slow_drift_found_against_the_oldest_steps(self) -> None:
        chance = np.random.default_rng(1)
        durations = np.concatenate([np.ones(64), np.linspace(1, 1.1, 190)]) * chance.normal(1, 0.01, 254)
        (one,) = found(durations.tolist())
        assert (one.last_step, one.status) == (253, "open")
        assert 140 <= one.first_step <= 200
        assert one.expected == pytest.approx(1.0, rel=0.01)
        assert 1.05 < one.observed < 1.1

    def test_of_short_steps_some_of_long_ago_show_it(self) -> None:
        chance = np.random.default_rng(1)
        steps = steps_of(
            (np.concatenate([np.ones(64), np.linspace(1, 1.1, 960)]) * chance.normal(1, 0.01, 1024)).tolist()
        )
        newest, thinned = steps.step >= 768, (steps.step < 768) & (steps.step % 4 == 0)
        assert find_slow_steps(JOB, steps.take(newest), (), (), 4, WHERE, PARAMS) == ()
        (one,) = find_slow_steps(JOB, steps.take(newest | thinned), (), (), 4, WHERE, PARAMS)
        assert (one.last_step, one.status) == (1023, "open")

    def test_old_step_stands_for_those_no_longer_known(self) -> None:
        steps = steps_of([1.0] * 400 + [1.5] * 624, [-1] * 400 + [0] * 624)
        known = (steps.step >= 768) | (steps.step % 4 == 0)
        (one,) = find_slow_steps(JOB, steps.take(known), (), (), 4, WHERE, PARAMS)
        assert (one.first_step, one.last_step) == (400, 1023)
        assert one.evidence["lost_s"] == pytest.approx(624 * 0.5)

    def test_jitter_alone_is_no_drift(self) -> None:
        assert found(np.random.default_rng(2).normal(1, 0.03, 254).tolist()) == ()

    @pytest.mark.parametrize("others", [{}, {"may_also_be": ["10.0.102.0"]}])
    def test_longest_cause_named_with_its_alternatives(self, others: dict[str, list[str]]) -> None:
        slow = [1.0] * 20 + [1.5] * 10
        (one,) = found(slow, [0, 1, 2, 3] * 7 + [0, 1])
        cause = replace(one, kind="slow_gpu", subject="10.0.103.0", summary="10.0.103.0 works 50% longer.")
        cause = replace(cause, may_also_be=tuple(others.get("may_also_be", ())))
        brief = replace(cause, first_step=25, summary="Nobody.")
        (told,) = find_slow_steps(JOB, steps_of(slow, [0, 1, 2, 3] * 7 + [0, 1]), (), (brief, cause), 4, WHERE, PARAMS)
        assert told.summary.endswith("; 10.0.103.0 works 50% longer.")
        assert told.evidence["root_cause"] == {"kind": "slow_gpu", "subject": "10.0.103.0"} | others


class TestEpisodes:
    def test_steps_much_longer_than_the_healthy_ones_are_one_finding(self) -> None:
        (one,) = found([1.0] * 20 + [1.5] * 10 + [1.0] * 10)
        assert (one.kind, one.subject_type, one.subject) == ("slow_step", "job", "job")
        assert (one.first_step, one.last_step, one.status) == (20, 29, "closed")
        assert (one.start_ns, one.end_ns) == (BEGIN_NS + 20 * SECOND, BEGIN_NS + 35 * SECOND)
        assert [one.observed, one.expected] == pytest.approx([1.5, 1.0])
        assert one.score == pytest.approx(25)  # half a second in deviations of the least spread believed in, 2 %

    def test_until_three_normal_steps_have_passed_it_is_open(self) -> None:
        assert spans(found([1.0] * 20 + [1.5] * 4 + [1.0] * 2)) == [(20, 23, "open")]
        assert spans(found([1.0] * 20 + [1.5] * 4 + [1.0] * 3)) == [(20, 23, "closed")]

    def test_two_troubles_are_two_findings(self) -> None:
        both = found([1.0] * 20 + [1.5] * 4 + [1.0] * 10 + [2.0] * 4)
        assert spans(both) == [(20, 23, "closed"), (34, 37, "open")]

    def test_jitter_and_shorter_steps_are_no_trouble(self) -> None:
        jitter = np.random.default_rng(1).normal(1, 0.03, 400)
        assert found(jitter.tolist()) == ()
        assert found([1.0] * 80 + [0.5] * 20) == ()

    def test_slightly_longer_step_is_healthy_however_regular_others(self) -> None:
        assert found([1.0] * 20 + [1.09, 1.0, 1.09] + [1.0] * 10) == ()

    @pytest.mark.parametrize("healthy", [5, 20, 200])
    def test_steps_longer_by_little_show_it_together(self, healthy: int) -> None:
        (one,) = found([1.0] * healthy + [1.09] * 10 + [1.0] * 10)
        assert (one.first_step, one.last_step, one.status) == (healthy, healthy + 9, "closed")
        assert one.expected == pytest.approx(1.0)
        assert one.slowdown == pytest.approx(0.09 / 1.09)

    def test_steps_after_slow_ones_are_not_slow_with_them(self) -> None:
        assert spans(found([1.0] * 20 + [1.5] * 16 + [1.04] * 20)) == [(20, 35, "closed")]

    @pytest.mark.parametrize("slow, slow_s", [(5, 2.5), (10, 2.5), (10, 1.2)])
    def test_slow_first_steps_show_against_later_ones(self, slow: int, slow_s: float) -> None:
        (one,) = found([slow_s] * slow + [1.0] * 30)
        assert (one.first_step, one.last_step, one.status) == (0, slow - 1, "closed")
        assert one.expected == pytest.approx(1.0)

    def test_a_job_that_never_is_regular_needs_more(self) -> None:
        wild = np.random.default_rng(1).uniform(0.7, 1.3, 60).tolist()
        assert found([*wild, 1.5]) == ()

    def test_a_job_that_becomes_slow_for_good_stays_slow(self) -> None:
        assert spans(found([1.0] * 20 + [1.5] * 300, [-1] * 20 + [0] * 300)) == [(20, 319, "open")]

    def test_the_first_steps_may_be_slow(self) -> None:
        assert spans(found([3.0] * 2 + [1.0] * 20)) == [(0, 1, "closed")]

    def test_with_few_steps_nothing_is_usual(self) -> None:
        assert found([1.0] * 6 + [9.0]) == ()
        assert len(found([1.0] * 7 + [9.0])) == 1

    def test_steps_whose_beginning_was_not_seen_do_not_count(self) -> None:
        steps = steps_of([1.0] * 20)
        cut = Steps.concat([steps_of([9.0], complete=False), replace(steps, step=steps.step + 1)])
        assert find_slow_steps(JOB, cut, (), (), 4, WHERE, PARAMS) == ()

    def test_nothing(self) -> None:
        assert found([]) == ()

    @given(st.lists(st.floats(0.5, 5.0), min_size=8, max_size=40), st.integers(0, 10**6))
    def test_when_it_all_happened_does_not_matter(self, durations_s: list[float], shift_ns: int) -> None:
        steps = steps_of(durations_s)
        later = replace(steps, start_ns=steps.start_ns + shift_ns, end_ns=steps.end_ns + shift_ns)
        now, then = (find_slow_steps(JOB, one, (), (), 4, WHERE, PARAMS) for one in (steps, later))
        moved = [replace(one, start_ns=one.start_ns + shift_ns, end_ns=one.end_ns + shift_ns) for one in now]
        assert list(then) == moved

    def test_everything_scales_with_the_usual_step(self) -> None:
        (one,), (longer,) = (found([usual_s] * 20 + [1.5 * usual_s] * 4) for usual_s in (1.0, 40.0))
        assert (longer.severity, longer.first_step) == (one.severity, one.first_step)
        assert [longer.score, longer.slowdown] == pytest.approx([one.score, one.slowdown])


class TestGoingOn:
    """A trouble that was open goes on under its name, however much of the past is still looked at."""

    HISTORY = (*[1.0] * 20, *[1.5] * 10)

    def test_it_keeps_its_name_and_its_expectation(self) -> None:
        (before,) = found(self.HISTORY)
        steps = steps_of([*self.HISTORY, *[1.5] * 20])
        recent = steps.take(steps.step >= 26)  # nothing healthy is left in what is looked at
        (one,) = find_slow_steps(JOB, recent, (before,), (), 4, WHERE, PARAMS)
        assert (one.diagnosis_id, one.first_step, one.last_step) == (before.diagnosis_id, 20, 49)
        assert one.expected == pytest.approx(1.0)

    def test_another_one_in_the_history_is_not_taken_for_it(self) -> None:
        durations = [*self.HISTORY, *[1.0] * 10, *[2.0] * 4]
        closed, before = found(durations)
        again = found([*durations, 2.0], known=[before])
        assert spans(again) == [(20, 29, "closed"), (40, 44, "open")]
        assert [one.diagnosis_id for one in again] == [closed.diagnosis_id, before.diagnosis_id]

    def test_only_first_of_two_episodes_continues_the_open_one(self) -> None:
        (before,) = found(self.HISTORY)
        parted = [*self.HISTORY[:25], *[1.0] * 4, *[1.5] * 4]
        first, second = found(parted, known=[replace(before, last_step=32)])
        assert (first.diagnosis_id, first.first_step, first.last_step) == (before.diagnosis_id, 20, 24)
        assert (second.first_step, second.last_step) == (29, 32)
        assert second.diagnosis_id != before.diagnosis_id

    def test_one_that_is_over_is_not_found_again_in_normal_steps(self) -> None:
        (before,) = found(self.HISTORY)
        steps = steps_of([*self.HISTORY, *[1.0] * 20])
        recent = steps.take(steps.step >= 34)
        assert find_slow_steps(JOB, recent, (before,), (), 4, WHERE, PARAMS) == ()


class TestSeverity:
    def test_it_grades_the_time_lost_over_the_episode(self) -> None:
        (one,) = found([1.0] * 20 + [1.5] * 40)
        assert one.slowdown == pytest.approx(20 / 60)
        assert one.severity == "critical"

    @pytest.mark.parametrize(
        "slow_s, slowdown, grade", [(1.5, 0.025, "info"), (3.0, 0.1, "warning"), (9.0, 0.4, "critical")]
    )
    def test_one_slow_step_is_graded_over_twenty(self, slow_s: float, slowdown: float, grade: str) -> None:
        (one,) = found([1.0] * 20 + [slow_s] + [1.0] * 20)
        assert one.slowdown == pytest.approx(slowdown)
        assert one.severity == grade


class TestWhoIsWaitedFor:
    NORMAL = (0, 1, 2, 3) * 5

    def summary(self, slowest: Sequence[int]) -> str:
        (one,) = found([1.0] * 20 + [1.5] * len(slowest), [*self.NORMAL, *slowest])
        return one.summary

    def test_the_one_that_is_always_last_is_named_with_its_place(self) -> None:
        assert self.summary([2] * 10) == (
            "Steps 20 to 29 took 1.5 s instead of 1 s (+50%); the others waited for 10.0.102.0 (host-02, GPU 0), "
            "last to be ready in 10 of 10 slow steps: check that GPU and its host."
        )

    def test_one_that_is_mostly_last_is_named(self) -> None:
        assert "waited for 10.0.102.0" in self.summary([2] * 10 + [1, 3])

    @pytest.mark.parametrize("slowest", [[0, 1, 2, 3] * 3, [2], [2] * 3, [2] * 5 + [1] * 5])
    def test_what_could_be_chance_accuses_nobody(self, slowest: list[int]) -> None:
        assert self.summary(slowest).endswith("no single GPU kept the others waiting, look at what they share.")

    @pytest.mark.parametrize(
        "peers, why",
        [
            (1, "every rank has a role of its own, so there is no peer to tell any from"),
            (2, "only 2 ranks have the same role, so none can be told from its peer"),
        ],
    )
    def test_a_job_too_small_to_compare_says_so(self, peers: int, why: str) -> None:
        steps = steps_of([1.0] * 20 + [1.5] * 4, [*self.NORMAL, 0, 1, 2, 3])
        (one,) = find_slow_steps(JOB, steps, (), (), peers, WHERE, PARAMS)
        assert one.summary.endswith(f"(+50%); {why}: check the GPUs and hosts of them all, and what they share.")

    def test_whoever_is_always_last_is_named_however_small_the_job(self) -> None:
        steps = steps_of([1.0] * 20 + [1.5] * 10, [*self.NORMAL, *[2] * 10])
        (one,) = find_slow_steps(JOB, steps, (), (), 1, WHERE, PARAMS)
        assert "waited for 10.0.102.0" in one.summary

    def test_a_server_whose_gpus_take_turns_to_be_last_is_named(self) -> None:
        # Sixteen ranks on four servers: those of the third wait for one another inside it.
        where, ranks = topology(4, 4), np.arange(16, dtype=np.int32)
        job = RecognisedJob("job", "acme", ranks, known=False)
        for usual, named in (([0, 5, 10, 15], True), ([8, 9, 10, 11], False)):
            steps = steps_of([1.0] * 20 + [1.5] * 12, [*usual * 5, *[8, 9, 10, 11] * 3])
            (one,) = find_slow_steps(job, steps, (), (), 16, where, PARAMS)
            cause = one.evidence.get("root_cause")
            gpus = [where.endpoints[rank] for rank in range(8, 12)]
            assert cause == ({"kind": "slow_gpu", "subject": "host-02", "may_also_be": gpus} if named else None)
            assert one.confidence == (confidence_in("server") if named else UNNAMED)
            assert ("waited for host-02, whose GPUs were last to be ready in 12 of 12" in one.summary) == named

    def test_a_single_slow_step_reads_so(self) -> None:
        assert self.summary([1]).startswith("Step 20 took 1.5 s instead of 1 s (+50%);")

    def test_an_endpoint_that_has_left_the_topology_is_not_named(self) -> None:
        (one,) = found([1.0] * 20 + [1.5] * 10, [*self.NORMAL, *[-1] * 10])
        assert "one slow GPU, a larger batch" in one.summary
        assert one.evidence["last_ready"] == ""

    def test_the_evidence_is_there_to_check(self) -> None:
        (one,) = found([1.0] * 20 + [1.5] * 4, [*self.NORMAL, 2, 2, 2, 1])
        assert one.evidence == {
            "durations_s": [1.5] * 4,
            "expected_s": 1.0,
            "last_ready": "10.0.102.0",
            "last_ready_share": 0.75,
            "lost_s": 2.0,
        }


@pytest.mark.parametrize("gap", [0, 8])
def test_steps_keep_their_cause_while_they_stay_slow(gap: int) -> None:
    """... though nothing shows any more that it is slower than it was."""
    durations_s = [*[1.0] * 20, *[1.5] * 10]
    (alone,) = found(durations_s, slowest=-1)
    cause = replace(alone, kind="slow_gpu", subject_type="endpoint", subject="10.0.102.0")
    (slow,) = find_slow_steps(JOB, steps_of(durations_s, -1), (), (cause,), 4, WHERE, PARAMS)
    later = steps_of([*durations_s, *[1.0] * gap, *[1.5] * 10], -1)
    last = find_slow_steps(JOB, later, (slow, cause), (), 4, WHERE, PARAMS)[-1]
    assert (last.cause is None) == (gap > 0)


class TestRegimes:
    """Other work than before, as of a larger batch, is told once, and as information."""

    @staticmethod
    def payload(before: int, after: int, times: float) -> Moved:
        size = np.array([[100, 40]] * before + [[100, round(40 * times)]] * after)
        return Moved(np.arange(before + after), size)

    def test_steps_that_move_more_are_no_fault_and_become_usual(self) -> None:
        durations_s = [*[1.0] * 30, *[2.0] * 40, 3.0, *[2.0] * 5]
        moved = self.payload(30, 46, 2.0)
        first, *later = find_slow_steps(JOB, steps_of(durations_s), (), (), 4, WHERE, PARAMS, moved)
        assert (first.first_step, first.last_step, first.severity, first.slowdown) == (30, 31, "info", 0)
        assert "Since step 30 that is usual" in first.summary
        assert [(one.first_step, one.last_step, one.expected) for one in later] == [(70, 70, 2.0)]

    @pytest.mark.parametrize(
        "slowdown, first_step, blamed", [(0.001, 35, False), (0.1, 35, False), (0.3, 38, False), (0.3, 35, True)]
    )
    def test_steps_that_move_more_not_explained_by_little(self, slowdown: float, first_step: int, blamed: bool) -> None:
        durations_s = [*[1.0] * 30, *[2.0] * 10]
        (slow,) = found(durations_s)
        cause = replace(slow, kind="slow_switch", slowdown=slowdown, first_step=first_step, summary="A switch.")
        moved = self.payload(30, 10, 2.0)
        (told,) = find_slow_steps(JOB, steps_of(durations_s), (), (cause,), 4, WHERE, PARAMS, moved)
        assert (told.severity, "root_cause" in told.evidence) == ("critical" if blamed else "info", blamed)
        going, later = (told,), steps_of([*durations_s, *[2.0] * 5])
        last_step = cause.last_step + 5 * blamed
        (told,) = find_slow_steps(JOB, later, going, (replace(cause, last_step=last_step),), 4, WHERE, PARAMS)
        assert (told.severity, "root_cause" in told.evidence) == ("critical" if blamed else "info", blamed)

    @pytest.mark.parametrize(
        "shows_late, honest, slowdown, usual",
        [(True, True, 0.0, True), (True, False, 0.5, False), (False, True, 0.5, False)],
    )
    def test_steps_all_ranks_compute_longer_in_are_no_fault(
        self, shows_late: bool, honest: bool, slowdown: float, usual: bool
    ) -> None:
        """Only gradients are moved, as many whatever the batch."""
        chance = np.random.default_rng(5)
        late_s = chance.uniform(0.01, 0.05, 100)
        extra_s = late_s if honest else chance.permutation(late_s)
        durations_s = np.array([1.0] * 30 + [2.0] * 70) + extra_s
        steps = steps_of(durations_s.tolist(), -1)
        steps = replace(steps, compute_s=0.9 * steps.duration_s)
        ready = (np.zeros(70, dtype=np.int32), late_s[:70])
        alike = Moved(np.arange(70), np.tile([100, 0], (70, 1)), shows_late, *ready)
        (told,) = find_slow_steps(JOB, steps.take(steps.step < 70), (), (), 4, WHERE, PARAMS, alike)
        assert told.slowdown == pytest.approx(slowdown, abs=0.02)
        assert told.baseline.other_work is usual
        assert told.baseline.maybe_other_work is not usual
        assert (told.status, "usual" in told.summary) == ("open", usual)
        (again,) = find_slow_steps(JOB, steps, (told,), (), 4, WHERE, PARAMS)
        assert (again.last_step, again.baseline.other_work, "usual" in again.summary) == (31, usual, True)

    def test_longer_steps_with_as_many_activations_are_no_batch(self) -> None:
        steps = steps_of([1.0] * 30 + [1.5] * 40, -1)
        steps = replace(steps, compute_s=0.9 * steps.duration_s)
        ready = (np.zeros(70, dtype=np.int32), np.full(70, 0.01))
        moved = Moved(np.arange(70), np.full((70, 2), 100), True, *ready)
        (told,) = find_slow_steps(JOB, steps, (), (), 4, WHERE, PARAMS, moved)
        assert (told.severity, told.baseline.other_work, told.baseline.maybe_other_work) == ("critical", False, False)
        assert "batch" not in told.summary

    def test_a_first_step_that_was_cut_shows_no_other_work(self) -> None:
        payload = np.full((40, 2), 100.0)
        payload[0] = 10
        steps = steps_of([*[1.5] * 5, *[1.0] * 35], -1)
        steps = replace(steps, complete=(steps.step > 0).astype(np.uint8))
        (told,) = find_slow_steps(JOB, steps, (), (), 4, WHERE, PARAMS, Moved(np.arange(40), payload))
        assert (told.first_step, told.last_step, told.baseline.other_work) == (1, 4, False)

    def test_a_step_seen_in_part_does_not_say_what_is_usual(self) -> None:
        """Of a settled job only the end of the oldest step is kept that is looked at again."""
        payload = np.full((12, 2), 100.0)
        payload[0] = np.nan
        moved = Moved(np.arange(28, 40), payload)
        assert not moved.changed(30, 39, np.arange(30), PARAMS.other_work)
        assert not moved.changed(30, 39, np.arange(29), PARAMS.other_work)

    def test_a_rank_that_keeps_the_others_waiting_is_to_blame(self) -> None:
        steps = steps_of([*[1.0] * 30, *[2.0] * 40], [0, 1, 2, 3] * 7 + [0, 1] + [2] * 40)
        steps = replace(steps, compute_s=0.9 * steps.duration_s)
        (told,) = find_slow_steps(JOB, steps, (), (), 4, WHERE, PARAMS, Moved(np.arange(70), np.full((70, 2), 1), True))
        assert (told.severity, told.status) == ("critical", "open")

    @pytest.mark.parametrize(
        "late_s, jitter, found",
        [(0.08, 0.002, True), (0.03, 0.002, False), (np.nan, 0.002, False), (0.08, 0.03, False)],
        ids=["late by it", "late by less", "nobody late", "steps vary"],
    )
    def test_a_step_that_waits_for_somebody_needs_not_lose_a_tenth(
        self, late_s: float, jitter: float, found: bool
    ) -> None:
        durations_s = [*np.random.default_rng(1).normal(1, jitter, 30).tolist(), 1.08]
        steps = steps_of(durations_s, [-1] * 30 + [2 if late_s > 0 else -1])
        moved = Moved(np.arange(31), np.full((31, 2), 1), late_s=np.array([np.nan] * 30 + [late_s]))
        told = find_slow_steps(JOB, steps, (), (), 4, WHERE, PARAMS, moved)
        assert [(one.first_step, one.cause and one.cause.subject) for one in told] == [(30, "10.0.102.0")] * found

    @pytest.mark.parametrize("late_s, named", [(0.9, "10.0.102.0"), (0.1, "")])
    def test_one_step_names_who_is_late_by_what_it_lost(self, late_s: float, named: str) -> None:
        slowest = [-1] * 31
        slowest[30] = 2
        moved = Moved(np.arange(31), np.full((31, 2), 1), late_s=np.array([np.nan] * 30 + [late_s]))
        steps = steps_of([*[1.0] * 30, 2.0], slowest)
        (told,) = find_slow_steps(JOB, steps, (), (), 4, WHERE, PARAMS, moved)
        assert (told.cause.subject if told.cause else "") == named

    def test_ranks_late_together_in_one_step_name_their_server(self) -> None:
        where, ranks = topology(4, 4), np.arange(16, dtype=np.int32)
        job = RecognisedJob("job", "acme", ranks, known=False)
        steps = steps_of([*[1.0] * 30, 2.0], -1)
        steps = replace(steps, slowest=ragged([*[()] * 30, (8, 9)]))
        moved = Moved(np.arange(31), np.full((31, 2), 1), late_s=np.array([np.nan] * 30 + [0.9]))
        (told,) = find_slow_steps(job, steps, (), (), 16, where, PARAMS, moved)
        assert told.cause == Cause("slow_gpu", "host-02", (where.endpoints[8], where.endpoints[9]), "server")

    @pytest.mark.parametrize(
        "late_s, shows, blamed", [(0.02, True, False), (0.9, True, True), (0.02, False, True), (0.011, False, False)]
    )
    def test_last_by_little_is_to_blame_only_if_lateness_is_unseen(
        self, late_s: float, shows: bool, blamed: bool
    ) -> None:
        latest_s = np.array([0.01] * 30 + [late_s] * 40)
        payload, latest = np.full((70, 2), 100), np.zeros(70, dtype=np.int32)
        moved = Moved(np.arange(70), payload, shows, latest, latest_s)
        assert moved.keeps_waiting(np.arange(30, 70), np.arange(30), 1.0, 0.5) is blamed

    def test_steps_longer_bit_by_bit_are_no_other_batch(self) -> None:
        durations_s = [*[1.0] * 30, *np.linspace(1.15, 2.0, 40).tolist()]
        steps = steps_of(durations_s, [0, 1, 2, 3] * 17 + [0, 1])
        steps = replace(steps, compute_s=0.9 * steps.duration_s)
        (told,) = find_slow_steps(JOB, steps, (), (), 4, WHERE, PARAMS, Moved(np.arange(70), np.full((70, 2), 1), True))
        assert told.severity == "critical"
        jitter = np.random.default_rng(2).normal(2, 0.02, 40)
        assert not grows(jitter, PARAMS)
        assert not grows(np.full(40, 2.0), PARAMS)
        assert not grows(np.linspace(1, 2, 10), PARAMS)

    def test_newest_run_begins_where_steps_last_as_long_as_now(self) -> None:
        rng = np.random.default_rng(3)
        durations_s = np.repeat([1.0, 2.0, 1.5], [40, 30, 20]) * rng.normal(1, 0.02, 90)
        assert newest_run(durations_s, PARAMS) - 70 in {0, 1}
        assert newest_run(durations_s[:70], PARAMS) - 40 in {0, 1}
        assert newest_run(durations_s[:40], PARAMS) <= 3
