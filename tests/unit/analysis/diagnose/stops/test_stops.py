"""Jobs that stand still, window after window: stalls, hangs, restarts and lost exporters are told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.diagnose.context import JobContext, found_outside, what_moved
from prism_ch.analysis.diagnose.stops.rests import not_slow
from prism_ch.analysis.diagnose.stops.stops import find_restart
from prism_ch.model.finding import Finding
from prism_ch.model.job import Division
from prism_ch.model.memory import Attempt
from prism_ch.model.params import Params
from prism_ch.model.traffic import Traffic
from tests.sweeps import swept
from tests.unit.analysis.build import (
    BEGIN_NS,
    MB,
    Flow,
    batch,
    continued_job,
    every,
    finding,
    gpu_steps_of,
    job,
    known_job,
    observed,
    pipeline,
    rebuilt_attempt,
    renamed,
    ring,
    shaken,
    shifted,
    steps_of,
    steps_seen,
    topology,
    traffic,
    typed,
)
from tests.unit.chain import Published, Results, work

SECOND = 10**9
GRID = ((0, 1), (2, 3), (4, 5))
WHERE = topology(8)
WINDOWS_S = (10, 30)


def stops(found: Published) -> list[Finding]:
    """The findings on standing still, in order of time."""
    kinds = ("stall", "hang", "restart", "telemetry")
    return sorted((one for one in found.findings.values() if one.kind in kinds), key=lambda one: one.start_ns)


def worked(flows: Sequence[Flow], window_s: int = 10, until_s: float | None = None) -> Results:
    until_ns = None if until_s is None else BEGIN_NS + round(until_s * SECOND)
    return work(batch(shaken(flows, 1, ms=0.1)), WHERE, window_s, until_ns=until_ns)


def paused(pause_s: float, before: int = 20, after: int = 20) -> list[Flow]:
    """A job that stands still between two steps."""
    return [*job(GRID, before), *shifted(job(GRID, after), (before + pause_s) * 1000)]


def cut(flows: Sequence[Flow], at_ms: float) -> list[Flow]:
    """What of some flows ends by then."""
    return [flow for flow in flows if flow.start_ms + flow.length_ms <= at_ms]


@pytest.mark.parametrize(
    "late_ms, tick_ms, shown", [(3, 0, True), (1.5, 0, True), (0.5, 0, False), (1.5, 1, False), (3, 1, True)]
)
def test_ranks_ready_within_fabric_and_clock_time_are_not_late(late_ms: float, tick_ms: float, shown: bool) -> None:
    seen = steps_seen(every(1000, 6, 1000), late_ms=late_ms, tick_ms=tick_ms)
    assert what_moved([seen], Params()).shows_late == shown


def test_ranks_that_are_all_early_alike_keep_nobody_waiting() -> None:
    seen = steps_seen(every(1000, 6, 1000))
    early_s = np.full(seen.attempt.lateness_s.shape, -0.05)
    assert not what_moved([replace(seen, attempt=replace(seen.attempt, lateness_s=early_s))], Params()).shows_late


def test_what_a_step_seen_in_part_moved_is_unknown() -> None:
    seen = steps_seen(every(1000, 6, 1000))
    payload = what_moved([seen], Params()).payload
    assert np.isnan(seen.duration_s).tolist() == np.isnan(payload).any(axis=1).tolist()
    assert np.isnan(payload[0]).all()


class TestBoundsOfRestarts:
    steps = steps_of([1.0] * 30)
    new = traffic(ring(range(4), every(1000, 10, 40_000)))

    def restarts(self, before: Traffic, now: Traffic, known: Sequence[Finding] = ()) -> list[Finding]:
        """The findings on an attempt that began at step 20 and shows `now`, after one that shows `before`."""
        none, members = Division.none(np.arange(4, dtype=np.int32)), gpu_steps_of(self.steps, range(4))
        attempts = [rebuilt_attempt(bursts, typed(bursts), none, 20) for bursts in (before, now)]
        memory = replace(known_job("job", range(4)), findings=tuple(known))
        newest = Attempt(first_step=20)
        found = continued_job(attempts, memory, steps=self.steps, gpu_steps=members, newest=newest)
        return find_restart(JobContext.of(found, observed(batch([])), WHERE, Params()))

    def test_attempt_before_all_that_is_read_ends_with_its_last_step(self) -> None:
        (restart,) = self.restarts(self.new.take(np.empty(0, np.int64)), self.new)
        assert restart.start_ns == self.steps.end_ns[19]
        assert restart.end_ns == self.new.start_ns.min()

    def test_a_second_restart_begins_after_the_first(self) -> None:
        first = finding(kind="restart", start_ns=int(self.steps.end_ns[4]), end_ns=int(self.steps.end_ns[5]))
        (restart,) = self.restarts(self.new.take(np.empty(0, np.int64)), self.new, [first])
        assert restart.start_ns == self.steps.end_ns[19]

    @pytest.mark.parametrize("goes_on_ms, lost_s", [(-50, 1.0), (300, 0.0)], ids=["last message", "next step"])
    def test_a_pipelines_step_is_lost_unless_more_is_sent(self, goes_on_ms: float, lost_s: float) -> None:
        """Nothing is lost but what the job did in step 19, whose last message it may not have made use of."""
        before = traffic([Flow(0, 1, 20_000 + goes_on_ms, 20)])
        none, members = Division.none(np.arange(4, dtype=np.int32)), gpu_steps_of(self.steps, range(4))
        attempts = [rebuilt_attempt(bursts, typed(bursts, [(0, 1)]), none, 20) for bursts in (before, self.new)]
        memory, newest = known_job("job", range(4)), Attempt(first_step=20)
        found = continued_job(attempts, memory, steps=self.steps, gpu_steps=members, newest=newest)
        (restart,) = find_restart(JobContext.of(found, observed(batch([])), WHERE, Params()))
        assert restart.lost_s == pytest.approx(lost_s)

    def test_restart_stays_while_its_attempt_shows_nothing(self) -> None:
        known = finding(kind="restart")
        assert self.restarts(self.new, self.new.take(np.empty(0, np.int64)), [known]) == [known]


class TestStalls:
    @pytest.mark.parametrize("window_s", WINDOWS_S)
    def test_a_pause_of_all_is_a_stall_and_no_slow_step(self, window_s: int) -> None:
        found = worked(paused(3.0), window_s).only
        (stall,) = stops(found)
        assert (stall.kind, stall.first_step, stall.severity, stall.status) == ("stall", 20, "warning", "closed")
        assert stall.observed == pytest.approx(3.2, abs=0.3)
        assert "all paused together" in stall.summary
        assert [one for one in found.findings.values() if one.severity != "info"] == [stall]

    @pytest.mark.parametrize("window_s", [max(WINDOWS_S), *swept(min(WINDOWS_S))])
    def test_pause_that_comes_again_was_a_habit(self, window_s: int) -> None:
        """Three windows and more lie between the first, which is told of until then, and the second."""
        both = [*paused(3.0, after=35), *shifted(job(GRID, 20), 61_000)]
        until_then = worked(cut(both, 57_000), window_s)
        assert [one.severity for one in stops(until_then.only)] == ["warning"]
        assert [one.severity for one in until_then.incidents.values()] == ["warning"]
        found = worked(both, window_s)
        first, second = stops(found.only)
        assert (first.severity, first.slowdown, first.incident_id, second.severity) == ("info", 0, "", "info")
        assert "a habit" in first.summary
        assert found.incidents == {}

    @pytest.mark.parametrize("saves, kind", [(True, "stall"), (False, "slow_step")])
    def test_short_pause_shows_by_storage_when_computing_in_one_go(self, saves: bool, kind: str) -> None:
        """What takes the data is in no job, and sends nothing in the window in which the step ends."""
        ends_ms = [*every(2000, 20, 2000), *every(2000, 20, 43_800)]
        saved = [Flow(rank, 7, 40_100 + 50 * rank, 700, size=900 * MB) for rank in range(6)]
        found = worked([*ring(range(6), ends_ms), *(saved if saves else [])], 5).only
        (one,) = (one for one in found.findings.values() if one.kind != "imbalance")
        assert (one.kind, one.first_step) == (kind, 20)
        assert one.severity == ("warning" if saves else "critical")

    def test_a_long_pause_warns(self) -> None:
        (stall,) = stops(worked(paused(8.0), 60).only)
        assert (stall.kind, stall.severity, stall.subject) == ("stall", "critical", stall.subject)

    @pytest.mark.parametrize("window_s", WINDOWS_S)
    def test_periodic_pauses_are_not_reported(self, window_s: int) -> None:
        flows = [flow for turn in range(6) for flow in shifted(job(GRID, 10), turn * 13_000)]
        found = worked(flows, window_s).only
        assert [one for one in found.findings.values() if one.severity != "info"] == []
        assert len(found.steps) == 60

    def test_who_is_late_is_named(self) -> None:
        late_ms = 9_000
        flows = [flow for flow in ring(range(6), every(1000, 40, 1000)) if flow.start_ms < 20_900]
        waiting = [
            replace(flow, start_ms=flow.start_ms + late_ms * (3 in (flow.src, flow.dst)), length_ms=flow.length_ms)
            for flow in ring(range(6), [21_000])
        ]
        waiting = [replace(flow, length_ms=21_000 + late_ms - flow.start_ms) for flow in waiting]
        after = ring(range(6), every(1000, 20, 22_000 + late_ms))
        found = work(batch(flows + waiting + after), WHERE, 60).only
        (stall,) = stops(found)
        assert (stall.kind, stall.subject_type, stall.subject) == ("stall", "endpoint", WHERE.endpoints[3])
        assert stall.severity == "critical"
        assert f"waited for {WHERE.endpoints[3]}" in stall.summary

    def test_a_late_replica_costs_what_its_step_takes_longer(self) -> None:
        """The others send on for half of a step, before they wait for it."""
        late_ms, flows = 6_000, []
        for step in range(40):
            at_ms = 1000 * step + late_ms * (step > 20)
            waits_ms = late_ms * (step == 20)
            for replica in range(4):
                own_ms = at_ms + waits_ms * (replica == 1)
                flows += pipeline([2 * replica, 2 * replica + 1], [own_ms], microbatches=4)
            for stage in range(2):
                flows += ring(range(stage, 8, 2), [at_ms + waits_ms + 900])
        (stall,) = stops(work(batch(flows), topology(8), 60).only)
        assert stall.lost_s == pytest.approx(6, abs=0.1)

    def test_a_pause_costs_no_more_than_its_step_takes_longer(self) -> None:
        """What is computed meanwhile shows no messages until it ends: nothing moves for longer than is lost."""
        late_ms, flows = 3_000, []
        for step in range(40):
            at_ms, waits_ms = 1000 * step + late_ms * (step > 20), late_ms * (step == 20)
            for replica in range(4):
                sent = pipeline([2 * replica, 2 * replica + 1], [at_ms], microbatches=4)
                if step == 20:
                    sent = [replace(one, start_ms=at_ms + late_ms + 800 + (one.start_ms - at_ms) / 10) for one in sent]
                flows += sent
            for stage in range(2):
                flows += ring(range(stage, 8, 2), [at_ms + waits_ms + 900])
        (stall,) = stops(work(batch(flows), topology(8), 60).only)
        assert stall.observed - stall.expected > 3.2
        assert stall.lost_s == pytest.approx(3, abs=0.05)

    def test_storage_during_a_pause_is_named(self) -> None:
        saving = [Flow(member, 7, 20_500 + 100 * member, 400, 900 * MB) for member in range(6)]
        (stall,) = stops(worked([*paused(5.0), *saving], 60).only)
        assert stall.evidence["beside_bytes"].keys() == {WHERE.endpoints[7]}
        assert f"5.48 GB went to or from {WHERE.endpoints[7]}" in stall.summary


class TestHangs:
    @pytest.mark.parametrize("window_s", [5, 10])
    def test_a_rank_that_stops_in_a_step_is_named(self, window_s: int) -> None:
        whole = job(GRID, 21)
        inside_ms = 20_300
        stopped = [flow for flow in cut(whole, inside_ms) if not (flow.src == 2 and flow.start_ms > 20_150)]
        results = worked(stopped, window_s, until_s=60)
        (hang,) = stops(results.only)
        assert (hang.kind, hang.status, hang.severity) == ("hang", "open", "critical")
        assert results.only.last.job.status == "stalled"
        assert hang.evidence["in_a_step"] is True
        assert WHERE.endpoints[2] in hang.evidence["suspects"]

    def test_job_stalls_or_has_ended_if_no_replica_begins_a_step(self) -> None:
        flows = job(GRID, 20)
        assert [one.kind for one in stops(worked(flows, 5, until_s=24).only)] == []
        (stall,) = stops(worked(flows, 5, until_s=28).only)
        assert (stall.kind, stall.severity, stall.status) == ("stall", "warning", "open")
        (later,) = stops(worked(flows, 5, until_s=40).only)
        assert (later.kind, later.severity, later.diagnosis_id) == ("stall", "warning", stall.diagnosis_id)
        assert "it may have ended" in later.summary

    def test_job_hangs_after_some_time_if_none_begins_alone(self) -> None:
        flows = ring(range(6), every(1000, 20, 1000))
        (stall,) = stops(worked(flows, 3, until_s=27).only)
        assert (stall.kind, stall.severity) == ("stall", "info")
        (hang,) = stops(worked(flows, 5, until_s=40).only)
        assert (hang.kind, hang.severity, hang.diagnosis_id) == ("hang", "warning", stall.diagnosis_id)

    @pytest.mark.parametrize("window_s", [10, 60, *swept(5)])
    def test_what_goes_on_was_a_stall(self, window_s: int) -> None:
        found = worked(paused(30.0), window_s)
        (stall,) = stops(found.only)
        assert (stall.kind, stall.status, stall.first_step) == ("stall", "closed", 20)
        assert found.only.last.job.status == "running"

    def test_a_job_whose_storage_still_works_is_waited_for(self) -> None:
        saving = [Flow(0, 7, moment, 400, 900 * MB) for moment in (20_500, 30_500)]
        (stall,) = stops(worked([*job(GRID, 20), *saving], 5, until_s=45).only)
        assert stall.kind == "stall"

    def test_a_periodic_pause_is_waited_for(self) -> None:
        flows = [flow for turn in range(5) for flow in shifted(job(GRID, 10), turn * 25_000)]
        assert {(one.status, one.slowdown) for one in stops(worked(flows, 5, until_s=120).only)} == {("closed", 0)}
        assert [one.kind for one in stops(worked(flows, 5, until_s=160).only) if one.status == "open"] == ["stall"]

    def test_idle_job_is_an_alarm_until_it_proves_to_have_ended(self) -> None:
        """Its exporter sees others, so that it is not hidden."""
        beside = renamed(ring([0, 1], every(700, 1000, 700)), [6, 7])
        flows = by("leaf", [*job(GRID, 20), *beside])
        for until_s, told in ((40, ("warning", "open", True)), (680, ("info", "closed", False))):
            results = worked(flows, 5 if until_s == 40 else 60, until_s=until_s)
            (idle,) = [one for one in results.jobs.values() if len(one.last.members) == 6]
            (stall,) = stops(idle)
            assert (stall.severity, stall.status, stall.lost_s > 0) == told
            assert len(results.incidents) == (until_s == 40)

    def test_a_job_that_ended_no_longer_hangs(self) -> None:
        found = worked(job(GRID, 20), 60, until_s=700).only
        assert found.last.job.status == "ended"
        assert [one.status for one in stops(found)] == ["closed"]

    def test_with_few_steps_nothing_is_usual(self) -> None:
        assert stops(worked(job(GRID, 4), 5, until_s=40).only) == []


class TestRestarts:
    @pytest.mark.parametrize("window_s", [10, 60])
    def test_ranks_that_meet_anew_show_a_restart_on_same_servers(self, window_s: int) -> None:
        meeting = [
            Flow(src, dst, 24_000 + 60 * src + 9 * dst, 2, 9000) for src in range(6) for dst in range(6) if src != dst
        ]
        found = worked([*cut(job(GRID, 21), 20_400), *meeting, *shifted(job(GRID, 30), 28_000)], window_s).only
        (restart,) = stops(found)
        assert (restart.kind, restart.severity) == ("restart", "critical")
        assert restart.evidence["members_after"] == 6

    @pytest.mark.parametrize("window_s", [10, 30])
    def test_a_hang_that_ends_in_a_restart_elsewhere_is_one_finding(self, window_s: int) -> None:
        again = shifted(renamed(job(GRID, 30), [2, 3, 4, 5, 6, 7]), 60_000)
        found = worked([*cut(job(GRID, 21), 20_400), *again], window_s).only
        (restart,) = stops(found)
        assert restart.kind == "restart"
        assert restart.observed == pytest.approx(40, abs=2)
        evidence = restart.evidence
        assert evidence["left"] == [WHERE.endpoints[0], WHERE.endpoints[1]]
        assert evidence["joined"] == [WHERE.endpoints[6], WHERE.endpoints[7]]
        assert found.last.job.status == "running"

    def connected(self, who: Sequence[int]) -> list[Flow]:
        """A job that dies in a step, and all of some endpoints that meet one another four seconds later."""
        pairs = [(src, dst) for src in who for dst in who if src != dst]
        return [
            *cut(job(GRID, 21), 20_400),
            *(Flow(src, dst, 24_000 + 60 * src + 9 * dst, 2, 9000) for src, dst in pairs),
        ]

    @pytest.mark.parametrize("window_s", [10, *swept(5)])
    def test_connecting_endpoints_seem_to_restart_before_their_steps(self, window_s: int) -> None:
        """Messages of the job's sizes show that they do before steps end, whoever is in the place of some."""
        who = [2, 3, 4, 5, 6, 7]
        (restart,) = stops(worked(self.connected(who), window_s, until_s=40).only)
        assert (restart.kind, restart.severity, restart.status) == ("restart", "info", "open")
        assert restart.observed == pytest.approx(3.8, abs=0.1)
        assert "without host-00, host-01, with host-06, host-07" in restart.summary
        again = shifted(renamed(job(GRID, 1, 3000), who), 28_000)
        only = worked([*self.connected(who), *again], window_s).only
        (shown,) = stops(only)
        assert (shown.diagnosis_id, shown.severity, shown.status) == (restart.diagnosis_id, "critical", "open")
        assert [shown.observed, shown.lost_s] == pytest.approx([7.7, 7.0], abs=0.2)
        assert [one.kind for one in only.last.findings].count("restart") == 1
        assert shown.summary.endswith("before step 20 and goes on: look for why it died.")
        again = shifted(renamed(job(GRID, 6, 3000), who), 28_000)
        (confirmed,) = stops(worked([*self.connected(who), *again], window_s).only)
        assert (confirmed.diagnosis_id, confirmed.severity) == (restart.diagnosis_id, "critical")

    @pytest.mark.parametrize("times, told", [(1, "another one began on its endpoints."), (1.5, "it ended.")])
    def test_presumed_restart_is_closed_if_it_is_another_job(self, times: float, told: str) -> None:
        """One whose messages have the same sizes seems to go on with it at first."""
        who = [2, 3, 4, 5, 6, 7]
        other = [
            replace(flow, size=round(times * flow.size))
            for flow in shifted(renamed(job(GRID, 40, 800, microbatches=6), who), 28_000)
        ]
        results = worked([*self.connected(who), *other], 5)
        one, two = results.jobs.values()
        (presumed,) = stops(one)
        assert (presumed.severity, presumed.status, presumed.lost_s) == ("info", "closed", 0)
        assert presumed.summary.endswith(told)
        assert not results.incidents
        assert (len(one.steps), len(two.steps), stops(two)) == (20, 40, [])

    def test_another_job_with_like_activations_is_no_restart(self) -> None:
        """Its gradients have sizes of their own, which are most of the bytes."""
        who = [2, 3, 4, 5, 6, 7]
        other = [
            replace(flow, size=2 * flow.size) if flow.length_ms > 10 else flow
            for flow in shifted(renamed(job(GRID, 2, 800), who), 28_000)
        ]
        (restart,) = stops(worked([*self.connected(who), *other], 5, until_s=33).only)
        assert (restart.kind, restart.severity, restart.status) == ("restart", "info", "open")

    def test_messages_of_half_the_members_show_no_restart(self) -> None:
        """Another job that is made alike may have begun on their endpoints: whether one has, steps will tell."""
        who = [3, 4, 5, 6, 7, 8]
        flows = [*self.connected(who), *shifted(renamed(job(GRID, 2), who), 28_000)]
        found = work(batch(shaken(flows, 1, ms=0.1)), topology(9), 5, until_ns=BEGIN_NS + 30 * SECOND)
        (restart,) = (one for job in found.jobs.values() for one in stops(job))
        assert (restart.kind, restart.severity, restart.status) == ("restart", "info", "open")

    @pytest.mark.parametrize("later_ms, loses", [(34_000, False), (100_000, True)])
    def test_a_job_killed_in_a_step_gives_way_to_another(self, later_ms: int, loses: bool) -> None:
        """One that hung for more than a minute before that did hang."""
        other = shifted(renamed(job(GRID, 40, 800, microbatches=6), [2, 3, 4, 5, 6, 7]), later_ms)
        beside = ring([8, 9], every(700, later_ms // 700 + 40))
        flows = [*cut(job(GRID, 21), 20_400), *other, *beside]
        found = work(batch(shaken(flows, 1, ms=0.1)), topology(10), 10)
        (one,) = (each for each in found.jobs.values() if 0 in each.last.members.endpoint)
        (hang,) = stops(one)
        assert (hang.kind, hang.status, hang.lost_s > 0) == ("hang", "closed", loses)
        assert [incident.kind for incident in found.incidents.values()] == ["hang"] * loses

    def test_members_left_meeting_only_replacements_seem_to_restart(self) -> None:
        meeting = [Flow(src, dst, 24_000 + 60 * src + 9 * dst, 2, 9000) for src in (0, 1, 2) for dst in (6, 7)]
        (restart,) = stops(worked([*cut(job(GRID, 21), 20_400), *meeting], 5, until_s=40).only)
        assert (restart.kind, restart.severity, restart.status) == ("restart", "info", "open")
        assert "without host-03, host-04, host-05, with host-06, host-07" in restart.summary

    def test_restart_shows_with_next_step_in_same_window(self) -> None:
        steady = ring(range(6), every(9000, 14, 1000))
        meeting = [
            Flow(src, dst, 131_000 + 60 * src + 9 * dst, 2, 9000) for src in range(6) for dst in range(6) if src != dst
        ]
        (restart,) = stops(worked([*steady, *meeting, *ring(range(6), [132_500])], 10).only)
        assert (restart.kind, restart.severity, restart.status) == ("restart", "info", "open")
        assert [restart.observed, restart.lost_s] == pytest.approx([14.4, 5.5], abs=0.2)

    def test_loading_or_strays_are_no_presumed_restart(self) -> None:
        asking = [
            flow
            for member in range(6)
            for node in (6, 7)
            for flow in (
                Flow(member, node, 21_000 + 50 * member, 2, 400),
                Flow(node, member, 21_100 + 50 * member, 300, 90 * MB),
            )
        ]
        strays = [Flow(n % 5, n % 5 + 1 + n % 3, moment, 2, 900) for n, moment in enumerate(every(150, 300, 30))]
        for background in (asking, strays):
            assert {one.kind for one in stops(worked([*job(GRID, 20), *background], 5, until_s=45).only)} <= {"stall"}

    def test_presumed_restart_is_one_if_all_members_met(self) -> None:
        meeting = [Flow(src, (src + far) % 6, 24_000 + 60 * src, 2, 9000) for src in range(6) for far in (2, 3)]
        again = shifted(job(GRID, 19), 25_000)
        (presumed,) = stops(worked([*job(GRID, 20), *meeting, *again[:60]], 5).only)
        assert (presumed.kind, presumed.status) == ("restart", "open")
        (restart,) = stops(worked([*job(GRID, 20), *meeting, *again], 5).only)
        assert (restart.kind, restart.status, restart.diagnosis_id) == ("restart", "closed", presumed.diagnosis_id)

    @pytest.mark.parametrize("window_s", WINDOWS_S)
    def test_strays_in_a_long_pause_are_no_restart(self, window_s: int) -> None:
        chance = np.random.default_rng(1)
        ends = (chance.choice(6, 2, replace=False).tolist() for _ in range(100))
        strays = [Flow(src, dst, chance.uniform(0, 60_000), 2, 9000) for src, dst in ends]
        (stall,) = stops(worked([*paused(20.0), *strays], window_s).only)
        assert (stall.kind, stall.status) == ("stall", "closed")

    def test_restart_is_closed_once_new_attempt_is_settled(self) -> None:
        again = shifted(renamed(job(GRID, 80), [2, 3, 4, 5, 6, 7]), 35_000)
        (restart,) = stops(worked([*job(GRID, 20), *again], 10).only)
        assert (restart.kind, restart.status) == ("restart", "closed")


def by(exporter: str, flows: Sequence[Flow], members: Sequence[int] = range(8)) -> list[Flow]:
    """Flows that come from some members, as an exporter sees them."""
    return [replace(flow, exporter=exporter) for flow in flows if flow.src in members]


class TestLostExporters:
    def test_the_job_that_others_still_see_goes_on(self) -> None:
        seen = [*by("left", job(GRID, 60), (0, 2, 4)), *by("right", cut(job(GRID, 60), 30_000), (1, 3, 5))]
        results = worked(seen, 10)
        (missing,) = results.cluster.values()
        assert (missing.kind, missing.subject, missing.status) == ("telemetry", "right", "open")
        assert (missing.start_ns - BEGIN_NS) / SECOND == pytest.approx(30, abs=1)
        assert results.only.last.job.status == "running"

    @pytest.mark.parametrize("share", [2, 4])
    def test_one_that_loses_a_part_of_its_records_is_no_stop(self, share: int) -> None:
        right = [
            flow
            for row, flow in enumerate(by("right", job(GRID, 60), (1, 3, 5)))
            if flow.start_ms < 30_000 or row % share
        ]
        found = worked([*by("left", job(GRID, 60), (0, 2, 4)), *right], 10).only
        assert [one.kind for one in found.findings.values() if one.kind in {"stall", "hang", "restart"}] == []

    def test_one_that_comes_back_is_not_missed_any_more(self) -> None:
        right = [flow for flow in job(GRID, 60) if not 25_000 < flow.start_ms < 45_000]
        found = worked([*by("left", job(GRID, 60), (0, 2, 4)), *by("right", right, (1, 3, 5))], 10)
        assert [(one.kind, one.status) for one in found.cluster.values()] == [("telemetry", "closed")]

    def test_the_only_one_that_goes_silent_with_all_it_saw_was_lost(self) -> None:
        other = shifted(renamed(ring([0, 1], every(700, 40, 700)), [6, 7]), 0)
        seen = [*by("lost", job(GRID, 25)), *by("lost", cut(other, 25_000)), *by("other", ring([6, 7], every(900, 60)))]
        results = worked(seen, 10)
        (first,) = [one for one in results.jobs.values() if len(one.last.members) == 6]
        assert [one.status for one in stops(first) if one.slowdown > 0] == []
        (missing,) = results.cluster.values()
        assert (missing.kind, missing.subject) == ("telemetry", "lost")
        assert "can't be told" in missing.summary

    def test_one_that_sees_others_go_on_was_not(self) -> None:
        seen = by("leaf", [*cut(job(GRID, 25), 20_400), *renamed(ring([0, 1], every(700, 80, 700)), [6, 7])])
        (first,) = [one for one in worked(seen, 10).jobs.values() if len(one.last.members) == 6]
        (hang,) = stops(first)
        assert hang.kind == "hang"
        assert hang.evidence["only_exporter"] == ""

    def test_hang_names_the_only_exporter_that_saw_the_job(self) -> None:
        """One rank's sends are missing; its peers go on until they need them."""
        flows = [flow for flow in cut(job(GRID, 25), 20_400) if not (flow.src == 2 and flow.start_ms > 20_150)]
        (hang,) = stops(worked(by("leaf", flows), 10, until_s=60).only)
        assert (hang.kind, hang.evidence["class"]) == ("hang", "non-communication")
        assert hang.evidence["only_exporter"] == "leaf"
        assert hang.summary.endswith("Nothing else comes from leaf: if that was lost, the job may go on.")

    def test_job_cut_off_while_nobody_waits_is_not_seen(self) -> None:
        results = worked(by("leaf", cut(job(GRID, 25), 20_400)), 10, until_s=60)
        assert stops(results.only) == []
        (missing,) = results.cluster.values()
        assert (missing.kind, missing.subject, missing.status) == ("telemetry", "all exporters", "open")
        assert (missing.severity, results.only.last.job.status) == ("warning", "running")


def test_slowness_with_stops_needs_enough_other_steps() -> None:
    """Every tenth step is long because of a periodic pause."""
    steps = steps_of([*[1.0] * 10, 3.0] * 4)
    (stall,) = stops(worked(paused(3.0), 30).only)
    spans = ((8, 9), (9, 10), (10, 10), (10, 11), (9, 11))
    causes = [replace(stall, kind="slow_gpu", first_step=first, last_step=last) for first, last in spans]
    left_out = steps.step[not_slow([], steps, Params().stops)]
    kept = found_outside(tuple(causes), left_out, Params().diagnose.compute.slow_steps)
    assert left_out.tolist() == [10, 21, 32, 43]
    assert [(one.first_step, one.last_step) for one in kept] == [(8, 9), (9, 11)]
