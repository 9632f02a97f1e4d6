"""Deletes what no reader sees and no working will need again: superseded states, replaced steps, unpublished rows."""

from __future__ import annotations

import logging
from collections.abc import Callable

from prism_ch.store.client import Store
from prism_ch.store.statements import statement

log = logging.getLogger(__name__)

#: What is dead, by the view that lists it, and where it is deleted from, in this order. The table that the view reads
#: comes last, so that the list holds until all of it is deleted; `revisions`, which the others rest on, at the end.
_DEAD = {
    "dead_states": ("job_members_log", "pairs_log", "groups_log", "jobs_log"),
    "dead_steps": ("timeline_log", "gpu_steps_log", "steps_log"),
    "dead_findings": ("diagnoses_log",),
    "dead_exporters": ("exporters_log",),
    "dead_revisions": ("revisions",),
}
#: Tables to which a working writes before it publishes.
_WRITTEN = tuple(table for view, tables in _DEAD.items() if view != "dead_revisions" for table in tables)

#: Deleted is what each replica finds dead when it comes to it: what is dead once is so for good.
_SETTINGS = {"mutations_sync": 1, "allow_nondeterministic_mutations": 1}


def prune(store: Store, stop: Callable[[], bool] = bool) -> int:
    """Delete what is dead, and return how many tables that concerned; 0 where there was nothing to delete.

    Dead is what windows that are final for a day replaced, and what workings wrote that were never published, after a
    day. Results are the same before and after. Safe beside an analysis, and broken off, it is completed next time.
    Parameters: `stop`, asked between tables, leaves the others for later.
    """
    pruned = 0
    for table in _WRITTEN:
        if stop():
            return pruned
        if store.scalar(statement("count_unpublished"), {"table": table}):
            pruned += _delete(store, "prune_unpublished", table)
    for view, tables in _DEAD.items():
        if not store.scalar(statement("count_dead"), {"view": view}):
            continue
        for table in tables:
            if stop():
                return pruned
            pruned += _delete(store, f"prune_{view}", table)
    return pruned


def _delete(store: Store, name: str, table: str) -> int:
    """Delete from one table."""
    store.command(statement(name), {"table": table}, settings=_SETTINGS)
    log.info("pruned table=%s what=%s", table, name.removeprefix("prune_"))
    return 1
