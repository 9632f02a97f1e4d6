"""Publishes the results that a test makes up for jobs."""

from __future__ import annotations

from collections.abc import Sequence

from prism_ch.model.exporter import ExporterStates
from prism_ch.model.finding import Finding
from prism_ch.model.incident import Incident
from prism_ch.model.memory import JobRevision, WindowRevision
from prism_ch.model.topology import Topology
from prism_ch.model.window import Window
from prism_ch.store.client import Store
from prism_ch.store.read import read_reaches
from prism_ch.store.write import write_revision


def write_revisions(  # noqa: PLR0913, PLR0917 - the parts of a revision
    store: Store,
    topology: Topology,
    window: Window,
    revision: int,
    jobs: Sequence[JobRevision],
    withdrawn: Sequence[str] = (),
    findings: Sequence[Finding] = (),
    exporters: ExporterStates | None = None,
    incidents: Sequence[Incident] = (),
) -> dict[str, int]:
    """Publish a window's revision; parts that are left out are empty. Returns how many rows, by table."""
    seen = exporters or ExporterStates.unknown(())
    found = WindowRevision(tuple(jobs), tuple(withdrawn), tuple(findings), seen, tuple(incidents))
    reaches = read_reaches(store, [*(job.job.job_id for job in jobs), *withdrawn], window.start_ns)
    return write_revision(store, topology, window, revision, found, reaches)
