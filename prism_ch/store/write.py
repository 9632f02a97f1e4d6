"""Writes what one working of a window found, and then publishes it in one statement."""

from __future__ import annotations

from collections.abc import Sequence

from prism_ch.errors import ClaimedError
from prism_ch.model.exporter import ExporterStates
from prism_ch.model.result import Diagnosis, JobRevision
from prism_ch.model.topology import Topology
from prism_ch.model.window import Window
from prism_ch.store import rows
from prism_ch.store.client import Store
from prism_ch.store.statements import statement


def write_revisions(
    store: Store,
    topology: Topology,
    window: Window,
    revision: int,
    job_revisions: Sequence[JobRevision],
    tombstones: Sequence[str] = (),
    cluster_findings: Sequence[Diagnosis] = (),
    exporters: ExporterStates | None = None,
) -> None:
    """Write all rows of a window's revisions, then publish them together; before that no reader sees any of them.

    Parameters: `topology`, the one whose rows the endpoints are; `revision`, as claimed for this working; `tombstones`,
    ids of jobs that are withdrawn whole; `cluster_findings`, findings about no single job, which replace those that
    start in this window or later; `exporters`, what the window shows of them, likewise.
    Raises StoreError where the database refuses, ClaimedError where a later working of another worker has published one
    of the jobs, and nothing is published then; ValueError where a job is given twice.
    """
    job_ids = [item.job.job_id for item in job_revisions]
    if len({*job_ids, *tombstones}) != len(job_ids) + len(tombstones):
        raise ValueError(f"a job has more than one revision in the window that starts at {window.start_ns}")
    reaches = _reaches(store, [*job_ids, *tombstones, ""], revision)
    tables = {
        "steps_log": rows.steps(topology, job_revisions),
        "gpu_steps_log": rows.gpu_steps(topology, job_revisions),
        "timeline_log": rows.timeline(topology, job_revisions),
        "job_members_log": rows.job_members(topology, job_revisions),
        "pairs_log": rows.pairs(topology, job_revisions),
        "groups_log": rows.groups(topology, job_revisions),
        "diagnoses_log": rows.diagnoses(job_revisions, cluster_findings),
        "exporters_log": rows.exporters(window, exporters or ExporterStates.unknown(())),
        "jobs_log": rows.jobs(topology, job_revisions),
        # Last: from here on readers see the rows above.
        "revisions": rows.revisions(window, job_revisions, tombstones, cluster_findings, reaches),
    }
    # An insert that is sent again after a broken connection is recognised by its token and lands once.
    once = {"insert_deduplication_token": f"revision {revision}"}
    for table, columns in tables.items():
        store.insert(table, rows.under_revision(columns, revision), settings=once)


def _reaches(store: Store, job_ids: Sequence[str], revision: int) -> dict[str, rows.Reach]:
    """Return how far the published revisions of jobs reach; none of them is later than this one."""
    found = {
        job_id: rows.Reach(*reach) for job_id, *reach in store.rows(statement("revision_marks"), {"job_ids": job_ids})
    }
    if any(reach.revision > revision for reach in found.values()):
        raise ClaimedError(f"{store}: another process has worked later than revision {revision}; nothing was published")
    return found
