"""Compares the contract's tables with a known truth."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from prism_ch.store.client import Store

Pair = tuple[str, str]
Int64 = npt.NDArray[np.int64]

#: Kinds of pairs that are traffic of training.
_KINDS = ("DP", "PP", "EP", "CP", "TP")


@dataclass(frozen=True, slots=True)
class JobTruth:
    """The truth about one job: its visible endpoints, groups, pairs and step ends.

    `stages` is the pipeline stage of each endpoint, from 0. `pairs` by kind are directed, or unordered (sorted) if
    `directed` is false. `step_ends_ns` holds admissible series, each int64[steps] and rising; a result need agree with
    one of them. `partial_ends_ns` int64[k] are ends of steps that were not recorded from their beginning: finding one
    is neither right nor wrong. `tolerance_ns` is the largest distance of an end that is matched with a true one.
    """

    name: str
    endpoints: frozenset[str]
    dp_groups: frozenset[frozenset[str]]
    pp_chains: frozenset[tuple[str, ...]]
    stages: dict[str, int]
    pairs: dict[str, frozenset[Pair]]
    directed: bool
    step_ends_ns: tuple[Int64, ...]
    partial_ends_ns: Int64
    tolerance_ns: int


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of true things, of found ones, and of right ones among these."""

    true: int = 0
    found: int = 0
    right: int = 0

    @classmethod
    def of(cls, true: Collection[object], found: Collection[object]) -> Counts:
        """Compare two sets."""
        return cls(len(true), len(found), len(set(true) & set(found)))

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.true + other.true, self.found + other.found, self.right + other.right)

    @property
    def precision(self) -> float:
        """The share of right things among the found; 1 if nothing was found."""
        return self.right / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """The share of found things among the true; 1 if there is none."""
        return self.right / self.true if self.true else 1.0

    @property
    def exact(self) -> bool:
        """Whether all true things were found, and nothing else."""
        return self.true == self.found == self.right


@dataclass(frozen=True, slots=True)
class JobScore:
    """How one true job was found.

    `pairs` are by kind. `timed` counts the steps whose ends are both matched; `duration_error` is theirs.
    """

    name: str
    job_id: str
    members_exact: bool
    pairs: dict[str, Counts]
    dp_groups: Counts
    pp_chains: Counts
    stages_exact: bool
    steps: int
    matched: int
    extra: int
    timed: int
    duration_error: float

    @property
    def precision(self) -> dict[str, float]:
        """The precision of pairs by kind."""
        return {kind: counts.precision for kind, counts in self.pairs.items()}

    @property
    def recall(self) -> dict[str, float]:
        """The recall of pairs by kind."""
        return {kind: counts.recall for kind, counts in self.pairs.items()}

    @property
    def expected(self) -> frozenset[str]:
        """The kinds of pairs that the job has."""
        return frozenset(kind for kind, counts in self.pairs.items() if counts.true)

    @property
    def dp_groups_exact(self) -> bool:
        """Whether all data-parallel groups were found, and no other."""
        return self.dp_groups.exact

    @property
    def pp_chains_exact(self) -> bool:
        """Whether all pipelines were found in the order of their stages, and no other."""
        return self.pp_chains.exact

    @property
    def missed(self) -> int:
        """The number of true steps that were not found."""
        return self.steps - self.matched


def read_recorded_truth(folder: Path) -> list[JobTruth]:
    """Read the truth beside a recorded run (tests/data/real_training)."""
    truth = json.loads((folder / "truth.json").read_text())
    ends = {name: np.max(list(by_rank.values()), axis=0) for name, by_rank in read_recorded_ends(folder).items()}
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
            step_ends_ns=(ends[job["name"]],),
            partial_ends_ns=np.empty(0, dtype=np.int64),
            tolerance_ns=_tolerance_ns(ends[job["name"]]),
        )
        for job in truth["jobs"]
    ]


def read_recorded_ends(folder: Path) -> dict[str, dict[str, Int64]]:
    """Read when each step's last all-reduce ended, by job and endpoint, int64[steps].

    The times are the training loop's: a thread that waits for a byte may notice it some milliseconds late.
    """
    jobs = {job["name"]: job["ranks"] for job in json.loads((folder / "truth.json").read_text())["jobs"]}
    phases = pq.read_table(folder / "truth_phases.parquet", columns=["job", "rank", "step", "phase", "end_ns"])
    latest: dict[tuple[str, int], dict[int, int]] = {}
    for row in phases.to_pylist():
        if row["phase"].startswith("allreduce_"):
            ends = latest.setdefault((row["job"], row["rank"]), {})
            ends[row["step"]] = max(row["end_ns"], ends.get(row["step"], 0))
    return {
        name: {
            rank["ip"]: np.array([end for _, end in sorted(latest[name, rank["rank"]].items())], dtype=np.int64)
            for rank in ranks
        }
        for name, ranks in jobs.items()
    }


