"""Reads back what was known of jobs and exporters before a window."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from prism_ch.core.arrays import order_by
from prism_ch.model.columns import Int64, ragged
from prism_ch.model.exporter import ExporterHistory
from prism_ch.model.finding import Finding
from prism_ch.model.incident import Incident
from prism_ch.model.memory import JobMemory, RememberedSteps, WindowMemory, clocks_since_ns
from prism_ch.model.params import ContinueParams, Params
from prism_ch.model.result import GpuSteps, Group, JobRecord, Members, Pairs, Steps
from prism_ch.model.topology import Topology
from prism_ch.model.window import Window
from prism_ch.store.client import Store
from prism_ch.store.memory import read_baseline, read_costs, read_job_notes
from prism_ch.store.statements import statement

#: Number of the first kind in the database's Enum; the model's codes count from 0.
_FIRST_KIND = 1

_Struct = TypeVar("_Struct", Members, Pairs, Steps, GpuSteps)


@dataclass(frozen=True, slots=True)
class Reach:
    """How far the published revisions of a job reach: the latest, the step after their last, their last finding."""

    revision: int = 0
    next_step: int = 0
    last_ns: int = 0


def read_memory(store: Store, topology: Topology, window: Window, params: Params) -> WindowMemory:
    """Return all that was known before a window."""
    jobs = read_jobs(store, topology, window.start_ns, params.going_on)
    exporters = read_exporter_history(store, clocks_since_ns(window, jobs, params), window.start_ns)
    findings = tuple(read_cluster_findings(store, window.start_ns))
    since_ns = window.start_ns - params.incident.quiet_s * 10**9
    paused = [pause.incident_id for job in jobs for pause in job.pauses]
    return WindowMemory(tuple(jobs), findings, exporters, read_incidents(store, window.start_ns, since_ns, paused))


def read_jobs(
    store: Store, topology: Topology, before_ns: int, params: ContinueParams, *, seen_since_ns: int = 0
) -> list[JobMemory]:
    """Return what was known of every job before a window.

    That is its newest revision published for an earlier window.

    Parameters: `topology`, whose rows the endpoints become: members, pairs and steps of endpoints it does not know are
    left out; `before_ns`, start of the window; `params`, which steps of each job are read; `seen_since_ns`: jobs last
    seen before are left out. Nanoseconds since the epoch.
    Returns the jobs by job_id; members are sorted by endpoint, pairs by (src, dst), steps by step, GPU steps by
    (endpoint, step).
    """
    jobs = store.arrow(statement("state_jobs"), {"before_ns": before_ns, "seen_since_ns": seen_since_ns}).to_pylist()
    if not jobs:
        return []
    revisions = [job.pop("revision") for job in jobs]
    notes = [read_job_notes(job["job_id"], job.pop("memory")) for job in jobs]
    job_ids = [job["job_id"] for job in jobs]
    published = {"job_ids": job_ids, "revisions": revisions}
    before = {"job_ids": job_ids, "before_ns": before_ns}
    records = [JobRecord(**job) for job in jobs]
    histories = [RememberedSteps.of(record, params) for record in records]
    newest = {
        **before,
        "since_steps": [history.recent for history in histories],
        "until_steps": [history.until for history in histories],
    }
    of_old = {
        "since_steps": [history.since for history in histories],
        "recent_steps": [history.recent for history in histories],
        "strides": [history.stride for history in histories],
    }
    members = _members(topology, job_ids, store.arrow(statement("state_members"), published))
    pairs = _pairs(topology, job_ids, store.arrow(statement("state_pairs"), published))
    groups = _groups(topology, store.arrow(statement("state_groups"), published))
    steps = _steps(topology, job_ids, store.arrow(statement("state_steps"), newest | of_old))
    gpu_steps = _gpu_steps(topology, job_ids, store.arrow(statement("state_gpu_steps"), newest))
    findings = _findings(store.arrow(statement("state_diagnoses"), before))
    parts = [history.parts(known) for history, known in zip(histories, steps, strict=True)]
    return [
        JobMemory(
            job=record,
            members=members[row],
            pairs=pairs[row],
            groups=tuple(groups[record.job_id]),
            steps=parts[row][0],
            gpu_steps=gpu_steps[row],
            findings=tuple(one for one in findings[record.job_id] if one.status == "open"),
            baseline_steps=parts[row][1],
            attempt=notes[row].attempt,
            usual_compute=notes[row].usual_compute,
            pauses=histories[row].pauses(findings[record.job_id]),
        )
        for row, record in enumerate(records)
    ]


def read_cluster_findings(store: Store, before_ns: int) -> list[Finding]:
    """Return findings about no single job, open before a window, by start and diagnosis_id."""
    before = {"job_ids": [""], "before_ns": before_ns}
    return _findings(store.arrow(statement("state_diagnoses"), before))[""]


def read_incidents(
    store: Store, before_ns: int, since_ns: int, incident_ids: Sequence[str] = ()
) -> tuple[Incident, ...]:
    """Return incidents that were open before a window, or are among some."""
    span = {"before_ns": before_ns, "since_ns": since_ns, "incident_ids": list(incident_ids)}
    rows = store.arrow(statement("state_incidents"), span).to_pylist()
    typed: Iterator[dict[str, Any]] = (
        {"may_also_be": tuple(row.pop("may_also_be")), "costs": read_costs(row.pop("costs"))} for row in rows
    )
    return tuple(Incident(**row, **more) for row, more in zip(rows, typed, strict=True))


def read_reaches(store: Store, job_ids: Iterable[str], from_ns: int) -> dict[str, Reach]:
    """Return how far jobs reach, and those last published for a window from `from_ns` on.

    The job without a name stands for what is about no single one.
    """
    key = {"job_ids": [*job_ids, ""], "from_ns": from_ns}
    return {job_id: Reach(*reach) for job_id, *reach in store.rows(statement("revision_marks"), key)}


def live_jobs(store: Store, reaches: Mapping[str, Reach], mentioned: Collection[str] = ()) -> list[str]:
    """List jobs that are not mentioned, and not withdrawn by their latest revision."""
    latest = {job_id: reach.revision for job_id, reach in reaches.items() if job_id and job_id not in mentioned}
    if not latest:
        return []
    key = {"job_ids": list(latest), "revisions": list(latest.values())}
    return [job_id for (job_id,) in store.rows(statement("live_jobs"), key)]


def read_exporter_history(store: Store, from_ns: int, before_ns: int) -> ExporterHistory:
    """Return the clock offsets found by windows that start in [from_ns, before_ns)."""
    table = store.arrow(statement("exporter_history"), {"from_ns": from_ns, "before_ns": before_ns})
    names, exporter = np.unique(np.array(table["exporter"].to_pylist(), dtype=object), return_inverse=True)
    return ExporterHistory(
        exporter.astype(np.int32),
        table["window_start_ns"].to_numpy(),
        table["clock_offset_s"].to_numpy(),
        table["clock_uncertainty_s"].to_numpy(),
        tuple(names.tolist()),
    )


def _members(topology: Topology, job_ids: Sequence[str], table: pa.Table) -> list[Members]:
    columns = _numbers(table, "dp_group", "pp_stage", "first_seen_ns", "last_seen_ns")
    columns["endpoint"] = _codes(table["endpoint"], topology.index)
    return _by_job(Members, ("endpoint",), job_ids, table["job_id"], columns)


def _pairs(topology: Topology, job_ids: Sequence[str], table: pa.Table) -> list[Pairs]:
    columns = _numbers(table, "confidence", "flows", "bytes", "first_seen_ns", "last_seen_ns")
    columns["src"] = _codes(table["src_addr"], topology.index)
    columns["dst"] = _codes(table["dst_addr"], topology.index)
    columns["kind"] = table["kind"].to_numpy() - _FIRST_KIND
    return _by_job(Pairs, ("src", "dst"), job_ids, table["job_id"], columns)


def _steps(topology: Topology, job_ids: Sequence[str], table: pa.Table) -> list[Steps]:
    """Return each job's steps, also those whose slowest endpoints the topology does not know."""
    columns = _numbers(table, "step", "start_ns", "end_ns", "compute_s", "pp_s", "dp_s", "complete")
    known = topology.index
    columns["slowest"] = ragged(
        [known[address] for address in addresses if address in known]
        for addresses in table["slowest_endpoints"].to_pylist()
    )
    return _by_job(Steps, ("step",), job_ids, table["job_id"], columns)


