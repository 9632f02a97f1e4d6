"""The truth about jobs: what they are, where they run, who talks to whom and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from prism_ch.core.disjoint_set import components
from prism_ch.model.columns import Int64
from prism_ch.model.result import CP, DP, EP, PP, TP
from prism_ch.simulate.cluster import Network
from prism_ch.simulate.ranks import RankGrid
from prism_ch.simulate.scenario import Scenario
from prism_ch.simulate.training import LifeRun
from prism_ch.simulate.transfers import TRAFFIC_NAMES, Transfers
from prism_ch.simulate.workload import Job

TRAINING_KINDS = (DP, PP, EP, CP, TP)

TEXTS = pa.list_(pa.string())

JOBS = pa.schema(
    [("job_id", pa.string()), ("tenant", pa.string())]
    + [(name, pa.int64()) for name in ("tp", "pp", "dp", "cp", "ep", "vpp", "microbatches")]
    + [("schedule", pa.string()), ("dp_mode", pa.string()), ("overlap", pa.bool_())]
    + [("endpoints", TEXTS), ("visible_endpoints", TEXTS), ("servers", TEXTS), ("visible", pa.bool_())]
    + [(name, pa.int64()) for name in ("start_ns", "end_ns", "first_flow_ns", "last_flow_ns", "incarnations", "steps")]
    + [("step_s_median", pa.float64()), ("dp_group_size", pa.int64())]
)
MEMBERS = pa.schema(
    [("job_id", pa.string()), ("endpoint", pa.string()), ("server", pa.string())]
    + [(name, pa.int64()) for name in ("gpu", "pp_stage", "dp_rank", "tp_rank", "cp_rank", "ep_rank", "dp_group")]
    + [("incarnation", pa.int64()), ("first_ns", pa.int64()), ("last_ns", pa.int64()), ("visible", pa.bool_())]
)
GROUPS = pa.schema(
    [
        ("job_id", pa.string()),
        ("kind", pa.string()),
        ("group_id", pa.int64()),
        ("pp_stage", pa.int64()),
        ("members", TEXTS),
        ("components", pa.list_(TEXTS)),
        ("incarnation", pa.int64()),
    ]
)
PAIRS = pa.schema(
    [
        ("job_id", pa.string()),
        ("src_addr", pa.string()),
        ("dst_addr", pa.string()),
        ("kind", pa.string()),
        ("kinds", TEXTS),
    ]
    + [(name, pa.int64()) for name in ("flows", "bytes", "first_ns", "last_ns")]
    + [("ack_only", pa.bool_())]
)

EVENTS = pa.schema(
    [
        ("job_id", pa.string()),
        ("kind", pa.string()),
        ("start_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("step", pa.int32()),
    ]
)


@dataclass(frozen=True, slots=True)
class JobTruth:
    """One job as it was simulated; `seen` are its flows that the recording holds, `all` also those cut by its edges."""

    number: int
    job: Job
    lives: tuple[LifeRun, ...]
    all: Transfers
    seen: Transfers

    def visible(self) -> Int64:
        """Return the endpoints, ascending, that training traffic touches inside the recording."""
        training = self.seen.take(np.isin(self.seen.kind, TRAINING_KINDS))
        return np.unique(np.concatenate([training.src, training.dst])).astype(np.int64)


def table(schema: pa.Schema, rows: list[dict[str, Any]]) -> pa.Table:
    """Build a table of few rows."""
    return pa.Table.from_pylist(rows, schema=schema)


def jobs_table(truths: list[JobTruth], scenario: Scenario, network: Network, steps: pa.Table) -> pa.Table:
    """One row a job; `steps` is the table of steps, of which those inside the recording count."""
    rows = []
    first_ns, last_ns = recording_ns(scenario)
    for truth in truths:
        job, layout = truth.job, truth.job.layout
        visible = truth.visible()
        mine = (np.asarray(steps["job_id"]) == job.job_id) & (np.asarray(steps["end_ns"]) <= last_ns)
        mine &= np.asarray(steps["end_ns"]) >= first_ns
        duration = np.asarray(steps["duration_s"])[mine & np.asarray(steps["complete"])]
        endpoints = np.unique(np.concatenate([run.grid.endpoint for run in truth.lives]))
        start_s = max(truth.job.lives[0].start_s, 0.0)
        end_s = min(truth.job.lives[-1].end_s, scenario.duration_s)
        rows.append(
            {
                "job_id": job.job_id,
                "tenant": job.tenant,
                "tp": layout.tp,
                "pp": layout.pp,
                "dp": layout.dp,
                "cp": layout.cp,
                "ep": layout.ep,
                "vpp": job.pipeline.chunks,
                "microbatches": job.pipeline.microbatches,
                "schedule": job.pipeline.schedule,
                "dp_mode": job.sync.mode,
                "overlap": job.sync.overlap,
                "endpoints": _names(endpoints, network),
                "visible_endpoints": _names(visible, network),
                "servers": [network.server_names[s] for s in np.unique(network.server[endpoints]).tolist()],
                "visible": bool(len(visible)),
                "start_ns": scenario.start_ns + round(start_s * 1e9),
                "end_ns": scenario.start_ns + round(end_s * 1e9),
                "first_flow_ns": int(truth.seen.start_ns.min()) if len(truth.seen) else 0,
                "last_flow_ns": int(truth.seen.end_ns.max()) if len(truth.seen) else 0,
                "incarnations": len(truth.lives),
                "steps": int(mine.sum()),
                "step_s_median": float(np.median(duration)) if len(duration) else float("nan"),
                "dp_group_size": layout.dp * layout.cp,
            }
        )
    return table(JOBS, rows)


def members_table(truths: list[JobTruth], scenario: Scenario, network: Network) -> pa.Table:
    """One row a rank and life."""
    rows = []
    first_ns, last_ns = recording_ns(scenario)
    for truth in truths:
        visible = set(truth.visible().tolist())
        for life, run in enumerate(truth.lives):
            grid = run.grid
            shape = (grid.stages, *grid.shape, grid.tp)
            stage, data, expert, context, tensor = np.unravel_index(np.arange(len(grid.endpoint)), shape)
            for rank, endpoint in enumerate(grid.endpoint.tolist()):
                rows.append(
                    {
                        "job_id": truth.job.job_id,
                        "endpoint": network.addresses[endpoint],
                        "server": network.server_names[grid.server[rank]],
                        "gpu": int(grid.gpu[rank]) % network.cluster.gpus,
                        "pp_stage": int(stage[rank]),
                        "dp_rank": int(data[rank] * grid.shape[1] + expert[rank]),
                        "tp_rank": int(tensor[rank]),
                        "cp_rank": int(context[rank]),
                        "ep_rank": int(expert[rank]),
                        "dp_group": int(stage[rank] * grid.tp + tensor[rank]),
                        "incarnation": life,
                        "first_ns": max(first_ns, scenario.start_ns + round(run.life.start_s * 1e9)),
                        "last_ns": last_ns
                        if run.life.end_s >= scenario.duration_s
                        else scenario.start_ns + round(run.life.end_s * 1e9),
                        "visible": endpoint in visible,
                    }
                )
    return table(MEMBERS, rows)


def groups_table(truths: list[JobTruth], network: Network) -> pa.Table:
    """One row a communicator and life: as the job has it (`members`) and as the network shows it (`components`)."""
    rows: list[dict[str, Any]] = []
    for truth in truths:
        for life, run in enumerate(truth.lives):
            for kind, groups in _shown(truth.job, run.grid):
                flows = run.transfers.take(run.transfers.kind == kind)
                label = components(len(network.addresses), flows.src, flows.dst)
                touched = np.zeros(len(network.addresses), dtype=bool)
                touched[flows.src] = touched[flows.dst] = True
                for number, members in enumerate(groups.tolist()):
                    by_label: dict[int, list[str]] = {}
                    for endpoint in dict.fromkeys(int(run.grid.endpoint[rank]) for rank in members):
                        if touched[endpoint]:
                            by_label.setdefault(int(label[endpoint]), []).append(network.addresses[endpoint])
                    rows.append(
                        {
                            "job_id": truth.job.job_id,
                            "kind": TRAFFIC_NAMES[kind],
                            "group_id": number,
                            "pp_stage": 0 if kind == PP else members[0] // (run.grid.lanes * run.grid.tp),
                            "members": [network.addresses[run.grid.endpoint[rank]] for rank in members],
                            "components": [part if kind == PP else sorted(part) for part in by_label.values()],
                            "incarnation": life,
                        }
                    )
    return table(GROUPS, rows)


def _shown(job: Job, grid: RankGrid) -> Iterator[tuple[int, Int64]]:
    """Yield the kinds of communicators that a job has beyond single servers' tensor groups, with their ranks."""
    inner = ((EP, job.experts), (CP, job.context), (TP, job.tensor))
    for kind in (DP, PP, *(kind for kind, traffic in inner if traffic is not None)):
        groups = grid.communicators(kind)
        if groups.shape[1] > 1:
            yield kind, groups


