"""A job that fails in the analysis costs the others nothing, and is caught up on once it fails no more."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from prism_ch.analysis import window as analysis
from prism_ch.analysis.continuity import continuity, resume
from prism_ch.analysis.diagnose.diagnose import diagnose
from prism_ch.health.checks import check_service
from prism_ch.ingest.files import land_files
from prism_ch.ingest.topology_file import load_topology
from prism_ch.report.summary import read_facts, summarise
from prism_ch.settings import Settings
from prism_ch.simulate import generate, textbook, write
from prism_ch.store import due_windows, ledger
from prism_ch.store.client import Store
from prism_ch.worker import analyse
from tests.contract import RESULTS, snapshot
from tests.sweeps import swept

SETTINGS = Settings(url="chdb://unused")
WINDOWS = 3


@pytest.fixture
def landed(store: Store, tmp_path: Path) -> Store:
    """A database with two jobs of two tenants that train for three windows."""
    made = generate(textbook(32, 1, 2, 8, jobs=2, duration_s=60.0 * WINDOWS, step_s=1.0, seed=2))
    write(made, tmp_path)
    load_topology(store, str(tmp_path / "topology.csv"))
    pq.write_table(made.flows, tmp_path / "flows.parquet")
    land_files(store, [str(tmp_path / "flows.parquet")])
    return store


def statuses(store: Store) -> list[str]:
    return [row[0] for row in store.rows("SELECT status::String FROM windows ORDER BY window_start")]


def without(found: dict[str, list[str]], job_id: str) -> dict[str, list[str]]:
    """Leave out a job's rows."""
    return {table: [row for row in rows if job_id not in row] for table, rows in found.items()}


def broken(monkeypatch: pytest.MonkeyPatch, stage: str, at_job: str, calls: set[int]) -> None:
    """Let a stage raise for one job, at some of its calls."""
    places = {"diagnose": (analysis, diagnose), "divide_attempt": (continuity, resume.divide_attempt)}
    module, works = places[stage]
    seen = iter(range(100))

    def fails(first: object, *others: object, **options: object) -> object:
        job_id = first.job_id  # type: ignore[attr-defined]
        if job_id == at_job and next(seen) in calls:
            raise IndexError("index 7 is out of\nbounds")
        return works(first, *others, **options)  # type: ignore[operator]

    monkeypatch.setattr(module, stage, fails)


@pytest.mark.parametrize("stage", ["diagnose", *swept("divide_attempt")])
def test_others_lose_nothing_by_a_job_that_fails(landed: Store, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    analyse(landed, SETTINGS)
    whole = snapshot(landed, *RESULTS)
    windows = statuses(landed)
    job_id, steps = landed.rows("SELECT job_id, steps FROM jobs ORDER BY job_id")[0]

    with monkeypatch.context() as patched:
        broken(patched, stage, job_id, {1})
        analyse(landed, SETTINGS, force=True)
    assert statuses(landed) == [windows[0], "partial", *windows[2:]]
    assert without(snapshot(landed, *RESULTS), job_id) == without(whole, job_id)
    # The window after it goes on from what was known, and so catches up.
    assert landed.rows("SELECT steps FROM jobs WHERE job_id = {job_id:String}", {"job_id": job_id}) == [(steps,)]
    [(error,)] = landed.rows("SELECT error FROM windows WHERE status = 'partial'")
    assert error.startswith(f"{job_id}: IndexError: index 7 is out of bounds")
    [check] = [one for one in check_service(landed, SETTINGS) if one.name == "windows"]
    assert check.state == "warn"
    assert error in check.what
    assert error in " ".join(str(summarise(read_facts(landed))).split())

    analyse(landed, SETTINGS)
    assert "partial" in statuses(landed)
    for module in (ledger, due_windows):
        monkeypatch.setattr(module, "__version__", "the next one")
    analyse(landed, SETTINGS)
    assert statuses(landed) == windows
    assert snapshot(landed, *RESULTS) == whole
