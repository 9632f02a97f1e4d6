"""Compares what the contract's tables say with a known truth."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from prism_ch.store.client import Store

Pair = tuple[str, str]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class JobTruth:
    """What is known of one job: its visible endpoints, groups, pairs by kind, and the admissible series of step ends.

    `stages` is the pipeline stage of each endpoint, from 0. `pairs` are directed, or unordered (sorted) where
    `directed` is false. Each of `step_ends_ns` is int64[steps], rising; a result need agree with one of them.
    `tolerance_ns` is how far an end may lie from the true one to be that step's.
    """

    name: str
    endpoints: frozenset[str]
    dp_groups: frozenset[frozenset[str]]
    pp_chains: frozenset[tuple[str, ...]]
    stages: dict[str, int]
    pairs: dict[str, frozenset[Pair]]
    directed: bool
    step_ends_ns: tuple[Int64, ...]
    tolerance_ns: int


@dataclass(frozen=True, slots=True)
class JobScore:
    """How one true job was found; `expected` are the kinds of pairs it has."""

    name: str
    job_id: str
    expected: frozenset[str]
    members_exact: bool
    precision: dict[str, float]
    recall: dict[str, float]
    dp_groups_exact: bool
    pp_chains_exact: bool
    stages_exact: bool
    steps: int
    matched: int
    extra: int
    duration_error: float

    @property
    def missed(self) -> int:
        """Count the true steps that were not found."""
        return self.steps - self.matched


def read_recorded_truth(folder: Path) -> list[JobTruth]:
    """Read the truth beside a recorded run (tests/data/real_training)."""
    truth = json.loads((folder / "truth.json").read_text())
    steps = pq.read_table(folder / "truth_steps.parquet").to_pydict()
    ends = _last_by_step(steps["step"], steps["end_ns"])
    return [
        JobTruth(
            name=job["name"],
            endpoints=frozenset(rank["ip"] for rank in job["ranks"]),
            dp_groups=frozenset(frozenset(group) for group in job["dp_groups"]),
            pp_chains=frozenset(tuple(chain) for chain in job["pp_groups"]),
            stages={rank["ip"]: rank.get("stage", 0) for rank in job["ranks"]},
            pairs={
                kind: frozenset(_ordered(p["a"], p["b"]) for p in job["pairs"] if p["kind"] == kind)
                for kind in ("DP", "PP")
            },
            directed=False,
            step_ends_ns=(ends,),
            # The last data-parallel byte leaves this much before the training loop's own clock ends the step.
            tolerance_ns=60_000_000,
        )
        for job in truth["jobs"]
    ]


def read_simulated_truth(folder: Path) -> list[JobTruth]:
    """Read the truth beside a simulated cluster, `folder` as `prism-ch simulate` writes it."""
    names = ("jobs", "job_members", "groups", "pairs", "steps")
    tables = {name: pq.read_table(folder / "truth" / f"{name}.parquet") for name in names}
    return [_simulated_job(job, tables) for job in tables["jobs"].to_pylist() if job["visible"]]


def _simulated_job(job: dict, tables: dict) -> JobTruth:  # type: ignore[type-arg]
    """Gather one job's truth from the tables of all."""
    mine = {
        name: [row for row in tables[name].to_pylist() if row["job_id"] == job["job_id"]]
        for name in ("job_members", "groups", "pairs", "steps")
    }
    steps = sorted((row for row in mine["steps"] if row["complete"]), key=lambda row: row["end_ns"])
    ends = tuple(np.array([row[column] for row in steps], dtype=np.int64) for column in ("end_ns", "rs_end_ns"))
    return JobTruth(
        name=job["job_id"],
        endpoints=frozenset(job["visible_endpoints"]),
        dp_groups=frozenset(
            frozenset(part)
            for row in mine["groups"]
            if row["kind"] == "DP"
            for part in row["components"]
            if len(part) > 1
        ),
        # Hops inside a server leave no record: what a pipeline shows may be several parts.
        pp_chains=frozenset(
            tuple(part) for row in mine["groups"] if row["kind"] == "PP" for part in row["components"] if len(part) > 1
        ),
        stages={row["endpoint"]: row["pp_stage"] for row in mine["job_members"] if row["visible"]},
        pairs={
            kind: frozenset(
                (row["src_addr"], row["dst_addr"])
                for row in mine["pairs"]
                if row["kind"] == kind and not row["ack_only"]
            )
            for kind in ("DP", "PP", "EP")
        },
        directed=True,
        step_ends_ns=ends,
        tolerance_ns=int(0.1 * np.median(np.diff(ends[0]))) if len(steps) > 1 else 10**9,
    )