def _gpu_steps(topology: Topology, job_ids: Sequence[str], table: pa.Table) -> list[GpuSteps]:
    columns = _numbers(table, "step", "start_ns", "end_ns", "compute_s", "pp_s", "dp_s", "complete")
    columns["endpoint"] = _codes(table["endpoint"], topology.index)
    return _by_job(GpuSteps, ("endpoint", "step"), job_ids, table["job_id"], columns)


def _groups(topology: Topology, table: pa.Table) -> dict[str, list[Group]]:
    """Return each job's groups, by group_id, without the members that the topology does not know."""
    found: dict[str, list[Group]] = defaultdict(list)
    for row in table.to_pylist():
        members = tuple(topology.index[address] for address in row["members"] if address in topology.index)
        found[row["job_id"]].append(Group(row["group_id"], row["kind"] - _FIRST_KIND, row["pp_stage"], members))
    return found


def _findings(table: pa.Table) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = defaultdict(list)
    for row in table.to_pylist():
        evidence, baseline = json.loads(row.pop("evidence")), read_baseline(row.pop("baseline"))
        found[row.pop("job_id")].append(Finding(**row, evidence=evidence, baseline=baseline))
    return found


def _numbers(table: pa.Table, *names: str) -> dict[str, npt.NDArray[Any]]:
    return {name: table[name].to_numpy() for name in names}


def _codes(texts: pa.ChunkedArray, index: Mapping[str, int]) -> Int64:
    encoded = pa.chunked_array(texts, pa.string()).dictionary_encode().unify_dictionaries()
    codes = [
        np.array([index.get(text, -1) for text in chunk.dictionary.to_pylist()], np.int64) for chunk in encoded.chunks
    ]
    return np.concatenate(
        [
            np.empty(0, np.int64),
            *(code[chunk.indices.to_numpy()] for code, chunk in zip(codes, encoded.chunks, strict=True)),
        ]
    )


def _by_job(
    kind: type[_Struct],
    keys: Sequence[str],
    job_ids: Sequence[str],
    owners: pa.ChunkedArray,
    columns: Mapping[str, npt.NDArray[Any]],
) -> list[_Struct]:
    """Split rows by job, each sorted by `keys`, without rows with a negative key."""
    job = _codes(owners, {job_id: row for row, job_id in enumerate(job_ids)})
    order = order_by(job, *(columns[key] for key in keys))
    known = np.logical_and.reduce([columns[key][order] >= 0 for key in keys])
    order = order[known]
    edges = np.searchsorted(job[order], np.arange(len(job_ids) + 1))
    return [
        kind(**{name: column[order[begin:end]] for name, column in columns.items()}) for begin, end in pairwise(edges)
    ]
