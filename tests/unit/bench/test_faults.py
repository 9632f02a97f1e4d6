from collections import Counter
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from scipy import stats

from bench.accuracy.faults.alarms import Alarm, Log, findings, incidents
from bench.accuracy.faults.cases import KINDS, Case, all_cases
from bench.accuracy.faults.healthy import all_runs
from bench.accuracy.faults.outcome import Graded, grade, is_exact, work
from bench.accuracy.faults.service import served
from bench.accuracy.faults.stream import windows
from bench.accuracy.faults.truth import PLACED, STOPS, Truth, true_of
from prism_ch.analysis.diagnose.network.together import SPINES
from prism_ch.simulate import Simulation, generate
from prism_ch.simulate.draws import Draws, textbook
from prism_ch.simulate.families import FAMILIES
from prism_ch.simulate.job import Fault, FaultKind, Layout
from tests.sweeps import swept

SECOND = 10**9
ALARM = Alarm(
    key="1",
    kind="slow_nic",
    subject_type="endpoint",
    subject="10.0.0.1",
    may_also_be=(),
    names=frozenset({"10.0.0.1"}),
    subjects=frozenset({"10.0.0.1"}),
    confidence=0.9,
    severity="warning",
    start_ns=100 * SECOND,
    end_ns=120 * SECOND,
    jobs=("job",),
    lost_gpu_h=1.0,
    summary="",
)
TRUTH = Truth(
    start_ns=100 * SECOND,
    end_ns=150 * SECOND,
    shown_ns=102 * SECOND,
    accepted=("slow_nic", "slow_step"),
    culprit=frozenset({"10.0.0.1"}),
    alike=frozenset({"10.0.0.1"}),
)


def graded(*alarms: Alarm, truth: Truth = TRUTH, kind: str = "slow_nic", at_s: int = 125) -> Graded:
    """Judge alarms that are read after one window."""
    log = Log()
    log.read([replace(one, key=str(number)) for number, one in enumerate(alarms)], at_s * SECOND)
    return grade(log, truth, kind)


def named(*names: str, **others: object) -> Alarm:
    """Return an alarm whose subject is the first of some names."""
    changed = {"subject": names[0], "names": frozenset(names), "subjects": frozenset(names[:1])} | others
    return replace(ALARM, **changed)  # type: ignore[arg-type]


def test_every_kind_and_magnitude_is_injected_under_every_seed() -> None:
    cases = all_cases(range(3))
    assert len(cases) == len(set(cases)) == 3 * sum(len(kind.magnitudes) for kind in KINDS.values())
    assert {case.kind for case in all_cases(range(1), ("hang", "stall"))} == {"hang", "stall"}
    assert {run.family for run in all_runs(range(1))}.isdisjoint({"late-data", "production-straggler"})


def test_every_kind_is_at_a_place_or_a_stop_and_none_is_left_out() -> None:
    assert set(KINDS) == {*PLACED, *STOPS}
    assert set(get_args(FaultKind)) <= set(KINDS)


@pytest.mark.parametrize(
    "kind", ["slow_gpu", *swept(*(kind for kind in KINDS if kind not in {"slow_drift", "slow_gpu"}))]
)
def test_injected_fault_has_effect_and_costs_time(kind: str) -> None:
    # The longest hole is one of ten minutes, all of which are simulated; the shortest has the same effect.
    case = Case(kind, KINDS[kind].magnitudes[0 if kind == "hole" else -1], 103)
    made = generate(case.scenario())
    truth = true_of(case, made)
    assert truth.start_ns <= truth.shown_ns <= truth.end_ns
    assert truth.end_ns <= made.scenario.start_ns + (made.scenario.duration_s + 60) * SECOND
    assert truth.culprit <= truth.alike
    assert bool(truth.culprit) or case.kind in STOPS
    assert truth.hides or truth.lost_gpu_s > 0
    assert truth.is_costly or case.kind in PLACED


