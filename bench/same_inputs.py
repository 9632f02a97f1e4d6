"""The recordings that `bench.same` gives to both versions: recorded, simulated, and one that arrives in pieces."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from bench import soak
from bench.accuracy.faults.cases import Case
from prism_ch.simulate import Scenario, generate, write
from prism_ch.simulate.families import CONDITIONS, FAMILIES

DATA = Path(__file__).parents[1] / "tests" / "data"
TOPOLOGY = "topology.csv"

#: Files of collectors and the exit status of `run` on them. Each pattern is a dataset of its own, since several files
#: hold the same flows. `run` fails on Akvorado's, whose records lack the times that a flow needs.
_COLLECTED = {
    "akvorado/flows.jsonl": 1,
    "goflow2/enc_*": 0,
    "goflow2/fine.jsonl.gz": 0,
    "goflow2/fine.protobuf_delimited.bin": 0,
    "goflow2/sflow_*": 0,
    "nfdump/enc_*": 0,
    "nfdump/fine.json.gz": 0,
    "nfdump/fine_with_summary.csv.gz": 0,
    "pmacct/enc_*": 0,
    "pmacct/fine_nfacctd.jsonl.gz": 0,
    "pmacct/fine_nfacctd_60.csv.gz": 0,
}

#: Faults of every kind in jobs of at most 64 GPUs: kind, magnitude, and the seed that draws the job.
_FAULTS = (
    ("slow_gpu", 1.3, 0),
    ("slow_gpu", 2.0, 4),
    ("slow_nic", 0.4, 1),
    ("slow_nic", 0.1, 6),
    ("slow_link", 0.4, 7),
    ("slow_link", 0.1, 12),
    ("slow_switch", 0.4, 8),
    ("slow_switch", 0.1, 13),
    ("slow_step", 1.5, 2),
    ("slow_drift", 1.2, 15),
    ("stall", 2.0, 5),
    ("stall", 8.0, 9),
    ("hang", 0.0, 10),
    ("hang", 1.0, 3),
    ("restart", 5.0, 11),
    ("restart", 20.0, 14),
)

_SOAK_MINUTES, _SOAK_PIECES = 5, 10


@dataclass(frozen=True, slots=True)
class Dataset:
    """One recording and how it is analysed.

    `source`: the scenario to simulate, or recorded files, landed together. `window_s`: length of a window in seconds.
    `pieces`: number of parts that are landed and analysed one after the other. `status`: exit status of `run`.
    """

    name: str
    source: Scenario | tuple[Path, ...]
    window_s: int = 60
    pieces: int = 1
    status: int = 0

    def write(self, folder: Path) -> list[Path]:
        """Write topology and flow records under `folder`; return the pieces' folders in order."""
        folder.mkdir(parents=True)
        pieces = [folder / f"piece-{number:02}" for number in range(self.pieces)]
        for piece in pieces:
            piece.mkdir()
        if isinstance(self.source, Scenario):
            made = generate(self.source)
            write(replace(made, truth={}), folder)
            shutil.rmtree(folder / "flows")
            for piece, rows in zip(pieces, np.array_split(np.arange(len(made.flows)), self.pieces), strict=True):
                pq.write_table(made.flows.take(rows), piece / "flows.parquet")
            return pieces
        for file in self.source:
            shutil.copy(file, pieces[0])
        topology = self.source[0].with_name(TOPOLOGY)
        if topology.exists():
            shutil.copy(topology, folder)
        else:
            _write_collected_topology(folder / TOPOLOGY)
        return pieces


def all_datasets() -> list[Dataset]:
    """List every dataset, in the order in which they are compared."""
    return [*_recorded(), *_collected(), *_families(), *_faults(), _in_pieces()]


def _recorded() -> Iterator[Dataset]:
    for run in sorted((DATA / "real_training").glob("*/flows.parquet")):
        yield Dataset(f"recorded {run.parent.name}", (run,))
        yield Dataset(f"recorded {run.parent.name}, windows of 10 s", (run,), window_s=10)
    production = DATA / "production_timings" / "flows.parquet"
    yield Dataset("recorded production_timings", (production,))
    yield Dataset("recorded production_timings, windows of 30 s", (production,), window_s=30)


def _collected() -> Iterator[Dataset]:
    for pattern, status in _COLLECTED.items():
        yield Dataset(f"collected {pattern}", tuple(sorted((DATA / "collectors").glob(pattern))), status=status)


def _families() -> Iterator[Dataset]:
    """Describe a scenario of every family, with conditions, windows and deliveries in turn."""
    conditions = list(CONDITIONS)
    for number, (name, family) in enumerate(FAMILIES.items()):
        turn, place = divmod(number, len(conditions))
        condition, seed = conditions[place], 1 + number % 5
        window_s, pieces = (60, 10)[(place + turn) % 2], (1, 1, 1, 3, 1)[(place + turn) % 5]
        run = replace(family(seed), observation=CONDITIONS[condition], phases=False)
        delivery = f", in {pieces} pieces" if pieces > 1 else ""
        title = f"{name}, {condition}, seed {seed}, windows of {window_s} s{delivery}"
        yield Dataset(title, run, window_s, pieces)


def _faults() -> Iterator[Dataset]:
    for number, fault in enumerate(_FAULTS):
        case, window_s = Case(*fault), (60, 10)[number % 2]
        yield Dataset(f"{case.name}, windows of {window_s} s", case.scenario(), window_s)


def _in_pieces() -> Dataset:
    """Describe the soak's cluster, whose late records change windows analysed before."""
    run = soak.scenario(60.0 * _SOAK_MINUTES, 1, soak.with_defects())
    return Dataset(f"soak of {_SOAK_MINUTES} minutes, in {_SOAK_PIECES} pieces", run, pieces=_SOAK_PIECES)


def _write_collected_topology(path: Path) -> None:
    """Write the topology of the collectors' eight endpoints.

    Each endpoint is in a server of its own; there are two leaves and two tenants.
    """
    with path.open("w", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(("endpoint", "server", "gpu", "rail", "leaf", "pod", "tenant"))
        for leaf in (1, 2):
            for host in (11, 12, 13, 14):
                tenant = "tenant-a" if host < 13 else "tenant-b"
                lines.writerow((f"10.{leaf}.0.{host}", f"host-{leaf}-{host}", 0, 0, f"leaf-{leaf}", "pod-1", tenant))
