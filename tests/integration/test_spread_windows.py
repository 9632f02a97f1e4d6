"""Windows whose jobs are worked by processes of a Dask cluster are those of one process, whatever happens to these."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from prism_ch.analysis import window as analysis
from prism_ch.analysis.diagnose.context import JobContext
from prism_ch.analysis.diagnose.diagnose import Diagnosis, diagnose
from prism_ch.cluster.executor import DaskExecutor
from prism_ch.errors import ClusterError
from prism_ch.ingest.files import land_files
from prism_ch.ingest.topology_file import load_topology
from prism_ch.settings import Settings
from prism_ch.simulate import generate, textbook, write
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate
from prism_ch.worker import analyse
from tests.contract import RESULTS, Snapshot, snapshot
from tests.e2e.commands import prism_ch
from tests.serving import endpoint
from tests.spread import Cluster, Disturbed, cluster

SETTINGS = Settings(url="chdb://unused", window_s=12)
WINDOWS = 3
#: How often calls are handed out in a window, at least.
STARTS = 6
TABLES = (*RESULTS, "what_if", "windows")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def spread() -> Iterator[Cluster]:
    """A scheduler and a worker; tests may add more."""
    with cluster(workers=1) as made:
        yield made


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the records of three jobs, one of them with a slow GPU, in three windows."""
    folder = tmp_path_factory.mktemp("records")
    scenario = textbook(
        48, 2, 2, 4, jobs=3, duration_s=12.0 * WINDOWS, step_s=0.3, microbatches=8, slow_gpu=(3, 2.5, 45, 85), seed=2
    )
    write(generate(scenario), folder)
    return folder


def land(store: Store, records: Path) -> None:
    load_topology(store, str(records / "topology.csv"))
    land_files(store, [str(records / "flows" / "*.parquet")])


@pytest.fixture
def landed(store: Store, records: Path) -> Store:
    """A database with these records."""
    land(store, records)
    return store


@pytest.fixture(scope="module")
def local(engine_folder: Path, records: Path) -> Snapshot:
    """What one process makes of them."""
    with connect(f"chdb://{engine_folder}?database=local") as store:
        migrate(store)
        land(store, records)
        analyse(store, SETTINGS)
        found = snapshot(store, *TABLES)
        store.command("DROP DATABASE local SYNC", use_database=False)
    assert len(found["windows"]) == WINDOWS
    assert len(found["jobs"]) == 3
    assert found["what_if"]
    return found


def statuses(store: Store) -> list[str]:
    return [row[0] for row in store.rows("SELECT status::String FROM windows ORDER BY window_start")]


def test_any_number_of_workers_finds_what_one_process_does(landed: Store, local: Snapshot, spread: Cluster) -> None:
    with DaskExecutor(spread.address) as executor:
        for number in (1, 2, 4):
            spread.add_workers(number - len(spread.alive))
            analyse(landed, SETTINGS, force=True, executor=executor)
            assert snapshot(landed, *TABLES) == local


def test_killed_workers_cost_nothing_but_time(landed: Store, local: Snapshot, spread: Cluster) -> None:
    def kill() -> None:
        spread.add_workers(max(3 - len(spread.alive), 0))
        spread.kill_worker()
        spread.kill_worker()

    with Disturbed(spread.address, kill, {1, STARTS + 3, 2 * STARTS + 4}) as executor:
        report = analyse(landed, SETTINGS, executor=executor)
        assert executor.is_over
    assert len(report.windows) == WINDOWS
    assert snapshot(landed, *TABLES) == local


@pytest.mark.sweep
def test_a_lost_scheduler_fails_the_window_and_no_more(landed: Store, local: Snapshot) -> None:
    with cluster(workers=1) as own, Disturbed(own.address, own.kill_scheduler, {STARTS + 2}) as executor:
        with pytest.raises(ClusterError, match="the scheduler was lost in the middle of a window"):
            analyse(landed, SETTINGS, executor=executor)
        assert statuses(landed) == ["worked", "failed"]
        [(error,)] = landed.rows("SELECT error FROM windows WHERE status = 'failed'")
        assert error.startswith(own.address)
        own.start_scheduler()
        report = analyse(landed, SETTINGS, executor=executor)  # the worker joins again by itself
    assert len(report.windows) == WINDOWS - 1
    assert snapshot(landed, *TABLES) == local


def test_a_window_that_a_scheduler_failed_is_worked_locally(landed: Store, local: Snapshot) -> None:
    with (
        cluster(workers=1) as own,
        Disturbed(own.address, own.kill_scheduler, {0}) as executor,
        pytest.raises(ClusterError),
    ):
        analyse(landed, SETTINGS, executor=executor)
    assert statuses(landed) == ["failed"]
    analyse(landed, SETTINGS)
    assert snapshot(landed, *TABLES) == local


def _diagnose_but_one(context: JobContext) -> Diagnosis:
    """Fail for one job in one window."""
    if context.job_id == os.environ["FAILING_JOB"]:
        raise IndexError("index 7 is out of bounds")
    return diagnose(context)


def _break(job_id: str) -> None:
    """Let a worker fail for one job."""
    os.environ["FAILING_JOB"] = job_id
    setattr(analysis, "diagnose", _diagnose_but_one)  # noqa: B010


def _mend() -> None:
    setattr(analysis, "diagnose", diagnose)  # noqa: B010


@pytest.mark.sweep
def test_a_job_that_fails_on_a_worker_costs_others_nothing(
    landed: Store, local: Snapshot, spread: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = local["jobs"][0].partition("\t")[0]
    with monkeypatch.context() as patched:
        patched.setenv("FAILING_JOB", job_id)
        patched.setattr(analysis, "diagnose", _diagnose_but_one)
        analyse(landed, SETTINGS)
    failed = snapshot(landed, *TABLES)
    assert "partial" in statuses(landed)
    with DaskExecutor(spread.address) as executor:
        client = executor._connected()
        client.run(_break, job_id)
        try:
            analyse(landed, SETTINGS, force=True, executor=executor)
        finally:
            client.run(_mend)
        assert snapshot(landed, *TABLES) == failed
        analyse(landed, SETTINGS, force=True, executor=executor)
    assert snapshot(landed, *TABLES) == local


def test_commands_spread_what_they_read_over_http(
    landed: Store, local: Snapshot, spread: Cluster, engine_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRISM_CH_EXECUTOR", spread.address)
    config = engine_folder.parent / "spread.toml"
    config.write_text(f"window_s = {SETTINGS.window_s}\n")
    monkeypatch.setenv("PRISM_CH_CONFIG", str(config))
    with endpoint(landed, engine_folder) as served:
        done = prism_ch("analyse", url=served.url())
        assert (done.status, done.err) == (0, "")
        with connect(served.url()) as remote:
            assert snapshot(remote, *TABLES) == local
