"""From a scenario to records and truth."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from prism_ch.model.result import PP
from prism_ch.simulate.network import Flows, Links, Network
from prism_ch.simulate.records import Observed, observe, pieces_of
from prism_ch.simulate.scenario import Scenario
from prism_ch.simulate.traffic import run_job, startup_flows, surrounding_flows
from prism_ch.simulate.truth import JobTruth, StepGrid, job_tables, pairs_table, within
from prism_ch.simulate.truth_faults import fault_tables

#: Queue pairs of one message finish within this of one another; smaller messages than this are not divided.
_QUEUE_SPREAD_S = 60e-6
_QUEUE_MIN_BYTES = 64 << 10
_RECORDS_A_FILE = 2_000_000


@dataclass(frozen=True, slots=True)
class Simulation:
    """Records and truth of one scenario.

    `flows` has the canonical columns, sorted by end; `topology` those of topology.csv; `truth` the tables jobs,
    job_members, pairs, groups, steps, gpu_steps, phases, faults, fault_jobs, events; `summary` is the content of
    scenario.json.
    """

    scenario: Scenario
    flows: pa.Table
    topology: pa.Table
    truth: dict[str, pa.Table]
    summary: dict[str, Any]


def generate(scenario: Scenario) -> Simulation:
    """Simulate a scenario; the same scenario gives the same result, byte for byte."""
    network = Network(scenario.cluster)
    truths = [_run_job(scenario, number, network) for number in range(len(scenario.jobs))]
    unfinished = (run.unfinished for truth in truths for run in truth.runs)
    around = within(Flows.concatenate([surrounding_flows(scenario, network), *unfinished]), scenario)
    seen = Flows.concatenate([*(truth.seen for truth in truths), around])
    observed = observe(seen, scenario, network)
    parts = []
    for truth in truths:
        steps = StepGrid(truth, scenario, network).tables()
        parts.append(job_tables(truth, steps["steps"], scenario, network) | steps)
    truth_tables = {name: pa.concat_tables([part[name] for part in parts]) for name in parts[0]}
    truth_tables["pairs"] = pairs_table(seen, observed.counted_bytes, observed.ack_bytes, scenario, network)
    truth_tables |= fault_tables(truths, scenario, network)
    summary = _summary(scenario, observed, truth_tables)
    return Simulation(scenario, observed.table, _topology(scenario, network), truth_tables, summary)


def write(simulation: Simulation, folder: Path, instead_of: Iterable[Path] = ()) -> list[Path]:
    """Write flows/part-*.parquet, topology.csv and truth/ under `folder`, which is made; return the files.

    Parameters: `instead_of`, files that are removed first.
    """
    for file in instead_of:
        file.unlink()
    tables = {
        f"flows/part-{part:05d}.parquet": simulation.flows.slice(offset, _RECORDS_A_FILE)
        for part, offset in enumerate(range(0, max(len(simulation.flows), 1), _RECORDS_A_FILE))
    } | {f"truth/{name}.parquet": table for name, table in simulation.truth.items()}
    (folder / "flows").mkdir(parents=True, exist_ok=True)
    (folder / "truth").mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        pa.parquet.write_table(table, folder / name, compression="zstd")
    write_topology(simulation.topology, folder)
    (folder / "truth" / "scenario.json").write_text(json.dumps(simulation.summary, indent=1) + "\n")
    return [folder / name for name in (*tables, "topology.csv", "truth/scenario.json")]


def write_topology(topology: pa.Table, folder: Path) -> None:
    """Write topology.csv under `folder`, which exists."""
    with (folder / "topology.csv").open("w", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(topology.column_names)
        lines.writerows(zip(*topology.to_pydict().values(), strict=True))


def _run_job(scenario: Scenario, number: int, network: Network) -> JobTruth:
    job, seed = scenario.jobs[number], scenario.seed
    links = Links(network, scenario.faults, job.queue_pairs)
    runs = tuple(
        replace(
            run,
            flows=_split_queues(run.flows, job.queue_pairs, links, scenario, [seed, 2, number, attempt]),
            unfinished=_split_queues(run.unfinished, job.queue_pairs, links, scenario, [seed, 8, number, attempt]),
        )
        for attempt, run in enumerate(run_job(scenario, number, network, scenario.faults))
    )
    flows = Flows.concatenate([startup_flows(scenario, number, runs, network), *(run.flows for run in runs)])
    return JobTruth(number, job, runs, flows, scenario)


def _split_queues(flows: Flows, queue_pairs: int, links: Links, scenario: Scenario, seed: list[int]) -> Flows:
    """Divide large messages over a pair's queue pairs; the last ends with the message.

    A part of a pipeline's message that takes a faster way than others is there before them. In collectives all wait for
    the next piece of data, which is not there before the slowest has brought the last one.
    """
    if queue_pairs == 1 or not len(flows):
        return flows
    parts = np.where(flows.payload_bytes >= _QUEUE_MIN_BYTES, queue_pairs, 1)
    rows, part = pieces_of(parts)
    whole = flows.take(rows)
    size, rest = np.divmod(whole.payload_bytes, parts[rows])
    spread = np.minimum(_QUEUE_SPREAD_S * 1e9, 0.1 * (whole.end_ns - whole.start_ns))
    early = np.where(part == 0, 0, spread * np.random.default_rng(seed).uniform(0.0, 1.0, len(whole)))
    queue = (whole.queue * queue_pairs + part).astype(np.int32)
    begun_s = (whole.start_ns - scenario.start_ns) / 1e9
    mine, longest = (
        links.queue_slowdown(whole.src, whole.dst, begun_s, queue),
        links.slowdown(whole.src, whole.dst, begun_s, whole.queue),
    )
    ahead = np.where(whole.kind == PP, 1 - mine / longest, 0.0) * (whole.end_ns - whole.start_ns)
    return replace(
        whole,
        payload_bytes=size + (part < rest),
        end_ns=whole.end_ns - np.maximum(early, ahead).astype(np.int64),
        queue=queue,
    )


def _topology(scenario: Scenario, network: Network) -> pa.Table:
    """Return topology.csv; an endpoint's tenant is that of the last job on it."""
    nics = scenario.cluster.nics
    tenant = np.full(len(network.addresses), "", dtype=object)
    for serving in scenario.surroundings.serving:
        for server in (*serving.prefill, *serving.decode):
            tenant[server * nics : (server + 1) * nics] = serving.tenant
    for job in scenario.jobs:
        for attempt in job.attempts:
            tenant[network.endpoint_of_gpu(np.array(attempt.gpus))] = job.tenant
    rows = network.listed
    columns = {
        "endpoint": pa.array(network.addresses[rows]),
        "server": pa.array(network.server_names[network.server[rows]]),
        "gpu": network.gpu[rows],
        "rail": network.rail[rows],
        "leaf": pa.array(network.switches[network.leaf[rows]]),
        "pod": [f"pod-{pod:03d}" for pod in network.pod[rows]],
        "tenant": pa.array(tenant[rows], pa.string()),
    }
    return pa.table(columns)


def _summary(scenario: Scenario, observed: Observed, truth: dict[str, pa.Table]) -> dict[str, Any]:
    cluster = scenario.cluster
    return {
        "scenario": scenario.name,
        "seed": scenario.seed,
        "window_start_ns": scenario.start_ns,
        "window_end_ns": scenario.end_ns,
        "window_s": scenario.duration_s,
        "link_gbps": cluster.link_gbps,
        "servers": cluster.servers,
        "gpus": cluster.servers * cluster.gpus,
        "pods": -(-cluster.servers // cluster.pod_servers),
        "pod_servers": cluster.pod_servers,
        "spines": cluster.spines,
        "observe": asdict(scenario.observation),
        **observed.summary,
        "job_steps": len(truth["steps"]),
        "gpus_in_jobs": len({gpu for job in scenario.jobs for attempt in job.attempts for gpu in attempt.gpus}),
    }
