"""Injects faults of GPUs and NICs, and counts on how many dashboards their culprit stands first: `-m bench.culprits`.

Each fault is landed, analysed, and asked for as Grafana asks: the panel on whom the others wait for, of the job and of
the incident that costs most. Only faults count of which somebody must be told, and whose culprit the records tell from
others: a fault that is not found is a miss. A culprit is whoever leaves the same records.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.accuracy.faults.cases import KINDS, Case
from bench.accuracy.faults.truth import Truth, true_of
from bench.accuracy.work import Inputs, analysed, empty_store
from prism_ch.grafana.organisations import shipped_dashboards
from prism_ch.grafana.queries import Selection, TimeRange, queries
from prism_ch.simulate import Simulation, generate, write
from prism_ch.simulate.network import Network, RankGrid
from prism_ch.store.client import Store
from prism_ch.store.statements import split_statements
from tools.dashboards.ask import ask

_PANEL = "panel 'Whom the others wait for'"
_KINDS = ("slow_gpu", "slow_nic")
#: Servers with more GPUs than this take minutes each.
_GPUS_MAX = 64
_FIRST_SEED = 70_000
_JOB, _WORST_INCIDENT = split_statements(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def main() -> None:
    """Inject faults, and print on how many dashboards the culprit stands first."""
    parser = argparse.ArgumentParser(prog="python -m bench.culprits", description=__doc__)
    parser.add_argument("--faults", type=int, default=40, help="faults that count (default: 40)")
    parser.add_argument("--first-seed", type=int, default=_FIRST_SEED, help=f"(default: {_FIRST_SEED})")
    chosen = parser.parse_args()
    found = {"prism-job": 0, "prism-incident": 0}
    done = cheap = alike = unfound = 0
    for case in _cases(chosen.first_seed):
        made = generate(case.scenario())
        truth = true_of(case, made)
        if not truth.is_costly:
            cheap += 1
            continue
        if not _is_identifiable(made, truth):
            alike += 1
            continue
        done += 1
        named, told = first_rows(case, made, truth)
        unfound += not told
        for board, endpoint in named.items():
            found[board] += endpoint in truth.alike
        print(f"{done} faults", end="\r", file=sys.stderr, flush=True)
        missed = [
            f"{board}: {endpoint or 'nobody'}" for board, endpoint in named.items() if endpoint not in truth.alike
        ]
        if missed:
            print(f"{case.name}: not {', '.join(sorted(truth.alike)[:4])} but {', '.join(missed)}", flush=True)
            print(f"    {told or 'no incident of warning or worse'}", flush=True)
        if done == chosen.faults:
            break
    print(f"{done} faults; besides, {cheap} cost too little, and the records of {alike} don't tell the culprit")
    print(f"without an incident of warning or worse: {unfound} of {done}")
    for board, hits in found.items():
        print(f"{board}: the culprit stands first in {hits} of {done}")


def _is_identifiable(made: Simulation, truth: Truth) -> bool:
    """Return whether records set a culprit apart from its job.

    They don't if all of the job leaves the same ones, or if all of a stage do and it was slow from the first step to
    the last: one that has more to compute does, too.
    """
    scenario = made.scenario
    job, network = scenario.jobs[0], Network(scenario.cluster)
    grid = RankGrid(job.layout, job.attempts[0].gpus, network)
    seen = max(truth.costs, key=lambda cost: cost.lost_gpu_s).endpoints
    stages = [seen.intersection(map(str, each)) for each in network.addresses[grid.endpoint.reshape(grid.stages, -1)]]
    is_whole = all(fault.start_s <= 0 and fault.end_s >= scenario.duration_s for fault in scenario.faults)
    return not truth.alike >= seen and not (is_whole and any(each and truth.alike >= each for each in stages))


def first_rows(case: Case, made: Simulation, truth: Truth) -> tuple[dict[str, str], str]:
    """Return whom each dashboard names first, and the incident's sentence, empty without one."""
    with tempfile.TemporaryDirectory() as folder, empty_store() as store:
        write(made, Path(folder))
        flows = f"{folder}/flows/*.parquet"
        analysed(store, Inputs(flows, f"{folder}/topology.csv", [], Path(folder), recorded=False), [flows])
        harmed = max(truth.costs, key=lambda cost: cost.lost_gpu_s)
        jobs = store.rows(_JOB, {"endpoints": sorted(harmed.endpoints)})
        job_id = jobs[0][0] if jobs else ""
        incident, told = next(iter(store.rows(_WORST_INCIDENT)), ("", ""))
        bounds = made.summary["window_start_ns"], made.summary["window_end_ns"]
        time_range = TimeRange(*(at_ns // 1_000_000 for at_ns in bounds))
        named = {
            "prism-job": _first(store, "prism-job", time_range, job=job_id),
            "prism-incident": _first(store, "prism-incident", time_range, incident=incident) if incident else "",
        }
        return named, str(told)


def _cases(first_seed: int) -> Iterator[Case]:
    """Yield faults of small jobs, of every kind and magnitude in turn."""
    seed = first_seed
    while True:
        for kind in _KINDS:
            for magnitude in KINDS[kind].magnitudes:
                case = Case(kind, magnitude, seed)
                seed += 1
                if sum(job.layout.gpus for job in case.scenario().jobs) <= _GPUS_MAX:
                    yield case


def _first(store: Store, uid: str, time_range: TimeRange, **chosen: str) -> str:
    """Return the endpoint of a panel's first row."""
    (query,) = [each for each in queries(uid, shipped_dashboards()[uid]) if each.place == _PANEL]
    answer = ask(store, query, time_range, {name: Selection((value,)) for name, value in chosen.items()})
    return str(answer.frame.values("Endpoint")[0]) if answer.frame and answer.frame.rows else ""


if __name__ == "__main__":
    main()
