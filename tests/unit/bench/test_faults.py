from dataclasses import fields, replace
from typing import get_args

import numpy as np
import pytest

from bench.accuracy.faults.cases import KINDS, Case, all_cases
from bench.accuracy.faults.healthy import Alarms, Run, all_runs
from bench.accuracy.faults.outcome import (
    NO_FAULT,
    FaultOutcome,
    Injected,
    compare,
    injected,
    is_about,
    is_named,
    names_culprit,
    work,
)
from bench.accuracy.faults.stream import JobFinding, windows
from bench.accuracy.faults.tables import (
    healthy_table,
    kinds_table,
    magnitudes_table,
    most_alarms,
    thresholds_table,
)
from prism_ch.model import params
from prism_ch.model.finding import Finding, FindingKind
from prism_ch.model.window import Window
from prism_ch.simulate import generate
from prism_ch.simulate.draws import textbook

SECOND = 10**9
FINDING = Finding(
    diagnosis_id="1",
    kind="slow_gpu",
    subject_type="endpoint",
    subject="10.0.0.1",
    first_step=20,
    last_step=30,
    start_ns=100 * SECOND,
    end_ns=120 * SECOND,
    status="open",
    severity="warning",
    observed=2.0,
    expected=1.0,
    score=9.0,
    slowdown=0.5,
    summary="The others waited for 10.0.0.1 (host-1).",
)
TRUTH = Injected(
    start_ns=100 * SECOND,
    end_ns=150 * SECOND,
    readable_ns=102 * SECOND,
    accepted=("slow_gpu", "slow_step"),
    culprits=frozenset({"10.0.0.1"}),
    effect=0.2,
    step_end_ns=np.arange(0, 200, 2) * SECOND,
)


def in_windows(*findings: Finding) -> list[tuple[Window, list[JobFinding]]]:
    """Return windows of 10 s, each with one finding more than the one before it."""
    return [
        (
            Window((90 + 10 * n) * SECOND, (100 + 10 * n) * SECOND),
            [JobFinding("job", finding) for finding in findings[:n]],
        )
        for n in range(len(findings) + 1)
    ]


def test_every_kind_and_magnitude_is_injected_under_every_seed() -> None:
    cases = all_cases(range(3))
    assert len(cases) == len(set(cases)) == 3 * sum(len(kind.magnitudes) for kind in KINDS.values())
    assert len(all_cases(range(10))) >= 300
    assert {run.family for run in all_runs(range(1))}.isdisjoint({"late-data", "production-straggler"})


@pytest.mark.parametrize("kind", KINDS)
def test_injected_fault_has_effect_and_is_readable(kind: str) -> None:
    case = Case(kind, KINDS[kind].magnitudes[-1], 100)
    scenario = case.scenario()
    truth = injected(case, generate(scenario))
    assert scenario.start_ns < truth.start_ns < truth.readable_ns <= truth.end_ns
    assert truth.end_ns <= scenario.start_ns + (scenario.duration_s + 60) * SECOND
    assert truth.effect > 0


def test_windows_are_long_before_the_fault_and_short_after() -> None:
    made = generate(textbook(steps=20, seed=3, slow_gpu=(9, 2.0, 12, 20)))
    seen = list(windows(made, 10.0, from_s=25.0))
    width_s = [(window.end_ns - window.start_ns) / SECOND for window, _ in seen]
    assert width_s == [25.0, 10.0, 7.0]
    sooner = windows(made, 10.0, from_s=10.0, enough=lambda current: len(current) == 0)
    assert [(window.end_ns - window.start_ns) / SECOND for window, _ in sooner] == [10.0, 30.0, 2.0]
    assert [one.finding.kind for one in seen[0][1]] == []
    assert "slow_step" in {one.finding.kind for one in seen[-1][1]}


def test_finding_is_right_by_kind_and_time_and_has_a_delay() -> None:
    other = replace(FINDING, kind="slow_switch", subject="leaf")
    early = replace(FINDING, subject="10.0.0.2", start_ns=0, end_ns=50 * SECOND)
    outcome = compare(TRUTH, in_windows(other, early, FINDING), 8)
    assert (outcome.found, outcome.named, outcome.right, outcome.wrong) == (True, True, 1, 2)
    assert outcome.wrongly == ("slow_switch leaf", "slow_gpu 10.0.0.2")
    assert (outcome.delay_s, outcome.delay_steps) == (20.0, 10)


def test_stall_is_found_once_the_job_is_found_to_hang() -> None:
    stall = replace(FINDING, kind="stall")
    truth = replace(TRUTH, accepted=("stall",), meanwhile=("hang",), meanwhile_ns=120 * SECOND)
    hang = replace(stall, kind="hang")
    early = [(window, [JobFinding("job", hang)]) for window, _ in in_windows(stall)[1:]]
    later = [(Window((110 + n) * SECOND, (120 + n) * SECOND), [JobFinding("job", hang)]) for n in (0, 10, 20)]
    over = [(Window(140 * SECOND, 150 * SECOND), [JobFinding("job", stall)])]
    outcome = compare(truth, [*in_windows(), *early, *later, *over], 8)
    assert (outcome.found, outcome.wrong, outcome.delay_s) == (True, 0, 10.0)
    assert not compare(truth, [*in_windows(), *early, *later], 8).found
    assert compare(replace(truth, meanwhile=()), [*in_windows(), *early, *later, *over], 8).delay_s == 40.0
    restart = replace(truth, accepted=("restart",))
    begun = [(over[0][0], [JobFinding("job", replace(stall, kind="restart"))])]
    assert compare(restart, [*in_windows(), *early, *later, *begun], 8).delay_s == 40.0