def pairs_table(
    seen: Transfers, bytes_counted: Int64, ack_bytes: Int64, scenario: Scenario, network: Network
) -> pa.Table:
    """One row a job ('' for what belongs to none) and directed pair, counted before any loss or repetition.

    `bytes_counted`, `ack_bytes`: int64[flows], of each flow and its acknowledgements (none: empty). Pairs that carry
    nothing but acknowledgements follow at the end.
    """
    rows: list[dict[str, Any]] = []
    endpoints = len(network.addresses)
    key = (seen.job.astype(np.int64) + 1) * endpoints**2 + seen.src.astype(np.int64) * endpoints + seen.dst
    _, pair = np.unique(key, return_inverse=True)
    order = np.lexsort((seen.kind, pair))
    edges = np.flatnonzero(np.diff(pair[order], prepend=-1))
    kind_edges = np.flatnonzero(np.diff(pair[order] * 16 + seen.kind[order], prepend=-1))
    if not len(order):
        return table(PAIRS, rows)
    kind_bytes = np.add.reduceat(bytes_counted[order], kind_edges)
    flows = np.diff(edges, append=len(order))
    volume = np.add.reduceat(bytes_counted[order], edges)
    first_ns = np.minimum.reduceat(seen.start_ns[order], edges)
    last_ns = np.maximum.reduceat(seen.end_ns[order], edges)
    bounds = np.searchsorted(kind_edges, np.append(edges, len(order)))
    for row, position in enumerate(order[edges].tolist()):
        held = range(int(bounds[row]), int(bounds[row + 1]))
        by_volume = sorted(held, key=lambda i: -int(kind_bytes[i]))
        names = [TRAFFIC_NAMES[int(seen.kind[order[kind_edges[i]]])] for i in by_volume]
        job = int(seen.job[position])
        rows.append(
            {
                "job_id": scenario.jobs[job].job_id if job >= 0 else "",
                "src_addr": network.addresses[seen.src[position]],
                "dst_addr": network.addresses[seen.dst[position]],
                "kind": names[0],
                "kinds": names,
                "flows": int(flows[row]),
                "bytes": int(volume[row]),
                "first_ns": int(first_ns[row]),
                "last_ns": int(last_ns[row]),
                "ack_only": False,
            }
        )
    known = {(row["src_addr"], row["dst_addr"]) for row in rows}
    acknowledged = np.add.reduceat(ack_bytes[order], edges).tolist() if len(ack_bytes) else []
    for pair_row, size in list(zip(rows, acknowledged, strict=False)):
        src, dst = pair_row["src_addr"], pair_row["dst_addr"]
        if (dst, src) not in known:
            rows.append(pair_row | {"src_addr": dst, "dst_addr": src, "bytes": size, "ack_only": True})
    return table(PAIRS, rows)