def score(store: Store, truth: list[JobTruth]) -> list[JobScore]:
    """Score every true job against the job that shares most endpoints with it."""
    members: dict[str, set[str]] = {}
    for job_id, endpoint in store.rows("SELECT job_id, endpoint FROM job_members"):
        members.setdefault(job_id, set()).add(endpoint)
    return [_score_job(store, job, members) for job in truth]


def strangers(store: Store, truth: list[JobTruth]) -> set[str]:
    """Return the endpoints that were put into a job though they are in none."""
    known = frozenset[str]().union(*(job.endpoints for job in truth))
    return {endpoint for (endpoint,) in store.rows("SELECT DISTINCT endpoint FROM job_members")} - known


def _score_job(store: Store, job: JobTruth, members: dict[str, set[str]]) -> JobScore:
    """Score one true job."""
    shared = {job_id: len(found & job.endpoints) for job_id, found in members.items() if found & job.endpoints}
    job_id = max(sorted(shared), key=lambda name: shared[name], default="")
    mine = {"job_id": job_id}
    found: dict[str, set[Pair]] = {}
    for src, dst, kind in store.rows("SELECT src_addr, dst_addr, kind FROM pairs WHERE job_id = {job_id:String}", mine):
        found.setdefault(kind, set()).add((src, dst) if job.directed else _ordered(src, dst))
    groups: dict[str, set[tuple[str, ...]]] = {"DP": set(), "PP": set()}
    for kind, inside in store.rows("SELECT kind, members FROM groups WHERE job_id = {job_id:String}", mine):
        groups.setdefault(kind, set()).add(tuple(inside))
    stages = dict(store.rows("SELECT endpoint, pp_stage FROM job_members WHERE job_id = {job_id:String}", mine))
    ends = np.array(
        [
            end
            for (end,) in store.rows(
                "SELECT toUnixTimestamp64Nano(end_time) FROM steps WHERE job_id = {job_id:String} ORDER BY step", mine
            )
        ],
        dtype=np.int64,
    )
    matched, extra, error = min(
        (_match(ends, true, job.tolerance_ns) for true in job.step_ends_ns), key=lambda found: (-found[0], found[1:])
    )
    return JobScore(
        name=job.name,
        job_id=job_id,
        expected=frozenset(kind for kind, true in job.pairs.items() if true),
        members_exact=members.get(job_id, set()) == job.endpoints,
        precision={
            kind: _share(true & found.get(kind, set()), found.get(kind, set())) for kind, true in job.pairs.items()
        },
        recall={kind: _share(true & found.get(kind, set()), true) for kind, true in job.pairs.items()},
        dp_groups_exact={frozenset(group) for group in groups["DP"]} == job.dp_groups,
        pp_chains_exact=groups["PP"] == job.pp_chains,
        stages_exact=stages == job.stages,
        steps=len(job.step_ends_ns[0]),
        matched=matched,
        extra=extra,
        duration_error=error,
    )


def _match(found: Int64, true: Int64, tolerance_ns: int) -> tuple[int, int, float]:
    """Match found step ends with true ones: how many true ones are met, how many found are extra, mean duration error.

    Found ends outside the span of the true ones are of steps that the truth does not list: they are neither.
    The error is the mean of |duration / true duration - 1| over steps both of whose ends are matched.
    """
    if len(found) == 0 or len(true) == 0:
        return 0, len(found) if len(true) else 0, float("inf")
    place = np.clip(np.searchsorted(found, true), 1, max(len(found) - 1, 1))
    before, after = found[place - 1], found[np.minimum(place, len(found) - 1)]
    nearest = np.where(np.abs(true - before) <= np.abs(after - true), before, after)
    met = np.abs(nearest - true) <= tolerance_ns
    inside = (found >= true[0] - tolerance_ns) & (found <= true[-1] + tolerance_ns)
    both = met[1:] & met[:-1]
    error = np.abs(np.diff(nearest)[both] / np.diff(true)[both] - 1)
    return int(met.sum()), int(inside.sum()) - len(np.unique(nearest[met])), float(error.mean()) if len(error) else 0.0


def _last_by_step(step: list[int], end_ns: list[int]) -> Int64:
    """Return the last end of each step over ranks, in order."""
    ends: dict[int, int] = {}
    for number, end in zip(step, end_ns, strict=True):
        ends[number] = max(end, ends.get(number, end))
    return np.array([ends[number] for number in sorted(ends)], dtype=np.int64)


def _ordered(a: str, b: str) -> Pair:
    """Return an unordered pair as one that compares equal however it is given."""
    return (a, b) if a < b else (b, a)


def _share(part: set[Pair] | frozenset[Pair], whole: set[Pair] | frozenset[Pair]) -> float:
    """Return the size of a part over that of the whole; 1 where there is nothing to find and nothing was found."""
    return len(part) / len(whole) if whole else 1.0