def test_hang_before_gradients_is_localised_by_first_pieces() -> None:
    """One ring has begun its all-reduce. Its first pieces end no step, and show which rank has not begun."""
    outcome = work(Case("hang", 1.0, 9027))
    assert (outcome.gpus, outcome.found, outcome.named, outcome.wrong) == (8, True, True, 0)


def test_finding_of_info_counts_as_no_alarm() -> None:
    outcome = compare(TRUTH, in_windows(replace(FINDING, kind="slow_switch", severity="info")), 8)
    assert (outcome.found, outcome.named, outcome.right, outcome.wrong) == (False, None, 0, 0)


def test_a_culprit_of_a_stop_is_named_as_a_whole_word() -> None:
    stop = replace(FINDING, kind="stall", subject="job")
    assert names_culprit(stop, frozenset({"host-1"}))
    assert not names_culprit(stop, frozenset({"10.0.0"}))
    assert not names_culprit(FINDING, frozenset({"host-1"}))


def test_culprit_is_named_if_no_other_is_localised() -> None:
    several = replace(FINDING, kind="slow_nic", evidence={"may_also_be": ["10.0.0.2"]})
    group = replace(FINDING, kind="slow_group", subject_type="group", subject="3", evidence={"members": ["10.0.0.1"]})
    steps = replace(FINDING, kind="slow_step", evidence={"root_cause": {"subject": "10.0.0.1"}})
    assert [is_named([one], TRUTH) for one in (FINDING, several, group, steps)] == [True, False, True, True]
    assert not is_named([replace(steps, evidence={})], TRUTH)
    assert is_named([several, FINDING], TRUTH)


def test_unidentifiable_culprit_only_a_single_other_is_wrong() -> None:
    truth = replace(TRUTH, identifiable=False)
    several = replace(FINDING, kind="slow_nic", evidence={"may_also_be": ["10.0.0.2"]})
    assert is_named([several], truth) is None
    assert is_named([FINDING], truth) is None
    assert is_named([replace(FINDING, subject="10.0.0.9")], truth) is False
    counted = magnitudes_table([(Case("slow_nic", 0.4, 1), FaultOutcome(8, 0.2, found=True, identifiable=False))])
    assert counted.rows[0][4:7] == ("100%", "-", "1")


def test_part_of_a_shared_path_may_have_any_path_kind() -> None:
    truth = replace(TRUTH, identifiable=False, accepted=("slow_switch", "slow_step"), culprits=frozenset({"leaf-1"}))
    link = replace(FINDING, kind="slow_link", subject="10.0.0.1->10.0.0.2", evidence={"may_also_be": ["leaf-1"]})
    assert is_about(link, truth)
    assert not is_about(link, replace(truth, identifiable=True))
    assert not is_about(replace(link, evidence={}), truth)
    assert not is_about(replace(link, kind="slow_gpu"), truth)
    assert not is_about(replace(link, kind="slow_nic", subject="leaf-1"), replace(truth, accepted=("slow_gpu",)))


def test_promises_are_judged_by_faults_with_effect() -> None:
    good = FaultOutcome(8, 0.2, found=True, named=True, delay_steps=2, delay_s=30.0, right=1)
    worked = [(Case("slow_gpu", 1.2, seed), good) for seed in range(20)]
    [row] = [row for row in kinds_table(worked).rows if row[0].startswith("slow GPU")]
    assert row[1:10] == (
        "20",
        "100%",
        "100%",
        "100%",
        "0",
        "2 steps",
        "30 s",
        "99% / 98% / 96% / 2 steps or 15 s",
        "yes",
    )
    unfelt = (Case("slow_gpu", 1.2, 20), FaultOutcome(8, 0.001))
    assert kinds_table([*worked, unfelt]).rows[0] == kinds_table(worked).rows[0]
    missed = (Case("slow_gpu", 1.2, 20), FaultOutcome(8, 0.2, wrong=1, wrongly=("slow_switch leaf",)))
    row = kinds_table([*worked, missed]).rows[0]
    assert row[2:4] == ("95.23%", "95.23%")
    assert row[9:] == ("no", "1 slow_switch")
    assert magnitudes_table([*worked, missed, unfelt]).rows == [
        ("slow_gpu", "1.2", "21", "+20.0%", "95.23%", "100%", "0", "1", "1", "0")
    ]


def test_false_alarms_are_counted_by_gpu_hours() -> None:
    worked = [
        (Run("zero2", "clean", 1), Alarms(500.0, ())),
        (Run("zero2", "all", 1), Alarms(500.0, ("slow_step", "slow_step", "hang"))),
    ]
    assert most_alarms(0) == pytest.approx(3.0, abs=0.01)
    rows = healthy_table(worked).rows
    assert rows[0] == ("zero2", "1000.0", "0", "3", "3", "7.75", "no", "2 slow_step, 1 hang")
    assert rows[-1][0] == "all families"
    by_kind = {row[0]: row for row in thresholds_table(worked).rows}
    assert by_kind["hang"][1:4] == ("1", "1", "4.74")
    assert by_kind["stall"][1:4] == ("0", "0", "3")
    assert set(by_kind) == {kind for kind in get_args(FindingKind) if kind not in NO_FAULT}
    assert thresholds_table([]).rows == []


def test_every_threshold_in_the_table_is_a_parameter() -> None:
    for row in thresholds_table([(Run("zero2", "clean", 1), Alarms(1.0, ()))]).rows:
        for named in row[-1].split("; "):
            name, parts = named.split(".")
            assert {field.name for field in fields(getattr(params, name))} >= set(parts.split(", "))
