"""Results against known truth, a row a scenario: recorded runs, and simulated ones with seeds of their own.

Run with `make accuracy`. Every row lands its records in an empty database, analyses them, and compares the contract's
tables with the truth.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from prism_ch.ingest.files import land_files
from prism_ch.ingest.topology_file import load_topology
from prism_ch.pipeline import analyse
from prism_ch.settings import Settings
from prism_ch.simulate import Scenario, generate, textbook, write
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate
from tests.scoring import JobScore, JobTruth, read_recorded_truth, read_simulated_truth, score

_RECORDED = Path(__file__).parents[1] / "data" / "real_training"

#: First of the seeds used here; tests and examples use smaller ones.
_FIRST_SEED = 7_000


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table: a name, and how its scenarios are made; a recorded run has none."""

    name: str
    scenario: Callable[[int], Scenario] | None


ROWS = (
    Row("recorded dp4_clean", None),
    Row("recorded ppdp4_overlap", None),
    Row("recorded dp4_slow_rank", None),
    Row("TP 4 x PP 4 x DP 4", lambda seed: textbook(64, 4, 4, 4, seed=seed)),
    Row("TP 8 x PP 2 x DP 4", lambda seed: textbook(64, 8, 2, 4, seed=seed)),
    Row("TP 4 x PP 1 x DP 16", lambda seed: textbook(64, 4, 1, 16, seed=seed)),
    Row("TP 4 x PP 16 x DP 1", lambda seed: textbook(64, 4, 16, 1, seed=seed)),
    Row("overlapped gradients", lambda seed: textbook(64, 4, 4, 4, seed=seed, overlap=True)),
    Row("4 queue pairs", lambda seed: textbook(64, 4, 4, 4, seed=seed, queue_pairs=4)),
    Row("slow GPU", lambda seed: textbook(64, 4, 4, 4, seed=seed, slow_gpu=(5, 1.5, 20, 30))),
    Row("slow link", lambda seed: textbook(64, 4, 4, 4, seed=seed, slow_link=(8, 0.3, 60.0, 90.0))),
    Row("3 jobs", lambda seed: textbook(192, 4, 4, 4, seed=seed, jobs=3)),
)

_HEADER = ("", "jobs", "DP P", "DP R", "PP P", "PP R", "groups", "stages", "steps", "missed", "extra", "duration error")


def main() -> None:
    """Work all rows and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="simulated scenarios a row (default: 3)")
    parser.add_argument("--only", default="", help="only rows whose name holds this text")
    chosen = parser.parse_args()
    print(layout(_HEADER))
    with tempfile.TemporaryDirectory() as folder:
        for number, row in enumerate(row for row in ROWS if chosen.only in row.name):
            scores = []
            for turn, (flows, topology, truth) in enumerate(inputs(row, chosen.seeds, Path(folder))):
                if sys.stderr.isatty():
                    print(f"{row.name}, scenario {turn + 1}", file=sys.stderr)
                with connect(f"chdb://{folder}/data?database=row_{number}_{turn}") as store:
                    scores += work(store, flows, topology, truth)
            print(layout(summarise(row.name, scores)), flush=True)


def inputs(row: Row, seeds: int, folder: Path) -> Iterator[tuple[str, str, list[JobTruth]]]:
    """Yield the flows, the topology and the truth of each scenario of a row."""
    if row.scenario is None:
        recorded = _RECORDED / row.name.split()[-1]
        yield str(recorded / "flows.parquet"), str(recorded / "topology.csv"), read_recorded_truth(recorded)
        return
    for seed in range(_FIRST_SEED, _FIRST_SEED + seeds):
        with tempfile.TemporaryDirectory(dir=folder) as made:
            write(generate(row.scenario(seed)), Path(made))
            yield f"{made}/flows/*.parquet", f"{made}/topology.csv", read_simulated_truth(Path(made))


def work(store: Store, flows: str, topology: str, truth: list[JobTruth]) -> list[JobScore]:
    """Land, analyse and score one scenario."""
    migrate(store)
    load_topology(store, topology)
    land_files(store, [flows])
    analyse(store, Settings(url=f"chdb://?database={store.database}"))
    return score(store, truth)


def summarise(name: str, scores: list[JobScore]) -> tuple[str, ...]:
    """Put the scores of all jobs of a row into its cells."""
    count = len(scores)

    def share(values: list[float]) -> str:
        return f"{sum(values) / len(values):.1%}"

    return (
        name,
        f"{sum(s.members_exact for s in scores)}/{count}",
        share([s.precision["DP"] for s in scores]),
        share([s.recall["DP"] for s in scores]),
        share([s.precision["PP"] for s in scores]),
        share([s.recall["PP"] for s in scores]),
        f"{sum(s.dp_groups_exact for s in scores)}/{count}",
        f"{sum(s.pp_chains_exact for s in scores)}/{count}",
        f"{sum(s.steps for s in scores)}",
        f"{sum(s.missed for s in scores)}",
        f"{sum(s.extra for s in scores)}",
        f"{sum(s.duration_error for s in scores) / count:.3%}",
    )


def layout(cells: tuple[str, ...]) -> str:
    """Lay a row out in columns."""
    return f"{cells[0]:24}" + "".join(
        f"{cell:>{max(len(head), 6) + 2}}" for cell, head in zip(cells[1:], _HEADER[1:], strict=True)
    )


if __name__ == "__main__":
    main()
