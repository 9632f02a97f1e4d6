"""A simulated job, made, landed and analysed by the command line, against the truth that it comes with."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from prism_ch.store.client import connect
from tests.e2e.analysed import Analysed
from tests.e2e.commands import prism_ch
from tests.scoring import read_simulated_truth, score, strangers

DURATION_ERROR_MAX = 0.003
SLOW_FIRST, SLOW_LAST = 20, 30


@pytest.fixture(params=["healthy", "slow_gpu"])
def job(request: pytest.FixtureRequest) -> Analysed:
    """64 GPUs, TP 4 x PP 4 x DP 4, rail-optimised."""
    found: Analysed = request.getfixturevalue(request.param)
    return found


def test_simulate_writes_records_topology_and_truth(healthy: Analysed) -> None:
    written = {str(path.relative_to(healthy.folder)) for path in healthy.folder.rglob("*") if path.is_file()}
    truth = ("jobs", "job_members", "pairs", "groups", "steps", "gpu_steps", "phases", "faults")
    wanted = {"topology.csv", "flows/part-00000.parquet", *(f"truth/{name}.parquet" for name in truth)}
    assert wanted <= written


def test_jobs_groups_pairs_and_stages_are_exact(job: Analysed) -> None:
    truth = read_simulated_truth(job.folder)
    with connect(job.url) as store:
        [found] = score(store, truth)
        assert store.scalar("SELECT count() FROM jobs") == len(truth) == 1
        assert strangers(store, truth) == set()
    assert found.members_exact
    assert found.stages_exact
    assert found.dp_groups_exact
    assert found.pp_chains_exact
    assert found.precision == dict.fromkeys(found.precision, 1.0)
    assert found.recall == dict.fromkeys(found.recall, 1.0)


def test_each_step_found_once_and_measured_to_0_3_percent(job: Analysed) -> None:
    with connect(job.url) as store:
        [found] = score(store, read_simulated_truth(job.folder))
    assert found.steps >= 40
    assert (found.missed, found.extra) == (0, 0)
    assert found.duration_error <= DURATION_ERROR_MAX


def test_a_healthy_job_gives_no_finding(healthy: Analysed) -> None:
    with connect(healthy.url) as store:
        assert store.rows("SELECT kind, severity, summary FROM diagnoses") == []
    assert "64 endpoints on 8 servers" in healthy.told.out
    assert "nothing slows it" in healthy.told.out


def test_a_slow_gpu_gives_an_incident_on_the_steps_it_slowed(slow_gpu: Analysed) -> None:
    steps = pq.read_table(slow_gpu.folder / "truth" / "steps.parquet").to_pylist()
    end_ns = {step["step"]: step["end_ns"] for step in steps}
    with connect(slow_gpu.url) as store:
        found = store.rows(
            "SELECT kind::String, severity::String, toUnixTimestamp64Nano(start_time), toUnixTimestamp64Nano(end_time)"
            " FROM incidents WHERE severity != 'info'"
        )
    [(kind, severity, began_ns, ended_ns)] = found
    assert (kind, severity) == ("slow_gpu", "critical")
    step_ns = end_ns[SLOW_FIRST - 1] - end_ns[SLOW_FIRST - 2]
    assert abs(began_ns - end_ns[SLOW_FIRST - 1]) < 0.1 * step_ns
    assert abs(ended_ns - end_ns[SLOW_LAST]) < 0.1 * step_ns
    assert f"slow_gpu, steps {SLOW_FIRST} to {SLOW_LAST}, " in slow_gpu.told.out


def test_what_does_not_fit_together_is_wrong_usage(tmp_path: Path) -> None:
    done = prism_ch("simulate", tmp_path / "sim", "--tp", "3")
    assert (done.status, done.out) == (2, "")
    assert done.err == "prism-ch: a tensor group is 1, 2, 4 or 8 GPUs of one server, not 3\n"
    assert not (tmp_path / "sim").exists()
