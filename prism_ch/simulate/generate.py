"""From a scenario to records and truth."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from prism_ch.simulate.cluster import Network, build_network
from prism_ch.simulate.observe import Observed, observe
from prism_ch.simulate.scenario import Scenario
from prism_ch.simulate.surroundings import startup_transfers, surrounding_transfers
from prism_ch.simulate.training import run_job
from prism_ch.simulate.transfers import Transfers
from prism_ch.simulate.truth import (
    JobTruth,
    events_table,
    groups_table,
    jobs_table,
    members_table,
    pairs_table,
    recording_ns,
)
from prism_ch.simulate.truth_faults import faults_tables, touches
from prism_ch.simulate.truth_steps import gpu_steps_table, phases_table, step_grid, steps_table

#: Queue pairs of one message finish within this of one another; smaller messages than this are not divided.
_QUEUE_SPREAD_S = 60e-6
_QUEUE_MIN_BYTES = 64 << 10
_RECORDS_A_FILE = 2_000_000


@dataclass(frozen=True, slots=True)
class Simulation:
    """Records and truth of one scenario.

    `flows` has the canonical columns, sorted by end; `topology` those of topology.csv; `truth` the tables jobs,
    job_members, pairs, groups, steps, gpu_steps, phases, faults, fault_jobs, events; `summary` is what scenario.json
    says.
    """

    scenario: Scenario
    flows: pa.Table
    topology: pa.Table
    truth: dict[str, pa.Table]
    summary: dict[str, Any]


def generate(scenario: Scenario) -> Simulation:
    """Simulate a scenario; the same scenario gives the same result, byte for byte."""
    network = build_network(scenario.cluster)
    truths: list[JobTruth] = []
    healthy = {}
    first_ns, last_ns = recording_ns(scenario)
    for number, job in enumerate(scenario.jobs):
        lives = tuple(
            replace(
                run,
                transfers=_split_queues(run.transfers, job.queue_pairs, [scenario.seed, 2, number, life]),
                unfinished=_split_queues(run.unfinished, job.queue_pairs, [scenario.seed, 8, number, life]),
            )
            for life, run in enumerate(run_job(scenario, number, network, scenario.faults))
        )
        meeting = startup_transfers(scenario, number, lives, network)
        flows = Transfers.concatenate([meeting, *(run.transfers for run in lives)])
        seen = flows.take((flows.end_ns >= first_ns) & (flows.end_ns < last_ns))
        truths.append(JobTruth(number, job, lives, flows, seen))
        if any(touches(fault, lives, network) for fault in scenario.faults):
            healthy[number] = run_job(scenario, number, network, ())
    unfinished = (run.unfinished for truth in truths for run in truth.lives)
    around = Transfers.concatenate([surrounding_transfers(scenario, network), *unfinished])
    around = around.take((around.end_ns >= first_ns) & (around.end_ns < last_ns))
    seen = Transfers.concatenate([*(truth.seen for truth in truths), around])
    observed = observe(seen, scenario, network)
    truth_tables = _truth_tables(truths, scenario, network)
    truth_tables["pairs"] = pairs_table(seen, observed.counted_bytes, observed.ack_bytes, scenario, network)
    truth_tables["faults"], truth_tables["fault_jobs"] = faults_tables(truths, healthy, scenario, network)
    return Simulation(
        scenario=scenario,
        flows=observed.table,
        topology=_topology(scenario, network),
        truth=truth_tables,
        summary=_summary(scenario, observed, truth_tables),
    )


def write(simulation: Simulation, folder: Path) -> list[Path]:
    """Write flows/part-*.parquet, topology.csv and truth/ under `folder`, which is made; return the files."""
    (folder / "flows").mkdir(parents=True, exist_ok=True)
    (folder / "truth").mkdir(parents=True, exist_ok=True)
    files = []
    for part, offset in enumerate(range(0, max(len(simulation.flows), 1), _RECORDS_A_FILE)):
        files.append(folder / "flows" / f"part-{part:05d}.parquet")
        pa.parquet.write_table(simulation.flows.slice(offset, _RECORDS_A_FILE), files[-1], compression="zstd")
    files.append(folder / "topology.csv")
    with files[-1].open("w", newline="") as topology:
        lines = csv.writer(topology, lineterminator="\n")
        lines.writerow(simulation.topology.column_names)
        lines.writerows(zip(*simulation.topology.to_pydict().values(), strict=True))
    for name, table in simulation.truth.items():
        files.append(folder / "truth" / f"{name}.parquet")
        pa.parquet.write_table(table, files[-1], compression="zstd")
    files.append(folder / "truth" / "scenario.json")
    files[-1].write_text(json.dumps(simulation.summary, indent=1) + "\n")
    return files


def _split_queues(transfers: Transfers, queue_pairs: int, seed: list[int]) -> Transfers:
    """Divide every message that is worth it over a pair's queue pairs; the last of them ends when the message does."""
    if queue_pairs == 1 or not len(transfers):
        return transfers
    parts = np.where(transfers.payload_bytes >= _QUEUE_MIN_BYTES, queue_pairs, 1)
    whole = transfers.take(np.repeat(np.arange(len(transfers)), parts))
    count = np.repeat(parts, parts)
    part = np.arange(len(whole)) - np.repeat(np.cumsum(parts) - parts, parts)
    size, rest = np.divmod(whole.payload_bytes, count)
    rng = np.random.default_rng(seed)
    spread = np.minimum(_QUEUE_SPREAD_S * 1e9, 0.1 * (whole.end_ns - whole.start_ns))
    early = np.where(part == 0, 0, spread * rng.uniform(0.0, 1.0, len(whole))).astype(np.int64)
    columns: dict[str, Any] = {f.name: getattr(whole, f.name) for f in fields(whole)}
    columns["payload_bytes"] = size + (part < rest)
    columns["end_ns"] = whole.end_ns - early
    columns["queue"] = whole.queue * queue_pairs + part
    return Transfers(**columns)


