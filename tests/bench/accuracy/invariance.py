"""Whether results stay the same however the records of a scenario arrive, and however long windows are."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.bench.accuracy.rows import ALL, CLEAN, PLAIN, Row
from tests.bench.accuracy.work import Inputs, analysed, empty_store, inputs
from tests.contract import RESULTS, snapshot

#: What is looked at: plain pipelines, a shard that is gathered all the time, and a restart, the worst case of windows.
SUBJECTS = (Row(PLAIN, CLEAN), Row(PLAIN, ALL), Row("zero3", CLEAN), Row("restart-elsewhere", CLEAN))

ARRIVALS = ("shuffled", "re-chunked", "duplicated")
WINDOWS_S = {"windows of 30 s, not 60 s": 30, "windows of 120 s, not 60 s": 120}

#: Each of them is said to leave results the same, or not.
CHECKS = (*ARRIVALS, *WINDOWS_S)

#: What is the same whatever the length of windows; who was slowest among equals is judged over what a window looks at.
_WHATEVER_THE_WINDOWS = (
    "SELECT job_id, endpoint, dp_group, pp_stage FROM job_members ORDER BY ALL",
    "SELECT job_id, step, start_time, end_time, duration_s FROM steps ORDER BY ALL",
)

_FILES = 7


def check(row: Row, seed: int) -> dict[str, bool]:
    """Say for each of CHECKS whether the results of a scenario stay the same."""
    with inputs(row, seed) as given, TemporaryDirectory() as made:
        whole = pq.read_table(given.folder / "flows")
        usual, by_window = _results(given, [given.flows], 60)
        same = {}
        for arrival in ARRIVALS:
            files = _files(whole, arrival, Path(made) / arrival, np.random.default_rng(seed))
            same[arrival] = _results(given, files, 60)[0] == usual
        for name, window_s in WINDOWS_S.items():
            same[name] = _results(given, [given.flows], window_s)[1] == by_window
        return same


def _results(given: Inputs, files: list[str], window_s: int) -> tuple[object, object]:
    """Analyse files; return all results, and those that don't depend on the length of windows."""
    with empty_store() as store:
        for file in files:
            analysed(store, given, [file], window_s)
        return snapshot(store, *RESULTS), [store.rows(question) for question in _WHATEVER_THE_WINDOWS]


def _files(flows: pa.Table, arrival: str, folder: Path, rng: np.random.Generator) -> list[str]:
    """Write the records as they arrive: in any order, in files in any order, or some of them twice."""
    folder.mkdir()
    if arrival == "re-chunked":
        parts = [flows.take(rows) for rows in np.array_split(np.arange(len(flows)), _FILES)]
        parts = [parts[number] for number in rng.permutation(_FILES)]
    else:
        again = rng.random(len(flows)) < (0.3 if arrival == "duplicated" else 0)
        parts = [flows.take(rng.permutation(np.repeat(np.arange(len(flows)), 1 + again)))]
    files = []
    for number, part in enumerate(parts):
        files.append(str(folder / f"{number}.parquet"))
        pq.write_table(part, files[-1])
    return files
