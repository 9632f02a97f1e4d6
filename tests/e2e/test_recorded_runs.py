"""Recorded training runs, landed and analysed as a user would, against what is known to have happened in them."""

import pytest

from prism_ch.store.client import connect
from tests.e2e.analysed import Recorded
from tests.scoring import read_recorded_truth, score, strangers

RUNS = ("dp4_clean", "ppdp4_overlap", "dp4_slow_rank")
SLOW_RANK = "10.66.0.13"

STEPS = 70
STEPS_MATCHED_MIN = 68
EXTRA_MAX = 1
DURATION_ERROR_MAX = 0.01


@pytest.mark.parametrize("name", RUNS)
def test_the_job_its_groups_and_its_steps(recorded: Recorded, name: str) -> None:
    run = recorded(name)
    truth = read_recorded_truth(run.folder)
    with connect(run.url) as store:
        [found] = score(store, truth)
        assert store.scalar("SELECT count() FROM jobs") == 1
        assert strangers(store, truth) == set()
    assert found.members_exact
    assert found.dp_groups_exact
    assert found.pp_chains_exact
    assert found.stages_exact
    for kind in ("DP", "PP"):
        assert (kind, found.precision[kind], found.recall[kind]) == (kind, 1.0, 1.0)
    assert found.steps == STEPS
    assert found.matched >= STEPS_MATCHED_MIN
    assert found.extra <= EXTRA_MAX
    assert found.duration_error <= DURATION_ERROR_MAX


def test_ring_without_pipeline_has_one_group_and_no_pp_pair(recorded: Recorded) -> None:
    with connect(recorded("dp4_clean").url) as store:
        assert store.rows("SELECT kind, length(members) FROM groups") == [("DP", 4)]
        assert store.rows("SELECT DISTINCT kind FROM pairs WHERE kind IN ('PP', 'EP', 'CP', 'TP')") == []
        assert store.rows("SELECT endpoints, servers, dp_size, pp_size FROM jobs") == [(4, 4, 4, 1)]


@pytest.mark.parametrize("name", ["dp4_clean", "ppdp4_overlap"])
def test_a_healthy_run_gives_no_alarm(recorded: Recorded, name: str) -> None:
    run = recorded(name)
    with connect(run.url) as store:
        assert store.rows("SELECT kind, summary FROM diagnoses WHERE severity != 'info'") == []
    assert "nothing slows it" in run.told.out


def test_only_the_slow_rank_and_the_busy_machine_are_found(recorded: Recorded) -> None:
    with connect(recorded("dp4_slow_rank").url) as store:
        alarms = store.rows(
            "SELECT kind, first_step, last_step, summary FROM diagnoses WHERE severity != 'info' ORDER BY first_step"
        )
        slowest = store.rows("SELECT DISTINCT slowest_endpoint FROM steps WHERE step BETWEEN 30 AND 45")
    slow_rank, *others = alarms
    kind, first, last, summary = slow_rank
    assert kind == "slow_step"
    assert abs(first - 30) <= 1
    assert abs(last - 45) <= 1
    assert SLOW_RANK in summary
    assert slowest == [(SLOW_RANK,)]
    # The recording machine was busy from step 59 on: a finding there is right, and is nobody's fault.
    assert [other for other in others if other[0] != "slow_step" or other[1] < 59 or other[2] > 69] == []
    assert not any("10.66." in other[3] for other in others)


def test_the_summary_and_sql_tell_the_same_findings(recorded: Recorded) -> None:
    run = recorded("dp4_slow_rank")
    with connect(run.url) as store:
        findings = store.rows("SELECT kind::String, subject, summary FROM diagnoses ORDER BY start_time")
    assert len(findings) >= 1
    assert [summary for _, _, summary in findings if summary not in run.told.sentences] == []
