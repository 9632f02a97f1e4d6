"""Analyses scenarios in the databases of worker processes: each has one, emptied before each scenario."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.accuracy.rows import PRODUCTION, RECORDED, Row
from prism_ch.ingest.files import land_files
from prism_ch.ingest.topology_file import load_topology
from prism_ch.settings import Settings
from prism_ch.simulate import generate, write
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate
from prism_ch.worker import analyse
from tests.scoring import (
    Counts,
    JobScore,
    JobTruth,
    claims,
    count_jobs,
    read_production_truth,
    read_recorded_truth,
    read_simulated_truth,
    score,
    strangers,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one scenario came out.

    `scores` are those of its true jobs, `strangers` counts endpoints wrongly put into a job, `warnings` counts findings
    of warning or above, `claims` counts pairs by confidence and whether their kind is right. All else is empty if
    there is an `error`.
    """

    scores: tuple[JobScore, ...] = ()
    jobs: Counts = field(default_factory=Counts)
    strangers: int = 0
    warnings: int = 0
    claims: Counter[tuple[float, bool]] = field(default_factory=Counter)
    cpu_s: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The files of one scenario and the truth about it."""

    flows: str
    topology: str
    truth: list[JobTruth]
    folder: Path
    recorded: bool


def work(row: Row, seed: int) -> Outcome:
    """Make, land, analyse and score one scenario."""
    began_s = time.process_time()
    with inputs(row, seed) as given, empty_store() as store:
        analysed(store, given, [given.flows])
        return Outcome(
            tuple(score(store, given.truth)),
            count_jobs(store, given.truth),
            len(strangers(store, given.truth)),
            store.scalar("SELECT count() FROM diagnoses WHERE severity != 'info'"),
            claims(store, given.truth),
            time.process_time() - began_s,
        )


@contextmanager
def inputs(row: Row, seed: int) -> Iterator[Inputs]:
    """Provide the files of a scenario while a block runs."""
    if row.recorded:
        folder = RECORDED[row.family]
        truth = (read_production_truth if row.family == PRODUCTION else read_recorded_truth)(folder)
        yield Inputs(str(folder / "flows.parquet"), str(folder / "topology.csv"), truth, folder, recorded=True)
        return
    with tempfile.TemporaryDirectory() as made:
        write(generate(row.scenario(seed)), Path(made))
        truth = read_simulated_truth(Path(made))
        yield Inputs(f"{made}/flows/*.parquet", f"{made}/topology.csv", truth, Path(made), recorded=False)


def landed(store: Store, given: Inputs, files: list[str]) -> None:
    """Load the topology and land files."""
    load_topology(store, given.topology)
    land_files(store, files)


def analysed(store: Store, given: Inputs, files: list[str], window_s: int = 60) -> None:
    """Land files and analyse what they hold. Raises RuntimeError if a job fails in a window."""
    landed(store, given, files)
    analyse(store, Settings(url=f"chdb://?database={store.database}", window_s=window_s))
    require_worked(store)


def require_worked(store: Store) -> None:
    """Raise RuntimeError if a window, or a job in it, has failed."""
    failed = store.rows("SELECT error FROM windows WHERE status != 'worked' ORDER BY window_start")
    if failed:
        raise RuntimeError(failed[0][0])


@contextmanager
def empty_store() -> Iterator[Store]:
    """Open this process's database with empty tables.

    Emptying the tables takes a fifth of the time of creating them.
    """
    with connect(f"chdb://{_database_folder()}?database=accuracy") as store:
        migrate(store)
        tables = (
            "SELECT name FROM system.tables WHERE database = {name:String} AND engine LIKE '%MergeTree'"
            " AND name != 'schema_migrations'"
        )
        for (table,) in store.rows(tables, {"name": store.database}):
            store.command("TRUNCATE TABLE {table:Identifier}", {"table": table})
        yield store


#: Holds the engine's files while this process lives; the engine opens one folder a process.
_own_folder: list[tempfile.TemporaryDirectory[str]] = []


def _database_folder() -> str:
    if not _own_folder:
        _own_folder.append(tempfile.TemporaryDirectory(prefix="prism-ch-accuracy-"))
    return _own_folder[0].name