def test_each_link_is_as_likely_to_be_slow() -> None:
    run, kind = FAMILIES["pipeline-1f1b"](1, servers=2), KINDS["slow_link"]
    drawn = [kind.inject(Draws("links", seed), run, 1.0, 0.4).faults[0] for seed in range(400)]
    counts = list(Counter((one.gpu, one.peer) for one in drawn).values())
    assert stats.chisquare(counts).pvalue > 1e-3


def test_cost_is_what_steps_take_beyond_those_without_the_fault() -> None:
    case = Case("slow_gpu", 1.5, 104)
    made = generate(case.scenario())
    without = generate(replace(case.scenario(), faults=()))
    truth = true_of(case, made)
    ends, healthy = (sorted(one.truth["steps"]["end_ns"].to_pylist()) for one in (made, without))
    behind_s = (ends[-1] - healthy[len(ends) - 1]) / SECOND
    [cost] = truth.costs
    assert cost.lost_s == pytest.approx(behind_s, rel=0.1)
    assert truth.lost_gpu_s == cost.lost_s * len(cost.endpoints)
    assert true_of(case, without_fault(made)).lost_gpu_s == pytest.approx(0.0, abs=1e-6)


def test_steps_that_a_restart_cuts_are_done_again() -> None:
    # The first stage has begun a step more when the attempt ends; neither is done.
    case = Case("restart", 5.0, 71110)
    made = generate(case.scenario())
    ends_s = np.sort(made.truth["steps"]["end_ns"].to_numpy()) / SECOND
    took_s = np.diff(ends_s)
    [cost] = true_of(case, made).costs
    assert cost.lost_s == pytest.approx(took_s.max() - np.median(took_s), rel=0.02)


def test_fault_that_nothing_shows_must_raise_no_alarm() -> None:
    """Of two replicas one is slow all along: a job with longer steps leaves the same records."""
    draws = Draws("ddp-fused", 3, servers=2)
    job = draws.job(0, Layout(tp=8, dp=2), 2.0)
    fault = Fault(kind="slow_gpu", gpu=3, factor=2.0, start_s=-10.0)
    run = draws.scenario([job], 2.0, faults=(fault,), duration_s=60.0, phases=False)
    for short, shown in (
        (fault, False),
        (replace(fault, end_s=30.0), True),
        (replace(fault, start_s=0.0, first_step=10, last_step=10), True),
    ):
        truth = true_of(Case("slow_gpu", 2.0, 3), generate(replace(run, faults=(short,))))
        assert truth.share > 0.2
        assert (truth.is_shown, truth.is_costly) == (shown, shown)


def without_fault(made: Simulation) -> Simulation:
    """Return a simulation whose fault changes nothing."""
    return generate(replace(made.scenario, faults=(replace(made.scenario.faults[0], factor=1.0),)))


def test_alarm_is_right_by_kind_and_time_and_has_a_delay() -> None:
    one = graded(ALARM, named("leaf", kind="stall", subject_type="job"))
    assert (one.found, one.kind, one.subject, one.exact, one.itself) == (True, True, True, True, True)
    assert (one.right, one.wrong, one.wrongly, one.alarms, one.delay_s) == (1, 1, ("stall leaf",), 2, 23.0)
    assert not graded(replace(ALARM, start_ns=0, end_ns=50 * SECOND)).found
    assert not graded(replace(ALARM, kind="slow_gpu")).found


def test_weightiest_alarm_is_judged() -> None:
    culprit, innocent = replace(ALARM, severity="critical"), named("10.0.0.9", kind="slow_nic", lost_gpu_h=9.0)
    assert graded(culprit, innocent).subject
    assert not graded(replace(culprit, severity="warning"), innocent).subject


