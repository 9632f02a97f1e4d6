"""Reads back what was known of the jobs before a window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from prism_ch.core.arrays import order_by
from prism_ch.model.columns import Int64
from prism_ch.model.params import ContinueParams
from prism_ch.model.result import Diagnosis, GpuSteps, Group, JobRecord, JobState, Members, Pairs, Steps
from prism_ch.model.step_history import StepHistory
from prism_ch.model.topology import Topology
from prism_ch.store.client import Store
from prism_ch.store.statements import statement

#: Number of the first kind in the database's Enum; the model's codes count from 0.
_FIRST_KIND = 1

_Struct = TypeVar("_Struct", Members, Pairs, Steps, GpuSteps)


def read_job_states(
    store: Store, topology: Topology, before_ns: int, params: ContinueParams, *, seen_since_ns: int = 0
) -> list[JobState]:
    """Return what was known of every job before a window: its newest revision published for an earlier window.

    Parameters: `topology`, whose rows the endpoints become: members, pairs and steps of endpoints it does not know are
    left out; `before_ns`, start of the window; `params`, which steps of each job are read; `seen_since_ns`: jobs last
    seen before are left out. Nanoseconds since the epoch.
    Returns the states by job_id; members are sorted by endpoint, pairs by (src, dst), steps by step, GPU steps by
    (endpoint, step).
    """
    jobs = store.arrow(statement("state_jobs"), {"before_ns": before_ns, "seen_since_ns": seen_since_ns}).to_pylist()
    if not jobs:
        return []
    revisions = [job.pop("revision") for job in jobs]
    job_ids = [job["job_id"] for job in jobs]
    as_of = {"job_ids": job_ids, "revisions": revisions}
    before = {"job_ids": job_ids, "before_ns": before_ns}
    records = [JobRecord(**job) for job in jobs]
    histories = [StepHistory.of(record, params) for record in records]
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
    members = _members(topology, job_ids, store.arrow(statement("state_members"), as_of))
    pairs = _pairs(topology, job_ids, store.arrow(statement("state_pairs"), as_of))
    groups = _groups(topology, store.arrow(statement("state_groups"), as_of))
    steps = _steps(topology, job_ids, store.arrow(statement("state_steps"), newest | of_old))
    gpu_steps = _gpu_steps(topology, job_ids, store.arrow(statement("state_gpu_steps"), newest))
    findings = _findings(store.arrow(statement("state_diagnoses"), before))
    parts = [history.parts(known) for history, known in zip(histories, steps, strict=True)]
    return [
        JobState(
            job=record,
            members=members[row],
            pairs=pairs[row],
            groups=tuple(groups[record.job_id]),
            steps=parts[row][0],
            gpu_steps=gpu_steps[row],
            diagnoses=tuple(findings[record.job_id]),
            older=parts[row][1],
        )
        for row, record in enumerate(records)
    ]


def read_cluster_findings(store: Store, before_ns: int) -> list[Diagnosis]:
    """Return the findings about no single job that were open before a window, by start and diagnosis_id."""
    before = {"job_ids": [""], "before_ns": before_ns}
    return _findings(store.arrow(statement("state_diagnoses"), before))[""]


def live_jobs_from(store: Store, from_ns: int) -> list[str]:
    """Return the ids of the jobs whose latest revision is of a window that starts at `from_ns` or later, in order.

    What they say rests on windows from there on: where those are worked again, each is published anew or withdrawn.
    """
    return [job_id for (job_id,) in store.rows(statement("live_jobs"), {"from_ns": from_ns})]


def _members(topology: Topology, job_ids: Sequence[str], table: pa.Table) -> list[Members]:
    """Return each job's members."""
    columns = _numbers(table, "dp_group", "pp_stage", "first_seen_ns", "last_seen_ns")
    columns["endpoint"] = _endpoints(topology, table["endpoint"])
    return _by_job(Members, ("endpoint",), job_ids, table["job_id"], columns)


def _pairs(topology: Topology, job_ids: Sequence[str], table: pa.Table) -> list[Pairs]:
    """Return each job's pairs."""
    columns = _numbers(table, "confidence", "flows", "bytes", "first_seen_ns", "last_seen_ns")
    columns["src"] = _endpoints(topology, table["src_addr"])
    columns["dst"] = _endpoints(topology, table["dst_addr"])
    columns["kind"] = table["kind"].to_numpy() - _FIRST_KIND
    return _by_job(Pairs, ("src", "dst"), job_ids, table["job_id"], columns)


def _steps(topology: Topology, job_ids: Sequence[str], table: pa.Table) -> list[Steps]:
    """Return each job's steps; one whose slowest endpoint is unknown stays, with none named."""
    columns = _numbers(table, "step", "start_ns", "end_ns", "compute_s", "pp_s", "dp_s", "complete")
    columns["slowest"] = _endpoints(topology, table["slowest_endpoint"])
    return _by_job(Steps, ("step",), job_ids, table["job_id"], columns)


def _gpu_steps(topology: Topology, job_ids: Sequence[str], table: pa.Table) -> list[GpuSteps]:
    """Return the steps of each job's endpoints."""
    columns = _numbers(table, "step", "start_ns", "end_ns", "compute_s", "pp_s", "dp_s", "complete")
    columns["endpoint"] = _endpoints(topology, table["endpoint"])
    return _by_job(GpuSteps, ("endpoint", "step"), job_ids, table["job_id"], columns)


def _groups(topology: Topology, table: pa.Table) -> dict[str, list[Group]]:
    """Return each job's groups, by group_id, without the members that the topology does not know."""
    found: dict[str, list[Group]] = defaultdict(list)
    for row in table.to_pylist():
        members = tuple(topology.index[address] for address in row["members"] if address in topology.index)
        found[row["job_id"]].append(Group(row["group_id"], row["kind"] - _FIRST_KIND, row["pp_stage"], members))
    return found


def _findings(table: pa.Table) -> dict[str, list[Diagnosis]]:
    """Return each job's findings, in the order read."""
    found: dict[str, list[Diagnosis]] = defaultdict(list)
    for row in table.to_pylist():
        found[row.pop("job_id")].append(Diagnosis(**row))
    return found


def _numbers(table: pa.Table, *names: str) -> dict[str, npt.NDArray[Any]]:
    """Return the named columns as they are."""
    return {name: table[name].to_numpy() for name in names}


def _endpoints(topology: Topology, addresses: pa.ChunkedArray) -> Int64:
    """Return the rows that addresses have in the topology, -1 where it does not know them."""
    return _codes(addresses, topology.index)


def _codes(texts: pa.ChunkedArray, index: Mapping[str, int]) -> Int64:
    """Look each text up in an index, once a distinct text; -1 where it is not there."""
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
    """Divide rows by job, in the order of `job_ids`, each sorted by `keys`; rows with a negative key are left out."""
    job = _codes(owners, {job_id: row for row, job_id in enumerate(job_ids)})
    order = order_by(job, *(columns[key] for key in keys))
    known = np.logical_and.reduce([columns[key][order] >= 0 for key in keys])
    order = order[known]
    edges = np.searchsorted(job[order], np.arange(len(job_ids) + 1))
    return [
        kind(**{name: column[order[begin:end]] for name, column in columns.items()}) for begin, end in pairwise(edges)
    ]
