"""Writes the results of one analysis of a window as rows, and then publishes them in one statement."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from prism_ch.errors import ClaimedError
from prism_ch.model.exporter import ExporterStates
from prism_ch.model.finding import Finding
from prism_ch.model.incident import Incident
from prism_ch.model.memory import JobRevision, Visibility, WindowRevision
from prism_ch.model.result import PAIR_KINDS, GpuIdle, GpuSteps, Members, Pairs, Steps
from prism_ch.model.topology import Topology
from prism_ch.model.window import Window
from prism_ch.store.client import IN_ONE_BLOCK, Store
from prism_ch.store.memory import JobNotes, write_baseline, write_costs, write_job_notes
from prism_ch.store.read import Reach
from prism_ch.store.timeline import timeline_parts

_Struct = TypeVar("_Struct", Members, Pairs, Steps, GpuSteps)

_WHAT_IF_TEXTS = ("job_id", "tenant", "incident_id", "without")
_WHAT_IF_NUMBERS = ("actual_s", "replayed_s", "without_s", "saved_gpu_h")


def _job_rows(topology: Topology, revisions: Sequence[JobRevision]) -> pa.Table:
    records = [item.job for item in revisions]
    servers = [len(np.unique(topology.server[item.members.endpoint])) for item in revisions]
    return pa.table(
        {
            "job_id": _texts(job.job_id for job in records),
            "tenant": _texts(job.tenant for job in records),
            "status": _texts(job.status for job in records),
            "first_seen": _times([job.first_seen_ns for job in records]),
            "last_seen": _times([job.last_seen_ns for job in records]),
            "endpoints": pa.array([len(item.members) for item in revisions], pa.uint32()),
            "servers": pa.array(servers, pa.uint32()),
            "dp_size": pa.array([job.dp_size for job in records], pa.uint32()),
            "pp_size": pa.array([job.pp_size for job in records], pa.uint32()),
            "steps": pa.array([job.steps for job in records], pa.uint64()),
            "step_s_median": pa.array([job.step_s_median for job in records], pa.float64()),
            "memory": _texts(write_job_notes(JobNotes(item.attempt, item.usual_compute)) for item in revisions),
        }
    )


def _member_rows(topology: Topology, revisions: Sequence[JobRevision]) -> pa.Table:
    owner, members = _stacked(revisions, Members, [item.members for item in revisions])
    return pa.table(
        {
            "job_id": owner["job_id"],
            "endpoint": _addresses(topology, members.endpoint),
            "server": _named(topology.server[members.endpoint], topology.server_names),
            "gpu": topology.gpu[members.endpoint],
            "dp_group": _unsigned(members.dp_group, pa.uint32()),
            "pp_stage": _unsigned(members.pp_stage, pa.uint32()),
            "first_seen": _times(members.first_seen_ns),
            "last_seen": _times(members.last_seen_ns),
        }
    )


def _pair_rows(topology: Topology, revisions: Sequence[JobRevision]) -> pa.Table:
    owner, pairs = _stacked(revisions, Pairs, [item.pairs for item in revisions])
    return pa.table(
        {
            "job_id": owner["job_id"],
            "src_addr": _addresses(topology, pairs.src),
            "dst_addr": _addresses(topology, pairs.dst),
            "kind": _named(pairs.kind, PAIR_KINDS),
            "confidence": pairs.confidence,
            "flows": _unsigned(pairs.flows, pa.uint64()),
            "bytes": _unsigned(pairs.bytes, pa.uint64()),
            "first_seen": _times(pairs.first_seen_ns),
            "last_seen": _times(pairs.last_seen_ns),
        }
    )


def _group_rows(topology: Topology, revisions: Sequence[JobRevision]) -> pa.Table:
    found = [(item.job.job_id, group) for item in revisions for group in item.groups]
    names = topology.endpoints
    return pa.table(
        {
            "job_id": _texts(job_id for job_id, _ in found),
            "group_id": pa.array([group.group_id for _, group in found], pa.uint32()),
            "kind": _texts(PAIR_KINDS[group.kind] for _, group in found),
            "pp_stage": pa.array([group.pp_stage for _, group in found], pa.uint32()),
            "members": pa.array([[names[row] for row in group.members] for _, group in found], pa.list_(pa.string())),
        }
    )


def _step_rows(topology: Topology, revisions: Sequence[JobRevision]) -> pa.Table:
    owner, steps = _stacked(revisions, Steps, [item.steps for item in revisions])
    rows = steps.slowest.tolist()
    alone = np.array([row[0] if len(row) == 1 else -1 for row in rows], dtype=np.int64)
    several = pa.array([[topology.endpoints[one] for one in row] for row in rows], pa.list_(pa.string()))
    slowest = {"slowest_endpoint": _addresses(topology, alone), "slowest_endpoints": several}
    return pa.table({**owner, **_step_columns(steps), **slowest})


def _gpu_step_rows(topology: Topology, revisions: Sequence[JobRevision]) -> pa.Table:
    owner, steps = _stacked(revisions, GpuSteps, [item.gpu_steps for item in revisions])
    idle = [item.idle if len(item.idle) else _not_measured(len(item.gpu_steps)) for item in revisions]
    measured = GpuIdle.concat([GpuIdle.empty(), *idle])
    waited = {name: pa.array(getattr(measured, name), from_pandas=True) for name in ("idle_s", "bubble_s")}
    return pa.table({**owner, **_step_columns(steps), **waited, "endpoint": _addresses(topology, steps.endpoint)})


def _not_measured(rows: int) -> GpuIdle:
    return GpuIdle(np.full(rows, np.nan), np.full(rows, np.nan))


def _what_if_rows(revisions: Sequence[JobRevision]) -> pa.Table:
    found = [one for item in revisions for one in item.what_ifs]
    return pa.table(
        {
            **{name: _texts(getattr(one, name) for one in found) for name in _WHAT_IF_TEXTS},
            "step": pa.array([one.first_step for one in found], pa.uint64()),
            "last_step": pa.array([one.last_step for one in found], pa.uint64()),
            **{name: pa.array([getattr(one, name) for one in found], pa.float64()) for name in _WHAT_IF_NUMBERS},
        }
    )


def _finding_rows(revisions: Sequence[JobRevision], cluster_findings: Sequence[Finding]) -> pa.Table:
    owners = [(item.job.job_id, item.job.tenant) for item in revisions for _ in item.findings]
    owners += [("", "")] * len(cluster_findings)
    found = [*(finding for item in revisions for finding in item.findings), *cluster_findings]
    texts = ("diagnosis_id", "kind", "subject", "status", "severity", "summary", "incident_id")
    numbers = ("observed", "expected", "score", "slowdown", "confidence")
    return pa.table(
        {
            "job_id": _texts(job_id for job_id, _ in owners),
            "tenant": _texts(tenant for _, tenant in owners),
            **{name: _texts(getattr(finding, name) for finding in found) for name in texts},
            # The ranks of a stage are a group of the job.
            "subject_type": _texts("group" if one.subject_type == "stage" else one.subject_type for one in found),
            "evidence": _texts(json.dumps(finding.evidence) for finding in found),
            "baseline": _texts(write_baseline(finding.baseline) for finding in found),
            "first_step": pa.array([finding.first_step for finding in found], pa.uint64()),
            "last_step": pa.array([finding.last_step for finding in found], pa.uint64()),
            "start_time": _times([finding.start_ns for finding in found]),
            "end_time": _times([finding.end_ns for finding in found]),
            **{name: pa.array([getattr(finding, name) for finding in found], pa.float64()) for name in numbers},
        }
    )


def _incident_rows(incidents: Sequence[Incident]) -> pa.Table:
    texts = ("incident_id", "tenant", "kind", "subject_type", "subject", "status", "severity", "summary", "action")
    lists = ("may_also_be", "jobs", "tenants")
    numbers = ("confidence", "lost_gpu_h", "slowdown")
    return pa.table(
        {
            **{name: _texts(getattr(one, name) for one in incidents) for name in texts},
            **{name: pa.array([getattr(one, name) for one in incidents], pa.list_(pa.string())) for name in lists},
            **{name: pa.array([getattr(one, name) for one in incidents], pa.float64()) for name in numbers},
            "gpus": pa.array([one.gpus for one in incidents], pa.uint32()),
            "noted_time": _times([one.noted_ns for one in incidents]),
            "start_time": _times([one.start_ns for one in incidents]),
            "end_time": _times([one.end_ns for one in incidents]),
            "costs": _texts(write_costs(one.costs) for one in incidents),
            "is_withdrawn": pa.array([one.is_withdrawn for one in incidents], pa.bool_()).cast(pa.uint8()),
        }
    )


def _exporter_rows(window: Window, states: ExporterStates) -> pa.Table:
    return pa.table(
        {
            "exporter": _texts(states.exporters),
            "window_start": _times([window.start_ns] * len(states)),
            "clock_offset_s": pa.array(states.clock_offset_s, from_pandas=True),
            "clock_uncertainty_s": pa.array(states.clock_uncertainty_s, from_pandas=True),
            "clock_matches": _unsigned(states.clock_matches, pa.uint64()),
            "idle_timeout_s": pa.array(states.idle_timeout_s, from_pandas=True),
            "active_timeout_s": pa.array(states.active_timeout_s, from_pandas=True),
        }
    )


def _visibility_rows(window: Window, found: Sequence[Visibility]) -> pa.Table:
    return pa.table(
        {
            "job_id": _texts(one.job_id for one in found),
            "window_start": _times([window.start_ns] * len(found)),
            "tenant": _texts(one.tenant for one in found),
            "endpoints": pa.array([one.endpoints for one in found], pa.uint32()),
            "endpoints_seen": pa.array([one.endpoints_seen for one in found], pa.uint32()),
            "share": pa.array([one.share for one in found], pa.float64()),
            "why": _texts(one.why for one in found),
        }
    )


def _revision_rows(
    window: Window,
    published: Sequence[JobRevision],
    tombstones: Sequence[str],
    cluster_findings: Sequence[Finding],
    reaches: Mapping[str, Reach],
) -> pa.Table:
    """Return the rows of revisions, one for each job, published or withdrawn.

    One more, without job_id, is for the findings about no single job.

    Parameters: `reaches`, how far the revisions reach that are published, by job_id.
    """
    cluster_ns = max([window.start_ns, *(finding.start_ns for finding in cluster_findings)])
    entries = [
        *((item.job.job_id, item.from_step, item.from_time_ns, _reach_of(item)) for item in published),
        *((job_id, 0, 0, Reach()) for job_id in tombstones),
        ("", 0, window.start_ns, Reach(last_ns=cluster_ns)),
    ]
    before = [reaches.get(job_id, Reach()) for job_id, *_ in entries]
    own = [reach for *_, reach in entries]
    cuts = [
        from_step < reach.next_step or from_ns <= reach.last_ns
        for (_, from_step, from_ns, _), reach in zip(entries, before, strict=True)
    ]
    pairs = list(zip(before, own, strict=True))
    return pa.table(
        {
            "job_id": _texts(job_id for job_id, *_ in entries),
            "from_step": pa.array([from_step for _, from_step, _, _ in entries], pa.uint64()),
            "from_time": _times([from_ns for _, _, from_ns, _ in entries]),
            "window_start": _times([window.start_ns] * len(entries)),
            "cuts": pa.array(cuts, pa.bool_()).cast(pa.uint8()),
            "next_step": pa.array([max(a.next_step, b.next_step) for a, b in pairs], pa.uint64()),
            "last_time": _times([max(a.last_ns, b.last_ns) for a, b in pairs]),
        }
    )


def _reach_of(item: JobRevision) -> Reach:
    last_step = max(int(steps.step.max(initial=-1)) for steps in (item.steps, item.gpu_steps, item.timeline))
    return Reach(next_step=last_step + 1, last_ns=max((finding.start_ns for finding in item.findings), default=0))


def _step_columns(stacked: Steps | GpuSteps) -> dict[str, Any]:
    return {
        "step": _unsigned(stacked.step, pa.uint64()),
        "start_time": _times(stacked.start_ns),
        "end_time": _times(stacked.end_ns),
        "duration_s": stacked.duration_s,
        "compute_s": stacked.compute_s,
        "pp_s": stacked.pp_s,
        "dp_s": stacked.dp_s,
        "complete": stacked.complete,
    }


def _stacked(
    revisions: Sequence[JobRevision], kind: type[_Struct], parts: Sequence[_Struct]
) -> tuple[dict[str, pa.Array], _Struct]:
    """Join a part of each revision; return each row's job_id and tenant, and the rows."""
    row = np.repeat(np.arange(len(revisions)), [len(part) for part in parts])
    tenants, codes = np.unique([item.job.tenant for item in revisions], return_inverse=True)
    owner = {
        "job_id": _named(row, [item.job.job_id for item in revisions]),
        "tenant": _named(codes[row], tenants.tolist()),
    }
    columns = (field.name for field in fields(kind))
    return owner, kind(
        **{name: np.concatenate([getattr(part, name) for part in (kind.empty(), *parts)]) for name in columns}
    )


