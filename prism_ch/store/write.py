"""Writes the results of one analysis of a window, and then publishes them in one statement."""

from __future__ import annotations

from collections.abc import Sequence

from prism_ch.errors import ClaimedError
from prism_ch.model.memory import WindowRevision
from prism_ch.model.topology import Topology
from prism_ch.model.window import Window
from prism_ch.store import rows
from prism_ch.store.client import Store
from prism_ch.store.statements import statement


def write_revision(store: Store, topology: Topology, window: Window, revision: int, found: WindowRevision) -> None:
    """Write all rows of a window's revision, then publish them together; before that no reader sees any of them.

    Parameters: `topology`, the one whose rows the endpoints are; `revision`, the number claimed for this working.
    Raises StoreError where the database refuses, ClaimedError where a later working of another worker has published one
    of the jobs, and nothing is published then; ValueError where a job is given twice.
    """
    jobs = found.jobs
    job_ids = [item.job.job_id for item in jobs]
    if len({*job_ids, *found.withdrawn}) != len(job_ids) + len(found.withdrawn):
        raise ValueError(f"a job has more than one revision in the window that starts at {window.start_ns}")
    reaches = _reaches(store, [*job_ids, *found.withdrawn, ""], revision)
    tables = {
        "steps_log": rows.steps(topology, jobs),
        "gpu_steps_log": rows.gpu_steps(topology, jobs),
        "timeline_log": rows.timeline(topology, jobs),
        "job_members_log": rows.job_members(topology, jobs),
        "pairs_log": rows.pairs(topology, jobs),
        "groups_log": rows.groups(topology, jobs),
        "diagnoses_log": rows.findings(jobs, found.findings),
        "exporters_log": rows.exporters(window, found.exporters),
        "jobs_log": rows.jobs(topology, jobs),
        # Last: from here on readers see the rows above.
        "revisions": rows.revisions(window, jobs, found.withdrawn, found.findings, reaches),
    }
    # An insert that is sent again after a broken connection is recognised by its token and lands once.
    once = {"insert_deduplication_token": f"revision {revision}"}
    for table, columns in tables.items():
        store.insert(table, rows.under_revision(columns, revision), settings=once)


def _reaches(store: Store, job_ids: Sequence[str], revision: int) -> dict[str, rows.Reach]:
    """Return how far the published revisions of jobs reach. Raises ClaimedError if one is later."""
    found = {
        job_id: rows.Reach(*reach) for job_id, *reach in store.rows(statement("revision_marks"), {"job_ids": job_ids})
    }
    if any(reach.revision > revision for reach in found.values()):
        raise ClaimedError(f"{store}: another process has published after revision {revision}; nothing was published")
    return found