def test_subject_and_others_are_all_who_leave_the_same_records() -> None:
    several = replace(TRUTH, alike=frozenset({"10.0.0.1", "10.0.0.2", "leaf"}))
    one = graded(named("10.0.0.2", "10.0.0.1", "leaf"), truth=several)
    assert (one.subject, one.exact, one.itself) == (True, True, False)
    fewer, more = named("10.0.0.2", "leaf"), named("10.0.0.2", "10.0.0.1", "leaf", "10.0.0.3")
    assert [graded(alarm, truth=several).exact for alarm in (fewer, more)] == [False, False]
    assert not graded(named("10.0.0.3", "10.0.0.1"), truth=several).subject


def test_links_are_implied_by_their_ends() -> None:
    ring = frozenset({"a", "b", "a->b", "b->a", "leaf"})
    assert is_exact(frozenset({"a", "b", "leaf"}), ring)
    assert is_exact(ring, ring)
    assert not is_exact(frozenset({"a", "b", "leaf", "a->c"}), ring)
    assert not is_exact(frozenset({"a"}), frozenset({"a->b"}))


def test_any_kind_of_path_is_right_that_names_a_candidate() -> None:
    truth = replace(TRUTH, accepted=("slow_switch", "slow_step"), culprit=frozenset({"leaf"}))
    truth = replace(truth, alike=frozenset({"leaf", "10.0.0.1"}))
    assert graded(ALARM, truth=truth, kind="slow_switch").kind
    assert not graded(ALARM, truth=replace(truth, alike=truth.culprit), kind="slow_switch").found


def test_stop_is_found_once_the_job_is_found_to_hang() -> None:
    truth = replace(TRUTH, accepted=("stall",), meanwhile=("hang",), meanwhile_ns=120 * SECOND)
    log = Log()
    log.read([replace(ALARM, kind="hang")], 125 * SECOND)
    assert not grade(log, truth, "stall").found
    assert grade(log, truth, "stall").wrong == 0
    log.read([replace(ALARM, kind="stall")], 160 * SECOND)
    assert (grade(log, truth, "stall").found, grade(log, truth, "stall").delay_s) == (True, 23.0)
    early = Log()
    early.read([replace(ALARM, kind="hang")], 110 * SECOND)
    assert grade(early, truth, "stall").wrong == 1


def test_contradictions_name_nobody_in_common() -> None:
    other = named("10.0.0.9")
    assert graded(ALARM, other).contradictions == 1
    assert graded(ALARM, named("10.0.0.9", "10.0.0.1")).contradictions == 0
    assert graded(ALARM, replace(other, jobs=("another",))).contradictions == 0
    assert graded(ALARM, replace(other, start_ns=130 * SECOND, end_ns=140 * SECOND)).contradictions == 0
    assert graded(ALARM, replace(other, subject_type="job")).contradictions == 0


def test_healthy_leaf_is_accused_for_a_slow_spine() -> None:
    truth = replace(TRUTH, culprit=frozenset({"spine"}), alike=frozenset({"spine"}))
    assert graded(ALARM, truth=truth, kind="slow_spine").accuses_healthy
    assert not graded(named("spine", subject_type="switch"), truth=truth, kind="slow_spine").accuses_healthy
    assert not graded(replace(ALARM, subject_type="group"), truth=truth, kind="slow_uplink").accuses_healthy
    assert not graded(ALARM, truth=truth, kind="slow_nic").accuses_healthy
    before = replace(ALARM, start_ns=60 * SECOND, end_ns=90 * SECOND)
    assert not graded(before, truth=truth, kind="slow_spine").accuses_healthy


def test_pair_whose_flows_cross_a_slow_uplink_is_not_healthy() -> None:
    pair = "10.0.0.1->10.0.0.2"
    truth = replace(TRUTH, culprit=frozenset({"a->b"}), alike=frozenset({"a->b"}), across=frozenset({pair}))
    alarm = named(pair, subject_type="link")
    assert not graded(alarm, truth=truth, kind="slow_uplink").accuses_healthy
    assert graded(alarm, truth=replace(truth, across=frozenset()), kind="slow_uplink").accuses_healthy


