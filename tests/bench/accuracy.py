"""Results against known truth, a row a scenario: recorded runs, and simulated ones with seeds of their own.

Run with `make accuracy`. Every row lands its records in an empty database, analyses them, and compares the contract's
tables with the truth.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from prism_ch.ingest.files import land_files
from prism_ch.ingest.topology_file import load_topology
from prism_ch.pipeline import analyse
from prism_ch.settings import Settings
from prism_ch.simulate import Scenario, generate, write
from prism_ch.simulate.families import CONDITIONS, FAMILIES
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate
from tests.scoring import JobScore, JobTruth, read_recorded_truth, read_simulated_truth, score, strangers

_RECORDED = Path(__file__).parents[1] / "data" / "real_training"

#: First of the seeds used here; tests, examples and tuning use smaller ones.
_FIRST_SEED = 7_000

#: Conditions of records are shown on this family.
_PLAIN = "pipeline-1f1b"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table: a name, and how its scenarios are made; a recorded run has none."""

    name: str
    scenario: Callable[[int], Scenario] | None


def _rows() -> list[Row]:
    """List the recorded runs, every family with clean records, and one family under every condition of records."""

    def under(condition: str) -> Callable[[int], Scenario]:
        return lambda seed: replace(FAMILIES[_PLAIN](seed), observation=CONDITIONS[condition])

    return [
        *(Row(f"recorded {name}", None) for name in ("dp4_clean", "ppdp4_overlap", "dp4_slow_rank")),
        *(Row(name, family) for name, family in FAMILIES.items()),
        *(Row(f"{_PLAIN}, {name}"[-31:], under(name)) for name in CONDITIONS if name != "clean"),
    ]


_HEADER = (
    ("", 34),
    ("jobs", 7),
    ("alien", 7),
    ("DP P", 8),
    ("DP R", 8),
    ("PP P", 8),
    ("PP R", 8),
    ("EP P", 8),
    ("EP R", 8),
    ("groups", 8),
    ("stages", 8),
    ("steps", 7),
    ("missed", 8),
    ("extra", 7),
    ("step error", 12),
)


def main() -> None:
    """Work all rows and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="simulated scenarios a row (default: 3)")
    parser.add_argument("--only", default="", help="only rows whose name holds this text")
    chosen = parser.parse_args()
    print(layout(tuple(name for name, _ in _HEADER)))
    with tempfile.TemporaryDirectory() as folder:
        for number, row in enumerate(row for row in _rows() if chosen.only in row.name):
            scores, aliens = [], 0
            for turn, (flows, topology, truth) in enumerate(inputs(row, chosen.seeds, Path(folder))):
                if sys.stderr.isatty():
                    print(f"{row.name}, scenario {turn + 1}", file=sys.stderr)
                with connect(f"chdb://{folder}/data?database=row_{number}_{turn}") as store:
                    work(store, flows, topology)
                    scores += score(store, truth)
                    aliens += len(strangers(store, truth))
            print(layout(summarise(row.name, scores, aliens)), flush=True)


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


def work(store: Store, flows: str, topology: str) -> None:
    """Land and analyse one scenario."""
    migrate(store)
    load_topology(store, topology)
    land_files(store, [flows])
    analyse(store, Settings(url=f"chdb://?database={store.database}"))


def summarise(name: str, scores: list[JobScore], aliens: int) -> tuple[str, ...]:
    """Put the scores of all jobs of a row into its cells; shares are means over jobs that have such pairs."""
    count = len(scores)

    def share(kind: str, *, precision: bool) -> str:
        values = [s.precision[kind] if precision else s.recall[kind] for s in scores if kind in s.expected]
        return f"{sum(values) / len(values):.1%}" if values else "-"

    errors = [s.duration_error for s in scores if s.matched > 1]
    return (
        name,
        f"{sum(s.members_exact for s in scores)}/{count}",
        f"{aliens}",
        *(share(kind, precision=p) for kind in ("DP", "PP", "EP") for p in (True, False)),
        f"{sum(s.dp_groups_exact for s in scores)}/{count}",
        f"{sum(s.pp_chains_exact for s in scores)}/{count}",
        f"{sum(s.steps for s in scores)}",
        f"{sum(s.missed for s in scores)}",
        f"{sum(s.extra for s in scores)}",
        f"{sum(errors) / len(errors):.3%}" if errors else "-",
    )


def layout(cells: tuple[str, ...]) -> str:
    """Lay a row out in columns."""
    return f"{cells[0]:{_HEADER[0][1]}}" + "".join(
        f"{cell:>{width}}" for cell, (_, width) in zip(cells[1:], _HEADER[1:], strict=True)
    )


if __name__ == "__main__":
    main()
