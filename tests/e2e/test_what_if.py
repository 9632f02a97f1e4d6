"""What a straggler costs, by replay of a simulated run with one."""

import csv
import io

import pytest

from tests.e2e.analysed import Analysed, NewUrl, simulate
from tests.e2e.commands import prism_ch


@pytest.fixture(scope="module")
def healthy(new_url: NewUrl, tmp_path_factory: pytest.TempPathFactory) -> Analysed:
    return simulate(tmp_path_factory.mktemp("healthy"), new_url())


@pytest.fixture(scope="module")
def slow_gpu(new_url: NewUrl, tmp_path_factory: pytest.TempPathFactory) -> Analysed:
    return simulate(tmp_path_factory.mktemp("slow_gpu"), new_url(), "--slow-gpu", "5", "2", "20", "30", "--seed", "1")


def ask(run: Analysed, *question: str) -> list[dict[str, str]]:
    done = prism_ch(*question, "--format", "csv", url=run.url)
    assert (done.status, done.err) == (0, "")
    return list(csv.DictReader(io.StringIO(done.out)))


def job_of(run: Analysed) -> str:
    [job] = ask(run, "jobs")
    return job["job_id"]


def test_incident_has_what_its_steps_take_without_it(slow_gpu: Analysed) -> None:
    [row] = [one for one in ask(slow_gpu, "what-if", job_of(slow_gpu)) if one["incident_id"]]
    assert (int(row["first_step"]), int(row["last_step"])) == (20, 30)
    assert float(row["replayed_s"]) == pytest.approx(float(row["actual_s"]), rel=1e-6)
    steps = ask(slow_gpu, "sql", "SELECT median(duration_s) AS usual_s FROM steps WHERE step NOT BETWEEN 20 AND 30")
    assert float(row["without_s"]) == pytest.approx(11 * float(steps[0]["usual_s"]), rel=0.02)


def test_worst_worker_explains_what_stragglers_cost(slow_gpu: Analysed) -> None:
    saved = {row["without"]: float(row["saved_gpu_h"]) for row in ask(slow_gpu, "what-if", job_of(slow_gpu))}
    assert saved["worst 1"] <= saved["worst 3"] <= saved["worst 10"]
    assert saved["worst 1"] > 0.5 * saved["stragglers"] > 0


def test_fleet_loses_what_its_jobs_lose_to_stragglers(slow_gpu: Analysed) -> None:
    fleet, *jobs = ask(slow_gpu, "what-if")
    assert (fleet["job_id"], [row["job_id"] for row in jobs]) == ("", [job_of(slow_gpu)])
    assert float(fleet["lost_gpu_h"]) == pytest.approx(sum(float(row["lost_gpu_h"]) for row in jobs))
    assert 0 < float(fleet["share"]) < 1
    assert 0.5 < float(fleet["worst_1"]) <= float(fleet["worst_3"]) <= float(fleet["worst_10"]) <= 1


def test_slower_server_makes_steps_longer(healthy: Analysed) -> None:
    [server, *_] = ask(healthy, "sql", "SELECT server FROM job_members ORDER BY server")
    [row] = ask(healthy, "what-if", job_of(healthy), "--slower", server["server"], "1.3")
    assert float(row["without_s"]) > 1.05 * float(row["replayed_s"])
    [row] = ask(healthy, "what-if", job_of(healthy), "--without", server["server"])
    assert float(row["without_s"]) == pytest.approx(float(row["replayed_s"]), rel=0.02)


def test_balanced_stages_of_even_pipeline_change_little(healthy: Analysed) -> None:
    [row] = ask(healthy, "what-if", job_of(healthy), "--balanced")
    assert float(row["without_s"]) == pytest.approx(float(row["replayed_s"]), rel=0.05)


def test_idle_time_is_part_of_compute_time(healthy: Analysed) -> None:
    [row] = ask(
        healthy,
        "sql",
        "SELECT count() AS steps, countIf(idle_s > compute_s + 1e-6) AS more,"
        " countIf(bubble_s > idle_s + 1e-9) AS most,"
        " sum(bubble_s) / sum(idle_s) AS share FROM gpu_steps WHERE idle_s IS NOT NULL",
    )
    assert (int(row["steps"]) > 1000, row["more"], row["most"]) == (True, "0", "0")
    assert 0.5 < float(row["share"]) <= 1


@pytest.mark.parametrize("subject", ["10.99.0.1", "'; DROP TABLE jobs --", "a->b", "\u202e<b>" * 999])
def test_unknown_subject_is_one_line(healthy: Analysed, subject: str) -> None:
    done = prism_ch("what-if", job_of(healthy), "--without", subject, url=healthy.url)
    assert (done.status, done.out) == (2, "")
    assert done.err.count("\n") == 1


def test_unknown_job_and_several_changes_refused(healthy: Analysed) -> None:
    assert prism_ch("what-if", "none", "--balanced", url=healthy.url).status == 2
    assert prism_ch("what-if", job_of(healthy), "--balanced", "--without", "a", url=healthy.url).status == 2


def test_windows_that_do_not_replay_say_so(healthy: Analysed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRISM_CH_REPLAY", "false")
    done = prism_ch("what-if", job_of(healthy), url=healthy.url)
    assert (done.status, "replay = false" in done.err) == (0, True)