def test_spines_without_a_name_are_right_for_any_of_them() -> None:
    truth = replace(TRUTH, culprit=frozenset({"spine"}), alike=frozenset({"spine"}), across=frozenset({"a->b"}))
    one = graded(named(SPINES, subject_type="switch", kind="slow_switch"), truth=truth, kind="slow_spine")
    assert not one.accuses_healthy
    assert [claim.right for claim in one.sure] == [False]
    truth = replace(truth, accepted=("slow_switch",))
    one = graded(named(SPINES, subject_type="switch", kind="slow_switch"), truth=truth, kind="slow_spine")
    assert [claim.right for claim in one.sure] == [True]


def test_a_group_holds_the_links_between_its_members() -> None:
    truth = replace(TRUTH, accepted=("slow_link", "slow_group"), culprit=frozenset({"a->b"}), alike=frozenset({"a->b"}))
    for members, right in ((("a", "b", "c"), True), (("a", "c"), False)):
        group = named("0", subject_type="group", kind="slow_group", subjects=frozenset(members))
        assert graded(group, truth=truth).itself is right


def test_alarms_that_are_no_longer_read_are_withdrawn() -> None:
    log = Log()
    log.read([ALARM, named("10.0.0.2", key="2")], 110 * SECOND)
    log.read([replace(ALARM, severity="critical")], 120 * SECOND)
    assert [(one.severity, one.first_ns) for one in log.now.values()] == [("critical", 110 * SECOND)]
    assert (grade(log, TRUTH, "slow_nic").withdrawn, grade(log, TRUTH, "slow_nic").wrong) == (1, 0)


@pytest.mark.sweep
def test_service_looks_at_silence_before_its_window_closes() -> None:
    """Windows close ten seconds after their end; a hang is read sooner, and what is read is replaced."""
    made = generate(Case("hang", 0.0, 102).scenario())
    first_ns = made.summary["window_start_ns"]
    times_s = [(now_ns - first_ns) / SECOND for now_ns, _, _ in served(made)]
    assert times_s == sorted(times_s)
    assert any(60 < at_s < 120 and not 70 <= at_s <= 75 for at_s in times_s) or len(times_s) > 3


@pytest.mark.sweep
def test_missing_records_fail_no_interleaved_pipeline(caplog: pytest.LogCaptureFixture) -> None:
    """Of a link no message is left in some windows, and its ends are known by their other links."""
    made = generate(replace(Case("hole", 30.0, 21586).scenario(), phases=False))
    assert len(list(served(made))) > 3
    assert "job failed" not in caplog.text


def test_names_of_a_server_are_its_endpoints_in_the_job() -> None:
    made = generate(textbook(steps=40, seed=3, slow_gpu=(9, 2.0, 24, 40)))
    *_, (_, results, topology) = windows(made, 60.0)
    [alarm] = [one for one in incidents(results, topology) if one.kind == "slow_gpu"]
    assert alarm.subject == "server-00001"
    assert alarm.subjects == {f"10.{rail}.0.2" for rail in range(16, 20)} or len(alarm.subjects) == 8
    assert {"slow_gpu", "slow_step"} <= {one.kind for one in findings(results, topology)}
    assert all(one.names for one in findings(results, topology))


def test_slow_gpu_is_judged_from_simulation_to_alarm() -> None:
    one = work(Case("slow_gpu", 2.5, 102))
    assert one.is_costly
    assert one.error == ""
    assert one.phases.gpu_steps > 0
    assert one.alarms.found
    assert one.findings.found
    assert [told == pytest.approx(lost, rel=0.5) for lost, told in one.losses] == [True]


def test_hang_before_gradients_is_localised_by_first_pieces() -> None:
    """One ring has begun its all-reduce. Its first pieces end no step, and show which rank has not begun."""
    one = work(Case("hang", 1.0, 9027))
    assert (one.gpus, one.alarms.found, one.alarms.itself, one.alarms.wrong) == (8, True, True, 0)
