"""The rows of the timeline, of which there are more than flows, in parts that take little memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from prism_ch.model.memory import JobRevision
from prism_ch.model.topology import Topology

_SCHEMA = pa.schema(
    {
        "job_id": pa.string(),
        "endpoint": pa.string(),
        "step": pa.uint64(),
        "start_time": pa.timestamp("ns"),
        "phases": pa.list_(pa.int8()),
        "lengths_ns": pa.list_(pa.uint64()),
    }
)

#: Phases that one statement inserts, but for those of one job, at 9 bytes each, of which the engine takes five times as
#: much: enough that statements cost little beside them, and that they make few parts of the table.
_MAX_PHASES = 2_000_000


def timeline_parts(topology: Topology, revisions: Sequence[JobRevision]) -> Iterator[pa.Table]:
    """Yield the phases of jobs in order, those of small ones together.

    All at once would be the most memory that a large window takes, here and again in the engine.
    """
    parts, phases = [_SCHEMA.empty_table()], 0
    for item in revisions:
        if phases and phases + len(item.timeline) > _MAX_PHASES:
            yield pa.concat_tables(parts)
            parts, phases = [], 0
        parts.append(_rows(topology, item))
        phases += len(item.timeline)
    yield pa.concat_tables(parts)


def _rows(topology: Topology, item: JobRevision) -> pa.Table:
    """Return a row each GPU-step of a job."""
    phases = item.timeline
    offsets = pa.array(phases.first.astype(np.int32))
    codes = pa.array((phases.phase + 1).astype(np.int8))  # the codes of the table's Enum8 count from 1
    columns = [
        pa.array([item.job.job_id] * len(phases.step), pa.string()),
        pa.array(topology.endpoints, pa.string()).take(pa.array(phases.endpoint)),
        pa.array(phases.step).cast(pa.uint64()),
        pa.array(phases.start_ns).cast(pa.timestamp("ns")),
        pa.ListArray.from_arrays(offsets, codes),
        pa.ListArray.from_arrays(offsets, pa.array(phases.length_ns).cast(pa.uint64())),
    ]
    return pa.Table.from_arrays(columns, schema=_SCHEMA)