def _truth_tables(truths: list[JobTruth], scenario: Scenario, network: Network) -> dict[str, pa.Table]:
    grids = []
    phases = []
    for truth in truths:
        grid, part = step_grid(truth, scenario, network)
        grids.append((truth, grid))
        phases.append((truth, part))
    steps = steps_table(grids)
    return {
        "jobs": jobs_table(truths, scenario, network, steps),
        "job_members": members_table(truths, scenario, network),
        "events": events_table(truths, scenario),
        "groups": groups_table(truths, network),
        "steps": steps,
        "gpu_steps": gpu_steps_table(grids, network),
        "phases": phases_table(phases, network),
    }


def _topology(scenario: Scenario, network: Network) -> pa.Table:
    """Return topology.csv; an endpoint's tenant is that of the last job on it."""
    cluster = scenario.cluster
    tenant = [""] * len(network.addresses)
    for serving in scenario.surroundings.serving:
        for server in (*serving.prefill, *serving.decode):
            tenant[server * cluster.nics : (server + 1) * cluster.nics] = [serving.tenant] * cluster.nics
    for job in scenario.jobs:
        for life in job.lives:
            for endpoint in network.endpoint_of_gpu(np.array(life.gpus)).tolist():
                tenant[endpoint] = job.tenant
    rows = np.flatnonzero(network.listed).tolist()
    return pa.table(
        {
            "endpoint": [network.addresses[row] for row in rows],
            "server": [network.server_names[network.server[row]] for row in rows],
            "gpu": network.gpu[rows],
            "rail": network.rail[rows],
            "leaf": [network.switches[network.leaf[row]] for row in rows],
            "pod": [f"pod-{network.pod[row]:03d}" for row in rows],
            "tenant": [tenant[row] for row in rows],
        }
    )


def _summary(scenario: Scenario, observed: Observed, truth: dict[str, pa.Table]) -> dict[str, Any]:
    first_ns, last_ns = recording_ns(scenario)
    cluster = scenario.cluster
    return {
        "scenario": scenario.name,
        "seed": scenario.seed,
        "window_start_ns": first_ns,
        "window_end_ns": last_ns,
        "window_s": scenario.duration_s,
        "link_gbps": cluster.link_gbps,
        "servers": cluster.servers,
        "gpus": cluster.servers * cluster.gpus,
        "pods": -(-cluster.servers // cluster.pod_servers),
        "pod_servers": cluster.pod_servers,
        "spines": cluster.spines,
        "observe": asdict(scenario.observation),
        "counts": observed.counts,
        "exporter_skew_s": observed.skew_s,
        "bad_exporter": observed.bad_exporter,
        "job_steps": len(truth["steps"]),
        "gpus_in_jobs": len({gpu for job in scenario.jobs for life in job.lives for gpu in life.gpus}),
    }
