"""What the database's views tell of lost time, beside the incidents in memory: a fault landed, analysed and read."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.accuracy.faults.cases import Case
from bench.accuracy.faults.truth import Truth, true_of
from bench.accuracy.work import Inputs, empty_store, landed, require_worked
from prism_ch.settings import Settings
from prism_ch.simulate import generate, write
from prism_ch.store.client import Store
from prism_ch.worker import analyse, look_ahead

_LOST = "SELECT job_id, sum(gpu_hours_lost) * 3600 FROM losses GROUP BY job_id"
#: What `losses` also tells of: information about another time is of hiccups, which the run without the fault had too.
_HICCUPS = """
SELECT job, sum(lost_s * gpus)
FROM (SELECT jobs, jobs_lost_s, jobs_gpus FROM incidents WHERE severity = 'info'
    AND (toUnixTimestamp64Nano(start_time) >= {end_ns:Int64} OR toUnixTimestamp64Nano(end_time) <= {start_ns:Int64}))
ARRAY JOIN jobs AS job, jobs_lost_s AS lost_s, jobs_gpus AS gpus
GROUP BY job
"""
_MEMBERS = "SELECT job_id, groupUniqArray(endpoint) FROM job_members GROUP BY job_id"


def work(case: Case) -> list[tuple[float, float]]:
    """List GPU-seconds lost, true and found, of each job that loses much."""
    made = generate(case.scenario())
    truth = true_of(case, made)
    with tempfile.TemporaryDirectory() as folder, empty_store() as store:
        write(made, Path(folder))
        flows = f"{folder}/flows/*.parquet"
        landed(store, Inputs(flows, f"{folder}/topology.csv", [], Path(folder), recorded=False), [flows])
        # As a service does at the recording's end: where it ends with a hang, only the clock tells that time goes by.
        settings, end_ns = Settings(url=f"chdb://?database={store.database}"), made.summary["window_end_ns"]
        analyse(store, settings, until_ns=end_ns, silent_until_ns=end_ns, arrived_until_ns=end_ns)
        if look_ahead(store, settings, end_ns) is None:
            analyse(store, settings)  # the recording is shorter than a window
        require_worked(store)
        return list(_losses(store, truth))


def _losses(store: Store, truth: Truth) -> Iterator[tuple[float, float]]:
    lost = dict(store.rows(_LOST))
    hiccups = dict(store.rows(_HICCUPS, {"start_ns": truth.start_ns, "end_ns": truth.end_ns}))
    members = {job_id: frozenset(endpoints) for job_id, endpoints in store.rows(_MEMBERS)}
    for cost in truth.costs:
        if truth.is_shown and cost.is_costly:
            mine = [job_id for job_id, held in members.items() if 2 * len(held & cost.endpoints) > len(held)]
            yield cost.lost_gpu_s, sum(lost.get(job_id, 0.0) - hiccups.get(job_id, 0.0) for job_id in mine)