def read_production_truth(folder: Path) -> list[JobTruth]:
    """Read the truth beside production timings (tests/data/production_timings)."""
    [job] = json.loads((folder / "truth_jobs.json").read_text())["jobs"]
    pairs = pq.read_table(folder / "truth_pairs.parquet").to_pylist()
    steps = pq.read_table(folder / "truth_steps.parquet").to_pydict()
    scattered, gathered = (_last_by_step(steps["step"], steps[end]) for end in ("end_ns", "ag_end_ns"))
    return [
        JobTruth(
            name=job["job_id"],
            endpoints=frozenset(job["endpoints"]),
            dp_groups=frozenset(
                frozenset(part) for group in job["dp_groups"] for part in group["visible_components"] if len(part) > 1
            ),
            pp_chains=frozenset(tuple(chain) for chain in job["pp_chains"]),
            stages=dict(zip(steps["endpoint"], steps["pp_stage"], strict=True)),
            pairs={
                kind: frozenset((p["src_addr"], p["dst_addr"]) for p in pairs if p["kind"] == kind)
                for kind in ("DP", "PP")
            },
            directed=True,
            # The first all-gather opens the first step, so no step ends with it.
            step_ends_ns=(scattered, gathered[1:]),
            partial_ends_ns=np.empty(0, dtype=np.int64),
            # Less than the time from the end of a reduce-scatter to that of its all-gather: the two series don't mix.
            tolerance_ns=20_000_000,
        )
    ]


def read_simulated_truth(folder: Path) -> list[JobTruth]:
    """Read the truth in a folder written by `prism-ch simulate`."""
    names = ("jobs", "job_members", "groups", "pairs", "steps")
    tables = {name: pq.read_table(folder / "truth" / f"{name}.parquet") for name in names}
    return [_simulated_job(job, tables) for job in tables["jobs"].to_pylist() if job["visible"]]


def _simulated_job(job: dict, tables: dict) -> JobTruth:  # type: ignore[type-arg]
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
        # Hops inside a server leave no record, so a pipeline may be seen in several parts.
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
            for kind in _KINDS
        },
        directed=True,
        step_ends_ns=ends,
        partial_ends_ns=np.array(
            sorted(row[end] for row in mine["steps"] if not row["complete"] for end in ("end_ns", "rs_end_ns")),
            dtype=np.int64,
        ),
        tolerance_ns=_tolerance_ns(ends[0]),
    )


def _tolerance_ns(ends: Int64) -> int:
    """Return a tenth of the usual step."""
    return int(0.1 * np.median(np.diff(ends))) if len(ends) > 1 else 10**9


def score(store: Store, truth: list[JobTruth]) -> list[JobScore]:
    """Score every true job against the job that shares most endpoints with it."""
    members = _members(store)
    return [_score_job(store, job, members) for job in truth]


def count_jobs(store: Store, truth: list[JobTruth]) -> Counts:
    """Count the jobs found with exactly a true job's endpoints."""
    found = Counter(frozenset(endpoints) for endpoints in _members(store).values())
    true = Counter(job.endpoints for job in truth)
    return Counts(true.total(), found.total(), (true & found).total())


def strangers(store: Store, truth: list[JobTruth]) -> set[str]:
    """Return the endpoints in a found job that are in no true one."""
    known = frozenset[str]().union(*(job.endpoints for job in truth))
    return {endpoint for (endpoint,) in store.rows("SELECT DISTINCT endpoint FROM job_members")} - known


def claims(store: Store, truth: list[JobTruth]) -> Counter[tuple[float, bool]]:
    """Count pairs with a kind by its confidence and whether it is right."""
    kinds = {pair: kind for job in truth for kind, pairs in job.pairs.items() for pair in pairs}
    undirected = not all(job.directed for job in truth)
    counted: Counter[tuple[float, bool]] = Counter()
    for src, dst, kind, confidence in store.rows("SELECT src_addr, dst_addr, kind, confidence FROM pairs"):
        if kind in _KINDS:
            pair = _ordered(src, dst) if undirected else (src, dst)
            counted[confidence, kinds.get(pair) == kind] += 1
    return counted


def _members(store: Store) -> dict[str, set[str]]:
    """Read the endpoints of every job found."""
    members: dict[str, set[str]] = {}
    for job_id, endpoint in store.rows("SELECT job_id, endpoint FROM job_members"):
        members.setdefault(job_id, set()).add(endpoint)
    return members