def _addresses(topology: Topology, endpoints: npt.NDArray[np.integer[Any]]) -> pa.Array:
    """Return the addresses of endpoints, empty for a negative row."""
    return _named(np.where(endpoints < 0, len(topology), endpoints), (*topology.endpoints, ""))


def _named(codes: npt.NDArray[np.integer[Any]], names: Sequence[str]) -> pa.Array:
    """Return names by their position, dictionary-encoded; ClickHouse needs distinct names."""
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), _texts(names))


def _unsigned(column: npt.NDArray[np.integer[Any]], kind: pa.DataType) -> pa.Array:
    """Cast a column to an unsigned type. Raises ArrowInvalid, a ValueError, if a number does not fit."""
    return pa.array(column).cast(kind)


def _texts(values: Iterable[str]) -> pa.Array:
    return pa.array(list(values), pa.string())


def _times(nanoseconds: Sequence[int] | npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(np.asarray(nanoseconds, dtype=np.int64)).cast(pa.timestamp("ns"))


def write_revision(
    store: Store,
    topology: Topology,
    window: Window,
    revision: int,
    found: WindowRevision,
    reaches: Mapping[str, Reach],
) -> dict[str, int]:
    """Write all rows of a window's revision, then publish them together.

    Before that no reader sees any of them.

    Parameters: `topology`, the one whose rows the endpoints are; `revision`, the number claimed for this analysis;
    `reaches`, what is published of these jobs now, see read_reaches.
    Returns how many rows were written into each table.
    Raises StoreError if the database refuses, ClaimedError, with nothing published, if a later analysis by another
    worker has published one of the jobs; ValueError if a job is given twice.
    """
    jobs = found.jobs
    job_ids = [item.job.job_id for item in jobs]
    if len({*job_ids, *found.withdrawn}) != len(job_ids) + len(found.withdrawn):
        raise ValueError(f"a job has more than one revision in the window that starts at {window.start_ns}")
    if any(reach.revision > revision for reach in reaches.values()):
        raise ClaimedError(f"{store}: another process has published after revision {revision}; nothing was published")
    tables = {
        "steps_log": _step_rows(topology, jobs),
        "gpu_steps_log": _gpu_step_rows(topology, jobs),
        "what_if_log": _what_if_rows(jobs),
        "job_members_log": _member_rows(topology, jobs),
        "pairs_log": _pair_rows(topology, jobs),
        "groups_log": _group_rows(topology, jobs),
        "diagnoses_log": _finding_rows(jobs, found.findings),
        "incidents_log": _incident_rows(found.incidents),
        "exporters_log": _exporter_rows(window, found.exporters),
        "visibility_log": _visibility_rows(window, found.visibility),
        "jobs_log": _job_rows(topology, jobs),
    }
    published = _revision_rows(window, jobs, found.withdrawn, found.findings, reaches)
    inserts = [partial(_insert, table=name, columns=columns, revision=revision) for name, columns in tables.items()]
    store.at_once([partial(_insert_timeline, topology=topology, jobs=jobs, revision=revision), *inserts])
    # Last: from here on readers see the rows above.
    _insert(store, "revisions", published, revision)
    phases = sum(len(item.timeline.step) for item in jobs)
    return {name: len(table) for name, table in tables.items()} | {"revisions": len(published), "timeline_log": phases}


def _insert_timeline(store: Store, topology: Topology, jobs: Sequence[JobRevision], revision: int) -> None:
    for number, part in enumerate(timeline_parts(topology, jobs)):
        _insert(store, "timeline_log", part, revision, number)


def _insert(store: Store, table: str, columns: pa.Table, revision: int, part: int = 0) -> None:
    """Insert rows of a revision.

    An insert that is sent again after a broken connection is recognised by its token and lands once.
    """
    numbered = columns.append_column("revision", pa.array(np.full(len(columns), revision, dtype=np.uint64)))
    token = f"revision {revision} {part}" if part else f"revision {revision}"
    store.insert(table, numbered, settings={"insert_deduplication_token": token, **IN_ONE_BLOCK})
