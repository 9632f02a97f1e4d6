"""Measures what each part of the method is worth: it is left out, or a plain rule or library takes its place."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.accuracy import division, kinds
from bench.accuracy.division import Ends, Job
from bench.accuracy.peers import LONGER, PEERS, load
from bench.accuracy.rows import CLEAN, PLAIN, Row
from bench.accuracy.work import Inputs, empty_store, inputs, landed
from prism_ch.analysis.jobs.job_traffic import recurring_pairs
from prism_ch.analysis.observe import clocks
from prism_ch.analysis.observe.bursts import elect, read_bursts
from prism_ch.model.columns import Bool, Int64
from prism_ch.model.job import PairKinds
from prism_ch.model.params import Params
from prism_ch.model.result import PAIR_KINDS
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic
from prism_ch.store.flows import read_flows
from prism_ch.store.topology import read_topology
from tests.scoring import Counts, JobTruth, best_match, read_recorded_ends

#: The recorded runs, and families that are hard in different ways; all have data-parallel traffic.
MEASURED = (
    *(Row(name) for name in ("dp4_clean", "ppdp4_overlap", "dp4_slow_rank")),
    *(
        Row(family, CLEAN)
        for family in (
            "ddp-fused",
            "ddp-bucketed",
            "distributed-optimizer-overlap",
            "zero2",
            "zero3",
            "pipeline-1f1b",
            "pipeline-interleaved",
            "experts",
            "production",
            "late-data",
        )
    ),
    Row(PLAIN, "loss-2%"),
)

Divide = Callable[[Job], Ends]
Identify = Callable[[Traffic, Bool], PairKinds]

_PARAMS = Params()

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Measured:
    """How one method did on one job: its steps, pairs by kind, CPU time.

    `cpu_s` is the time of the stage in which the method differs from ours, `our_cpu_s` that of our stage. `pairs` is
    empty if the method finds the kinds of pairs as ours does.
    """

    steps: int = 0
    missed: int = 0
    extra: int = 0
    step_error: float | None = None
    pairs: dict[str, Counts] = field(default_factory=dict)
    cpu_s: float = 0.0
    our_cpu_s: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """A job of a scenario as the stages see it, and the truth about it.

    `ends` holds by endpoint the admissible series of step ends, and the ends of the steps that were cut short.
    """

    traffic: Traffic
    steady: Bool
    job: Job
    topology: Topology
    truth: JobTruth
    ends: dict[int, tuple[tuple[Int64, ...], Int64]]


def dividers() -> Iterator[tuple[str, Divide]]:
    """Yield each division into steps that chooses gaps, with the name of its row."""
    yield "without quantum: changepoints, then agreement", division.without_step_volume
    yield "BOCD alone, an endpoint at a time", division.bocd_alone
    yield "gaps in two classes", division.by_gaps(division.two_classes)
    for tuned in (LONGER, *PEERS):
        yield tuned.name, division.by_gaps(tuned.choose())


def identifiers() -> Iterator[tuple[str, Identify]]:
    """Yield each identification of the kinds of pairs, with the name of its row."""
    yield "without replicas and graph: each link alone", kinds.each_link_alone
    yield "one size means pipeline", kinds.one_size


def measure(row: Row, seed: int) -> dict[str, list[Measured]]:
    """Try every method on every job of a scenario."""
    load()
    found: dict[str, list[Measured]] = {}
    for subject in subjects(row, seed):
        for name, measured in _measure(subject):
            found.setdefault(name, []).append(measured)
    return found


def subjects(row: Row, seed: int) -> list[Subject]:
    """Read the jobs of a scenario with their true endpoints, without recognising them."""
    with inputs(row, seed) as given, empty_store() as store:
        landed(store, given, [given.flows])
        topology = read_topology(store)
        flows = read_flows(store, topology, 0, np.iinfo(np.int64).max)
        ticks_ns = flows.ticks_ns()
        blurs_ns = clocks.blurs_ns(ticks_ns, _PARAMS.clocks)
        traffic = read_bursts(elect(flows, blurs_ns), blurs_ns, ticks_ns, _PARAMS.observe)
        return [_subject(given, job, topology, traffic) for job in given.truth]


def _subject(given: Inputs, truth: JobTruth, topology: Topology, traffic: Traffic) -> Subject:
    """Cut one job out of the traffic of all."""
    rows = [row for row, name in enumerate(topology.endpoints) if name in truth.endpoints]
    member = np.zeros(len(topology), dtype=bool)
    member[rows] = True
    inside = member[traffic.pair_src] & member[traffic.pair_dst]
    steady = recurring_pairs(traffic, topology, _PARAMS.recognise)[inside]
    mine = traffic.keep_pairs(inside)
    job = Job(mine, kinds.ours(mine, steady), np.array(rows, dtype=np.int32))
    return Subject(mine, steady, job, topology, truth, _true_ends(given, truth, topology))


def _measure(subject: Subject) -> Iterator[tuple[str, Measured]]:
    """Yield how every method does on one job."""
    identify_s, _ = _timed(partial(kinds.ours, subject.traffic, subject.steady))
    divide_s, ends = _timed(partial(division.ours, subject.job))
    yield "ours", replace(judge_steps(subject, ends), pairs=_pairs(subject, subject.job.kinds), cpu_s=1, our_cpu_s=1)
    for name, identify in identifiers():
        took_s, identified = _timed(partial(identify, subject.traffic, subject.steady))
        found = judge_steps(subject, division.ours(replace(subject.job, kinds=identified)))
        yield name, replace(found, pairs=_pairs(subject, identified), cpu_s=took_s, our_cpu_s=identify_s)
    took_s, ends = _timed(partial(division.without_agreement, subject.job))
    yield (
        "without agreement: each endpoint alone",
        replace(judge_steps(subject, ends), cpu_s=took_s, our_cpu_s=divide_s),
    )
    for name, divide in dividers():
        yield name, replace(judge_gaps(subject, divide), our_cpu_s=divide_s)


def judge_gaps(subject: Subject, divide: Divide) -> Measured:
    """Divide one job by choosing gaps, in the better of two readings.

    If a step is a single burst, all gaps are alike: a method that chooses none may mean that each gap ends a step.
    """
    try:
        took_s, ends = _timed(partial(divide, subject.job))
    except ImportError as error:
        return Measured(error=f"not installed: {error}")
    readings = [judge_steps(subject, found) for found in (ends, division.every_burst(subject.job))]
    return replace(min(readings, key=lambda found: found.missed + found.extra), cpu_s=took_s)


def _timed(function: Callable[[], Result]) -> tuple[float, Result]:
    """Return the CPU time of a call in seconds, and its result."""
    began_s = time.process_time()
    result = function()
    return time.process_time() - began_s, result


def judge_steps(subject: Subject, ends: Ends) -> Measured:
    """Compare steps with the true ones, endpoint by endpoint."""
    nothing = np.empty(0, dtype=np.int64)
    matches = [
        best_match(ends.get(endpoint, nothing), series, partial_ends, subject.truth.tolerance_ns)
        for endpoint, (series, partial_ends) in subject.ends.items()
    ]
    steps = sum(len(series[0]) for series, _ in subject.ends.values())
    timed = sum(match.timed for match in matches)
    error_sum = sum(match.duration_error * match.timed for match in matches if match.timed)
    return Measured(
        steps=steps,
        missed=steps - sum(match.matched for match in matches),
        extra=sum(match.extra for match in matches),
        step_error=error_sum / timed if timed else None,
    )


def _pairs(subject: Subject, identified: PairKinds) -> dict[str, Counts]:
    """Compare the kinds of pairs with the true ones."""
    name = subject.topology.endpoints
    src, dst = subject.traffic.pair_src.tolist(), subject.traffic.pair_dst.tolist()
    found: dict[str, set[tuple[str, str]]] = {}
    for a, b, kind in zip(src, dst, identified.kind.tolist(), strict=True):
        low, high = sorted((name[a], name[b]))
        pair = (name[a], name[b]) if subject.truth.directed else (low, high)
        found.setdefault(PAIR_KINDS[kind], set()).add(pair)
    return {kind: Counts.of(subject.truth.pairs[kind], found.get(kind, set())) for kind in ("DP", "PP")}


def _true_ends(given: Inputs, truth: JobTruth, topology: Topology) -> dict[int, tuple[tuple[Int64, ...], Int64]]:
    """Read the truth about step ends by endpoint, as in `Subject.ends`."""
    if given.recorded:
        ends = read_recorded_ends(given.folder)[truth.name]
        return {topology.index[endpoint]: ((mine,), truth.partial_ends_ns) for endpoint, mine in ends.items()}
    table = pq.read_table(given.folder / "truth" / "gpu_steps.parquet")
    table = table.filter(pc.field("job_id") == truth.name)
    names, complete = np.asarray(table["endpoint"].to_pylist()), table["complete"].to_numpy()
    columns = [table[name].to_numpy() for name in ("end_ns", "rs_end_ns")]
    found = {}
    for endpoint in np.unique(names).tolist():
        mine = names == endpoint
        series = tuple(np.sort(column[mine & complete]) for column in columns)
        partial_ends = np.sort(np.concatenate([column[mine & ~complete] for column in columns]))
        found[topology.index[endpoint]] = (series, partial_ends)
    return found