def _score_job(store: Store, job: JobTruth, members: dict[str, set[str]]) -> JobScore:
    job_id = _most_like(store, job, members)
    mine = {"job_id": job_id}
    found: dict[str, set[Pair]] = {}
    for src, dst, kind in store.rows("SELECT src_addr, dst_addr, kind FROM pairs WHERE job_id = {job_id:String}", mine):
        found.setdefault(kind, set()).add((src, dst) if job.directed else _ordered(src, dst))
    groups: dict[str, set[tuple[str, ...]]] = {"DP": set(), "PP": set()}
    for kind, inside in store.rows("SELECT kind, members FROM groups WHERE job_id = {job_id:String}", mine):
        groups.setdefault(kind, set()).add(tuple(inside))
    stages = dict(store.rows("SELECT endpoint, pp_stage FROM job_members WHERE job_id = {job_id:String}", mine))
    steps = best_match(_step_ends(store, job_id), job.step_ends_ns, job.partial_ends_ns, job.tolerance_ns)
    return JobScore(
        name=job.name,
        job_id=job_id,
        members_exact=members.get(job_id, set()) == job.endpoints,
        pairs={kind: Counts.of(true, found.get(kind, set())) for kind, true in job.pairs.items()},
        dp_groups=Counts.of(job.dp_groups, {frozenset(group) for group in groups["DP"]}),
        pp_chains=Counts.of(job.pp_chains, groups["PP"]),
        stages_exact=stages == job.stages,
        steps=len(job.step_ends_ns[0]),
        matched=steps.matched,
        extra=steps.extra,
        timed=steps.timed,
        duration_error=steps.duration_error,
    )


def _most_like(store: Store, job: JobTruth, members: dict[str, set[str]]) -> str:
    """Return the found job that shares most endpoints, then most time, with a job."""
    shared = {job_id: len(found & job.endpoints) for job_id, found in members.items() if found & job.endpoints}
    most = sorted(job_id for job_id, count in shared.items() if count == max(shared.values()))
    if len(most) < 2 or len(job.step_ends_ns[0]) == 0:
        return most[0] if most else ""
    begin, end = job.step_ends_ns[0][[0, -1]]
    within = {
        name: np.count_nonzero(abs(_step_ends(store, name) - (begin + end) // 2) <= (end - begin) // 2) for name in most
    }
    return max(most, key=lambda name: within[name])


def _step_ends(store: Store, job_id: str) -> Int64:
    """Read when the steps of a job end, int64[steps], rising."""
    ends = store.rows(
        "SELECT toUnixTimestamp64Nano(end_time) FROM steps WHERE job_id = {job_id:String} ORDER BY step",
        {"job_id": job_id},
    )
    return np.array([end for (end,) in ends], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class StepMatch:
    """Found step ends matched with true ones.

    `matched` counts the true ends that were found, `extra` found ends without a true one, `timed` the steps whose ends
    are both matched. `duration_error` is the mean of |duration / true duration - 1| over these steps.
    """

    matched: int
    extra: int
    timed: int
    duration_error: float


def best_match(found: Int64, truths: tuple[Int64, ...], partial: Int64, tolerance_ns: int) -> StepMatch:
    """Match found step ends with the true series that they agree with best."""
    return min(
        (match_ends(found, true, partial, tolerance_ns) for true in truths),
        key=lambda match: (-match.matched, match.extra, match.duration_error),
    )


def match_ends(found: Int64, true: Int64, partial: Int64, tolerance_ns: int) -> StepMatch:
    """Match each true step end with the nearest found one within the tolerance.

    All ends rise. Found ends outside the span of the true ones, or near a `partial` one, belong to steps that the truth
    does not list: they are not extra.
    """
    if len(found) == 0 or len(true) == 0:
        return StepMatch(0, len(found) if len(true) else 0, 0, float("inf"))
    nearest = _nearest(found, true)
    met = np.abs(nearest - true) <= tolerance_ns
    judged = (found >= true[0] - tolerance_ns) & (found <= true[-1] + tolerance_ns)
    if len(partial):
        judged &= np.abs(_nearest(partial, found) - found) > tolerance_ns
    both = met[1:] & met[:-1]
    error = np.abs(np.diff(nearest)[both] / np.diff(true)[both] - 1)
    return StepMatch(
        matched=int(met.sum()),
        extra=int((judged & ~np.isin(found, nearest[met])).sum()),
        timed=len(error),
        duration_error=float(error.mean()) if len(error) else 0.0,
    )


def _nearest(values: Int64, queries: Int64) -> Int64:
    """Return the nearest of rising values to each query, the earlier of two."""
    after = np.clip(np.searchsorted(values, queries), 1, max(len(values) - 1, 1))
    before, later = values[after - 1], values[np.minimum(after, len(values) - 1)]
    nearest: Int64 = np.where(np.abs(queries - before) <= np.abs(later - queries), before, later)
    return nearest


def _last_by_step(step: list[int], end_ns: list[int]) -> Int64:
    """Return the last end of each step over ranks, in order."""
    ends: dict[int, int] = {}
    for number, end in zip(step, end_ns, strict=True):
        ends[number] = max(end, ends.get(number, end))
    return np.array([ends[number] for number in sorted(ends)], dtype=np.int64)


def _ordered(a: str, b: str) -> Pair:
    """Return a pair in sorted order."""
    return (a, b) if a < b else (b, a)