def events_table(truths: list[JobTruth], scenario: Scenario) -> pa.Table:
    """One row a pause of a job (checkpoint, evaluation, stall) or restart; `step` is the one that follows."""
    rows: list[dict[str, Any]] = []
    for truth in truths:
        for before, run in zip((None, *truth.lives), truth.lives, strict=False):
            spans: list[tuple[str, float, float, int]] = [
                (pause.pause.kind, pause.begin_s, pause.until_s, pause.step) for pause in run.pauses
            ]
            if before is not None:
                spans.append(("restart", before.life.end_s, run.life.start_s + run.life.startup_s, run.first_step))
            for kind, begin_s, until_s, step in sorted(spans, key=lambda span: span[1]):
                start_ns, end_ns = (scenario.start_ns + round(at * 1e9) for at in (begin_s, until_s))
                rows.append(
                    {"job_id": truth.job.job_id, "kind": kind, "start_ns": start_ns, "end_ns": end_ns, "step": step}
                )
    return table(EVENTS, rows)


def recording_ns(scenario: Scenario) -> tuple[int, int]:
    """Return the first nanosecond of the recording and the first after it."""
    return scenario.start_ns, scenario.start_ns + round(scenario.duration_s * 1e9)


def _names(endpoints: Int64, network: Network) -> list[str]:
    return [network.addresses[endpoint] for endpoint in endpoints.tolist()]
