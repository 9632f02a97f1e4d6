"""Checks that results depend neither on how records arrive nor on the length of windows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.accuracy.rows import ALL, CLEAN, PLAIN, Row
from bench.accuracy.work import Inputs, analysed, empty_store, inputs
from prism_ch.model.columns import Int64
from prism_ch.store.client import Store
from tests.contract import RESULTS, Snapshot, snapshot

#: The scenarios that are checked: plain pipelines, shards gathered throughout, and a restart, the hardest for windows.
SUBJECTS = (Row(PLAIN, CLEAN), Row(PLAIN, ALL), Row("zero3", CLEAN), Row("restart-elsewhere", CLEAN))

ARRIVALS = ("shuffled", "re-chunked", "duplicated")
WINDOWS_S = {"windows of 30 s, not 60 s": 30, "windows of 120 s, not 60 s": 120}

#: The names of all checks; each scenario passes or fails each of them.
CHECKS = (*ARRIVALS, *WINDOWS_S)

#: Two ends are the same step's if they differ by less than this share of a step. Each window estimates the exporters'
#: clocks by itself, so they are not equal to the nanosecond.
_SAME_END = 1e-3

_FILES = 7


@dataclass(frozen=True, slots=True)
class _Jobs:
    """The step ends of each job, int64[steps], by its members with their groups and stages.

    Names of jobs are not compared: a job's name depends on what was seen of it first, and a longer window sees more.
    """

    ends_ns: dict[frozenset[tuple[str, int, int]], Int64]

    def same(self, other: _Jobs) -> bool:
        """Return whether the same jobs have the same steps."""
        return self.ends_ns.keys() == other.ends_ns.keys() and all(
            _same_ends(ends, other.ends_ns[members]) for members, ends in self.ends_ns.items()
        )


def check(row: Row, seed: int) -> dict[str, bool]:
    """Return by check of CHECKS whether a scenario's results stay the same."""
    with inputs(row, seed) as given, TemporaryDirectory() as made:
        whole = pq.read_table(given.folder / "flows")
        usual, jobs = _results(given, [given.flows], 60)
        same = {}
        for arrival in ARRIVALS:
            files = _files(whole, arrival, Path(made) / arrival, np.random.default_rng(seed))
            same[arrival] = _results(given, files, 60)[0] == usual
        for name, window_s in WINDOWS_S.items():
            same[name] = jobs.same(_results(given, [given.flows], window_s)[1])
        return same


def _same_ends(one: Int64, other: Int64) -> bool:
    """Return whether two series of ends belong to the same steps."""
    if len(one) != len(other) or len(one) < 2:
        return len(one) == len(other)
    return bool(np.abs(one - other).max() <= _SAME_END * np.median(np.diff(one)))


def _results(given: Inputs, files: list[str], window_s: int) -> tuple[Snapshot, _Jobs]:
    """Analyse files; return the public tables, and the jobs with their steps."""
    with empty_store() as store:
        for file in files:
            analysed(store, given, [file], window_s)
        return snapshot(store, *RESULTS), _jobs(store)


def _jobs(store: Store) -> _Jobs:
    members: dict[str, set[tuple[str, int, int]]] = {}
    for job_id, *place in store.rows("SELECT job_id, endpoint, dp_group, pp_stage FROM job_members"):
        members.setdefault(job_id, set()).add(tuple(place))
    ends: dict[str, list[int]] = {job_id: [] for job_id in members}
    for job_id, end_ns in store.rows("SELECT job_id, toUnixTimestamp64Nano(end_time) FROM steps ORDER BY job_id, step"):
        ends[job_id].append(end_ns)
    return _Jobs({frozenset(inside): np.array(ends[name], dtype=np.int64) for name, inside in members.items()})


def _files(flows: pa.Table, arrival: str, folder: Path, rng: np.random.Generator) -> list[str]:
    """Write the records to files in an order of arrival of ARRIVALS."""
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
