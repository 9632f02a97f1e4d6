"""The numbers by which the service is watched, as the database gives them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from prism_ch.health.database import count_behind
from prism_ch.health.exporters import read_standings
from prism_ch.health.light import Light
from prism_ch.settings import Settings
from prism_ch.store.client import Store
from prism_ch.store.statements import statement


@dataclass(frozen=True, slots=True)
class Measure:
    """One number: `name` ends in its unit, `label` says of what, and is empty where there is only one."""

    name: str
    label: str
    value: float


#: What each measure is and the name of its label; those whose name ends in _total only grow.
MEASURES = {
    "exporter_lag_seconds": ("Since the end of the exporter's last flow, seconds", "exporter"),
    "exporter_silent_seconds": ("Since the exporter's last record arrived, seconds", "exporter"),
    "records_landed_total": ("Flow records that can be used, as delivered", ""),
    "records_rejected_total": ("Flow records that can not be used", "reason"),
    "flows_late": ("Flow records that arrived after their window was first worked", ""),
    "windows_worked": ("Windows that have been worked", ""),
    "windows_failed": ("Windows whose last working failed", ""),
    "windows_behind": ("Windows that are closed and wait to be worked, new or changed", ""),
    "stage_seconds": ("What the last workings of all windows took, seconds", "stage"),
    "task_failures": ("Failures of the task in a row, until now", "task"),
    "task_success_time_seconds": ("When the task last succeeded, Unix seconds", "task"),
    "task_failure_time_seconds": ("When the task last failed, Unix seconds", "task"),
    "task_running_seconds": ("How long the task has been at work, seconds; 0 while it rests", "task"),
    "task_units_total": ("What the task has done since the service started: files, windows", "task"),
    "spool_files": ("Files that wait in the spool", ""),
    "memory_bytes": ("Memory of the service in use, bytes", ""),
    "database_up": ("1 where the database answers, else 0", ""),
}


def database_measures(store: Store, settings: Settings) -> list[Measure]:
    """Read the numbers that the database knows."""
    measures = [Measure("windows_behind", "", count_behind(store, settings))]
    for each in read_standings(store):
        measures.append(Measure("exporter_lag_seconds", each.exporter, each.lag_s))
        measures.append(Measure("exporter_silent_seconds", each.exporter, each.silent_s))
    records = dict(store.rows(statement("health_records")))
    measures.append(Measure("records_landed_total", "", records.pop("", 0)))
    measures += [Measure("records_rejected_total", reason, number) for reason, number in records.items()]
    worked, failed, _, late, *_ = store.rows(statement("health_windows"))[0]
    measures += [Measure("windows_worked", "", worked), Measure("windows_failed", "", failed)]
    measures.append(Measure("flows_late", "", late))
    measures += [
        Measure("stage_seconds", stage, seconds) for stage, _, seconds in store.rows(statement("health_stages"))
    ]
    return measures


def write_health(store: Store, process: str, lights: Iterable[Light], measures: Iterable[Measure]) -> None:
    """Note lights and measures in the tables of that name."""
    found = list(lights)
    store.insert(
        "health_log",
        {
            "process": pa.array([process] * len(found), pa.string()),
            "name": pa.array([light.name for light in found], pa.string()),
            "state": pa.array([light.state for light in found], pa.string()),
            "what": pa.array([light.what for light in found], pa.string()),
            "mend": pa.array([light.mend for light in found], pa.string()),
        },
    )
    measured = list(measures)
    store.insert(
        "measures_log",
        {
            "process": pa.array([process] * len(measured), pa.string()),
            "measure": pa.array([measure.name for measure in measured], pa.string()),
            "label": pa.array([measure.label for measure in measured], pa.string()),
            "value": pa.array([measure.value for measure in measured], pa.float64()),
        },
    )
